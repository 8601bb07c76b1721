//! One slot, one live instance: what may be launched, and with exactly which request.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::Found;
use super::case::Case;
use crate::effect::marks::{CORDON, GPU_COUNT, MIG_CONFIG, Mark, POOL, SLOT};
use crate::effect::{Action, CloudAction, Fact, LaunchRequest, LedgerChange, PoolLedger, Slot, Subject, is_kin, token};
use crate::fleet::pool::Source;
use crate::ids::{FleetUid, InstanceId, NodeName, PoolName, SlotId};
use crate::observed::{InstanceSeen, InstanceState, Market, NodeSeen, SlotTag};
use crate::plan::Step;

const ONE: &str = "one slot, one live instance";
const EXACT: &str = "a launch leaves no choice and names what it is for";
const RENAMED: &str = "a pool is renamed before anything is done under its new name";
const CLAIMS: &str = "one slot, one claimed node";

/// How long an instance must be missing from whole reads before it is believed to be gone: two reads that far apart
/// are what EC2's eventual consistency needs.
pub const BELIEVED: SignedDuration = SignedDuration::from_mins(2);

/// How long EC2 may take to list what it launched, at the worst that is planned for.
pub const LISTED_WITHIN: SignedDuration = SignedDuration::from_mins(30);

/// Every launch of the plan.
pub fn launches<'c, 'a>(
    case: &'c Case<'a>,
) -> impl Iterator<Item = (usize, &'a Step, &'a LaunchRequest)> + use<'c, 'a> {
    case.each().filter_map(|(at, step)| match &step.action {
        Action::Cloud(CloudAction::Launch(request)) => Some((at, step, request)),
        _ => None,
    })
}

/// Whether it repeats a request that nobody answered.
pub fn is_resend(case: &Case<'_>, request: &LaunchRequest) -> bool {
    open_intent(case, &request.slot).is_some_and(|open| open == request)
}

fn open_intent<'a>(case: &Case<'a>, slot: &SlotId) -> Option<&'a LaunchRequest> {
    case.ledger_slot(slot)?.intent.as_ref().map(|intent| &intent.request)
}

/// No launch for a slot that has an instance, or an open request other than this one, or another launch.
pub fn one_slot_one_instance(case: &Case<'_>, found: &mut Found) {
    let tagged = LazyCell::new(|| tagged(case));
    let mut launched: BTreeSet<&SlotId> = BTreeSet::new();
    for (at, step, request) in launches(case) {
        let slot = &request.slot;
        if !launched.insert(slot) {
            found.step(ONE, &step.id, format!("{slot} is launched twice"));
        }
        if let Some(open) = open_intent(case, slot) {
            if open != request {
                found.step(ONE, &step.id, format!("{slot} has an open request, and this is another one"));
            }
        } else if !in_target(case, slot) {
            found.step(ONE, &step.id, format!("{slot} is not wanted"));
        }
        let remembered = case.ledger_slot(slot);
        let instance = remembered.and_then(|slot| slot.instance.as_ref());
        let visible = tagged.get(slot).into_iter().flatten().copied().filter(|id| Some(*id) != instance);
        for id in instance.into_iter().chain(visible) {
            let answer = case.instance(id).is_some_and(|seen| seen.token.as_ref() == Some(&request.token));
            if !answer && !is_gone(case, at, slot, id) {
                found.step(ONE, &step.id, format!("{slot} has {id}, and it is not seen gone before"));
            }
        }
        if let Some(node) = remembered.and_then(|slot| slot.node.as_ref()) {
            let is = |change: &LedgerChange| matches!(change, LedgerChange::Unclaimed { .. });
            if recorded_before(case, at, slot, is).is_empty() {
                found.step(ONE, &step.id, format!("{slot} has the claimed node {node}"));
            }
        }
    }
}

/// The slots that a tag may mean: the one that it names and, where nobody calls a pool that any more, the one with the same
/// number of the pool that was called so, or whose label the machine's node carries.
pub fn meant(case: &Case<'_>, id: &InstanceId, tag: &SlotTag) -> Vec<SlotId> {
    let (pool, index) = (&tag.slot.pool, tag.slot.index);
    let (pools, known) = (&case.input.target.pools, case.pool_ledger(pool));
    let mut meant = vec![tag.slot.clone()];
    if pools.contains_key(pool) || known.is_some_and(PoolLedger::is_something) {
        return meant;
    }
    let renamed = pools.iter().filter(|(_, target)| target.renamed_from.as_ref() == Some(pool));
    meant.extend(renamed.map(|(name, _)| SlotId::new(name, index)));
    if let Some(node) = case.node_of(id).and_then(|node| case.node(node)).filter(|_| known.is_none()) {
        let says = |name: &&PoolName| node.labels.get(POOL).is_some_and(|label| label == name.as_str());
        let is_numbered = node.labels.get(SLOT).is_some_and(|label| *label == index.to_string());
        meant.extend(pools.keys().filter(says).filter(|_| is_numbered).map(|name| SlotId::new(name, index)));
    }
    meant
}

/// The live instances that may be a slot's by their tag, ours or our kin's, whatever the ledger says.
fn tagged<'a>(case: &Case<'a>) -> BTreeMap<SlotId, Vec<&'a InstanceId>> {
    let mut tagged: BTreeMap<SlotId, Vec<&InstanceId>> = BTreeMap::new();
    for (id, seen) in case.seen().cloud.instances.seen() {
        let ours = |whose: &FleetUid| whose == case.fleet() || is_kin(case.fleet(), whose);
        if let Some(tag) = seen.tag.as_ref().filter(|tag| ours(&tag.fleet))
            && seen.state.is_live()
            // One that serves another slot since a rename is found by the ledger.
            && case.slot_of_instance(id).is_none_or(|slot| *slot == tag.slot)
        {
            for slot in meant(case, id, tag) {
                tagged.entry(slot).or_default().push(id);
            }
        }
    }
    tagged
}

/// Whether an instance is certain to be gone when the step begins.
pub fn is_gone(case: &Case<'_>, at: usize, slot: &SlotId, id: &InstanceId) -> bool {
    match case.instance(id) {
        Some(InstanceSeen { state: InstanceState::Terminated, .. }) => true,
        Some(_) => {
            let gone = |fact: &Fact| matches!(fact, Fact::Gone(gone) if gone == id);
            case.assured(at, &Subject::Instance(id.clone()), gone)
        }
        None => {
            let asked = |fact: &Fact| matches!(fact, Fact::Unlisted(asked) if asked == id);
            case.ledger_slot(slot).is_some_and(|slot| is_believed_lost(case, slot, id))
                && case.assured(at, &Subject::Instance(id.clone()), asked)
        }
    }
}

/// Missing from whole reads for minutes, launched so long ago that it would be listed, and its node is not ready.
fn is_believed_lost(case: &Case<'_>, slot: &Slot, id: &InstanceId) -> bool {
    let (seen, since) = (case.seen(), slot.missing_since);
    let is_old = slot.launched.is_none_or(|at| case.now().duration_since(at) > LISTED_WITHIN);
    let node_is_ready = case.node_of(id).and_then(|node| case.node(node)).is_some_and(|node| node.ready);
    seen.cloud.instances.whole().is_some_and(|all| !all.contains_key(id))
        && seen.cluster.nodes.whole().is_some()
        && since.is_some_and(|since| case.now().duration_since(since) >= BELIEVED)
        && is_old
        && !node_is_ready
}

pub fn in_target(case: &Case<'_>, slot: &SlotId) -> bool {
    case.part(slot).is_some()
}

/// The records of this kind on a slot that must have been written before the step.
pub fn recorded_before(case: &Case<'_>, at: usize, slot: &SlotId, is: impl Fn(&LedgerChange) -> bool) -> Vec<usize> {
    let matches = |other: &usize| matches!(&case.steps[*other].action, Action::Record(change) if is(change));
    let candidates: Vec<usize> = case.on_slot(slot).iter().copied().filter(matches).collect();
    case.dag.before(at, &candidates)
}

/// The next generation, the token of fleet, slot, generation and zone, and a source of the pool as it stands there. A
/// request that is sent again was judged when it was new.
pub fn request_is_exact(case: &Case<'_>, found: &mut Found) {
    for (at, step, request) in launches(case) {
        if is_resend(case, request) || open_intent(case, &request.slot).is_some() {
            continue;
        }
        let slot = &request.slot;
        let next = generation(case, at, slot) + 1;
        if request.generation != next {
            let what = format!("its generation is {} and the next of {slot} is {next}", request.generation);
            found.step(EXACT, &step.id, what);
        }
        if request.token != token(case.fleet(), slot, request.generation, &request.zone) {
            found.step(EXACT, &step.id, "its token is not that of fleet, slot, generation and zone");
        }
        if let Err(what) = source_fits(case, request) {
            found.step(EXACT, &step.id, what);
        }
    }
}

fn generation(case: &Case<'_>, at: usize, slot: &SlotId) -> u32 {
    let remembered = case.ledger_slot(slot).map_or(0, |slot| slot.generation);
    let adopts = |change: &LedgerChange| matches!(change, LedgerChange::Adopted { .. });
    let adopted = recorded_before(case, at, slot, adopts).into_iter().filter_map(|at| match &case.steps[at].action {
        Action::Record(LedgerChange::Adopted { generation, .. }) => Some(*generation),
        _ => None,
    });
    adopted.fold(remembered, u32::max)
}

/// Our memory has the slots of a renamed pool under its old name: until that is changed, nothing is asked or written
/// under the new one.
pub fn renamed_first(case: &Case<'_>, found: &mut Found) {
    if case.input.renamed.is_empty() {
        return;
    }
    for (at, step) in case.each() {
        let Some(slot) = super::case::slot(&step.action) else { continue };
        if case.input.renamed.contains_key(&slot.pool) && !comes_after_rename(case, at, slot) {
            found.step(RENAMED, &step.id, format!("pool {} is not renamed in the ledger before it", slot.pool));
        }
    }
}

fn comes_after_rename(case: &Case<'_>, at: usize, slot: &SlotId) -> bool {
    let renames = case.each().filter(
        |(_, step)| matches!(&step.action, Action::Record(LedgerChange::Renamed { to, .. }) if *to == slot.pool),
    );
    let renames: Vec<usize> = renames.map(|(at, _)| at).collect();
    !case.dag.before(at, &renames).is_empty()
}

fn source_fits(case: &Case<'_>, request: &LaunchRequest) -> Result<(), String> {
    let slot = &request.slot;
    let pool = case.pool(&slot.pool).ok_or_else(|| format!("there is no pool {}", slot.pool))?;
    if request.instance_type != pool.shape.instance_type {
        return Err(format!("{} is not the type of pool {}", request.instance_type, slot.pool));
    }
    if let Some(wanted) = case.input.desired.pools.get(&slot.pool)
        && (request.template != wanted.template.name || request.template_digest != wanted.template.digest)
    {
        return Err(format!("{} is not the template of pool {}", request.template, slot.pool));
    }
    let source = usize::try_from(request.source).ok().and_then(|source| pool.capacity.get(source));
    let reserved = matches!(request.market, Market::Reserved | Market::Block);
    match source {
        Some(Source::Reservation(name)) if reserved => {
            let id = case.reservation_id(name);
            if id.is_none() || id != request.reservation {
                return Err(format!("it does not name the reservation {name}"));
            }
        }
        Some(Source::OnDemand { .. }) if request.market == Market::OnDemand && request.reservation.is_none() => {}
        Some(Source::Spot { .. }) if request.market == Market::Spot && request.reservation.is_none() => {}
        _ => return Err(format!("source {} of pool {} is another one", request.source, slot.pool)),
    }
    let zones = case.standing().zones(pool);
    if !reserved && !zones.is_empty() && !zones.contains(&request.zone) {
        return Err(format!("{} is no zone of pool {}", request.zone, slot.pool));
    }
    Ok(())
}

/// No node is claimed for two slots, no slot claims two, and none that does not carry the labels that the pool asks
/// for.
pub fn one_node_a_slot(case: &Case<'_>, found: &mut Found) {
    let mut nodes: BTreeMap<&NodeName, &SlotId> = BTreeMap::new();
    for (at, step) in case.each() {
        let Action::Record(LedgerChange::Claimed { slot, node }) = &step.action else { continue };
        let released = |slot: &SlotId| {
            let is = |change: &LedgerChange| matches!(change, LedgerChange::Unclaimed { .. });
            !recorded_before(case, at, slot, is).is_empty()
        };
        if let Some(other) = nodes.insert(node, slot).filter(|other| *other != slot) {
            found.step(CLAIMS, &step.id, format!("{node} is claimed for {other} too"));
        }
        if let Some(other) = case.slot_of_node(node).filter(|other| *other != slot && !released(other)) {
            found.step(CLAIMS, &step.id, format!("{node} serves {other}"));
        }
        let remembered = case.ledger_slot(slot);
        let claimed = remembered.and_then(|slot| slot.node.as_ref());
        if let Some(other) = claimed.filter(|other| *other != node && case.node(other).is_some() && !released(slot)) {
            found.step(CLAIMS, &step.id, format!("{slot} has {other}"));
        }
        if let Some(id) = remembered.and_then(|slot| slot.instance.as_ref()).filter(|id| !is_gone(case, at, slot, id)) {
            found.step(CLAIMS, &step.id, format!("{slot} has {id}"));
        }
        let carries = |labels: &BTreeMap<String, String>| {
            let seen = case.node(node).map(|seen| &seen.labels);
            seen.is_some_and(|seen| labels.iter().all(|(key, value)| seen.get(key) == Some(value)))
        };
        let sources = case.pool(&slot.pool).map_or(&[][..], |pool| pool.capacity.as_slice());
        let fits = |source: &Source| matches!(source, Source::Existing { labels } if carries(labels));
        if !in_target(case, slot) || !sources.iter().any(fits) {
            found.step(CLAIMS, &step.id, format!("{node} is not what {slot} asks for"));
        }
        if let Some(whose) = case.node(node).and_then(|seen| somebody_elses(case, slot, seen)) {
            found.step(CLAIMS, &step.id, format!("{node} is {whose}"));
        }
        // What GPU feature discovery counted is only its GPUs as long as nobody cut them.
        let uncut = |seen: &&NodeSeen| seen.labels.get(MIG_CONFIG).is_none_or(|cut| cut == "all-disabled");
        let count = case.node(node).filter(uncut).and_then(|seen| seen.labels.get(GPU_COUNT)?.parse::<u32>().ok());
        let wanted = case.pool(&slot.pool).map(|pool| pool.shape.gpus);
        if count.is_some() && count != wanted {
            found.step(
                CLAIMS,
                &step.id,
                format!("{node} has {} GPUs, which {slot} does not ask for", count.unwrap_or(0)),
            );
        }
    }
}

/// Whose a node is by what it carries of ours, where that is not the slot's pool and nobody let it go.
fn somebody_elses(case: &Case<'_>, slot: &SlotId, node: &NodeSeen) -> Option<String> {
    let worn = PoolName::from(node.labels.get(POOL)?.as_str());
    if node.annotation(CORDON).is_some_and(|mark| Mark::parse(mark).is_foreign(case.fleet())) {
        return Some("closed by another fleet".into());
    }
    if let Some(tag) = node.instance.as_ref().and_then(|id| case.instance(id)).and_then(|found| found.tag.as_ref()) {
        return Some(format!("a machine that was launched for {}", tag.slot));
    }
    let remembered = case.pool_ledger(&worn);
    let wanted = case.input.target.pools.get(&worn).map(|pool| pool.nodes);
    let has = |(index, held): &(&u32, &Slot)| held.is_something() && in_target(case, &SlotId::new(&worn, **index));
    let held = remembered.map_or(0, |pool| pool.slots.iter().filter(has).count());
    let claims =
        case.pool(&worn).is_some_and(|pool| pool.capacity.iter().any(|one| matches!(one, Source::Existing { .. })));
    let is_left = match wanted {
        _ if worn == slot.pool => true,
        Some(wanted) => !claims || held >= usize::try_from(wanted).unwrap_or(usize::MAX),
        // It was that one, and nobody is any more.
        None if was_called(case, slot, &worn) => remembered.is_none_or(|pool| !pool.is_something()),
        None => remembered.is_some_and(|pool| !pool.is_something()),
    };
    (!is_left).then(|| format!("labelled as a node of {worn}"))
}

fn was_called(case: &Case<'_>, slot: &SlotId, name: &PoolName) -> bool {
    let target = case.input.target.pools.get(&slot.pool);
    target.and_then(|pool| pool.renamed_from.as_ref()) == Some(name)
}
