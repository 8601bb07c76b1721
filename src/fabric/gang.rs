//! One gang: where it would go now, or why it cannot and the smallest move that would make room.

use super::collective::{GIGABYTES, Links, allreduce};
use super::problem::{Ask, Freedom, Host, Prices, Problem};
use super::search::begin;
use super::state::settle;
use super::tree::{Tree, number};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gang {
    pub gpus: u32,
    /// The level that it should share, and whether it must.
    pub together: Option<usize>,
    pub required: bool,
}

/// One host as a gang sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Hosts of different kinds serve no gang together: a pool, or whatever tells them apart.
    pub kind: u32,
    pub gpus: u32,
    /// GPUs that nobody uses.
    pub free: u32,
    /// Whether work is let on it at all.
    pub open: bool,
    /// Work on it, by a number, that could be moved.
    pub work: Vec<u32>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Fits(Fit),
    Not(Misfit),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// Hosts of the tree, in its order.
    pub hosts: Vec<usize>,
    pub kind: u32,
    /// How many levels it crosses.
    pub crossed: usize,
    /// Seconds of an all-reduce of 10⁹ bytes there, and at the best place that an empty fabric would have.
    pub seconds: f64,
    pub at_best: f64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// Hosts that it needs.
    pub needs: u32,
    /// The most free hosts that one domain of the level has, and that domain.
    pub most: u32,
    pub domain: Option<u32>,
    /// Hosts that would do if nobody used them, in the largest domain.
    pub ever: u32,
    pub room: Option<MakeRoom>,
}

/// The smallest move that makes room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MakeRoom {
    pub domain: u32,
    /// Hosts to empty there.
    pub empty: Vec<usize>,
    /// The work on them, which has to begin again elsewhere.
    pub work: Vec<u32>,
}

/// How many hosts a gang takes, with all GPUs of each but for one that is smaller than a host.
pub fn hosts_needed(gang: &Gang, seats: &[Seat]) -> u32 {
    let largest = seats.iter().map(|seat| seat.gpus).max().unwrap_or(0).max(1);
    gang.gpus.div_ceil(largest).max(1)
}

pub fn ask(tree: &Tree, seats: &[Seat], gang: &Gang, links: &Links) -> Answer {
    let needs = hosts_needed(gang, seats);
    let each = gang.gpus.min(seats.iter().map(|seat| seat.gpus).max().unwrap_or(0).max(1));
    let fits = |seat: &Seat| seat.open && seat.free >= each;
    let could = |seat: &Seat| seat.open && seat.gpus >= each;
    let kinds = seats.iter().map(|seat| seat.kind + 1).max().unwrap_or(0);
    let now = (0..kinds).filter_map(|kind| find(tree, seats, gang, needs, |seat| seat.kind == kind && fits(seat)));
    let seconds = |hosts: &[usize]| allreduce(gang.gpus, needs, crossed(tree, hosts), links, GIGABYTES);
    let best = now.min_by(|a, b| (seconds(a)).total_cmp(&seconds(b)));
    let Some(hosts) = best else { return Answer::Not(misfit(tree, seats, gang, needs, &fits, &could)) };
    let empty = (0..kinds).filter_map(|kind| find(tree, seats, gang, needs, |seat| seat.kind == kind && could(seat)));
    let at_best = empty.map(|hosts| seconds(&hosts)).min_by(f64::total_cmp).unwrap_or_else(|| seconds(&hosts));
    Answer::Fits(Fit {
        kind: seats[hosts[0]].kind,
        crossed: crossed(tree, &hosts),
        seconds: seconds(&hosts),
        at_best: at_best.min(seconds(&hosts)),
        hosts,
    })
}

/// The best hosts among those that will do; none where there are not enough of them together.
fn find(tree: &Tree, seats: &[Seat], gang: &Gang, needs: u32, will_do: impl Fn(&Seat) -> bool) -> Option<Vec<usize>> {
    let host = |seat: &Seat| {
        let free = if will_do(seat) { Freedom::Usable } else { Freedom::Out };
        Host { class: 0, gpus: seat.gpus, pool: None, free }
    };
    let pool = Ask {
        name: "gang".into(),
        nodes: needs,
        suits: vec![true],
        together: gang.together,
        required: gang.required,
        apart: Vec::new(),
    };
    let hosts = seats.iter().map(host).collect();
    let problem = Problem { tree, hosts, pools: vec![pool], prices: Prices::doubling(tree.depth()) };
    let state = begin(&problem, &mut super::insert::Scratch::default());
    if state.placed(0) < needs {
        return None;
    }
    Some(settle(&state).iter().enumerate().filter(|(_, pool)| pool.is_some()).map(|(at, _)| at).collect())
}

/// How many levels hosts do not share.
pub fn crossed(tree: &Tree, hosts: &[usize]) -> usize {
    let mut leaves = hosts.iter().map(|host| tree.leaf_of[*host] as usize);
    let Some(first) = leaves.next() else { return 0 };
    leaves.map(|leaf| tree.distance(first, leaf)).max().unwrap_or(0)
}

/// How much work, how many hosts, which domain; then those hosts and that work.
type Rated = (usize, usize, u32, Vec<usize>, Vec<u32>);

fn misfit(
    tree: &Tree,
    seats: &[Seat],
    gang: &Gang,
    needs: u32,
    fits: &impl Fn(&Seat) -> bool,
    could: &impl Fn(&Seat) -> bool,
) -> Misfit {
    // Without a level that must be shared the whole fleet is one domain.
    let level = gang.together.filter(|_| gang.required);
    let domains: Vec<std::ops::Range<usize>> = match level {
        Some(level) => tree.domains[level].iter().map(|at| at.hosts.start as usize..at.hosts.end as usize).collect(),
        None => std::iter::once(0..seats.len()).collect(),
    };
    let kinds = seats.iter().map(|seat| seat.kind + 1).max().unwrap_or(0);
    let mut found = Misfit { needs, most: 0, domain: None, ever: 0, room: None };
    let mut least: Option<Rated> = None;
    for kind in 0..kinds {
        let free_at = |at: usize| seats[at].kind == kind && fits(&seats[at]);
        let all = (0..seats.len()).filter(|at| free_at(*at)).count();
        for (domain, hosts) in domains.iter().enumerate() {
            let free = hosts.clone().filter(|at| free_at(*at)).count();
            let ever = hosts.clone().filter(|at| seats[*at].kind == kind && could(&seats[*at])).count();
            if number(free) > found.most || found.domain.is_none() {
                (found.most, found.domain) = (number(free), Some(number(domain)));
            }
            found.ever = found.ever.max(number(ever));
            let short = (needs as usize).saturating_sub(free);
            // What is emptied here has to fit elsewhere.
            if ever < needs as usize || all - free < short {
                continue;
            }
            let (empty, work) =
                cheapest(seats, hosts, short, |at| seats[at].kind == kind && could(&seats[at]) && !fits(&seats[at]));
            let rated = (work.len(), empty.len(), number(domain), empty, work);
            if least.as_ref().is_none_or(|least| (rated.0, rated.1, rated.2) < (least.0, least.1, least.2)) {
                least = Some(rated);
            }
        }
    }
    found.room = least.map(|(_, _, domain, empty, work)| MakeRoom { domain, empty, work });
    found
}

/// So many hosts with the least work on them, those of one work together.
fn cheapest(
    seats: &[Seat],
    hosts: &std::ops::Range<usize>,
    count: usize,
    will_do: impl Fn(usize) -> bool,
) -> (Vec<usize>, Vec<u32>) {
    let mut left: Vec<usize> = hosts.clone().filter(|at| will_do(*at)).collect();
    let (mut empty, mut work): (Vec<usize>, Vec<u32>) = (Vec::new(), Vec::new());
    while empty.len() < count && !left.is_empty() {
        let rate = |at: &usize| {
            let new = seats[*at].work.iter().filter(|one| !work.contains(one)).count();
            (new, seats[*at].gpus - seats[*at].free.min(seats[*at].gpus), *at)
        };
        let Some(at) = left.iter().copied().min_by_key(rate) else { break };
        left.retain(|other| *other != at);
        work.extend(seats[at].work.iter().filter(|one| !work.contains(one)).copied().collect::<Vec<u32>>());
        empty.push(at);
    }
    empty.sort_unstable();
    (empty, work)
}
