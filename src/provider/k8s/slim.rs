//! What is kept of the server's JSON while a page is read: texts are borrowed from it, and what nobody asks for is
//! passed over without being built. A node is some ten kilobytes of which we want one.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::wire;

/// A text of the page, copied only where it has escapes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Text<'a>(pub Cow<'a, str>);

/// A map as the server wrote it.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Pairs<'a>(pub Vec<(Text<'a>, Text<'a>)>);

/// Annotations: only those that mean something to us. Others may be large.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Notes<'a>(pub Vec<(Text<'a>, Text<'a>)>);

/// Annotations that are kept begin with one of these.
const NOTES: [&str; 6] = [
    "tidewright.dev/",
    "kubernetes.io/config.mirror",
    "kueue.x-k8s.io/workload",
    "kueue.x-k8s.io/elastic-job",
    "scheduling.k8s.io/group-name",
    "pod-group-name",
];

/// Whether an annotation means something to us.
pub fn is_note(key: &str) -> bool {
    NOTES.iter().any(|kept| key.starts_with(kept))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Default, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub namespace: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    pub creation_timestamp: Option<Timestamp>,
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    pub labels: Option<Pairs<'a>>,
    #[serde(borrow)]
    pub annotations: Option<Notes<'a>>,
    #[serde(borrow)]
    pub owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Default, Debug, Deserialize)]
#[serde(default)]
pub struct Owner<'a> {
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    pub controller: bool,
}

#[derive(Default, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub status: Text<'a>,
    #[serde(borrow)]
    pub reason: Text<'a>,
    #[serde(borrow)]
    pub message: Text<'a>,
    pub last_transition_time: Option<Timestamp>,
}

/// A page decoded, each object turned into what is kept of it before the next one is read: what is borrowed from the
/// page never adds up.
pub fn page<'a, T, K>(bytes: &'a [u8], mut keep: impl FnMut(T) -> Option<K>) -> Result<wire::Page<K>, serde_json::Error>
where
    T: Deserialize<'a>,
{
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let page = reader.deserialize_map(List(&mut keep, PhantomData))?;
    reader.end()?;
    Ok(page)
}

/// A list of `T`, and what is kept of each.
struct List<'k, T, F>(&'k mut F, PhantomData<T>);

/// Its items.
struct Items<'k, T, F>(&'k mut F, PhantomData<T>);

impl<'de, T: Deserialize<'de>, K, F: FnMut(T) -> Option<K>> Visitor<'de> for List<'_, T, F> {
    type Value = wire::Page<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<wire::Page<K>, A::Error> {
        let (mut items, mut meta) = (Vec::new(), ListMeta::default());
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match key.as_str() {
                "items" => items = map.next_value_seed(Items(self.0, PhantomData))?,
                "metadata" => meta = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((items, meta.next))
    }
}

impl<'de, T: Deserialize<'de>, K, F: FnMut(T) -> Option<K>> DeserializeSeed<'de> for Items<'_, T, F> {
    type Value = Vec<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<K>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>, K, F: FnMut(T) -> Option<K>> Visitor<'de> for Items<'_, T, F> {
    type Value = Vec<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<K>, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element()? {
            kept.extend(self.0(item));
        }
        Ok(kept)
    }

    /// Some servers write an empty list so.
    fn visit_unit<E>(self) -> Result<Vec<K>, E> {
        Ok(Vec::new())
    }
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Pairs<'a> {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found.as_str() == key).map(|(_, value)| value.as_str())
    }
}

impl Notes<'_> {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found.as_str() == key).map(|(_, value)| value.as_str())
    }
}

impl Meta<'_> {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key)
    }

    pub fn note(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key)
    }

    /// The owner that makes it again.
    pub fn controller(&self) -> Option<&Owner<'_>> {
        self.owner_references.iter().flatten().find(|owner| owner.controller)
    }
}

impl Condition<'_> {
    pub fn is_true(&self) -> bool {
        self.status.as_str() == "True"
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Reader<'a> {
            type Value = Text<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(text.into())))
            }
            // Quantities may be written as numbers.
            fn visit_u64<E>(self, number: u64) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
            fn visit_unit<E>(self) -> Result<Text<'a>, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pairs(deserializer, |_| true).map(Self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Notes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pairs(deserializer, is_note).map(Self)
    }
}

type Entries<'a> = Vec<(Text<'a>, Text<'a>)>;

fn pairs<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
    keeps: impl Fn(&str) -> bool,
) -> Result<Entries<'a>, D::Error> {
    struct Reader<'a, F>(F, PhantomData<&'a ()>);
    impl<'de: 'a, 'a, F: Fn(&str) -> bool> Visitor<'de> for Reader<'a, F> {
        type Value = Entries<'a>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'a>, A::Error> {
            let mut entries = Vec::new();
            while let Some(key) = map.next_key::<Text<'a>>()? {
                if self.0(key.as_str()) {
                    entries.push((key, map.next_value()?));
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(entries)
        }
        fn visit_unit<E>(self) -> Result<Entries<'a>, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(Reader(keeps, PhantomData))
}
