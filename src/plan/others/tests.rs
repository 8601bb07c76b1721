//! A fleet with slices and gangs, against what other tools say.

use serde_json::json;

use super::*;
use crate::observed::Read;
use crate::plan::testing::world;

const SLICES: &str = r#"
kind: NodePool
metadata: {name: serve}
spec: {instanceType: p5.48xlarge, nodes: 2, capacity: [{onDemand: {max: 2}}], layout: halves}
---
kind: GpuLayout
metadata: {name: halves}
spec: {mig: [{slices: {3g.40gb: 2}}]}
---
kind: PreemptionTier
metadata: {name: any}
spec: {rank: 1}
---
kind: Quota
metadata: {name: vision}
spec: {namespaces: [{name: vision}], tiers: [any], shares: [{pool: serve, guarantee: {slices: {3g.40gb: 4}}}]}
---
kind: SchedulerProfile
metadata: {name: packed}
spec: {score: pack, gang: {timeout: 10m}, pools: [serve]}
"#;

fn input(policy: Option<Value>, kueue: Option<&str>) -> PlanInput {
    let mut input = world("2026-03-01T12:00Z", SLICES);
    let now = input.now;
    let others = &mut input.observed.cluster.others;
    let key = ObjectKey::cluster(ObjectKind::ClusterPolicy, "cluster-policy");
    others.policies = Read::new(policy.into_iter().map(|policy| (key.clone(), policy)).collect(), now);
    others.kueue = Read::new(kueue.map(|text| json!({"data": {"controller_manager_config.yaml": text}})), now);
    input
}

fn right() -> Value {
    json!({"spec": {"mig": {"strategy": "mixed"}, "migManager": {"config": {"name": "tidewright-mig-parted"}}}})
}

fn drafted(input: &PlanInput) -> Draft {
    let mut draft = Draft::default();
    plan(input, &mut draft);
    draft
}

fn patches(draft: &Draft) -> Vec<&str> {
    let waits = draft.held.iter().map(|held| &held.waiting_on);
    let patch = waits.filter_map(|waits| match waits {
        WaitingOn::OtherOwner { patch, .. } => Some(patch.as_str()),
        _ => None,
    });
    patch.collect()
}

#[test]
fn nothing_is_asked_of_others_that_do_what_is_needed() {
    let draft = drafted(&input(Some(right()), Some("waitForPodsReady: {timeout: 10m}")));
    assert_eq!((draft.held.len(), draft.notes.len()), (0, 0), "{:?}", draft.held);
}

#[test]
fn another_kueue_than_the_one_that_was_tried_is_said() {
    let with = |version: Option<&str>| {
        let mut input = input(Some(right()), Some("waitForPodsReady: {timeout: 10m}"));
        input.observed.cluster.others.kueue_version = version.map(str::to_owned);
        drafted(&input).notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!((with(None).len(), with(Some("0.19.7")).len()), (0, 0));
    for other in ["0.18.4", "0.20.0-rc.1", "1.0.0"] {
        let told = with(Some(other));
        assert!(told.len() == 1 && told[0].starts_with(&format!("Kueue {other} runs here")), "{told:?}");
    }
}

#[test]
fn a_policy_that_names_another_file_is_held_with_the_patch() {
    let other = json!({"spec": {"mig": {"strategy": "mixed"}, "migManager": {"config": {"name": "default-mig-parted-config"}}}});
    let draft = drafted(&input(Some(other), Some("waitForPodsReady: {timeout: 10m}")));
    assert_eq!(
        patches(&draft),
        ["kubectl patch clusterpolicy cluster-policy --type=merge -p \
          '{\"spec\":{\"migManager\":{\"config\":{\"name\":\"tidewright-mig-parted\"}}}}'"]
    );
    let text = "migManager config name default-mig-parted-config → tidewright-mig-parted";
    assert!(draft.held[0].wanted.ends_with(text), "{}", draft.held[0].wanted);
}

#[test]
fn kueues_file_is_held_with_the_whole_of_it_and_a_restart() {
    let file = "apiVersion: config.kueue.x-k8s.io/v1beta2\n# somebody's note: it's theirs\nkind: Configuration\n\
                waitForPodsReady: {timeout: 5m}\nclientConnection: {qps: 50}\n";
    let draft = drafted(&input(Some(right()), Some(file)));
    let patches = patches(&draft);
    let (first, second) = patches[0].split_once('\n').unwrap();
    let start = "kubectl -n kueue-system patch configmap kueue-manager-config --type=merge -p '";
    let patch = first.strip_prefix(start).unwrap().strip_suffix('\'').unwrap();
    let patch: Value = serde_json::from_str(patch).unwrap();
    let (key, written) = mode::file(&patch).unwrap();
    assert_eq!(key, "controller_manager_config.yaml");
    let wanted = json!({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "waitForPodsReady": {"timeout": "10m"}, "clientConnection": {"qps": 50}});
    assert_eq!(written, wanted);
    assert_eq!(second, "kubectl -n kueue-system rollout restart deployment kueue-controller-manager");
}

#[test]
fn what_is_not_there_is_told_and_what_may_not_be_read_is_held() {
    let draft = drafted(&input(None, None));
    assert_eq!(draft.held.len(), 0);
    assert!(draft.notes[0].text.contains("waits 10m"), "{:?}", draft.notes);
    assert!(draft.notes[1].text.contains("point mig-manager to tidewright-mig-parted"), "{:?}", draft.notes);
    let mut blind = input(None, None);
    blind.observed.cluster.others = crate::observed::Others::default();
    let draft = drafted(&blind);
    assert!(draft.held.iter().all(|held| matches!(held.waiting_on, WaitingOn::Unread(_))));
    assert_eq!(draft.held.len(), 2);
}

#[test]
fn kueue_is_asked_to_count_together_when_all_queues_are_ready_for_it() {
    let mut input = input(Some(right()), Some("waitForPodsReady: {timeout: 10m}"));
    let documents = SLICES.replace("tiers: [any], shares", "tiers: [any], total: {gpus: 2}, shares");
    input.target = world("2026-03-01T12:00Z", &documents).target;
    assert_eq!(patches(&drafted(&input)), [""; 0], "its queue does not have it yet");
    let flavors = json!([{"name": "serve", "resources": [{"name": "nvidia.com/mig-3g.40gb", "nominalQuota": "4"}]}]);
    let plain = json!({"coveredResources": ["nvidia.com/mig-3g.40gb"], "flavors": flavors});
    let ready = json!([plain, currency::group(Some(2000), false)]);
    let queue = |name: &str, groups: Value| {
        let body = json!({"spec": {"resourceGroups": groups}});
        let seen = crate::observed::ObjectSeen { body, written: None, moved_by: None, deleting: false };
        (ObjectKey::cluster(ObjectKind::ClusterQueue, name), seen)
    };
    let there = [queue("vision", ready), queue("theirs", json!([plain]))];
    input.observed.cluster.objects = Read::new(there.into(), input.now);
    let draft = drafted(&input);
    let patches = patches(&draft);
    assert!(patches.len() == 1 && patches[0].contains("tidewright.dev/gpu-thousandths"), "{patches:?}");
    let said = &draft.held[0].wanted;
    assert!(
        said.contains("ClusterQueue theirs, which no document names, admits no GPUs then unless it covers"),
        "{said}"
    );
    // Once it counts, nothing is asked, and nobody is named.
    let on = "waitForPodsReady: {timeout: 10m}\nresources: {transformations: [{input: nvidia.com/mig-3g.40gb, \
              outputs: {tidewright.dev/gpu-thousandths: 500}}]}";
    input.observed.cluster.others.kueue =
        Read::new(Some(json!({"data": {"controller_manager_config.yaml": on}})), input.now);
    assert_eq!(drafted(&input).held.len(), 0);
}

#[test]
fn nodes_of_others_that_lose_their_file_are_named() {
    let mut input = input(Some(json!({"spec": {}})), None);
    let node = crate::observed::NodeSeen {
        uid: "u".into(),
        instance: None,
        labels: [(MIG_CONFIG.to_string(), "all-1g.10gb".to_string())].into(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        ready: true,
        unready_since: None,
        ready_since: None,
        moved_by: Default::default(),
        allocatable: BTreeMap::new(),
        conditions: BTreeMap::new(),
        created: input.now,
        boot: None,
    };
    input.observed.cluster.nodes = Read::new([("theirs".into(), node)].into(), input.now);
    let draft = drafted(&input);
    assert!(draft.notes.iter().any(|note| note.text.starts_with("theirs is in no pool and is cut as all-1g.10gb")));
}
