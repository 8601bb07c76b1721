//! Calls to the cloud.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;

use super::Watch;
use super::scene::Scene;
use crate::effect::marks::{CORDON, HANDS_OFF, Mark, is_starting};
use crate::effect::{CloudAction, LaunchRequest, SETTLE};
use crate::ids::{InstanceId, NodeName, PoolName, SlotId};
use crate::observed::{Market, NodeSeen, PodSeen};
use crate::provider::sim::Deed;

/// So long a kubelet that starts again may be away.
const SILENT: SignedDuration = SignedDuration::from_mins(10);

impl Watch {
    pub(super) fn before_cloud(&mut self, scene: &Scene<'_>, action: &CloudAction) {
        let nodes: BTreeSet<NodeName> = match action {
            CloudAction::Terminate { instance, .. } | CloudAction::Reboot { instance, .. } => {
                scene.node_of(instance).map(|(name, _)| name.clone()).into_iter().collect()
            }
            _ => BTreeSet::new(),
        };
        self.frozen(scene, &Deed::Cloud(action), &nodes, pool_of(action));
        match action {
            CloudAction::Launch(request) => self.is_on_record(scene, request),
            CloudAction::Terminate { slot, instance } | CloudAction::Reboot { slot, instance } => {
                self.ends_a_machine(scene, action, slot, instance);
            }
            CloudAction::Purchase(request) => {
                let known = scene.ledger.head.purchases.iter().any(|one| one.intent.request == *request);
                if !known {
                    self.say(format!("I14: {} is bought, and nobody wrote that down before", request.offering));
                }
            }
            _ => {}
        }
    }

    /// The request is the one that the ledger has, or was answered meanwhile: then it makes nothing.
    fn is_on_record(&mut self, scene: &Scene<'_>, request: &LaunchRequest) {
        let known = scene.ledger.slot(&request.slot);
        let open = known.and_then(|slot| slot.intent.as_ref()).is_some_and(|intent| {
            let known = &intent.request;
            // Which token it carries is seen by what comes of it: I1 and I9.
            LaunchRequest { token: request.token.clone(), ..known.clone() } == *request
        });
        let over = known.is_some_and(|slot| slot.intent.is_none() && slot.generation >= request.generation);
        if !open && !over {
            self.say(format!("I8: {} is launched by a request that is not on record", request.slot));
        }
    }

    fn ends_a_machine(&mut self, scene: &Scene<'_>, action: &CloudAction, slot: &SlotId, instance: &InstanceId) {
        let verb = Deed::Cloud(action).verb();
        if !scene.serves(instance) {
            return;
        }
        if scene.ledger.slot(slot).and_then(|slot| slot.instance.as_ref()) != Some(instance) {
            self.say(format!("I3: {instance} is not on record as {slot}, and {verb} was called"));
        }
        let Some((name, node)) = scene.node_of(instance) else { return };
        self.may_be_disturbed(scene, name, node, verb);
        if matches!(action, CloudAction::Terminate { .. }) && self.is_choice(scene, slot, name, node) {
            self.removal(scene.state.now, instance, slot);
        }
    }

    /// Cordoned by us, for long enough that nothing more can come, and no person's hand on it. How long is told by our
    /// own mark, so only clocks that agree can be held to seconds.
    pub(super) fn may_be_disturbed(&mut self, scene: &Scene<'_>, name: &NodeName, node: &NodeSeen, verb: &str) {
        if node.annotation(HANDS_OFF).is_some() {
            self.say(format!("I8: {name} has hands off, and {verb} was called"));
        }
        if is_starting(node) {
            return;
        }
        if node.annotation(CORDON).is_none() {
            self.say(format!("I2: {verb} of {name}, which does not carry our cordon"));
        } else if let Some(since) = self.cordoned.get(name)
            && scene.state.now.duration_since(*since) < SETTLE
            && self.skew.is_zero()
        {
            self.say(format!("I2: {verb} of {name}, which was cordoned less than five seconds ago"));
        }
        if let Some(pod) = scene.pods_on(name).find(|pod| verb != "terminate" || !self.is_stuck(scene, node, pod)) {
            self.say(format!("I2: {verb} of {name} while {} is on it", pod.name));
        }
    }

    /// Whether nobody will see a pod gone before its machine is: it was told to end and had its time, and its node has
    /// said nothing for ten minutes. Our own clock, which may be wrong, tells whoever decides that.
    fn is_stuck(&self, scene: &Scene<'_>, node: &NodeSeen, pod: &PodSeen) -> bool {
        let passed = |since: Timestamp| scene.state.now.duration_since(since) + self.skew.abs();
        let silent = !node.ready && node.unready_since.is_some_and(|since| passed(since) >= SILENT);
        let grace = SignedDuration::from_secs(pod.grace_secs.into());
        silent && pod.terminating.is_some_and(|since| passed(since) >= grace)
    }

    /// Whether a node that is well goes only because the documents changed.
    fn is_choice(&self, scene: &Scene<'_>, slot: &SlotId, name: &NodeName, node: &NodeSeen) -> bool {
        let Some(rules) = self.rules.pools.get(&slot.pool) else { return true };
        let is_well = node.ready && node.conditions.values().all(|seen| seen.xids.is_empty()) && !scene.ends(name);
        let why = node.annotation(CORDON).map(Mark::parse).map(|mark| mark.why).unwrap_or_default();
        let outdated = scene.instance(node).is_some_and(|found| found.digest != rules.template);
        match why.as_str() {
            // More are there than the documents ask for; what a tide gives up is within their size, and what it brought goes
            // as it turns.
            "remove" => {
                let beyond = rules.size.is_some_and(|size| filled(scene, &slot.pool) > size);
                is_well && beyond && rules.edited.is_none_or(|edited| edited > 0)
            }
            "replace" => is_well && outdated && !was_treated(scene, slot),
            _ => false,
        }
    }

    pub(super) fn after_cloud(&mut self, scene: &Scene<'_>, action: &CloudAction, yes: bool) {
        self.one_instance_a_slot(scene);
        self.one_thing_a_request(scene.state);
        match action {
            CloudAction::Launch(request) if yes => {
                let replaces = scene.ledger.slot(&request.slot).is_some_and(|slot| slot.lost || slot.generation > 1);
                if matches!(request.market, Market::OnDemand | Market::Spot) && !replaces {
                    self.spending(scene);
                }
            }
            CloudAction::Purchase(request) if yes => {
                let times = self.bought.entry(request.offering.clone()).or_default();
                *times += 1;
                if *times > 1 {
                    self.say(format!("I14: {} was bought twice", request.offering));
                }
            }
            _ => {}
        }
    }

    /// Spot is left out: what it costs is what others bid.
    fn spending(&mut self, scene: &Scene<'_>) {
        let paid = scene.state.cloud.instances.values().filter(|found| found.tag.is_some() && found.state.serves());
        let cost: Decimal =
            paid.filter_map(|found| self.price(&found.instance_type, found.market)).map(|price| price.0).sum();
        let limit = self.rules.hourly.map_or(Decimal::ZERO, |limit| limit.0);
        if cost > limit {
            self.say(format!("I14: {cost} dollars an hour are spent, {limit} may be"));
        }
    }
}

/// How many slots of a pool have something.
fn filled(scene: &Scene<'_>, pool: &PoolName) -> u32 {
    let known = scene.ledger.pools.get(pool);
    known.map_or(0, |known| known.slots.values().filter(|slot| slot.is_something()).map(|_| 1).sum())
}

/// Something was done about the slot's health since its node was launched.
fn was_treated(scene: &Scene<'_>, slot: &SlotId) -> bool {
    let Some(known) = scene.ledger.slot(slot) else { return false };
    let mut done = known.remedies.iter().filter(|one| !one.is_report());
    done.any(|one| known.launched.is_none_or(|launched| one.at >= launched))
}

fn pool_of(action: &CloudAction) -> Option<&PoolName> {
    match action {
        CloudAction::Launch(request) => Some(&request.slot.pool),
        CloudAction::Terminate { slot, .. } | CloudAction::Reboot { slot, .. } => Some(&slot.pool),
        _ => None,
    }
}
