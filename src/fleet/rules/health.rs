//! Schedulers and health policies: one of each for a pool, and remedies that its nodes can have.

use std::collections::BTreeMap;

use crate::diag::{Diagnostic, Span, codes};
use crate::fleet::build::Problems;
use crate::fleet::policy::Remedy;
use crate::ids::PoolName;

pub fn check(p: &mut Problems<'_>) {
    let mut scheduled: BTreeMap<&PoolName, Span> = BTreeMap::new();
    for profile in p.parts.schedulers.values() {
        for pool in profile.pools.iter().filter(|pool| p.parts.pools.contains_key(&pool.value)) {
            if let Some(first) = scheduled.insert(&pool.value, pool.at).filter(|first| *first != pool.at)
                && !profile.pools.iter().any(|other| other.at == first)
            {
                let message = format!("two schedulers on pool `{}` would race for its nodes", pool.value);
                let said = Diagnostic::error(codes::TWO_SCHEDULERS, message).at(pool.at, "").at(first, "and this one");
                p.say(said.hint("name the pool in one profile"));
            }
        }
    }
    let mut watched: BTreeMap<Option<&PoolName>, Span> = BTreeMap::new();
    for policy in p.parts.health.values() {
        let all = policy.pools.is_empty().then_some((None, policy.name.at));
        let named = policy.pools.iter().filter(|pool| p.parts.pools.contains_key(&pool.value));
        for (pool, at) in named.map(|pool| (Some(&pool.value), pool.at)).chain(all) {
            if let Some(first) = watched.insert(pool, at)
                && !policy.pools.iter().any(|other| other.at == first)
            {
                let message = match pool {
                    Some(pool) => format!("two health policies for pool `{pool}`"),
                    None => "two health policies for all other pools".into(),
                };
                let said = Diagnostic::error(codes::TWO_HEALTH_POLICIES, message).at(at, "").at(first, "and this one");
                p.say(said.hint("say which pools each is for"));
            }
        }
    }
    for policy in p.parts.health.values() {
        let Some(rule) = policy.rules.iter().find(|rule| rule.then.contains(&Remedy::Replace)) else { continue };
        let own = |name: &PoolName| p.parts.pools.get(name).is_some_and(|pool| !pool.launches());
        let named = policy.pools.iter().map(|pool| (&pool.value, pool.at));
        let rest = p.parts.pools.keys().filter(|name| policy.pools.is_empty() && !watched.contains_key(&Some(*name)));
        let found = named.chain(rest.map(|name| (name, rule.at))).find(|(name, _)| own(name));
        if let Some((name, _)) = found {
            let message = format!("nodes of pool `{name}` are not launched here, so they cannot be replaced");
            p.say(
                Diagnostic::warning(codes::CANNOT_REPLACE, message)
                    .at(rule.at, "a sick node is quarantined instead, until a person returns it")
                    .hint("write `quarantine` for this pool, in a policy of its own"),
            );
        }
    }
}
