//! What the model of Kueue makes of the demo's queues. Whether Kueue does the same only Kueue can say.

use std::collections::BTreeMap;

use super::*;
use crate::queue::{
    ClusterQueue, Cohort, Decision, Fungibility, Mode, Preemption, QueueState, QueueingStrategy, Quota, Reclaim,
    ResourceGroup, StopPolicy, Weight, WithinQueue, Workload, WorkloadUid, apply, settle,
};

fn number(text: &Value) -> Option<i64> {
    let text = text.as_str()?;
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        other => panic!("{other}"),
    };
    Some(digits.parse::<i64>().unwrap() * unit)
}

fn group(spec: &Value) -> ResourceGroup {
    let flavors = spec["resourceGroups"][0]["flavors"].as_array().into_iter().flatten();
    let flavors = flavors.map(|flavor| {
        let quotas = flavor["resources"].as_array().unwrap().iter().map(|limits| {
            let quota = Quota {
                nominal: number(&limits["nominalQuota"]).unwrap(),
                borrowing_limit: number(&limits["borrowingLimit"]),
                lending_limit: number(&limits["lendingLimit"]),
            };
            (limits["name"].as_str().unwrap().into(), quota)
        });
        crate::queue::FlavorQuotas { flavor: flavor["name"].as_str().unwrap().into(), quotas: quotas.collect() }
    });
    ResourceGroup { flavors: flavors.collect() }
}

fn cluster_queue(spec: &Value) -> ClusterQueue {
    let preemption = Preemption {
        within_queue: match spec["preemption"]["withinClusterQueue"].as_str() {
            Some("LowerPriority") => WithinQueue::LowerPriority,
            _ => WithinQueue::Never,
        },
        reclaim: match spec["preemption"]["reclaimWithinCohort"].as_str() {
            Some("Any") => Reclaim::Any,
            _ => Reclaim::Never,
        },
        borrow_within_cohort: None,
    };
    let stop_when_borrowing = spec["flavorFungibility"]["whenCanBorrow"] != "TryNextFlavor";
    ClusterQueue {
        cohort: spec["cohortName"].as_str().map(Into::into),
        groups: vec![group(spec)],
        preemption,
        weight: Weight::default(),
        stop: StopPolicy::None,
        strategy: QueueingStrategy::BestEffortFifo,
        fungibility: Fungibility { stop_when_borrowing, ..Fungibility::default() },
    }
}

fn state(desired: &Desired) -> QueueState {
    let of = |kind| desired.objects.iter().filter(move |object| object.key.kind == kind);
    let cohorts = of(ObjectKind::Cohort).map(|object| {
        let spec = &object.body["spec"];
        let quotas = group(spec).flavors.into_iter().flat_map(|flavor| {
            flavor.quotas.into_iter().map(move |(resource, quota)| ((flavor.flavor.clone(), resource), quota))
        });
        let parent = spec["parentName"].as_str().map(Into::into);
        (object.key.name.to_string().into(), Cohort { parent, quotas: quotas.collect(), weight: Weight::default() })
    });
    let queues = of(ObjectKind::ClusterQueue)
        .map(|object| (object.key.name.to_string().into(), cluster_queue(&object.body["spec"])));
    QueueState {
        mode: Mode::Classical,
        now: at(DAY),
        cohorts: cohorts.collect(),
        cluster_queues: queues.collect(),
        workloads: BTreeMap::new(),
        topologies: BTreeMap::new(),
        parked: BTreeMap::new(),
    }
}

fn submit(state: &mut QueueState, uid: &str, queue: &str, gpus: i64) {
    let requests = [("nvidia.com/gpu".into(), gpus), ("cpu".into(), gpus * 10), ("memory".into(), gpus << 37)];
    let workload = Workload {
        queue: queue.into(),
        priority: 100,
        created: at(DAY),
        active: true,
        requests: requests.into(),
        pods: 1,
        per_pod: BTreeMap::new(),
        topology: None,
        barred: [].into(),
        reservation: None,
    };
    state.workloads.insert(uid.into(), workload);
}

/// Which flavor each workload got, and who was sent away, until nothing more happens.
fn settled(state: &mut QueueState) -> Vec<String> {
    let decisions = settle(state);
    decisions.iter().for_each(|decision| apply(state, decision));
    let said = decisions.iter().filter_map(|decision| match decision {
        Decision::Admit { workload, assignment } => {
            let flavor = assignment.flavors.get("nvidia.com/gpu").unwrap();
            Some(format!("{workload} on {flavor}"))
        }
        Decision::Preempt { victim, .. } => Some(format!("{victim} goes")),
        _ => None,
    });
    said.collect()
}

#[test]
fn by_night_the_borrower_uses_its_own_then_what_is_lent_then_what_is_free() {
    let mut night = state(&demo(NIGHT));
    for (uid, gpus) in [("a", 8), ("b", 40), ("c", 8), ("d", 16)] {
        submit(&mut night, uid, "batch", gpus);
        let flavor = settled(&mut night);
        let expected = if uid == "a" || uid == "d" { "train" } else { "serve" };
        assert_eq!(flavor, [format!("{uid} on {expected}")]);
    }
    // Others of the cohort get their own back, and nothing of what is lent.
    submit(&mut night, "e", "vision", 56);
    submit(&mut night, "f", "language", 56);
    assert_eq!(settled(&mut night).len(), 3);
    assert!(night.workloads[&WorkloadUid::from("d")].reservation.is_none());
    assert!(night.workloads[&WorkloadUid::from("b")].reservation.is_some());
}

#[test]
fn when_the_tide_turns_nothing_starts_on_what_was_lent_and_nothing_is_evicted() {
    let mut night = state(&demo(NIGHT));
    submit(&mut night, "a", "batch", 8);
    submit(&mut night, "b", "batch", 40);
    assert_eq!(settled(&mut night), ["a on train", "b on serve"]);
    let mut morning = QueueState { workloads: night.workloads, ..state(&demo(RECLAIM)) };
    assert_eq!(settled(&mut morning), [""; 0]);
    submit(&mut morning, "v", "vision", 56);
    submit(&mut morning, "l", "language", 56);
    assert_eq!(settled(&mut morning).len(), 2);
    submit(&mut morning, "late", "batch", 8);
    assert_eq!(settled(&mut morning), [""; 0]);
    morning.workloads.remove(&WorkloadUid::from("b"));
    assert_eq!(settled(&mut morning), [""; 0], "although quota was released");
}

#[test]
fn what_nobody_is_guaranteed_can_be_borrowed_and_a_guarantee_is_taken_back() {
    let share = |guarantee: u32, borrow: u32| {
        format!(
            "cohort: x/y, shares: [{{pool: train, guarantee: {{gpus: {guarantee}}}, borrow: {{gpus: {borrow}}}, lend: {{gpus: {guarantee}}}}}]"
        )
    };
    let mut state = state(&with_pool(&(quota("a", &share(8, 16)) + &quota("b", &share(8, 16)))));
    submit(&mut state, "1", "a", 16);
    submit(&mut state, "2", "a", 8);
    assert_eq!(settled(&mut state), ["1 on train", "2 on train"], "its own, the free 8, and the 8 that b lends");
    submit(&mut state, "3", "b", 8);
    assert_eq!(settled(&mut state).len(), 2, "one goes, one comes");
    assert!(state.workloads[&WorkloadUid::from("3")].reservation.is_some());
}

#[test]
fn a_lender_that_keeps_its_quota_takes_back_what_it_needs_and_no_more() {
    let text = quota("a", "shares: [{pool: train, guarantee: {nodes: 3}}]")
        + &quota("b", "weight: 1")
        + &quota("c", "cohort: x, shares: [{pool: train, guarantee: {gpus: 0}, borrow: {gpus: 8}}]")
        + TIDE;
    let mut low = state(&with_pool(&text));
    for uid in ["1", "2", "3"] {
        submit(&mut low, uid, "b", 8);
    }
    submit(&mut low, "c", "c", 8);
    assert_eq!(settled(&mut low), ["1 on train", "2 on train"], "and nobody else gets at what is lent");
    submit(&mut low, "own", "a", 8);
    assert_eq!(settled(&mut low), ["own on train"], "what was not lent");
    submit(&mut low, "more", "a", 8);
    let told = settled(&mut low);
    assert_eq!((told.len(), &*told[1]), (2, "more on train"), "{told:?}");
    assert!(told[0].ends_with("goes"), "{told:?}");
}
