//! Names and references: everything that is named exists, nothing is named twice, nothing becomes the same thing.

use std::collections::BTreeMap;

use crate::diag::{At, Diagnostic, Span, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::WHOLE;
use crate::ids::{LayoutName, LevelName, PoolName, QuotaName};

pub fn check(p: &mut Problems<'_>) {
    renames(p);
    reserved(p);
    pools(p);
    quotas(p);
    tides(p);
    policies(p);
    collisions(p);
    retired(p);
}

fn pool(p: &mut Problems<'_>, name: &At<PoolName>, owner: (Kind, &str)) {
    let known = p.parts.pools.keys().map(PoolName::as_str);
    let found = p.parts.pools.contains_key(&name.value);
    p.resolve(Kind::NodePool, At::new(name.value.as_str(), name.at), found, known, owner);
}

fn layout(p: &mut Problems<'_>, name: &At<LayoutName>, owner: (Kind, &str)) {
    let known = p.parts.layouts.keys().map(LayoutName::as_str).chain([WHOLE]);
    let found = name.value.as_str() == WHOLE || p.parts.layouts.contains_key(&name.value);
    p.resolve(Kind::GpuLayout, At::new(name.value.as_str(), name.at), found, known, owner);
}

fn level(p: &mut Problems<'_>, name: &At<LevelName>, owner: (Kind, &str)) {
    if p.unread.headless {
        return;
    }
    let levels = p.parts.fabric.iter().flat_map(|fabric| &fabric.levels).map(|level| level.name.value.as_str());
    if levels.clone().any(|known| known == name.value.as_str()) {
        return;
    }
    let hint = match crate::diag::nearest(name.value.as_str(), levels.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if levels.clone().next().is_none() => "add `fabric` with its levels to the Fleet".into(),
        None => format!("the levels are {}", levels.collect::<Vec<_>>().join(", ")),
    };
    let message = format!("the fabric has no level named `{}`", name.value);
    p.blame(owner.0, owner.1, Diagnostic::error(codes::UNKNOWN_REFERENCE, message).at(name.at, "").hint(hint));
}

fn pools(p: &mut Problems<'_>) {
    for (name, pool_) in &p.parts.pools {
        let owner = (Kind::NodePool, name.as_str());
        layout(p, &pool_.layout, owner);
        for reservation in pool_.reservations() {
            let known = p.parts.reservations.keys().map(|name| name.as_str());
            let found = p.parts.reservations.contains_key(reservation.value);
            p.resolve(Kind::Reservation, At::new(reservation.value.as_str(), reservation.at), found, known, owner);
        }
        p.once(owner, "the reservation", pool_.reservations().map(|name| (name.value.as_str(), name.at)));
        let taints = pool_.taints.iter().map(|taint| (format!("{}:{:?}", taint.key, taint.effect), taint.at));
        p.once(owner, "the taint", taints);
        if let Some(placement) = &pool_.placement {
            if let Some(together) = &placement.together {
                level(p, together, owner);
            }
            for other in &placement.apart_from {
                if other.value == *name {
                    let message = "a pool cannot be apart from itself";
                    p.say(
                        Diagnostic::error(codes::UNKNOWN_REFERENCE, message).at(other.at, "").hint("name another pool"),
                    );
                } else {
                    pool(p, other, owner);
                }
            }
        }
    }
}

fn quotas(p: &mut Problems<'_>) {
    for (name, quota) in &p.parts.quotas {
        let owner = (Kind::Quota, name.as_str());
        for tier in &quota.tiers {
            let known = p.parts.tiers.keys().map(|name| name.as_str());
            let found = p.parts.tiers.contains_key(&tier.value);
            p.resolve(Kind::PreemptionTier, At::new(tier.value.as_str(), tier.at), found, known, owner);
        }
        p.once(owner, "the tier", quota.tiers.iter().map(|tier| (tier.value.as_str(), tier.at)));
        for share in &quota.shares {
            pool(p, &share.pool, owner);
        }
        p.once(owner, "the pool", quota.shares.iter().map(|share| (share.pool.value.as_str(), share.pool.at)));
        let queues = quota.namespaces.iter().map(|namespace| {
            (format!("{}` with the LocalQueue `{}", namespace.name, namespace.local_queue), namespace.at)
        });
        p.once(owner, "the namespace", queues);
    }
}

fn tides(p: &mut Problems<'_>) {
    for (name, tide) in &p.parts.tides {
        let owner = (Kind::TideSchedule, name.as_str());
        for loan in &tide.loans {
            pool(p, &loan.pool, owner);
            for quota in [&loan.from, &loan.to] {
                let known = p.parts.quotas.keys().map(QuotaName::as_str);
                let found = p.parts.quotas.contains_key(&quota.value);
                p.resolve(Kind::Quota, At::new(quota.value.as_str(), quota.at), found, known, owner);
            }
            if let Some(name) = &loan.layout {
                layout(p, name, owner);
            }
        }
        for resize in &tide.resizes {
            pool(p, &resize.pool, owner);
        }
        p.once(owner, "the pool", tide.resizes.iter().map(|resize| (resize.pool.value.as_str(), resize.pool.at)));
        let pairs = tide
            .loans
            .iter()
            .map(|loan| (format!("{}` from `{}` to `{}", loan.pool.value, loan.from.value, loan.to.value), loan.at));
        p.once(owner, "the loan of", pairs);
    }
}

fn policies(p: &mut Problems<'_>) {
    for (name, scheduler) in &p.parts.schedulers {
        let owner = (Kind::SchedulerProfile, name.as_str());
        scheduler.pools.iter().for_each(|name| pool(p, name, owner));
        if let Some(prefer) = &scheduler.prefer {
            level(p, prefer, owner);
        }
        p.once(owner, "the pool", scheduler.pools.iter().map(|pool| (pool.value.as_str(), pool.at)));
    }
    for (name, policy) in &p.parts.health {
        let owner = (Kind::HealthPolicy, name.as_str());
        policy.pools.iter().for_each(|name| pool(p, name, owner));
        p.once(owner, "the pool", policy.pools.iter().map(|pool| (pool.value.as_str(), pool.at)));
    }
}

/// A rename names something that is gone, and only one object takes its place.
fn renames(p: &mut Problems<'_>) {
    let mut taken: BTreeMap<(Kind, &str), Span> = BTreeMap::new();
    for (object, origin) in &p.parts.origins {
        let Some(old) = &origin.renamed_from else { continue };
        let still = p.parts.origins.iter().find(|(other, _)| other.kind == object.kind && other.name == old.value);
        let said = Diagnostic::error;
        if old.value == object.name {
            let message = format!("`{}` was not renamed: that is its name", old.value);
            p.say(
                said(codes::RENAMED_FROM, message)
                    .at(old.at, "")
                    .hint("remove it, or write the name that the object had before"),
            );
        } else if object.kind == Kind::Fleet {
            let message = "a Fleet cannot be renamed: what it remembers is found by its name".to_string();
            let hint = format!(
                "keep the name `{}`; without `renamedFrom` this is a new fleet, which takes nothing of the old one over",
                old.value
            );
            p.say(said(codes::RENAMED_FROM, message).at(old.at, "the ledger has this name").hint(hint));
        } else if let Some((_, there)) = still {
            let message = format!("`{}` cannot have been renamed: it is still there", old.value);
            let at = there.span;
            p.say(
                said(codes::RENAMED_FROM, message)
                    .at(old.at, "")
                    .at(at, "here")
                    .hint("remove the object that is still there, or the rename"),
            );
        } else if let Some(first) = taken.insert((object.kind, old.value.as_str()), old.at) {
            let message = format!("two objects were renamed from `{}`", old.value);
            p.say(
                said(codes::RENAMED_FROM, message)
                    .at(old.at, "here")
                    .at(first, "and here")
                    .hint("keep it where the old object goes on; the other is a new object"),
            );
        } else if let Some(quota) = p.parts.quotas.get(object.name.as_str()).filter(|_| object.kind == Kind::Quota)
            && quota.cluster_queue.at == quota.name.at
        {
            let message =
                format!("the ClusterQueue of `{}` would have another name, and a queue cannot be renamed", object.name);
            let hint =
                format!("write `clusterQueue: {}`, or the name that the queue has: it stays, with its work", old.value);
            p.say(said(codes::RENAMED_FROM, message).at(old.at, "its queue has this name").hint(hint));
        }
    }
}

/// Keys of labels and taints that Tidewright writes: all of its own, and those that cut a node's GPUs.
fn is_ours(key: &str) -> bool {
    key.starts_with("tidewright.dev/") || matches!(key, "nvidia.com/mig.config" | "nvidia.com/device-plugin.config")
}

/// Keys that Kubernetes writes.
fn is_of_kubernetes(key: &str) -> bool {
    let prefixes = ["kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/", "k8s.io/"];
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn reserved(p: &mut Problems<'_>) {
    if let Some(layout) = p.parts.layouts.get(WHOLE) {
        p.say(
            Diagnostic::error(codes::RESERVED_NAME, "`whole` is built in: it leaves every GPU as it is")
                .at(layout.name.at, "")
                .hint("choose another name"),
        );
    }
    for tier in p.parts.tiers.values() {
        if tier.name.value.as_str().starts_with("system-") {
            let message = "Kubernetes keeps names of priority classes that begin with `system-` for itself";
            p.say(Diagnostic::error(codes::RESERVED_NAME, message).at(tier.name.at, "").hint("choose another name"));
        }
    }
    for pool in p.parts.pools.values() {
        let labels = pool.labels.iter().map(|(key, value)| (key.as_str(), value.at));
        let taints = pool.taints.iter().map(|taint| (taint.key.as_str(), taint.at));
        for (key, at) in labels.chain(taints) {
            let (whose, hint) = if is_of_kubernetes(key) {
                ("Kubernetes", "choose a key of your own")
            } else if key.starts_with("nvidia.com/") && is_ours(key) {
                ("Tidewright", "say how GPUs are cut with `layout`")
            } else if is_ours(key) {
                ("Tidewright", "choose a key of your own")
            } else {
                continue;
            };
            let message = format!("`{key}` is written by {whose}");
            p.say(Diagnostic::error(codes::RESERVED_NAME, message).at(at, "").hint(hint));
        }
    }
}

/// A reservation that exists is adopted once: its nodes are counted once.
fn adopted(p: &mut Problems<'_>) {
    let mut ids: BTreeMap<&str, Span> = BTreeMap::new();
    for (name, reservation) in &p.parts.reservations {
        let Some(id) = &reservation.id else { continue };
        if let Some(first) = ids.get(id.value.as_str()).copied() {
            let said = Diagnostic::error(codes::NAME_COLLISION, format!("`{}` is adopted twice", id.value))
                .at(id.at, "this one")
                .at(first, "and this one")
                .hint("keep one of the two reservations, and name it in every pool");
            p.blame(Kind::Reservation, name.as_str(), said);
        } else {
            ids.insert(&id.value, id.at);
        }
    }
}

/// What is retired leaves the cluster, so nothing may still need it.
fn retired(p: &mut Problems<'_>) {
    let parts = p.parts;
    let mut used: Vec<(Kind, &str, &str, Span)> = Vec::new();
    let gone = |name: &LayoutName| parts.layouts.get(name).is_some_and(|layout| layout.retire);
    for pool in parts.pools.values().filter(|pool| gone(&pool.layout.value)) {
        used.push((Kind::NodePool, pool.name.value.as_str(), pool.layout.value.as_str(), pool.layout.at));
    }
    for tide in parts.tides.values() {
        let owner = tide.name.value.as_str();
        for loan in &tide.loans {
            if let Some(layout) = loan.layout.as_ref().filter(|layout| gone(&layout.value)) {
                used.push((Kind::TideSchedule, owner, layout.value.as_str(), layout.at));
            }
            let quotas = [&loan.from, &loan.to].into_iter();
            for quota in quotas.filter(|name| parts.quotas.get(&name.value).is_some_and(|quota| quota.retire)) {
                used.push((Kind::TideSchedule, owner, quota.value.as_str(), quota.at));
            }
        }
    }
    for (kind, owner, name, at) in used {
        let message = format!("`{name}` is retired, and this still needs it");
        let said = Diagnostic::error(codes::GIVEN_BACK, message).at(at, "");
        p.blame(kind, owner, said.hint(format!("name another one, or remove `retire` from `{name}`")));
    }
}

/// Different objects here that would be one object in the cluster.
fn collisions(p: &mut Problems<'_>) {
    adopted(p);
    let mut queues: BTreeMap<&str, Span> = BTreeMap::new();
    let mut locals: BTreeMap<(&str, &str), (&str, Span)> = BTreeMap::new();
    let mut cohorts: BTreeMap<&str, (Option<&str>, Span)> = BTreeMap::new();
    for (name, quota) in &p.parts.quotas {
        if let Some(first) = queues.get(quota.cluster_queue.as_str()).copied() {
            let message = format!("two quotas would be the ClusterQueue `{}`", quota.cluster_queue.value);
            p.say(
                Diagnostic::error(codes::NAME_COLLISION, message)
                    .at(quota.cluster_queue.at, "this one")
                    .at(first, "and this one")
                    .hint("give one of them another `clusterQueue`"),
            );
        } else {
            queues.insert(&quota.cluster_queue.value, quota.cluster_queue.at);
        }
        for namespace in &quota.namespaces {
            let key = (namespace.name.as_str(), namespace.local_queue.as_str());
            match locals.get(&key).copied() {
                // One quota that lists it twice has been told so.
                Some((owner, _)) if owner == name.as_str() => {}
                Some((_, first)) => {
                    let message = format!("two quotas would have the LocalQueue `{}` in namespace `{}`", key.1, key.0);
                    p.say(
                        Diagnostic::error(codes::NAME_COLLISION, message)
                            .at(namespace.at, "this one")
                            .at(first, "and this one")
                            .hint("give one of them another `localQueue`"),
                    );
                }
                None => drop(locals.insert(key, (name.as_str(), namespace.at))),
            }
        }
        let mut parent = None;
        for cohort in quota.cohort.iter().flat_map(|path| path.value.split('/')) {
            let at = quota.cohort.as_ref().map_or(quota.name.at, |path| path.at);
            match cohorts.get(cohort).copied() {
                Some((other, first)) if other != parent => {
                    let place =
                        |parent: Option<&str>| parent.map_or("at the top".into(), |parent| format!("below `{parent}`"));
                    let message =
                        format!("the cohort `{cohort}` is {} here and {} elsewhere", place(parent), place(other));
                    let said = Diagnostic::error(codes::COHORT_TREE, message).at(at, "");
                    let said = if first == at { said } else { said.at(first, "elsewhere") };
                    let said = said.hint("a cohort has one parent: write the same path everywhere");
                    p.blame(Kind::Quota, name.as_str(), said);
                }
                _ => drop(cohorts.insert(cohort, (parent, at))),
            }
            parent = Some(cohort);
        }
    }
}
