//! Differences between the objects that are wanted and those that are there.

use serde_json::{Value, json};

use super::*;
use crate::effect::{Desired, Object};
use crate::ids::{Digest, WorkloadUid};
use crate::observed::{Gap, PodSeen, Read, WorkloadSeen};
use crate::plan::testing::*;

const TEAMS: &str = "kind: PreemptionTier
metadata: {name: research}
spec: {rank: 200}
---
kind: NodePool
metadata: {name: train}
spec: {instanceType: p5.48xlarge, nodes: 4, capacity: [{onDemand: {max: 4}}]}
---
kind: Quota
metadata: {name: vision}
spec:
  namespaces: [{name: vision, localQueue: main}]
  cohort: c
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 8}}]
---
kind: Quota
metadata: {name: speech}
spec:
  namespaces: [{name: speech, localQueue: main}]
  cohort: c
  tiers: [research]
  shares: [{pool: train, guarantee: {gpus: 8}}]
";

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

fn queue(gpus: &str) -> Value {
    json!({"spec": {
        "cohortName": "c",
        "preemption": {"reclaimWithinCohort": "Any"},
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [
            {"name": "train", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]}]}],
    }})
}

fn object(name: &str, body: Value) -> Object {
    Object::new(key(name), body)
}

fn seen(body: &Value, written: Option<&Digest>) -> ObjectSeen {
    ObjectSeen { body: body.clone(), written: written.cloned(), moved_by: None, deleting: false }
}

/// There, and as we wrote it.
fn ours(body: &Value) -> ObjectSeen {
    let digest = digest_of(&crate::effect::canonical(body));
    seen(&crate::effect::canonical(body), Some(&digest))
}

fn input(wanted: Vec<Object>, there: &[(&str, ObjectSeen)]) -> PlanInput {
    let mut input = world("2026-03-01T12:00Z", TEAMS);
    input.desired = Desired { objects: wanted, ..Desired::default() };
    let there = there.iter().map(|(name, seen)| (key(name), seen.clone())).collect();
    input.observed.cluster.objects = Read::new(there, input.now);
    input
}

fn drafted(input: &PlanInput) -> Draft {
    let mut draft = Draft::default();
    plan(input, &Harm::new(input), &mut draft);
    draft
}

/// The steps without their digests, each with what it comes after.
fn steps(draft: &Draft) -> Vec<String> {
    let short = |id: &StepId| match id.as_str().split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => id.to_string(),
    };
    let all = draft.courses.iter().flat_map(|course| &course.steps);
    all.map(|step| {
        let after: Vec<String> = step.after.iter().map(short).collect();
        let after = if after.is_empty() { String::new() } else { format!(" after {}", after.join(", ")) };
        format!("{}{after}", short(&step.id))
    })
    .collect()
}

#[test]
fn what_is_not_there_is_made_in_an_order_that_works() {
    let flavor = object("ResourceFlavor/train", json!({"spec": {"topologyName": "train"}}));
    let local = object("LocalQueue/vision/main", json!({"spec": {"clusterQueue": "vision"}}));
    let wanted = vec![
        object("Namespace/vision", json!({})),
        object("Topology/train", json!({"spec": {"levels": []}})),
        flavor,
        object("Cohort/c", json!({"spec": {}})),
        object("ClusterQueue/vision", queue("8")),
        local,
    ];
    let draft = drafted(&input(wanted, &[]));
    insta::assert_snapshot!(steps(&draft).join("\n"), @r"
    apply:Namespace/vision
    apply:Topology/train
    apply:ResourceFlavor/train after apply:Topology/train
    apply:Cohort/c
    apply:ClusterQueue/vision after apply:Cohort/c, apply:ResourceFlavor/train
    apply:LocalQueue/vision/main after apply:ClusterQueue/vision, apply:Namespace/vision
    ");
    assert!(draft.courses.iter().flat_map(|course| &course.steps).all(|step| step.consent == Consent::Standing));
    assert_eq!(draft.courses[4].on, Thing::Quota("vision".into()));
    assert_eq!(draft.courses[3].on, Thing::Objects("Cohort".into()));
    let none = Fact::Unchanged { object: key("ClusterQueue/vision"), body: None };
    assert_eq!(draft.courses[4].steps[0].requires, [none]);
}

#[test]
fn what_is_as_wanted_needs_nothing() {
    let wanted = object("ClusterQueue/vision", queue("8"));
    let input = input(vec![wanted], &[("ClusterQueue/vision", ours(&queue("8")))]);
    let draft = drafted(&input);
    assert_eq!((draft.courses.len(), draft.held.len(), draft.released.len()), (0, 0, 0));
}

#[test]
fn what_the_server_adds_is_no_drift() {
    let wanted = object("ClusterQueue/vision", queue("8"));
    let mut there = ours(&queue("8"));
    there.body["spec"]["stopPolicy"] = json!("None");
    let draft = drafted(&input(vec![wanted], &[("ClusterQueue/vision", there)]));
    assert_eq!((draft.courses.len(), draft.drift.len()), (0, 0));
}

#[test]
fn drift_is_put_back_and_says_who() {
    let wanted = object("ClusterQueue/vision", queue("8"));
    let mut there = seen(&queue("16"), Some(&wanted.digest));
    there.moved_by = Some(("kubectl-edit".into(), at("2026-03-01T11:00Z")));
    let draft = drafted(&input(vec![wanted], &[("ClusterQueue/vision", there)]));
    assert_eq!(draft.courses[0].reason, Reason::Drift { by: Some("kubectl-edit".into()) });
    let drift = &draft.drift[0];
    assert_eq!(drift.by.as_deref(), Some("kubectl-edit"));
    assert_eq!(drift.step.as_ref(), Some(&draft.courses[0].steps[0].id));
    assert_eq!((&*drift.from, &*drift.to), ("guarantee of train 8 GPUs", "guarantee of train 16 GPUs"));
}

#[test]
fn a_change_that_was_also_moved_says_both() {
    let wanted = object("ClusterQueue/vision", queue("8"));
    let mut there = ours(&queue("4"));
    there.body = queue("5");
    there.moved_by = Some(("kubectl-edit".into(), at("2026-03-01T11:00Z")));
    let draft = drafted(&input(vec![wanted.clone()], &[("ClusterQueue/vision", there)]));
    assert_eq!((draft.courses[0].reason.clone(), draft.drift.len()), (Reason::Wanted, 1));
    let draft = drafted(&input(vec![wanted], &[("ClusterQueue/vision", ours(&queue("4")))]));
    assert_eq!((draft.courses[0].reason.clone(), draft.drift.len()), (Reason::Wanted, 0));
}

#[test]
fn what_another_tool_made_is_held_with_the_change_to_make() {
    let wanted = object("PriorityClass/research", json!({"value": 200}));
    let there = seen(&json!({"value": 100, "globalDefault": false}), None);
    let draft = drafted(&input(vec![wanted.clone()], &[("PriorityClass/research", there)]));
    assert!(draft.courses.is_empty());
    let WaitingOn::OtherOwner { patch, .. } = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
    assert_eq!(patch, "kubectl patch priorityclass research --type=merge -p '{\"value\":200}'");
    // The same in other hands is taken over.
    let there = seen(&json!({"value": 200}), None);
    assert_eq!(steps(&drafted(&input(vec![wanted], &[("PriorityClass/research", there)]))).len(), 1);
}

#[test]
fn a_quota_takes_its_queue_over_and_says_so() {
    let wanted = object("ClusterQueue/vision", queue("8"));
    let draft = drafted(&input(vec![wanted], &[("ClusterQueue/vision", seen(&queue("4"), None))]));
    assert_eq!(steps(&draft), ["apply:ClusterQueue/vision"]);
    assert!(draft.notes[0].text.starts_with("ClusterQueue vision was somebody else's"), "{:?}", draft.notes);
    // A namespace is its team's.
    let there = seen(&json!({"spec": {"finalizers": ["kubernetes"]}}), None);
    let draft = drafted(&input(vec![object("Namespace/vision", json!({}))], &[("Namespace/vision", there)]));
    assert!(draft.courses.is_empty() && draft.held.is_empty());
}

#[test]
fn what_the_server_refuses_to_change_needs_a_person() {
    let wanted = object("Topology/train", json!({"spec": {"levels": [{"nodeLabel": "rack"}]}}));
    let there = ours(&json!({"spec": {"levels": [{"nodeLabel": "block"}]}}));
    let flavor = ours(&json!({"spec": {"topologyName": "train"}}));
    let same = object("ResourceFlavor/train", json!({"spec": {"topologyName": "train"}}));
    let person = |input: &PlanInput| {
        let draft = drafted(input);
        assert!(draft.courses.is_empty());
        let WaitingOn::Person(text) = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
        text.clone()
    };
    let there = [("Topology/train", there), ("ResourceFlavor/train", flavor)];
    let used = input(vec![wanted.clone(), same], &there);
    assert!(person(&used).contains("and ResourceFlavor train uses it"));
    let unused = input(vec![wanted], &there[..1]);
    assert!(person(&unused).ends_with("made again: kubectl delete topology train"));
    // A queue that somebody else made is taken over, and not deleted.
    let local = object("LocalQueue/vision/main", json!({"spec": {"clusterQueue": "vision"}}));
    let others = seen(&json!({"spec": {"clusterQueue": "old"}}), None);
    let adopted = input(vec![local], &[("LocalQueue/vision/main", others)]);
    assert!(person(&adopted).starts_with("ClusterQueue of LocalQueue vision/main cannot be changed"));
}

#[test]
fn what_can_be_gone_for_a_moment_is_deleted_and_made_again() {
    let class = object("PriorityClass/research", json!({"value": 200}));
    let local = object("LocalQueue/vision/main", json!({"spec": {"clusterQueue": "vision"}}));
    let there = [
        ("PriorityClass/research", ours(&json!({"value": 100}))),
        ("LocalQueue/vision/main", ours(&json!({"spec": {"clusterQueue": "old"}}))),
    ];
    let mut input = input(vec![class, local], &there);
    // That the server refuses the change itself is why.
    let refused = Rehearsed::Refused("value: Forbidden: may not be changed in an update".into());
    input.observed.rehearsed.insert(key("PriorityClass/research"), refused);
    let draft = drafted(&input);
    insta::assert_snapshot!(steps(&draft).join("\n"), @r"
    delete:PriorityClass/research
    apply:PriorityClass/research after delete:PriorityClass/research
    delete:LocalQueue/vision/main
    apply:LocalQueue/vision/main after delete:LocalQueue/vision/main
    ");
    let all = || draft.courses.iter().flat_map(|course| &course.steps);
    assert!(all().all(|step| step.consent == Consent::Asked), "neither half is done without the other");
    let gone = Fact::Unchanged { object: key("PriorityClass/research"), body: None };
    assert_eq!(draft.courses[0].steps[1].requires, [gone]);
    // Whoever is stopped between the two leaves nothing there: it is made, and nobody is asked again.
    let mut left = input.observed.cluster.objects.seen().clone();
    left.remove(&key("PriorityClass/research"));
    input.observed.cluster.objects = Read::new(left, input.now);
    input.observed.rehearsed.clear();
    let rest = drafted(&input);
    assert_eq!(steps(&rest)[0], "apply:PriorityClass/research");
    assert_eq!(rest.courses[0].steps[0].consent, Consent::Standing);
}

#[test]
fn neither_class_of_a_tier_is_written_without_the_other() {
    let class = |kind: &str, value: i32| object(&format!("{kind}/research"), json!({"value": value}));
    let wanted = || vec![class("PriorityClass", 200), class("WorkloadPriorityClass", 200)];
    let there = |pods: ObjectSeen, workloads: ObjectSeen| {
        input(wanted(), &[("PriorityClass/research", pods), ("WorkloadPriorityClass/research", workloads)])
    };
    let old = || ours(&json!({"value": 100}));
    let both = drafted(&there(old(), old()));
    insta::assert_snapshot!(steps(&both).join("\n"), @r"
    delete:PriorityClass/research
    apply:PriorityClass/research after delete:PriorityClass/research
    apply:WorkloadPriorityClass/research after apply:PriorityClass/research
    ");
    let others = || seen(&json!({"value": 100}), None);
    for input in [there(others(), old()), there(old(), others())] {
        let draft = drafted(&input);
        assert_eq!(steps(&draft), Vec::<String>::new(), "one of the two is somebody else's");
        assert_eq!(draft.held.len(), 2);
    }
    // What says the same already is in nobody's way.
    let draft = drafted(&there(seen(&json!({"value": 200}), None), old()));
    let (taken_over, follows) = ("apply:PriorityClass/research", "apply:WorkloadPriorityClass/research");
    assert_eq!(steps(&draft), [taken_over.to_owned(), format!("{follows} after {taken_over}")]);
}

#[test]
fn a_cluster_without_kueue_gets_everything_else() {
    let map = "ConfigMap/gpu-operator/tidewright-mig-parted";
    let wanted = vec![
        object("PriorityClass/research", json!({"value": 200})),
        object("WorkloadPriorityClass/research", json!({"value": 200})),
        object(map, json!({"data": {}})),
        object("ClusterQueue/vision", queue("8")),
    ];
    let mut input = input(wanted, &[]);
    let gap = Gap { what: "list clusterqueues".into(), why: "this cluster has no Kueue".into() };
    for kind in [ObjectKind::WorkloadPriorityClass, ObjectKind::ClusterQueue] {
        input.observed.cluster.unread.insert(kind, gap.clone());
    }
    let draft = drafted(&input);
    assert_eq!(steps(&draft), ["apply:PriorityClass/research", &format!("apply:{map}")]);
    assert!(draft.held.iter().all(|held| held.waiting_on == WaitingOn::Unread(gap.clone())), "{:?}", draft.held);
    assert_eq!(draft.held.len(), 2);
}

#[test]
fn tiers_keep_their_order_between_two_writes() {
    let class = |name: &str, value: i32| object(&format!("WorkloadPriorityClass/{name}"), json!({"value": value}));
    let there = |low: i32, high: i32| {
        [
            ("WorkloadPriorityClass/low", ours(&json!({"value": low}))),
            ("WorkloadPriorityClass/high", ours(&json!({"value": high}))),
        ]
    };
    let up = drafted(&input(vec![class("low", 300), class("high", 400)], &there(100, 200)));
    let after = |low: &str, high: &str| {
        [format!("apply:WorkloadPriorityClass/low{low}"), format!("apply:WorkloadPriorityClass/high{high}")]
    };
    assert_eq!(steps(&up), after(" after apply:WorkloadPriorityClass/high", ""));
    let down = drafted(&input(vec![class("low", 10), class("high", 50)], &there(100, 200)));
    assert_eq!(steps(&down), after("", " after apply:WorkloadPriorityClass/low"));
    let apart = drafted(&input(vec![class("low", 110), class("high", 210)], &there(100, 200)));
    assert_eq!(steps(&apart), after("", ""));
}

#[test]
fn what_is_lowered_goes_before_what_is_raised() {
    let wanted = vec![object("ClusterQueue/vision", queue("16")), object("ClusterQueue/speech", queue("8"))];
    let there = [("ClusterQueue/vision", ours(&queue("8"))), ("ClusterQueue/speech", ours(&queue("16")))];
    let draft = drafted(&input(wanted, &there));
    assert_eq!(
        steps(&draft),
        ["apply:ClusterQueue/vision after apply:ClusterQueue/speech", "apply:ClusterQueue/speech"]
    );
}

fn two_flavors(train: &str, burst: &str) -> Value {
    let mut body = queue(train);
    let more = json!({"name": "burst", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": burst}]});
    body["spec"]["resourceGroups"][0]["flavors"].as_array_mut().unwrap().push(more);
    body
}

#[test]
fn queues_that_swap_wait_for_a_person() {
    let wanted = vec![
        object("ClusterQueue/vision", two_flavors("16", "4")),
        object("ClusterQueue/speech", two_flavors("4", "16")),
    ];
    let there = [
        ("ClusterQueue/vision", ours(&two_flavors("4", "16"))),
        ("ClusterQueue/speech", ours(&two_flavors("16", "4"))),
    ];
    let draft = drafted(&input(wanted, &there));
    assert!(draft.courses.is_empty());
    assert!(draft.held.iter().all(|held| matches!(held.waiting_on, WaitingOn::Person(_))));
    assert_eq!(draft.held.len(), 2);
}

#[test]
fn quotas_that_others_keep_are_not_promised_again() {
    let mut world = world("2026-03-01T12:00Z", TEAMS);
    world.desired = crate::compile::compile(&world.target);
    let made = world.desired.objects.iter().map(|object| (object.key.clone(), ours(&object.body)));
    let mut made: BTreeMap<ObjectKey, ObjectSeen> = made.collect();
    // Somebody's queue without a document has all 32 GPUs of the pool, and ours had none until now.
    let vision = key("ClusterQueue/vision");
    let flavor =
        world.desired.objects.iter().find(|one| one.key.kind == ObjectKind::ResourceFlavor).unwrap().key.clone();
    let mut old = queue("32");
    old["spec"]["resourceGroups"][0]["flavors"][0]["name"] = json!(&*flavor.name);
    made.insert(key("ClusterQueue/old"), seen(&old, None));
    made.remove(&vision);
    world.observed.cluster.objects = Read::new(made.clone(), world.now);
    let draft = drafted(&world);
    assert_eq!(steps(&draft), [""; 0]);
    let WaitingOn::Person(text) = &draft.held[0].waiting_on else { panic!("{:?}", draft.held) };
    assert!(text.contains("some of it to ClusterQueue old, and its nodes hold 32"), "{text}");
    made.remove(&key("ClusterQueue/old"));
    world.observed.cluster.objects = Read::new(made, world.now);
    assert_eq!(steps(&drafted(&world)), ["apply:ClusterQueue/vision"]);
}

#[test]
fn what_is_planned_passes_the_audit() {
    let mut world = world("2026-03-01T12:00Z", TEAMS);
    world.desired = crate::compile::compile(&world.target);
    let judged = |input: &PlanInput| crate::audit::audit(input, crate::plan::plan(input)).expect("a plan that is safe");
    assert!(judged(&world).steps.iter().any(|step| step.id.as_str().starts_with("apply:ClusterQueue/vision@")));
    let made = world.desired.objects.iter().map(|object| (object.key.clone(), ours(&object.body)));
    let mut made: BTreeMap<ObjectKey, ObjectSeen> = made.collect();
    world.observed.cluster.objects = Read::new(made.clone(), world.now);
    assert!(!judged(&world).steps.iter().any(|step| step.id.as_str().starts_with("apply:")));
    // Each of them in turn is gone, written in another way, moved, or somebody else's.
    for object in &world.desired.objects {
        let as_it_was = made.remove(&object.key).expect("an object");
        let moved = Some(("kubectl".into(), world.now));
        let other = Some(Digest::from("other"));
        let worlds = [
            None,
            Some(ObjectSeen { written: other, ..as_it_was.clone() }),
            Some(ObjectSeen { body: json!({"spec": {}, "value": 1}), moved_by: moved, ..as_it_was.clone() }),
            Some(ObjectSeen { deleting: true, written: None, ..as_it_was.clone() }),
        ];
        for there in worlds {
            made.remove(&object.key);
            made.extend(there.map(|there| (object.key.clone(), there)));
            world.observed.cluster.objects = Read::new(made.clone(), world.now);
            judged(&world);
        }
        made.insert(object.key.clone(), as_it_was);
    }
}

/// Eight GPUs of `train` for an hour.
fn runs(queue: &str) -> WorkloadSeen {
    let flavors = [("nvidia.com/gpu".into(), "train".into())].into();
    WorkloadSeen { flavors, tier: Some("research".into()), ..workload(&format!("{queue}/run"), queue, 8) }
}

fn run(input: &mut PlanInput, all: Vec<(&str, WorkloadSeen)>) {
    let pods = all.iter().filter(|(_, workload)| workload.reserved.is_some()).map(|(uid, workload)| {
        let workload = workload.name.to_string();
        PodSeen { workload: Some((*uid).into()), ..pod(&format!("{workload}-0"), "a", 8) }
    });
    input.observed.cluster.pods = Read::new(pods.collect(), input.now);
    let all = all.into_iter().map(|(uid, workload)| (WorkloadUid::from(uid), workload)).collect();
    input.observed.cluster.workloads = Read::new(all, input.now);
}

#[test]
fn whom_a_raised_quota_will_evict_is_foretold() {
    let flavor = ours(&json!({"spec": {}}));
    let wanted = vec![
        object("ResourceFlavor/train", json!({"spec": {}})),
        object("ClusterQueue/speech", queue("0")),
        object("ClusterQueue/vision", queue("8")),
    ];
    // Speech runs on its own eight; vision, which waits, gets them.
    let there = [
        ("ResourceFlavor/train", flavor),
        ("ClusterQueue/speech", ours(&queue("8"))),
        ("ClusterQueue/vision", ours(&queue("0"))),
    ];
    let mut input = input(wanted, &there);
    let waits = WorkloadSeen { reserved: None, flavors: BTreeMap::new(), ..runs("vision") };
    run(&mut input, vec![("w1", runs("speech")), ("w2", waits)]);
    let draft = drafted(&input);
    let raise =
        draft.courses.iter().flat_map(|course| &course.steps).find(|step| step.on == Thing::Quota("vision".into()));
    let raise = raise.expect("a step");
    assert_eq!(raise.disruption.gangs[0].name, "speech/run");
    assert_eq!(raise.disruption.teams, ["speech".into()].into());
    let amount = raise.effects.get(Verb::Apply, &raise.on).expect("an effect");
    assert_eq!((amount.gpus, amount.gpu_secs, amount.highest), (8, 8 * 7200, Some(200)));
    assert_eq!(raise.consent, Consent::Asked);
    let lower =
        draft.courses.iter().flat_map(|course| &course.steps).find(|step| step.on == Thing::Quota("speech".into()));
    assert!(lower.expect("a step").disruption.is_none());
}

#[test]
fn a_flavor_that_work_runs_on_stays_listed() {
    let mut without = queue("8");
    without["spec"]["resourceGroups"] = json!([]);
    let wanted = vec![object("ClusterQueue/speech", without), object("ClusterQueue/vision", queue("16"))];
    let there = [("ClusterQueue/speech", ours(&queue("8"))), ("ClusterQueue/vision", ours(&queue("8")))];
    let mut input = input(wanted, &there);
    run(&mut input, vec![("w1", runs("speech"))]);
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    let gang = WaitingOn::Gang { name: "speech/run".into() };
    let waits: Vec<&WaitingOn> = draft.held.iter().map(|held| &held.waiting_on).collect();
    assert_eq!(waits, [&gang, &gang], "and what counts on its quota waits with it");
}

#[test]
fn nothing_is_made_where_the_cluster_was_not_read() {
    let gap = Gap { what: "list ClusterQueues".into(), why: "timeout".into() };
    let mut input = input(vec![object("ClusterQueue/vision", queue("8"))], &[]);
    input.observed.cluster.objects = Read::with_gap(BTreeMap::new(), input.now, gap.clone());
    let draft = drafted(&input);
    assert!(draft.courses.is_empty());
    assert_eq!(draft.held[0].waiting_on, WaitingOn::Unread(gap));
}

#[test]
fn nothing_is_raised_while_nobody_knows_what_runs() {
    let wanted = vec![object("ClusterQueue/vision", queue("16")), object("ClusterQueue/speech", queue("4"))];
    let there = [("ClusterQueue/vision", ours(&queue("8"))), ("ClusterQueue/speech", ours(&queue("8")))];
    let mut input = input(wanted, &there);
    input.observed.cluster.workloads = Read::default();
    let draft = drafted(&input);
    assert_eq!(steps(&draft), ["apply:ClusterQueue/speech"]);
    assert!(matches!(draft.held[0].waiting_on, WaitingOn::Unread(_)));
}

#[test]
fn what_is_retired_is_deleted_in_order_and_what_is_gone_is_let_go() {
    let there = [
        ("ClusterQueue/vision", ours(&queue("8"))),
        ("LocalQueue/vision/main", ours(&json!({"spec": {"clusterQueue": "vision"}}))),
        ("ClusterQueue/old", ours(&queue("8"))),
        ("ClusterQueue/foreign", seen(&queue("8"), None)),
    ];
    let mut input = input(Vec::new(), &there);
    input.desired.retired = vec![key("LocalQueue/vision/main"), key("ClusterQueue/vision")];
    let draft = drafted(&input);
    assert_eq!(
        steps(&draft),
        [
            "delete:LocalQueue/vision/main",
            "delete:ClusterQueue/vision after delete:LocalQueue/vision/main",
            "disown:ClusterQueue/old",
        ]
    );
    assert_eq!(draft.courses[0].steps[0].consent, Consent::Asked);
    assert_eq!(draft.released.len(), 1);
    let gap = Gap { what: "list".into(), why: "timeout".into() };
    let seen = input.observed.cluster.objects.seen().clone();
    input.observed.cluster.objects = Read::with_gap(seen, input.now, gap);
    assert!(!steps(&drafted(&input)).iter().any(|step| step.starts_with("delete")));
}

#[test]
fn what_the_server_would_refuse_is_held_in_its_words() {
    let wanted = vec![object("Cohort/c", json!({"spec": {}})), object("ClusterQueue/vision", queue("8"))];
    let mut input = input(wanted, &[]);
    let why = "lendingLimit: must be less than or equal to the nominalQuota";
    input.observed.rehearsed.insert(key("ClusterQueue/vision"), Rehearsed::Refused(why.into()));
    let draft = drafted(&input);
    assert_eq!(steps(&draft), ["apply:Cohort/c"]);
    let held: Vec<_> = draft.held.iter().map(|held| (held.wanted.as_str(), &held.waiting_on)).collect();
    assert_eq!(held, [("make ClusterQueue vision", &WaitingOn::Person(why.into()))]);
}

#[test]
fn what_admission_makes_of_an_object_is_told_before() {
    let wanted = object("ClusterQueue/vision", queue("8"));
    let mut input = input(vec![wanted], &[]);
    let mut taken = queue("8");
    taken["spec"]["stopPolicy"] = json!("None");
    input.observed.rehearsed.insert(key("ClusterQueue/vision"), Rehearsed::Taken(taken));
    assert_eq!(drafted(&input).notes, [], "a default is no surprise");
    input.observed.rehearsed.insert(key("ClusterQueue/vision"), Rehearsed::Taken(queue("4")));
    let draft = drafted(&input);
    assert_eq!(steps(&draft), ["apply:ClusterQueue/vision"]);
    let text = &draft.notes[0].text;
    assert!(text.contains("guarantee of train 8 GPUs: admission") && text.ends_with("of train 4 GPUs"), "{text}");
}
