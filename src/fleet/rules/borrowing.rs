//! Borrowing in a cohort: somebody has to lend, or the pool has to hold more than is guaranteed.

use std::collections::BTreeMap;

use crate::diag::{At, Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::pool::Size;
use crate::fleet::quota::{Amount, Quota, Share, Supply};
use crate::ids::PoolName;

/// What may be borrowed: what others of the cohort lend, and what of the pool is guaranteed to nobody.
pub fn check(p: &mut Problems<'_>) {
    // A quota that is wrong, or could not be read, may be the one that lends.
    let lender_missing = p.unread.broken.iter().any(|object| object.kind == Kind::Quota)
        || p.parts.quotas.keys().any(|name| !p.is_sound(Kind::Quota, name.as_str()));
    if p.unread.blind || p.unread.headless || lender_missing {
        return;
    }
    let lent = lent_in_cohorts(p);
    let pools = unclaimed(p);
    for quota in p.parts.quotas.values() {
        for share in &quota.shares {
            if let Some(pool) = pools.get(&share.pool.value) {
                somebody_lends(p, quota, share, &lent, pool);
            }
        }
    }
}

type Lent<'a> = BTreeMap<(&'a str, &'a PoolName), Vec<(&'a Quota, &'a At<Amount>)>>;

fn lent_in_cohorts<'a>(p: &Problems<'a>) -> Lent<'a> {
    let mut lent: Lent<'a> = BTreeMap::new();
    for quota in p.parts.quotas.values() {
        for share in &quota.shares {
            if let (Some(cohort), Some(lend)) = (quota.root_cohort(), &share.lend) {
                lent.entry((cohort, &share.pool.value)).or_default().push((quota, lend));
            }
        }
    }
    lent
}

/// What a pool holds beyond all guarantees, and what each of its nodes holds.
struct Unclaimed {
    free: Supply,
    each: Supply,
}

/// What each sound pool holds beyond all guarantees when it is largest: at night, or while a Capacity Block runs.
fn unclaimed<'a>(p: &Problems<'a>) -> BTreeMap<&'a PoolName, Unclaimed> {
    let parts = p.parts;
    let mut resized: BTreeMap<&PoolName, u32> = BTreeMap::new();
    for resize in parts.tides.values().flat_map(|tide| &tide.resizes) {
        let largest = resized.entry(&resize.pool.value).or_default();
        *largest = resize.nodes.value.max(*largest);
    }
    let mut pools: BTreeMap<&PoolName, Unclaimed> = BTreeMap::new();
    for (name, pool) in &parts.pools {
        let layout = &pool.layout.value;
        if !p.is_sound(Kind::NodePool, name.as_str())
            || !p.is_sound(Kind::GpuLayout, layout.as_str())
            || parts.hardware(&pool.instance_type).is_none()
        {
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
        let each = parts.per_node(pool, layout);
        pools.insert(name, Unclaimed { free: each.times(largest), each });
    }
    for share in parts.quotas.values().flat_map(|quota| &quota.shares) {
        if let Some(pool) = pools.get_mut(&share.pool.value) {
            pool.free.subtract(&share.guarantee.supply(&pool.each));
        }
    }
    pools
}

fn somebody_lends(p: &mut Problems<'_>, quota: &Quota, share: &Share, lent: &Lent<'_>, pool: &Unclaimed) {
    let (Some(cohort), Some(borrow)) = (quota.root_cohort(), &share.borrow) else { return };
    let lenders = lent.get(&(cohort, &share.pool.value)).map_or(&[][..], Vec::as_slice);
    let others = || lenders.iter().filter(|(lender, _)| lender.name.value != quota.name.value);
    let mut there = pool.free.clone();
    for (_, lend) in others() {
        there.add(&lend.supply(&pool.each));
    }
    let there = match &borrow.value {
        Amount::Gpus(_) => Amount::Gpus(there.gpus),
        Amount::Slices(_) => Amount::Slices(there.slices),
        // Parts of nodes that are lent in GPUs or slices add up to nodes.
        Amount::Nodes(_) if pool.each.gpus > 0 => Amount::Nodes(there.gpus / pool.each.gpus),
        unit @ Amount::Nodes(_) if !pool.each.slices.is_empty() => {
            Amount::Slices(there.slices).in_unit_of(unit, &pool.each).unwrap_or(Amount::Nodes(0))
        }
        Amount::Nodes(_) => Amount::Nodes(there.nodes),
    };
    if borrow.within(&there) {
        return;
    }
    let offered = if there.is_nothing() { "nothing".into() } else { there.to_string() };
    let message = format!(
        "`{}` may borrow {} of pool `{}`, and {offered} can be borrowed",
        quota.name.value, borrow.value, share.pool.value
    );
    let mut said = Diagnostic::warning(codes::NOBODY_LENDS, message)
        .at(borrow.at, "more than others lend and the guarantees leave free");
    for (lender, lend) in others() {
        said = said.at(lend.at, format!("`{}` lends {}", lender.name.value, lend.value));
    }
    let hint = format!("add `lend` to a share of `{}` in cohort `{cohort}`, or borrow less", share.pool.value);
    p.say(said.hint(hint));
}
