//! What other tools own, what comes in stages, and what has a budget of its own.

use serde_json::{Value, json};

use super::bench::*;
use super::flows::*;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

const READ: &str = "only where its file is read";
const NEEDS: &str = "what ours needs of other tools is told";
const STAGES: &str = "what comes in stages is told";
const TWICE: &str = "GPUs would be given out twice";
const URGENCY: &str = "its own budget has a reason";
const GPU: &str = "nvidia.com/gpu";

/// The ClusterPolicy has mig-manager read this map.
fn reads(bench: &mut Bench, map: &str) {
    let body = json!({"spec": {"mig": {"strategy": "mixed"}, "migManager": {"config": {"name": map}}}});
    let policy = ObjectKey::cluster(ObjectKind::ClusterPolicy, "cluster-policy");
    edit(&mut bench.input.observed.cluster.others.policies, |all| drop(all.insert(policy, body)));
}

fn held(wanted: &str, waiting_on: WaitingOn) -> Held {
    Held {
        what: Thing::Fleet,
        wanted: wanted.into(),
        reason: Reason::Wanted,
        effects: Effects::default(),
        disruption: Disruption::default(),
        waiting_on,
        done_by: None,
    }
}

/// The owner of the ClusterPolicy is told what to change.
fn told() -> Held {
    let object = ObjectKey::cluster(ObjectKind::ClusterPolicy, "cluster-policy");
    held("the file of cuts is read", WaitingOn::OtherOwner { object, patch: String::new() })
}

#[test]
fn a_node_is_cut_only_where_somebody_reads_how() {
    lend().with(|bench| reads(bench, "tidewright-mig-parted")).passes();
    let unread = |bench: &mut Bench| {
        reads(bench, "somebody-elses");
        bench.plan.held.push(told());
    };
    lend().with(unread).breaks(READ, "the ClusterPolicy names another file");
    lend()
        .with(|bench| gap(&mut bench.input.observed.cluster.others.policies))
        .breaks(READ, "nobody knows what is read");
}

#[test]
fn what_ours_needs_of_a_policy_is_told_to_its_owner() {
    let other = || Bench::settled(NOON).with(|bench| reads(bench, "somebody-elses"));
    other().breaks(NEEDS, "names another file of cuts");
    other().with(|bench| bench.plan.held.push(told())).passes();
}

#[test]
fn what_comes_in_stages_is_told() {
    let staged = || {
        Bench::settled(NOON).with(|bench| {
            let key = ObjectKey::cluster(ObjectKind::ClusterQueue, "vision");
            bench.input.desired.staged.push(Staged {
                key,
                wanted: "vision in another cohort".into(),
                waits: Vec::new(),
                carried: Vec::new(),
            });
        })
    };
    staged().breaks(STAGES, "is not as it should be, and nothing held says so");
    let waits = || WaitingOn::Gang { name: "vision/bert".into() };
    staged().with(|bench| bench.plan.held.push(held("vision in another cohort", waits()))).passes();
}

/// A queue that has nothing of its own and stands below a cohort, with these GPUs of it held by work.
fn in_cohort(held: i64, before: Value, after: Value) -> Bench {
    let mut bench = Bench::settled(NOON);
    let key = ObjectKey::cluster(ObjectKind::ClusterQueue, "vision");
    let cohort = |name: &str| ObjectKey::cluster(ObjectKind::Cohort, name);
    let there = |body: Value| ObjectSeen { written: Some(digest_of(&body)), body, moved_by: None, deleting: false };
    edit(&mut bench.input.observed.cluster.objects, |all| {
        all.insert(key.clone(), there(before));
        all.insert(cohort("rich"), there(quota("train", GPU, 40)));
        all.insert(cohort("poor"), there(quota("train", GPU, 0)));
    });
    bench.gang("bert", "vision", "research", &[("train", 0)]);
    bench.workload("bert", |workload| {
        workload.requests.insert(GPU.into(), held);
        workload.flavors.insert(GPU.into(), "train".into());
    });
    let object = Object::new(key.clone(), after);
    bench.input.desired.objects.retain(|object| object.key != key);
    bench.input.desired.objects.push(object.clone());
    bench.step("move", cluster(ClusterAction::Apply(object)), Reason::Wanted, &[]);
    bench
}

fn below(cohort: &str) -> Value {
    let mut body = quota("train", GPU, 0);
    body["spec"]["cohortName"] = cohort.into();
    body
}

#[test]
fn no_queue_moves_while_its_work_would_be_given_out_twice() {
    in_cohort(0, below("rich"), below("poor")).passes();
    in_cohort(8, below("rich"), below("rich")).passes();
    in_cohort(8, below("poor"), below("rich")).passes();
    in_cohort(8, below("rich"), below("poor")).breaks(TWICE, "is held by work, and would be free for others");
    let mut nothing = json!({"spec": {"cohortName": "rich"}});
    in_cohort(8, below("rich"), nothing.clone()).breaks(TWICE, "no longer lists");
    nothing["spec"]["resourceGroups"] = below("rich")["spec"]["resourceGroups"].clone();
    in_cohort(8, below("rich"), nothing).passes();
}

#[test]
fn what_goes_on_under_a_freeze_has_a_reason_for_it() {
    replace().passes();
    let hurried = |urgency: Urgency| replace().edit("terminate train/3", |step| step.urgency = urgency);
    hurried(Urgency::Deadline).breaks(URGENCY, "Deadline is not what its reason says");
    hurried(Urgency::Granted).breaks(URGENCY, "Granted is not what its reason says");
    hurried(Urgency::Chosen).passes();
}
