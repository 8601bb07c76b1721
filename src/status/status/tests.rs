//! Where nodes are, who uses what, and what that means.

use super::*;
use crate::effect::marks::STARTING_TAINT;
use crate::effect::{Purchase, PurchaseRequest, Scope};
use crate::fleet::launch::{Taint, TaintEffect};
use crate::fleet::policy::{ConditionStatus, Remedy, Rule, Symptom};
use crate::fleet::standing::HealthSpec;
use crate::fleet::testing::at;
use crate::observed::{ConditionSeen, Gap, InstanceState, Read};
use crate::status::sample;

fn of(input: &PlanInput) -> Status {
    Status::of(input, &sample::empty_plan())
}

fn pool<'a>(status: &'a Status, name: &str) -> &'a PoolStatus {
    status.pools.iter().find(|pool| pool.pool.as_str() == name).unwrap()
}

#[test]
fn a_fleet_that_is_as_git_says_is_converged() {
    let status = of(&sample::input());
    assert_eq!(status.verdict, Verdict::Converged);
    let (train, serve) = (pool(&status, "train"), pool(&status, "serve"));
    assert_eq!((train.wanted, train.ready, train.spares), (4, 4, 1));
    assert_eq!(serve.layouts["halves"], LayoutCount { wanted: 3, cut: 3 });
}

#[test]
fn a_node_that_was_never_cut_counts_for_what_it_shows() {
    let mut input = sample::input();
    let order = |value: &str| std::collections::BTreeMap::from([("nvidia.com/mig.config".into(), value.into())]);
    let layouts = &mut input.desired.pools.get_mut("train").unwrap().layouts;
    layouts.get_mut("whole").unwrap().labels = order("tw-whole");
    let whole = |input: &PlanInput| pool(&of(input), "train").layouts["whole"].cut;
    assert_eq!(whole(&input), 4);
    // One that was cut into something else, and one that says that it failed.
    sample::with_node(&mut input, "train-0", |node| node.labels = order("tw-slices"));
    sample::with_node(&mut input, "train-1", |node| {
        node.labels = order("tw-whole");
        node.labels.insert("nvidia.com/mig.config.state".into(), "failed".into());
    });
    assert_eq!(whole(&input), 2);
}

#[test]
fn every_slot_is_counted_once_whatever_happened_to_it() {
    let mut input = sample::input();
    let now = input.now;
    sample::cordon(&mut input, "train-0");
    sample::with_node(&mut input, "train-1", |node| node.unschedulable = true);
    sample::with_node(&mut input, "train-2", |node| node.ready = false);
    let taint = Taint { key: STARTING_TAINT.into(), value: None, effect: TaintEffect::NoSchedule };
    sample::with_node(&mut input, "train-3", |node| node.taints.push(taint));
    let slots = &mut input.ledger.pools.get_mut("serve").unwrap().slots;
    // One was never listed, one is gone, one has joined nothing yet, and one is too many.
    slots.get_mut(&0).unwrap().instance = Some("i-hidden".into());
    slots.get_mut(&1).unwrap().instance = Some("i-serve-gone".into());
    slots.get_mut(&1).unwrap().missing_since = Some(now);
    let extra = slots[&2].clone();
    slots.insert(7, extra);
    let mut instances = input.observed.cloud.instances.seen().clone();
    instances.get_mut("i-serve-2").unwrap().state = InstanceState::Pending;
    input.observed.cloud.instances = Read::new(instances, now);
    let mut nodes = input.observed.cluster.nodes.seen().clone();
    nodes.remove("serve-2");
    input.observed.cluster.nodes = Read::new(nodes, now);

    let status = of(&input);
    let train = pool(&status, "train");
    assert_eq!((train.draining, train.cordoned, train.unready, train.launching, train.ready), (1, 1, 1, 1, 0));
    let serve = pool(&status, "serve");
    assert_eq!((serve.launching, serve.missing, serve.surplus, serve.ready), (2, 1, 1, 0));
    for pool in &status.pools {
        let sum =
            pool.ready + pool.draining + pool.closed + pool.cordoned + pool.launching + pool.unready + pool.missing;
        assert_eq!(sum, pool.wanted, "{}", pool.pool);
    }
    assert_eq!(status.verdict, Verdict::Changing, "something is on its way");
}

#[test]
fn a_node_that_nothing_is_done_about_is_not_as_git_says() {
    let mut input = sample::input();
    sample::with_node(&mut input, "train-2", |node| node.ready = false);
    assert_eq!(of(&input).verdict, Verdict::Blocked);
}

#[test]
fn steps_are_changes_and_what_is_only_held_is_blocked() {
    let input = sample::input();
    let plan = sample::plan(&input);
    assert_eq!(Status::of(&input, &plan).verdict, Verdict::Changing);
    let held = Plan { steps: Vec::new(), ..plan };
    assert_eq!(Status::of(&input, &held).verdict, Verdict::Blocked);
}

#[test]
fn what_could_not_be_read_is_not_taken_for_good() {
    let mut input = sample::input();
    let gap = Gap { what: "list pods".into(), why: "denied".into() };
    input.observed.cluster.pods = Read::with_gap(Vec::new(), input.now, gap.clone());
    let status = of(&input);
    assert_eq!((status.verdict, status.gaps), (Verdict::Blocked, vec![gap]));
}

#[test]
fn only_a_freeze_of_everything_makes_a_fleet_frozen() {
    let mut input = sample::input();
    let freeze = |scope| Freeze { scope, by: "ana".into(), at: input.now, reason: "why".into(), all: false };
    let (fleet, pool) = (freeze(Scope::Fleet), freeze(Scope::Pool("train".into())));
    input.ledger.head.frozen = vec![pool.clone()];
    assert_eq!(of(&input).verdict, Verdict::Converged);
    input.ledger.head.frozen = vec![pool, fleet];
    assert_eq!(of(&input).verdict, Verdict::Frozen);
    input.ledger.head.frozen.clear();
    std::sync::Arc::make_mut(&mut input.target.standing).frozen = Some("audit".into());
    let status = of(&input);
    assert_eq!((status.verdict, status.freezes[0].by.as_str()), (Verdict::Frozen, "the Fleet document"));
}

#[test]
fn what_one_borrows_another_lends() {
    let status = of(&sample::input());
    let share = |quota: &str| status.quotas.iter().find(|share| share.quota.as_str() == quota).unwrap();
    let vision = share("vision");
    assert_eq!((vision.used.gpus, vision.borrowed.gpus, vision.lent.gpus), (24, 8, 0));
    let nlp = share("nlp");
    assert_eq!((nlp.used.gpus, nlp.borrowed.gpus, nlp.lent.gpus, nlp.waiting), (0, 0, 8, 1));
    assert!(share("serving").lent.slices.is_empty());
}

#[test]
fn a_quota_is_what_its_queue_says_and_what_is_wanted_is_marked() {
    let share = |input: &PlanInput, quota: &str| {
        of(input).quotas.into_iter().find(|share| share.quota.as_str() == quota).unwrap()
    };
    let mut input = sample::input();
    assert_eq!(share(&input, "vision").wanted, None);
    // Somebody raised vision and took everything from nlp, and that waits.
    let group = |body: &mut serde_json::Value| body["spec"]["resourceGroups"][0]["flavors"].take();
    sample::with_queue(&mut input, "vision", |body| {
        body["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "24".into();
    });
    let vision = share(&input, "vision");
    assert_eq!((vision.guarantee, vision.wanted), (Some(Amount::Gpus(24)), Some(Amount::Gpus(16))));
    assert_eq!(vision.borrowed.gpus, 0, "what it holds is its own as long as the queue says so");
    sample::with_queue(&mut input, "nlp", |body| drop(group(body)));
    let nlp = share(&input, "nlp");
    assert_eq!((nlp.guarantee, nlp.wanted, nlp.lent.gpus), (None, Some(Amount::Gpus(8)), 0));
    // A share that is no longer in the documents is still in the queue.
    let mut input = sample::input();
    input.target.quotas.get_mut("nlp").unwrap().shares.clear();
    let nlp = share(&input, "nlp");
    assert_eq!((nlp.guarantee, nlp.wanted), (Some(Amount::Gpus(8)), Some(Amount::Gpus(0))));
    // Where nobody could look, the documents are all that is known.
    let gap = Gap { what: "list ClusterQueues".into(), why: "denied".into() };
    let mut input = sample::input();
    input.observed.cluster.objects = Read::with_gap(BTreeMap::new(), input.now, gap);
    assert_eq!((share(&input, "nlp").guarantee, share(&input, "nlp").wanted), (Some(Amount::Gpus(8)), None));
}

#[test]
fn the_tide_lends_until_it_turns() {
    let mut input = sample::input_at("2026-11-02T23:00-08:00");
    assert_eq!(of(&input).tides[0].lent, 0, "nothing is handed over yet");
    sample::lend(&mut input);
    let status = of(&input);
    let tide = &status.tides[0];
    assert_eq!((tide.lent, tide.returning), (2, 0));
    assert_eq!(tide.next.unwrap().0, at("2026-11-03T05:45-08:00"));
    let serving = status.quotas.iter().find(|share| share.quota.as_str() == "serving").unwrap();
    assert_eq!(serving.lent.slices["3g.20gb"], 32);
    let vision = status.quotas.iter().find(|share| share.pool.as_str() == "serve" && share.loaned.gpus > 0).unwrap();
    assert_eq!((vision.quota.as_str(), vision.loaned.gpus), ("vision", 16));
}

#[test]
fn idle_nodes_of_a_reservation_have_a_price() {
    let mut input = sample::input();
    let mut seen = input.observed.cloud.reservations.seen().clone();
    seen.get_mut("cr-0aaa").unwrap().available = 3;
    input.observed.cloud.reservations = Read::new(seen.clone(), input.now);
    let price = input.target.standing.reservations["h100"].shape.on_demand.unwrap();
    let held = |input: &PlanInput| of(input).reservations[0].seen.clone().unwrap();
    assert_eq!((held(&input).used, held(&input).idle), (1, 3));
    assert_eq!(held(&input).idle_usd_hour, Some(Usd(price.0 * Decimal::from(3))));
    // What has ended costs nothing, and what nobody lists is not there.
    seen.get_mut("cr-0aaa").unwrap().state = ReservationState::Ended;
    input.observed.cloud.reservations = Read::new(seen, input.now);
    assert_eq!(held(&input).idle, 0);
    input.observed.cloud.reservations = Read::new(BTreeMap::new(), input.now);
    assert_eq!(of(&input).reservations[0].seen, None);
}

#[test]
fn a_block_that_we_bought_costs_what_we_paid() {
    let mut input = sample::input();
    let standing = std::sync::Arc::make_mut(&mut input.target.standing);
    let spec = standing.reservations.get_mut("h100").unwrap();
    spec.terms = TermsSpec::Block(crate::fleet::standing::BlockSpec {
        duration: crate::units::Duration::days(1),
        start: None,
        window: None,
        max_upfront: sample::usd("100000"),
        approval: None,
        extend: None,
        kill: crate::units::Duration::minutes(30),
    });
    let request = PurchaseRequest {
        reservation: "h100".into(),
        offering: "cb-1".into(),
        extends: None,
        fee: sample::usd("9600"),
    };
    let intent = crate::effect::Intent { request, plan: "p".into(), at: input.now };
    input.ledger.head.purchases = vec![Purchase { intent, outcome: Outcome::Bought("cr-0aaa".into()) }];
    let mut seen = input.observed.cloud.reservations.seen().clone();
    let found = seen.get_mut("cr-0aaa").unwrap();
    (found.block, found.available) = (true, 2);
    input.observed.cloud.reservations = Read::new(seen, input.now);
    // 9,600 dollars for 4 nodes and 24 hours are 100 a node and hour.
    assert_eq!(of(&input).reservations[0].seen.as_ref().unwrap().idle_usd_hour, Some(Usd(Decimal::from(200))));
}

#[test]
fn capacity_that_has_not_begun_is_used_by_nobody() {
    let mut input = sample::input();
    let mut all = input.observed.cloud.reservations.seen().clone();
    for seen in all.values_mut() {
        (seen.state, seen.available) = (ReservationState::Pending, 0);
    }
    input.observed.cloud.reservations = Read::new(all, input.now);
    let used: Vec<u32> = of(&input).reservations.iter().filter_map(|one| Some(one.seen.as_ref()?.used)).collect();
    assert!(!used.is_empty() && used.iter().all(|used| *used == 0), "{used:?}");
}

#[test]
fn what_a_policy_only_reports_is_no_obstacle_and_is_told() {
    let mut input = sample::input();
    let standing = std::sync::Arc::make_mut(&mut input.target.standing);
    let rules = vec![Rule { when: Symptom::Xid(vec![31]), r#for: Default::default(), then: vec![Remedy::Report] }];
    let policy = HealthSpec { rules, limit: crate::units::Percent(10), admit: Vec::new() };
    standing.health.insert("watch".into(), policy);
    standing.pools.values_mut().for_each(|pool| pool.health = Some("watch".into()));
    let since = input.now;
    let seen = ConditionSeen::said("SysLogsXIDError", ConditionStatus::True, since, "", "ErrorCode:31");
    sample::with_node(&mut input, "train-2", |node| drop(node.conditions.insert("SysLogsXIDError".into(), seen)));
    let status = of(&input);
    assert_eq!(status.verdict, Verdict::Converged);
    let told: Vec<(&str, &str)> = status.reports.iter().map(|one| (one.node.as_str(), one.symptom.as_str())).collect();
    assert_eq!(told, [("train-2", "Xid 31")]);
    // One that a person keeps out of service is on another list.
    let quarantine = Quarantine { by: "bo".into(), at: since, reason: "why".into() };
    input.ledger.head.quarantined.insert("train-2".into(), quarantine);
    assert_eq!(of(&input).reports, []);
}
