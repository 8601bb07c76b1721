//! What a reader hears of the fabric: every pool before and after, the free slots, what moves buy.

use super::Scene;
use super::bargains::bargains;
use crate::fabric::collective::{GIGABYTES, Links, allreduce, parts};
use crate::fabric::fgd::lost_of;
use crate::fabric::reasons::Reason;
use crate::fabric::slots::{FreeSlots, free_slots, slots_by_kind};
use crate::fabric::state::{State, with_hosts};
use crate::fabric::{Domain, Freedom};
use crate::plan::links::links;
use crate::plan::placing::{Choice, Position, Site, shapes};
use crate::plan::stands::{Bargain, Fragmented, LevelSlots, Next, NodeMove, PoolStands, Stands, Where};

pub fn stands(scene: &Scene<'_, '_>, to: &[Option<u32>], state: &State<'_>, reasons: &[Reason]) -> Stands {
    let site = &scene.site;
    let now = scene.now();
    // A node whose way was begun has left nobody yet, to a reader.
    let shown: Vec<Option<u32>> =
        (0..now.len()).map(|at| if scene.is_in_play(at) { site.spots[at].pool } else { None }).collect();
    // Nor does anything stand in a reserved place that is sure to be used.
    let mut was = state.problem.clone();
    for (at, host) in was.hosts.iter_mut().enumerate().filter(|(at, _)| scene.is_told(*at)) {
        (host.pool, host.free) = (None, scene.site.hosts[at].free);
    }
    let before = with_hosts(&was, &shown);
    let pools = (0..site.pools.len()).map(|at| pool(scene, at, &before, state, &reasons[at])).collect();
    Stands {
        levels: site.tree.levels.clone(),
        pools,
        slots: slots(scene, &shown, to),
        idle: idle(site, &shown, to),
        fragmented: fragmented(scene, &shown, to),
        bargains: told(scene, state, &shown, to),
        odd: site.notes.clone(),
    }
}

fn pool(scene: &Scene<'_, '_>, at: usize, before: &State<'_>, after: &State<'_>, reason: &Reason) -> PoolStands {
    let (site, ask) = (&scene.site, &scene.asks[at]);
    let view = scene.view.pools.get(&site.pools[at]);
    let next = reason.next.as_ref().map(|next| Next {
        leaves: named(site, &next.leaves),
        unplaced: next.unplaced,
        more: next.more,
        moves: next.moves,
    });
    let beside = ask.apart.iter().filter(|other| {
        let Some(level) = ask.together else { return false };
        let theirs = after.domains(**other as usize, level);
        after.domains(at, level).iter().any(|domain| theirs.binary_search(domain).is_ok())
    });
    PoolStands {
        pool: site.pools[at].clone(),
        choice: site.choices[at],
        wanted: view.map_or(ask.nodes, |view| view.target.nodes),
        together: ask.together.map(|level| site.tree.levels[level].clone()),
        required: ask.required,
        before: whereabouts(site, before, at),
        after: whereabouts(site, after, at),
        next,
        fixed: reason.fixed,
        slower: slower(scene, after, at),
        beside: beside.map(|other| site.pools[*other as usize].clone()).collect(),
    }
}

fn whereabouts(site: &Site, state: &State<'_>, pool: usize) -> Where {
    let fragments = state.fragments(&state.shares[pool]);
    let mut leaves: Vec<(u32, u32)> = Vec::new();
    for &(group, count) in &state.shares[pool] {
        let leaf = state.groups[group as usize].leaf;
        match leaves.last_mut().filter(|(last, _)| *last == leaf) {
            Some((_, known)) => *known += count,
            None => leaves.push((leaf, count)),
        }
    }
    let finest = fragments.iter().rposition(|count| *count == 1);
    let within = finest.zip(leaves.first()).map(|(level, (leaf, _))| {
        let domain = site.tree.above[level][*leaf as usize] as usize;
        (site.tree.levels[level].clone(), site.tree.called(level, domain))
    });
    let ask = &state.problem.pools[pool];
    let crossing =
        |(level, count): (usize, &u32)| u64::from(count.saturating_sub(1)) * state.problem.weight(ask, level);
    let crossings = fragments.iter().enumerate().map(crossing).sum();
    Where { nodes: state.placed(pool), within, leaves: named(site, &leaves), crossings }
}

fn named(site: &Site, leaves: &[(u32, u32)]) -> Vec<(String, u32)> {
    let finest = site.tree.depth() - 1;
    leaves.iter().map(|(leaf, count)| (site.tree.called(finest, *leaf as usize), *count)).collect()
}

/// Hundredths of the time that an all-reduce over so many nodes takes in the best place there is for them: of those that
/// the pool may have in one domain, and of a pool that is launched on one of the finest, as the cloud could have put it.
fn slower(scene: &Scene<'_, '_>, state: &State<'_>, pool: usize) -> Option<u32> {
    let nodes = state.placed(pool);
    let (site, tree) = (&scene.site, &scene.site.tree);
    if nodes < 2 {
        return None;
    }
    let crossed = |shared: Option<usize>| shared.map_or(tree.depth(), |level| tree.depth() - 1 - level);
    let fragments = state.fragments(&state.shares[pool]);
    let shared = fragments.iter().rposition(|count| *count == 1);
    let has_room = |domain: &Domain| {
        let hosts = domain.hosts.start as usize..domain.hosts.end as usize;
        hosts.filter(|at| scene.could_have(pool, *at)).take(nodes as usize).count() == nodes as usize
    };
    let best = match site.choices[pool] {
        Choice::Nodes => (0..tree.depth()).rev().find(|level| tree.domains[*level].iter().any(has_room)),
        Choice::Launches | Choice::Hosts => tree.depth().checked_sub(1),
    };
    let gpus: u32 = state.shares[pool].iter().map(|(group, count)| state.groups[*group as usize].gpus * count).sum();
    let links = scene.view.pools.get(&site.pools[pool]).map_or(Links::USUAL, |pool| links(&pool.spec.shape));
    let leaves: Vec<u32> = state.domains(pool, tree.depth() - 1);
    let now = parts(tree, &leaves, nodes, crossed(shared), &links);
    // At best in as few of its leaves as hold it.
    let few = match crossed(best) {
        0 => 1,
        _ => gpus.div_ceil(links.domain.max(1)).min(now.0),
    };
    let few = leaves.len().min(few.max(1) as usize);
    let at_best = parts(tree, &leaves[..few], nodes, crossed(best), &links);
    let time = |(parts, crossed)| allreduce(gpus, parts, crossed, &links, GIGABYTES);
    let times = time(now) / time(at_best);
    let hundredths = (times * 100.0).round();
    (hundredths > 100.0 && hundredths < f64::from(u32::MAX)).then_some(hundredths as u32)
}

fn slots(scene: &Scene<'_, '_>, now: &[Option<u32>], to: &[Option<u32>]) -> Vec<LevelSlots> {
    let site = &scene.site;
    // What is only on offer is nobody's.
    let is_ours = |at: usize| site.spots[at].standing != Position::Offered;
    let free = |pools: &[Option<u32>]| -> Vec<u32> {
        let is_free = |at: usize| {
            let standing = site.spots[at].standing;
            is_ours(at) && (scene.hosts[at].free == Freedom::Usable || standing == Position::Unused)
        };
        let free = |at: usize| if pools[at].is_none() && is_free(at) { scene.hosts[at].gpus } else { 0 };
        (0..pools.len()).map(free).collect()
    };
    changed(free_slots(&site.tree, &free(now)), free_slots(&site.tree, &free(to)))
}

/// Of nodes in service on which no GPU is in use: a gang of one pool could have them.
fn idle(site: &Site, now: &[Option<u32>], to: &[Option<u32>]) -> Vec<LevelSlots> {
    let of = |pools: &[Option<u32>]| slots_by_kind(&site.tree, &site.idle_gpus(pools), pools);
    changed(of(now), of(to))
}

fn changed(before: Vec<FreeSlots>, after: Vec<FreeSlots>) -> Vec<LevelSlots> {
    let both = before.into_iter().zip(after);
    both.map(|(before, after)| LevelSlots {
        level: before.level,
        before: before.slots,
        after: after.slots,
        largest: (before.largest, after.largest),
    })
    .collect()
}

fn fragmented(scene: &Scene<'_, '_>, now: &[Option<u32>], to: &[Option<u32>]) -> Option<Fragmented> {
    let shapes = shapes(scene.view.input);
    let (before, after) = (scene.site.serving_gpus(now), scene.site.serving_gpus(to));
    let ((lost, free), (then_lost, then_free)) = lost_of(&before, &shapes).zip(lost_of(&after, &shapes))?;
    let whole = |value: f64| value.round() as u64;
    Some(Fragmented { free: (whole(free), whole(then_free)), lost: (whole(lost), whole(then_lost)) })
}

/// Nodes that leave their pool, with what that buys.
fn told(scene: &Scene<'_, '_>, state: &State<'_>, now: &[Option<u32>], to: &[Option<u32>]) -> Vec<Bargain> {
    let site = &scene.site;
    let name = |pool: u32| site.pools[pool as usize].clone();
    let found = bargains(site, state.problem, now, to).into_iter().map(|one| {
        let moves = one.hosts.iter().filter_map(|at| {
            let from = name(now[*at]?);
            let (node, busy) = (site.tree.hosts[*at].clone(), scene.is_busy(*at));
            Some(NodeMove { node, from, to: to[*at].map(name), busy })
        });
        let moves: Vec<NodeMove> = moves.collect();
        // The price of the moves themselves is none of what they buy.
        let paid =
            i64::try_from((one.after.moves - one.before.moves.min(one.after.moves)) * state.problem.prices.moving);
        Bargain { saves: one.saves() + paid.unwrap_or(0), slots: one.slots(), moves }
    });
    found.filter(|one| !one.moves.is_empty()).collect()
}
