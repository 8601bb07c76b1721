//! What nodes are launched as is part of what is approved: whoever said yes to one image said yes to no other.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::types::{PlanInput, Reason};
use crate::effect::{Effects, Opened, Thing, Verb, short};
use crate::ids::{Digest, PoolName};

/// What the pools whose nodes these effects give up are to become: an approval of them is one of that.
pub fn templates(input: &PlanInput, effects: &Effects) -> BTreeMap<PoolName, Digest> {
    let pools = effects.0.iter().filter_map(|(key, amount)| match (&key.verb, &key.on) {
        (Verb::Terminate, Thing::Pool(pool)) => Some((pool, &amount.templates)),
        _ => None,
    });
    let now = |(pool, named): (&PoolName, &BTreeSet<Digest>)| {
        let wanted = &input.desired.pools.get(pool)?.template.digest;
        named.contains(&short(wanted)).then(|| (pool.clone(), wanted.clone()))
    };
    pools.filter_map(now).collect()
}

/// Whether an approval was given for what the pool's nodes are to become now.
pub fn is_approved_now(input: &PlanInput, opened: &Opened, pool: &PoolName) -> bool {
    let wanted = input.desired.pools.get(pool).map(|pool| &pool.template.digest);
    wanted.is_some() && opened.templates.get(pool) == wanted
}

/// Names the template in every effect that launches a node, or gives one up for a newer one.
pub fn bind_templates(input: &PlanInput, draft: &mut Draft) {
    let steps = draft.courses.iter_mut().flat_map(|course| &mut course.steps);
    steps.for_each(|step| bind(input, &step.reason, &mut step.effects));
    draft.held.iter_mut().for_each(|held| bind(input, &held.reason, &mut held.effects));
}

fn bind(input: &PlanInput, reason: &Reason, effects: &mut Effects) {
    let is_replaced = matches!(reason, Reason::Outdated | Reason::Overfull { .. });
    for (key, amount) in &mut effects.0 {
        let Thing::Pool(pool) = &key.on else { continue };
        if key.verb == Verb::Launch || (key.verb == Verb::Terminate && is_replaced) {
            let wanted = input.desired.pools.get(pool).map(|objects| short(&objects.template.digest));
            amount.templates.extend(wanted);
        }
    }
}
