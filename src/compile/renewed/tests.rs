//! Small clusters in which a flavor cannot be as it is wanted.

use super::super::staged::stage;
use super::*;
use crate::effect::marks::POOL;
use crate::fleet::launch::TaintEffect;
use crate::fleet::testing::at;
use crate::ids::Digest;
use crate::observed::{NodeSeen, Read};

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn flavor(topology: &str) -> Value {
    json!({"spec": {"nodeLabels": {POOL: "train"}, "topologyName": topology}})
}

fn queue(flavors: &[(&str, u32)]) -> Value {
    let flavors = flavors.iter().map(|(name, gpus)| {
        json!({"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus.to_string()}]})
    });
    let flavors: Vec<Value> = flavors.collect();
    json!({"spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]}})
}

/// All of it ours, as we wrote it.
fn there(objects: &[(&str, Value)]) -> ClusterSeen {
    let now = at("2026-03-01T12:00Z");
    let seen = |body: &Value| {
        let written: Option<Digest> = Some(Object::new(key("Topology/any"), body.clone()).digest);
        ObjectSeen { body: crate::effect::canonical(body), written, moved_by: None, deleting: false }
    };
    let objects = objects.iter().map(|(name, body)| (key(name), seen(body))).collect();
    ClusterSeen {
        objects: Read::new(objects, now),
        workloads: Read::new(BTreeMap::new(), now),
        ..ClusterSeen::default()
    }
}

/// Levels `b` are wanted, under the plain name.
fn wanted(cluster: &ClusterSeen) -> Desired {
    let objects = [
        ("Topology/b", json!({"spec": {"levels": [{"nodeLabel": "b"}]}})),
        ("ResourceFlavor/train", flavor("b")),
        ("ClusterQueue/vision", queue(&[("train", 16)])),
    ];
    let objects = objects.into_iter().map(|(name, body)| Object::new(key(name), body)).collect();
    let mut desired = Desired { objects, ..Desired::default() };
    stage(&mut desired, cluster);
    desired
}

fn names(desired: &Desired, kind: ObjectKind) -> Vec<String> {
    desired.objects.iter().filter(|one| one.key.kind == kind).map(|one| one.key.name.to_string()).collect()
}

fn of_queue(desired: &Desired) -> BTreeMap<String, i64> {
    let queue = desired.objects.iter().find(|one| one.key.kind == ObjectKind::ClusterQueue).unwrap();
    quotas(&queue.body).into_iter().map(|((flavor, _), quota)| (flavor.to_string(), quota.nominal)).collect()
}

fn old() -> [(&'static str, Value); 3] {
    [
        ("Topology/a", json!({"spec": {"levels": [{"nodeLabel": "a"}]}})),
        ("ResourceFlavor/train", flavor("a")),
        ("ClusterQueue/vision", queue(&[("train", 16)])),
    ]
}

fn versioned() -> String {
    names(&wanted(&there(&old())), ObjectKind::ResourceFlavor).pop().unwrap()
}

#[test]
fn a_flavor_from_nothing_has_the_name_of_its_pool() {
    let desired = wanted(&there(&[]));
    assert_eq!(names(&desired, ObjectKind::ResourceFlavor), ["train"]);
    assert_eq!(of_queue(&desired), [("train".into(), 16)].into());
}

#[test]
fn one_that_cannot_be_changed_gets_another_beside_it_and_stays_while_it_is_named() {
    let desired = wanted(&there(&old()));
    let new = versioned();
    assert!(new.starts_with("train-") && new.len() == "train-".len() + 8, "{new}");
    assert_eq!(names(&desired, ObjectKind::ResourceFlavor), ["train".to_owned(), new.clone()]);
    assert_eq!(names(&desired, ObjectKind::Topology), ["a", "b"]);
    assert_eq!((of_queue(&desired), desired.retired.len()), ([(new, 16)].into(), 0));
}

#[test]
fn it_goes_with_its_topology_when_nobody_names_it() {
    let new = versioned();
    let mut objects: Vec<(String, Value)> =
        old()[..2].iter().map(|(name, body)| ((*name).to_owned(), body.clone())).collect();
    objects.push((format!("ResourceFlavor/{new}"), flavor("b")));
    objects.push(("ClusterQueue/vision".into(), queue(&[(&new, 16)])));
    let objects: Vec<(&str, Value)> = objects.iter().map(|(name, body)| (name.as_str(), body.clone())).collect();
    let desired = wanted(&there(&objects));
    assert_eq!(desired.retired, [key("ResourceFlavor/train"), key("Topology/a")]);
    // And the new name stays when the plain one is free again.
    let left = wanted(&there(&objects[2..]));
    assert_eq!((names(&left, ObjectKind::ResourceFlavor), left.retired.len()), (vec![new], 0));
}

#[test]
fn somebody_elses_flavor_is_left_to_them() {
    let mut cluster = there(&old());
    let mut objects = cluster.objects.seen().clone();
    objects.get_mut(&key("ResourceFlavor/train")).unwrap().written = None;
    cluster.objects = Read::new(objects, at("2026-03-01T12:00Z"));
    assert_eq!(names(&wanted(&cluster), ObjectKind::ResourceFlavor), ["train"]);
}

#[test]
fn nothing_is_over_while_nobody_knows_what_runs() {
    let new = versioned();
    let flavor_key = format!("ResourceFlavor/{new}");
    let objects = [old()[0].clone(), old()[1].clone(), (flavor_key.as_str(), flavor("b"))];
    let mut cluster = there(&objects);
    let gap = crate::observed::Gap { what: "list workloads".into(), why: "no".into() };
    cluster.workloads = Read::with_gap(BTreeMap::new(), at("2026-03-01T12:00Z"), gap);
    assert_eq!(wanted(&cluster).retired, []);
}

/// The pool's flavor with these taints tolerated, by key.
fn tolerating(keys: &[&str]) -> Value {
    let mut body = flavor("a");
    let one = |key: &&str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    if !keys.is_empty() {
        body["spec"]["tolerations"] = keys.iter().map(one).collect();
    }
    body
}

/// What becomes of the pool's flavor in a cluster where it tolerates something else.
fn renewed(is: &[&str], wanted: &[&str], carried: &[&str]) -> Desired {
    let mut objects = old();
    objects[1].1 = tolerating(is);
    let mut cluster = there(&objects);
    let taints = carried.iter().map(|key| Taint { key: (*key).into(), value: None, effect: TaintEffect::NoSchedule });
    let now = at("2026-03-01T12:00Z");
    let node = NodeSeen {
        uid: "n-0".into(),
        instance: None,
        labels: [(POOL.into(), "train".into())].into(),
        annotations: BTreeMap::new(),
        taints: taints.collect(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        allocatable: BTreeMap::new(),
        conditions: BTreeMap::new(),
        created: now,
        boot: None,
        moved_by: BTreeMap::new(),
    };
    cluster.nodes = Read::new([("n-0".into(), node)].into(), now);
    let objects = [old()[0].clone(), ("ResourceFlavor/train", tolerating(wanted)), old()[2].clone()];
    let objects = objects.into_iter().map(|(name, body)| Object::new(key(name), body)).collect();
    let mut desired = Desired { objects, ..Desired::default() };
    stage(&mut desired, &cluster);
    desired
}

#[test]
fn other_tolerations_are_another_flavor_beside_the_old_one() {
    let flavors = |desired: &Desired| names(desired, ObjectKind::ResourceFlavor).len();
    assert_eq!(flavors(&renewed(&[], &["gpu"], &[])), 2);
    assert_eq!(flavors(&renewed(&["gpu"], &[], &[])), 2);
    assert_eq!(flavors(&renewed(&["gpu"], &["gpu"], &["gpu"])), 1);
    // In another order they are the same.
    let turned = renewed(&["gpu", "team"], &["team", "gpu"], &[]);
    assert_eq!(names(&turned, ObjectKind::ResourceFlavor), ["train"]);
    let body = &turned.objects.iter().find(|one| one.key.kind == ObjectKind::ResourceFlavor).unwrap().body;
    assert_eq!(*body, crate::effect::canonical(&tolerating(&["gpu", "team"])));
}

#[test]
fn work_tolerates_a_taint_until_it_is_gone_from_the_nodes() {
    let still = renewed(&["gpu"], &[], &["gpu"]);
    assert_eq!(names(&still, ObjectKind::ResourceFlavor), ["train"]);
    let [staged] = &still.staged[..] else { panic!("{:?}", still.staged) };
    assert_eq!(staged.wanted, "ResourceFlavor train without the toleration of gpu");
    assert_eq!(staged.carried, ["n-0".into()]);
}
