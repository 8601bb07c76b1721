//! Calls to the cluster.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::unionfind::UnionFind;
use serde_json::Value;

use super::scene::{Scene, file, lists};
use super::{GANG_WINDOW, Watch};
use crate::effect::ClusterAction;
use crate::effect::desired::LaidOut;
use crate::effect::marks::{CORDON, HANDS_OFF, MIG_CONFIG, MIG_STATE, Mark, PLUGIN_CONFIG, is_starting};
use crate::ids::{NodeName, Uid};
use crate::observed::{GangName, NodeSeen, ObjectKey, ObjectKind, PodSeen, READY};
use crate::provider::sim::Deed;

impl Watch {
    pub(super) fn before_cluster(&mut self, scene: &Scene<'_>, action: &ClusterAction) {
        self.budgets = scene.seen.budgets.seen().clone();
        let nodes = touched(scene, action);
        self.frozen(scene, &Deed::Cluster(action), &nodes, None);
        let verb = Deed::Cluster(action).verb();
        for name in &nodes {
            self.touches(scene, name, verb);
        }
        match action {
            ClusterAction::Cordon { node, mark } => self.update_budget(scene, node, mark),
            ClusterAction::Cut { node, laid_out, flip, .. } => {
                for (label, entry) in laid_out.labels.iter().filter(|(label, entry)| !scene.lists(label, entry)) {
                    self.say(format!("I11: {node} is told {label}={entry}, which is in no file"));
                }
                if let Some(seen) = scene.node(node).cloned() {
                    self.may_be_disturbed(scene, node, &seen, verb);
                    if !flip && is_deaf(&seen, laid_out) {
                        self.say(format!(
                            "I11: {node} is cut by the label that it carries, and its mig-manager failed"
                        ));
                    }
                }
            }
            ClusterAction::Evict { pods, force } => {
                self.whole_gangs(scene, pods.iter().map(|(_, uid)| uid).collect());
                if pods.iter().any(|(_, uid)| uid.as_str().is_empty()) {
                    self.say("I4: a pod is evicted whose UID nobody names".into());
                }
                if let Some(node) = nodes.iter().find(|node| *force && !scene.ends(node)) {
                    self.say(format!("I4: pods are deleted by force, and {node} does not end"));
                }
            }
            ClusterAction::Dress { node, labels, .. } => self.admitted_labels(scene, node, labels),
            ClusterAction::Apply(object) if object.key.kind == ObjectKind::ConfigMap => {
                self.named_entries(scene, &object.key, &object.body);
            }
            // To let go of what is not ours changes nothing: two may do it at once.
            ClusterAction::Delete(key)
                if scene.seen.objects.seen().get(key).is_some_and(|found| found.written.is_none()) =>
            {
                self.say(format!("I3: {key} is not ours, and {verb} was called"));
            }
            _ => {}
        }
    }

    pub(super) fn after_cluster(&mut self, scene: &Scene<'_>, action: &ClusterAction) {
        match action {
            ClusterAction::Cordon { node, .. } if is_cordoned(scene, node) => {
                self.cordoned.entry(node.clone()).or_insert(scene.state.now);
            }
            ClusterAction::Uncordon { node } => drop(self.cordoned.remove(node)),
            ClusterAction::Evict { force: false, .. } => self.disruption_budgets(scene),
            _ => {}
        }
    }

    /// A pod that is made again looks for what its flavor says, and finds no node that lost it.
    fn admitted_labels(&mut self, scene: &Scene<'_>, node: &NodeName, labels: &BTreeMap<String, Option<String>>) {
        let on_it = |pod: &&PodSeen| pod.node.as_ref() == Some(node) && pod.counts() && pod.terminating.is_none();
        for pod in scene.seen.pods.seen().iter().filter(on_it) {
            let work = pod.workload.as_ref().and_then(|uid| scene.seen.workloads.seen().get(uid));
            let flavors = work.filter(|one| one.reserved.is_some()).into_iter().flat_map(|one| one.flavors.values());
            for flavor in flavors {
                let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, flavor.as_str());
                let found =
                    scene.seen.objects.seen().get(&key).and_then(|found| found.body["spec"]["nodeLabels"].as_object());
                let lost = |(key, value): &(&String, &Value)| {
                    let is = scene.node(node).and_then(|seen| seen.labels.get(*key)).map(String::as_str);
                    is == value.as_str() && labels.get(*key).is_some_and(|new| new.as_deref() != value.as_str())
                };
                if let Some((key, _)) = found.into_iter().flatten().find(lost) {
                    self.say(format!("I16: {node} loses {key}, which {} looks for", pod.name));
                }
            }
        }
    }

    /// What nodes of ours were told stays in its file: whoever starts again on them looks it up.
    fn named_entries(&mut self, scene: &Scene<'_>, key: &ObjectKey, body: &Value) {
        for label in [MIG_CONFIG, PLUGIN_CONFIG].into_iter().filter(|label| file(label).as_ref() == Some(key)) {
            for (name, node) in scene.seen.nodes.seen() {
                let told = node.labels.get(label).filter(|entry| scene.lists(label, entry));
                if let Some(entry) = told.filter(|entry| !lists(body, entry)) {
                    self.say(format!("I11: {name} names {label}={entry}, and {key} loses it"));
                }
            }
        }
    }

    /// A node is ours where its instance carries our tag, or a slot has it, or our mark is on it.
    fn touches(&mut self, scene: &Scene<'_>, name: &NodeName, verb: &str) {
        let Some(node) = scene.node(name) else { return };
        if node.annotation(HANDS_OFF).is_some() {
            self.say(format!("I8: {name} has hands off, and {verb} was called"));
        }
        let tagged = scene.instance(node).is_some_and(|found| found.tag.is_some());
        if !tagged && scene.slot_of(name).is_none() && node.annotation(CORDON).is_none() {
            self.say(format!("I3: {name} is not ours, and {verb} was called"));
        }
    }

    /// An eviction may use a budget up, and takes nothing from one that is used up.
    fn disruption_budgets(&mut self, scene: &Scene<'_>) {
        for (name, after) in scene.seen.budgets.seen() {
            let before = self.budgets.get(name).map_or(after.healthy, |before| before.healthy);
            if after.healthy < before && after.healthy < after.desired {
                let (healthy, desired) = (after.healthy, after.desired);
                self.say(format!("I5: an eviction leaves {name} {healthy} healthy pods, and it wants {desired}"));
            }
        }
    }

    fn whole_gangs(&mut self, scene: &Scene<'_>, evicted: BTreeSet<&Uid>) {
        let all = scene.seen.pods.seen();
        let hit = all.iter().filter(|pod| evicted.contains(&pod.uid));
        let gangs: BTreeSet<&GangName> = hit.filter_map(|pod| pod.gang.as_ref()).collect();
        for gang in gangs {
            let members = || all.iter().filter(|pod| pod.gang.as_ref() == Some(gang) && pod.counts());
            let left = members().find(|pod| pod.terminating.is_none() && !evicted.contains(&pod.uid));
            if let Some(pod) = left {
                self.say(format!("I6: a part of gang {} is evicted, and {} is left", gang.0, pod.name));
            }
            let uids = members().map(|pod| pod.uid.clone()).collect();
            self.evicted.entry(gang.clone()).or_insert((scene.state.now, uids));
        }
    }

    /// Of a gang that was evicted nobody is left behind when its window is over.
    pub(super) fn half_gangs(&mut self, scene: &Scene<'_>) {
        let now = scene.state.now;
        let over: Vec<_> = self.evicted.iter().filter(|(_, (at, _))| now.duration_since(*at) > GANG_WINDOW).collect();
        let mut said = Vec::new();
        let mut done = Vec::new();
        for (gang, (_, members)) in over {
            let there = scene.seen.pods.seen().iter().filter(|pod| members.contains(&pod.uid));
            let stays: Vec<_> = there.filter(|pod| pod.terminating.is_none() && pod.counts()).collect();
            if let Some(pod) = stays.first().filter(|_| stays.len() < members.len()) {
                said.push(format!("I6: gang {} is half gone, and {} is still there", gang.0, pod.name));
            }
            done.push(gang.clone());
        }
        said.into_iter().for_each(|what| self.say(what));
        done.iter().for_each(|gang| drop(self.evicted.remove(gang)));
    }

    /// No more of a pool is away at once, for the sake of an update, than its document says; what one gang ties
    /// together is one.
    fn update_budget(&mut self, scene: &Scene<'_>, name: &NodeName, mark: &Mark) {
        let Some((slot, _)) = scene.slot_of(name) else { return };
        let (Some(rules), Some(node)) = (self.rules.pools.get(&slot.pool).cloned(), scene.node(name)) else { return };
        let is_well = node.ready && node.conditions.values().all(|seen| seen.xids.is_empty()) && !scene.ends(name);
        let outdated = scene.instance(node).is_some_and(|found| found.digest != rules.template);
        // A node that nobody was let on yet is missed by nobody.
        let counts = mark.why == "exchange" || (mark.why == "replace" && outdated);
        if !counts || !is_well || is_starting(node) || node.annotation(CORDON).is_some() {
            return;
        }
        let Some(known) = scene.ledger.pools.get(&slot.pool) else { return };
        let mut away: Vec<Option<NodeName>> = vec![Some(name.clone())];
        let mut up = 0;
        for record in known.slots.iter().filter(|(index, _)| **index != slot.index).map(|(_, record)| record) {
            let found = match (&record.node, &record.instance) {
                (Some(node), _) => scene.node(node).map(|seen| (node.clone(), seen)),
                (None, Some(id)) => scene.node_of(id).map(|(name, seen)| (name.clone(), seen)),
                // It was never there: nobody misses it.
                (None, None) if record.generation == 0 => continue,
                (None, None) => None,
            };
            // One that dies with this very call was there when whoever calls looked.
            let fell_before = |seen: &NodeSeen| {
                let since = seen.conditions.get(READY).map(|seen| seen.since);
                !seen.ready && since.is_none_or(|since| since < scene.state.now)
            };
            match found {
                Some((name, seen)) if fell_before(seen) || is_away(seen.annotation(CORDON)) => away.push(Some(name)),
                Some(_) => up += 1,
                None => away.push(None),
            }
        }
        // Of more slots than the pool wants, those without a node are missed last, whatever their numbers.
        let missed = rules.size.map_or(usize::MAX, |size| (size as usize).saturating_sub(up)).max(1);
        away.sort_by_key(Option::is_none);
        away.truncate(missed);
        let units = units(scene, &away);
        if units > rules.at_once as usize {
            let (pool, most) = (&slot.pool, rules.at_once);
            let others = away.iter().flatten().filter(|other| *other != name).map(NodeName::to_string);
            let others = others.collect::<Vec<_>>().join(", ");
            self.say(format!(
                "I7: {name} makes it {units} nodes of pool/{pool} that are away, {most} may be; there is no {others}"
            ));
        }
    }
}

fn is_away(mark: Option<&str>) -> bool {
    mark.map(Mark::parse).is_some_and(|mark| ["replace", "cut", "exchange"].contains(&mark.why.as_str()))
}

fn is_cordoned(scene: &Scene<'_>, node: &NodeName) -> bool {
    scene.node(node).is_some_and(|node| node.annotation(CORDON).is_some())
}

/// The nodes that a call disturbs or changes.
fn touched(scene: &Scene<'_>, action: &ClusterAction) -> BTreeSet<NodeName> {
    match action {
        ClusterAction::Dress { node, .. }
        | ClusterAction::Cordon { node, .. }
        | ClusterAction::Uncordon { node }
        | ClusterAction::Cut { node, .. } => BTreeSet::from([node.clone()]),
        ClusterAction::Ask { workload, .. }
        | ClusterAction::Suspend { workload, .. }
        | ClusterAction::Shrink { workload, .. } => scene.nodes_of(workload).cloned().collect(),
        ClusterAction::Evict { pods, .. } | ClusterAction::AskPods { pods, .. } => {
            let uids: BTreeSet<&Uid> = pods.iter().map(|(_, uid)| uid).collect();
            let hit = scene.seen.pods.seen().iter().filter(|pod| uids.contains(&pod.uid));
            hit.filter_map(|pod| pod.node.clone()).collect()
        }
        ClusterAction::Apply(_)
        | ClusterAction::Delete(_)
        | ClusterAction::Disown(_)
        | ClusterAction::Resume { .. } => BTreeSet::new(),
    }
}

/// How many of these stand for themselves: those that share a gang are one.
fn units(scene: &Scene<'_>, nodes: &[Option<NodeName>]) -> usize {
    let mut sets = UnionFind::<usize>::new(nodes.len());
    let mut first: BTreeMap<&GangName, usize> = BTreeMap::new();
    for (place, name) in nodes.iter().enumerate() {
        let Some(name) = name else { continue };
        for pod in scene.seen.pods.seen().iter().filter(|pod| pod.node.as_ref() == Some(name)) {
            if let Some(gang) = &pod.gang {
                let other = *first.entry(gang).or_insert(place);
                sets.union(place, other);
            }
        }
    }
    (0..nodes.len()).map(|place| sets.find(place)).collect::<BTreeSet<_>>().len()
}

/// Whether its mig-manager failed, and hears only of another value.
fn is_deaf(node: &NodeSeen, laid_out: &LaidOut) -> bool {
    let has = |key: &str| node.labels.get(key).map(String::as_str);
    has(MIG_STATE) == Some("failed") && has(MIG_CONFIG) == laid_out.labels.get(MIG_CONFIG).map(String::as_str)
}
