//! What goes along with a new name, and what does not.

use super::*;
use crate::effect::{Amount, Freeze, LedgerChange, Opened, Verb};
use crate::fleet::testing::at;
use crate::ids::{Digest, SlotId};

const THEN: &str = "2026-06-08T12:00Z";

fn pool(name: &str) -> PoolName {
    name.into()
}

/// A pool of one claimed node.
fn kept(name: &str, node: &str) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.change(&LedgerChange::Claimed { slot: SlotId::new(&pool(name), 0), node: node.into() });
    ledger
}

fn freeze(name: &str, all: bool) -> Freeze {
    Freeze { scope: Scope::Pool(pool(name)), by: "ana".into(), at: at(THEN), reason: "audit".into(), all }
}

fn rename() -> LedgerChange {
    LedgerChange::Renamed { from: pool("train"), to: pool("pre") }
}

fn take(ledger: &mut Ledger, names: &[(&str, Option<&str>)]) -> Vec<(String, String)> {
    let names: Vec<(PoolName, Option<PoolName>)> = names.iter().map(|(to, from)| (pool(to), from.map(pool))).collect();
    let renamed = ledger.take_names(names.iter().map(|(to, from)| (to, from.as_ref())));
    renamed.iter().map(|(to, from)| (to.to_string(), from.to_string())).collect()
}

#[test]
fn what_names_a_pool_names_it_anew() {
    let mut ledger = kept("train", "a");
    let digest: Digest = "d".into();
    let left = Effects::one(Verb::Launch, Thing::Pool(pool("train")), Amount::count(2));
    let opened = Opened { effects: digest.clone(), left, by: "ana".into(), at: at(THEN), templates: BTreeMap::new() };
    let spend = |purpose: &str| LedgerChange::Spend {
        digest: "d".into(),
        purpose: purpose.into(),
        effects: Effects::default(),
    };
    let purposes = ["launch train/3@2", "launch training/3@2", "reserve train@1"];
    ledger.change(&LedgerChange::Open { digest: digest.clone(), opened });
    purposes.iter().for_each(|purpose| ledger.change(&spend(purpose)));
    ledger.change(&LedgerChange::Freeze(freeze("train", false)));
    ledger.change(&LedgerChange::Freeze(freeze("serve", false)));
    (0..2).for_each(|_| ledger.change(&rename()));
    let scopes: Vec<&Scope> = ledger.head.frozen.iter().map(|freeze| &freeze.scope).collect();
    assert_eq!(scopes, [&Scope::Pool(pool("pre")), &Scope::Pool(pool("serve"))]);
    let left = &ledger.head.approvals[&digest].left;
    assert_eq!(left.get(Verb::Launch, &Thing::Pool(pool("pre"))).map(|amount| amount.count), Some(2));
    let spent: Vec<&str> = ledger.head.spent[&digest].iter().map(String::as_str).collect();
    assert_eq!(spent, ["launch pre/3@2", "launch training/3@2", "reserve train@1"]);
}

#[test]
fn of_two_freezes_the_stricter_is_kept() {
    let mut ledger = kept("train", "a");
    ledger.change(&LedgerChange::Freeze(freeze("train", true)));
    ledger.change(&LedgerChange::Freeze(freeze("pre", false)));
    ledger.change(&rename());
    assert_eq!(ledger.head.frozen, [freeze("pre", true)]);
}

#[test]
fn the_head_alone_is_renamed_too() {
    let mut ledger = Ledger::default();
    ledger.change(&LedgerChange::Freeze(freeze("train", false)));
    ledger.change(&rename());
    assert_eq!(ledger.head.frozen, [freeze("pre", false)]);
}

#[test]
fn names_are_taken_from_the_documents_until_that_is_written_down() {
    let mut ledger = kept("train", "a");
    assert_eq!(take(&mut ledger, &[("pre", Some("train"))]), [("pre".to_string(), "train".to_string())]);
    assert_eq!(ledger.pools["pre"].slots[&0].node, Some("a".into()));
    assert!(take(&mut ledger, &[("pre", Some("train"))]).is_empty(), "it is done");
    assert_eq!(take(&mut ledger, &[("train", Some("pre"))]).len(), 1, "and back");
    assert_eq!(ledger.pools["train"].slots[&0].node, Some("a".into()));
    assert!(take(&mut kept("train", "a"), &[("pre", Some("train")), ("train", None)]).is_empty(), "it is still there");
}

#[test]
fn a_pool_with_nodes_of_its_own_takes_no_others() {
    let mut ledger = kept("train", "a");
    ledger.change(&LedgerChange::Claimed { slot: SlotId::new(&pool("pre"), 4), node: "b".into() });
    let before = ledger.clone();
    assert!(take(&mut ledger, &[("pre", Some("train"))]).is_empty());
    ledger.change(&rename());
    assert_eq!(ledger, before);
}

#[test]
fn a_rename_that_was_broken_off_is_brought_to_its_end() {
    let mut ledger = kept("train", "a");
    let copy = ledger.pools["train"].clone();
    ledger.pools.insert(pool("pre"), copy);
    assert_eq!(take(&mut ledger, &[("pre", Some("train"))]).len(), 1);
    assert_eq!(ledger.pools["pre"].slots[&0].node, Some("a".into()));
    assert!(!ledger.pools["train"].is_something());
}
