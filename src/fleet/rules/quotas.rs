//! Quotas and tiers on their own and against each other. Sums over pools and time are in `sums`.

use std::collections::BTreeMap;

use crate::diag::{At, Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::WHOLE;
use crate::fleet::pool::Size;
use crate::fleet::quota::{Amount, Quota, Share, Supply};
use crate::fleet::tier::{Preempts, Tier};
use crate::ids::{PoolName, TierName};

pub fn check(p: &mut Problems<'_>) {
    ranks(p);
    runtimes(p);
    for quota in p.parts.quotas.values() {
        for share in &quota.shares {
            units(p, quota, share);
            limits(p, quota, share);
        }
        total(p, quota);
    }
    borrowing(p);
}

fn ranks(p: &mut Problems<'_>) {
    let mut seen: BTreeMap<i32, &Tier> = BTreeMap::new();
    for tier in p.parts.tiers.values() {
        if let Some(first) = seen.get(&tier.rank.value) {
            let message = format!(
                "`{}` and `{}` have the same rank: neither yields to the other",
                tier.name.value, first.name.value
            );
            let said = Diagnostic::error(codes::SAME_RANK, message).at(tier.rank.at, "").at(first.rank.at, "the same");
            p.say(said.hint("give the one that should yield a lower rank"));
        } else {
            seen.insert(tier.rank.value, tier);
        }
    }
}

/// Kueue preempts by priority alone. Where a queue can take a tier's GPUs early, that is said at the promise.
fn runtimes(p: &mut Problems<'_>) {
    let parts = p.parts;
    let group =
        |quota: &Quota| quota.root_cohort().map_or_else(|| quota.name.value.as_str().to_string(), |c| format!("/{c}"));
    let mut users: BTreeMap<&TierName, Vec<(String, &Quota)>> = BTreeMap::new();
    for quota in parts.quotas.values() {
        for tier in &quota.tiers {
            users.entry(&tier.value).or_default().push((group(quota), quota));
        }
    }
    let mut rivals: Vec<&Tier> =
        parts.tiers.values().filter(|tier| tier.preempts.value == Preempts::LowerTiers).collect();
    rivals.sort_by_key(|tier| tier.rank.value);
    for tier in parts.tiers.values() {
        let Some(runtime) = &tier.minimum_runtime else { continue };
        let Some(own) = users.get(&tier.name.value) else { continue };
        let rival = rivals.iter().filter(|rival| rival.rank.value > tier.rank.value).find(|rival| {
            let theirs = users.get(&rival.name.value).map_or(&[][..], Vec::as_slice);
            theirs.iter().any(|(group, _)| own.iter().any(|(mine, _)| mine == group))
        });
        let Some(rival) = rival else { continue };
        let message = format!("Kueue may preempt work of tier `{}` before it ran {}", tier.name.value, runtime.value);
        p.say(
            Diagnostic::warning(codes::RUNTIME_NOT_KEPT, message)
                .at(runtime.at, "kept in every drain, tide and update, not in the queue's own preemption")
                .at(rival.preempts.at, format!("`{}` may take its GPUs at once", rival.name.value))
                .hint(format!(
                    "write `preempts: never` on `{}`, or keep the two tiers in separate cohorts",
                    rival.name.value
                )),
        );
    }
}

/// A share counts what the pool has, and all its amounts count the same thing.
fn units(p: &mut Problems<'_>, quota: &Quota, share: &Share) {
    let owner = quota.name.value.as_str();
    for other in [&share.borrow, &share.lend].into_iter().flatten() {
        if !other.same_unit(&share.guarantee) {
            let message = "a share is counted in one unit";
            let said = Diagnostic::error(codes::NOT_IN_POOL, message)
                .at(other.at, "")
                .at(share.guarantee.at, "the guarantee is counted in this");
            p.blame(Kind::Quota, owner, said.hint("write both in GPUs, both in nodes, or both in slices"));
        }
    }
    let Some(pool) = p.parts.pools.get(&share.pool.value) else { return };
    let layout = &pool.layout.value;
    if p.unread.headless
        || !p.is_sound(Kind::NodePool, pool.name.value.as_str())
        || !p.is_sound(Kind::GpuLayout, layout.as_str())
        || p.parts.hardware(&pool.instance_type).is_none()
    {
        return;
    }
    let has = p.parts.per_node(pool, layout);
    let lacking = |amount: &At<Amount>| match &amount.value {
        Amount::Gpus(gpus) => (*gpus > 0 && has.gpus == 0).then(|| "whole GPUs".to_string()),
        Amount::Nodes(_) => None,
        Amount::Slices(slices) => slices
            .iter()
            .find(|(p, n)| **n > 0 && !has.slices.contains_key(*p))
            .map(|(profile, _)| format!("`{profile}`")),
    };
    if let Some(what) = lacking(&share.guarantee) {
        let message = format!("a share of {what} in pool `{}`, which has none", pool.name.value);
        let said = Diagnostic::error(codes::NOT_IN_POOL, message)
            .at(share.guarantee.at, "")
            .at(pool.layout.at, "cut like this");
        p.blame(Kind::Quota, owner, said.hint(format!("a node of it holds {}", holds(&has, layout.as_str()))));
    }
}

fn holds(supply: &Supply, layout: &str) -> String {
    let mut parts: Vec<String> = supply.slices.iter().map(|(profile, n)| format!("{n} × {profile}")).collect();
    if supply.gpus > 0 {
        parts.insert(0, format!("{} whole GPUs", supply.gpus));
    }
    match parts.as_slice() {
        [] => "no GPUs: count it in nodes".into(),
        _ if layout == WHOLE => parts.join(" and "),
        _ => format!("{} under layout `{layout}`", parts.join(" and ")),
    }
}

fn limits(p: &mut Problems<'_>, quota: &Quota, share: &Share) {
    let owner = quota.name.value.as_str();
    if let Some(lend) = &share.lend
        && lend.same_unit(&share.guarantee)
        && !lend.within(&share.guarantee)
    {
        let message = format!("`{}` lends {} of a guarantee of {}", owner, lend.value, share.guarantee.value);
        let said =
            Diagnostic::error(codes::LENDS_TOO_MUCH, message).at(lend.at, "").at(share.guarantee.at, "it has this");
        p.blame(Kind::Quota, owner, said.hint("lend at most what is guaranteed"));
    }
    if quota.cohort.is_none()
        && let Some(limit) = share.borrow.as_ref().or(share.lend.as_ref())
    {
        let message = format!("`{owner}` borrows or lends, and is in no cohort to do it in");
        let said = Diagnostic::error(codes::NO_COHORT, message).at(limit.at, "");
        p.blame(
            Kind::Quota,
            owner,
            said.hint("add `cohort: …`, the same for all that share, or remove `borrow` and `lend`"),
        );
    }
}

/// What may be borrowed: what others of the cohort lend, and what of the pool is guaranteed to nobody.
fn borrowing(p: &mut Problems<'_>) {
    // A quota that is wrong, or could not be read, may be the one that lends.
    let lender_missing = p.unread.broken.iter().any(|object| object.kind == Kind::Quota)
        || p.parts.quotas.keys().any(|name| !p.is_sound(Kind::Quota, name.as_str()));
    if p.unread.blind || p.unread.headless || lender_missing {
        return;
    }
    let lent = lent_in_cohorts(p);
    let unclaimed = unclaimed(p);
    for quota in p.parts.quotas.values() {
        for share in &quota.shares {
            if let Some(unclaimed) = unclaimed.get(&share.pool.value) {
                somebody_lends(p, quota, share, &lent, unclaimed);
            }
        }
    }
}

type Lent<'a> = BTreeMap<(&'a str, &'a PoolName), Vec<(&'a Quota, &'a Amount)>>;

fn lent_in_cohorts<'a>(p: &Problems<'a>) -> Lent<'a> {
    let mut lent: Lent<'a> = BTreeMap::new();
    for quota in p.parts.quotas.values() {
        for share in &quota.shares {
            if let (Some(cohort), Some(lend)) = (quota.root_cohort(), &share.lend) {
                lent.entry((cohort, &share.pool.value)).or_default().push((quota, &lend.value));
            }
        }
    }
    lent
}

/// What each sound pool holds beyond all guarantees when it is largest: at night, or while a Capacity Block runs.
fn unclaimed<'a>(p: &Problems<'a>) -> BTreeMap<&'a PoolName, Supply> {
    let parts = p.parts;
    let mut resized: BTreeMap<&PoolName, u32> = BTreeMap::new();
    for resize in parts.tides.values().flat_map(|tide| &tide.resizes) {
        let largest = resized.entry(&resize.pool.value).or_default();
        *largest = resize.nodes.value.max(*largest);
    }
    let mut free: BTreeMap<&PoolName, Supply> = BTreeMap::new();
    for (name, pool) in &parts.pools {
        let layout = &pool.layout.value;
        if !p.is_sound(Kind::NodePool, name.as_str()) || !p.is_sound(Kind::GpuLayout, layout.as_str()) {
            continue;
        }
        let own = match pool.size.value {
            Size::Nodes(nodes) => nodes,
            Size::Fill => {
                let reservations = pool.reservations().filter_map(|name| parts.reservations.get(*name));
                reservations.map(|reservation| reservation.nodes.value).fold(0, u32::saturating_add)
            }
        };
        let largest = own.max(resized.get(name).copied().unwrap_or(0)).saturating_sub(pool.spares.value);
        free.insert(name, parts.per_node(pool, layout).times(largest));
    }
    for share in parts.quotas.values().flat_map(|quota| &quota.shares) {
        if let (Some(pool), Some(free)) = (parts.pools.get(&share.pool.value), free.get_mut(&share.pool.value)) {
            free.subtract(&share.guarantee.supply(&parts.per_node(pool, &pool.layout.value)));
        }
    }
    free
}

fn somebody_lends(p: &mut Problems<'_>, quota: &Quota, share: &Share, lent: &Lent<'_>, unclaimed: &Supply) {
    let (Some(cohort), Some(borrow)) = (quota.root_cohort(), &share.borrow) else { return };
    let free = match &borrow.value {
        Amount::Gpus(_) => Amount::Gpus(unclaimed.gpus),
        Amount::Nodes(_) => Amount::Nodes(unclaimed.nodes),
        Amount::Slices(_) => Amount::Slices(unclaimed.slices.clone()),
    };
    let lenders = lent.get(&(cohort, &share.pool.value)).map_or(&[][..], Vec::as_slice);
    let others = lenders.iter().filter(|(lender, _)| lender.name.value != quota.name.value);
    let offered = others.filter(|(_, amount)| amount.same_unit(borrow)).fold(free, |sum, (_, amount)| sum.plus(amount));
    if borrow.within(&offered) {
        return;
    }
    let offered = match offered {
        Amount::Gpus(0) | Amount::Nodes(0) => "nothing".into(),
        Amount::Slices(slices) if slices.values().all(|count| *count == 0) => "nothing".into(),
        some => some.to_string(),
    };
    let message = format!(
        "`{}` may borrow {} of pool `{}`, and there is {offered} to borrow",
        quota.name.value, borrow.value, share.pool.value
    );
    p.say(
        Diagnostic::warning(codes::NOBODY_LENDS, message)
            .at(borrow.at, "more than others lend and nobody is guaranteed")
            .hint(format!("add `lend` to a share of `{}` in cohort `{cohort}`, or borrow less", share.pool.value)),
    );
}

/// A queue counts for each pool apart, so a total over several is watched by the plan and kept by nobody.
fn total(p: &mut Problems<'_>, quota: &Quota) {
    let Some(total) = &quota.total else { return };
    let owner = quota.name.value.as_str();
    let guaranteed =
        quota.shares.iter().filter(|share| share.guarantee.same_unit(total)).map(|share| share.guarantee.value.clone());
    if let Some(sum) = guaranteed.reduce(|a, b| a.plus(&b))
        && !sum.within(total)
    {
        let mut said = Diagnostic::error(
            codes::TOTAL_BELOW_GUARANTEE,
            format!("`{owner}` is guaranteed {sum}, and may use {} in total", total.value),
        )
        .at(total.at, "");
        for share in &quota.shares {
            said = said.at(share.guarantee.at, format!("{} of `{}`", share.guarantee.value, share.pool.value));
        }
        p.blame(Kind::Quota, owner, said.hint("raise `total`, or guarantee less"));
    } else if quota.shares.len() > 1 {
        let message = "Kueue counts each pool apart and cannot keep a total over several";
        p.say(
            Diagnostic::warning(codes::TOTAL_NOT_KEPT, message)
                .at(total.at, "not kept by the queue; the plan and the status show when it is passed")
                .hint("what is kept is each share's `guarantee` plus `borrow`: lower those to be sure"),
        );
    }
}
