//! Required levels, distances and hosts that are named: every way to break them is caught.

use super::bench::*;
use crate::effect::*;
use crate::fleet::standing::{Level, PlacementSpec};
use crate::ids::*;
use crate::observed::{Gap, HostSeen, InstanceState};
use crate::plan::*;

const REQUIRED: &str = "a level that a pool requires is not broken";
const APART: &str = "pools that keep apart stay apart";
const PINS: &str = "a launch names a host that is free";

/// Where a node says that it hangs.
fn hang(bench: &mut Bench, pool: &str, index: u32, leaf: &str) {
    bench.node(pool, index, |node| _ = node.labels.insert("leaf".into(), leaf.into()));
}

fn level(bench: &mut Bench, pool: &str, required: bool, apart_from: &[&str]) {
    let placement = PlacementSpec {
        together: Some("leaf".into()),
        required,
        apart_from: apart_from.iter().map(|name| PoolName::from(*name)).collect(),
    };
    let standing = bench.standing();
    standing.levels = vec![Level { name: "leaf".into(), node_label: Some("leaf".into()) }];
    standing.pools.get_mut(&PoolName::from(pool)).unwrap().placement = Some(placement);
}

/// The pool `own` has one node on leaf l1 and claims the other, which hangs here.
fn claim(leaf: &str) -> Bench {
    let mut bench = Bench::settled(NOON);
    level(&mut bench, "own", true, &[]);
    hang(&mut bench, "own", 0, "l1");
    hang(&mut bench, "own", 1, leaf);
    bench.node("own", 1, |node| _ = node.labels.remove(crate::effect::marks::POOL));
    bench.input.ledger.pools.get_mut("own").unwrap().slots.remove(&1);
    let claimed = LedgerChange::Claimed { slot: slot("own", 1), node: node("own", 1) };
    bench.step("claim", Action::Record(claimed), Reason::SlotEmpty, &[]);
    bench
}

#[test]
fn a_required_level_is_not_broken_by_a_claim() {
    claim("l1").passes();
    claim("l2").breaks(REQUIRED, "in another leaf than the rest of own");
    // A node that does not say where it hangs is close to nobody.
    claim("").breaks(REQUIRED, "in another leaf");
    claim("l2").with(|bench| level(bench, "own", false, &[])).passes();
    // The node on the other leaf is let go in the same plan: only behind that.
    let leaves = |after: &[&str]| {
        let mut bench = claim("l2");
        let gone = LedgerChange::Unclaimed { slot: slot("own", 0) };
        bench.step("unclaim", Action::Record(gone), Reason::Fabric { to: None }, &[]);
        bench.find("claim").after = after.iter().map(|id| StepId::from(*id)).collect();
        bench
    };
    leaves(&[]).breaks_also(REQUIRED, "in another leaf");
    let law = |bench: Bench| {
        let found = super::judge(&bench.input, &bench.plan);
        assert!(found.iter().all(|one| !one.to_string().contains(REQUIRED)), "{found:?}");
    };
    law(leaves(&["unclaim"]));
}

#[test]
fn pools_that_keep_apart_are_brought_together_only_where_there_is_no_other_node() {
    let beside = |required: bool, other: bool| {
        let mut bench = claim("l1");
        level(&mut bench, "own", required, &["train"]);
        hang(&mut bench, "own", 0, "l2");
        (0..10).for_each(|index| hang(&mut bench, "train", index, "l1"));
        if other {
            let mut free = None;
            bench.node("own", 1, |node| free = Some(node.clone()));
            let mut free = free.unwrap();
            free.labels.insert("leaf".into(), "l2".into());
            edit(&mut bench.input.observed.cluster.nodes, |nodes| nodes.insert("own-free".into(), free));
        }
        bench
    };
    beside(false, false).passes();
    beside(false, true).breaks(APART, "brings own and train together");
    beside(true, false).breaks_also(APART, "brings own and train together");
}

#[test]
fn a_machine_names_a_host_that_is_free_and_keeps_the_level() {
    let named = |host: &str, of: &str, networks: [&str; 2]| {
        let mut bench = Bench::settled(NOON);
        level(&mut bench, "train", true, &[]);
        bench.input.ledger.pools.get_mut("train").unwrap().slots.remove(&9);
        edit(&mut bench.input.observed.cloud.instances, |all| all.remove(&instance("train", 9)));
        edit(&mut bench.input.observed.cluster.nodes, |all| all.remove(&node("train", 9)));
        bench.reservation(|seen| seen.available += 1);
        bench.instance("train", 0, |seen| seen.network = vec![networks[0].into()]);
        let seen = HostSeen {
            instance_type: "p5.48xlarge".into(),
            zone: "us-west-2a".into(),
            reservation: Some(of.into()),
            network: vec![networks[1].into()],
        };
        bench.input.observed.cloud.hosts.insert("h-1".into(), seen);
        bench.launch("train", 9, Reason::SlotEmpty, &[]);
        bench.edit("launch train/9", |step| match &mut step.action {
            Action::Cloud(CloudAction::Launch(request)) => request.host = Some(host.into()),
            other => panic!("{other:?}"),
        })
    };
    named("h-1", "cr-1", ["l1", "l1"]).passes();
    named("h-2", "cr-1", ["l1", "l1"]).breaks(PINS, "h-2 is not free for it");
    named("h-1", "cr-2", ["l1", "l1"]).breaks(PINS, "h-1 is not free for it");
    named("h-1", "cr-1", ["l1", "l2"]).breaks(REQUIRED, "in another leaf than the rest of train");
    let unread = || Gap { what: "DescribeCapacityReservationTopology".into(), why: "UnauthorizedOperation".into() };
    let blind = named("h-1", "cr-1", ["l1", "l1"]).with(|bench| bench.input.observed.cloud.unplaced = Some(unread()));
    blind.breaks(REQUIRED, "nobody knows where it would stand");
}

#[test]
fn a_machine_that_does_not_run_yet_stands_where_its_reservation_does_or_the_host_that_it_named() {
    let there = |state: InstanceState, reserved: &str, host: &str, change: &dyn Fn(&mut Bench)| {
        let mut bench = Bench::settled(NOON);
        level(&mut bench, "train", true, &[]);
        bench.input.ledger.pools.get_mut("train").unwrap().slots.remove(&9);
        edit(&mut bench.input.observed.cloud.instances, |all| all.remove(&instance("train", 9)));
        edit(&mut bench.input.observed.cluster.nodes, |all| all.remove(&node("train", 9)));
        bench.reservation(|seen| (seen.available, seen.network) = (seen.available + 1, vec![reserved.into()]));
        (0..9).for_each(|index| bench.instance("train", index, |seen| seen.state = state.clone()));
        let seen = HostSeen {
            instance_type: "p5.48xlarge".into(),
            zone: "us-west-2a".into(),
            reservation: Some("cr-1".into()),
            network: vec![host.into()],
        };
        bench.input.observed.cloud.hosts.insert("h-1".into(), seen);
        change(&mut bench);
        bench.launch("train", 9, Reason::SlotEmpty, &[]);
        bench.edit("launch train/9", |step| match &mut step.action {
            Action::Cloud(CloudAction::Launch(request)) => request.host = Some("h-1".into()),
            other => panic!("{other:?}"),
        })
    };
    there(InstanceState::Pending, "l1", "l1", &|_| ()).passes();
    there(InstanceState::Pending, "l1", "l2", &|_| ()).breaks(REQUIRED, "in another leaf than the rest of train");
    // Nobody knows of any of them where it will stand.
    there(InstanceState::Pending, "", "", &|bench| bench.reservation(|seen| seen.network.clear())).passes();
}
