//! What must never happen, whatever is planned, faulty or crashed: seen at every change of the world.
//!
//! Written from the facts on safety, not from the planner: it looks only at the simulated world, at the calls that
//! reach it, and at what the documents state. The numbers are those of the facts.
//!
//! | | | seen |
//! | --- | --- | --- |
//! | I1 | one slot, one live instance | after every call |
//! | I2 | a machine is ended, booted or cut only when its node carries our cordon for five seconds and holds nothing; one that is ended may hold what is stuck because its kubelet is silent for ten minutes | at the call |
//! | I3 | only what carries our tag and is on record is touched | at the call |
//! | I4 | pods leave through the eviction API, each by its UID; by force only from a machine that goes anyway | at the call |
//! | I5 | an eviction leaves every disruption budget as many pods as it wants | before and after the call |
//! | I6 | a gang is evicted whole or not at all, and does not stay half gone | at the call, and after its window |
//! | I7 | a pool's update budget holds | at the call |
//! | I8 | nothing is done under a freeze, to a node with hands off, or by a request that is not the one on record | at the call |
//! | I9 | whoever asks, and how often, a request makes one thing | after every call |
//! | I10, I11 | it settles within the bound, and then nobody calls anything | `settle` |
//! | I12 | the end does not depend on the way | `expect as from nothing` |
//! | I13 | so many nodes an hour are removed by choice, and not more | at the call |
//! | I14 | hourly cost within its limit; an offer is bought once, and on record | at and after the call |
//! | I15 | no panic | `campaign` |
//! | I16 | a node keeps the labels that admitted work on it looks for | at the call |

mod cloud;
mod cluster;
mod scene;
/// `1st`, `12th`, `23rd`.
fn nth(count: usize) -> String {
    let ending = match (count % 10, count % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{count}{ending}")
}

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::compile::compile;
use crate::effect::{CloudAction, Scope, Slot};
use crate::fleet::Target;
use crate::ids::{Digest, InstanceId, InstanceType, NamespacedName, NodeName, OfferingId, PoolName, SlotId, Uid};
use crate::observed::{BudgetSeen, GangName, Market};
use crate::provider::sim::{Deed, Moment, State};
use crate::units::Usd;
use scene::Scene;

/// Who watches. What is broken stays broken: one sentence each.
#[derive(Clone, Default, Debug)]
pub struct Watch {
    pub broken: Vec<String>,
    /// The most that any clock was off: what is counted by the hour is counted by some clock.
    pub skew: SignedDuration,
    rules: Rules,
    /// Machines that were removed by choice: when that was first asked for, and how many an hour were allowed then.
    removals: BTreeMap<InstanceId, (Timestamp, u32)>,
    bought: BTreeMap<OfferingId, u32>,
    judged: usize,
    /// When our cordon reached a node.
    cordoned: BTreeMap<NodeName, Timestamp>,
    /// What each request made.
    made: BTreeMap<(SlotId, u32), BTreeSet<InstanceId>>,
    /// The budgets as they were before the call that is being made.
    budgets: BTreeMap<NamespacedName, BudgetSeen>,
    /// Gangs that were evicted, when, and who belonged to them.
    evicted: BTreeMap<GangName, (Timestamp, BTreeSet<Uid>)>,
}

/// What the documents state, as far as it is watched.
#[derive(Clone, Default, Debug)]
struct Rules {
    hourly: Option<Usd>,
    removed_per_hour: u32,
    prices: BTreeMap<InstanceType, Usd>,
    pools: BTreeMap<PoolName, PoolRules>,
}

#[derive(Clone, Debug)]
struct PoolRules {
    /// None: as many as its reservations hold.
    size: Option<u32>,
    /// Of a pool that tides resize: so many nodes an edit took that are not gone yet. What else is beyond the size is what
    /// a tide brought.
    edited: Option<u32>,
    at_once: u32,
    template: Option<Digest>,
}

const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The longest grace of a pod, and the longest that an operator waits for something, twice.
const GANG_WINDOW: SignedDuration = SignedDuration::from_mins(30);

impl Watch {
    /// What the documents state from now on.
    pub fn rules(&mut self, target: &Target) {
        let standing = &target.standing;
        self.rules.hourly = standing.limits.hourly_usd;
        self.rules.removed_per_hour = standing.limits.nodes_removed_per_hour;
        let desired = compile(target);
        let before = std::mem::take(&mut self.rules.pools);
        for (name, pool) in &standing.pools {
            if let Some(price) = pool.shape.on_demand {
                self.rules.prices.insert(pool.shape.instance_type.clone(), price);
            }
            let template = desired.pools.get(name).map(|objects| objects.template.digest.clone());
            let known = before.get(name);
            let (was, is) = (known.and_then(|known| known.size).or(pool.size).unwrap_or(0), pool.size.unwrap_or(0));
            let open = known.and_then(|known| known.edited).unwrap_or(0);
            let edited = (open + was.saturating_sub(is)).saturating_sub(is.saturating_sub(was));
            let edited = standing.is_resized(name).then_some(edited);
            let rules = PoolRules { size: pool.size, edited, at_once: pool.updates.max_unavailable, template };
            self.rules.pools.insert(name.clone(), rules);
        }
    }

    /// One call that would change something.
    pub fn see(&mut self, state: &State, deed: &Deed<'_>, moment: Moment) {
        let scene = Scene::new(state);
        match (deed, moment) {
            (Deed::Cloud(action), Moment::Before) => self.before_cloud(&scene, action),
            (Deed::Cluster(action), Moment::Before) => self.before_cluster(&scene, action),
            (Deed::Cloud(action), Moment::After { yes }) => self.after_cloud(&scene, action, yes),
            (Deed::Cluster(action), Moment::After { .. }) => self.after_cluster(&scene, action),
            (Deed::Ledger { .. } | Deed::Wire { .. }, _) => {}
        }
    }

    /// Looked at after every round and every command.
    pub fn after(&mut self, state: &State) {
        let found = state.cluster.violations();
        self.broken.extend(found.iter().skip(self.judged).map(|what| format!("I2: {what}")));
        self.judged = found.len();
        if state.calls.foreign > 0 {
            self.say("I3: an instance or a reservation of somebody else was changed".into());
        }
        let scene = Scene::new(state);
        self.one_instance_a_slot(&scene);
        self.one_thing_a_request(state);
        self.half_gangs(&scene);
        // A node that is gone may come back under its name.
        self.cordoned.retain(|name, _| scene.seen.nodes.seen().contains_key(name));
    }

    fn say(&mut self, what: String) {
        if !self.broken.contains(&what) {
            self.broken.push(what);
        }
    }

    /// By what the ledger says, and where it says nothing by the tag: a machine that changed places keeps the tag of the
    /// slot that it was launched for.
    fn one_instance_a_slot(&mut self, scene: &Scene<'_>) {
        let mut live: BTreeMap<SlotId, Vec<&str>> = BTreeMap::new();
        for (id, found) in scene.state.cloud.instances.iter().filter(|(_, found)| found.state.serves()) {
            if let Some(slot) = scene.slot_of_instance(id, found) {
                live.entry(slot).or_default().push(id.as_str());
            }
        }
        let slots = scene.ledger.pools.iter().flat_map(|(pool, known)| known.slots.iter().map(move |one| (pool, one)));
        let mut recorded: BTreeMap<&InstanceId, (SlotId, &Slot)> = BTreeMap::new();
        for (pool, (index, slot)) in slots {
            let (Some(id), slot_id) = (&slot.instance, SlotId::new(pool, *index)) else { continue };
            let Some((other, before)) = recorded.insert(id, (slot_id.clone(), slot)) else { continue };
            // A rename that was broken off left the same under both names.
            if other.index != *index || before != slot {
                self.say(format!("I1: {id} is on record as {other} and as {slot_id}"));
            }
        }
        for (slot, ids) in live.into_iter().filter(|(_, ids)| ids.len() > 1) {
            self.say(format!("I1: {slot} has {}", ids.join(" and ")));
        }
    }

    fn one_thing_a_request(&mut self, state: &State) {
        for (id, found) in &state.cloud.instances {
            if let Some(tag) = &found.tag {
                self.made.entry((tag.slot.clone(), tag.generation)).or_default().insert(id.clone());
            }
        }
        let twice: Vec<String> = self
            .made
            .iter()
            .filter(|(_, ids)| ids.len() > 1)
            .map(|((slot, generation), ids)| {
                let ids: Vec<&str> = ids.iter().map(InstanceId::as_str).collect();
                format!("I9: request {generation} for {slot} made {}", ids.join(" and "))
            })
            .collect();
        twice.into_iter().for_each(|what| self.say(what));
    }

    /// Under a freeze nothing is done, but what goes with a machine that ends anyway.
    fn frozen(&mut self, scene: &Scene<'_>, deed: &Deed<'_>, nodes: &BTreeSet<NodeName>, pool: Option<&PoolName>) {
        let pools: BTreeSet<PoolName> = nodes
            .iter()
            .filter_map(|node| scene.slot_of(node))
            .map(|(slot, _)| slot.pool)
            .chain(pool.cloned())
            .collect();
        let ends = match deed {
            Deed::Cloud(CloudAction::Launch(_)) => false,
            // Whoever ends what is ending already changes nothing.
            Deed::Cloud(CloudAction::Terminate { instance, .. }) if !scene.serves(instance) => true,
            _ if nodes.is_empty() => scene.anything_ends(),
            _ => nodes.iter().any(|node| scene.ends(node)),
        };
        let stops = scene.state.ledger.head().frozen.iter().find(|freeze| match &freeze.scope {
            Scope::Fleet => true,
            Scope::Pool(name) => pools.contains(name),
            Scope::Node(name) => nodes.contains(name),
        });
        if stops.is_some_and(|freeze| freeze.all || !ends) {
            self.say(format!("I8: {} {} was called under a freeze", deed.verb(), deed.subject()));
        }
    }

    /// A machine that goes by choice: so many within an hour. Whoever asks again for the same one removes no more.
    fn removal(&mut self, now: Timestamp, instance: &InstanceId, what: &SlotId) {
        let hour = AN_HOUR - self.skew.abs();
        self.removals.retain(|_, (earlier, _)| now.duration_since(*earlier) < hour);
        let edited = self.rules.pools.get_mut(&what.pool).and_then(|rules| rules.edited.as_mut());
        if let Some(edited) = edited.filter(|_| !self.removals.contains_key(instance)) {
            *edited = edited.saturating_sub(1);
        }
        self.removals.entry(instance.clone()).or_insert((now, self.rules.removed_per_hour));
        let most = self.removals.values().map(|(_, allowed)| *allowed).max().unwrap_or(0);
        let count = self.removals.len();
        if count > most as usize {
            self.say(format!("I13: {what} is the {} node removed within an hour, {most} may be", nth(count)));
        }
    }

    fn price(&self, kind: &InstanceType, market: Market) -> Option<Usd> {
        (market == Market::OnDemand).then(|| self.rules.prices.get(kind).copied()).flatten()
    }
}
