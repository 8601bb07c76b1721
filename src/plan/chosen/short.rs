//! Pools whose required level has no room for all of them: why, and the smallest thing that would help.

use std::collections::BTreeMap;

use super::Scene;
use super::seats::NOWHERE;
use crate::fabric::{Ask, Freedom};
use crate::ids::PoolName;

/// Nodes that are named before the rest is counted.
const NAMES: usize = 4;

pub fn short(scene: &Scene<'_, '_>, to: &[Option<u32>]) -> BTreeMap<PoolName, String> {
    let mut found = BTreeMap::new();
    for (at, ask) in scene.asks.iter().enumerate().filter(|(_, ask)| ask.required) {
        let has = to.iter().filter(|pool| is(**pool, at)).count();
        if let Some(level) = ask.together.filter(|_| has < ask.nodes as usize) {
            found.insert(ask.name.clone(), words(scene, to, at, ask, level));
        }
    }
    found
}

/// One domain of the level: what the pool could have in it.
struct Domain {
    name: String,
    /// Its own, and free ones.
    room: usize,
    /// Hosts that would do and that others have, or that are out of service.
    others: Vec<usize>,
}

fn words(scene: &Scene<'_, '_>, to: &[Option<u32>], at: usize, ask: &Ask, level: usize) -> String {
    let tree = &scene.site.tree;
    let (wanted, level_name) = (ask.nodes as usize, &tree.levels[level]);
    let domains: Vec<Domain> = tree.domains[level]
        .iter()
        .enumerate()
        .map(|(number, domain)| {
            let hosts = domain.hosts.start as usize..domain.hosts.end as usize;
            let (mut room, mut others) = (0, Vec::new());
            for host in hosts.filter(|host| scene.could_have(at, *host)) {
                let is_free = to[host].is_none() && scene.hosts[host].free == Freedom::Usable;
                if is(to[host], at) || is_free { room += 1 } else { others.push(host) }
            }
            Domain { name: tree.called(level, number), room, others }
        })
        .collect();
    let asks = format!("{} in one {level_name}, which its placement requires", nodes(wanted));
    let home = scene.home(at).map(|(_, _, home)| home);
    if home == Some(NOWHERE) {
        return format!("{asks}: where its machines stand, no other host that it may have is free");
    }
    let home = home.map(|home| &domains[home as usize]);
    if let Some(home) = home
        && home.room + home.others.len() < wanted
    {
        let (has, name) = (home.room + home.others.len(), &home.name);
        let most = domains.iter().find(|one| one.room + one.others.len() >= wanted);
        let move_on =
            most.map(|one| format!("; {} could hold all of them, if it let its nodes go first: `nodes: 0`", one.name));
        let hosts = if has == 1 { "host" } else { "hosts" };
        return format!(
            "{asks}: it is in {name}, which has {has} {hosts} that it may have: write `nodes: {has}`{}",
            move_on.unwrap_or_default()
        );
    }
    let is_home = |one: &Domain| home.is_none_or(|home| home.name == one.name);
    let enough = domains.iter().filter(|one| one.room + one.others.len() >= wanted && is_home(one));
    if let Some(nearest) = enough.min_by_key(|one| (wanted.saturating_sub(one.room), &one.name)) {
        let short = wanted.saturating_sub(nearest.room);
        let (room, name) = (nearest.room, &nearest.name);
        if short == 0 {
            return format!("{asks}: {name} has room for all of them, when its nodes elsewhere are idle");
        }
        let busy = |host: &usize| (scene.is_busy(*host), *host);
        let mut hosts = nearest.others.clone();
        hosts.sort_by_key(busy);
        let names: Vec<String> = hosts.iter().take(short).map(|host| who(scene, *host)).collect();
        return format!(
            "{asks}: {name} has room for {room}; what would help is {} free of others there: {}",
            nodes(short),
            some(&names)
        );
    }
    let Some(largest) = domains.iter().max_by_key(|one| (one.room + one.others.len(), std::cmp::Reverse(&one.name)))
    else {
        return asks;
    };
    let most = largest.room + largest.others.len();
    let up = level.checked_sub(1).map(|above| format!(", or `together: {}`", tree.levels[above])).unwrap_or_default();
    let hosts = if most == 1 { "one host" } else { "hosts" };
    match most {
        0 => format!("{asks}: no host that it may have hangs anywhere"),
        _ => format!(
            "{asks}: the largest is {} with {most} {hosts} that it may have: write `nodes: {most}`{up}",
            largest.name
        ),
    }
}

/// "gpu-07 of pool/serve", "gpu-07, which is out of service"
fn who(scene: &Scene<'_, '_>, host: usize) -> String {
    let name = &scene.site.tree.hosts[host];
    match scene.slots[host] {
        Some((pool, _)) if scene.is_busy(host) => format!("{name} of pool/{} with work on it", pool.name),
        Some((pool, _)) => format!("{name} of pool/{}", pool.name),
        None => format!("{name}, which is out of service"),
    }
}

fn is(pool: Option<u32>, at: usize) -> bool {
    pool.is_some_and(|pool| pool as usize == at)
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}

fn some(names: &[String]) -> String {
    match names.len() {
        many if many > NAMES => format!("{} and {} more", names[..NAMES].join(", "), many - NAMES),
        _ => names.join(", "),
    }
}
