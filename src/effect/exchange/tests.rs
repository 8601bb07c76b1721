//! Every state that an exchange leaves, whoever comes between: a slot has one machine, and a machine one slot.

use std::collections::BTreeSet;

use super::*;
use crate::effect::LedgerChange;

fn slot(pool: &str) -> SlotId {
    SlotId::new(&pool.into(), 0)
}

fn machine(instance: &str, pool: &str) -> Machine {
    let launched = Some(Timestamp::from_second(1_800_000_000).unwrap());
    let reservation = Some(format!("cr-{instance}").as_str().into());
    Machine { instance: instance.into(), launched, reservation, made_for: slot(pool), remedies: Vec::new() }
}

/// `a` has i-a and `b` has i-b.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    for pool in ["a", "b"] {
        let mut found = Slot { generation: 3, ..Slot::default() };
        found.take(&slot(pool), &machine(&format!("i-{pool}"), pool));
        ledger.pools.entry(pool.into()).or_default().slots.insert(0, found);
    }
    ledger
}

fn changes() -> [LedgerChange; 3] {
    let (a, b) = (slot("a"), slot("b"));
    [
        LedgerChange::Exchange { slot: a.clone(), with: b.clone(), gives: "i-a".into(), takes: machine("i-b", "b") },
        LedgerChange::Exchanged { slot: b, with: a.clone(), gives: "i-b".into(), takes: machine("i-a", "a") },
        LedgerChange::ExchangeOver { slot: a, keeps: "i-b".into() },
    ]
}

fn has(ledger: &Ledger, pool: &str) -> Option<String> {
    ledger.slot(&slot(pool)).and_then(|slot| slot.instance.as_ref()).map(ToString::to_string)
}

fn read(ledger: &Ledger) -> (Option<String>, Option<String>) {
    let mut read = ledger.clone();
    read.settle_exchanges();
    let once = read.clone();
    read.settle_exchanges();
    assert_eq!(read, once, "read twice");
    (has(&read, "a"), has(&read, "b"))
}

#[test]
fn after_each_record_both_have_changed_places_or_neither() {
    let some = |name: &str| Some(name.to_string());
    let mut ledger = ledger();
    assert_eq!(read(&ledger), (some("i-a"), some("i-b")));
    for change in changes() {
        ledger.change(&change);
        let once = ledger.clone();
        ledger.change(&change);
        assert_eq!(ledger, once, "made twice: {change:?}");
        assert_eq!(read(&ledger), (some("i-b"), some("i-a")), "{change:?}");
    }
    assert_eq!(ledger.exchanges(), []);
    let a = ledger.slot(&slot("a")).unwrap();
    assert_eq!((a.generation, a.reservation.as_ref().map(|id| id.as_str())), (3, Some("cr-i-b")));
    assert_eq!((&a.made_for, a.machine(&slot("a")).unwrap().made_for), (&Some(slot("b")), slot("b")));
}

#[test]
fn one_that_comes_back_was_launched_for_its_own_slot() {
    let mut ledger = ledger();
    changes().iter().for_each(|change| ledger.change(change));
    let (a, b) = (slot("a"), slot("b"));
    let back = |ledger: &Ledger, slot: &SlotId| ledger.slot(slot).unwrap().machine(slot).unwrap();
    let (of_a, of_b) = (back(&ledger, &a), back(&ledger, &b));
    let gives = of_a.instance.clone();
    ledger.change(&LedgerChange::Exchange { slot: a.clone(), with: b.clone(), gives, takes: of_b.clone() });
    let gives = of_b.instance.clone();
    ledger.change(&LedgerChange::Exchanged { slot: b.clone(), with: a.clone(), gives, takes: of_a });
    ledger.change(&LedgerChange::ExchangeOver { slot: a.clone(), keeps: of_b.instance });
    assert_eq!(ledger, self::ledger());
}

/// What a plan that is older than the note can still do to the other slot, because it has what that plan saw.
#[test]
fn where_the_other_slot_lost_its_machine_the_first_has_its_own_again() {
    let some = |name: &str| Some(name.to_string());
    let [exchange, exchanged, _] = changes();
    let lost = LedgerChange::Lost { slot: slot("b") };
    let launched = LedgerChange::Launched { slot: slot("b"), instance: "i-c".into(), at: Timestamp::UNIX_EPOCH };
    for (between, left) in [(vec![lost.clone()], None), (vec![lost, launched], some("i-c"))] {
        let mut ledger = ledger();
        ledger.change(&exchange);
        between.iter().for_each(|change| ledger.change(change));
        assert_eq!(read(&ledger), (some("i-a"), left.clone()));
        // The rest of the older run comes too late.
        ledger.change(&exchanged);
        assert_eq!(read(&ledger), (some("i-a"), left.clone()));
        ledger.change(&LedgerChange::ExchangeOver { slot: slot("a"), keeps: "i-a".into() });
        assert_eq!((has(&ledger, "a"), has(&ledger, "b")), (some("i-a"), left));
        assert_eq!((ledger.exchanges(), &ledger.slot(&slot("a")).unwrap().made_for), (vec![], &None));
    }
}

#[test]
fn no_machine_is_read_in_two_slots_whenever_the_other_is_lost() {
    let all = changes();
    let lost = LedgerChange::Lost { slot: slot("b") };
    let orders = [[0, 1, 2, 3], [0, 1, 3, 2], [0, 3, 1, 2], [3, 0, 1, 2], [2, 0, 1, 3]];
    for order in orders {
        let mut ledger = ledger();
        for change in order {
            ledger.change(all.get(change).unwrap_or(&lost));
            let mut read = ledger.clone();
            read.settle_exchanges();
            let slots = read.pools.values().flat_map(|pool| pool.slots.values());
            let held: Vec<&InstanceId> = slots.filter_map(|slot| slot.instance.as_ref()).collect();
            let different: BTreeSet<&InstanceId> = held.iter().copied().collect();
            assert_eq!(held.len(), different.len(), "{order:?} at {change}: {held:?}");
        }
    }
}
