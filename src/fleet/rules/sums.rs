//! Guarantees against what is there, at every instant of the next two weeks: every node is counted once.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::moments::{Moments, when, when_not_always};
use crate::diag::{Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::{Cut, per_node};
use crate::fleet::pool::{Pool, Size};
use crate::fleet::quota::{Amount, Quota, Share, Supply};
use crate::fleet::target::{Part, PoolTarget, Purpose};
use crate::fleet::tide::Phase;
use crate::ids::{MigProfile, PoolName};

pub fn check(p: &mut Problems<'_>) {
    if p.unread.headless {
        return;
    }
    let moments = Moments::of(p);
    let mut shares: BTreeMap<&PoolName, Vec<(&Quota, &Share)>> = BTreeMap::new();
    // A quota that is retired is on its way out: its share is free for who comes after it.
    for quota in p.parts.quotas.values().filter(|quota| !quota.retire) {
        for share in quota.shares.iter().filter(|_| p.is_sound(Kind::Quota, quota.name.value.as_str())) {
            shares.entry(&share.pool.value).or_default().push((quota, share));
        }
    }
    for pool in p.parts.pools.values() {
        let layouts = [&pool.layout.value].into_iter().chain(
            moments
                .tides(pool)
                .iter()
                .flat_map(|tide| &tide.loans)
                .filter_map(|loan| loan.layout.as_ref())
                .map(|layout| &layout.value),
        );
        let sound = p.is_sound(Kind::NodePool, pool.name.value.as_str())
            && pool.reservations().all(|name| p.is_sound(Kind::Reservation, name.as_str()))
            && layouts.clone().all(|layout| p.is_sound(Kind::GpuLayout, layout.as_str()))
            && p.parts.hardware(&pool.instance_type).is_some();
        if sound && !lent_too_much(p, &moments, pool) {
            let shares = shares.get(&pool.name.value).map_or(&[][..], Vec::as_slice);
            guarantees(p, &moments, pool, shares);
            keep_ready(p, &moments, pool);
        }
    }
}

fn lent_too_much(p: &mut Problems<'_>, moments: &Moments<'_>, pool: &Pool) -> bool {
    let lent_at = |at| match moments.ruling(pool, at) {
        Some((tide, Phase::Low { .. })) => {
            let loans: Vec<_> = tide.loans.iter().filter(|loan| loan.pool.value == pool.name.value).collect();
            let target = moments.pool_at(pool, at);
            let lent = loans.iter().map(|loan| loan.nodes.value).fold(0, u32::saturating_add);
            (!target.waits(pool)).then_some((tide, loans, lent, target.nodes))
        }
        _ => None,
    };
    for at in moments.instants(pool) {
        let Some((tide, loans, lent, nodes)) = lent_at(at) else { continue };
        let most = nodes.saturating_sub(pool.spares.value);
        if lent > most {
            let message = format!(
                "{lent} nodes of pool `{}` are lent{}, and it has {nodes}{}",
                pool.name.value,
                when(p, moments, pool, at),
                spares(pool)
            );
            let mut said = Diagnostic::error(codes::LENT_TOO_MUCH, message);
            for loan in &loans {
                said = said.at(loan.nodes.at, format!("{} to `{}`", loan.nodes.value, loan.to.value));
            }
            said = said.at(moments.size_at(pool, at), "it has these");
            let hint = if most == 0 {
                "make the pool larger, or lend nothing".into()
            } else {
                format!("lend at most {most}, or make the pool larger")
            };
            p.blame(Kind::TideSchedule, tide.name.value.as_str(), said.hint(hint));
            return true;
        }
    }
    false
}

/// ", 2 of them spares".
fn spares(pool: &Pool) -> String {
    match pool.spares.value {
        0 => String::new(),
        1 => ", 1 of them a spare".into(),
        more => format!(", {more} of them spares"),
    }
}

/// What quotas are guaranteed of a pool at one instant, against what is there.
struct Balance<'a> {
    target: PoolTarget,
    /// The first thing of which more is promised than is there, with how much is promised and how much is there.
    excess: Option<(Thing, u32, u32)>,
    /// What each is still guaranteed while it lends.
    left: Vec<(&'a Share, &'a Quota, Amount)>,
}

fn balance<'a>(
    p: &Problems<'a>,
    moments: &Moments<'a>,
    pool: &Pool,
    shares: &[(&'a Quota, &'a Share)],
    at: Timestamp,
) -> Balance<'a> {
    let each = p.parts.per_node(pool, &pool.layout.value);
    let target = moments.pool_at(pool, at);
    let mut promised = Supply::default();
    let mut left = Vec::new();
    for (quota, share) in shares {
        let lends = |part: &Part| match &part.purpose {
            Purpose::Lent { from, .. } | Purpose::Returning { from, .. } => *from == quota.name.value,
            Purpose::Own | Purpose::Spare => false,
        };
        let given: u32 = target.parts.iter().filter(|part| lends(part)).map(|part| part.nodes).sum();
        let rest = share.guarantee.without(&each.times(given));
        promised.add(&rest.supply(&each));
        left.push((*share, *quota, rest));
    }
    let excess = if target.waits(pool) { None } else { excess(&promised, &each.times(target.own())) };
    Balance { target, excess, left }
}

fn guarantees<'a>(p: &mut Problems<'a>, moments: &Moments<'a>, pool: &Pool, shares: &[(&'a Quota, &'a Share)]) {
    if shares.is_empty() {
        return;
    }
    let mut last = None;
    for at in moments.instants(pool) {
        let target = moments.pool_at(pool, at);
        if last.as_ref() == Some(&target) {
            continue;
        }
        let balance = balance(p, moments, pool, shares, at);
        if balance.excess.is_some() {
            over_capacity(p, moments, pool, shares, (at, &balance));
            return;
        }
        last = Some(target);
    }
}

/// What quotas count.
enum Thing {
    Gpus,
    Slices(MigProfile),
    Nodes,
}

impl Thing {
    fn of(&self, supply: &Supply) -> u32 {
        match self {
            Self::Gpus => supply.gpus,
            Self::Slices(profile) => supply.slices.get(profile).copied().unwrap_or(0),
            Self::Nodes => supply.nodes,
        }
    }

    fn count(&self, count: u32) -> String {
        match self {
            Self::Gpus => Amount::Gpus(count).to_string(),
            Self::Slices(profile) => format!("{count} × {profile}"),
            Self::Nodes => Amount::Nodes(count).to_string(),
        }
    }
}

/// The first thing of which more is promised than is there. Nodes are counted by what is in them; only those that have
/// neither GPUs nor slices are counted themselves.
fn excess(promised: &Supply, there: &Supply) -> Option<(Thing, u32, u32)> {
    let slices = promised.slices.keys().map(|profile| Thing::Slices(profile.clone()));
    let mut things = [Thing::Gpus].into_iter().chain(slices).chain([Thing::Nodes]);
    let thing = things.find(|thing| thing.of(promised) > thing.of(there))?;
    let (wanted, held) = (thing.of(promised), thing.of(there));
    Some((thing, wanted, held))
}

fn over_capacity<'a>(
    p: &mut Problems<'a>,
    moments: &Moments<'a>,
    pool: &Pool,
    shares: &[(&'a Quota, &'a Share)],
    (at, balance): (Timestamp, &Balance<'a>),
) {
    let Some((thing, wanted, held)) = &balance.excess else { return };
    let each = p.parts.per_node(pool, &pool.layout.value);
    let lent = |part: &&Part| matches!(part.purpose, Purpose::Lent { .. } | Purpose::Returning { .. });
    let away: u32 = balance.target.parts.iter().filter(lent).map(|part| part.nodes).sum();
    let away_text = if away > 0 { format!(", {away} lent or on their way back") } else { String::new() };
    let always = |at| self::balance(p, moments, pool, shares, at).excess.is_some();
    let message = format!(
        "pool `{}` has {} for its quotas{}, and {wanted} are guaranteed",
        pool.name.value,
        thing.count(*held),
        when_not_always(p, moments, pool, at, always)
    );
    let with = match thing {
        Thing::Nodes => String::new(),
        _ => format!(" with {} each", thing.count(thing.of(&each))),
    };
    let counted = format!("{}{with}{}{away_text}", Amount::Nodes(balance.target.nodes), spares(pool));
    let mut said = Diagnostic::error(codes::OVER_CAPACITY, message).at(moments.size_at(pool, at), counted);
    for (share, quota, left) in balance.left.iter().filter(|(share, ..)| thing.of(&share.guarantee.supply(&each)) > 0) {
        let whole = &share.guarantee.value;
        let mut label = format!("`{}` is guaranteed {whole}", quota.name.value);
        if let (Amount::Nodes(_), Thing::Gpus | Thing::Slices(_)) = (whole, thing) {
            label += &format!(" ({})", thing.count(thing.of(&whole.supply(&each))));
        }
        if left != whole {
            label += &format!(", of which {left} stay while it lends");
        }
        said = said.at(share.guarantee.at, label);
    }
    let ruling = moments.ruling(pool, at).map(|(tide, _)| tide);
    for loan in ruling.iter().flat_map(|tide| &tide.loans).filter(|loan| loan.pool.value == pool.name.value) {
        said = said.at(loan.nodes.at, format!("{} of `{}` to `{}`", loan.nodes.value, loan.from.value, loan.to.value));
    }
    let fills = pool.size.value == Size::Fill && moments.size_at(pool, at) == pool.size.at;
    let hint = if away > 0 {
        "lend fewer nodes, or nodes of the quota that can spare them"
    } else if fills {
        "guarantee what is always there; what a reservation adds for a time can be borrowed"
    } else {
        "guarantee less, or make the pool larger"
    };
    p.say(said.hint(hint));
}

/// While a pool is re-cut at least one node is away, and what is lent is away too.
fn keep_ready(p: &mut Problems<'_>, moments: &Moments<'_>, pool: &Pool) {
    let Some(layout) = p.parts.layout(&pool.layout.value) else { return };
    if layout.keep_ready.is_empty() || !matches!(layout.cut, Cut::Mig(_)) {
        return;
    }
    let gpus = p.parts.hardware(&pool.instance_type).map_or(0, |hardware| hardware.gpus);
    let each = per_node(Some(layout), gpus);
    let fewest = moments.instants(pool).into_iter().map(|at| (moments.pool_at(pool, at).own(), at)).min();
    let Some((own, at)) = fewest.filter(|(own, _)| *own > 0) else { return };
    for (profile, count) in &layout.keep_ready {
        let room = each.slices.get(&profile.value).copied().unwrap_or(0).saturating_mul(own - 1);
        if count.value > room {
            let message = format!(
                "{} slices of {} are kept ready, and with one node away pool `{}` has {room}{}",
                count.value,
                profile.value,
                pool.name.value,
                when(p, moments, pool, at)
            );
            let nodes = moments.pool_at(pool, at).nodes;
            let in_use = if own == nodes { String::new() } else { format!(", {own} of them for its own use") };
            let said = Diagnostic::error(codes::KEEP_READY, message)
                .at(count.at, "")
                .at(moments.size_at(pool, at), format!("{nodes} nodes{in_use}"));
            p.say(said.hint(format!(
                "keep at most {room} ready, or make the pool larger: a node that is cut anew serves nothing"
            )));
        }
    }
}
