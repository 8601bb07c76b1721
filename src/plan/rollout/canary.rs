//! The nodes that go first and are watched: the others follow once enough of them serve on the new version, for as
//! long as the pool says.
//!
//! Until then no more than that are on the new version, or on their way to it by choice. A node that came to it for
//! another reason (it died, it was missing) was tried as well, and may be the one that is watched. Time out of service is
//! not watched: it counts from when the node last came to answer, and from when a person let it in again. Of a node that
//! another hand closed, or that is long in coming in, only a look tells: it is noted once when it is first seen so, and
//! once when it is seen in service again.
//!
//! One that was tried and is kept out of service holds all others, whoever else serves on its version: whoever tried the
//! next instead would carry a version that makes nodes sick through the whole pool. It ends when a person returns it, when
//! another takes its place, or with another version. A node that went out after enough of the others had served for as
//! long as they have to is no verdict: that is an old quarantine, or a fan. What nodes are launched from and how they are
//! cut are two versions, each with canaries of its own.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::users::{MOVES, is_out, leaves};
use super::{CANARY, Candidates, Unit, is_begun, is_moving, narrow};
use crate::effect::marks::is_starting;
use crate::fleet::updates;
use crate::ids::{NodeName, SlotId};
use crate::plan::layout::{self, CutState, is_order};
use crate::plan::serving::kept_by;
use crate::plan::types::WaitingOn;
use crate::plan::view::{Body, PoolView, SlotView, View};
use crate::plan::wish::{cut_wish, is_outdated};

/// A node that is not let in for so long is not on its way in any more, as far as its watch goes.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// Of each version that nodes want to move to; none where the pool asks for no canary.
pub(super) struct Canaries(Vec<Canary>);

/// What lies ahead of the others, for whoever says when they will be done.
pub(super) enum Ahead {
    Nothing,
    /// So many go first, and are watched.
    Tries(usize),
    /// They are watched.
    Until(Timestamp),
    /// Nobody can say.
    Person,
}

struct Canary {
    /// The slots that want to move to this version.
    want: BTreeSet<SlotId>,
    /// How many go first, how many were tried, and how many more may be.
    first: usize,
    tried: usize,
    left: usize,
    /// Those that are on their way.
    coming: Vec<String>,
    /// Those that are seen out of service, where that is not noted yet and nobody said it.
    unwatched: Vec<NodeName>,
    watch: Watch,
}

/// How far the nodes are that went first.
enum Watch {
    /// Enough of them have served for as long as they have to.
    Over,
    /// Enough of them serve.
    Until { by: Vec<SlotId>, since: Timestamp, until: Timestamp },
    /// Too few serve: others are on their way, or are still to be tried.
    Comes,
    /// Some of them are kept out of service, and only a person can change that: who keeps them out.
    Out(Vec<String>),
}

/// What of a node is new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Template,
    Cut,
}

/// How far a slot is that was tried.
enum Tried {
    /// In service on the new version, since then.
    Serves(Timestamp),
    /// It will be by itself; with why it is not yet.
    Comes(String),
    /// It is kept out of service; by whom, and since when at the earliest.
    Out(String, Timestamp),
}

impl Canaries {
    pub(super) fn new(
        view: &View<'_>,
        pool: &PoolView<'_>,
        slots: &Candidates<'_, '_>,
        begun: &[Unit<'_, '_>],
    ) -> Self {
        let Some(spec) = &pool.spec.updates.canary else { return Self(Vec::new()) };
        let going: BTreeSet<&SlotId> = begun.iter().flatten().map(|slot| &slot.id).collect();
        let canary = |version: Version| {
            let want = slots.want.iter().filter(|slot| brings(view, pool, slot, version));
            let want: BTreeSet<SlotId> = want.map(|slot| slot.id.clone()).collect();
            let tried =
                || pool.slots.iter().filter_map(|slot| Some((slot, tried(view, pool, slot, slots, &going, version)?)));
            (!want.is_empty()).then(|| Canary::new(view, spec, version, want, tried()))
        };
        Self([Version::Template, Version::Cut].into_iter().filter_map(canary).collect())
    }

    /// Why these may not go now, where nothing else of the pool moves or something does.
    pub(super) fn stops(&self, pool: &PoolView<'_>, unit: &Unit<'_, '_>, alone: bool) -> Option<WaitingOn> {
        self.0.iter().find_map(|canary| canary.stops(pool, unit, alone))
    }

    /// These go.
    pub(super) fn takes(&mut self, unit: &Unit<'_, '_>) {
        for canary in &mut self.0 {
            let goes: Vec<&SlotId> = unit.iter().map(|slot| &slot.id).filter(|id| canary.want.contains(*id)).collect();
            canary.left = canary.left.saturating_sub(goes.len());
            canary.coming.extend(goes.into_iter().map(|id| format!("{id} ({MOVES})")));
        }
    }

    /// Nodes that are seen out of service from here on: what a look tells is forgotten if nobody notes it.
    pub(super) fn unwatched(&self) -> BTreeSet<NodeName> {
        let watched = self.0.iter().filter(|canary| !matches!(canary.watch, Watch::Over));
        watched.flat_map(|canary| &canary.unwatched).cloned().collect()
    }

    pub(super) fn ahead(&self) -> Ahead {
        let each = || self.0.iter().map(Canary::ahead);
        let left = each().filter_map(|ahead| if let Ahead::Tries(left) = ahead { Some(left) } else { None }).min();
        let until = each().filter_map(|ahead| if let Ahead::Until(at) = ahead { Some(at) } else { None }).max();
        match (left, until) {
            _ if each().any(|ahead| matches!(ahead, Ahead::Person)) => Ahead::Person,
            (Some(left), _) => Ahead::Tries(left),
            (None, Some(at)) => Ahead::Until(at),
            (None, None) => Ahead::Nothing,
        }
    }
}

impl Canary {
    fn new<'s, 'a: 's>(
        view: &View<'_>,
        spec: &updates::Canary,
        version: Version,
        want: BTreeSet<SlotId>,
        all: impl Iterator<Item = (&'s SlotView<'a>, Tried)>,
    ) -> Self {
        let first = usize::try_from(spec.nodes).unwrap_or(usize::MAX);
        let (mut serve, mut coming, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut unwatched = Vec::new();
        for (slot, tried) in all {
            unwatched.extend(seen_out(view, slot, version).cloned());
            match tried {
                Tried::Serves(since) => serve.push((since, slot.id.clone())),
                Tried::Comes(why) => coming.push(format!("{} ({why})", slot.id)),
                Tried::Out(who, at) => out.push((who, at)),
            }
        }
        serve.sort();
        let tried = serve.len() + coming.len() + out.len();
        serve.truncate(first);
        // Those that serve longest: the last of them says when all have served long enough.
        let last = serve.last().filter(|_| serve.len() == first).map(|(since, _)| *since);
        let until = |since: Timestamp| since.checked_add(spec.r#for.signed()).unwrap_or(Timestamp::MAX);
        // Where enough had served by then, that one of them went out says nothing of the version.
        let is_verdict = |at: Timestamp| last.is_none_or(|since| until(since) > at);
        let out: Vec<String> = out.into_iter().filter(|(_, at)| is_verdict(*at)).map(|(who, _)| who).collect();
        let watch = match last {
            _ if !out.is_empty() => Watch::Out(out),
            Some(since) if until(since) <= view.now => Watch::Over,
            Some(since) => {
                Watch::Until { by: serve.into_iter().map(|(_, slot)| slot).collect(), since, until: until(since) }
            }
            None => Watch::Comes,
        };
        Self { want, first, tried, left: first.saturating_sub(tried), coming, unwatched, watch }
    }

    fn stops(&self, pool: &PoolView<'_>, unit: &Unit<'_, '_>, alone: bool) -> Option<WaitingOn> {
        let nodes = unit.iter().filter(|slot| self.want.contains(&slot.id)).count();
        let budget = |used: usize| {
            let (name, allowed, by) = (CANARY.to_string(), narrow(self.first), self.coming.clone());
            Some(WaitingOn::Budget { name, allowed, used: narrow(used), by, remedy: None })
        };
        match &self.watch {
            _ if nodes == 0 => None,
            Watch::Over => None,
            Watch::Out(who) => Some(WaitingOn::Person(format!(
                "no other node of pool/{} is tried while its canary is kept out of service: {}",
                pool.name,
                who.join("; ")
            ))),
            // A gang that is wider than the canary goes where nothing else moves: there is no smaller part of it.
            _ if self.tried < self.first => {
                if nodes <= self.left || alone {
                    None
                } else {
                    budget(self.first - self.left)
                }
            }
            Watch::Until { by, since, until } => {
                Some(WaitingOn::Canary { pool: pool.name.clone(), by: by.clone(), since: *since, until: *until })
            }
            Watch::Comes => budget(self.first),
        }
    }

    fn ahead(&self) -> Ahead {
        match &self.watch {
            Watch::Over => Ahead::Nothing,
            Watch::Out(_) => Ahead::Person,
            _ if self.tried < self.first => Ahead::Tries(self.left),
            Watch::Until { until, .. } => Ahead::Until(*until),
            Watch::Comes => Ahead::Tries(0),
        }
    }
}

/// Whether a node would come to a new version by moving.
fn brings(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, version: Version) -> bool {
    match version {
        Version::Template => is_outdated(view, pool, slot),
        Version::Cut => cut_wish(view, pool, slot).is_some_and(|wish| wish.is_rollout()),
    }
}

/// Whether a node is on the new version. One that is lent is cut for who has it, and says nothing of its pool's own
/// cut.
fn has(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, version: Version) -> bool {
    match version {
        Version::Template => slot.instance.is_some() && !is_outdated(view, pool, slot),
        Version::Cut => slot.node.zip(layout::wanted(view, pool, slot)).is_some_and(|((_, node), (_, laid_out))| {
            let state = layout::state(view, slot, node, laid_out);
            is_starting(node) || matches!(state, CutState::Done | CutState::Coming)
        }),
    }
}

/// Whether a slot without a node that serves will have one of the new version. One that lacks a node for long, because
/// there is none to be had, is not waited for.
fn will_have(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>, version: Version) -> bool {
    let wanted = view.input.desired.pools.get(pool.name).map(|objects| &objects.template.digest);
    match slot.body {
        Body::Serving => false,
        Body::Dying | Body::Dead => true,
        Body::Nothing | Body::Missing | Body::Odd => {
            is_moving(view, pool, slot) || slot.record.is_some_and(|record| record.gave_up)
        }
        Body::InFlight(intent) => version == Version::Cut || wanted == Some(&intent.request.template_digest),
        Body::Found(_) | Body::Starting => version == Version::Cut || !is_outdated(view, pool, slot),
    }
}

/// How far a slot is, if it is on the new version or on its way to it.
fn tried(
    view: &View<'_>,
    pool: &PoolView<'_>,
    slot: &SlotView<'_>,
    slots: &Candidates<'_, '_>,
    going: &BTreeSet<&SlotId>,
    version: Version,
) -> Option<Tried> {
    let part = slot.part?;
    if version == Version::Cut && part.layout != pool.spec.layout {
        return None;
    }
    // Whether or not it answers: who keeps it out may have stopped it.
    let there = slot.node.filter(|_| !matches!(slot.body, Body::Dying | Body::Dead));
    if let Some((name, _)) = there.filter(|_| has(view, pool, slot, version))
        && let (Some(who), Some(at)) = (kept_by(view, name), kept_since(view, name))
    {
        return Some(Tried::Out(who, at));
    }
    if let Some((_, reason)) = slots.replaced.iter().find(|(other, _)| other.id == slot.id) {
        return Some(Tried::Comes(leaves(reason)));
    }
    if (is_begun(slot) || going.contains(&slot.id)) && brings(view, pool, slot, version) {
        return Some(Tried::Comes(MOVES.into()));
    }
    let Some((name, node)) = slot.node.filter(|_| slot.body == Body::Serving) else {
        return will_have(view, pool, slot, version).then(|| Tried::Comes(is_out(slot).into()));
    };
    if !has(view, pool, slot, version) {
        return None;
    }
    if let Some(why) = slots.sick.get(&slot.id) {
        return Some(Tried::Comes((*why).clone()));
    }
    match &slot.mark {
        _ if is_starting(node) => Some(Tried::Comes(is_out(slot).into())),
        Some(mark) => Some(Tried::Comes(format!("it is closed: {}", mark.why))),
        // Nobody knows since when, but for whoever saw it first.
        None if node.unschedulable => {
            let who = format!("somebody closed {name}: kubectl uncordon {name}");
            let seen = view.input.ledger.head.unwatched.get(name).copied();
            Some(Tried::Out(who, seen.unwrap_or_else(|| since(view, slot, version))))
        }
        // It is seen to serve again, and that is not noted yet.
        None if view.input.ledger.head.unwatched.contains_key(name) => Some(Tried::Serves(view.now)),
        None => Some(Tried::Serves(since(view, slot, version))),
    }
}

/// The node of a slot that was tried, where it is seen out of service by another hand than ours, or is not let in for long,
/// and nothing says so yet.
fn seen_out<'a>(view: &View<'_>, slot: &SlotView<'a>, version: Version) -> Option<&'a NodeName> {
    let (name, node) = slot.node.filter(|_| slot.body == Body::Serving)?;
    let is_out = match is_starting(node) {
        true => view.now.duration_since(since(view, slot, version)) >= LATE,
        false => node.unschedulable && slot.mark.is_none(),
    };
    let is_said = kept_by(view, name).is_some() || view.input.ledger.head.unwatched.contains_key(name);
    (is_out && !is_said).then_some(name)
}

/// Since when somebody keeps a node out of service: the first that did.
fn kept_since(view: &View<'_>, node: &NodeName) -> Option<Timestamp> {
    let head = &view.input.ledger.head;
    let (quarantine, drain) = (head.quarantined.get(node), head.drains.get(node));
    quarantine.map(|kept| kept.at).into_iter().chain(drain.map(|kept| kept.at)).min()
}

/// Since when a node serves on its version: it came, or it came to answer, or something was done about it, or it was cut,
/// or it was let in again. That a tide cut it changes nothing of what it was launched from.
fn since(view: &View<'_>, slot: &SlotView<'_>, version: Version) -> Timestamp {
    let launched = slot.instance.map(|(_, seen)| seen.launched);
    let created = slot.node.map(|(_, node)| node.created);
    let ready = slot.node.and_then(|(_, node)| node.ready_since);
    let remedies = slot.record.into_iter().flat_map(|record| &record.remedies);
    let remedies = remedies.filter(|one| (version == Version::Cut || !is_order(one)) && !one.is_report());
    let remedies = remedies.map(|one| one.at);
    let returned = slot.node.and_then(|(name, _)| view.input.ledger.head.returned.get(name)).copied();
    launched.into_iter().chain(created).chain(ready).chain(remedies).chain(returned).max().unwrap_or(view.now)
}
