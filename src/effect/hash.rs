//! Digests and tokens. A digest is over canonical JSON: keys sorted, so that the order of fields means nothing.

use std::io;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::ids::{Digest, FleetName, FleetUid, SlotId, Token, Uid, Zone};

/// The digest of some bytes.
pub fn digest(bytes: &[u8]) -> Digest {
    HEXLOWER.encode(&Sha256::digest(bytes)).into()
}

/// The digest of a value as it is written in JSON, without keeping the text. Only for types whose fields have an order
/// of their own.
pub fn digest_of(value: &impl Serialize) -> Digest {
    struct Sink(Sha256);
    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = io::BufWriter::with_capacity(1 << 16, Sink(Sha256::new()));
    serde_json::to_writer(&mut sink, value).expect("our own types always serialise");
    let sink = sink.into_inner().unwrap_or_else(|_| unreachable!("hashing does not fail"));
    HEXLOWER.encode(&sink.0.finalize()).into()
}

/// A value with the keys of every map sorted.
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

/// Who a fleet is that was given a name in a cluster: no name holds a dot, and no other cluster has that UID.
pub fn identity(name: &FleetName, cluster: &Uid) -> FleetUid {
    let digest = digest(cluster.as_str().as_bytes());
    FleetUid::from(format!("{name}.{}", &digest.as_str()[..10]))
}

/// Whether another identity may be this fleet's own from before: of the same cluster under another name, or of this name
/// from when identities did not hold the cluster. What carries it is nobody's that this ledger knows, and nothing is made
/// for the same slot beside it.
pub fn is_kin(ours: &FleetUid, other: &FleetUid) -> bool {
    let Some((name, cluster)) = ours.as_str().split_once('.') else { return false };
    let same = other.as_str().split_once('.').is_some_and(|(_, theirs)| theirs == cluster);
    ours != other && (same || other.as_str() == name)
}

/// A fleet and all its kin, as a filter of EC2 writes them.
pub fn with_kin(ours: &FleetUid) -> Vec<String> {
    let kin = ours.as_str().split_once('.').map(|(name, cluster)| [name.to_string(), format!("*.{cluster}")]);
    std::iter::once(ours.to_string()).chain(kin.into_iter().flatten()).collect()
}

/// What makes a launch the same launch: the thing wanted, never the plan. A lost answer leads to the same request, a
/// replacement or another zone to a new one.
pub fn token(fleet: &FleetUid, slot: &SlotId, generation: u32, zone: &Zone) -> Token {
    named_token(&[fleet.as_str(), &slot.to_string(), &generation.to_string(), zone.as_str()])
}

/// A token for anything that is named by these words.
pub fn named_token(words: &[&str]) -> Token {
    // EC2 takes 64 characters; 52 hold all 256 bits.
    BASE32_NOPAD.encode(&Sha256::digest(words.join("|").as_bytes())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kin_is_of_the_same_cluster_or_has_only_the_name() {
        let is = |ours: &str, other: &str| is_kin(&ours.into(), &other.into());
        assert!(is("ml.0123456789", "ml") && is("ml.0123456789", "old.0123456789"));
        assert!(!is("ml.0123456789", "ml.0123456789") && !is("ml.0123456789", "ml.9876543210"));
        assert!(!is("ml.0123456789", "web") && !is("ml", "ml.0123456789") && !is("ml", "web"));
        assert_eq!(with_kin(&"ml.0123456789".into()), ["ml.0123456789", "ml", "*.0123456789"]);
        assert_eq!(with_kin(&"ml".into()), ["ml"]);
    }

    #[test]
    fn the_order_of_keys_means_nothing() {
        let one: Value = serde_json::from_str(r#"{"b": {"y": 1, "x": [2, {"d": 1, "c": 2}]}, "a": 1}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"a": 1, "b": {"x": [2, {"c": 2, "d": 1}], "y": 1}}"#).unwrap();
        assert_eq!(digest_of(&canonical(&one)), digest_of(&canonical(&two)));
        assert_ne!(digest_of(&one), digest_of(&two));
    }

    #[test]
    fn two_fleets_of_one_name_in_two_clusters_share_no_token() {
        let fleet = |cluster: &str| identity(&"ml".into(), &cluster.into());
        let (one, other) = (fleet("0b1f7c1e-1"), fleet("0b1f7c1e-2"));
        assert_eq!(one, fleet("0b1f7c1e-1"));
        assert!(one.as_str().starts_with("ml.") && one.as_str().len() == 13, "{one}");
        let token = |fleet| token(fleet, &SlotId::new(&"train".into(), 0), 1, &"a".into());
        assert_ne!(token(&one), token(&other));
    }

    #[test]
    fn a_token_names_the_zone_and_the_generation() {
        let fleet = FleetUid::from("f");
        let slot = SlotId::new(&"train".into(), 3);
        let one = token(&fleet, &slot, 1, &"a".into());
        assert_eq!(one, token(&fleet, &slot, 1, &"a".into()));
        assert_ne!(one, token(&fleet, &slot, 2, &"a".into()));
        assert_ne!(one, token(&fleet, &slot, 1, &"b".into()));
        assert_eq!(one.as_str().len(), 52);
    }
}
