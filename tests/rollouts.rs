//! An operator that dies in the middle of a roll-out, anywhere, in fleets whose gangs are as wide as the budget or the
//! hourly limit, wider, and narrower. What it leaves is understood: the next plan goes on, nothing is moved twice, and
//! no more than the budget is out beside what was begun.

use std::path::Path;

use tidewright::scenario;

/// Six nodes of one pool, and the gangs on them by how many nodes each spans.
fn story(gangs: &[u32], max_unavailable: u32, hourly: u32, crash: u32) -> String {
    let submits: String = gangs.iter().map(|nodes| format!("submit gang vision {} saves 1m\n", nodes * 8)).collect();
    format!(
        r#"start 2026-03-02T08:00Z
fleet
  kind: Fleet
  metadata: {{name: wide}}
  spec:
    timeZone: UTC
    cloud: {{sim: {{}}}}
    kubernetes: {{sim: {{}}}}
    limits: {{nodesRemovedPerHour: {hourly}, desiredShrinkPercent: 50}}
  ---
  kind: Reservation
  metadata: {{name: h100}}
  spec: {{instanceType: p5.48xlarge, zone: us-west-2a, nodes: 6, onDemand: {{end: never, match: targeted}}}}
  ---
  kind: NodePool
  metadata: {{name: serve}}
  spec:
    instanceType: p5.48xlarge
    nodes: 6
    capacity: [{{reservation: h100}}]
    updates: {{when: drain, maxUnavailable: {max_unavailable}}}
    launch:
      image: {{ssmParameter: {{name: /images/gpu, version: 1}}}}
      bootstrap: {{nodeadm: {{}}}}
      subnets: {{tags: {{team: ml}}, zones: [us-west-2a]}}
      securityGroups: {{tags: {{team: ml}}}}
      role: node
  ---
  kind: PreemptionTier
  metadata: {{name: research}}
  spec: {{rank: 200, checkpoint: {{deadline: 10m}}}}
  ---
  kind: Quota
  metadata: {{name: vision}}
  spec:
    namespaces: [{{name: vision}}]
    tiers: [research]
    shares: [{{pool: serve, guarantee: {{gpus: 48}}}}]
approve
converge
{submits}advance 1h
edit "version: 1}}" -> "version: 2}}"
approve
crash after effect {crash}
converge
expect converged
expect terminations 6
expect launches 12
expect suspends {count}
expect no orphans
"#,
        count = gangs.len(),
    )
}

/// Every fifth call of the whole roll-out, because each is a story of its own; says how many calls there are.
fn check(gangs: &[u32], max_unavailable: u32) -> u32 {
    check_within(gangs, max_unavailable, 100)
}

/// The same with so many nodes an hour.
fn check_within(gangs: &[u32], max_unavailable: u32, hourly: u32) -> u32 {
    for crash in (1..).step_by(5) {
        let text = story(gangs, max_unavailable, hourly, crash);
        match scenario::run(&text, Path::new(".")) {
            Ok(done) if !done.text.contains("1 crash") => return crash - 1,
            Ok(_) => {}
            Err(error) => {
                let budgets = format!("{max_unavailable} at once, {hourly} an hour");
                panic!("gangs {gangs:?}, {budgets}, dead after call {crash}: {error}")
            }
        }
    }
    unreachable!("a roll-out has an end")
}

#[test]
fn gangs_of_two_one_and_three_survive_every_crash() {
    assert!(check(&[2, 1, 3], 2) > 40);
}

#[test]
fn a_gang_wider_than_the_budget_survives_every_crash() {
    assert!(check(&[3], 2) > 40);
}

#[test]
fn a_gang_as_wide_as_the_budget_survives_every_crash() {
    assert!(check(&[2], 2) > 40);
}

#[test]
fn gangs_of_one_node_survive_every_crash() {
    assert!(check(&[1, 1, 1, 1, 1, 1], 2) > 40);
}

#[test]
fn gangs_that_fill_the_pool_survive_every_crash() {
    assert!(check(&[2, 2, 2], 2) > 40);
}

#[test]
fn a_gang_over_the_whole_pool_survives_every_crash() {
    assert!(check(&[6], 1) > 40);
}

#[test]
fn gangs_as_wide_as_the_hourly_limit_survive_every_crash() {
    assert!(check_within(&[3], 6, 3) > 40);
    assert!(check_within(&[2, 2], 6, 2) > 40);
}
