//! Which tiers a team may ask for, held by the real API server: the policy that is compiled refuses the others, whoever
//! asks and however, and leaves everybody else alone.

use serde_json::{Value, json};
use tidewright::provider::Cluster;

use super::super::controlplane::api::Refused;
use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang, shared};
use super::whole::{fleet, tidewright};
use super::{cluster, namespace, target};

const NAME: &str = "doors";

const PRODUCTION: &str = "---
apiVersion: tidewright.dev/v1alpha1
kind: PreemptionTier
metadata: {name: doors-production}
spec: {rank: 900, preempts: lowerTiers}
";

fn job(name: &str, tier: Option<&str>) -> Value {
    let mut job = gang(NAME, name, "main", 1, 1);
    if let Some(tier) = tier {
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(tier);
    }
    job
}

#[track_caller]
fn is_refused(answer: Result<Value, Refused>) {
    let refused = answer.expect_err("it is refused");
    assert!(refused.status == 403 || refused.status == 422, "{refused:?}");
    assert!(refused.message.contains("the quota doors allows the tiers doors"), "{}", refused.message);
}

#[test]
fn work_that_asks_for_a_tier_of_others_is_refused_at_the_door() {
    let Some(plane) = shared() else { return };
    plane.add_nodes(&GpuNodes::new(NAME, 1).label("rack", NAME));
    let directory = fleet(NAME, 1, 8);
    let path = directory.path().join("fleet.yaml");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + PRODUCTION).unwrap();
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]).code(0);
    // A policy is in force some moments after it was written.
    let mut tried = 0;
    eventually("the policy is in force", 60, || {
        tried += 1;
        let name = format!("tried-{tried}");
        plane.api.create(&job(&name, Some("doors-production"))).err()
    });
    is_refused(plane.api.create(&job("urgent", Some("doors-production"))));
    // By the class of its pods, as a Job or as a bare pod: Kueue and the scheduler would take the rank from there.
    let mut by_class = job("by-class", None);
    by_class["spec"]["template"]["spec"]["priorityClassName"] = json!("doors-production");
    is_refused(plane.api.create(&by_class));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": NAME},
        "spec": {"priorityClassName": "doors-production", "containers": [{"name": "main", "image": "train"}]}});
    is_refused(plane.api.create(&pod));
    // The team's own tier, no tier at all, and classes that are no tiers.
    plane.api.create(&job("own", Some(NAME))).unwrap();
    plane.api.create(&job("none", None)).unwrap();
    by_class_alone(&plane);
    is_refused(plane.api.merge(
        &format!("/apis/batch/v1/namespaces/{NAME}/jobs/own"),
        &json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "doors-production"}}}),
    ));
    // What it may not have, others may.
    elsewhere(&plane);
    plane.end_jobs(&[NAME.to_owned()].into());
}

/// Who asks for a tier by the class of its pods and by nothing else is in it: for Kueue, for the scheduler and for us.
fn by_class_alone(plane: &Controlplane) {
    let mut own = job("by-own-class", None);
    own["spec"]["template"]["spec"]["priorityClassName"] = json!(NAME);
    let made = plane.api.create(&own).unwrap();
    let rank = plane.api.get(&format!("/apis/scheduling.k8s.io/v1/priorityclasses/{NAME}")).unwrap()["value"].clone();
    let path = format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAME}/workloads");
    let found = eventually("Kueue knows it", 60, || {
        let its = |one: &Value| one["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"];
        plane.api.list(&path).into_iter().find(its)
    });
    assert_eq!(found["spec"]["priority"], rank);
    let documents = "kind: PreemptionTier\nmetadata: {name: doors}\nspec: {rank: 1}\n";
    let seen = block(cluster(plane, NAME).observe(&target(NAME, documents)));
    let uid = found["metadata"]["uid"].as_str().unwrap();
    let ours = &seen.workloads.whole().expect("all workloads were read")[uid];
    assert_eq!((ours.tier.as_ref().map(|tier| tier.as_str()), json!(ours.priority)), (Some(NAME), rank));
}

fn elsewhere(plane: &Controlplane) {
    let other = "doors-elsewhere";
    plane.api.create(&namespace(other)).unwrap();
    let mut job = job("urgent", Some("doors-production"));
    job["metadata"]["namespace"] = json!(other);
    plane.api.create(&job).unwrap();
    plane.api.delete(&format!("/api/v1/namespaces/{other}"));
}
