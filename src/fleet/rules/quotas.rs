//! Quotas on their own and against the pools that they have a share of. Sums over pools and time are in `sums`.

use crate::diag::{At, Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::WHOLE;
use crate::fleet::quota::{Amount, Quota, Share, Supply};
use crate::fleet::worth;
use crate::hardware::Gpu;

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

/// A total is kept in thousandths of a GPU (`fleet::worth`), so it has to be worth some, and at least what is guaranteed.
fn total(p: &mut Problems<'_>, quota: &Quota) {
    let Some(total) = &quota.total else { return };
    let owner = quota.name.value.as_str();
    if !p.is_sound(Kind::Quota, owner) {
        return;
    }
    // In the unit of the total, which is what its author counts in; then in GPUs, in which everything counts.
    let in_total = |share: &Share, amount: &Amount| {
        let pool = p.parts.pools.get(&share.pool.value)?;
        amount.in_unit_of(total, &p.parts.per_node(pool, &pool.layout.value))
    };
    let counted: Vec<(&Share, Amount)> =
        quota.shares.iter().filter_map(|share| Some((share, in_total(share, &share.guarantee)?))).collect();
    let guaranteed = counted.iter().map(|(_, amount)| amount.clone()).reduce(|a, b| a.plus(&b));
    let guaranteed = guaranteed.filter(|guaranteed| !guaranteed.within(total)).map(|guaranteed| guaranteed.to_string());
    let worths: Vec<(&Share, u64)> =
        quota.shares.iter().filter_map(|share| Some((share, worth_of(p, share)?))).collect();
    let worth = worth::of_total(total, &pools(p, quota));
    let sum: u64 = worths.iter().map(|(_, worth)| *worth).sum();
    let more = worth.filter(|worth| sum > *worth).map(|_| worth::text(sum));
    let parts: Vec<&Share> = match &guaranteed {
        Some(_) => counted.iter().map(|(share, _)| *share).collect(),
        None => worths.iter().map(|(share, _)| *share).collect(),
    };
    if let Some(guaranteed) = guaranteed.or(more) {
        let message = format!("`{owner}` is guaranteed {guaranteed}, and may use {} in total", total.value);
        let mut said = Diagnostic::error(codes::TOTAL_BELOW_GUARANTEE, message).at(total.at, "");
        for share in parts {
            said = said.at(share.guarantee.at, format!("{} of `{}`", share.guarantee.value, share.pool.value));
        }
        p.blame(Kind::Quota, owner, said.hint("raise `total`, or guarantee less"));
    } else if worth.is_none() && is_known(p, quota) {
        let message = format!("a total of {} over these pools is no number of GPUs", total.value);
        let pools = quota.shares.iter().filter_map(|share| Some((share, p.parts.pools.get(&share.pool.value)?)));
        let mut said = Diagnostic::warning(codes::TOTAL_NOT_KEPT, message)
            .at(total.at, "kept by nobody: queues count GPUs and slices together, in GPUs");
        for (share, pool) in pools {
            let gpus = p.parts.hardware(&pool.instance_type).map_or(0, |hardware| hardware.gpus);
            said = said.at(share.pool.at, format!("its nodes have {}", Amount::Gpus(gpus)));
        }
        p.say(said.hint("write `total: {gpus: …}`"));
    }
}

/// The GPUs of the nodes of each pool that a quota has a share of, or is lent some of.
fn pools<'a>(p: &Problems<'a>, quota: &Quota) -> Vec<(u32, Option<&'a Gpu>)> {
    let loans = p.parts.tides.values().flat_map(|tide| &tide.loans).filter(|loan| loan.to.value == quota.name.value);
    let names = quota.shares.iter().map(|share| &share.pool.value).chain(loans.map(|loan| &loan.pool.value));
    let pools = names.filter_map(|name| p.parts.pools.get(name));
    let hardware = pools.filter_map(|pool| p.parts.hardware(&pool.instance_type));
    hardware.map(|hardware| (hardware.gpus, hardware.gpu)).collect()
}

/// Whether everything is known that a total is measured by: what is missing is told elsewhere.
fn is_known(p: &Problems<'_>, quota: &Quota) -> bool {
    !p.unread.headless
        && !quota.shares.is_empty()
        && quota.shares.iter().all(|share| {
            let pool = p.parts.pools.get(&share.pool.value);
            pool.is_some_and(|pool| {
                p.is_sound(Kind::NodePool, pool.name.value.as_str())
                    && p.is_sound(Kind::GpuLayout, pool.layout.value.as_str())
                    && p.parts.hardware(&pool.instance_type).is_some()
            })
        })
}

/// What a share guarantees, in thousandths of a GPU.
fn worth_of(p: &Problems<'_>, share: &Share) -> Option<u64> {
    let pool = p.parts.pools.get(&share.pool.value)?;
    let gpu = p.parts.hardware(&pool.instance_type)?.gpu;
    worth::of_supply(gpu, &share.guarantee.supply(&p.parts.per_node(pool, &pool.layout.value)))
}
