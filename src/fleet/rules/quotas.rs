//! Quotas on their own and against the pools that they have a share of. Sums over pools and time are in `sums`.

use crate::diag::{At, Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::WHOLE;
use crate::fleet::quota::{Amount, Quota, Share, Supply};

pub fn check(p: &mut Problems<'_>) {
    for quota in p.parts.quotas.values() {
        for share in &quota.shares {
            units(p, quota, share);
            limits(p, quota, share);
        }
        total(p, quota);
    }
}

/// A share counts what the pool has, and all its amounts count the same thing.
fn units(p: &mut Problems<'_>, quota: &Quota, share: &Share) {
    let owner = quota.name.value.as_str();
    let others = || [&share.borrow, &share.lend].into_iter().flatten();
    if let Some(other) = others().find(|other| !other.same_unit(&share.guarantee)) {
        let said = Diagnostic::error(codes::NOT_IN_POOL, "a share is counted in one unit")
            .at(other.at, "")
            .at(share.guarantee.at, "the guarantee is counted in another");
        p.blame(Kind::Quota, owner, said.hint("write both in GPUs, both in nodes, or both in slices"));
        return;
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
    let found = [&share.guarantee].into_iter().chain(others()).find_map(|amount| Some((amount, lacking(amount)?)));
    if let Some((amount, what)) = found {
        let message = format!("a share of {what} in pool `{}`, which has none", pool.name.value);
        let said = Diagnostic::error(codes::NOT_IN_POOL, message).at(amount.at, "");
        let said = match layout.as_str() {
            WHOLE => said.at(pool.instance_type.at, "nodes of this type"),
            _ => said.at(pool.layout.at, "cut like this"),
        };
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

/// What Kueue's own webhook would refuse.
fn limits(p: &mut Problems<'_>, quota: &Quota, share: &Share) {
    let owner = quota.name.value.as_str();
    if let Some(lend) = &share.lend
        && lend.same_unit(&share.guarantee)
        && !lend.within(&share.guarantee)
    {
        let message = format!("`{}` lends {} of a guarantee of {}", owner, lend.value, share.guarantee.value);
        let said = Diagnostic::error(codes::LENDS_TOO_MUCH, message)
            .at(lend.at, "")
            .at(share.guarantee.at, "it is guaranteed this");
        p.blame(Kind::Quota, owner, said.hint("lend at most what is guaranteed"));
    }
    if quota.cohort.is_none()
        && let Some((limit, verb)) =
            share.borrow.as_ref().map(|b| (b, "borrows")).or(share.lend.as_ref().map(|l| (l, "lends")))
    {
        let message = format!("`{owner}` {verb}, and is in no cohort to do it in");
        let said = Diagnostic::error(codes::NO_COHORT, message).at(limit.at, "");
        p.blame(
            Kind::Quota,
            owner,
            said.hint("add `cohort: …`, the same for all that share, or remove `borrow` and `lend`"),
        );
    }
}

/// A queue counts for each pool apart, so a total over several is watched by the plan and kept by nobody.
fn total(p: &mut Problems<'_>, quota: &Quota) {
    let Some(total) = &quota.total else { return };
    let owner = quota.name.value.as_str();
    if !p.is_sound(Kind::Quota, owner) {
        return;
    }
    // What the total says nothing about, such as slices under a total in GPUs, is left out.
    let in_total = |share: &Share, amount: &Amount| {
        let pool = p.parts.pools.get(&share.pool.value)?;
        amount.in_unit_of(total, &p.parts.per_node(pool, &pool.layout.value))
    };
    let counted: Vec<(&Share, Amount)> =
        quota.shares.iter().filter_map(|share| Some((share, in_total(share, &share.guarantee)?))).collect();
    let borrowed = quota.shares.iter().filter_map(|share| in_total(share, share.borrow.as_ref()?));
    let sum = |amounts: &mut dyn Iterator<Item = Amount>| amounts.reduce(|a, b| a.plus(&b));
    let guaranteed = sum(&mut counted.iter().map(|(_, amount)| amount.clone()));
    let most = sum(&mut counted.iter().map(|(_, amount)| amount.clone()).chain(borrowed));
    if let Some(guaranteed) = guaranteed.filter(|guaranteed| !guaranteed.within(total)) {
        let message = format!("`{owner}` is guaranteed {guaranteed}, and may use {} in total", total.value);
        let mut said = Diagnostic::error(codes::TOTAL_BELOW_GUARANTEE, message).at(total.at, "");
        for (share, _) in &counted {
            said = said.at(share.guarantee.at, format!("{} of `{}`", share.guarantee.value, share.pool.value));
        }
        p.blame(Kind::Quota, owner, said.hint("raise `total`, or guarantee less"));
    } else if let Some(most) = most.filter(|most| counted.len() > 1 && !most.within(total)) {
        let message = format!(
            "`{owner}` could use {most}: Kueue counts each pool apart, and cannot keep a total of {}",
            total.value
        );
        p.say(
            Diagnostic::warning(codes::TOTAL_NOT_KEPT, message)
                .at(total.at, "not kept by the queue; the plan and the status show when it is passed")
                .hint("what is kept is each share's `guarantee` plus `borrow`: lower those to be sure"),
        );
    }
}
