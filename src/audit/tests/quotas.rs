//! Quotas and priorities at every step of the way.

use serde_json::json;

use super::bench::*;
use super::flows::*;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

const CAPACITY: &str = "within what the nodes hold";
const TIERS: &str = "order of their ranks";
const GPU: &str = "nvidia.com/gpu";

/// The queues of `train` as they are, and as they should be: each a queue of its own.
fn moving(before: &[(&str, u32)], after: &[(&str, u32, &[&str])]) -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.input.desired.objects.retain(|object| &*object.key.name != "vision");
    edit(&mut bench.input.observed.cluster.objects, |all| {
        all.retain(|key, _| &*key.name != "vision");
        for (name, nominal) in before {
            let object = queue(name, "train", GPU, *nominal);
            let there = ObjectSeen { body: object.body, written: Some(object.digest), moved_by: None, deleting: false };
            all.insert(object.key, there);
        }
    });
    for (name, nominal, waits) in after {
        let object = queue(name, "train", GPU, *nominal);
        bench.input.desired.objects.push(object.clone());
        bench.step(name, cluster(ClusterAction::Apply(object)), Reason::Wanted, waits);
    }
    bench
}

#[test]
fn quotas_are_no_more_than_the_nodes_hold() {
    moving(&[], &[("a", 40, &[]), ("b", 40, &[])]).passes();
    moving(&[], &[("a", 40, &[]), ("b", 41, &[])]).breaks(CAPACITY, "81 nvidia.com/gpu would be promised in train");
    moving(&[("foreign", 60)], &[("a", 20, &[])]).passes();
    moving(&[("foreign", 60)], &[("a", 21, &[])]).breaks(CAPACITY, "which holds 80");
    // Spares are for nobody.
    let mut spares = moving(&[], &[("a", 80, &[])]);
    let parts = &mut spares.input.target.pools.get_mut("train").unwrap().parts;
    let mut spare = parts[0].clone();
    (spare.nodes, spare.purpose) = (1, crate::fleet::target::Purpose::Spare);
    (parts[0].first, parts[0].nodes) = (1, 9);
    parts.insert(0, spare);
    spares.breaks(CAPACITY, "which holds 72");
    // A cohort promises as a queue does.
    let mut cohort = moving(&[], &[("a", 80, &[])]);
    let object = Object::new(ObjectKey::cluster(ObjectKind::Cohort, "loan"), quota("train", GPU, 8));
    cohort.input.desired.objects.push(object.clone());
    cohort.step("loan", cluster(ClusterAction::Apply(object)), Reason::Wanted, &[]);
    cohort.breaks(CAPACITY, "88");
}

#[test]
fn under_the_freeze_of_a_pool_nobody_gets_more_or_less_of_it() {
    let frozen = |pool: &str, before: u32| {
        moving(&[("a", before)], &[("a", 20, &[])]).with(|bench| {
            let (by, at, reason) = ("ana".into(), bench.input.now, "incident".into());
            bench.input.ledger.head.frozen.push(Freeze { scope: Scope::Pool(pool.into()), by, at, reason, all: false });
        })
    };
    frozen("train", 40).breaks("under a freeze", "ana: incident");
    frozen("train", 10).breaks("under a freeze", "ana: incident");
    frozen("serve", 40).passes();
    frozen("train", 20).passes();
}

#[test]
fn a_quota_that_grows_waits_for_the_one_that_shrinks() {
    moving(&[("a", 60), ("b", 20)], &[("a", 20, &[]), ("b", 60, &["a"])]).passes();
    moving(&[("a", 60), ("b", 20)], &[("a", 20, &[]), ("b", 60, &[])]).breaks(CAPACITY, "120");
    // Two moves at once, each with its own.
    let before = [("a", 20), ("b", 20), ("c", 20), ("d", 20)];
    moving(&before, &[("a", 10, &[]), ("b", 30, &["a"]), ("c", 0, &[]), ("d", 40, &["c"])]).passes();
    moving(&before, &[("a", 0, &[]), ("b", 30, &["a"]), ("c", 15, &[]), ("d", 35, &["c"])]).breaks(CAPACITY, "90");
}

#[test]
fn what_was_too_much_before_may_shrink_and_does_not_grow() {
    moving(&[("a", 90), ("b", 10)], &[("a", 85, &[]), ("b", 10, &[])]).passes();
    moving(&[("a", 90), ("b", 10)], &[("a", 90, &[]), ("b", 11, &[])]).breaks(CAPACITY, "101");
}

/// The values of `batch` and `research` as they are, and as they should be.
fn ranking(before: (i64, i64), after: (i64, i64), batch_waits: bool, research_waits: bool) -> Bench {
    let mut bench = Bench::settled(NOON);
    let key = |tier: &str| ObjectKey::cluster(ObjectKind::WorkloadPriorityClass, tier);
    for (tier, before) in [("batch", before.0), ("research", before.1)] {
        edit(&mut bench.input.observed.cluster.objects, |all| {
            all.get_mut(&key(tier)).unwrap().body = json!({"value": before});
        });
    }
    bench.input.desired.objects.retain(|object| object.key != key("batch") && object.key != key("research"));
    let mut steps = vec![("batch", after.0, batch_waits, "research"), ("research", after.1, research_waits, "batch")];
    if batch_waits {
        steps.swap(0, 1);
    }
    for (tier, value, waits, other) in steps {
        let object = Object::new(key(tier), json!({"value": value}));
        bench.input.desired.objects.push(object.clone());
        let after: &[&str] = if waits { &[other] } else { &[] };
        bench.step(tier, cluster(ClusterAction::Apply(object)), Reason::Wanted, after);
    }
    bench
}

#[test]
fn tiers_keep_the_order_of_their_ranks_on_the_way() {
    ranking((10, 20), (15, 25), false, false).passes();
    ranking((10, 20), (25, 15), false, false).breaks(TIERS, "batch would have priority 25");
    ranking((10, 20), (30, 40), false, false)
        .breaks(TIERS, "batch would have priority 30 and research, which ranks higher, 20");
    ranking((10, 20), (30, 40), true, false).passes();
    ranking((10, 20), (1, 5), false, false)
        .breaks(TIERS, "batch would have priority 10 and research, which ranks higher, 5");
    ranking((10, 20), (1, 5), false, true).passes();
    // What was wrong before is put right.
    ranking((20, 10), (10, 20), false, false).passes();
}

/// The two classes of `batch`, which both say 100, are written so: of pods, then of workloads, which wait for the first.
fn classes(pods: Option<i64>, workloads: Option<i64>, waits: bool) -> Bench {
    let mut bench = Bench::settled(NOON);
    let key = |kind: ObjectKind| ObjectKey::cluster(kind, "batch");
    let there = |value: i64| {
        let body = json!({"value": value});
        ObjectSeen { written: Some(digest_of(&body)), body, moved_by: None, deleting: false }
    };
    bench.input.desired.objects.retain(|object| object.key != key(ObjectKind::WorkloadPriorityClass));
    for (id, kind, value) in
        [("pods", ObjectKind::PriorityClass, pods), ("workloads", ObjectKind::WorkloadPriorityClass, workloads)]
    {
        edit(&mut bench.input.observed.cluster.objects, |all| all.insert(key(kind), there(100)));
        let Some(value) = value else { continue };
        let object = Object::new(key(kind), json!({"value": value}));
        bench.input.desired.objects.push(object.clone());
        let after: &[&str] = if waits && id == "workloads" { &["pods"] } else { &[] };
        bench.step(id, cluster(ClusterAction::Apply(object)), Reason::Wanted, after);
    }
    bench
}

#[test]
fn the_two_classes_of_a_tier_say_the_same() {
    const AGREE: &str = "classes of a tier";
    classes(Some(110), Some(110), true).passes();
    classes(Some(110), Some(110), false).breaks(AGREE, "pods of batch would have 110, and its workloads 110");
    classes(None, Some(110), false).breaks(AGREE, "pods of batch would have 100, and its workloads 110");
    classes(Some(110), None, false).breaks(AGREE, "pods of batch would have 110, and its workloads 100");
    classes(None, Some(100), false).passes();
}

/// The class of pods of `batch` is deleted, and perhaps made again behind that.
fn replaced(value: i64, writes: bool, consent: Consent) -> Bench {
    let mut bench = classes(None, None, false);
    let object = Object::new(ObjectKey::cluster(ObjectKind::PriorityClass, "batch"), json!({"value": value}));
    let gone = Amount::object(&object.key, None);
    let step = bench.step("delete", cluster(ClusterAction::Delete(object.key.clone())), Reason::Wanted, &[]);
    (step.effects, step.consent) = (Effects::one(Verb::Delete, Thing::Objects("PriorityClass".into()), gone), consent);
    if writes {
        bench.input.desired.objects.push(object.clone());
        bench.step("write", cluster(ClusterAction::Apply(object)), Reason::Wanted, &["delete"]);
        let workloads =
            Object::new(ObjectKey::cluster(ObjectKind::WorkloadPriorityClass, "batch"), json!({"value": value}));
        bench.input.desired.objects.push(workloads.clone());
        bench.step("workloads", cluster(ClusterAction::Apply(workloads)), Reason::Wanted, &["write"]);
    }
    bench
}

#[test]
fn what_the_server_lets_nobody_change_may_be_made_anew() {
    const RETIRED: &str = "a document retires";
    replaced(110, true, Consent::Asked).passes();
    replaced(110, true, Consent::Standing).breaks(RETIRED, "is replaced, and nobody is asked");
    replaced(110, false, Consent::Asked).breaks(RETIRED, "no document retires");
    replaced(100, true, Consent::Asked).breaks(RETIRED, "no document retires");
}

#[test]
fn what_is_written_stands_in_the_effects() {
    const EFFECTS: &str = "bound what its steps do";
    let object = queue("a", "train", GPU, 40);
    let other = queue("a", "train", GPU, 0);
    let says =
        |object: &Object| Effects::one(Verb::Apply, Thing::Fleet, Amount::object(&object.key, Some(&object.digest)));
    moving(&[], &[("a", 40, &[])]).edit("a", |step| step.effects = says(&object)).passes();
    moving(&[], &[("a", 40, &[])]).edit("a", |step| step.effects = says(&other)).breaks(EFFECTS, "what becomes of");
    let count = Effects::one(Verb::Apply, Thing::Fleet, Amount::count(1));
    moving(&[], &[("a", 40, &[])]).edit("a", |step| step.effects = count).breaks(EFFECTS, "what becomes of");
}
