//! A small language for states, so that a test reads as a sentence, and what is told of a settled state.
//!
//! ```text
//! cohort night in org: 0 borrow 600
//! queue serve in org: 800; reclaim any; within lower
//! run b0 batch low 100 @5        reserved (and created) at second 5
//! wait s0 serve high 300 @9      created at second 9
//! ```
//! Quota is of GPUs of the flavor `big` unless a flavor stands before the number. Priorities: low 10, mid 100,
//! high 1000, a number, or `-` for 0. The UID of a workload is its name.

mod fair;
mod nested;
mod observed;
mod oracle;
mod properties;
mod topology;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::*;

const GPU: &str = "nvidia.com/gpu";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn state(text: &str) -> QueueState {
    let mut state = QueueState {
        mode: Mode::Classical,
        now: at(1000),
        cohorts: BTreeMap::new(),
        cluster_queues: BTreeMap::new(),
        workloads: BTreeMap::new(),
        topologies: BTreeMap::new(),
        parked: BTreeMap::new(),
    };
    more(&mut state, text);
    state
}

/// Adds lines to a state; a queue or cohort that is there already is replaced.
fn more(state: &mut QueueState, text: &str) {
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "fair" => state.mode = Mode::FairSharing { strategies: strategies(rest) },
            "cohort" => {
                let (name, parent, quotas, options) = node(rest);
                let quotas = quotas.into_iter().map(|(flavor, quota)| ((flavor, GPU.into()), quota)).collect();
                let mut cohort = Cohort { parent: parent.map(Into::into), quotas, weight: Weight::default() };
                for option in options {
                    cohort.weight = weight(option).expect("a weight");
                }
                state.cohorts.insert(name.into(), cohort);
            }
            "queue" => {
                let (name, cohort, quotas, options) = node(rest);
                state.cluster_queues.insert(name.into(), queue(cohort, quotas, options));
            }
            "run" | "wait" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let second =
                    words.iter().find_map(|word| word.strip_prefix('@')).map_or(0, |text| text.parse().unwrap());
                let flavor = words.get(5).copied().unwrap_or("big");
                let mut workload = workload(words[1], priority(words[2]), words[3].parse().unwrap(), second);
                if verb == "run" {
                    let flavors = [(GPU.into(), flavor.into())].into();
                    let assignment = Assignment { flavors, nodes: BTreeMap::new() };
                    workload.reservation = Some(Reservation { since: at(second), assignment, evicted: false });
                }
                state.workloads.insert(words[0].into(), workload);
            }
            _ => panic!("no such line: {line}"),
        }
    }
}

fn strategies(text: &str) -> Vec<Strategy> {
    match text {
        "" => vec![Strategy::LessThanOrEqualToFinalShare, Strategy::LessThanInitialShare],
        "final" => vec![Strategy::LessThanOrEqualToFinalShare],
        "initial" => vec![Strategy::LessThanInitialShare],
        _ => panic!("no such strategies: {text}"),
    }
}

type Quotas = Vec<(FlavorName, Quota)>;

/// `serve in org: 800 lend 600, spot 100; option; option`.
fn node(text: &str) -> (&str, Option<&str>, Quotas, Vec<&str>) {
    let (head, tail) = text.split_once(':').unwrap_or((text, ""));
    let (name, parent) = head.trim().split_once(" in ").map_or((head.trim(), None), |(name, up)| (name, Some(up)));
    let mut parts = tail.split(';').map(str::trim);
    let quotas = parts.next().unwrap_or("").split(',').map(str::trim).filter(|part| !part.is_empty());
    let quota = |part: &str| {
        let mut words = part.split_whitespace().peekable();
        let named = words.next_if(|word| word.parse::<i64>().is_err());
        let mut quota = Quota { nominal: words.next().unwrap().parse().unwrap(), ..Quota::default() };
        while let (Some(word), Some(amount)) = (words.next(), words.next()) {
            let amount = Some(amount.parse().unwrap());
            match word {
                "lend" => quota.lending_limit = amount,
                "borrow" => quota.borrowing_limit = amount,
                _ => panic!("no such limit: {word}"),
            }
        }
        (named.unwrap_or("big").into(), quota)
    };
    (name, parent, quotas.map(quota).collect(), parts.filter(|part| !part.is_empty()).collect())
}

fn queue(cohort: Option<&str>, quotas: Quotas, options: Vec<&str>) -> ClusterQueue {
    let flavor = |(flavor, quota)| FlavorQuotas { flavor, quotas: [(GPU.into(), quota)].into() };
    let groups = vec![ResourceGroup { flavors: quotas.into_iter().map(flavor).collect() }];
    let mut queue = ClusterQueue {
        cohort: cohort.map(Into::into),
        groups,
        preemption: Preemption::default(),
        weight: Weight::default(),
        stop: StopPolicy::None,
        strategy: QueueingStrategy::BestEffortFifo,
        fungibility: Fungibility::default(),
    };
    for option in options {
        let words: Vec<&str> = option.split_whitespace().collect();
        match words[..] {
            ["reclaim", "any"] => queue.preemption.reclaim = Reclaim::Any,
            ["reclaim", "lower"] => queue.preemption.reclaim = Reclaim::LowerPriority,
            ["within", "lower"] => queue.preemption.within_queue = WithinQueue::LowerPriority,
            ["within", "newer"] => queue.preemption.within_queue = WithinQueue::LowerOrNewerEqualPriority,
            ["borrowing"] => queue.preemption.borrow_within_cohort = Some(BorrowWithinCohort::default()),
            ["borrowing", "below", most] => {
                let max_priority = Some(priority(most));
                queue.preemption.borrow_within_cohort = Some(BorrowWithinCohort { max_priority });
            }
            ["strict"] => queue.strategy = QueueingStrategy::StrictFifo,
            ["hold"] => queue.stop = StopPolicy::Hold,
            ["drain"] => queue.stop = StopPolicy::HoldAndDrain,
            ["next", "when", "borrowing"] => queue.fungibility.stop_when_borrowing = false,
            ["preempt", "rather", "than", "borrow"] => queue.fungibility.preempt_over_borrow = true,
            ["stop", "when", "preempting"] => queue.fungibility.stop_when_preempting = true,
            _ => queue.weight = weight(option).unwrap_or_else(|| panic!("no such option: {option}")),
        }
    }
    queue
}

fn weight(option: &str) -> Option<Weight> {
    let factor: f64 = option.strip_prefix("weight ")?.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Some(Weight((factor * 1000.0) as u32))
}

fn priority(word: &str) -> i32 {
    match word {
        "-" => 0,
        "low" => 10,
        "mid" => 100,
        "high" => 1000,
        number => number.parse().unwrap(),
    }
}

fn workload(queue: &str, priority: i32, gpus: i64, second: i64) -> Workload {
    Workload {
        queue: queue.into(),
        priority,
        created: at(second),
        active: true,
        requests: [(GPU.into(), gpus)].into(),
        pods: 1,
        per_pod: [(GPU.into(), gpus)].into(),
        topology: None,
        barred: BTreeSet::new(),
        reservation: None,
    }
}

/// One word a decision: `-b5 reclaim s0`, `+s0`, `b5? QuotaInUse`; releases are not told.
fn told(decisions: &[Decision]) -> Vec<String> {
    let word = |decision: &Decision| match decision {
        Decision::Admit { workload, .. } => Some(format!("+{workload}")),
        Decision::Preempt { victim, by, reason } => {
            let reason = match reason {
                PreemptReason::InClusterQueue => "own",
                PreemptReason::InCohortReclamation => "reclaim",
                PreemptReason::InCohortReclaimWhileBorrowing => "borrowing",
                PreemptReason::InCohortFairSharing => "fair",
            };
            Some(format!("-{victim} {reason} {by}"))
        }
        Decision::Evict { workload, reason } => Some(format!("-{workload} {reason:?}")),
        Decision::Release { .. } => None,
        Decision::Wait { workload, reason, .. } => Some(format!("{workload}? {reason:?}")),
    };
    decisions.iter().filter_map(word).collect()
}

/// Settles, says what happened, and leaves the settled state; settling again must decide nothing new.
#[track_caller]
fn settled(state: &mut QueueState) -> String {
    let decisions = settle(state);
    decisions.iter().for_each(|decision| apply(state, decision));
    let mut waits = decisions.clone();
    waits.retain(|decision| matches!(decision, Decision::Wait { .. }));
    let goes_round = |decision: &Decision| matches!(decision, Decision::Wait { reason: WaitReason::Unsettled, .. });
    if !waits.iter().any(goes_round) {
        assert_eq!(settle(state), waits, "settling again decides nothing new");
    }
    told(&decisions).join(", ")
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(settled(&mut state(text)), expected);
}

/// Only who goes, for whom and why.
#[track_caller]
fn evicts(text: &str, expected: &str) {
    let mut words = told(&settle(&state(text)));
    words.retain(|word| word.starts_with('-'));
    words.sort();
    assert_eq!(words.join(", "), expected);
}

fn used(state: &QueueState, queue: &str) -> i64 {
    let held = state.workloads.values().filter(|one| one.queue.as_str() == queue && one.reservation.is_some());
    held.map(|one| one.requests[GPU]).sum()
}
