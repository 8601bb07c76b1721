//! What must never happen, whatever is planned, faulty or crashed: seen at every change of the world.
//!
//! Written from the facts on safety, not from the planner: it looks only at the simulated world, at the calls that
//! reach it, and at the limits that the documents state. The numbers are those of the facts.
//!
//! | | |
//! | --- | --- |
//! | I1 | one slot, one live instance |
//! | I2 | a machine is ended or booted only when its node is cordoned by us and holds nothing |
//! | I3 | nothing of somebody else is touched |
//! | I4 | pods leave through the eviction API; by force only where a machine goes anyway |
//! | I5 | the simulator answers evictions as the API server does, so budgets hold where nothing is forced |
//! | I6 | a gang is evicted whole or not at all |
//! | I8 | nothing is done under a freeze or to a node with hands off |
//! | I13 | so many nodes an hour are removed by choice, and not more |
//! | I14 | hourly cost within its limit; an offer is bought once |

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;

use crate::effect::marks::{CORDON, HANDS_OFF, STARTING_TAINT};
use crate::effect::{CloudAction, ClusterAction, Scope};
use crate::fleet::standing::Standing;
use crate::ids::{InstanceId, InstanceType, NodeName, OfferingId, PoolName, SlotId};
use crate::observed::{ClusterSeen, Market, NodeSeen};
use crate::provider::sim::{Deed, Moment, State};
use crate::units::Usd;

/// Who watches. What is broken stays broken: one sentence each.
#[derive(Clone, Default, Debug)]
pub struct Watch {
    pub broken: Vec<String>,
    hourly: Option<Usd>,
    prices: BTreeMap<InstanceType, Usd>,
    /// The most that was allowed within the last hour.
    removals: Vec<(Timestamp, u32)>,
    removed_per_hour: u32,
    bought: BTreeMap<OfferingId, u32>,
    judged: usize,
    removed: BTreeSet<(PoolName, u32, Timestamp)>,
}

const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);

impl Watch {
    /// The limits that the documents state from now on.
    pub fn rules(&mut self, standing: &Standing) {
        self.hourly = standing.limits.hourly_usd;
        self.removed_per_hour = standing.limits.nodes_removed_per_hour;
        for pool in standing.pools.values() {
            if let Some(price) = pool.shape.on_demand {
                self.prices.insert(pool.shape.instance_type.clone(), price);
            }
        }
    }

    /// One call that would change something.
    pub fn see(&mut self, state: &State, deed: &Deed<'_>, moment: Moment) {
        match (deed, moment) {
            (Deed::Cloud(action), Moment::Before) => self.before_cloud(state, action),
            (Deed::Cluster(action), Moment::Before) => self.before_cluster(state, action),
            (Deed::Cloud(action), Moment::After { yes: true }) => self.after_cloud(state, action),
            _ => {}
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
        self.one_instance_a_slot(state);
        self.removals(state);
    }

    fn say(&mut self, what: String) {
        if !self.broken.contains(&what) {
            self.broken.push(what);
        }
    }

    fn one_instance_a_slot(&mut self, state: &State) {
        let mut live: BTreeMap<&SlotId, Vec<&InstanceId>> = BTreeMap::new();
        for (id, found) in state.cloud.instances.iter().filter(|(_, found)| found.state.serves()) {
            if let Some(tag) = &found.tag {
                live.entry(&tag.slot).or_default().push(id);
            }
        }
        let twice = live.into_iter().filter(|(_, ids)| ids.len() > 1);
        let twice: Vec<String> = twice
            .map(|(slot, ids)| {
                let ids: Vec<&str> = ids.into_iter().map(InstanceId::as_str).collect();
                format!("I1: {slot} has {}", ids.join(" and "))
            })
            .collect();
        twice.into_iter().for_each(|what| self.say(what));
    }

    fn removals(&mut self, state: &State) {
        let (ledger, _) = state.ledger.whole();
        let known: BTreeSet<(PoolName, u32, Timestamp)> = ledger
            .pools
            .iter()
            .flat_map(|(pool, known)| known.removed.iter().map(|(index, at)| (pool.clone(), *index, *at)))
            .collect();
        for (pool, index, at) in known.difference(&self.removed.clone()) {
            self.removals.retain(|(earlier, _)| at.duration_since(*earlier) < AN_HOUR);
            self.removals.push((*at, self.removed_per_hour));
            let most = self.removals.iter().map(|(_, allowed)| *allowed).max().unwrap_or(0);
            if self.removals.len() > most as usize {
                let count = self.removals.len();
                self.say(format!("I13: {pool}/{index} is the {count}th node removed within an hour, {most} may be"));
            }
        }
        self.removed.extend(known);
    }

    fn before_cloud(&mut self, state: &State, action: &CloudAction) {
        self.frozen(state, &Deed::Cloud(action), pool_of(action));
        let (CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. }) = action else { return };
        let seen = state.cluster.observe(state.now);
        let serves = state.cloud.instances.get(instance).is_some_and(|found| found.state.serves());
        let Some((name, node)) = node_of(&seen, instance).filter(|_| serves) else { return };
        if node.annotation(HANDS_OFF).is_some() {
            self.say(format!("I8: {name} has hands off, and {} was called", Deed::Cloud(action).verb()));
        }
        let starting = node.taints.iter().any(|taint| taint.key == STARTING_TAINT);
        if node.annotation(CORDON).is_none() && !starting {
            self.say(format!("I2: {} of {name}, which does not carry our cordon", Deed::Cloud(action).verb()));
        }
    }

    fn after_cloud(&mut self, state: &State, action: &CloudAction) {
        match action {
            CloudAction::Launch(request) => {
                self.one_instance_a_slot(state);
                let (ledger, _) = state.ledger.whole();
                let replaces = ledger.slot(&request.slot).is_some_and(|slot| slot.lost || slot.generation > 1);
                if matches!(request.market, Market::OnDemand | Market::Spot) && !replaces {
                    self.spending(state);
                }
            }
            CloudAction::Purchase(request) => {
                let times = self.bought.entry(request.offering.clone()).or_default();
                *times += 1;
                if *times > 1 {
                    self.say(format!("I14: {} was bought twice", request.offering));
                }
            }
            _ => {}
        }
    }

    /// Spot is counted at what it may cost at most.
    fn spending(&mut self, state: &State) {
        let paid = state.cloud.instances.values().filter(|found| found.tag.is_some() && found.state.serves());
        let cost: Decimal = paid
            .filter_map(|found| match found.market {
                Market::OnDemand => self.prices.get(&found.instance_type).map(|price| price.0),
                _ => None,
            })
            .sum();
        if self.hourly.is_none_or(|limit| cost > limit.0) {
            let limit = self.hourly.map_or(Decimal::ZERO, |limit| limit.0);
            self.say(format!("I14: {cost} dollars an hour are spent, {limit} may be"));
        }
    }

    fn before_cluster(&mut self, state: &State, action: &ClusterAction) {
        let seen = state.cluster.observe(state.now);
        let node = match action {
            ClusterAction::Dress { node, .. }
            | ClusterAction::Cordon { node, .. }
            | ClusterAction::Uncordon { node }
            | ClusterAction::Cut { node, .. } => Some(node),
            _ => None,
        };
        if let Some(name) = node {
            self.touches(state, &seen, action, name);
        }
        let pool = node.and_then(|name| pool_of_node(state, &seen, name));
        self.frozen(state, &Deed::Cluster(action), pool.as_ref());
        match action {
            ClusterAction::Evict { pods, force } => {
                self.whole_gangs(&seen, pods.iter().map(|(_, uid)| uid.as_str()).collect());
                if *force && !anything_ends(state) {
                    self.say("I4: pods are deleted by force, and nothing ends".into());
                }
            }
            ClusterAction::Delete(key) | ClusterAction::Disown(key)
                if seen.objects.seen().get(key).is_some_and(|found| found.written.is_none()) =>
            {
                self.say(format!("I3: {key} is not ours, and {} was called", Deed::Cluster(action).verb()));
            }
            _ => {}
        }
    }

    /// A node is ours where a slot of the ledger has it, or its instance.
    fn touches(&mut self, state: &State, seen: &ClusterSeen, action: &ClusterAction, name: &NodeName) {
        let Some(node) = seen.nodes.seen().get(name) else { return };
        let verb = Deed::Cluster(action).verb();
        if node.annotation(HANDS_OFF).is_some() {
            self.say(format!("I8: {name} has hands off, and {verb} was called"));
        }
        let instance = node.instance.as_ref().and_then(|id| state.cloud.instances.get(id));
        let tagged = instance.is_some_and(|found| found.tag.is_some());
        if !tagged && pool_of_node(state, seen, name).is_none() && node.annotation(CORDON).is_none() {
            self.say(format!("I3: {name} is not ours, and {verb} was called"));
        }
        if matches!(action, ClusterAction::Cut { .. }) {
            let busy = seen.pods.seen().iter().find(|pod| pod.node.as_ref() == Some(name) && pod.counts());
            if let Some(pod) = busy {
                self.say(format!("I2: {name} is cut while {} is on it", pod.name));
            }
        }
    }

    fn whole_gangs(&mut self, seen: &ClusterSeen, evicted: BTreeSet<&str>) {
        let all = seen.pods.seen();
        let hit = all.iter().filter(|pod| evicted.contains(pod.uid.as_str()));
        let gangs: BTreeSet<_> = hit.filter_map(|pod| pod.gang.as_ref()).collect();
        for gang in gangs {
            let left = all.iter().find(|pod| {
                pod.gang.as_ref() == Some(gang) && pod.terminating.is_none() && !evicted.contains(pod.uid.as_str())
            });
            if let Some(pod) = left.filter(|pod| pod.counts()) {
                self.say(format!("I6: a part of gang {gang} is evicted, and {} is left", pod.name));
            }
        }
    }

    /// Under a freeze nothing is done, but what goes with a machine that ends anyway.
    fn frozen(&mut self, state: &State, deed: &Deed<'_>, pool: Option<&PoolName>) {
        let stops = state.ledger.head().frozen.iter().find(|freeze| match &freeze.scope {
            Scope::Fleet => true,
            Scope::Pool(name) => pool == Some(name),
            Scope::Node(_) => false,
        });
        if stops.is_some_and(|freeze| freeze.all || !anything_ends(state)) {
            self.say(format!("I8: {} {} was called under a freeze", deed.verb(), deed.subject()));
        }
    }
}

/// Whether some machine of ours will be taken away, so that there are deadlines.
fn anything_ends(state: &State) -> bool {
    let mut ours = state.cloud.instances.values().filter(|found| found.tag.is_some() && found.state.serves());
    ours.any(|found| found.notice.is_some() || found.market == Market::Block)
}

fn pool_of(action: &CloudAction) -> Option<&PoolName> {
    match action {
        CloudAction::Launch(request) => Some(&request.slot.pool),
        CloudAction::Terminate { slot, .. } | CloudAction::Reboot { slot, .. } => Some(&slot.pool),
        _ => None,
    }
}

fn node_of<'a>(seen: &'a ClusterSeen, instance: &InstanceId) -> Option<(&'a NodeName, &'a NodeSeen)> {
    seen.nodes.seen().iter().find(|(_, node)| node.instance.as_ref() == Some(instance))
}

/// The pool whose slot has a node.
fn pool_of_node(state: &State, seen: &ClusterSeen, name: &NodeName) -> Option<PoolName> {
    let instance = seen.nodes.seen().get(name).and_then(|node| node.instance.as_ref());
    let (ledger, _) = state.ledger.whole();
    let has = |slot: &crate::effect::Slot| {
        slot.node.as_ref() == Some(name) || (instance.is_some() && slot.instance.as_ref() == instance)
    };
    ledger.pools.into_iter().find(|(_, pool)| pool.slots.values().any(has)).map(|(pool, _)| pool)
}
