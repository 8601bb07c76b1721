//! Small clusters in which a quota's queue gets another name.

use super::super::staged::stage;
use super::*;
use crate::fleet::testing::at;
use crate::observed::{Gap, Read};

const GPU: &str = "nvidia.com/gpu";

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn queue(cohort: Option<&str>, gpus: u32) -> Value {
    let mut gpu = json!({"name": GPU, "nominalQuota": gpus.to_string()});
    let cpu = json!({"name": "cpu", "nominalQuota": "192"});
    let mut spec = json!({"namespaceSelector": {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["lab"]}]}});
    if let Some(cohort) = cohort {
        (gpu["borrowingLimit"], gpu["lendingLimit"]) = ("8".into(), "0".into());
        spec["cohortName"] = cohort.into();
    }
    spec["resourceGroups"] =
        json!([{"coveredResources": [GPU, "cpu"], "flavors": [{"name": "train", "resources": [gpu, cpu]}]}]);
    json!({"spec": spec})
}

fn leads(queue: &str) -> Value {
    json!({"spec": {"clusterQueue": queue}})
}

fn runs(queue: &str, gpus: i64) -> WorkloadSeen {
    let flavors = [(GPU.into(), "train".into())].into();
    WorkloadSeen { flavors, ..crate::plan::testing::workload(&format!("{queue}/run"), queue, gpus) }
}

/// All of it ours, with work of so many GPUs in a queue.
fn there(objects: &[(&str, Value)], running: &[(&str, i64)]) -> ClusterSeen {
    let now = at("2026-03-01T12:00Z");
    let mut cluster = ClusterSeen::default();
    let seen = |(name, body): &(&str, Value)| {
        let object = Object::new(key(name), body.clone());
        (object.key, ObjectSeen { body: object.body, written: Some(object.digest), moved_by: None, deleting: false })
    };
    cluster.objects = Read::new(objects.iter().map(seen).collect(), now);
    let work = running.iter().enumerate();
    let work = work.map(|(index, (queue, gpus))| (format!("w{index}").as_str().into(), runs(queue, *gpus)));
    cluster.workloads = Read::new(work.collect(), now);
    cluster
}

/// `lab2` is wanted, with 16 GPUs, and leads from `lab/main`.
fn wanted(cluster: &ClusterSeen, cohort: Option<&str>) -> Desired {
    let objects = [("ClusterQueue/lab2", queue(cohort, 16)), ("LocalQueue/lab/main", leads("lab2"))];
    let objects = objects.into_iter().map(|(name, body)| Object::new(key(name), body)).collect();
    let mut desired = Desired { objects, ..Desired::default() };
    stage(&mut desired, cluster);
    desired
}

fn gpus(desired: &Desired) -> BTreeMap<String, i64> {
    let queues = desired.objects.iter().filter(|one| one.key.kind == ObjectKind::ClusterQueue);
    queues.map(|one| (one.key.name.to_string(), quotas(&one.body)[&("train".into(), GPU.into())].nominal)).collect()
}

fn is(queues: &[(&str, i64)]) -> BTreeMap<String, i64> {
    queues.iter().map(|(name, gpus)| ((*name).to_owned(), *gpus)).collect()
}

/// What is there once all of this is written.
fn after(desired: &Desired) -> Vec<(String, Value)> {
    desired.objects.iter().map(|one| (one.key.to_string(), one.body.clone())).collect()
}

#[test]
fn the_old_queue_keeps_what_runs_in_it_until_that_has_ended() {
    let begin = [("ClusterQueue/lab", queue(None, 16)), ("LocalQueue/lab/main", leads("lab"))];
    let desired = wanted(&there(&begin, &[("lab", 8)]), None);
    assert_eq!(gpus(&desired), is(&[("lab", 8), ("lab2", 8)]));
    assert_eq!(desired.staged[0].wanted, "delete ClusterQueue lab, in whose place ClusterQueue lab2 is");
    assert_eq!(desired.staged[0].waits[0].to_string(), "lab/run");
    let left = desired.objects.iter().find(|one| one.key == key("ClusterQueue/lab")).unwrap();
    assert_eq!(place_of(&left.body), Some("lab2"));
    assert_eq!(quotas(&left.body)[&("train".into(), "cpu".into())].nominal, 192_000, "of that each may use all");
    // Written, it stays as it is while that runs, and goes behind it.
    let next = after(&desired);
    let next: Vec<(&str, Value)> = next.iter().map(|(name, body)| (name.as_str(), body.clone())).collect();
    let again = wanted(&there(&next, &[("lab", 8), ("lab2", 8)]), None);
    assert_eq!(after(&again), after(&desired));
    let last = wanted(&there(&next, &[("lab2", 8)]), None);
    assert_eq!((gpus(&last), last.retired), (is(&[("lab2", 16)]), vec![key("ClusterQueue/lab")]));
}

#[test]
fn a_queue_that_something_leads_to_is_not_over() {
    let begin = [("ClusterQueue/lab", queue(None, 16)), ("LocalQueue/lab/main", leads("lab"))];
    let desired = wanted(&there(&begin, &[]), None);
    assert_eq!((gpus(&desired), desired.retired.len()), (is(&[("lab", 0), ("lab2", 16)]), 0));
}

#[test]
fn nothing_goes_over_while_nobody_knows_what_runs() {
    let begin = [("ClusterQueue/lab", queue(None, 16)), ("LocalQueue/lab/main", leads("lab"))];
    let mut cluster = there(&begin, &[]);
    let gap = Gap { what: "list workloads".into(), why: "no".into() };
    cluster.workloads = Read::with_gap(BTreeMap::new(), at("2026-03-01T12:00Z"), gap);
    let desired = wanted(&cluster, None);
    assert_eq!(gpus(&desired), is(&[("lab", 16), ("lab2", 16)]), "the new one is not made: it would be too much");
    let left = &desired.objects[0];
    assert_eq!(Some(&left.digest), cluster.objects.seen()[&left.key].written.as_ref());
}

#[test]
fn what_others_have_borrowed_of_it_does_not_go_to_another_tree_of_cohorts() {
    let begin = [
        ("ClusterQueue/lab", queue(Some("labs"), 16)),
        ("ClusterQueue/other", queue(Some("labs"), 0)),
        ("LocalQueue/lab/main", leads("lab")),
        ("LocalQueue/lab/other", leads("other")),
    ];
    let cluster = there(&begin, &[("other", 8)]);
    let elsewhere = wanted(&cluster, Some("plant"));
    assert_eq!(gpus(&elsewhere), is(&[("lab", 8), ("lab2", 8)]));
    assert_eq!(elsewhere.staged[0].waits[0].to_string(), "other/run");
    let same = wanted(&cluster, Some("labs"));
    assert_eq!(gpus(&same), is(&[("lab", 0), ("lab2", 16)]));
}

#[test]
fn a_queue_whose_document_is_deleted_is_only_let_go() {
    let begin = [("ClusterQueue/gone", queue(None, 16)), ("LocalQueue/lab/other", leads("gone"))];
    let desired = wanted(&there(&begin, &[("gone", 8)]), None);
    assert_eq!((gpus(&desired), desired.retired.len()), (is(&[("lab2", 16)]), 0));
}

#[test]
fn a_queue_that_is_renamed_twice_gives_to_the_last_one() {
    let begin = [("ClusterQueue/lab", queue(None, 16)), ("LocalQueue/lab/main", leads("lab"))];
    let first = after(&wanted(&there(&begin, &[("lab", 8)]), None));
    let mut first: Vec<(String, Value)> =
        first.into_iter().map(|(name, body)| (name.replace("lab2", "lab1"), body)).collect();
    for (name, body) in &mut first {
        match name.as_str() {
            "ClusterQueue/lab" => *body = reduced(body, &[(("train".into(), GPU.into()), 8)].into(), Some("lab1")),
            "LocalQueue/lab/main" => *body = leads("lab1"),
            _ => {}
        }
    }
    let first: Vec<(&str, Value)> = first.iter().map(|(name, body)| (name.as_str(), body.clone())).collect();
    let desired = wanted(&there(&first, &[("lab", 8), ("lab1", 4)]), None);
    assert_eq!(gpus(&desired), is(&[("lab", 8), ("lab1", 4), ("lab2", 4)]));
}
