//! What a fleet should be at an instant: every slot in one part, and the quotas with the nodes.

mod recalls;

use super::*;
use crate::fleet::testing::{at, check_in, fleet_in};

const LOS_ANGELES: &str = "America/Los_Angeles";
/// Monday noon, the evening, and the next morning in its three steps. A week without clock changes.
const NOON: &str = "2026-06-08T12:00-07:00";
const NIGHT: &str = "2026-06-08T22:00-07:00";
const RECLAIM: &str = "2026-06-09T05:45-07:00";
const HARD: &str = "2026-06-09T06:20-07:00";
const MORNING: &str = "2026-06-09T06:30-07:00";

/// A serving pool cut into halves, of which 12 of 16 nodes are lent uncut at night; a pool that grows at night.
const DEMO: &str = r#"
kind: PreemptionTier
metadata: {name: production}
spec: {rank: 1000}
---
kind: PreemptionTier
metadata: {name: batch}
spec: {rank: 100}
---
kind: Reservation
metadata: {name: h100}
spec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 17, onDemand: {}}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
kind: NodePool
metadata: {name: serve, renamedFrom: inference}
spec: {instanceType: p5.48xlarge, nodes: 17, spares: 1, layout: halves, capacity: [{reservation: h100}]}
---
kind: NodePool
metadata: {name: burst}
spec: {instanceType: p4d.24xlarge, nodes: 4, capacity: [{onDemand: {max: 8}}]}
---
kind: Quota
metadata: {name: serving}
spec:
  namespaces: [{name: serving}]
  cohort: all
  tiers: [production]
  shares: [{pool: serve, guarantee: {slices: {3g.40gb: 256}}, lend: {slices: {3g.40gb: 100}}}]
---
kind: Quota
metadata: {name: batch}
spec: {namespaces: [{name: batch}], tiers: [batch], shares: [{pool: burst, guarantee: {gpus: 32}}]}
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}]
  lend: [{pool: serve, nodes: 12, from: serving, to: batch, layout: whole}]
  resize: [{pool: burst, nodes: 6}]
  reclaim: {lead: 45m, hardAt: 10m}
"#;

fn demo() -> Fleet {
    fleet_in(LOS_ANGELES, NOON, DEMO)
}

/// One line a part: its slots, its layout, its purpose.
fn parts(pool: &PoolTarget) -> Vec<String> {
    pool.parts
        .iter()
        .map(|part| {
            let purpose = match &part.purpose {
                Purpose::Spare => "spare".into(),
                Purpose::Own => "own".into(),
                Purpose::Lent { tide, from, to } => format!("lent by {from} to {to} ({tide})"),
                Purpose::Returning { tide, from, to, due, .. } => format!("back from {to} to {from} by {due} ({tide})"),
            };
            format!("{}..{} {} {purpose}", part.first, part.first + part.nodes, part.layout)
        })
        .collect()
}

fn serve(fleet: &Fleet, now: &str) -> Vec<String> {
    parts(&fleet.target_at(at(now)).pools["serve"])
}

fn slices(amount: &Amount) -> u32 {
    let Amount::Slices(slices) = amount else { panic!("{amount}") };
    slices.values().sum()
}

#[test]
fn lent_nodes_are_cut_as_the_loan_says_and_cut_back_when_they_are_asked_back() {
    let fleet = demo();
    let day = ["0..1 halves spare", "1..17 halves own"];
    let night = ["0..1 halves spare", "1..13 whole lent by serving to batch (nightly)", "13..17 halves own"];
    let back = "1..13 halves back from batch to serving by 2026-06-09T13:30:00Z (nightly)";
    assert_eq!(serve(&fleet, NOON), day);
    assert_eq!(serve(&fleet, NIGHT), night);
    for returning in [RECLAIM, HARD] {
        assert_eq!(serve(&fleet, returning), ["0..1 halves spare", back, "13..17 halves own"], "{returning}");
    }
    assert_eq!(serve(&fleet, MORNING), day);
}

#[test]
fn quotas_follow_the_nodes() {
    let fleet = demo();
    // A node holds 16 halves; uncut, 8 GPUs.
    for (now, left, gpus) in
        [(NOON, 256, None), (NIGHT, 64, Some(96)), (RECLAIM, 64, None), (HARD, 64, None), (MORNING, 256, None)]
    {
        let target = fleet.target_at(at(now));
        let serving = &target.quotas["serving"];
        assert_eq!(slices(&serving.shares["serve"].guarantee), left, "{now}");
        let batch = &target.quotas["batch"];
        assert_eq!(batch.loans.first().map(|loan| loan.supply.gpus), gpus, "{now}");
        assert_eq!(batch.shares["burst"].guarantee, Amount::Gpus(32), "{now}");
        assert!(serving.loans.is_empty() && batch.loans.len() <= 1);
    }
    let target = fleet.target_at(at(NIGHT));
    let loan = &target.quotas["batch"].loans[0];
    assert_eq!((loan.pool.as_str(), loan.from.as_str(), loan.tide.as_str()), ("serve", "serving", "nightly"));
    assert_eq!(loan.supply.to_string(), "96 GPUs");
}

#[test]
fn a_queue_lends_at_most_what_is_left_of_its_guarantee() {
    let fleet = demo();
    let lend = |now| fleet.target_at(at(now)).quotas["serving"].shares["serve"].lend.as_ref().map(slices);
    assert_eq!([lend(NOON), lend(NIGHT), lend(HARD), lend(MORNING)], [Some(100), Some(64), Some(64), Some(100)]);
}

#[test]
fn a_loan_of_partly_cut_nodes_is_counted_in_slices_and_in_gpus() {
    let partly = DEMO.replace("layout: whole}", "layout: partly}");
    let layout =
        "---\nkind: GpuLayout\nmetadata: {name: partly}\nspec: {mig: [{gpus: [0, 1], slices: {1g.10gb: 7}}]}\n";
    let partly = partly + layout;
    let target = fleet_in(LOS_ANGELES, NOON, &partly).target_at(at(NIGHT));
    let supply = &target.quotas["batch"].loans[0].supply;
    assert_eq!((supply.nodes, supply.gpus, supply.slices.values().sum()), (12, 72, 168));
    assert_eq!(supply.to_string(), "72 GPUs + 168 × 1g.10gb");
}

#[test]
fn a_pool_has_its_other_size_only_until_reclaim() {
    let fleet = demo();
    let burst = |now| fleet.target_at(at(now)).pools["burst"].nodes;
    assert_eq!([burst(NOON), burst(NIGHT), burst(RECLAIM), burst(HARD), burst(MORNING)], [4, 6, 4, 4, 4]);
}

#[test]
fn lent_slots_do_not_move_when_the_pool_is_resized() {
    for size in [15, 20] {
        let both = DEMO
            .replace("nodes: 17, onDemand", "nodes: 20, onDemand")
            .replace("resize: [{pool: burst, nodes: 6}]", &format!("resize: [{{pool: serve, nodes: {size}}}]"))
            .replace("3g.40gb: 256", "3g.40gb: 220");
        let fleet = fleet_in(LOS_ANGELES, NOON, &both);
        let target = fleet.target_at(at(NIGHT));
        assert_eq!(target.pools["serve"].nodes, size);
        assert_eq!(
            serve(&fleet, NIGHT),
            [
                "0..1 halves spare".into(),
                "1..13 whole lent by serving to batch (nightly)".into(),
                format!("13..{size} halves own")
            ]
        );
        assert!(serve(&fleet, RECLAIM)[1].starts_with("1..13 halves back"), "the same nodes come back");
        assert_eq!(serve(&fleet, RECLAIM)[2], "13..17 halves own");
    }
}

#[test]
fn every_slot_is_in_exactly_one_part_at_every_instant() {
    let fleet = demo();
    let (from, to) = (at("2026-06-01T00:00Z"), at("2026-06-15T00:00Z"));
    let instants = fleet.transitions(from, to).into_iter().map(|(at, _)| at).chain([from]);
    for now in instants {
        for (name, pool) in &fleet.target_at(now).pools {
            let mut next = 0;
            for part in &pool.parts {
                assert_eq!(part.first, next, "{name} {now}");
                assert!(part.nodes > 0, "{name} {now}");
                next += part.nodes;
            }
            assert_eq!(next, pool.nodes, "{name} {now}");
        }
    }
}

#[test]
fn an_empty_pool_has_no_parts() {
    let empty = DEMO
        .replace("nodes: 4, capacity", "nodes: 0, capacity")
        .replace("guarantee: {gpus: 32}", "guarantee: {gpus: 0}");
    let fleet = fleet_in(LOS_ANGELES, NOON, &empty);
    let target = fleet.target_at(at(NOON));
    assert_eq!((target.pools["burst"].nodes, target.pools["burst"].parts.len()), (0, 0));
    assert_eq!(fleet.target_at(at(NIGHT)).pools["burst"].own(), 6);
}

#[test]
fn a_pool_remembers_its_old_name() {
    let target = demo().target_at(at(NIGHT));
    assert_eq!(target.pools["serve"].renamed_from.as_ref().map(PoolName::as_str), Some("inference"));
    assert_eq!(target.pools["burst"].renamed_from, None);
}

/// A second schedule for the serving pool, which is low on Tuesday from midnight on.
fn with_rival(precedence: &str) -> String {
    let rival = r#"
kind: TideSchedule
metadata: {name: rival}
spec:
  lowTide: [{days: [Tue], from: "00:00", to: "12:00"}]
  lend: [{pool: serve, nodes: 2, from: serving, to: batch}]
  reclaim: {lead: 45m, hardAt: 10m}
"#;
    format!("{DEMO}---{rival}  {precedence}\n")
}

#[test]
fn of_two_low_tides_the_one_of_higher_precedence_decides() {
    let fleet = fleet_in(LOS_ANGELES, NOON, &with_rival("precedence: 5"));
    assert_eq!(serve(&fleet, "2026-06-08T23:14-07:00")[1], "1..13 whole lent by serving to batch (nightly)");
    assert_eq!(serve(&fleet, "2026-06-09T00:00-07:00")[1], "1..3 halves lent by serving to batch (rival)");
    // The other comes back first, and changes nothing for this pool; it still rules its own.
    assert_eq!(serve(&fleet, HARD)[1], "1..3 halves lent by serving to batch (rival)");
    assert_eq!(fleet.target_at(at("2026-06-09T02:00-07:00")).pools["burst"].nodes, 6);
    assert!(serve(&fleet, "2026-06-09T11:30-07:00")[1].ends_with("(rival)"));
    assert_eq!(serve(&fleet, "2026-06-09T12:00-07:00")[1], "1..17 halves own");
}

#[test]
fn what_one_tide_has_lent_is_back_before_another_takes_over() {
    let fleet = fleet_in(LOS_ANGELES, NOON, &with_rival("precedence: 5"));
    let back = "1..13 halves back from batch to serving by 2026-06-09T07:00:00Z (nightly)";
    assert_eq!(serve(&fleet, "2026-06-08T23:15-07:00")[1], back);
    assert_eq!(serve(&fleet, "2026-06-08T23:59-07:00")[1], back);
    // The tide itself stays low, and so do the pools that only it names.
    let target = fleet.target_at(at("2026-06-08T23:59-07:00"));
    assert_eq!(target.tides["nightly"], Phase::Low { reclaim_at: at(RECLAIM) });
    assert_eq!(target.pools["burst"].nodes, 6);
    assert!(target.quotas["batch"].loans.is_empty());
}

#[test]
fn a_low_tide_that_is_too_short_to_lend_leaves_the_pool_to_others() {
    // On the second Tuesday an exception leaves the rival half an hour, which is less than its lead.
    let short = with_rival("precedence: 5").replace(
        r#"from: "00:00", to: "12:00"}]"#,
        "from: \"23:30\", to: \"12:00\"}]\n  exceptions: [{date: 2026-06-17, tide: high}]",
    );
    let fleet = fleet_in(LOS_ANGELES, NOON, &short);
    assert!(serve(&fleet, "2026-06-09T23:30-07:00")[1].ends_with("(rival)"));
    assert_eq!(serve(&fleet, "2026-06-16T23:45-07:00")[1], "1..13 whole lent by serving to batch (nightly)");
}

/// Three tides of one pool, low one inside the other and one across the edge of another.
#[test]
fn transitions_say_the_same_as_the_target_of_their_instant() {
    let third = r#"---
kind: TideSchedule
metadata: {name: third}
spec:
  lowTide: [{days: [Tue], from: "02:00", to: "05:00"}, {days: [Wed], from: "23:30", to: "21:00"}]
  lend: [{pool: serve, nodes: 1, from: serving, to: batch}]
  reclaim: {lead: 1h, hardAt: 10m}
  precedence: 9
"#;
    let fleet = fleet_in(LOS_ANGELES, NOON, &format!("{}{third}", with_rival("precedence: 5")));
    let mut rulers = BTreeSet::new();
    for (at, changes) in fleet.transitions(at("2026-06-05T00:00Z"), at("2026-06-20T00:00Z")) {
        let target = fleet.target_at(at);
        for change in changes {
            match change {
                Change::Tide { tide, phase } => assert_eq!(target.tides[&tide], phase, "{at}"),
                Change::Quota { quota, after, .. } => assert_eq!(target.quotas[&quota], after, "{at}"),
                Change::Pool { pool, before, after } => {
                    assert_eq!(target.pools[&pool], after, "{at}");
                    // A lent slot is never taken away at once: it is on its way back first.
                    for slot in 0..before.nodes.min(after.nodes) {
                        let purpose = |pool: &PoolTarget| {
                            let part = pool.parts.iter().rfind(|part| part.first <= slot).expect("a part");
                            part.purpose.clone()
                        };
                        if let Purpose::Lent { tide, .. } = purpose(&before) {
                            let stays = matches!(purpose(&after), Purpose::Lent { .. } | Purpose::Returning { .. });
                            assert!(stays, "{at} {tide} slot {slot}");
                            rulers.insert(tide);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(rulers.len(), 3, "each of them lends at some time");
}

#[test]
fn a_lower_precedence_decides_only_while_the_other_is_high() {
    let text = with_rival("precedence: 0").replace("resize: [{pool: burst", "precedence: 3\n  resize: [{pool: burst");
    let fleet = fleet_in(LOS_ANGELES, NOON, &text);
    assert!(serve(&fleet, "2026-06-09T00:00-07:00")[1].ends_with("(nightly)"));
    assert!(serve(&fleet, HARD)[1].ends_with("(nightly)"), "what is on its way back is not lent again");
    assert_eq!(serve(&fleet, MORNING)[1], "1..3 halves lent by serving to batch (rival)");
    // Without a precedence it is an error.
    assert!(check_in(LOS_ANGELES, NOON, &with_rival("precedence: 0")).0.is_none());
}

/// A pool that fills a reservation and a Capacity Block of a week.
const BLOCK: &str = r#"
kind: Reservation
metadata: {name: base}
spec: {instanceType: p5.48xlarge, zone: us-west-2a, nodes: 4, onDemand: {}}
---
kind: Reservation
metadata: {name: july}
spec:
  instanceType: p5.48xlarge
  nodes: 8
  id: cr-0123456789abcdef0
  manage: observe
  capacityBlock:
    duration: 7d
    maxUpfrontUsd: 100000
    window: {from: 2026-07-06T11:30Z, to: 2026-07-13T11:30Z}
---
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, fill: reservations, capacity: [{reservation: base}, {reservation: july}]}
"#;

#[test]
fn a_pool_that_fills_grows_and_shrinks_with_a_blocks_window() {
    let fleet = fleet_in("UTC", "2026-07-01T00:00Z", BLOCK);
    let nodes = |now: &str| fleet.target_at(at(now)).pools["train"].nodes;
    assert_eq!(nodes("2026-07-06T11:29:59Z"), 4);
    assert_eq!(nodes("2026-07-06T11:30Z"), 12);
    // EC2 begins to take the nodes away half an hour before the end.
    assert_eq!(nodes("2026-07-13T10:59:59Z"), 12);
    assert_eq!(nodes("2026-07-13T11:00Z"), 4);
    let instants: Vec<String> = fleet
        .transitions(at("2026-07-01T00:00Z"), at("2026-08-01T00:00Z"))
        .iter()
        .map(|(at, changes)| format!("{at} {}", changes.len()))
        .collect();
    assert_eq!(instants, ["2026-07-06T11:30:00Z 1", "2026-07-13T11:00:00Z 1"]);
}

#[test]
fn transitions_are_every_change_and_nothing_else() {
    let fleet = demo();
    let (from, to) = (at("2026-06-08T12:00-07:00"), at("2026-06-09T12:00-07:00"));
    let found = fleet.transitions(from, to);
    let named: Vec<String> = found
        .iter()
        .map(|(at, changes)| {
            let names: Vec<String> = changes
                .iter()
                .map(|change| match change {
                    Change::Tide { tide, .. } => format!("tide {tide}"),
                    Change::Pool { pool, .. } => format!("pool {pool}"),
                    Change::Quota { quota, .. } => format!("quota {quota}"),
                })
                .collect();
            format!("{at}: {}", names.join(", "))
        })
        .collect();
    assert_eq!(
        named,
        [
            "2026-06-09T03:00:00Z: tide nightly, pool burst, pool serve, quota batch, quota serving",
            "2026-06-09T12:45:00Z: tide nightly, pool burst, pool serve, quota batch",
            "2026-06-09T13:20:00Z: tide nightly",
            "2026-06-09T13:30:00Z: tide nightly, pool serve, quota serving",
        ]
    );
    // An edge at the beginning is no change any more, one at the end is.
    assert_eq!(fleet.transitions(at("2026-06-08T20:00-07:00"), at(RECLAIM)).len(), 1);
    assert_eq!(fleet.transitions(at(RECLAIM), at(RECLAIM)).len(), 0);
}

#[test]
fn the_target_is_constant_between_transitions() {
    let fleet = fleet_in(LOS_ANGELES, NOON, &with_rival("precedence: 5"));
    let (mut now, to) = (at("2026-10-30T00:00Z"), at("2026-11-05T00:00Z"));
    let transitions = fleet.transitions(now, to);
    let mut last = fleet.target_at(now);
    while now < to {
        let next = now.checked_add(jiff::SignedDuration::from_mins(5)).expect("near today");
        let target = fleet.target_at(next);
        let moved = transitions.iter().any(|(at, _)| now < *at && *at <= next);
        assert_eq!(last != target, moved, "{now}");
        (now, last) = (next, target);
    }
}
