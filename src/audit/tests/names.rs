//! What is written rests on what is there.

use serde_json::{Value, json};

use super::bench::*;
use super::flows::*;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

const NAMED: &str = "what an object names is there as wanted";
const AGREE: &str = "preempt alike";

fn there(body: Value, ours: bool) -> ObjectSeen {
    let written = ours.then(|| digest_of(&body));
    ObjectSeen { body, written, moved_by: None, deleting: false }
}

/// A queue on `train` is made, with its flavor as it is there and perhaps written before it.
fn queued(flavor: Option<ObjectSeen>, writes: bool, waits: bool) -> Bench {
    let mut bench = Bench::settled(NOON);
    let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, "train");
    edit(&mut bench.input.observed.cluster.objects, |all| {
        all.remove(&key);
        all.extend(flavor.map(|flavor| (key.clone(), flavor)));
    });
    bench.input.desired.objects.retain(|one| &*one.key.name != "vision");
    edit(&mut bench.input.observed.cluster.objects, |all| all.retain(|key, _| &*key.name != "vision"));
    if writes {
        let object = bench.input.desired.objects.iter().find(|one| one.key == key).unwrap().clone();
        bench.step("flavor", cluster(ClusterAction::Apply(object)), Reason::Wanted, &[]);
    } else {
        let words = format!("{} as the documents say", key.words());
        bench.plan.held.push(Held { wanted: words, ..held(Thing::Objects("ResourceFlavor".into())) });
    }
    let object = queue("a", "train", "nvidia.com/gpu", 8);
    bench.input.desired.objects.push(object.clone());
    let after: &[&str] = if waits { &["flavor"] } else { &[] };
    bench.step("queue", cluster(ClusterAction::Apply(object)), Reason::Wanted, after);
    bench
}

#[test]
fn a_queue_is_written_on_flavors_that_are_there_as_wanted() {
    let own = || json!({"spec": {"nodeLabels": {"tidewright.dev/pool": "train"}}});
    let other = || json!({"spec": {"nodeLabels": {"rack": "theirs"}}});
    queued(Some(there(own(), true)), false, false).passes();
    queued(Some(there(own(), false)), false, false).passes();
    queued(Some(there(other(), false)), false, false).breaks(NAMED, "ResourceFlavor/train");
    queued(Some(there(other(), true)), false, false).breaks(NAMED, "ResourceFlavor/train");
    queued(Some(ObjectSeen { deleting: true, ..there(own(), true) }), false, false)
        .breaks(NAMED, "ResourceFlavor/train");
    queued(None, false, false).breaks(NAMED, "ResourceFlavor/train");
    queued(None, true, false).breaks(NAMED, "ResourceFlavor/train");
    queued(None, true, true).passes();
}

#[test]
fn a_local_queue_is_replaced_when_its_queue_is_there() {
    let replaced = |delete_waits: bool| {
        let mut bench = Bench::settled(NOON);
        let key = ObjectKey::namespaced(ObjectKind::LocalQueue, "vision", "main");
        let leads = |queue: &str| json!({"spec": {"clusterQueue": queue}});
        edit(&mut bench.input.observed.cluster.objects, |all| all.insert(key.clone(), there(leads("vision"), true)));
        let made = Object::new(ObjectKey::cluster(ObjectKind::ClusterQueue, "next"), json!({"spec": {}}));
        let local = Object::new(key.clone(), leads("next"));
        bench.input.desired.objects.extend([made.clone(), local.clone()]);
        bench.step("queue", cluster(ClusterAction::Apply(made)), Reason::Wanted, &[]);
        let gone = Amount::object(&key, None);
        let after: &[&str] = if delete_waits { &["queue"] } else { &[] };
        let step = bench.step("delete", cluster(ClusterAction::Delete(key)), Reason::Wanted, after);
        step.effects = Effects::one(Verb::Delete, Thing::Objects("LocalQueue".into()), gone);
        step.consent = Consent::Asked;
        bench.step("local", cluster(ClusterAction::Apply(local)), Reason::Wanted, &["delete", "queue"]);
        bench
    };
    replaced(true).passes();
    replaced(false).breaks(NAMED, "ClusterQueue/next");
}

#[test]
fn a_queue_preempts_when_the_class_of_its_tier_does() {
    let preempting = |class: &str, waits: Option<bool>| {
        let mut bench = Bench::settled(NOON);
        let tiers = bench.standing().quotas.get("vision").unwrap().tiers.clone();
        let of = |policy: &str| json!({"value": 20, "preemptionPolicy": policy});
        let mut first = Vec::new();
        for tier in &tiers {
            let key = ObjectKey::cluster(ObjectKind::PriorityClass, tier.as_str());
            edit(&mut bench.input.observed.cluster.objects, |all| all.insert(key.clone(), there(of(class), true)));
            let rank = bench.standing().tiers[tier].rank;
            let body = json!({"value": rank, "preemptionPolicy": "PreemptLowerPriority"});
            edit(&mut bench.input.observed.cluster.objects, |all| {
                all.get_mut(&key).unwrap().body["value"] = rank.into()
            });
            let object = Object::new(key, body);
            bench.input.desired.objects.push(object.clone());
            if waits.is_some() {
                let id = format!("class {tier}");
                bench.step(&id, cluster(ClusterAction::Apply(object)), Reason::Wanted, &[]);
                first.push(id);
            }
        }
        bench.plan.held.push(held(Thing::Objects("PriorityClass".into())));
        let mut object = bench.input.desired.objects.iter().find(|one| &*one.key.name == "vision").unwrap().clone();
        object.body["spec"]["preemption"] = json!({"withinClusterQueue": "LowerPriority"});
        let object = Object::new(object.key, object.body);
        bench.input.desired.objects.retain(|one| one.key != object.key);
        bench.input.desired.objects.push(object.clone());
        let after: Vec<&str> = first.iter().filter(|_| waits == Some(true)).map(String::as_str).collect();
        bench.step("queue", cluster(ClusterAction::Apply(object)), Reason::Wanted, &after);
        bench
    };
    preempting("PreemptLowerPriority", None).passes();
    preempting("Never", None).breaks(AGREE, "ClusterQueue/vision");
    preempting("Never", Some(false)).breaks(AGREE, "ClusterQueue/vision");
    preempting("Never", Some(true)).passes();
}
