//! Nodes that are cut anew change hands one by one, and how a node is cut says whose it is.
//!
//! A target says what should be at an instant; a quota is a promise about nodes that are there. So a node that is to be
//! lent is its lender's until it is empty and told to be cut, and one that is asked back is nobody's until it is cut as
//! its pool is, whenever the clock says that it should be. Not here: how the cut of a node is seen (`compile::cuts`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Fleet;
use super::standing::{LoanSpec, PoolSpec, Standing};
use super::target::{Part, PoolTarget, Purpose, Target};
use super::tide::Phase;
use crate::ids::{LayoutName, PoolName, TideName};

/// What was seen in the slots of pools that have a node, or of which nobody knows.
pub type Cuts = BTreeMap<PoolName, BTreeMap<u32, CutSeen>>;

#[derive(Clone, PartialEq, Default, Debug)]
pub struct CutSeen {
    /// What it is cut as, or told to be; none for something else.
    pub layout: Option<LayoutName>,
    /// It is kept empty for a cut, or nobody knows.
    pub closed: bool,
    /// It was never lent: how it is cut says nothing yet.
    pub fresh: bool,
    /// Somebody keeps it as it is.
    pub kept: bool,
    /// Somebody, or its health, keeps it out of service.
    pub out: bool,
    /// What the work of each queue that has some on it would lose, in GPU-seconds.
    pub work: BTreeMap<String, u64>,
    /// What each gang, or pod by itself, that stands on it would lose as a whole, in GPU-seconds.
    pub units: BTreeMap<String, u64>,
}

impl Fleet {
    /// A target as far as its nodes have changed hands: what may be promised.
    pub fn promised(&self, target: &Target, cuts: &Cuts) -> Target {
        let (standing, pools) = (&target.standing, target.handed_over(cuts));
        let quotas = self.quotas_at(&pools, standing);
        Target { standing: standing.clone(), tides: target.tides.clone(), quotas, pools }
    }
}

impl Target {
    /// With what is remembered of its tides: since when each of them lends.
    pub fn lent_since(&mut self, since: impl Iterator<Item = (TideName, Timestamp)>) {
        let since: BTreeMap<TideName, Timestamp> = since.collect();
        if self.standing.lent_since != since {
            Arc::make_mut(&mut self.standing).lent_since = since;
        }
    }

    /// Its pools as far as their nodes have changed hands.
    pub fn handed_over(&self, cuts: &Cuts) -> BTreeMap<PoolName, PoolTarget> {
        let pools = self.pools.iter().map(|(name, pool)| {
            let spec = self.standing.pools.get(name).filter(|_| self.standing.is_recut(name));
            let cuts = cuts.get(name);
            (name.clone(), spec.map_or_else(|| pool.clone(), |spec| handed_over(self, name, spec, pool, cuts)))
        });
        pools.collect()
    }

    /// The loan that a node of a pool is cut for, where none is wanted to be cut so: what an edit ended last before
    /// what is late. Of several tides that lend such nodes it is the borrower's whose work is on it, in these queues; then
    /// not the tide's that has what it lends now, and of the others the one that is remembered to lend, the latest.
    pub fn lent_as<'q>(
        &self,
        pool: &PoolName,
        layout: &LayoutName,
        queues: impl Iterator<Item = &'q str> + Clone,
    ) -> Option<(&TideName, &LoanSpec)> {
        let rank = |(tide, loan): (&TideName, &LoanSpec)| {
            let works = queues.clone().any(|queue| queue == loan.queue);
            (loan.ended, works, !self.lends(pool, tide), self.standing.lent_since.get(tide).copied())
        };
        let loans = self.standing.recut(pool).filter(|(_, loan)| loan.layout == *layout);
        loans.reduce(|known, next| if rank(next) > rank(known) { next } else { known })
    }

    /// Whether a pool lends nodes by a tide at this instant.
    fn lends(&self, pool: &PoolName, tide: &TideName) -> bool {
        let mut parts = self.pools.get(pool).into_iter().flat_map(|pool| &pool.parts);
        parts.any(|part| matches!(&part.purpose, Purpose::Lent { tide: by, .. } if by == tide))
    }

    /// What such a node is there for: it is on its way back.
    pub fn coming_back(&self, tide: &TideName, loan: &LoanSpec) -> Purpose {
        let phase = self.tides.get(tide).copied().unwrap_or(Phase::High);
        let times = self.standing.tides.get(tide).and_then(|spec| spec.asks_back(loan.ended, phase));
        let (hard_at, due) = times.unwrap_or((Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH));
        let (tide, from, to) = (tide.clone(), loan.from.clone(), loan.to.clone());
        Purpose::Returning { tide, from, to, hard_at, due }
    }
}

impl Standing {
    /// Whether a tide lends nodes of a pool that are cut anew for that.
    pub fn is_recut(&self, pool: &PoolName) -> bool {
        self.recut(pool).next().is_some()
    }

    pub(super) fn recut<'a>(&'a self, pool: &PoolName) -> impl Iterator<Item = (&'a TideName, &'a LoanSpec)> {
        let own = self.pools.get(pool).map(|spec| (pool.clone(), spec));
        let loans = self.tides.iter().flat_map(|(tide, spec)| spec.loans.iter().map(move |loan| (tide, loan)));
        loans.filter(move |(_, loan)| {
            own.as_ref().is_some_and(|(pool, spec)| loan.pool == *pool && loan.layout != spec.layout)
        })
    }
}

fn handed_over(
    target: &Target,
    name: &PoolName,
    spec: &PoolSpec,
    pool: &PoolTarget,
    cuts: Option<&BTreeMap<u32, CutSeen>>,
) -> PoolTarget {
    let mut parts = Vec::new();
    for part in &pool.parts {
        for slot in part.first..part.first.saturating_add(part.nodes) {
            let cut = cuts.and_then(|cuts| cuts.get(&slot));
            let (layout, purpose) = whose(target, name, spec, part, cut);
            append(&mut parts, slot, layout, purpose);
        }
    }
    PoolTarget { parts, ..pool.clone() }
}

/// One more slot behind some parts: neighbours that serve one purpose are one part.
pub(super) fn append(parts: &mut Vec<Part>, slot: u32, layout: LayoutName, purpose: Purpose) {
    match parts.last_mut().filter(|last| last.layout == layout && last.purpose == purpose) {
        Some(last) => last.nodes += 1,
        None => parts.push(Part { first: slot, nodes: 1, layout, purpose }),
    }
}

/// Whose the node of a slot is, and as what.
fn whose(
    target: &Target,
    name: &PoolName,
    spec: &PoolSpec,
    part: &Part,
    cut: Option<&CutSeen>,
) -> (LayoutName, Purpose) {
    let as_wanted = || (part.layout.clone(), part.purpose.clone());
    let seen = cut.and_then(|cut| cut.layout.as_ref());
    let is_own = seen == Some(&spec.layout);
    let in_use = seen.filter(|seen| **seen != spec.layout && **seen != part.layout);
    let queues = cut.into_iter().flat_map(|cut| cut.work.keys()).map(String::as_str);
    let lent_as = || {
        let seen = in_use.filter(|_| cut.is_some_and(|cut| !cut.fresh))?;
        target.lent_as(name, seen, queues.clone())
    };
    let late = |(tide, loan): (&TideName, &LoanSpec)| (loan.layout.clone(), target.coming_back(tide, loan));
    match &part.purpose {
        Purpose::Lent { .. } if is_own && part.layout != spec.layout => (spec.layout.clone(), Purpose::Own),
        Purpose::Returning { tide, from, to, .. } => {
            let is = |(by, loan): (&TideName, &LoanSpec)| by == tide && loan.from == *from && loan.to == *to;
            let is_back = cut.is_none_or(|cut| is_own && !cut.closed);
            let back = is_back && target.standing.recut(name).any(is);
            if back { (spec.layout.clone(), Purpose::Own) } else { as_wanted() }
        }
        // The tide is high, or lends it no more, or cut in another way, and it is still cut as it was lent.
        Purpose::Own | Purpose::Lent { .. } => lent_as().map_or_else(as_wanted, late),
        Purpose::Spare => as_wanted(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{at, fleet_in};

    const DOCUMENTS: &str = r#"
kind: NodePool
metadata: {name: serve}
spec: {instanceType: p5.48xlarge, nodes: 4, spares: 1, capacity: [{onDemand: {max: 4}}], layout: halves}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
kind: PreemptionTier
metadata: {name: production}
spec: {rank: 1000}
---
kind: Quota
metadata: {name: serving}
spec:
  namespaces: [{name: serving}]
  tiers: [production]
  shares: [{pool: serve, guarantee: {slices: {3g.40gb: 48}}}]
---
kind: Quota
metadata: {name: batch}
spec: {namespaces: [{name: batch}], tiers: [production]}
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Sun], from: "20:00", to: "06:30"}]
  lend: [{pool: serve, nodes: 2, from: serving, to: batch, layout: whole}]
  reclaim: {lead: 45m, hardAt: 10m}
"#;

    /// What serving is guaranteed and what batch has on loan, with slots 1 and 2 cut in these ways.
    fn promised(now: &str, cuts: [Option<(&str, bool)>; 2]) -> (u32, u32) {
        let fleet = fleet_in("UTC", "2026-03-02T12:00Z", DOCUMENTS);
        let seen =
            |(layout, closed): (&str, bool)| CutSeen { layout: Some(layout.into()), closed, ..CutSeen::default() };
        let cuts = (1..).zip(cuts).filter_map(|(slot, cut)| Some((slot, seen(cut?)))).collect();
        let target = fleet.promised(&fleet.target_at(at(now)), &Cuts::from([("serve".into(), cuts)]));
        let each = Default::default();
        let share = target.quotas["serving"].shares["serve"].guarantee.supply(&each);
        let loans = target.quotas["batch"].loans.iter().map(|loan| loan.supply.gpus);
        (share.slices["3g.40gb"], loans.sum())
    }

    #[test]
    fn a_quota_is_where_the_nodes_are() {
        const EVENING: &str = "2026-03-02T21:00Z";
        const MORNING: &str = "2026-03-03T06:00Z";
        const DAY: &str = "2026-03-03T08:00Z";
        let (own, lent) = (Some(("halves", false)), Some(("whole", false)));
        let (draining, back_soon) = (Some(("halves", true)), Some(("halves", true)));
        for (now, cuts, expected, why) in [
            (EVENING, [own, own], (48, 0), "not begun"),
            (EVENING, [draining, own], (48, 0), "a node that is being emptied is its lender's"),
            (EVENING, [lent, own], (32, 8), "one of two"),
            (EVENING, [lent, lent], (16, 16), "both"),
            (EVENING, [None, None], (16, 16), "nodes that come are lent as they come"),
            (MORNING, [lent, lent], (16, 0), "asked back, and nobody's"),
            (MORNING, [back_soon, own], (32, 0), "one is back, one is cut"),
            (MORNING, [own, own], (48, 0), "back before the end"),
            (MORNING, [None, own], (48, 0), "a node that is gone is nobody's loan"),
            (DAY, [lent, own], (32, 0), "late"),
            (DAY, [own, own], (48, 0), "by day"),
        ] {
            assert_eq!(promised(now, cuts), expected, "{why}");
        }
    }
}
