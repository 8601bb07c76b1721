//! A night of the tide, and whom it would disturb.

use super::*;
use crate::effect::LedgerChange;
use crate::ids::SlotId;
use crate::observed::Read;
use crate::plan::testing::*;

// A Monday.
const NOON: &str = "2026-06-08T12:00Z";
const DEMO: &str = r#"kind: PreemptionTier
metadata: {name: production}
spec: {rank: 1000, preempts: lowerTiers}
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
metadata: {name: serve}
spec: {instanceType: p5.48xlarge, nodes: 17, spares: 1, layout: halves, capacity: [{reservation: h100}]}
---
kind: NodePool
metadata: {name: burst}
spec: {instanceType: p4d.24xlarge, nodes: 8, capacity: [{onDemand: {max: 8}}]}
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

fn told(input: &PlanInput) -> String {
    told_after(input, Draft::default())
}

fn told_after(input: &PlanInput, mut draft: Draft) -> String {
    plan(&View::new(input), &mut draft);
    let line = |one: &Upcoming| {
        let pods = one.disruption.pods;
        let hit = if pods == 0 { String::new() } else { format!(" ({pods} pods)") };
        format!("{} {}: {}{hit}", one.at, one.what, one.change)
    };
    draft.upcoming.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_night_is_told_in_the_order_in_which_it_comes() {
    insta::assert_snapshot!(told(&world(NOON, DEMO)), @r"
    2026-06-08T20:00:00Z tide/nightly: nightly turns low until Tue 05:45
    2026-06-08T20:00:00Z pool/burst: gives up 2 nodes of burst
    2026-06-08T20:00:00Z pool/serve: lends 12 nodes of serve to batch, cut whole
    2026-06-09T05:45:00Z tide/nightly: nightly asks back, until Tue 06:20 in good time, by Tue 06:30 in any case
    2026-06-09T05:45:00Z pool/burst: adds 2 nodes to burst
    2026-06-09T05:45:00Z pool/serve: asks 12 nodes of serve back from batch by Tue 06:30, cut as halves
    2026-06-09T06:20:00Z tide/nightly: nightly evicts what has not left, by Tue 06:30
    2026-06-09T06:30:00Z tide/nightly: nightly is high again
    2026-06-09T06:30:00Z pool/serve: gives 12 nodes of serve back to serving
    ");
}

#[test]
fn what_runs_now_is_disturbed_once() {
    let mut input = world(NOON, DEMO);
    // Slot 0 is a spare, 3 is lent, 14 stays.
    for (slot, node) in [(0, "a"), (3, "b"), (14, "c")] {
        let slot = SlotId::new(&"serve".into(), slot);
        input.ledger.change(&LedgerChange::Claimed { slot, node: node.into() });
    }
    let slot = SlotId::new(&"burst".into(), 7);
    input.ledger.change(&LedgerChange::Claimed { slot, node: "d".into() });
    let pods = vec![pod("serving/a", "a", 1), pod("serving/b", "b", 1), pod("serving/c", "c", 1), pod("x/d", "d", 1)];
    input.observed.cluster.pods = Read::new(pods, input.now);
    let told = told(&input);
    let hit: Vec<&str> = told.lines().filter(|line| line.contains("pods)")).collect();
    assert_eq!(hit.len(), 2, "{told}");
    assert!(hit.iter().any(|line| line.contains("lends 12 nodes of serve to batch, cut whole (1 pods)")), "{told}");
    assert!(hit.iter().any(|line| line.contains("gives up 2 nodes of burst (1 pods)")), "{told}");
}

#[test]
fn what_this_plan_moves_is_not_disturbed_again() {
    let mut input = world(NOON, DEMO);
    let slot = SlotId::new(&"serve".into(), 3);
    input.ledger.change(&LedgerChange::Claimed { slot, node: "b".into() });
    let mut moving = pod("serving/b", "b", 1);
    moving.workload = Some("w-1".into());
    input.observed.cluster.pods = Read::new(vec![moving], input.now);
    assert!(told(&input).contains("(1 pods)"));
    let action = ClusterAction::Suspend { workload: "w-1".into(), mark: crate::effect::marks::Mark::parse("drain") };
    let reason = crate::plan::Reason::Wanted;
    let one = crate::plan::steps::step("suspend".into(), &Thing::Fleet, Action::Cluster(action), &reason);
    let course = crate::plan::steps::course(&Thing::Fleet, "move it", &reason, vec![one]);
    let told = told_after(&input, Draft { courses: vec![course], ..Draft::default() });
    assert!(!told.contains("pods)"), "{told}");
}

#[test]
fn what_is_frozen_holds_its_phase() {
    let mut input = world(NOON, DEMO);
    let freeze = |scope| Freeze { scope, by: "ana".into(), at: input.now, reason: "incident".into(), all: false };
    let (all, serve) = (freeze(Scope::Fleet), freeze(Scope::Pool("serve".into())));
    input.ledger.head.frozen = vec![serve];
    let lines = told(&input);
    let evening: Vec<&str> = lines.lines().take(3).collect();
    insta::assert_snapshot!(evening.join("\n"), @r"
    2026-06-08T20:00:00Z tide/nightly: nightly turns low until Tue 05:45
    2026-06-08T20:00:00Z pool/burst: gives up 2 nodes of burst
    2026-06-08T20:00:00Z pool/serve: serve stays as it is while it is frozen by ana (incident); else it lends 12 nodes of serve to batch, cut whole
    ");
    input.ledger.head.frozen = vec![all];
    let lines = told(&input);
    let evening: Vec<&str> = lines.lines().take(3).collect();
    insta::assert_snapshot!(evening.join("\n"), @r"
    2026-06-08T20:00:00Z tide/nightly: nightly holds its phase while it is frozen by ana (incident); else nightly turns low until Tue 05:45
    2026-06-08T20:00:00Z pool/burst: burst stays as it is while it is frozen by ana (incident); else it gives up 2 nodes of burst
    2026-06-08T20:00:00Z pool/serve: serve stays as it is while it is frozen by ana (incident); else it lends 12 nodes of serve to batch, cut whole
    ");
}
