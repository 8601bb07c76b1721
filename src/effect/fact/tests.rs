//! The verdict on every fact: what holds, what may yet, what never will, and what nobody could read.

use serde_json::json;

use super::*;
use crate::effect::digest_of;
use crate::effect::marks::MIG_CONFIG;
use crate::fleet::policy::ConditionStatus;
use crate::ids::NamespacedName;
use crate::observed::{
    ConditionSeen, Gap, InstanceSeen, Keeper, Market, NodeSeen, ObjectKind, ObjectSeen, PodPhase, Read,
    ReservationSeen, ReservationState, WorkloadSeen,
};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + secs).unwrap()
}

fn gap() -> Gap {
    Gap { what: "List".into(), why: "timed out".into() }
}

/// One word for a verdict.
fn word(fact: &Fact, seen: &Observed, now: i64) -> &'static str {
    match fact.verdict(seen, at(now)) {
        Verdict::Holds => "holds",
        Verdict::NotYet(_) => "not yet",
        Verdict::Never(_) => "never",
        Verdict::Unknown(_) => "unknown",
    }
}

fn instance(state: InstanceState) -> Observed {
    let seen = InstanceSeen {
        tag: None,
        token: None,
        state,
        instance_type: "p5.48xlarge".into(),
        zone: "a".into(),
        market: Market::OnDemand,
        reservation: None,
        group: None,
        template: None,
        launched: at(0),
        network: Vec::new(),
        notice: None,
    };
    let mut observed = nothing();
    observed.cloud.instances = Read::new(BTreeMap::from([("i-1".into(), seen)]), at(0));
    observed
}

/// Everything was read, and nothing is there.
fn nothing() -> Observed {
    let mut seen = Observed::default();
    seen.cloud.instances = Read::new(BTreeMap::new(), at(0));
    seen.cloud.reservations = Read::new(BTreeMap::new(), at(0));
    seen.cluster.nodes = Read::new(BTreeMap::new(), at(0));
    seen.cluster.pods = Read::new(Vec::new(), at(0));
    seen.cluster.workloads = Read::new(BTreeMap::new(), at(0));
    seen.cluster.objects = Read::new(BTreeMap::new(), at(0));
    seen
}

fn node() -> NodeSeen {
    NodeSeen {
        uid: "u".into(),
        instance: Some("i-1".into()),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        moved_by: Default::default(),
        allocatable: BTreeMap::new(),
        conditions: BTreeMap::new(),
        created: at(0),
        boot: None,
    }
}

fn with_node(node: NodeSeen) -> Observed {
    let mut seen = nothing();
    seen.cluster.nodes = Read::new(BTreeMap::from([("n".into(), node)]), at(0));
    seen
}

/// A node that we cordoned at the beginning, with these pods.
fn cordoned(pods: Vec<PodSeen>) -> Observed {
    let mut node = node();
    node.annotations.insert(CORDON.into(), Mark::new(at(0), "cut").text());
    let mut seen = with_node(node);
    seen.cluster.pods = Read::new(pods, at(0));
    seen
}

fn pod(uid: &str) -> PodSeen {
    PodSeen {
        name: NamespacedName::new("team", uid),
        uid: uid.into(),
        node: Some("n".into()),
        phase: PodPhase::Running,
        ready: true,
        keeper: Keeper::Controller,
        owner: None,
        workload: Some("w".into()),
        gang: None,
        priority: 0,
        requests: BTreeMap::new(),
        started: None,
        terminating: None,
        grace_secs: 30,
        empty_dir: false,
        goes_anywhere: false,
        saved: None,
        asked: None,
        budgets: Vec::new(),
    }
}

fn workload(reserved: bool, saved: Option<Timestamp>) -> BTreeMap<WorkloadUid, WorkloadSeen> {
    let seen = WorkloadSeen {
        name: NamespacedName::new("team", "w"),
        queue: "q".into(),
        tier: None,
        priority: 0,
        created: at(0),
        active: true,
        marks: BTreeMap::new(),
        pods: 1,
        fewest: None,
        requests: BTreeMap::new(),
        per_pod: BTreeMap::new(),
        required_level: None,
        preferred_level: None,
        placed: false,
        reserved: reserved.then(|| at(0)),
        evicted: false,
        finished: false,
        flavors: BTreeMap::new(),
        nodes: BTreeMap::new(),
        saved,
    };
    BTreeMap::from([("w".into(), seen)])
}

#[test]
fn an_instance_is_gone_only_when_it_is_listed_as_terminated() {
    let gone = Fact::Gone("i-1".into());
    assert_eq!(word(&gone, &instance(InstanceState::Terminated), 0), "holds");
    assert_eq!(word(&gone, &instance(InstanceState::ShuttingDown), 0), "not yet");
    assert_eq!(word(&gone, &instance(InstanceState::Running), 0), "not yet");
    assert_eq!(word(&gone, &nothing(), 0), "not yet", "absence is no proof");
}

#[test]
fn an_instance_lives_while_it_serves() {
    let live = Fact::Live("i-1".into());
    assert_eq!(word(&live, &instance(InstanceState::Pending), 0), "holds");
    assert_eq!(word(&live, &instance(InstanceState::Running), 0), "holds");
    for state in [InstanceState::ShuttingDown, InstanceState::Terminated, InstanceState::Stopped] {
        assert_eq!(word(&live, &instance(state), 0), "never");
    }
    assert_eq!(word(&live, &nothing(), 0), "never");
    assert_eq!(word(&live, &Observed::default(), 0), "unknown");
}

#[test]
fn a_reservation_has_places_and_a_state() {
    let with = |available, state| {
        let reservation = ReservationSeen {
            tag: None,
            instance_type: "p5.48xlarge".into(),
            zone: "a".into(),
            total: 4,
            available,
            state,
            start: None,
            end: None,
            matching: Default::default(),
            block: false,
            offering: None,
            network: Vec::new(),
        };
        let mut seen = nothing();
        seen.cloud.reservations = Read::new(BTreeMap::from([("cr-1".into(), reservation)]), at(0));
        seen
    };
    let free = Fact::Free { reservation: "cr-1".into(), places: 2 };
    let active = Fact::Active("cr-1".into());
    assert_eq!(word(&free, &with(2, ReservationState::Active), 0), "holds");
    assert_eq!(word(&free, &with(1, ReservationState::Active), 0), "not yet");
    assert_eq!(word(&active, &with(0, ReservationState::Active), 0), "holds");
    assert_eq!(word(&active, &with(0, ReservationState::Scheduled), 0), "not yet");
    for fact in [free, active] {
        assert_eq!(word(&fact, &nothing(), 0), "never");
        assert_eq!(word(&fact, &Observed::default(), 0), "unknown");
    }
}

#[test]
fn a_node_has_joined_when_it_is_ready_and_never_will_without_its_instance() {
    let joined = Fact::Joined { instance: "i-1".into() };
    assert_eq!(word(&joined, &with_node(node()), 0), "holds");
    assert_eq!(word(&joined, &with_node(NodeSeen { ready: false, ..node() }), 0), "not yet");
    assert_eq!(word(&joined, &instance(InstanceState::Pending), 0), "not yet");
    assert_eq!(word(&joined, &instance(InstanceState::Terminated), 0), "never");
    assert_eq!(word(&joined, &with_node(NodeSeen { instance: None, ..node() }), 0), "not yet");
}

#[test]
fn a_cordon_settles_after_the_schedulers_lag() {
    let (settled, is_cordoned) = (Fact::Settled("n".into()), Fact::Cordoned("n".into()));
    assert_eq!(word(&settled, &cordoned(Vec::new()), 5), "holds");
    assert_eq!(word(&settled, &cordoned(Vec::new()), 4), "not yet");
    assert_eq!(word(&is_cordoned, &cordoned(Vec::new()), 0), "holds");
    for fact in [settled, is_cordoned] {
        assert_eq!(word(&fact, &with_node(node()), 9), "never", "somebody lifted it");
        assert_eq!(word(&fact, &nothing(), 9), "never");
        assert_eq!(word(&fact, &Observed::default(), 9), "unknown");
    }
    let mut torn = node();
    torn.annotations.insert(CORDON.into(), "{".into());
    assert_eq!(word(&Fact::Settled("n".into()), &with_node(torn), 0), "holds", "a mark of long ago");
}

#[test]
fn a_node_holds_only_what_was_listed() {
    let only =
        |uids: &[&str]| Fact::HoldsOnly { node: "n".into(), pods: uids.iter().map(|uid| (*uid).into()).collect() };
    let two = cordoned(vec![pod("a"), pod("b")]);
    assert_eq!(word(&only(&["a", "b"]), &two, 9), "holds");
    assert_eq!(word(&only(&["a", "b", "c"]), &two, 9), "holds", "one that left meanwhile");
    assert_eq!(word(&only(&["a"]), &two, 9), "never", "one that came");
    assert_eq!(word(&only(&["a", "b"]), &two, 4), "not yet", "the cordon has to settle first");
    let exempt = [
        PodSeen { keeper: Keeper::DaemonSet, ..pod("d") },
        PodSeen { keeper: Keeper::Mirror, ..pod("m") },
        PodSeen { phase: PodPhase::Succeeded, ..pod("s") },
        PodSeen { node: Some("other".into()), ..pod("o") },
    ];
    assert_eq!(word(&only(&[]), &cordoned(exempt.to_vec()), 9), "holds");
    let mut blind = cordoned(Vec::new());
    blind.cluster.pods = Read::with_gap(Vec::new(), at(0), gap());
    assert_eq!(word(&only(&[]), &blind, 9), "unknown");
}

#[test]
fn a_node_is_empty_when_no_pod_counts_and_none_can_come() {
    let empty = Fact::Empty("n".into());
    assert_eq!(word(&empty, &cordoned(Vec::new()), 9), "holds");
    assert_eq!(word(&empty, &cordoned(vec![pod("a")]), 9), "not yet");
    let leaving = PodSeen { terminating: Some(at(0)), ..pod("a") };
    assert_eq!(word(&empty, &cordoned(vec![leaving]), 9), "not yet", "gone is gone, not told to go");
    assert_eq!(word(&empty, &cordoned(Vec::new()), 4), "not yet");
    assert_eq!(word(&empty, &with_node(node()), 9), "never");
    let mut blind = cordoned(Vec::new());
    blind.cluster.pods = Read::with_gap(Vec::new(), at(0), gap());
    assert_eq!(word(&empty, &blind, 9), "unknown");
}

#[test]
fn a_silent_machine_is_given_up_with_pods_that_had_their_time() {
    let given_up = Fact::GivenUp("n".into());
    let silent = |pods: Vec<PodSeen>, ready: bool| {
        let mut seen = cordoned(pods);
        let mut nodes = seen.cluster.nodes.seen().clone();
        nodes.values_mut().for_each(|node| (node.ready, node.unready_since) = (ready, Some(at(0))));
        seen.cluster.nodes = Read::new(nodes, at(0));
        seen
    };
    let told = |since: i64| PodSeen { terminating: Some(at(since)), ..pod("a") };
    assert_eq!(word(&given_up, &silent(vec![told(0)], false), 600), "holds");
    assert_eq!(word(&given_up, &silent(vec![told(0)], false), 599), "not yet", "it may be back");
    assert_eq!(word(&given_up, &silent(vec![told(0)], true), 600), "not yet", "it is back");
    assert_eq!(word(&given_up, &silent(vec![told(571)], false), 600), "not yet", "it has a second left");
    assert_eq!(word(&given_up, &silent(vec![told(0), pod("b")], false), 600), "not yet", "nobody told it");
    assert_eq!(word(&given_up, &silent(Vec::new(), true), 9), "holds", "empty is enough");
    assert_eq!(word(&given_up, &silent(Vec::new(), false), 4), "not yet");
    assert_eq!(word(&Fact::Empty("n".into()), &silent(vec![told(0)], false), 600), "not yet");
}

#[test]
fn an_instance_is_unlisted_only_where_the_cloud_answered() {
    let unlisted = Fact::Unlisted("i-1".into());
    assert_eq!(word(&unlisted, &nothing(), 0), "holds");
    let mut blind = nothing();
    blind.cloud.instances = Read::with_gap(BTreeMap::new(), at(0), gap());
    assert_eq!(word(&unlisted, &blind, 0), "unknown");
}

#[test]
fn a_node_is_laid_out_by_its_label_its_state_and_what_is_allocatable() {
    let wanted = LaidOut {
        labels: BTreeMap::from([(MIG_CONFIG.into(), "halves".into())]),
        allocatable: BTreeMap::from([("nvidia.com/mig-3g.40gb".into(), 16)]),
        absent: vec!["nvidia.com/gpu".into()],
    };
    let laid_out = Fact::LaidOut { node: "n".into(), laid_out: wanted };
    let cut = |label: &str, state: Option<&str>, slices: i64, gpus: i64| {
        let mut node = node();
        node.labels.insert(MIG_CONFIG.into(), label.into());
        node.labels.extend(state.map(|state| (MIG_STATE.to_string(), state.to_string())));
        node.allocatable = BTreeMap::from([("nvidia.com/mig-3g.40gb".into(), slices), ("nvidia.com/gpu".into(), gpus)]);
        with_node(node)
    };
    assert_eq!(word(&laid_out, &cut("halves", Some("success"), 16, 0), 0), "holds");
    assert_eq!(word(&laid_out, &cut("whole", Some("success"), 16, 0), 0), "never", "somebody ordered another cut");
    assert_eq!(word(&laid_out, &cut("halves", Some("failed"), 16, 0), 0), "never");
    assert_eq!(word(&laid_out, &cut("halves", Some("pending"), 16, 0), 0), "not yet");
    assert_eq!(word(&laid_out, &cut("halves", None, 16, 0), 0), "not yet");
    assert_eq!(word(&laid_out, &cut("halves", Some("success"), 15, 0), 0), "not yet");
    assert_eq!(word(&laid_out, &cut("halves", Some("success"), 16, 1), 0), "not yet", "the old ones are still there");
    assert_eq!(word(&laid_out, &nothing(), 0), "never");
}

#[test]
fn work_is_saved_when_it_says_so_is_gone_or_had_its_time() {
    let saved = Fact::Saved { workload: "w".into(), within_secs: 50, hard_at: Some(at(90)) };
    let asked = |saved, since: i64| {
        let mut seen = nothing();
        let mut workloads = workload(true, saved);
        let mark = crate::effect::marks::Mark::new(at(since), "replace");
        workloads.values_mut().for_each(|one| drop(one.marks.insert(crate::effect::marks::ASKED.into(), mark.text())));
        seen.cluster.workloads = Read::new(workloads, at(0));
        seen
    };
    assert_eq!(word(&saved, &asked(Some(at(10)), 10), 20), "holds");
    assert_eq!(word(&saved, &asked(Some(at(9)), 10), 20), "not yet", "an older save");
    assert_eq!(word(&saved, &asked(None, 10), 59), "not yet");
    assert_eq!(word(&saved, &asked(None, 10), 60), "holds", "it had its time");
    assert_eq!(word(&saved, &asked(None, 60), 89), "not yet", "its time counts from when it was asked");
    assert_eq!(word(&saved, &asked(None, 60), 90), "holds", "nobody is asked any more");
    let mut unasked = nothing();
    unasked.cluster.workloads = Read::new(workload(true, None), at(0));
    assert_eq!(word(&saved, &unasked, 20), "never", "nobody asked it");
    assert_eq!(word(&saved, &nothing(), 20), "holds");
    assert_eq!(word(&saved, &Observed::default(), 20), "unknown");
}

#[test]
fn a_gang_that_no_queue_admitted_answers_by_one_of_its_pods() {
    let gang = || crate::observed::GangName("team/set".into());
    let (since, hard_at) = (at(5), Some(at(90)));
    let fact = Fact::PodsSaved { gang: gang(), nodes: ["n".into()].into(), since, within_secs: 50, hard_at };
    let rank = |uid: &str, asked: Option<i64>, saved: Option<i64>| PodSeen {
        gang: Some(gang()),
        workload: None,
        asked: asked.map(at),
        saved: saved.map(at),
        ..pod(uid)
    };
    let both = |one: PodSeen, other: PodSeen| cordoned(vec![one, other]);
    let silent = || rank("b", Some(10), None);
    assert_eq!(word(&fact, &both(rank("a", Some(10), Some(12)), silent()), 20), "holds");
    assert_eq!(word(&fact, &both(rank("a", Some(10), Some(9)), silent()), 20), "not yet", "an older save");
    assert_eq!(word(&fact, &both(rank("a", Some(10), None), silent()), 59), "not yet");
    assert_eq!(word(&fact, &both(rank("a", Some(10), None), silent()), 60), "holds", "it had its time");
    assert_eq!(word(&fact, &both(rank("a", Some(80), None), rank("b", Some(80), None)), 90), "holds", "it is hard now");
    assert_eq!(word(&fact, &both(rank("a", None, None), silent()), 20), "never", "one of them was not asked");
    let old = || rank("a", Some(1), Some(2));
    assert_eq!(word(&fact, &both(old(), silent()), 70), "never", "it was asked for something else, long ago");
    assert_eq!(word(&fact, &cordoned(Vec::new()), 20), "holds", "it is gone");
    assert_eq!(word(&fact, &Observed::default(), 20), "unknown");
}

#[test]
fn work_is_released_when_its_quota_and_its_pods_are_gone() {
    let released = Fact::Released("w".into());
    let with = |reserved, pods| {
        let mut seen = nothing();
        seen.cluster.workloads = Read::new(workload(reserved, None), at(0));
        seen.cluster.pods = Read::new(pods, at(0));
        seen
    };
    assert_eq!(word(&released, &with(false, Vec::new()), 0), "holds");
    assert_eq!(word(&released, &with(true, Vec::new()), 0), "not yet");
    assert_eq!(word(&released, &with(false, vec![pod("a")]), 0), "not yet", "quota is free before the pods are gone");
    assert_eq!(word(&released, &nothing(), 0), "holds");
    // A pod that has ended stays as long as its job does, and holds nothing.
    let ended = PodSeen { phase: PodPhase::Succeeded, ..pod("a") };
    assert_eq!(word(&released, &with(false, vec![ended]), 0), "holds");
    let mut blind = with(false, Vec::new());
    blind.cluster.pods = Read::with_gap(Vec::new(), at(0), gap());
    assert_eq!(word(&released, &blind, 0), "unknown");
    let mut blind = nothing();
    blind.cluster.workloads = Read::with_gap(BTreeMap::new(), at(0), gap());
    assert_eq!(word(&released, &blind, 0), "unknown", "it may be there and hold its quota");
}

#[test]
fn an_object_is_unchanged_if_it_is_as_it_was_or_still_not_there() {
    let key = ObjectKey::cluster(ObjectKind::Cohort, "c");
    let body = json!({"spec": {}});
    let mut seen = nothing();
    let there = ObjectSeen { body: body.clone(), written: None, moved_by: None, deleting: false };
    seen.cluster.objects = Read::new(BTreeMap::from([(key.clone(), there)]), at(0));
    let unchanged =
        |body: Option<&serde_json::Value>| Fact::Unchanged { object: key.clone(), body: body.map(digest_of) };
    assert_eq!(word(&unchanged(Some(&body)), &seen, 0), "holds");
    assert_eq!(word(&unchanged(Some(&json!({}))), &seen, 0), "never");
    assert_eq!(word(&unchanged(None), &seen, 0), "never", "somebody made it");
    assert_eq!(word(&unchanged(None), &nothing(), 0), "holds");
    assert_eq!(word(&unchanged(Some(&body)), &nothing(), 0), "never", "somebody deleted it");
    let mut blind = nothing();
    blind.cluster.objects = Read::with_gap(BTreeMap::new(), at(0), gap());
    assert_eq!(word(&unchanged(Some(&body)), &blind, 0), "unknown");
    assert_eq!(word(&unchanged(None), &blind, 0), "unknown", "absence is concluded only from a whole read");
}

#[test]
fn a_node_is_admitted_when_all_its_conditions_are_true() {
    let admitted = Fact::Admitted { node: "n".into(), conditions: vec!["A".into(), "B".into()] };
    let with = |statuses: &[(&str, ConditionStatus)]| {
        let mut node = node();
        for (name, status) in statuses {
            let seen = ConditionSeen::new(*status, at(0));
            node.conditions.insert((*name).into(), seen);
        }
        with_node(node)
    };
    use ConditionStatus::{False, True};
    assert_eq!(word(&admitted, &with(&[("A", True), ("B", True)]), 0), "holds");
    assert_eq!(word(&admitted, &with(&[("A", True), ("B", False)]), 0), "not yet");
    assert_eq!(word(&admitted, &with(&[("A", True)]), 0), "not yet");
    assert_eq!(word(&admitted, &nothing(), 0), "never");
}

#[test]
fn a_node_is_ready_and_an_instant_comes() {
    let ready = Fact::Ready("n".into());
    assert_eq!(word(&ready, &with_node(node()), 0), "holds");
    assert_eq!(word(&ready, &with_node(NodeSeen { ready: false, ..node() }), 0), "not yet");
    assert_eq!(word(&ready, &nothing(), 0), "never");
    assert_eq!(word(&Fact::After(at(5)), &Observed::default(), 5), "holds");
    assert_eq!(word(&Fact::After(at(5)), &Observed::default(), 4), "not yet");
    assert_eq!(word(&Fact::Before(at(5)), &Observed::default(), 4), "holds");
    assert_eq!(word(&Fact::Before(at(5)), &Observed::default(), 5), "never");
}

#[test]
fn a_node_is_back_when_it_speaks_of_another_boot() {
    let since = |boot: Option<&str>| Fact::Booted { node: "n".into(), since: boot.map(BootId::from) };
    let of = |boot: Option<&str>, ready: bool| with_node(NodeSeen { boot: boot.map(BootId::from), ready, ..node() });
    assert_eq!(word(&since(Some("one")), &of(Some("one"), true), 0), "not yet", "nobody has missed it");
    assert_eq!(word(&since(Some("one")), &of(Some("one"), false), 0), "not yet");
    assert_eq!(word(&since(Some("one")), &of(Some("two"), false), 0), "not yet");
    assert_eq!(word(&since(Some("one")), &of(Some("two"), true), 0), "holds");
    assert_eq!(word(&since(None), &of(None, true), 0), "holds", "no kubelet says");
    assert_eq!(word(&since(Some("one")), &nothing(), 0), "never");
    assert_eq!(since(None).subjects(), [Subject::Node("n".into())]);
}

#[test]
fn nobody_is_waited_for_who_came_to_a_closed_node_and_tolerates_that() {
    let anywhere = |secs| PodSeen { goes_anywhere: true, started: Some(at(secs)), ..pod("a") };
    let verdict = |pod: PodSeen| word(&Fact::Empty("n".into()), &cordoned(vec![pod]), 20);
    assert_eq!(verdict(anywhere(10)), "never");
    // It was there before, or the scheduler may not have known; it is told to go; it is one that a closed node keeps away.
    assert_eq!(verdict(anywhere(3)), "not yet");
    assert_eq!(verdict(PodSeen { started: None, ..anywhere(0) }), "not yet");
    assert_eq!(verdict(PodSeen { terminating: Some(at(11)), ..anywhere(10) }), "not yet");
    assert_eq!(verdict(PodSeen { goes_anywhere: false, ..anywhere(10) }), "not yet");
    assert_eq!(verdict(PodSeen { keeper: Keeper::DaemonSet, ..anywhere(10) }), "holds");
}

#[test]
fn a_fact_names_what_has_to_be_read_again() {
    assert_eq!(Fact::Gone("i-1".into()).subjects(), [Subject::Instance("i-1".into())]);
    assert_eq!(Fact::Joined { instance: "i-1".into() }.subjects(), [Subject::NodeOf("i-1".into())]);
    assert_eq!(Fact::Empty("n".into()).subjects(), [Subject::Node("n".into())]);
    assert_eq!(Fact::Released("w".into()).subjects(), [Subject::Workload("w".into())]);
    assert_eq!(Fact::Active("cr-1".into()).subjects(), [Subject::Reservation("cr-1".into())]);
    assert!(Fact::After(at(0)).subjects().is_empty());
}
