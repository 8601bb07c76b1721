//! Tiers against each other, and what queues and tides make of their promises.

use std::collections::BTreeMap;

use crate::diag::{Diagnostic, codes};
use crate::fleet::Parts;
use crate::fleet::build::Problems;
use crate::fleet::quota::{Quota, Share};
use crate::fleet::tide::Tide;
use crate::fleet::tier::{Preempts, Tier};
use crate::ids::{PoolName, QuotaName, TierName};
use crate::units::Duration;

pub fn check(p: &mut Problems<'_>) {
    ranks(p);
    runtimes(p);
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

/// Where a minimum runtime is not kept, that is said at the promise: Kueue knows none, and a tide has its hour.
fn runtimes(p: &mut Problems<'_>) {
    let parts = p.parts;
    if parts.tiers.values().all(|tier| tier.minimum_runtime.is_none()) {
        return;
    }
    let mut users: BTreeMap<&TierName, Vec<&Quota>> = BTreeMap::new();
    for quota in parts.quotas.values() {
        for tier in &quota.tiers {
            users.entry(&tier.value).or_default().push(quota);
        }
    }
    let lenders = lenders(parts);
    let mut reclaims: BTreeMap<&QuotaName, Vec<&Tide>> = BTreeMap::new();
    for tide in parts.tides.values() {
        for loan in &tide.loans {
            reclaims.entry(&loan.to.value).or_default().push(tide);
        }
    }
    for tier in parts.tiers.values() {
        let Some(runtime) = &tier.minimum_runtime else { continue };
        let own = users.get(&tier.name.value).map_or(&[][..], Vec::as_slice);
        in_the_queue(p, tier, runtime.value, own);
        in_the_cohort(p, tier, runtime.value, own, &lenders);
        in_the_tide(p, tier, runtime.value, own, &reclaims);
    }
}

/// Work of one queue preempts by priority alone.
fn in_the_queue(p: &mut Problems<'_>, tier: &Tier, runtime: Duration, users: &[&Quota]) {
    let parts = p.parts;
    let rival = |quota: &Quota| {
        let tiers = quota.tiers.iter().filter_map(|name| parts.tiers.get(&name.value));
        let above = tiers.filter(|rival| rival.rank.value > tier.rank.value);
        above.filter(|rival| rival.preempts.value == Preempts::LowerTiers).min_by_key(|rival| rival.rank.value)
    };
    let found = users.iter().filter(|quota| !quota.shares.is_empty()).find_map(|quota| Some((quota, rival(quota)?)));
    let (Some((quota, rival)), Some(promise)) = (found, &tier.minimum_runtime) else { return };
    let message = format!("Kueue may preempt work of tier `{}` before it ran {runtime}", tier.name.value);
    p.say(
        Diagnostic::warning(codes::RUNTIME_NOT_KEPT, message)
            .at(promise.at, "kept in every drain, update and repair, not in the queue's own preemption")
            .at(rival.preempts.at, format!("`{}` may take its GPUs at once", rival.name.value))
            .at(quota.name.at, "both run in this quota")
            .hint(format!(
                "write `preempts: never` on `{}`, or give the two tiers quotas of their own",
                rival.name.value
            )),
    );
}

/// Who lends a part of a pool in which cohort.
type Lenders<'a> = BTreeMap<(&'a str, &'a PoolName), Vec<(&'a Quota, &'a Share)>>;

fn lenders(parts: &Parts) -> Lenders<'_> {
    let mut lenders: Lenders<'_> = BTreeMap::new();
    for quota in parts.quotas.values() {
        for share in quota.shares.iter().filter(|share| share.lend.as_ref().is_some_and(|lend| !lend.is_nothing())) {
            if let Some(cohort) = quota.root_cohort() {
                lenders.entry((cohort, &share.pool.value)).or_default().push((quota, share));
            }
        }
    }
    lenders
}

/// Who lends in a cohort gets it back at once.
fn in_the_cohort(p: &mut Problems<'_>, tier: &Tier, runtime: Duration, users: &[&Quota], lenders: &Lenders<'_>) {
    let found = users.iter().find_map(|quota| {
        let cohort = quota.root_cohort()?;
        quota.shares.iter().find_map(|share| {
            let borrow = share.borrow.as_ref().filter(|borrow| !borrow.is_nothing())?;
            let others = lenders.get(&(cohort, &share.pool.value))?;
            let (_, lent) = others.iter().find(|(lender, _)| lender.name.value != quota.name.value)?;
            Some((quota, borrow, lent.lend.as_ref()?))
        })
    });
    let (Some((quota, borrow, lend)), Some(promise)) = (found, &tier.minimum_runtime) else { return };
    let message = format!(
        "Kueue may stop work of tier `{}` before it ran {runtime}, to give back what `{}` borrows",
        tier.name.value, quota.name.value
    );
    p.say(
        Diagnostic::warning(codes::RUNTIME_NOT_KEPT, message)
            .at(promise.at, "kept in every drain, update and repair, not on what is borrowed")
            .at(borrow.at, "borrowed here")
            .at(lend.at, "lent here, and given back at once")
            .hint("nothing to do if that is fine; else let a quota of this tier borrow nothing"),
    );
}

/// Lent nodes are back when the tide turns, however long their work ran.
fn in_the_tide(
    p: &mut Problems<'_>,
    tier: &Tier,
    runtime: Duration,
    users: &[&Quota],
    reclaims: &BTreeMap<&QuotaName, Vec<&Tide>>,
) {
    let tides = users.iter().filter_map(|quota| reclaims.get(&quota.name.value)).flatten();
    // Nothing new starts on lent nodes once they are asked back.
    let early = tides.filter(|tide| tide.lead.value < runtime).min_by_key(|tide| tide.lead.value);
    let (Some(tide), Some(promise)) = (early, &tier.minimum_runtime) else { return };
    let message =
        format!("tide `{}` may stop work of tier `{}` before it ran {runtime}", tide.name.value, tier.name.value);
    p.say(
        Diagnostic::warning(codes::RUNTIME_NOT_KEPT, message)
            .at(promise.at, "kept in every drain, update and repair, not on lent nodes")
            .at(tide.lead.at, "what begins just before is stopped after this long")
            .hint(format!("make `lead` at least {runtime}, or lend to a quota of another tier")),
    );
}
