//! The ledger as the simulated cluster keeps it: in parts, each with a version, swapped only on the version that was
//! read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::{Head, Ledger, LedgerChange, Part, PoolLedger};
use crate::ids::PoolName;
use crate::provider::{Class, PartValue, ProviderError, Version};

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct LedgerParts {
    /// Of the last write, as the cluster counts: over all parts.
    last: u64,
    head: Kept<Head>,
    pools: BTreeMap<PoolName, Kept<PoolLedger>>,
}

#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
struct Kept<T> {
    version: u64,
    value: T,
}

/// The version of what is not there.
const ABSENT: &str = "absent";

impl LedgerParts {
    pub fn head(&self) -> &Head {
        &self.head.value
    }

    pub fn whole(&self) -> (Ledger, Vec<(Part, Version)>) {
        let pools = self.pools.iter().map(|(name, kept)| (name.clone(), kept.value.clone())).collect();
        let mut versions = vec![(Part::Head, self.version(&Part::Head))];
        versions.extend(self.pools.keys().map(|name| Part::Pool(name.clone())).map(|part| {
            let version = self.version(&part);
            (part, version)
        }));
        (Ledger { head: self.head.value.clone(), pools }, versions)
    }

    pub fn part(&self, part: &Part) -> (PartValue, Version) {
        let value = match part {
            Part::Head => PartValue::Head(Box::new(self.head.value.clone())),
            Part::Pool(name) => PartValue::Pool(self.pools.get(name).map(|kept| kept.value.clone())),
        };
        (value, self.version(part))
    }

    /// The new version, and whether anything is different.
    pub fn swap(&mut self, part: &Part, seen: &Version, next: &PartValue) -> Result<(Version, bool), ProviderError> {
        if *seen != self.version(part) {
            return Err(conflict(part));
        }
        let changed = self.part(part).0 != *next;
        self.last += 1;
        match (part, next) {
            (Part::Head, PartValue::Head(head)) => self.head = Kept { version: self.last, value: (**head).clone() },
            (Part::Pool(name), PartValue::Pool(Some(pool))) => {
                self.pools.insert(name.clone(), Kept { version: self.last, value: pool.clone() });
            }
            (Part::Pool(name), PartValue::Pool(None)) => {
                self.pools.remove(name);
            }
            (part, _) => {
                let message = format!("{} cannot hold that: it is the content of another part", name(part));
                return Err(ProviderError::new(Class::Other, message));
            }
        }
        Ok((self.version(part), changed))
    }

    /// Changes what it holds, whoever has read it before.
    pub fn change(&mut self, change: &LedgerChange) {
        let (mut ledger, _) = self.whole();
        ledger.change(change);
        for part in change.parts() {
            let next = match &part {
                Part::Head => PartValue::Head(Box::new(ledger.head.clone())),
                Part::Pool(name) => PartValue::Pool(ledger.pools.get(name).cloned()),
            };
            if next != self.part(&part).0 {
                let version = self.version(&part);
                self.swap(&part, &version, &next).expect("the version is the one that it has, and the part fits");
            }
        }
    }

    /// Writes all of it, whatever was there.
    pub fn put(&mut self, ledger: &Ledger) {
        self.last += 1;
        let version = self.last;
        self.head = Kept { version, value: ledger.head.clone() };
        let kept = |(name, pool): (&PoolName, &PoolLedger)| (name.clone(), Kept { version, value: pool.clone() });
        self.pools = ledger.pools.iter().map(kept).collect();
    }

    fn version(&self, part: &Part) -> Version {
        let kept = match part {
            Part::Head => Some(self.head.version),
            Part::Pool(name) => self.pools.get(name).map(|kept| kept.version),
        };
        Version(kept.map_or_else(|| ABSENT.to_string(), |version| version.to_string()))
    }
}

/// The API server's answer to a write that came too late.
pub fn conflict(part: &Part) -> ProviderError {
    let message = format!(
        "Operation cannot be fulfilled on configmaps \"{}\": the object has been modified; please apply your changes \
         to the latest version and try again",
        name(part)
    );
    ProviderError::new(Class::Conflict, message)
}

fn name(part: &Part) -> String {
    match part {
        Part::Head => "tidewright".into(),
        Part::Pool(pool) => format!("tidewright-{pool}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(parts: &LedgerParts) -> (PartValue, Version) {
        parts.part(&Part::Pool("train".into()))
    }

    #[test]
    fn a_part_is_written_only_on_the_version_that_was_read() {
        let (mut parts, part) = (LedgerParts::default(), Part::Pool("train".into()));
        let (value, absent) = pool(&parts);
        assert_eq!(value, PartValue::Pool(None));
        let next = PartValue::Pool(Some(PoolLedger::default()));
        let (first, changed) = parts.swap(&part, &absent, &next).unwrap();
        assert!(changed);
        assert_eq!(parts.swap(&part, &absent, &next).unwrap_err().class, Class::Conflict);
        let (second, changed) = parts.swap(&part, &first, &next).unwrap();
        assert!(!changed && second != first);
        assert_eq!(pool(&parts), (next, second));
    }

    #[test]
    fn parts_do_not_stand_in_each_others_way() {
        let mut parts = LedgerParts::default();
        let (head, version) = parts.part(&Part::Head);
        let (_, absent) = pool(&parts);
        parts.swap(&Part::Pool("train".into()), &absent, &PartValue::Pool(Some(PoolLedger::default()))).unwrap();
        parts.swap(&Part::Head, &version, &head).unwrap();
        let (_, versions) = parts.whole();
        assert_eq!(versions.len(), 2);
    }

    #[test]
    fn a_pool_that_is_gone_can_be_made_again() {
        let (mut parts, part) = (LedgerParts::default(), Part::Pool("train".into()));
        let next = PartValue::Pool(Some(PoolLedger::default()));
        let (version, _) = parts.swap(&part, &pool(&parts).1, &next).unwrap();
        let (absent, _) = parts.swap(&part, &version, &PartValue::Pool(None)).unwrap();
        assert_eq!(pool(&parts), (PartValue::Pool(None), absent.clone()));
        assert_ne!(parts.swap(&part, &absent, &next).unwrap().0, version);
    }
}
