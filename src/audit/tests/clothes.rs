//! What nodes carry, and in which order taints and flavors come.

use serde_json::{Value, json};

use super::bench::*;
use super::flows::held;
use crate::effect::marks::{POOL, WORN, Worn};
use crate::effect::*;
use crate::fleet::launch::{Taint, TaintEffect};
use crate::observed::*;
use crate::plan::*;

const OURS: &str = "only what we put on a node is taken off it";
const LEFT: &str = "what leaves the documents leaves the nodes";
const SHUT: &str = "no taint shuts out work that a queue lets in";
const FIXED: &str = "what the server lets nobody change";

fn taint(effect: TaintEffect) -> Taint {
    Taint { key: "team".into(), value: None, effect }
}

/// Of a node that carries a label and a taint, whoever put them on.
fn wearing(bench: &mut Bench, worn: Option<Worn>) {
    edit(&mut bench.input.observed.cluster.nodes, |all| {
        let node = all.get_mut(&node("train", 0)).unwrap();
        node.labels.insert("team".into(), "vision".into());
        node.labels.insert(POOL.into(), "train".into());
        node.taints.push(taint(TaintEffect::NoSchedule));
        node.annotations.extend(worn.map(|worn| (WORN.to_owned(), worn.text())));
    });
}

fn all() -> Worn {
    Worn { labels: [("team".into(), "vision".into())].into(), taints: vec![taint(TaintEffect::NoSchedule)] }
}

fn undress(bench: &mut Bench) {
    let dress = ClusterAction::Dress {
        node: node("train", 0),
        labels: [("team".to_string(), None)].into(),
        taints: Vec::new(),
        remove_taints: vec![taint(TaintEffect::NoSchedule)],
        notes: [(WORN.to_string(), None)].into(),
    };
    bench.step("dress train/0", Action::Cluster(dress), Reason::Wanted, &[]);
}

fn tainted(bench: &mut Bench, effect: TaintEffect) {
    let dress = ClusterAction::Dress {
        node: node("train", 0),
        labels: [].into(),
        taints: vec![taint(effect)],
        remove_taints: Vec::new(),
        notes: [].into(),
    };
    bench.step("dress train/0", Action::Cluster(dress), Reason::Wanted, &[]);
}

/// The pool's flavor as it is, and a queue that gives it out.
fn flavor(bench: &mut Bench, tolerations: Value) {
    let spec = json!({"nodeLabels": {POOL: "train"}, "topologyName": "host", "tolerations": tolerations});
    let resources = json!([{"name": "nvidia.com/gpu", "nominalQuota": "8"}]);
    let group = json!({"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "train", "resources": resources}]});
    there(bench, "ResourceFlavor/train", json!({"spec": spec}));
    there(bench, "ClusterQueue/other", json!({"spec": {"resourceGroups": [group]}}));
    // What else the flavor should be waits.
    bench.plan.held.push(held(Thing::Objects("ResourceFlavor".into())));
}

fn there(bench: &mut Bench, key: &str, body: Value) {
    let seen = ObjectSeen { body, written: None, moved_by: None, deleting: false };
    edit(&mut bench.input.observed.cluster.objects, |all| drop(all.insert(key.parse().unwrap(), seen)));
}

fn settled() -> Bench {
    Bench::settled(NOON)
}

#[test]
fn what_left_the_documents_is_taken_off_or_held() {
    settled().with(|bench| wearing(bench, Some(all()))).breaks(LEFT, "train-0 still carries label team");
    let both = |bench: &mut Bench| {
        wearing(bench, Some(all()));
        undress(bench);
    };
    settled().with(both).passes();
    settled().with(|bench| wearing(bench, Some(Worn::default()))).passes();
}

#[test]
fn what_somebody_else_put_on_is_not_taken_off() {
    let taken = |worn: Option<Worn>| {
        settled().with(|bench| {
            wearing(bench, worn);
            undress(bench);
        })
    };
    taken(Some(all())).passes();
    taken(Some(Worn::default())).breaks(OURS, "team was not put on train-0 by us");
    taken(None).breaks(OURS, "taint team was not put on train-0 by us");
    let other = Worn { labels: [("team".into(), "speech".into())].into(), ..all() };
    taken(Some(other)).breaks(OURS, "team was not put on train-0 by us");
}

#[test]
fn a_taint_waits_for_queues_whose_work_tolerates_it() {
    let with = |tolerations: Value| {
        settled().with(|bench| {
            flavor(bench, tolerations);
            tainted(bench, TaintEffect::NoSchedule);
        })
    };
    with(json!([])).breaks(SHUT, "lets in work that does not tolerate team");
    with(json!([{"key": "team", "operator": "Exists", "effect": "NoExecute"}])).breaks(SHUT, "does not tolerate team");
    with(json!([{"key": "team", "operator": "Exists", "effect": "NoSchedule"}])).passes();
}

#[test]
fn who_would_be_ended_by_a_taint_is_looked_for_again() {
    let tolerations = json!([{"key": "team", "operator": "Exists"}]);
    let ends = |pods: Option<Vec<crate::ids::Uid>>| {
        settled().with(|bench| {
            flavor(bench, tolerations.clone());
            tainted(bench, TaintEffect::NoExecute);
            let fact = pods.map(|pods| Fact::NobodyBut { node: node("train", 0), pods: pods.into_iter().collect() });
            bench.plan.steps.last_mut().unwrap().requires.extend(fact);
        })
    };
    ends(None).breaks(SHUT, "nobody looks again who is on train-0");
    ends(Some(Vec::new())).passes();
}

#[test]
fn a_flavor_with_a_topology_is_not_given_other_tolerations() {
    let mut bench = settled();
    flavor(&mut bench, json!([]));
    let spec = json!({"nodeLabels": {POOL: "train"}, "topologyName": "host", "tolerations": [{"key": "team"}]});
    let object = Object::new("ResourceFlavor/train".parse().unwrap(), json!({"spec": spec}));
    bench.step("apply flavor", Action::Cluster(ClusterAction::Apply(object)), Reason::Wanted, &[]);
    bench.breaks_also(FIXED, "tolerations of ResourceFlavor/train would be another");
}
