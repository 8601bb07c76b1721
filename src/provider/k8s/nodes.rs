//! A Node of the API, and what is kept of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;

use super::proto::{self, Fields, Malformed};
use super::quantity::amount;
use super::slim::{self, Condition, Meta, Pairs, Text};
use super::wire::Page;
use crate::fleet::launch::{Taint, TaintEffect};
use crate::fleet::policy::ConditionStatus;
use crate::ids::{InstanceId, NodeName, ResourceName};
use crate::observed::{ConditionSeen, NodeSeen, READY};

/// Node feature discovery writes up to a hundred of these on a node; kept are those that somebody asks for.
const FEATURES: &str = "feature.node.kubernetes.io/";

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Node<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, rename = "providerID")]
    provider_id: Text<'a>,
    #[serde(borrow)]
    taints: Option<Vec<TaintWritten<'a>>>,
    unschedulable: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaintWritten<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    effect: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    allocatable: Option<Pairs<'a>>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    node_info: Info<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info<'a> {
    #[serde(borrow, rename = "bootID")]
    boot: Text<'a>,
}

/// A page of nodes, in whichever format it came; what is kept of each.
pub fn page(bytes: &[u8], asked: Option<&BTreeSet<&str>>) -> Result<Page<(NodeName, NodeSeen)>, String> {
    match proto::unwrapped(bytes) {
        Some(list) => {
            let keep = |fields| node(fields).map(|node| Some(seen(node, asked)));
            list.and_then(|list| proto::page(list, keep)).map_err(|error| error.to_string())
        }
        None => slim::page(bytes, |node| Some(seen(node, asked))).map_err(|error| error.to_string()),
    }
}

/// `v1.Node`.
fn node(fields: Fields<'_>) -> Result<Node<'_>, Malformed> {
    let mut node = Node::default();
    for field in fields {
        match field? {
            (1, value) => node.metadata = proto::meta(value.fields())?,
            (2, value) => node.spec = spec(value.fields())?,
            (3, value) => node.status = status(value.fields())?,
            _ => {}
        }
    }
    Ok(node)
}

fn spec(fields: Fields<'_>) -> Result<Spec<'_>, Malformed> {
    let mut spec = Spec::default();
    for field in fields {
        match field? {
            (3, value) => spec.provider_id = value.text()?,
            (4, value) => spec.unschedulable = value.is_true(),
            (5, value) => {
                let mut taint = TaintWritten::default();
                for field in value.fields() {
                    match field? {
                        (1, value) => taint.key = value.text()?,
                        (2, value) => taint.value = value.text()?,
                        (3, value) => taint.effect = value.text()?,
                        _ => {}
                    }
                }
                spec.taints.get_or_insert_with(Vec::new).push(taint);
            }
            _ => {}
        }
    }
    Ok(spec)
}

/// The images (8), which may be hundreds, are passed over.
fn status(fields: Fields<'_>) -> Result<Status<'_>, Malformed> {
    let mut status = Status::default();
    for field in fields {
        match field? {
            (2, value) => {
                let (resource, quantity) = value.entry()?;
                let mut amount = Text::default();
                for field in quantity.fields() {
                    if let (1, text) = field? {
                        amount = text.text()?;
                    }
                }
                status.allocatable.get_or_insert_with(Pairs::default).0.push((resource, amount));
            }
            (4, value) => {
                let mut one = Condition::default();
                for field in value.fields() {
                    match field? {
                        (1, value) => one.kind = value.text()?,
                        (2, value) => one.status = value.text()?,
                        (4, value) => one.last_transition_time = value.time()?,
                        (5, value) => one.reason = value.text()?,
                        (6, value) => one.message = value.text()?,
                        _ => {}
                    }
                }
                status.conditions.get_or_insert_with(Vec::new).push(one);
            }
            (7, value) => {
                for field in value.fields() {
                    if let (3, text) = field? {
                        status.node_info.boot = text.text()?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(status)
}

/// A node by its name. `asked` are labels that somebody selects by.
pub fn seen(node: Node<'_>, asked: Option<&BTreeSet<&str>>) -> (NodeName, NodeSeen) {
    let Node { metadata, spec, status } = node;
    let is_kept = |key: &str| !key.starts_with(FEATURES) || asked.is_none_or(|asked| asked.contains(key));
    let labels = metadata.labels.into_iter().flat_map(|labels| labels.0).filter(|(key, _)| is_kept(key.as_str()));
    let notes = metadata.annotations.into_iter().flat_map(|notes| notes.0);
    let conditions = status.conditions.unwrap_or_default();
    let says = conditions.iter().find(|one| one.kind.as_str() == READY);
    let ready = says.is_some_and(Condition::is_true);
    let since = says.and_then(|one| one.last_transition_time);
    let conditions = conditions.iter().filter(|one| !ready || one.kind.as_str() != READY);
    let resources = status.allocatable.into_iter().flat_map(|resources| resources.0);
    let name = metadata.name.as_str().into();
    let seen = NodeSeen {
        uid: metadata.uid.as_str().into(),
        instance: instance(spec.provider_id.as_str()),
        labels: labels.map(|(key, value)| (key.0.into_owned(), value.0.into_owned())).collect(),
        annotations: notes.map(|(key, value)| (key.0.into_owned(), value.0.into_owned())).collect(),
        taints: spec.taints.iter().flatten().filter_map(taint).collect(),
        unschedulable: spec.unschedulable,
        ready,
        unready_since: since.filter(|_| !ready),
        ready_since: since.filter(|_| ready),
        allocatable: amounts(resources),
        conditions: conditions.map(|one| (one.kind.as_str().to_owned(), condition(one))).collect(),
        created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        boot: Some(status.node_info.boot).filter(|boot| !boot.as_str().is_empty()).map(|boot| boot.as_str().into()),
        moved_by: BTreeMap::new(),
    };
    (name, seen)
}

pub fn amounts<'a>(resources: impl Iterator<Item = (Text<'a>, Text<'a>)>) -> BTreeMap<ResourceName, i64> {
    resources.filter_map(|(name, text)| Some((name.as_str().into(), amount(name.as_str(), text.as_str())?))).collect()
}

/// EC2's instance in `aws:///us-west-2a/i-0123`. A node of another provider is known by its name.
fn instance(provider_id: &str) -> Option<InstanceId> {
    let path = provider_id.strip_prefix("aws://")?;
    path.rsplit('/').next().filter(|id| id.starts_with("i-")).map(InstanceId::from)
}

fn taint(written: &TaintWritten<'_>) -> Option<Taint> {
    let effect = match written.effect.as_str() {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    };
    let value = (!written.value.is_empty()).then(|| written.value.as_str().to_owned());
    Some(Taint { key: written.key.as_str().into(), value, effect })
}

fn condition(one: &Condition<'_>) -> ConditionSeen {
    let status = match one.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let since = one.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH);
    ConditionSeen::said(one.kind.as_str(), status, since, one.reason.as_str(), one.message.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = include_str!("samples/node.json");

    fn sample() -> (NodeName, NodeSeen) {
        seen(serde_json::from_str(NODE).unwrap(), Some(&BTreeSet::new()))
    }

    #[test]
    fn a_node_keeps_what_a_decision_needs() {
        let (name, node) = sample();
        assert_eq!(name.as_str(), "ip-10-0-12-7.us-west-2.compute.internal");
        assert_eq!(node.instance, Some("i-0abc12def34567890".into()));
        assert!(node.ready && node.unschedulable);
        assert_eq!(node.allocatable["nvidia.com/gpu"], 8);
        assert_eq!(node.allocatable["cpu"], 191_450);
        assert_eq!(node.boot, Some("5c1e3f2a-7c1d-4b55-9e0a-1f6a2d3b4c5d".into()));
        assert_eq!(node.allocatable["memory"], 2_104_120_868 << 10);
        assert_eq!(node.labels["nvidia.com/mig.config"], "all-disabled");
        assert!(node.labels.keys().all(|key| !key.starts_with(FEATURES)), "{:?}", node.labels);
        assert_eq!(node.annotations.len(), 1, "{:?}", node.annotations);
        assert!(node.annotation(crate::effect::marks::CORDON).is_some());
        let drain = Taint { key: "tidewright.dev/drain".into(), value: None, effect: TaintEffect::NoSchedule };
        assert!(node.taints.contains(&drain));
    }

    #[test]
    fn a_label_that_somebody_selects_by_is_kept_whatever_its_name() {
        let key = "feature.node.kubernetes.io/cpu-cpuid.AMXINT8";
        let (_, node) = seen(serde_json::from_str(NODE).unwrap(), Some(&BTreeSet::from([key])));
        assert_eq!(node.labels[key], "true");
        let (_, node) = seen(serde_json::from_str(NODE).unwrap(), None);
        assert!(node.labels.contains_key("feature.node.kubernetes.io/kernel-version.full"));
    }

    #[test]
    fn conditions_name_their_xids_and_ready_is_not_among_them() {
        let (_, node) = sample();
        assert!(!node.conditions.contains_key("Ready"));
        let sick = &node.conditions["SysLogsXIDError"];
        assert_eq!((sick.status, sick.xids.as_slice()), (ConditionStatus::True, &[79][..]));
        assert_eq!(node.conditions["MemoryPressure"].xids, [0; 0]);
    }

    #[test]
    fn a_node_tells_since_when_it_is_ready_or_not() {
        let of = |status: &str| {
            let ready =
                format!(r#"{{"type": "Ready", "status": "{status}", "lastTransitionTime": "2026-09-03T10:00:00Z"}}"#);
            let text = format!(r#"{{"metadata": {{"name": "a"}}, "status": {{"conditions": [{ready}]}}}}"#);
            seen(serde_json::from_str(&text).unwrap(), None).1
        };
        let since: Timestamp = "2026-09-03T10:00:00Z".parse().unwrap();
        assert_eq!(of("Unknown").silent_since(), Some(since));
        assert_eq!(of("False").silent_since(), Some(since));
        assert_eq!(of("True").silent_since(), None);
        let changed = |status: &str| (of(status).ready_since, of(status).unready_since);
        assert_eq!((changed("True"), changed("False")), ((Some(since), None), (None, Some(since))));
        let says = |status: &str| of(status).conditions.get(READY).map(|seen| (seen.status, seen.since));
        assert_eq!(says("Unknown"), Some((ConditionStatus::Unknown, since)), "a health policy may name it");
        assert_eq!(says("False"), Some((ConditionStatus::False, since)));
        assert_eq!(says("True"), None);
    }

    #[test]
    fn a_node_of_no_cloud_of_ours_is_known_by_its_name() {
        assert_eq!(instance("aws:///us-west-2a/i-0abc"), Some("i-0abc".into()));
        assert_eq!(instance("kwok://gpu-1"), None);
        assert_eq!(instance("aws:///us-west-2a/fargate-ip-10"), None);
        assert_eq!(instance(""), None);
    }

    #[test]
    fn a_node_of_which_almost_nothing_is_said_is_still_a_node() {
        let (name, node) = seen(serde_json::from_str(r#"{"metadata": {"name": "a", "labels": null}}"#).unwrap(), None);
        assert_eq!(name.as_str(), "a");
        assert!(!node.ready && node.allocatable.is_empty());
    }
}
