//! Nodes that come, or come back, have shown what their policy asks for.

use super::bench::*;
use super::flows::*;
use crate::effect::*;
use crate::fleet::policy::{Admit, ConditionStatus, Remedy};
use crate::observed::ConditionSeen;
use crate::plan::*;

const ADMITTED: &str = "once it is admitted";
const BACK: &str = "when it is back";
const KIND: &str = "GpuAcceptance";

/// Every pool asks for the condition.
fn strict() -> Bench {
    let mut bench = Bench::settled(NOON);
    for policy in bench.standing().health.values_mut() {
        policy.admit.push(Admit { condition: KIND.into(), within: "20m".parse().unwrap() });
    }
    bench
}

fn shows(bench: &mut Bench, pool: &str, index: u32) {
    let since = bench.input.now;
    let seen = ConditionSeen::new(ConditionStatus::True, since);
    bench.node(pool, index, |node| drop(node.conditions.insert(KIND.into(), seen)));
}

fn waits(bench: &mut Bench, pool: &str, index: u32, after: &[&str]) {
    let fact = Fact::Admitted { node: node(pool, index), conditions: vec![KIND.into()] };
    bench.step("admitted", Action::Await(fact), Reason::LeftOver, after);
}

fn opens(bench: &mut Bench, after: &[&str]) {
    bench.cordoned("train", 3, "quarantine");
    let open = cluster(ClusterAction::Uncordon { node: node("train", 3) });
    bench.step("open", open, Reason::LeftOver, after);
}

#[test]
fn a_node_that_is_booted_is_opened_when_it_is_back() {
    let booted = |boot: Option<&str>, fact: Fact, waits_for: &str| {
        let mut bench = Bench::settled(NOON);
        bench.node("train", 3, |node| node.boot = boot.map(Into::into));
        let sick = Reason::Sick { remedy: Remedy::Reboot, symptom: "Xid 79".into() };
        bench.drain("train", 3, "reboot", &sick, &[]);
        let reboot = cloud(CloudAction::Reboot { slot: slot("train", 3), instance: instance("train", 3) });
        bench.step("reboot", reboot, sick.clone(), &["empty train/3"]).effects = one(Verb::Reboot, "train");
        bench.step("back", Action::Await(fact), sick.clone(), &["reboot"]);
        let open = cluster(ClusterAction::Uncordon { node: node("train", 3) });
        bench.step("open", open, sick, &[waits_for]);
        bench.plan.steps.iter_mut().for_each(|step| step.consent = Consent::Standing);
        bench
    };
    let since = |boot: Option<&str>| Fact::Booted { node: node("train", 3), since: boot.map(Into::into) };
    let ready = || Fact::Ready(node("train", 3));
    booted(Some("one"), since(Some("one")), "back").passes();
    booted(None, since(None), "back").passes();
    booted(None, ready(), "back").passes();
    booted(Some("one"), ready(), "back").breaks(BACK, "train-3 may not have gone down yet");
    booted(Some("one"), since(None), "back").breaks(BACK, "may not have gone down");
    booted(Some("one"), since(Some("another")), "back").breaks(BACK, "may not have gone down");
    booted(Some("one"), since(Some("one")), "reboot").breaks(BACK, "may not have gone down");
}

#[test]
fn a_node_is_opened_again_when_it_is_admitted() {
    strict().with(|bench| opens(bench, &[])).breaks(ADMITTED, "train-3 is not seen to be admitted to pool train");
    strict()
        .with(|bench| {
            shows(bench, "train", 3);
            opens(bench, &[]);
        })
        .passes();
    strict()
        .with(|bench| {
            waits(bench, "train", 3, &[]);
            opens(bench, &["admitted"]);
        })
        .passes();
    // A wait that nothing comes after is none.
    strict()
        .with(|bench| {
            waits(bench, "train", 3, &[]);
            opens(bench, &[]);
        })
        .breaks(ADMITTED, "is not seen");
}

#[test]
fn a_boot_takes_away_what_a_node_showed() {
    let booted = |waits_after: &str| {
        let mut bench = strict();
        let sick = Reason::Sick { remedy: crate::fleet::policy::Remedy::Reboot, symptom: "Xid 79".into() };
        shows(&mut bench, "train", 3);
        bench.drain("train", 3, "reboot", &sick, &[]);
        let reboot = cloud(CloudAction::Reboot { slot: slot("train", 3), instance: instance("train", 3) });
        let amount = Effects::one(Verb::Reboot, Thing::Pool("train".into()), Amount::count(1));
        bench.step("reboot", reboot, sick.clone(), &["empty train/3"]).effects = amount;
        bench.step("back", Action::Await(Fact::Ready(node("train", 3))), sick.clone(), &["reboot"]);
        waits(&mut bench, "train", 3, &[waits_after]);
        let open = cluster(ClusterAction::Uncordon { node: node("train", 3) });
        bench.step("open", open, sick, &["back", "admitted"]);
        bench
    };
    booted("reboot").passes();
    booted("empty train/3").breaks(ADMITTED, "is not seen");
}

#[test]
fn an_existing_node_is_claimed_when_it_is_admitted() {
    let claim = |waits_first: bool| {
        let mut bench = strict();
        bench.input.ledger.pools.get_mut("own").unwrap().slots.remove(&1);
        if waits_first {
            waits(&mut bench, "own", 1, &[]);
        }
        let after: &[&str] = if waits_first { &["admitted"] } else { &[] };
        let claimed = LedgerChange::Claimed { slot: slot("own", 1), node: node("own", 1) };
        bench.step("claim", Action::Record(claimed), Reason::SlotEmpty, after);
        bench
    };
    claim(true).passes();
    claim(false).breaks(ADMITTED, "own-1 is not seen to be admitted to pool own");
}
