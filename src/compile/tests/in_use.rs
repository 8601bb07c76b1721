//! Entries that nodes name stay in their files.

use super::*;
use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG};
use crate::observed::{Gap, NodeSeen, ObjectSeen, Read};

const FLEET: &str = "kind: GpuLayout
metadata: {name: old}
spec: {OLD}
---
kind: GpuLayout
metadata: {name: new}
spec: {NEW}
---
kind: NodePool
metadata: {name: p}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: p5.48xlarge, nodes: 1, layout: LAYOUT}
";

fn node(labels: &[(&str, &str)]) -> NodeSeen {
    NodeSeen {
        uid: "n".into(),
        instance: None,
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        annotations: Default::default(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        moved_by: Default::default(),
        allocatable: Default::default(),
        conditions: Default::default(),
        created: at(DAY),
        boot: None,
    }
}

/// A cluster whose file is as the old layout wants it, and whose one node carries these labels.
fn cluster(old: &Desired, labels: &[(&str, &str)]) -> ClusterSeen {
    let maps = old.objects.iter().filter(|object| object.key.kind == ObjectKind::ConfigMap);
    let maps = maps.map(|object| {
        let written = Some(object.digest.clone());
        (object.key.clone(), ObjectSeen { body: object.body.clone(), written, moved_by: None, deleting: false })
    });
    ClusterSeen {
        nodes: Read::new([("n".into(), node(labels))].into(), at(DAY)),
        objects: Read::new(maps.collect(), at(DAY)),
        ..ClusterSeen::default()
    }
}

/// How many entries the file has beside the layout's own: what is there from before, and what is always there.
fn entries(label: &str, old: &str, new: &str) {
    let target = |layout: &str| {
        let text = FLEET.replace("OLD", old).replace("NEW", new).replace("LAYOUT", layout);
        fleet(&text).target_at(at("2026-06-08T12:00Z"))
    };
    let (before, after) = (compile(&target("old")), target("new"));
    let name = |desired: &Desired, layout: &str| desired.pools["p"].layouts[layout].labels[label].clone();
    let (was, is) = (name(&before, "old"), name(&compile(&after), "new"));
    let key = files::file(label).unwrap();
    let has = |cluster: &ClusterSeen, entry: &str| {
        let desired = compile_beside(&after, &Beside::of(&after, cluster, 0));
        let map = desired.objects.into_iter().find(|object| object.key == key).unwrap();
        let seen = ObjectSeen { body: map.body, written: None, moved_by: None, deleting: false };
        files::has(&[(key.clone(), seen)].into(), label, entry)
    };
    let waits = cluster(&before, &[(label, &was)]);
    assert!(has(&waits, &was) && has(&waits, &is), "a node still names it");
    let done = cluster(&before, &[(label, &is)]);
    assert!(!has(&done, &was) && has(&done, &is), "no node names it any more");
    assert_eq!(compile_beside(&after, &Beside::of(&after, &done, 0)), compile(&after), "and nothing is left of it");
    assert_ne!(
        compile_beside(&after, &Beside::of(&after, &done, 9)),
        compile(&after),
        "nodes are missing from the list"
    );
    let gap = Gap { what: "list nodes".into(), why: "timeout".into() };
    let unread = ClusterSeen { nodes: Read::with_gap([].into(), at(DAY), gap), ..done };
    assert!(has(&unread, &was), "nobody knows whether a node names it");
}

#[test]
fn an_entry_that_a_node_names_stays_until_none_does() {
    entries(MIG_CONFIG, "mig: [{slices: {3g.40gb: 2}}]", "mig: [{slices: {7g.80gb: 1}}]");
    entries(PLUGIN_CONFIG, "timeSlicing: {replicas: 4}", "timeSlicing: {replicas: 2}");
}

#[test]
fn an_entry_that_somebody_edited_is_another_one() {
    let text = FLEET.replace("OLD", "timeSlicing: {replicas: 4}").replace("NEW", "timeSlicing: {replicas: 2}");
    let desired = compiled(&text.replace("LAYOUT", "old"));
    let name = desired.pools["p"].layouts["old"].labels[PLUGIN_CONFIG].clone();
    let mut seen = cluster(&desired, &[]).objects.seen().clone();
    assert!(files::has(&seen, PLUGIN_CONFIG, &name));
    let map = seen.get_mut(&files::file(PLUGIN_CONFIG).unwrap()).unwrap();
    map.body["data"][&name] = json!("{\"version\": \"v1\"}");
    assert!(!files::has(&seen, PLUGIN_CONFIG, &name));
}
