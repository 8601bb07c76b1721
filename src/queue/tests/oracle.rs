//! The rules of victim choice in a flat cohort, written down once more in another way.
//!
//! This is the form that predicted the victims of a real Kueue in 20 of 20 random scenarios: one flavor, no limits,
//! reclaim from anybody, own victims of lower priority.

use super::properties::Dice;
use super::*;

#[derive(Clone, Debug)]
struct Run {
    uid: String,
    queue: usize,
    priority: i32,
    gpus: i64,
    second: i64,
}

struct Flat {
    nominal: Vec<i64>,
    running: Vec<Run>,
}

impl Flat {
    fn used(&self, gone: &[&Run], queue: usize) -> i64 {
        let held = self.running.iter().filter(|one| one.queue == queue && !gone.iter().any(|out| out.uid == one.uid));
        held.map(|one| one.gpus).sum()
    }

    fn fits(&self, gone: &[&Run], new: &Run, borrow: bool) -> bool {
        let free: i64 = (0..self.nominal.len()).map(|queue| self.nominal[queue] - self.used(gone, queue)).sum();
        new.gpus <= free && (borrow || self.used(gone, new.queue) + new.gpus <= self.nominal[new.queue])
    }

    fn victims(&self, new: &Run) -> Vec<String> {
        let own = new.queue;
        if self.fits(&[], new, true) || new.gpus > self.nominal[own] {
            return Vec::new();
        }
        let within = self.used(&[], own) + new.gpus <= self.nominal[own];
        let key = |one: &&Run| (one.priority, -one.second, one.uid.clone());
        let over = |gone: &[&Run], queue: usize| self.used(gone, queue) > self.nominal[queue];
        let mut others: Vec<&Run> =
            self.running.iter().filter(|one| one.queue != own && over(&[], one.queue)).collect();
        others.sort_by_key(key);
        let lower = |one: &&Run| one.queue == own && one.priority < new.priority;
        let mut same: Vec<&Run> = self.running.iter().filter(lower).collect();
        same.sort_by_key(key);
        let attempts: &[bool] = if others.is_empty() || self.used(&[], own) >= self.nominal[own] {
            &[true]
        } else if within {
            &[true, false]
        } else {
            &[false, true]
        };
        for &borrow in attempts {
            let mut gone: Vec<&Run> = Vec::new();
            for one in others.iter().chain(&same) {
                if one.queue != own && ((borrow && !within) || !over(&gone, one.queue)) {
                    continue;
                }
                gone.push(one);
                if self.fits(&gone, new, borrow) {
                    for at in (0..gone.len() - 1).rev() {
                        let back = gone.remove(at);
                        if !self.fits(&gone, new, borrow) {
                            gone.insert(at, back);
                        }
                    }
                    let mut names: Vec<String> = gone.iter().map(|one| one.uid.clone()).collect();
                    names.sort();
                    return names;
                }
            }
        }
        Vec::new()
    }
}

#[test]
fn victims_are_those_of_the_forty_lines() {
    let mut dice = Dice(20_260_101);
    let mut with_victims = 0;
    for round in 0..10_000 {
        let queues = 2 + dice.below(3);
        let nominal: Vec<i64> = (0..queues).map(|_| dice.below_i64(6) * 100).collect();
        let mut flat = Flat { nominal, running: Vec::new() };
        let total: i64 = flat.nominal.iter().sum();
        let some = |dice: &mut Dice, uid: String| Run {
            uid,
            queue: dice.below(queues),
            priority: [10, 100, 1000][dice.below(3)],
            gpus: 50 * (1 + dice.below_i64(8)),
            second: dice.below_i64(5),
        };
        for at in 0..3 + dice.below(7) {
            let one = some(&mut dice, format!("w{at}"));
            let used: i64 = flat.running.iter().map(|one| one.gpus).sum();
            if used + one.gpus <= total {
                flat.running.push(one);
            }
        }
        let new = some(&mut dice, "new".into());
        let mut text = String::new();
        for (at, nominal) in flat.nominal.iter().enumerate() {
            text += &format!("queue q{at} in c: {nominal}; reclaim any; within lower\n");
        }
        for one in &flat.running {
            text += &format!("run {} q{} {} {} @{}\n", one.uid, one.queue, one.priority, one.gpus, one.second);
        }
        text += &format!("wait new q{} {} {} @9\n", new.queue, new.priority, new.gpus);
        let mut seen = Vec::new();
        for decision in step(&state(&text)) {
            if let Decision::Preempt { victim, .. } = decision {
                seen.push(victim.to_string());
            }
        }
        seen.sort();
        let expected = flat.victims(&new);
        assert_eq!(seen, expected, "round {round}:\n{text}");
        with_victims += usize::from(!expected.is_empty());
    }
    assert!(with_victims > 1_000, "only {with_victims} scenarios had victims");
}
