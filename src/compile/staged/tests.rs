//! What waits and for whom, in small clusters of two queues.

use super::*;
use crate::fleet::testing::at;
use crate::observed::{ObjectSeen, Read};

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

/// A queue with so many GPUs of each flavor.
fn queue(cohort: Option<&str>, flavors: &[(&str, u32)]) -> Value {
    let flavors: Vec<Value> = flavors
        .iter()
        .map(|(name, gpus)| {
            json!({"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus.to_string(),
            "borrowingLimit": "8", "lendingLimit": "4"}]})
        })
        .collect();
    let body = json!({"spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]}});
    with_cohort(&body, cohort)
}

fn cohort(parent: Option<&str>) -> Value {
    with_parent(&json!({"spec": {}}), parent)
}

fn runs(name: &str, queue: &str) -> WorkloadSeen {
    let requests: BTreeMap<ResourceName, i64> = [("nvidia.com/gpu".into(), 8)].into();
    WorkloadSeen {
        name: name.parse().unwrap(),
        queue: queue.into(),
        tier: None,
        priority: 0,
        created: at("2026-03-01T09:00Z"),
        active: true,
        marks: BTreeMap::new(),
        pods: 1,
        fewest: None,
        per_pod: requests.clone(),
        requests,
        required_level: None,
        preferred_level: None,
        placed: false,
        reserved: Some(at("2026-03-01T10:00Z")),
        evicted: false,
        finished: false,
        flavors: [("nvidia.com/gpu".into(), "train".into())].into(),
        nodes: BTreeMap::new(),
        saved: None,
    }
}

/// What is there, and gangs of eight GPUs of `train` that run: by queue.
fn there(objects: &[(&str, Value)], running: &[&str]) -> ClusterSeen {
    let now = at("2026-03-01T12:00Z");
    let mut cluster = ClusterSeen::default();
    let seen = |body: &Value| ObjectSeen { body: body.clone(), written: None, moved_by: None, deleting: false };
    cluster.objects = Read::new(objects.iter().map(|(name, body)| (key(name), seen(body))).collect(), now);
    let work = running
        .iter()
        .enumerate()
        .map(|(index, queue)| (format!("w{index}").as_str().into(), runs(&format!("{queue}/run-{index}"), queue)));
    cluster.workloads = Read::new(work.collect(), now);
    cluster
}

fn staged(wanted: &[(&str, Value)], cluster: &ClusterSeen) -> Desired {
    let objects = wanted.iter().map(|(name, body)| Object::new(key(name), body.clone())).collect();
    let mut desired = Desired { objects, ..Desired::default() };
    stage(&mut desired, cluster);
    desired
}

fn body<'a>(desired: &'a Desired, name: &str) -> &'a Value {
    &desired.objects.iter().find(|one| one.key == key(name)).unwrap().body["spec"]
}

fn waits(desired: &Desired) -> Vec<String> {
    let text = |one: &Staged| {
        let waits: Vec<String> = one.waits.iter().map(ToString::to_string).collect();
        format!("{}: {}", one.wanted, waits.join(", "))
    };
    desired.staged.iter().map(text).collect()
}

#[test]
fn the_currency_is_a_group_of_its_own_whatever_is_kept_beside_it() {
    let with = |flavors: &[(&str, u32)]| {
        let mut body = queue(Some("all"), flavors);
        body["spec"]["resourceGroups"].as_array_mut().unwrap().push(currency::group(Some(12_000), true));
        body
    };
    // A flavor that goes while work is on it.
    let cluster = there(&[(VISION, with(&[("train", 8)]))], &["vision"]);
    let desired = staged(&[(VISION, with(&[("serve", 8)]))], &cluster);
    let groups = body(&desired, VISION)["resourceGroups"].as_array().unwrap().clone();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0]["flavors"].as_array().unwrap().len(), 2);
    assert_eq!(groups[1], currency::group(Some(12_000), true));
    // The currency itself, while work counts in it.
    let mut cluster = there(&[(VISION, with(&[("train", 8)]))], &["vision"]);
    let mut counted = runs("vision/run", "vision");
    counted.flavors.insert(currency::CURRENCY.into(), currency::FLAVOR.into());
    cluster.workloads = Read::new([("w".into(), counted)].into(), at("2026-03-01T12:00Z"));
    let desired = staged(&[(VISION, queue(Some("all"), &[("train", 8)]))], &cluster);
    let groups = body(&desired, VISION)["resourceGroups"].as_array().unwrap().clone();
    assert_eq!(groups[1], currency::group(None, true), "{groups:?}");
    assert_eq!(groups[0]["coveredResources"], json!(["nvidia.com/gpu"]));
    assert!(!desired.staged[0].wanted.contains("until then"), "{}", desired.staged[0].wanted);
}

const VISION: &str = "ClusterQueue/vision";
const SPEECH: &str = "ClusterQueue/speech";

fn two(vision: &str, speech: &str) -> [(&'static str, Value); 2] {
    [(VISION, queue(Some(vision), &[("train", 8)])), (SPEECH, queue(Some(speech), &[("train", 8)]))]
}

#[test]
fn a_queue_that_borrows_stops_to_before_it_moves() {
    let cluster = there(&two("all", "all"), &["vision", "vision"]);
    let desired = staged(&two("other", "all"), &cluster);
    assert_eq!(
        waits(&desired),
        ["ClusterQueue vision in cohort other instead of cohort all: vision/run-0, vision/run-1"]
    );
    let vision = body(&desired, VISION);
    assert_eq!(vision["cohortName"], "all");
    let gpus = &vision["resourceGroups"][0]["flavors"][0]["resources"][0];
    assert_eq!(
        (&gpus["nominalQuota"], &gpus["borrowingLimit"], &gpus["lendingLimit"]),
        (&json!("8"), &json!("0"), &json!("0"))
    );
    // Within its own it takes along what it has.
    let desired = staged(&two("other", "all"), &there(&two("all", "all"), &["vision", "speech"]));
    assert_eq!((waits(&desired).len(), &body(&desired, VISION)["cohortName"]), (0, &json!("other")));
}

#[test]
fn a_queue_that_others_borrow_from_stops_to_lend_before_it_moves() {
    let cluster = there(&two("all", "all"), &["speech", "speech"]);
    let desired = staged(&two("other", "all"), &cluster);
    assert_eq!(
        waits(&desired),
        ["ClusterQueue vision in cohort other instead of cohort all: speech/run-0, speech/run-1"]
    );
    let mut alone = two("all", "all");
    alone[0].1 = queue(None, &[("train", 8)]);
    let desired = staged(&alone, &cluster);
    assert_eq!(waits(&desired), ["ClusterQueue vision in no cohort instead of cohort all: speech/run-0, speech/run-1"]);
    assert_eq!(body(&desired, VISION)["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"], "0");
}

#[test]
fn another_place_in_the_same_tree_is_no_move() {
    let mut before = two("all", "all").to_vec();
    before.push(("Cohort/all", cohort(None)));
    let mut after = two("all.vision", "all").to_vec();
    after.extend([("Cohort/all", cohort(None)), ("Cohort/all.vision", cohort(Some("all")))]);
    let desired = staged(&after, &there(&before, &["vision", "vision"]));
    assert_eq!((waits(&desired).len(), &body(&desired, VISION)["cohortName"]), (0, &json!("all.vision")));
}

#[test]
fn a_cohort_that_takes_its_queues_along_stays_too() {
    let mut before = two("tide.vision", "all").to_vec();
    before.extend([("Cohort/all", cohort(None)), ("Cohort/tide.vision", cohort(Some("all")))]);
    let mut after = before.clone();
    after[3].1 = cohort(Some("other"));
    let desired = staged(&after, &there(&before, &["vision", "vision"]));
    assert_eq!(waits(&desired).len(), 1);
    assert_eq!(body(&desired, "Cohort/tide.vision")["parentName"], "all");
    let desired = staged(&after, &there(&before, &["vision"]));
    assert_eq!(body(&desired, "Cohort/tide.vision")["parentName"], "other");
}

#[test]
fn a_flavor_stays_listed_while_work_is_on_it() {
    let before = [(VISION, queue(Some("all"), &[("train", 8)]))];
    let after = [(VISION, queue(Some("all"), &[("burst", 8)]))];
    let desired = staged(&after, &there(&before, &["vision"]));
    assert_eq!(waits(&desired), ["ClusterQueue vision without train: vision/run-0"]);
    let flavors = body(&desired, VISION)["resourceGroups"][0]["flavors"].as_array().unwrap();
    let names: Vec<(&str, &str)> = flavors
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["resources"][0]["nominalQuota"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("burst", "8"), ("train", "0")]);
    let desired = staged(&after, &there(&before, &[]));
    assert_eq!((waits(&desired).len(), &desired.objects[0].body), (0, &crate::effect::canonical(&after[0].1)));
}

#[test]
fn what_a_flavor_without_a_topology_keeps_out_is_said() {
    let after = [(VISION, queue(Some("all"), &[("burst", 8)]))];
    let said = |flavor: Value| {
        let before = [(VISION, queue(Some("all"), &[("train", 8)])), ("ResourceFlavor/train", json!({"spec": flavor}))];
        waits(&staged(&after, &there(&before, &["vision"])))
    };
    assert!(said(json!({}))[0].contains("podset-unconstrained-topology"));
    assert_eq!(said(json!({"topologyName": "efa"})), ["ClusterQueue vision without train: vision/run-0"]);
}

#[test]
fn where_nobody_knows_what_runs_nothing_moves() {
    let mut cluster = there(&two("all", "all"), &[]);
    let gap = crate::observed::Gap { what: "list workloads".into(), why: "denied".into() };
    cluster.workloads = Read::with_gap(BTreeMap::new(), at("2026-03-01T12:00Z"), gap);
    let desired = staged(&two("other", "all"), &cluster);
    assert_eq!(waits(&desired), ["ClusterQueue vision in cohort other instead of cohort all: "]);
    assert_eq!(body(&desired, VISION)["cohortName"], "all");
}
