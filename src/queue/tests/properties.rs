//! What holds in every state: random trees of cohorts with limits, both modes, in two waves so that there is
//! something to preempt.

use super::*;

/// A linear congruential generator: small, and the same on every machine.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    pub fn below_i64(&mut self, bound: i64) -> i64 {
        i64::try_from(self.below(usize::try_from(bound).unwrap())).unwrap()
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn limits(&mut self, nominal: i64) -> String {
        let mut text = String::new();
        if self.below(3) == 0 {
            text += &format!(" lend {}", self.below_i64(nominal / 100 + 1) * 100);
        }
        if self.below(3) == 0 {
            text += &format!(" borrow {}", self.below_i64(6) * 100);
        }
        text
    }
}

struct Shape {
    fair: bool,
    nested: bool,
    limits: bool,
    strict: bool,
}

/// Queues and cohorts.
fn ground(dice: &mut Dice, shape: &Shape) -> String {
    let mut text = String::from(if shape.fair { "fair\n" } else { "" });
    text += &format!("cohort root: {}\n", dice.below_i64(3) * 100);
    let mut cohorts = vec!["root".to_owned()];
    for at in 0..if shape.nested { 1 + dice.below(3) } else { 0 } {
        let parent = cohorts[dice.below(cohorts.len())].clone();
        let nominal = dice.below_i64(3) * 100;
        let limits = if shape.limits { dice.limits(nominal) } else { String::new() };
        text += &format!("cohort k{at} in {parent}: {nominal}{limits}\n");
        cohorts.push(format!("k{at}"));
    }
    for at in 0..2 + dice.below(4) {
        let cohort = &cohorts[dice.below(cohorts.len())];
        let nominal = dice.below_i64(6) * 100;
        let limits = if shape.limits { dice.limits(nominal) } else { String::new() };
        let mut reclaim = dice.pick(&["", "; reclaim any", "; reclaim lower"]).to_owned();
        if !shape.fair && !reclaim.is_empty() && dice.below(4) == 0 {
            reclaim += dice.pick(&["; borrowing", "; borrowing below mid"]);
        }
        let within = dice.pick(&["", "; within lower", "; within newer"]);
        let strict = if shape.strict { dice.pick(&["", "", "", "; strict"]) } else { "" };
        let weight = dice.pick(&["", "", "; weight 2", "; weight 0", "; weight 0.5"]);
        text += &format!("queue q{at} in {cohort}: {nominal}{limits}{reclaim}{within}{strict}{weight}\n");
    }
    text
}

fn wave(dice: &mut Dice, state: &mut QueueState, name: &str, second: i64) {
    let queues: Vec<String> = state.cluster_queues.keys().map(ToString::to_string).collect();
    for at in 0..2 + dice.below(8) {
        let queue = &queues[dice.below(queues.len())];
        let (priority, gpus) = (dice.pick(&["low", "mid", "high"]), 50 * (1 + dice.below_i64(8)));
        let created = second + dice.below_i64(5);
        more(state, &format!("wait {name}{at} {queue} {priority} {gpus} @{created}"));
    }
}

/// Two waves, settled; `look` sees the state before the second one settles, the decisions, and the state after.
fn campaign(seed: u64, rounds: usize, shape: &Shape, mut look: impl FnMut(&QueueState, &[Decision], &QueueState)) {
    let mut dice = Dice(seed);
    let (mut round_about, mut evictions) = (0, 0);
    for _ in 0..rounds {
        let mut state = state(&ground(&mut dice, shape));
        state.now = at(100);
        wave(&mut dice, &mut state, "a", 0);
        settled(&mut state);
        state.now = at(200);
        state.parked.clear();
        wave(&mut dice, &mut state, "b", 100);
        let before = state.clone();
        let decisions = settle(&state);
        settled(&mut state);
        evictions += decisions.iter().filter(|one| matches!(one, Decision::Preempt { .. })).count();
        if decisions.iter().any(|one| matches!(one, Decision::Wait { reason: WaitReason::Unsettled, .. })) {
            round_about += 1;
            continue;
        }
        look(&before, &decisions, &state);
    }
    assert!(evictions > rounds / 10, "only {evictions} evictions");
    assert!(round_about * 50 < rounds, "{round_about} of {rounds} went round in circles");
}

/// What a node takes from its parent, or (negative) can give it. Limits are checked on the way.
fn balance(state: &QueueState, name: &str, own: i64, quota: &Quota, below: i64) -> i64 {
    let balance = own + below - quota.nominal;
    if balance > 0 {
        assert!(quota.borrowing_limit.is_none_or(|limit| balance <= limit), "{name} borrows {balance}: {state:#?}");
        return balance;
    }
    -quota.lending_limit.map_or(-balance, |limit| limit.min(-balance))
}

fn balance_of_cohort(state: &QueueState, name: &str) -> i64 {
    let mut below = 0;
    for (child, cohort) in &state.cohorts {
        if cohort.parent.as_ref().is_some_and(|parent| parent.as_str() == name) {
            below += balance_of_cohort(state, child.as_str());
        }
    }
    for (child, queue) in &state.cluster_queues {
        if queue.cohort.as_ref().is_some_and(|cohort| cohort.as_str() == name) {
            let quota = &queue.groups[0].flavors[0].quotas[GPU];
            below += balance(state, child.as_str(), used(state, child.as_str()), quota, 0);
        }
    }
    let quota = state.cohorts[name].quotas.values().next().cloned().unwrap_or_default();
    balance(state, name, 0, &quota, below)
}

#[test]
fn usage_stays_within_every_limit() {
    for fair in [false, true] {
        campaign(1, 1_000, &Shape { fair, nested: true, limits: true, strict: true }, |_, _, after| {
            assert!(balance_of_cohort(after, "root") <= 0, "{after:#?}");
        });
    }
}

#[test]
fn nobody_is_evicted_against_the_policy() {
    for fair in [false, true] {
        campaign(2, 1_000, &Shape { fair, nested: true, limits: true, strict: true }, |before, decisions, _| {
            for decision in decisions {
                let Decision::Preempt { victim, by, .. } = decision else { continue };
                let (out, new) = (&before.workloads[victim], &before.workloads[by]);
                let policy = before.cluster_queues[&new.queue].preemption;
                let newer = out.priority == new.priority && out.created > new.created;
                let allowed = if out.queue == new.queue {
                    match policy.within_queue {
                        WithinQueue::Never => false,
                        WithinQueue::LowerPriority => out.priority < new.priority,
                        WithinQueue::LowerOrNewerEqualPriority => out.priority < new.priority || newer,
                    }
                } else {
                    match policy.reclaim {
                        Reclaim::Never => false,
                        Reclaim::LowerPriority => out.priority < new.priority,
                        Reclaim::Any => true,
                    }
                };
                assert!(allowed, "{by} evicted {victim}: {before:#?}");
            }
        });
    }
}

/// Not so beside a strict queue that cannot reclaim: its head keeps quota for itself in every cycle.
#[test]
fn a_queue_that_reclaims_from_anybody_gets_its_nominal() {
    for fair in [false, true] {
        campaign(3, 1_000, &Shape { fair, nested: false, limits: true, strict: false }, |_, _, after| {
            for (uid, one) in after.workloads.iter().filter(|(_, one)| one.reservation.is_none()) {
                let queue = &after.cluster_queues[&one.queue];
                let nominal = queue.groups[0].flavors[0].quotas[GPU].nominal;
                if queue.preemption.reclaim == Reclaim::Any {
                    let wanted = used(after, one.queue.as_str()) + one.requests[GPU];
                    assert!(wanted > nominal, "{uid} waits with {wanted} of {nominal}: {after:#?}");
                }
            }
        });
    }
}

#[test]
fn names_of_queues_decide_nothing() {
    for fair in [false, true] {
        // Equal shares of two cohorts are told apart by name; Kueue takes any of them.
        campaign(4, 1_000, &Shape { fair, nested: !fair, limits: true, strict: true }, |before, decisions, _| {
            let turned = |name: &str| -> String { format!("z{}", 9 - name[1..].parse::<u8>().unwrap()) };
            let mut other = before.clone();
            let queues = std::mem::take(&mut other.cluster_queues);
            for (name, queue) in queues {
                other.cluster_queues.insert(turned(name.as_str()).as_str().into(), queue);
            }
            for one in other.workloads.values_mut() {
                one.queue = turned(one.queue.as_str()).as_str().into();
            }
            let sorted = |decisions: &[Decision]| {
                let mut words = told(decisions);
                words.sort();
                words
            };
            assert_eq!(sorted(&settle(&other)), sorted(decisions), "{before:#?}");
        });
    }
}

#[test]
fn a_thousand_queues_and_ten_thousand_workloads_settle() {
    for mode in ["", "fair"] {
        let mut state = state(mode);
        for at in 0..1_000 {
            more(&mut state, &format!("queue q{at:03} in c: 10; reclaim any; within lower"));
        }
        for at in 0..10_000 {
            more(&mut state, &format!("wait w{at:05} q{:03} low 1 @{at}", at * 7 % 1_000));
        }
        let decisions = settle(&state);
        assert!(decisions.iter().all(|one| matches!(one, Decision::Admit { .. })) && decisions.len() == 10_000);
    }
}
