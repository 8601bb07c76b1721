//! Schedulers and health policies: one of each for a pool, and remedies that its nodes can have.

use std::collections::BTreeMap;

use crate::diag::{Diagnostic, Span, codes};
use crate::fleet::build::Problems;
use crate::fleet::policy::{HealthPolicy, Remedy};
use crate::ids::{PolicyName, PoolName, ProfileName};

pub fn check(p: &mut Problems<'_>) {
    schedulers(p);
    let watched = policies(p);
    for policy in p.parts.health.values() {
        replacements(p, policy, &watched);
    }
}

fn schedulers(p: &mut Problems<'_>) {
    let mut scheduled: BTreeMap<&PoolName, (&ProfileName, Span)> = BTreeMap::new();
    for (name, profile) in &p.parts.schedulers {
        for pool in profile.pools.iter().filter(|pool| p.parts.pools.contains_key(&pool.value)) {
            match scheduled.get(&pool.value).copied() {
                // The same pool twice in one profile has been reported.
                Some((first, _)) if first == name => {}
                Some((first, at)) => {
                    let message = format!("`{first}` and `{name}` would race for the nodes of pool `{}`", pool.value);
                    let said = Diagnostic::error(codes::TWO_SCHEDULERS, message)
                        .at(pool.at, "")
                        .at(at, format!("scheduled by `{first}`"));
                    p.say(said.hint("name the pool in one profile: a node has one scheduler"));
                }
                None => drop(scheduled.insert(&pool.value, (name, pool.at))),
            }
        }
    }
}

/// Which policy watches a pool; under `None` the one for all that no other names.
type Watched<'a> = BTreeMap<Option<&'a PoolName>, (&'a PolicyName, Span)>;

fn policies<'a>(p: &mut Problems<'a>) -> Watched<'a> {
    let mut watched: Watched<'a> = BTreeMap::new();
    for (name, policy) in &p.parts.health {
        let all = policy.pools.is_empty().then_some((None, policy.name.at));
        let named = policy.pools.iter().filter(|pool| p.parts.pools.contains_key(&pool.value));
        for (pool, at) in named.map(|pool| (Some(&pool.value), pool.at)).chain(all) {
            match watched.get(&pool).copied() {
                Some((first, _)) if first == name => {}
                Some((first, other)) => {
                    let which = pool.map_or("all other pools".into(), |pool| format!("pool `{pool}`"));
                    let message = format!("`{first}` and `{name}` are both for {which}");
                    let said = Diagnostic::error(codes::TWO_HEALTH_POLICIES, message).at(at, "").at(other, "the first");
                    let hint = match pool {
                        Some(_) => "name the pool in one policy, with the rules of both",
                        None => "add `pools: […]` to one of them; what no policy names is left to the other",
                    };
                    p.say(said.hint(hint));
                }
                None => drop(watched.insert(pool, (name, at))),
            }
        }
    }
    watched
}

fn replacements(p: &mut Problems<'_>, policy: &HealthPolicy, watched: &Watched<'_>) {
    let Some(rule) = policy.rules.iter().find(|rule| rule.then.contains(&Remedy::Replace)) else { return };
    let parts = p.parts;
    let named = policy.pools.iter().map(|pool| &pool.value);
    let rest = parts.pools.keys().filter(|name| policy.pools.is_empty() && !watched.contains_key(&Some(*name)));
    let pools: Vec<&PoolName> = named.chain(rest).filter(|name| parts.pools.contains_key(*name)).collect();
    let is_own = |name: &&&PoolName| parts.pools.get(**name).is_some_and(|pool| !pool.launches());
    let own: Vec<&&PoolName> = pools.iter().filter(is_own).collect();
    if own.is_empty() {
        return;
    }
    let listed = own.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let hint = if own.len() == pools.len() {
        "write `quarantine` instead".into()
    } else {
        format!("write a policy with `pools: [{}]` and `quarantine` instead", listed.replace('`', ""))
    };
    let which = if own.len() == 1 { "pool" } else { "pools" };
    let message = format!("nodes of {which} {listed} are not launched here, so they cannot be replaced");
    p.say(
        Diagnostic::warning(codes::CANNOT_REPLACE, message)
            .at(rule.at, "a sick node is quarantined instead, until a person returns it")
            .hint(hint),
    );
}
