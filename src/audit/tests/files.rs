//! What nodes are told is in the files of mig-manager and the device plugin.

use serde_json::json;

use super::bench::*;
use super::flows::*;
use crate::effect::marks::MIG_CONFIG;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

const LISTED: &str = "an entry that is in its file";
const NAMED: &str = "stays in its file";

/// The files of mig-manager as they are seen: with these entries.
fn seen_file(bench: &mut Bench, entries: &[&str]) {
    let entries: serde_json::Map<String, serde_json::Value> =
        entries.iter().map(|name| ((*name).into(), json!([]))).collect();
    let body = json!({"data": {"config.yaml": json!({"version": "v1", "mig-configs": entries}).to_string()}});
    edit(&mut bench.input.observed.cluster.objects, |objects| {
        let key: ObjectKey = "ConfigMap/gpu-operator/tidewright-mig-parted".parse().unwrap();
        objects.get_mut(&key).unwrap().body = body;
    });
}

/// Writes the file as it is wanted.
fn write_file(bench: &mut Bench) {
    let file = bench.input.desired.objects.iter().find(|object| object.key.kind == ObjectKind::ConfigMap);
    let action = ClusterAction::Apply(file.unwrap().clone());
    bench.step("write the file", Action::Cluster(action), Reason::Wanted, &[]);
}

#[test]
fn a_node_is_cut_only_by_an_entry_that_its_file_has() {
    let mut bench = lend();
    seen_file(&mut bench, &["halves"]);
    bench.breaks(LISTED, "is told all-disabled, which is not in ConfigMap gpu-operator/tidewright-mig-parted");
    // A step that writes it does so before, or it is as if there were none.
    let mut bench = lend();
    seen_file(&mut bench, &["halves"]);
    write_file(&mut bench);
    bench.breaks(LISTED, "is told all-disabled");
}

#[test]
fn an_entry_that_a_node_names_stays_in_its_file() {
    let mut bench = lend();
    seen_file(&mut bench, &["all-disabled", "halves", "old"]);
    write_file(&mut bench);
    bench.node("train", 3, |node| drop(node.labels.insert(MIG_CONFIG.into(), "old".into())));
    bench.breaks(NAMED, "names old, which ConfigMap gpu-operator/tidewright-mig-parted would lose");
}
