//! What nodes may lose while work runs on them.

use std::collections::BTreeMap;

use super::bench::*;
use crate::effect::marks::POOL;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

const LAW: &str = "was admitted by";

/// A gang that Kueue admitted through the flavor of the pool, and a plan that gives its node another name.
fn relabelled() -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.gang("bert", "vision", "research", &[("own", 1)]);
    bench.workload("bert", |one| one.flavors = [("nvidia.com/gpu".into(), "before".into())].into());
    let body = serde_json::json!({"spec": {"nodeLabels": {POOL: "own"}, "topologyName": "fabric"}});
    let flavor = ObjectSeen { body, written: None, moved_by: None, deleting: false };
    let key = ObjectKey::cluster(ObjectKind::ResourceFlavor, "before");
    edit(&mut bench.input.observed.cluster.objects, |all| drop(all.insert(key, flavor)));
    let labels = [(POOL.to_string(), Some("ours".to_string()))].into();
    let dress = ClusterAction::Dress {
        node: node("own", 1),
        labels,
        taints: Vec::new(),
        remove_taints: Vec::new(),
        notes: BTreeMap::new(),
    };
    bench.step("dress own/1", Action::Cluster(dress), Reason::Wanted, &[]);
    bench
}

#[test]
fn a_node_keeps_the_labels_that_work_on_it_looks_for() {
    relabelled().breaks(LAW, "own-1 loses tidewright.dev/pool=own, which vision/bert looks for");
    // Its place counts where its pod is just being made again.
    let mut between = relabelled();
    edit(&mut between.input.observed.cluster.pods, Vec::clear);
    between.workload("bert", |one| one.nodes = [(node("own", 1), 1)].into());
    between.breaks(LAW, "own-1 loses");
    relabelled().with(|bench| bench.workload("bert", |one| one.finished = true)).passes();
    relabelled().with(|bench| bench.workload("bert", |one| one.reserved = None)).passes();
    let elsewhere = |one: &mut WorkloadSeen| one.flavors = [("nvidia.com/gpu".into(), "other".into())].into();
    relabelled().with(|bench| bench.workload("bert", elsewhere)).passes();
}
