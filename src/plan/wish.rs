//! What a node in service needs, the most urgent first: at most one thing at a time.

use jiff::{SignedDuration, Timestamp};

use super::anew::Unanswered;
use super::chosen::Leaving;
use super::drain::Pressure;
use super::dress::{self, is_dressed};
use super::ends;
use super::health::{self, Sickness};
use super::layout::{self, CutState};
use super::resized;
use super::serving::kept_by;
use super::silent;
use super::slots::treated;
use super::types::{Consent, Reason};
use super::view::{Body, PoolView, SlotView, View};
use crate::effect::marks::is_starting;
use crate::effect::{Amount, Effects, Thing, Treated, Verb};
use crate::fleet::policy::Remedy;
use crate::fleet::target::Purpose;
use crate::fleet::updates::When;
use crate::ids::{NodeName, ReservationName, SlotId, TideName};

#[derive(Clone, PartialEq, Debug)]
pub enum Wish {
    Remove {
        reason: Reason,
        pressure: PressureOf,
        voluntary: bool,
    },
    Replace {
        reason: Reason,
        pressure: PressureOf,
        treated: Option<Treated>,
        rollout: bool,
    },
    /// A machine of a cloud changes places with one of another pool.
    Exchange {
        reason: Reason,
        pressure: PressureOf,
    },
    Reboot {
        reason: Reason,
        treated: Treated,
    },
    /// With a treatment: it is to be remembered first.
    Quarantine {
        reason: Reason,
        treated: Option<Treated>,
    },
    /// A person wants it empty; it stays where it is.
    Drain {
        reason: Reason,
        unmanaged: bool,
        local_data: bool,
    },
    /// Treated, and as it is until it shows nothing any more, or the remedy did not help.
    Watch {
        reason: Reason,
        until: Timestamp,
    },
    Cut {
        reason: Reason,
        pressure: PressureOf,
        state: CutState,
        rollout: bool,
        /// It was ordered, and nobody is on the node.
        ordered: bool,
    },
    Dress {
        reason: Reason,
        remove_starting: bool,
    },
    /// It has so many GPUs, and is not what its pool asks for: it is left as it is, and that is said.
    Misfit {
        found: u32,
    },
    /// It was taken out of service before the ledger was lost: a person says what becomes of it. In their words.
    Unanswered {
        why: String,
    },
    /// Our mark, which nothing wants any more.
    Free,
}

/// How hard, as data that can be compared.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PressureOf {
    pub idle_only: bool,
    pub hard_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

/// The word in the mark of a machine that changes places.
pub const EXCHANGE: &str = "exchange";
/// The word in the mark of a node that is left because the cloud recommends it.
pub const MOVE: &str = "move";
/// The word in the mark of a node that a person wants empty.
pub const DRAIN: &str = "drain";
/// The word in the mark of a node that is kept out of service.
pub const QUARANTINE: &str = "quarantine";
/// A node that starts and does not come up for so long is replaced.
const STARTS_WITHIN: SignedDuration = SignedDuration::from_mins(30);

/// What a slot's node needs; nothing where it has no node that was ever in service.
pub fn wish(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Wish> {
    let alive = match slot.body {
        Body::Serving => true,
        // A node that is there, and not ready: what takes it away still applies, what changes it does not. A machine
        // that is not listed yet cannot be taken away.
        Body::Starting => {
            let listed = slot.instance.is_some() || slot.is_existing();
            let treated = || silent::given_up(view, pool, slot).is_some() || silent::is_ruled(view, pool, slot);
            let leaves = listed && (slot.part.is_none() || treated());
            slot.node.is_some() && (leaves || (slot.part.is_some() && is_drained(view, slot)))
        }
        _ => false,
    };
    if !alive {
        return None;
    }
    let (name, node) = slot.node?;
    if slot.part.is_none() {
        return Some(removal(view, pool, slot));
    }
    if let Some(ending) = ends::of(view, pool, slot).filter(|ending| ending.begins <= view.now) {
        let pressure = PressureOf { idle_only: false, hard_at: Some(ending.hard_at), deadline: Some(ending.at) };
        return Some(Wish::Replace { reason: ending.reason, pressure, treated: None, rollout: false });
    }
    if let Some(quarantine) = view.input.ledger.head.quarantined.get(name) {
        let reason = Reason::Quarantined { by: quarantine.by.clone() };
        return Some(Wish::Quarantine { reason, treated: None });
    }
    if let Some(order) = view.input.ledger.head.drains.get(name) {
        let reason = Reason::Drained { by: order.by.clone() };
        return Some(Wish::Drain { reason, unmanaged: order.unmanaged, local_data: order.local_data });
    }
    if let Some(unanswered) = Unanswered::of(view.input, name, node) {
        // A policy that would keep it out now gives that word again by itself. What a policy would do beyond that, or an
        // update, waits: somebody may have wanted it to stay as it is.
        let sick = health::sickness(view, pool, slot).filter(|_| slot.body == Body::Serving);
        let again = sick.and_then(|sick| cure(view, slot, sick));
        let again = again.filter(|wish| matches!(wish, Wish::Quarantine { .. }));
        return Some(again.unwrap_or_else(|| Wish::Unanswered { why: unanswered.words(name) }));
    }
    if let Some(symptom) = silent::given_up(view, pool, slot) {
        let reason = Reason::Sick { remedy: Remedy::Replace, symptom: symptom.into() };
        let treated = Some(treated(view, Remedy::Replace, health::ADMIT_RULE));
        return Some(Wish::Replace { reason, pressure: PressureOf::default(), treated, rollout: false });
    }
    let sick = health::sickness(view, pool, slot).map(|sick| silent::possible(view, pool, slot, sick));
    let late = || health::not_admitted(view, pool, slot, node);
    if let Some(wish) = sick.or_else(late).and_then(|sick| cure(view, slot, sick)) {
        return Some(wish);
    }
    // What changes a node wants one that answers.
    if slot.body == Body::Starting {
        return None;
    }
    let outdated = is_outdated(view, pool, slot);
    // Closed for a person who has what they wanted: unless it moves on the way, it serves first, labelled before it is
    // opened, and is then like any other.
    if slot.mark.as_ref().is_some_and(|mark| mark.why == DRAIN) {
        return if outdated { Some(moves_on(pool)) } else { in_service(view, pool, slot) };
    }
    if let Some(found) = layout::misfit(pool, node).filter(|_| slot.is_existing()) {
        return Some(Wish::Misfit { found });
    }
    let cut = cut_wish(view, pool, slot);
    if let Some(since) = ends::recommended(view, pool, slot)
        && cut.as_ref().is_none_or(Wish::is_rollout)
    {
        return Some(moves_before(pool, since));
    }
    if let Some(cut) = cut {
        // What a tide empties is only cut, unless the roll-out would have it go too.
        return Some(if outdated && cut.is_rollout() { cut.with_update() } else { cut });
    }
    if outdated {
        return Some(moves_on(pool));
    }
    in_service(view, pool, slot)
}

/// A node that is well moves to the version that its pool now wants.
pub fn moves_on(pool: &PoolView<'_>) -> Wish {
    let idle_only = pool.spec.updates.when == When::Idle;
    let pressure = PressureOf { idle_only, ..PressureOf::default() };
    Wish::Replace { reason: Reason::Outdated, pressure, treated: None, rollout: true }
}

/// A node that is well is left before the cloud takes it, as an update would have it go: nobody knows whether it does.
fn moves_before(pool: &PoolView<'_>, since: Timestamp) -> Wish {
    let idle_only = pool.spec.updates.when == When::Idle;
    let pressure = PressureOf { idle_only, ..PressureOf::default() };
    Wish::Replace { reason: Reason::Recommended { since }, pressure, treated: None, rollout: true }
}

/// What a node that serves needs while nothing takes it out, or while what would has to wait: its labels, and its door
/// open. One that somebody keeps out of service serves nobody.
pub fn in_service(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Wish> {
    let (name, node) = slot.node?;
    if kept_by(view, name).is_some() {
        return None;
    }
    let is_starting = is_starting(node);
    if is_starting || !is_dressed(view, pool, slot, (name, node)) {
        let moved = !is_starting && dress::is_moved(view, pool, slot, (name, node));
        let by = || dress::moved(view, pool, slot, (name, node)).by.map(|(who, _)| who);
        let reason = if moved { Reason::Drift { by: by() } } else { Reason::Wanted };
        return Some(Wish::Dress { reason, remove_starting: is_starting });
    }
    slot.mark.is_some().then_some(Wish::Free)
}

/// A node that is well moves to another source of its pool, because the reservation that it stands in is to hold fewer.
pub fn moves_out(pool: &PoolView<'_>, reservation: &ReservationName) -> Wish {
    let idle_only = pool.spec.updates.when == When::Idle;
    let pressure = PressureOf { idle_only, ..PressureOf::default() };
    let reason = Reason::Overfull { reservation: reservation.clone() };
    Wish::Replace { reason, pressure, treated: None, rollout: true }
}

/// A node that is well leaves its slot, because another is better for the pool on the fabric.
pub fn moves_away(leaving: &Leaving) -> Wish {
    let reason = Reason::Fabric { to: leaving.to.clone() };
    let pressure = PressureOf { idle_only: leaving.idle_only, ..PressureOf::default() };
    if leaving.launched {
        return Wish::Exchange { reason, pressure };
    }
    Wish::Replace { reason, pressure, treated: None, rollout: true }
}

/// Whether a person wants the slot's node empty.
fn is_drained(view: &View<'_>, slot: &SlotView<'_>) -> bool {
    slot.node.is_some_and(|(name, _)| view.input.ledger.head.drains.contains_key(name))
}

/// Whether a node was launched long ago and is not in service.
pub fn never_came(view: &View<'_>, slot: &SlotView<'_>) -> bool {
    let since = slot.record.and_then(|record| record.launched);
    slot.body == Body::Starting && since.is_some_and(|at| view.now.duration_since(at) > STARTS_WITHIN)
}

fn removal(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Wish {
    if let Some(ending) = ends::of(view, pool, slot).filter(|ending| ending.begins <= view.now) {
        let pressure = PressureOf { idle_only: false, hard_at: Some(ending.hard_at), deadline: Some(ending.at) };
        return Wish::Remove { reason: ending.reason, pressure, voluntary: false };
    }
    let (reason, voluntary) = not_wanted(view, pool, slot);
    let hard_at = if reason == Reason::Resized { resized::hard_at(view, pool.name) } else { None };
    Wish::Remove { reason, pressure: PressureOf { hard_at, ..PressureOf::default() }, voluntary }
}

/// Why a slot is not wanted, and whether somebody chose that: the tide made the pool smaller, its capacity ends, it is so
/// sick that it would go anyway, or somebody wrote less.
pub fn not_wanted(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> (Reason, bool) {
    if let Some(ending) = ends::of(view, pool, slot).filter(|ending| ending.begins <= view.now) {
        return (ending.reason, false);
    }
    let sick = health::sickness(view, pool, slot).filter(|_| slot.body == Body::Serving && !slot.is_existing());
    match sick.filter(|sick| sick.remedy == Remedy::Replace) {
        Some(Sickness { remedy, symptom, .. }) => (Reason::Sick { remedy, symptom }, false),
        None if slot.by_tide => (Reason::Resized, false),
        None => (Reason::NotWanted, true),
    }
}

fn cure(view: &View<'_>, slot: &SlotView<'_>, sick: Sickness) -> Option<Wish> {
    let Sickness { remedy, rule, symptom, begun } = sick;
    let reason = Reason::Sick { remedy, symptom };
    let done = treated(view, remedy, rule);
    match remedy {
        // People are told of it (`plan::reported`), whatever else the node needs.
        Remedy::Report => None,
        // Nobody here can boot or replace a machine that somebody else runs: it is kept out until a person returns it.
        Remedy::Reboot | Remedy::Replace if slot.is_existing() => {
            let treated = Some(Treated { remedy: Remedy::Quarantine, ..done });
            Some(Wish::Quarantine { reason, treated })
        }
        Remedy::Reboot if begun.is_some() => begun.map(|until| Wish::Watch { reason, until }),
        Remedy::Reboot => Some(Wish::Reboot { reason, treated: done }),
        // Returned by a person within the time that a remedy is given: so it is well.
        Remedy::Quarantine if begun.is_some() => None,
        Remedy::Quarantine => Some(Wish::Quarantine { reason, treated: Some(done) }),
        Remedy::Replace => {
            let treated = begun.is_none().then_some(done);
            Some(Wish::Replace { reason, pressure: PressureOf::default(), treated, rollout: false })
        }
    }
}

pub fn is_outdated(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> bool {
    let Some((_, instance)) = slot.instance else { return false };
    let wanted = view.input.desired.pools.get(pool.name).map(|objects| &objects.template);
    wanted.is_some_and(|wanted| {
        instance.template.as_ref() != Some(&wanted.digest) || instance.instance_type != wanted.instance_type
    })
}

/// Whether the node has to be cut anew, and how urgent that is.
pub fn cut_wish(view: &View<'_>, pool: &PoolView<'_>, slot: &SlotView<'_>) -> Option<Wish> {
    let ((_, node), part) = (slot.node?, slot.part?);
    let (to, laid_out) = layout::wanted(view, pool, slot)?;
    let state = layout::state(view, slot, node, laid_out);
    if matches!(state, CutState::Done | CutState::Coming) {
        return None;
    }
    let from = layout::current(view, pool, node);
    let symptom = || "mig-manager does not come to an end".to_string();
    match state {
        CutState::Reboot if !slot.is_existing() => {
            let reason = Reason::Sick { remedy: Remedy::Reboot, symptom: symptom() };
            return Some(Wish::Reboot { reason, treated: treated(view, Remedy::Reboot, layout::CUT_RULE) });
        }
        CutState::Replace if !slot.is_existing() => {
            let reason = Reason::Sick { remedy: Remedy::Replace, symptom: symptom() };
            let treated = Some(treated(view, Remedy::Replace, layout::CUT_RULE));
            return Some(Wish::Replace { reason, pressure: PressureOf::default(), treated, rollout: false });
        }
        CutState::Reboot | CutState::Replace => {
            let reason = Reason::Sick { remedy: Remedy::Quarantine, symptom: symptom() };
            let treated = Some(treated(view, Remedy::Quarantine, layout::CUT_RULE));
            return Some(Wish::Quarantine { reason, treated });
        }
        _ => {}
    }
    let starting = is_starting(node);
    // One that was never cut, and is new or only claimed, was in no tide.
    let is_new = starting || (slot.is_existing() && layout::is_never_cut(node));
    let is_lent = matches!(part.purpose, Purpose::Lent { .. });
    let lent_before = from.is_some_and(|from| *from != pool.spec.layout);
    let lent_before = lent_before && (*to == pool.spec.layout || is_lent) && !is_new;
    let target = &view.input.target;
    // Who cut it by hand did not lend it, and no tide asks for it.
    let lent_before = lent_before && layout::by_hand(view, pool, slot).is_none();
    let late = from.filter(|_| lent_before).and_then(|from| layout::lent_as(view, pool, slot, from));
    let late = late.map(|(tide, loan)| target.coming_back(tide, loan));
    let (reason, pressure, rollout) = match (&part.purpose, &late) {
        // Still as another tide lent it, it comes back from there first: its work is that borrower's.
        (Purpose::Lent { tide, to, .. }, late) if !is_of_another(late, tide) => {
            (Reason::Lent { tide: tide.clone(), to: to.clone() }, PressureOf::default(), false)
        }
        // Asked back by the tide, or by an edit of it; or late from it, and then it is the owner's time already.
        (Purpose::Returning { tide, hard_at, due, .. }, _)
        | (_, Some(Purpose::Returning { tide, hard_at, due, .. })) => {
            let is_late = *due == Timestamp::UNIX_EPOCH;
            let (hard_at, due) = if is_late { (view.now, view.now) } else { (*hard_at, *due) };
            let pressure = PressureOf { hard_at: Some(hard_at), ..PressureOf::default() };
            (Reason::Returning { tide: tide.clone(), due }, pressure, false)
        }
        _ => {
            let idle_only = !starting && pool.spec.updates.when == When::Idle;
            let pressure = PressureOf { idle_only, ..PressureOf::default() };
            (Reason::Layout { from: from.cloned(), to: to.clone() }, pressure, !starting)
        }
    };
    // Who ordered it had a yes to it, or needed none: to bring it to its end, or to order it again, takes no other.
    let nobody_left = slot.node.is_some_and(|(name, _)| view.harm.pods_on(name).is_empty());
    let ordered = matches!(state, CutState::Underway | CutState::Again) && nobody_left;
    Some(Wish::Cut { reason, pressure, state, rollout, ordered })
}

/// Whether a node comes back from another tide than this one.
fn is_of_another(late: &Option<Purpose>, tide: &TideName) -> bool {
    matches!(late, Some(Purpose::Returning { tide: by, .. }) if by != tide)
}

impl Wish {
    /// A node that is emptied to be cut anew, or to be booted, is replaced instead, by one with the template that is wanted
    /// now.
    pub fn with_update(self) -> Self {
        match self {
            Self::Cut { reason, pressure, state: CutState::NotOrdered, rollout, .. } => {
                Self::Replace { reason, pressure, treated: None, rollout }
            }
            Self::Reboot { reason, .. } => {
                Self::Replace { reason, pressure: PressureOf::default(), treated: None, rollout: false }
            }
            other => other,
        }
    }

    /// Whether a tide or its health empties the node, and it moves to another template on the way.
    pub fn is_on_the_way(&self) -> bool {
        let Self::Replace { reason, .. } = self else { return false };
        matches!(reason, Reason::Lent { .. } | Reason::Sick { remedy: Remedy::Reboot, .. })
    }

    /// Whether a machine is given up because somebody chose that: it counts against the fleet's limit.
    pub fn gives_up_by_choice(&self) -> bool {
        match self {
            Self::Remove { voluntary, .. } => *voluntary,
            Self::Replace { rollout, .. } => *rollout || self.is_on_the_way(),
            _ => false,
        }
    }

    /// Whether the pool's update budget decides when.
    pub fn is_rollout(&self) -> bool {
        matches!(self, Self::Exchange { .. } | Self::Replace { rollout: true, .. } | Self::Cut { rollout: true, .. })
    }

    /// Whether the cloud may come first: who waits for a window is moved by it.
    pub fn is_pressed(&self) -> bool {
        matches!(self, Self::Replace { reason: Reason::Recommended { .. }, .. })
    }

    /// Whether the node serves nobody while it is granted. Of one that is in quarantine or drained already the ledger says
    /// so.
    pub fn takes_out(&self) -> bool {
        match self {
            Self::Remove { .. } | Self::Replace { .. } | Self::Exchange { .. } => true,
            Self::Quarantine { treated, .. } => treated.is_some(),
            _ => matches!(self, Self::Reboot { .. } | Self::Cut { .. }),
        }
    }

    pub fn why(&self) -> &'static str {
        match self {
            Self::Remove { .. } => "remove",
            Self::Replace { reason: Reason::Recommended { .. }, .. } => MOVE,
            Self::Replace { .. } => "replace",
            Self::Exchange { .. } => EXCHANGE,
            Self::Reboot { .. } => "reboot",
            Self::Quarantine { .. } | Self::Watch { .. } => QUARANTINE,
            Self::Drain { .. } => DRAIN,
            Self::Cut { .. } => "cut",
            Self::Dress { .. } | Self::Misfit { .. } | Self::Unanswered { .. } | Self::Free => "keep",
        }
    }

    pub fn reason(&self) -> &Reason {
        match self {
            Self::Remove { reason, .. }
            | Self::Replace { reason, .. }
            | Self::Exchange { reason, .. }
            | Self::Reboot { reason, .. }
            | Self::Quarantine { reason, .. }
            | Self::Drain { reason, .. }
            | Self::Watch { reason, .. }
            | Self::Cut { reason, .. }
            | Self::Dress { reason, .. } => reason,
            Self::Misfit { .. } => &Reason::Wanted,
            Self::Unanswered { .. } | Self::Free => &Reason::LeftOver,
        }
    }

    pub fn consent(&self) -> Consent {
        match self {
            Self::Remove { voluntary: true, .. } | Self::Drain { .. } => Consent::Asked,
            Self::Cut { ordered: true, .. } => Consent::Standing,
            // The merge consents to leave what the cloud takes, and to leave it in good time.
            Self::Replace { reason: Reason::Recommended { .. }, .. } => Consent::Standing,
            // It costs what the place in the reservation did not.
            Self::Replace { reason: Reason::Overfull { .. }, .. } => Consent::Asked,
            Self::Replace { rollout: true, pressure, .. }
            | Self::Exchange { pressure, .. }
            | Self::Cut { rollout: true, pressure, .. } => {
                if pressure.idle_only {
                    Consent::Standing
                } else {
                    Consent::Asked
                }
            }
            _ => Consent::Standing,
        }
    }

    pub fn pressure(&self) -> Pressure {
        let of = match self {
            Self::Remove { pressure, .. }
            | Self::Replace { pressure, .. }
            | Self::Exchange { pressure, .. }
            | Self::Cut { pressure, .. } => *pressure,
            _ => PressureOf::default(),
        };
        let (takes_unmanaged, keeps_local_data) = match self {
            Self::Drain { unmanaged, local_data, .. } => (*unmanaged, !local_data),
            _ => (false, false),
        };
        let (hard_at, deadline) = (of.hard_at, of.deadline);
        let ends_machine = matches!(self, Self::Remove { .. } | Self::Replace { .. });
        Pressure { moves_work: !of.idle_only, hard_at, deadline, takes_unmanaged, keeps_local_data, ends_machine }
    }

    pub fn effects(&self, on: &Thing) -> Effects {
        let verb = match self {
            Self::Replace { reason: Reason::Fabric { .. }, .. } => {
                return Effects::one(Verb::Release, on.clone(), Amount::count(1));
            }
            Self::Remove { .. } | Self::Replace { .. } => Verb::Terminate,
            Self::Exchange { .. } => Verb::Exchange,
            Self::Reboot { .. } => Verb::Reboot,
            Self::Cut { .. } => Verb::Cut,
            Self::Quarantine { .. }
            | Self::Drain { .. }
            | Self::Watch { .. }
            | Self::Dress { .. }
            | Self::Misfit { .. }
            | Self::Unanswered { .. }
            | Self::Free => {
                return Effects::default();
            }
        };
        let mut effects = Effects::one(verb, on.clone(), Amount::count(1));
        if let Self::Replace { .. } = self {
            effects.add(&Effects::one(Verb::Launch, on.clone(), Amount::count(1)));
        }
        effects
    }

    pub fn sentence(&self, slot: &SlotId, node: &NodeName) -> String {
        match self {
            Self::Remove { .. } => format!("remove {node} from {slot}"),
            Self::Replace { reason: Reason::Fabric { to: Some(to) }, .. } => {
                format!("give {node} of {slot} to pool/{to}, and {slot} another node")
            }
            Self::Replace { reason: Reason::Fabric { to: None }, .. } => {
                format!("give {slot} another node than {node}")
            }
            Self::Replace { .. } => format!("replace {node} in {slot}"),
            Self::Exchange { reason: Reason::Fabric { to: Some(to) }, .. } => {
                format!("let {node} of {slot} change places with a node of pool/{to}")
            }
            Self::Exchange { .. } => format!("let {node} of {slot} change places"),
            Self::Reboot { .. } => format!("boot {node} in {slot} again"),
            Self::Quarantine { .. } => format!("take {node} of {slot} out of service"),
            Self::Drain { .. } => format!("empty {node} of {slot}"),
            Self::Watch { .. } => format!("see {node} of {slot} well again"),
            Self::Cut { reason: Reason::Layout { to, .. }, .. } => format!("cut {node} in {slot} as {to}"),
            Self::Cut { .. } => format!("cut {node} in {slot} anew"),
            Self::Dress { .. } => format!("label {node} as {slot}"),
            Self::Misfit { .. } => format!("{node} in service in {slot}"),
            Self::Unanswered { .. } | Self::Free => format!("put {node} of {slot} back into service"),
        }
    }
}
