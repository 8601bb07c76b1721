//! What a plan writes into the ledger is true: forgetting a live instance would make an orphan, and a false trust would
//! let the next plan destroy.

use super::Found;
use super::case::Case;
use super::slots::{BELIEVED, LISTED_WITHIN, in_target, is_gone, meant, recorded_before};
use crate::effect::marks::is_starting;
use crate::effect::{Action, LedgerChange, Lent};
use crate::fleet::standing::LoanSpec;
use crate::fleet::target::{Part, Purpose};
use crate::fleet::tide::Phase;
use crate::ids::{InstanceId, NodeName, PoolName, SlotId, TideName};
use crate::observed::NodeSeen;
use crate::plan::Step;

const LAW: &str = "the ledger is told only what is true";

pub fn records_are_true(case: &Case<'_>, found: &mut Found) {
    for (at, step) in case.each() {
        if let Action::Record(change) = &step.action
            && let Err(what) = judge(case, at, change)
        {
            found.step(LAW, &step.id, what);
        }
    }
}

fn judge(case: &Case<'_>, at: usize, change: &LedgerChange) -> Result<(), String> {
    match change {
        LedgerChange::Begin { fleet, .. } => require(fleet == case.fleet(), || "the fleet is another one".into()),
        LedgerChange::Recall { tide, .. } => {
            let guarded = case.standing().tides.get(tide).is_some_and(|tide| tide.guard.is_some());
            require(guarded, || format!("{tide} has no guard: only a person turns it"))
        }
        LedgerChange::Silent { tide, since } => {
            let answers = case.seen().guards.get(tide).is_some_and(Option::is_some);
            require(since.is_none() == answers, || format!("the guard of {tide} is told to be what it is not"))
        }
        LedgerChange::Lent { tide, lent: Some(lent) } => {
            let is_turned = case.input.gone.contains(tide) || case.input.cut_short.contains(tide);
            let has_document = case.standing().tides.contains_key(tide) && !is_turned;
            require(lent.gone.is_none() || !has_document, || {
                format!("the document of {tide} is there, and it is low")
            })?;
            match forgotten(case, tide, lent) {
                Some(node) => Err(format!("{node} is still cut as {tide} lent it, and that would be forgotten")),
                None => Ok(()),
            }
        }
        LedgerChange::Lent { tide, lent: None } => match lent_still(case, tide) {
            Some(node) => Err(format!("{node} is still cut as {tide} lent it")),
            None => Ok(()),
        },
        LedgerChange::Launched { slot, instance, .. } => {
            let intent = case.ledger_slot(slot).and_then(|slot| slot.intent.as_ref());
            let token = case.instance(instance).and_then(|seen| seen.token.as_ref());
            let same = intent.is_some_and(|intent| Some(&intent.request.token) == token);
            require(same, || format!("{instance} is not the answer to the open request of {slot}"))
        }
        LedgerChange::Adopted { slot, instance, generation, .. } => {
            let tag = case.instance(instance).and_then(|seen| seen.tag.as_ref());
            let ours = tag.is_some_and(|tag| {
                let is_its = meant(case, instance, tag).contains(slot);
                tag.fleet == *case.fleet() && is_its && tag.generation == *generation
            });
            require(ours, || format!("{instance} does not carry the tag of {slot}"))?;
            free(case, at, slot, Some(instance))
        }
        LedgerChange::Lost { slot } | LedgerChange::Closed { slot } => free(case, at, slot, None),
        LedgerChange::Forgotten { pool } => {
            let is_wanted = case.input.target.pools.contains_key(pool);
            require(!is_wanted, || format!("the documents still name pool {pool}"))?;
            let slots = case.input.ledger.pools.get(pool).into_iter().flat_map(|pool| pool.slots.values());
            // After a while a request is answered by what is listed, and by what is not.
            let young = |at| case.now().duration_since(at) < LISTED_WITHIN;
            let open = slots.filter(|slot| slot.intent.as_ref().is_some_and(|intent| young(intent.at))).count();
            require(open == 0, || format!("{open} requests of pool {pool} are not answered"))
        }
        LedgerChange::Sized { pool, nodes } => {
            let written = case.pool(pool).and_then(|spec| spec.size);
            require(written == Some(*nodes), || format!("the documents do not give {pool} {nodes} nodes"))?;
            let known = case.pool_ledger(pool);
            let has =
                known.into_iter().flat_map(|known| known.slots.values()).filter(|slot| slot.is_something()).count();
            let enough = usize::try_from(*nodes).is_ok_and(|nodes| has >= nodes);
            let falls = known.and_then(|known| known.size).is_some_and(|had| *nodes < had);
            let open = known.into_iter().flat_map(|known| known.slots.iter());
            let mut open = open.filter(|(_, slot)| slot.is_something()).map(|(index, _)| SlotId::new(pool, *index));
            let beyond = open.find(|slot| !in_target(case, slot));
            match beyond.filter(|_| falls || known.is_none_or(|known| known.size.is_none())) {
                Some(slot) => Err(format!("{slot} is beyond that size, and nobody was asked")),
                None => require(falls || enough, || format!("{pool} has {has} nodes, and not {nodes}")),
            }
        }
        LedgerChange::SizedLow { pool, tide, nodes } => low_size(case, pool, tide, *nodes),
        LedgerChange::Renamed { from, to } => {
            let renamed = case.input.target.pools.get(to).and_then(|pool| pool.renamed_from.as_ref());
            require(renamed == Some(from), || format!("no document says that {to} was {from}"))?;
            let is_kept = case.input.renamed.get(to) == Some(from);
            require(is_kept, || format!("nothing is kept of {from} that {to} could take"))?;
            let open = case.pool_ledger(to).and_then(|pool| pool.slots.iter().find(|(_, slot)| slot.intent.is_some()));
            require(open.is_none(), || format!("a request of {from} is not answered, and names it"))
        }
        LedgerChange::Exchanged { slot, with, gives, takes } => {
            let note = case.ledger_slot(with).and_then(|slot| slot.exchange.as_ref());
            let noted = note.is_some_and(|note| case.input.as_kept(&note.with) == *slot && note.gave == *takes);
            let is = |change: &LedgerChange| match change {
                LedgerChange::Exchange { with: other, gives: given, takes: taken, .. } => {
                    other == slot && *given == takes.instance && taken.instance == *gives
                }
                _ => false,
            };
            let decided = noted || !recorded_before(case, at, with, is).is_empty();
            require(decided, || format!("{with} did not take the machine of {slot}"))
        }
        LedgerChange::ExchangeOver { slot, keeps } => {
            let known = case.ledger_slot(slot);
            let noted = known.is_some_and(|slot| slot.exchange.is_some() && slot.instance.as_ref() == Some(keeps));
            let is = |change: &LedgerChange| matches!(change, LedgerChange::Exchange { takes, .. } if takes.instance == *keeps);
            let decided = noted || !recorded_before(case, at, slot, is).is_empty();
            require(decided, || format!("{slot} does not have {keeps} for another machine"))
        }
        LedgerChange::Reserved { id, .. } | LedgerChange::Purchased { id, .. } => {
            require(case.reservation(id).is_some(), || format!("{id} was not seen"))
        }
        LedgerChange::Missing { slot, since: Some(_) } => {
            let known = case.ledger_slot(slot);
            if let Some(node) = known.and_then(|known| known.node.as_ref()) {
                // A node that was only claimed has no instance of ours: the cluster is who lists it.
                let missing = case.seen().cluster.nodes.whole().is_some_and(|all| !all.contains_key(node));
                return require(missing, || format!("{node} of {slot} is not missing from a whole read"));
            }
            let id = known.and_then(|slot| slot.instance.as_ref());
            let all = case.seen().cloud.instances.whole();
            let missing = id.is_some_and(|id| all.is_some_and(|all| !all.contains_key(id)));
            require(missing, || format!("the instance of {slot} is not missing from a whole read"))
        }
        LedgerChange::Unclaimed { slot } => {
            let known = case.ledger_slot(slot);
            let Some(node) = known.and_then(|known| known.node.as_ref()) else { return Ok(()) };
            // One that is there is let go after a drain, which has laws of its own.
            if case.node(node).is_some() {
                return Ok(());
            }
            let since = known.and_then(|known| known.missing_since);
            let gone = since.is_some_and(|since| case.now().duration_since(since) >= BELIEVED)
                && case.seen().cluster.nodes.whole().is_some();
            require(gone, || format!("{node} of {slot} is not missing for long enough to be gone"))
        }
        LedgerChange::Return { node, .. } | LedgerChange::Undrain { node, .. } => {
            let gone = case.seen().cluster.nodes.whole().is_some_and(|all| !all.contains_key(node));
            require(gone, || format!("{node} is there, and only a person returns it"))
        }
        LedgerChange::Unwatched { node, at } => {
            let out = case.node(node).is_some_and(|node| node.unschedulable || is_starting(node));
            require(out && *at == case.now(), || format!("{node} is not seen out of service now"))
        }
        LedgerChange::Watched { node, at: Some(at) } => {
            let serves = case.node(node).is_some_and(|node| !node.unschedulable && !is_starting(node));
            let noted = case.input.ledger.head.unwatched.contains_key(node);
            require(serves && noted && *at == case.now(), || format!("{node} is not seen in service again"))
        }
        LedgerChange::Watched { node, at: None } => {
            let gone = case.seen().cluster.nodes.whole().is_some_and(|all| !all.contains_key(node));
            require(gone, || format!("{node} is there, and is watched or not"))
        }
        LedgerChange::Intend { .. }
        | LedgerChange::ReserveIntend { .. }
        | LedgerChange::PurchaseIntend { .. }
        | LedgerChange::Open { .. }
        | LedgerChange::Spend { .. }
        | LedgerChange::Drain { .. }
        | LedgerChange::Freeze(_)
        | LedgerChange::Thaw(_)
        | LedgerChange::KnownAnew { .. } => Err("this is for `apply` or a person to write, not for a plan".into()),
        _ => Ok(()),
    }
}

/// What a tide gives a pool is as the documents say; and where that is less than was known and in force, it is done.
fn low_size(case: &Case<'_>, pool: &PoolName, tide: &TideName, nodes: Option<u32>) -> Result<(), String> {
    let written = case.standing().low_sizes.get(pool).and_then(|sizes| sizes.get(tide)).copied();
    require(written == nodes, || format!("the documents do not say this of {pool} and {tide}"))?;
    let (Some(nodes), Some(known), Some(target)) = (nodes, case.pool_ledger(pool), case.input.target.pools.get(pool))
    else {
        return Ok(());
    };
    let is_low = matches!(case.input.target.tides.get(tide), Some(Phase::Low { .. }));
    let had = known.low.get(tide).copied().or(known.size).or_else(|| case.pool(pool)?.size);
    let falls = had.is_some_and(|had| nodes < had);
    let mut open = known.slots.iter().filter(|(_, slot)| slot.is_something());
    let beyond = open.find(|(index, _)| !in_target(case, &SlotId::new(pool, **index)));
    match beyond.filter(|_| is_low && falls && target.nodes == nodes) {
        Some((index, _)) => Err(format!("{pool}/{index} is beyond what {tide} gives it, and nobody was asked")),
        None => Ok(()),
    }
}

/// A node that carries the labels of a loan's cut, where that is another than its pool's, and is not one of those that
/// other tides lend cut like this.
fn lent_still<'a>(case: &Case<'a>, tide: &TideName) -> Option<&'a NodeName> {
    let loans = &case.standing().tides.get(tide)?.loans;
    loans.iter().find_map(|loan| cut_for(case, loan).nth(of_others(case, tide, loan)))
}

/// So many nodes of a loan's pool are cut like it for other tides: wanted so now, or remembered to be lent.
fn of_others(case: &Case<'_>, tide: &TideName, loan: &LoanSpec) -> usize {
    let parts = case.input.target.pools.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
    let is_wanted = |part: &&Part| match &part.purpose {
        Purpose::Lent { tide: by, .. } => by != tide && part.layout == loan.layout,
        Purpose::Returning { .. } | Purpose::Spare | Purpose::Own => false,
    };
    let wanted: u32 = parts.filter(is_wanted).map(|part| part.nodes).sum();
    let others = case.input.ledger.head.lent.iter().filter(|(name, _)| *name != tide);
    let remembered = others.flat_map(|(_, lent)| &lent.spec.loans);
    let remembered = remembered.filter(|one| one.pool == loan.pool && one.layout == loan.layout);
    let remembered: u32 = remembered.map(|one| one.nodes).sum();
    usize::try_from(wanted.max(remembered)).unwrap_or(usize::MAX)
}

/// A node of a loan of which less would be remembered than is, while more are cut for it than should be.
fn forgotten<'a>(case: &Case<'a>, tide: &TideName, lent: &Lent) -> Option<&'a NodeName> {
    let known = &case.input.ledger.head.lent.get(tide)?.spec.loans;
    let nodes = |loans: &[LoanSpec], loan: &LoanSpec| {
        let same = loans.iter().filter(|one| (&one.pool, &one.from, &one.to) == (&loan.pool, &loan.from, &loan.to));
        same.filter(|one| one.layout == loan.layout).map(|one| one.nodes).sum::<u32>()
    };
    known.iter().filter(|loan| nodes(&lent.spec.loans, loan) < nodes(known, loan)).find_map(|loan| {
        let parts = case.input.target.pools.get(&loan.pool).into_iter().flat_map(|pool| &pool.parts);
        let wanted: u32 = parts.filter(|part| part.layout == loan.layout).map(|part| part.nodes).sum();
        // What is asked back is in no part any more; what is still remembered of it is not forgotten.
        let known = wanted.max(nodes(&lent.spec.loans, loan));
        cut_for(case, loan).nth(usize::try_from(known).unwrap_or(usize::MAX))
    })
}

/// The nodes that carry the labels of a loan's cut, where that is another than its pool's.
fn cut_for<'a, 'c>(case: &'c Case<'a>, loan: &'c LoanSpec) -> impl Iterator<Item = &'a NodeName> + use<'a, 'c> {
    let recut = case.pool(&loan.pool).is_some_and(|pool| pool.layout != loan.layout);
    let layouts = case.input.desired.pools.get(&loan.pool).map(|pool| &pool.layouts).filter(|_| recut);
    let labels = layouts.and_then(|layouts| layouts.get(&loan.layout)).map(|layout| &layout.labels);
    let labels = labels.filter(|labels| !labels.is_empty());
    let is_cut = move |node: &NodeSeen| {
        labels.is_some_and(|labels| labels.iter().all(|(key, value)| node.labels.get(key) == Some(value)))
    };
    let nodes = case.seen().cluster.nodes.seen().iter().filter(move |(_, node)| {
        // One that was only claimed may show this without ever having been cut.
        let slot = node.instance.as_ref().and_then(|id| case.slot_of_instance(id));
        slot.is_some_and(|slot| slot.pool == loan.pool) && !is_starting(node) && is_cut(node)
    });
    nodes.map(|(name, _)| name)
}

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The slot's instance is gone, or is the one that is being recorded, and no request for it is open.
fn free(case: &Case<'_>, at: usize, slot: &SlotId, but: Option<&InstanceId>) -> Result<(), String> {
    let Some(remembered) = case.ledger_slot(slot) else { return Ok(()) };
    if let Some(id) = remembered.instance.as_ref().filter(|id| Some(*id) != but) {
        require(is_gone(case, at, slot, id), || format!("{slot} has {id}, which is not seen gone"))?;
    }
    let answered = but.and_then(|id| case.instance(id)).and_then(|seen| seen.token.as_ref());
    let open = remembered.intent.as_ref().filter(|intent| Some(&intent.request.token) != answered);
    let closes = matches!(&case.steps[at], Step { action: Action::Record(LedgerChange::Closed { .. }), .. });
    require(open.is_none() || (!closes && but.is_none()), || format!("{slot} has a request that nobody answered"))
}
