//! The server's own format, in which it keeps its objects: every part says how long it is, so that what nobody asks for
//! is passed over without being looked at. A node is some forty kilobytes, of which we want one.
//!
//! Only the wire format is here, and what all kinds share: fields by their numbers, metadata, the envelope of a list. What
//! a number means is said where it is read, by the name that `k8s.io/api` has for it. Called by [`super::nodes`].

use std::borrow::Cow;

use jiff::Timestamp;

use super::slim::{Meta, Notes, Owner, Pairs, Text, is_note};
use super::wire::Page;

/// What to ask for, and what to take where a server or something before it does not have it.
pub const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// What an answer in this format begins with.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer is not what it says it is: {0}")]
pub struct Malformed(&'static str);

/// A field's value: a number, or so many bytes, which may be a text or fields again.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in the order in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Field<'a> {
    /// The fields inside; none in a number.
    pub fn fields(self) -> Fields<'a> {
        Fields(self.bytes())
    }

    pub fn text(self) -> Result<Text<'a>, Malformed> {
        let text = std::str::from_utf8(self.bytes()).map_err(|_| Malformed("a text that is no text"))?;
        Ok(Text(Cow::Borrowed(text)))
    }

    pub fn is_true(self) -> bool {
        matches!(self, Self::Number(1..))
    }

    /// As the API writes signed numbers.
    pub fn number(self) -> i64 {
        match self {
            Self::Number(number) => number.cast_signed(),
            Self::Bytes(_) => 0,
        }
    }

    /// A `metav1.Time`.
    pub fn time(self) -> Result<Option<Timestamp>, Malformed> {
        let (mut seconds, mut nanos) = (None, 0);
        for field in self.fields() {
            match field? {
                (1, value) => seconds = Some(value.number()),
                (2, value) => nanos = i32::try_from(value.number()).unwrap_or(0),
                _ => {}
            }
        }
        Ok(seconds.and_then(|seconds| Timestamp::new(seconds, nanos).ok()))
    }

    /// An entry of a map.
    pub fn entry(self) -> Result<(Text<'a>, Field<'a>), Malformed> {
        let (mut key, mut value) = (Text::default(), Field::Bytes(&[]));
        for field in self.fields() {
            match field? {
                (1, found) => key = found.text()?,
                (2, found) => value = found,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(Malformed("a number that does not end"))
    }

    fn cut(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed("a part that is too long"))?;
        let (part, rest) = self.0.split_at_checked(length).ok_or(Malformed("a part that is longer than the whole"))?;
        self.0 = rest;
        Ok(part)
    }

    fn read(&mut self) -> Result<(u64, Field<'a>), Malformed> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.cut(8)?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.cut(length)?)
            }
            5 => Field::Bytes(self.cut(4)?),
            _ => return Err(Malformed("a field of no known kind")),
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0 = &[];
        }
        Some(read)
    }
}

/// The message in an answer, where it is in this format.
pub fn unwrapped(bytes: &[u8]) -> Option<Result<Fields<'_>, Malformed>> {
    let envelope = Fields(bytes.strip_prefix(MAGIC)?);
    // `runtime.Unknown`: what it is, and then the thing itself.
    let mut raw = Fields(&[]);
    for field in envelope {
        match field {
            Ok((2, found)) => raw = found.fields(),
            Ok(_) => {}
            Err(malformed) => return Some(Err(malformed)),
        }
    }
    Some(Ok(raw))
}

/// A list: each object turned into what is kept of it before the next one is read.
pub fn page<'a, K>(
    list: Fields<'a>,
    mut keep: impl FnMut(Fields<'a>) -> Result<Option<K>, Malformed>,
) -> Result<Page<K>, Malformed> {
    let (mut kept, mut next) = (Vec::new(), None);
    for field in list {
        match field? {
            (1, meta) => {
                for field in meta.fields() {
                    if let (3, token) = field? {
                        next = Some(token.text()?.0.into_owned());
                    }
                }
            }
            (2, item) => kept.extend(keep(item.fields())?),
            _ => {}
        }
    }
    Ok((kept, next))
}

/// `metav1.ObjectMeta`, as far as it is kept. Who wrote which field (17) is the largest part of it, and passed over.
pub fn meta<'a>(fields: Fields<'a>) -> Result<Meta<'a>, Malformed> {
    let mut meta = Meta::default();
    for field in fields {
        match field? {
            (1, value) => meta.name = value.text()?,
            (3, value) => meta.namespace = value.text()?,
            (5, value) => meta.uid = value.text()?,
            (6, value) => meta.resource_version = value.text()?,
            (8, value) => meta.creation_timestamp = value.time()?,
            (9, value) => meta.deletion_timestamp = value.time()?,
            (10, value) => meta.deletion_grace_period_seconds = Some(value.number()),
            (11, value) => {
                let (key, label) = value.entry()?;
                meta.labels.get_or_insert_with(Pairs::default).0.push((key, label.text()?));
            }
            (12, value) => {
                let (key, note) = value.entry()?;
                if is_note(key.as_str()) {
                    meta.annotations.get_or_insert_with(Notes::default).0.push((key, note.text()?));
                }
            }
            (13, value) => meta.owner_references.get_or_insert_with(Vec::new).push(owner(value.fields())?),
            _ => {}
        }
    }
    Ok(meta)
}

fn owner<'a>(fields: Fields<'a>) -> Result<Owner<'a>, Malformed> {
    let mut owner = Owner::default();
    for field in fields {
        match field? {
            (1, value) => owner.kind = value.text()?,
            (3, value) => owner.name = value.text()?,
            (4, value) => owner.uid = value.text()?,
            (6, value) => owner.controller = value.is_true(),
            _ => {}
        }
    }
    Ok(owner)
}

/// What a `metav1.Status` says: its message, its reason and its code.
pub fn status(fields: Fields<'_>) -> Result<(String, String, u16), Malformed> {
    let (mut message, mut reason, mut code) = (String::new(), String::new(), 0);
    for field in fields {
        match field? {
            (3, value) => message = value.text()?.0.into_owned(),
            (4, value) => reason = value.text()?.0.into_owned(),
            (6, value) => code = u16::try_from(value.number()).unwrap_or(0),
            _ => {}
        }
    }
    Ok((message, reason, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of so many bytes.
    fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
        let (length, key) = (u8::try_from(bytes.len()).unwrap(), u16::from(number) << 3 | 2);
        let [low, high] = [key & 0x7f, key >> 7].map(|part| u8::try_from(part).unwrap());
        let key = if high == 0 { vec![low] } else { vec![low | 0x80, high] };
        [&key, &[length][..], bytes].concat()
    }

    fn answer(list: &[u8]) -> Vec<u8> {
        [MAGIC, &part(1, b"kind and version"), &part(2, list)].concat()
    }

    #[test]
    fn a_page_says_how_to_go_on_and_what_nobody_asks_for_is_passed_over() {
        let named = |name: &str| part(1, &[part(1, name.as_bytes()), part(17, &[0xff; 40])].concat());
        let list = [part(1, &part(3, b"abc")), part(2, &named("a")), part(2, &named("b"))].concat();
        let bytes = answer(&list);
        let name = |fields: Fields<'_>| {
            let mut all = fields;
            let (_, found) = all.next().expect("metadata")?;
            meta(found.fields()).map(|meta| Some(meta.name.as_str().to_owned()))
        };
        let (found, next) = page(unwrapped(&bytes).unwrap().unwrap(), name).unwrap();
        assert_eq!((found, next), (vec!["a".to_owned(), "b".to_owned()], Some("abc".to_owned())));
        assert!(unwrapped(b"{\"items\": []}").is_none(), "JSON is read as JSON");
    }

    #[test]
    fn whatever_the_bytes_the_answer_is_an_error_or_a_page() {
        let whole = answer(&[part(1, &part(3, b"abc")), part(2, &part(1, &part(1, b"a")))].concat());
        for cut in 4..whole.len() {
            let read = unwrapped(&whole[..cut]).unwrap();
            let _ = read.and_then(|list| page(list, |fields| meta(fields).map(Some)));
        }
        for byte in 0..=255_u8 {
            let all = [byte; 24];
            assert!(Fields(&all).take(30).count() <= 24);
            let _ = meta(Fields(&all));
        }
        assert!(Fields(&[0x0a, 0x7f, 1]).next().unwrap().is_err(), "a part that is longer than the whole");
    }

    #[test]
    fn a_refusal_is_read_in_this_format_too() {
        let said = [part(3, b"nodes is forbidden"), part(4, b"Forbidden"), vec![6 << 3, 0x93, 0x03]].concat();
        assert_eq!(status(Fields(&said)), Ok(("nodes is forbidden".into(), "Forbidden".into(), 403)));
    }
}
