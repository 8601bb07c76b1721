//! One gang: where it would go now, or why it cannot and the smallest move that would make room.

use std::collections::BTreeMap;
use std::ops::Range;

use super::collective::{GIGABYTES, Links, allreduce, parts};
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
    /// How many GPUs each pod on it has.
    pub pods: Vec<u32>,
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

/// What a gang is on hosts of one kind: so many of them, so many GPUs of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    kind: u32,
    needs: u32,
    each: u32,
}

impl Shape {
    /// All GPUs of each host but for a gang that is smaller than one; by the largest host that work is let on.
    fn of(gang: &Gang, seats: &[Seat], kind: u32) -> Option<Self> {
        let open = seats.iter().filter(|seat| seat.kind == kind && seat.open);
        let largest = open.map(|seat| seat.gpus).max().filter(|gpus| *gpus > 0)?;
        Some(Self { kind, needs: gang.gpus.div_ceil(largest).max(1), each: gang.gpus.min(largest) })
    }

    /// It could have this host if nobody used it.
    fn could(&self, seat: &Seat) -> bool {
        seat.kind == self.kind && seat.open && seat.gpus >= self.each
    }

    fn fits(&self, seat: &Seat) -> bool {
        self.could(seat) && seat.free >= self.each
    }
}

/// Where a gang would go; `links` has what each kind of host is joined by.
pub fn ask(tree: &Tree, seats: &[Seat], gang: &Gang, links: impl Fn(u32) -> Links) -> Answer {
    let kinds = seats.iter().map(|seat| seat.kind + 1).max().unwrap_or(0);
    let shapes: Vec<Shape> = (0..kinds).filter_map(|kind| Shape::of(gang, seats, kind)).collect();
    let seconds = |shape: &Shape, hosts: &[usize]| {
        let mut leaves: Vec<u32> = hosts.iter().map(|host| tree.leaf_of[*host]).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let links = links(shape.kind);
        let (parts, crossed) = parts(tree, &leaves, shape.needs, crossed(tree, hosts), &links);
        allreduce(gang.gpus, parts, crossed, &links, GIGABYTES)
    };
    let timed = |shape: &Shape, hosts: Vec<usize>| (seconds(shape, &hosts), shape.kind, hosts);
    let now = shapes.iter().filter_map(|shape| {
        find(tree, seats, gang, shape.needs, |seat| shape.fits(seat)).map(|hosts| timed(shape, hosts))
    });
    let Some((seconds, kind, hosts)) = now.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Answer::Not(misfit(tree, seats, gang, &shapes));
    };
    let empty = shapes.iter().filter_map(|shape| {
        find(tree, seats, gang, shape.needs, |seat| shape.could(seat)).map(|hosts| timed(shape, hosts).0)
    });
    let at_best = empty.min_by(f64::total_cmp).unwrap_or(seconds).min(seconds);
    Answer::Fits(Fit { kind, crossed: crossed(tree, &hosts), seconds, at_best, hosts })
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

fn misfit(tree: &Tree, seats: &[Seat], gang: &Gang, shapes: &[Shape]) -> Misfit {
    // Without a level that must be shared the whole fleet is one domain.
    let level = gang.together.filter(|_| gang.required);
    let domains: Vec<Range<usize>> = match level {
        Some(level) => tree.domains[level].iter().map(|at| at.hosts.start as usize..at.hosts.end as usize).collect(),
        None => std::iter::once(0..seats.len()).collect(),
    };
    let mut found: Option<Misfit> = None;
    let mut least: Option<(Rated, Misfit)> = None;
    for shape in shapes {
        let mut of_kind = Misfit { needs: shape.needs, most: 0, domain: None, ever: 0, room: None };
        let mut best: Option<Rated> = None;
        for (domain, hosts) in domains.iter().enumerate() {
            let free = hosts.clone().filter(|at| shape.fits(&seats[*at])).count();
            let ever = hosts.clone().filter(|at| shape.could(&seats[*at])).count();
            if number(free) > of_kind.most || of_kind.domain.is_none() {
                (of_kind.most, of_kind.domain) = (number(free), Some(number(domain)));
            }
            of_kind.ever = of_kind.ever.max(number(ever));
            if ever < shape.needs as usize {
                continue;
            }
            let Some((empty, work)) = Emptying::new(seats, hosts, shape, free).smallest() else { continue };
            let rated = (work.len(), empty.len(), number(domain), empty, work);
            if best.as_ref().is_none_or(|best| rated < *best) {
                best = Some(rated);
            }
        }
        // Of several kinds the one that lacks the least is told, unless another can be helped.
        let lacks = |one: &Misfit| (one.ever < one.needs, one.needs.saturating_sub(one.most));
        if found.as_ref().is_none_or(|found| lacks(&of_kind) < lacks(found)) {
            found = Some(of_kind.clone());
        }
        if let Some(best) = best.filter(|best| least.as_ref().is_none_or(|(least, _)| best < least)) {
            least = Some((best, of_kind));
        }
    }
    if let Some(((_, _, domain, empty, work), of_kind)) = least {
        return Misfit { room: Some(MakeRoom { domain, empty, work }), ..of_kind };
    }
    found.unwrap_or(Misfit { needs: 1, most: 0, domain: None, ever: 0, room: None })
}

/// How many sets of work are looked at in one domain, at most.
const SETS: usize = 4_000;

/// Hosts of one domain that are to be emptied for a gang.
struct Emptying<'s> {
    seats: &'s [Seat],
    /// How many more it needs.
    short: usize,
    /// Hosts that would do, with the least work and the fewest GPUs in use first.
    hosts: Vec<usize>,
    /// All work on them.
    work: Vec<u32>,
    /// Free GPUs where what is emptied may go, as the seats; none where the gang itself goes.
    elsewhere: Vec<u32>,
}

impl<'s> Emptying<'s> {
    fn new(seats: &'s [Seat], domain: &Range<usize>, shape: &Shape, free: usize) -> Self {
        let goes_there = |at: usize| domain.contains(&at) && shape.fits(&seats[at]);
        let takes_in = |(at, seat): (usize, &Seat)| {
            if seat.kind == shape.kind && seat.open && !goes_there(at) { seat.free } else { 0 }
        };
        let mut hosts: Vec<usize> =
            domain.clone().filter(|at| shape.could(&seats[*at]) && !shape.fits(&seats[*at])).collect();
        hosts.sort_by_key(|at| (seats[*at].work.len(), seats[*at].pods.iter().sum::<u32>(), *at));
        let mut work: Vec<u32> = hosts.iter().flat_map(|at| seats[*at].work.iter().copied()).collect();
        work.sort_unstable();
        work.dedup();
        Self {
            seats,
            short: (shape.needs as usize).saturating_sub(free),
            hosts,
            work,
            elsewhere: seats.iter().enumerate().map(takes_in).collect(),
        }
    }

    /// The least work whose end makes room, and has another place to go: every work, then every two of them, and so on
    /// as far as that can be counted; beyond it one more at a time, beginning with each.
    fn smallest(&self) -> Option<(Vec<usize>, Vec<u32>)> {
        let mut tries = SETS;
        for many in 0..=self.work.len() {
            let found = self.sets(many, 0, &mut Vec::new(), &mut tries);
            if found.is_some() || tries == 0 {
                return found.or_else(|| self.one_by_one());
            }
        }
        None
    }

    fn sets(&self, many: usize, from: usize, set: &mut Vec<u32>, tries: &mut usize) -> Option<(Vec<usize>, Vec<u32>)> {
        if many == 0 {
            *tries = tries.checked_sub(1)?;
            return self.emptied(set);
        }
        for at in from..=self.work.len().saturating_sub(many) {
            set.push(*self.work.get(at)?);
            let found = self.sets(many - 1, at + 1, set, tries);
            set.pop();
            if found.is_some() || *tries == 0 {
                return found;
            }
        }
        None
    }

    /// The hosts that are empty once this work has gone, if they are enough and it has another place.
    fn emptied(&self, set: &[u32]) -> Option<(Vec<usize>, Vec<u32>)> {
        let goes = |at: &&usize| self.seats[**at].work.iter().all(|one| set.contains(one));
        let mut empty: Vec<usize> = self.hosts.iter().filter(goes).copied().take(self.short).collect();
        if empty.len() < self.short || !self.has_place(&empty) {
            return None;
        }
        empty.sort_unstable();
        let mut work: Vec<u32> = empty.iter().flat_map(|at| self.seats[*at].work.iter().copied()).collect();
        work.sort_unstable();
        work.dedup();
        Some((empty, work))
    }

    /// From each work on: whatever adds the least to it.
    fn one_by_one(&self) -> Option<(Vec<usize>, Vec<u32>)> {
        let starts = self.work.iter().take(SETS / self.hosts.len().max(1));
        let grown = starts.filter_map(|first| {
            let mut set = vec![*first];
            loop {
                if let Some(found) = self.emptied(&set) {
                    return Some(found);
                }
                let adds = |at: &&usize| self.seats[**at].work.iter().filter(|one| !set.contains(one)).count();
                let next = self.hosts.iter().filter(|at| adds(at) > 0).min_by_key(|at| (adds(at), **at))?;
                let more: Vec<u32> = self.seats[*next].work.iter().filter(|one| !set.contains(one)).copied().collect();
                set.extend(more);
            }
        });
        grown.min_by_key(|(empty, work)| (work.len(), empty.clone()))
    }

    /// Whether the pods of these hosts fit on what is free elsewhere: the largest first, each where the least is left.
    fn has_place(&self, empty: &[usize]) -> bool {
        let mut free = self.elsewhere.clone();
        empty.iter().for_each(|at| free[*at] = 0);
        let mut rooms: BTreeMap<u32, usize> = BTreeMap::new();
        free.into_iter().filter(|gpus| *gpus > 0).for_each(|gpus| *rooms.entry(gpus).or_default() += 1);
        let mut pods: Vec<u32> = empty.iter().flat_map(|at| self.seats[*at].pods.iter().copied()).collect();
        pods.sort_unstable_by(|a, b| b.cmp(a));
        pods.into_iter().filter(|gpus| *gpus > 0).all(|gpus| {
            let Some((&room, _)) = rooms.range(gpus..).next() else { return false };
            if let Some(many) = rooms.get_mut(&room) {
                *many -= 1;
                if *many == 0 {
                    rooms.remove(&room);
                }
            }
            if room > gpus {
                *rooms.entry(room - gpus).or_default() += 1;
            }
            true
        })
    }
}
