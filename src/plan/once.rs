//! A gang goes once: who says yes to a plan says yes to it once, however many of its nodes wait for it.
//!
//! Each course, and each thing that is held, says all that it would send away; what they say twice is taken out here, when
//! all of them are known. What a step says stays: it may be done when the others are not. A pod that stands for itself
//! is another matter, because it is made again at once, on a node that may still have to go (`later`).

use std::collections::BTreeSet;

use super::types::{Consent, GangHit, Held, Step, WaitingOn};
use crate::effect::{EffectKey, Effects, Thing, Verb};

/// Takes out of what is held, and is part of what is asked for, every gang that a step or something held before says.
pub fn count(steps: &[Step], held: &mut [Held]) {
    let mut told: BTreeSet<(Thing, String)> = BTreeSet::new();
    for step in steps.iter().filter(|step| step.consent == Consent::Asked) {
        told.extend(step.disruption.gangs.iter().map(|gang| (step.on.clone(), gang.name.clone())));
    }
    // A plain yes covers all but what waits for somebody's word by name: there a gang is counted last.
    let is_named = |one: &Held| matches!(one.waiting_on, WaitingOn::Approval { .. });
    for named in [false, true] {
        let asked = held.iter_mut().filter(|one| one.waiting_on.is_part_of_it() && is_named(one) == named);
        for one in asked {
            for gang in &one.disruption.gangs {
                if !told.insert((one.what.clone(), gang.name.clone())) {
                    take_out(&mut one.effects, &one.what, gang);
                }
            }
        }
    }
}

/// Effects without a gang that is in them.
pub fn take_out(effects: &mut Effects, on: &Thing, gang: &GangHit) {
    let key = EffectKey { verb: Verb::Drain, on: on.clone() };
    let Some(drained) = effects.0.get_mut(&key) else { return };
    drained.count = drained.count.saturating_sub(gang.pods);
    drained.gpus = drained.gpus.saturating_sub(gang.gpus);
    drained.gpu_secs = drained.gpu_secs.saturating_sub(gang.gpu_secs());
    if drained.count == 0 {
        effects.0.remove(&key);
    }
}
