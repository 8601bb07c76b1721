//! Our memory, in config maps of our own namespace: one for the head, one for each pool, written only on the version
//! that was read.
//!
//! The names hold the fleet, so that two fleets of one cluster do not meet. Two who write at once: both read version
//! 7, one writes and makes it 8, the other is told that 7 is over and reads again. A part that is not there yet is
//! made by whoever is first; the other is told that it is there.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use data_encoding::BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::slim::page;
use super::wire::{Failure, MANAGER, escaped};
use super::{K8s, kinds};
use crate::compile::OUR_NAMESPACE;
use crate::effect::{Head, Ledger, Part, PoolLedger};
use crate::ids::PoolName;
use crate::observed::{ObjectKey, ObjectKind};
use crate::provider::{Class, PartValue, ProviderError, Version};

/// By this label they are found; its value is the fleet.
const LEDGER: &str = "tidewright.dev/ledger";
/// How the content is written. Another number is another program's.
const FORMAT: &str = "1";
/// The version of what is not there.
const ABSENT: &str = "absent";
/// A config map holds a mebibyte; what is longer than this is written compressed, a tenth of it.
const LONG: usize = 256 * 1024;

#[derive(Deserialize)]
struct Kept {
    metadata: Meta,
    #[serde(default)]
    data: Data,
    #[serde(default, rename = "binaryData")]
    binary: Binary,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    format: Option<String>,
    part: Option<String>,
    ledger: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Binary {
    ledger: Option<String>,
}

pub async fn whole(k8s: &K8s) -> Result<(Ledger, Vec<(Part, Version)>), ProviderError> {
    let ours = format!("labelSelector={}", escaped(&format!("{LEDGER}={}", k8s.fleet)));
    let maps = kinds::collection(ObjectKind::ConfigMap, Some(OUR_NAMESPACE));
    let all = k8s
        .wire
        .list(&maps, &ours, |bytes: &[u8]| page(bytes, Some::<Kept>))
        .await
        .map_err(|failure| unread("list configmaps", failure))?;
    let mut ledger = Ledger::default();
    let mut versions = vec![(Part::Head, Version(ABSENT.into()))];
    for kept in all {
        let version = Version(kept.metadata.resource_version.clone());
        match kept.data.part.as_deref().and_then(|part| part.strip_prefix("pool/")) {
            Some(pool) => {
                let pool = PoolName::from(pool);
                ledger.pools.insert(pool.clone(), content(&kept)?);
                versions.push((Part::Pool(pool), version));
            }
            None => {
                ledger.head = content(&kept)?;
                versions[0].1 = version;
            }
        }
    }
    versions[1..].sort_by(|one, other| one.0.cmp(&other.0));
    Ok((ledger, versions))
}

pub async fn part(k8s: &K8s, part: &Part) -> Result<(PartValue, Version), ProviderError> {
    let kept = match k8s.wire.find(&path(k8s, part)).await.map_err(|failure| unread("get configmaps", failure))? {
        Some(bytes) => Some(read(&bytes)?),
        None => None,
    };
    let version = kept.as_ref().map_or(ABSENT, |kept| kept.metadata.resource_version.as_str()).into();
    let value = match (part, &kept) {
        (Part::Head, Some(kept)) => PartValue::Head(Box::new(content::<Head>(kept)?)),
        (Part::Head, None) => PartValue::Head(Box::default()),
        (Part::Pool(_), Some(kept)) => PartValue::Pool(Some(content::<PoolLedger>(kept)?)),
        (Part::Pool(_), None) => PartValue::Pool(None),
    };
    Ok((value, Version(version)))
}

pub async fn swap(k8s: &K8s, part: &Part, seen: &Version, next: &PartValue) -> Result<Version, ProviderError> {
    let text = match (part, next) {
        (Part::Head, PartValue::Head(head)) => serde_json::to_string(head),
        (Part::Pool(_), PartValue::Pool(Some(pool))) => serde_json::to_string(pool),
        (Part::Pool(_), PartValue::Pool(None)) => return remove(k8s, part, seen).await,
        _ => {
            let message = format!("{} cannot hold that: it is the content of another part", name(k8s, part));
            return Err(ProviderError::new(Class::Other, message));
        }
    };
    let text = text.expect("our own types always serialise");
    let mut body = written(k8s, part, &text);
    let answer = if seen.0 == ABSENT {
        create(k8s, &body).await
    } else {
        body["metadata"]["resourceVersion"] = json!(seen.0);
        k8s.wire.put(&path(k8s, part), &body).await
    };
    match answer {
        Ok(bytes) => Ok(Version(read(&bytes)?.metadata.resource_version)),
        // One that was there as we read it and is gone now was changed, too.
        Err(failure) if failure.code() == Some(404) => Err(conflict(k8s, part)),
        Err(failure) => Err(failure.into()),
    }
}

async fn remove(k8s: &K8s, part: &Part, seen: &Version) -> Result<Version, ProviderError> {
    if seen.0 == ABSENT {
        let is_there = k8s.wire.find(&path(k8s, part)).await?.is_some();
        return if is_there { Err(conflict(k8s, part)) } else { Ok(seen.clone()) };
    }
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": seen.0}});
    match k8s.wire.delete(&path(k8s, part), &options).await {
        Ok(_) => Ok(Version(ABSENT.into())),
        Err(failure) if failure.code() == Some(404) => Err(conflict(k8s, part)),
        Err(failure) => Err(failure.into()),
    }
}

/// Makes a part that is not there, and our namespace before it where that is missing too.
async fn create(k8s: &K8s, body: &Value) -> Result<Bytes, Failure> {
    let maps = kinds::collection(ObjectKind::ConfigMap, Some(OUR_NAMESPACE));
    match k8s.wire.post(&maps, body).await {
        Err(failure) if failure.code() == Some(404) => {
            let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OUR_NAMESPACE}});
            match k8s.wire.post(&kinds::collection(ObjectKind::Namespace, None), &home).await {
                Err(failure) if failure.code() != Some(409) => return Err(failure),
                _ => {}
            }
            k8s.wire.post(&maps, body).await
        }
        answer => answer,
    }
}

fn written(k8s: &K8s, part: &Part, text: &str) -> Value {
    let named = match part {
        Part::Head => "head".into(),
        Part::Pool(pool) => format!("pool/{pool}"),
    };
    let mut data = json!({"format": FORMAT, "part": named});
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name(k8s, part), "namespace": OUR_NAMESPACE, "labels": {LEDGER: k8s.fleet}},
    });
    if text.len() > LONG {
        body["binaryData"] = json!({"ledger": BASE64.encode(&packed(text))});
    } else {
        data["ledger"] = text.into();
    }
    body["data"] = data;
    body
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).expect("memory takes everything");
    packer.finish().expect("memory takes everything")
}

fn unpacked(text: &str) -> Option<String> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    let mut unpacked = String::new();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut unpacked).ok()?;
    Some(unpacked)
}

fn read(bytes: &[u8]) -> Result<Kept, ProviderError> {
    serde_json::from_slice(bytes).map_err(|error| Failure::Unreadable(error.to_string()).into())
}

/// A ledger that cannot be read is never taken for an empty one: everything would be launched again.
fn content<T: DeserializeOwned>(kept: &Kept) -> Result<T, ProviderError> {
    let wrong = |why: String| {
        let name = &kept.metadata.name;
        ProviderError::new(
            Class::Other,
            format!("config map {OUR_NAMESPACE}/{name} holds no ledger that can be read: {why}"),
        )
    };
    match kept.data.format.as_deref() {
        Some(FORMAT) => {}
        Some(other) => {
            return Err(wrong(format!(
                "it is in format {other}, and this program reads {FORMAT}: a newer one wrote it, so use that"
            )));
        }
        None => return Err(wrong("it does not say its format: somebody else wrote it".into())),
    }
    let packed = kept.binary.ledger.as_deref().map(|packed| unpacked(packed).ok_or("its packed content is broken"));
    let text = match (&kept.data.ledger, packed) {
        (Some(text), _) => text.clone(),
        (None, Some(text)) => text.map_err(|why| wrong(why.into()))?,
        (None, None) => return Err(wrong("it is empty".into())),
    };
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

fn name(k8s: &K8s, part: &Part) -> String {
    match part {
        Part::Head => format!("{MANAGER}.{}", k8s.fleet),
        Part::Pool(pool) => format!("{MANAGER}.{}.{pool}", k8s.fleet),
    }
}

fn path(k8s: &K8s, part: &Part) -> String {
    kinds::path(&ObjectKey::namespaced(ObjectKind::ConfigMap, OUR_NAMESPACE, &name(k8s, part)))
}

fn conflict(k8s: &K8s, part: &Part) -> ProviderError {
    let message = format!("config map {OUR_NAMESPACE}/{} was changed by somebody else", name(k8s, part));
    ProviderError::new(Class::Conflict, message)
}

fn unread(what: &str, failure: Failure) -> ProviderError {
    let error = ProviderError::from(failure.clone());
    ProviderError { message: super::gaps::gap(what, &failure).why, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(data: Value) -> Kept {
        let body = json!({"metadata": {"name": "tidewright.demo", "resourceVersion": "7"}, "data": data});
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_long_content_is_packed() {
        let text = format!("{{\"slots\": {{}}, \"removed\": [], \"x\": \"{}\"}}", "y".repeat(2 * LONG));
        let packed = BASE64.encode(&packed(&text));
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpacked(&packed).as_deref(), Some(text.as_str()));
        let mut long = kept(json!({"format": "1", "part": "pool/train"}));
        long.binary.ledger = Some(packed);
        assert_eq!(content::<PoolLedger>(&long).unwrap(), PoolLedger::default());
        let short = kept(json!({"format": "1", "ledger": "{\"slots\": {}, \"removed\": []}"}));
        assert_eq!(content::<PoolLedger>(&short).unwrap(), PoolLedger::default());
    }

    #[test]
    fn a_ledger_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
        let said = |data: Value| content::<PoolLedger>(&kept(data)).unwrap_err();
        let newer = said(json!({"format": "2", "ledger": "{}"}));
        assert!(newer.class == Class::Other && newer.message.contains("a newer one wrote it"), "{newer}");
        assert!(said(json!({"ledger": "{}"})).message.contains("somebody else"));
        assert!(said(json!({"format": "1"})).message.contains("empty"));
        assert!(said(json!({"format": "1", "ledger": "{\"slots\": 3}"})).message.contains("tidewright.demo"));
    }
}
