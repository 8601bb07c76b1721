//! The stand-in for NVIDIA's operands falls into every trap of the real ones: whoever passes here has met them.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::api::eventually;
use super::mig::{Fault, Maps, Operands, Timing};
use super::nodes::GpuNodes;
use super::plane::{Controlplane, Shared, beside};

struct Scene {
    plane: Shared,
    operands: Operands,
    name: &'static str,
}

const SEVEN: &str = "version: v1
mig-configs:
  seven:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
";

/// One node `NAME-0` with its operands, and the config maps that they read.
fn scene(name: &'static str) -> Option<Scene> {
    let plane = beside()?;
    plane.add_nodes(&GpuNodes::new(name, 1));
    let maps =
        Maps { namespace: "default".into(), mig: format!("{name}-mig"), device_plugin: format!("{name}-plugin") };
    let sharing = "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
    for (map, data) in [(&maps.mig, json!({"config.yaml": SEVEN})), (&maps.device_plugin, json!({"quarter": sharing}))]
    {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map, "namespace": "default"}, "data": data});
        plane.api.create(&map).unwrap();
    }
    let operands = Operands::start(&plane, &format!("{name}-"), maps, Timing::default());
    let scene = Scene { plane, operands, name };
    scene.wait_for_mount("seven");
    Some(scene)
}

impl Scene {
    fn node(&self) -> Value {
        self.plane.node(&format!("{}-0", self.name))
    }

    fn label(&self, key: &str, value: Value) {
        let path = format!("/api/v1/nodes/{}-0", self.name);
        self.plane.api.merge(&path, &json!({"metadata": {"labels": {key: value}}})).unwrap();
    }

    fn ask(&self, config: &str) {
        self.label("nvidia.com/mig.config", json!(config));
    }

    fn state(&self) -> String {
        self.node()["metadata"]["labels"]["nvidia.com/mig.config.state"].as_str().unwrap_or("none").to_owned()
    }

    #[track_caller]
    fn wait_for_state(&self, state: &str) {
        eventually(&format!("the state is {state}"), 60, || (self.state() == state).then_some(()));
    }

    fn plugin(&self) -> String {
        self.node()["metadata"]["labels"]["nvidia.com/gpu.deploy.device-plugin"].as_str().unwrap().to_owned()
    }

    fn allocatable(&self, resource: &str) -> String {
        self.node()["status"]["allocatable"][resource].as_str().unwrap_or("none").to_owned()
    }

    #[track_caller]
    fn wait_for_allocatable(&self, resource: &str, count: &str) {
        eventually(&format!("{count} {resource}"), 60, || (self.allocatable(resource) == count).then_some(()));
    }

    /// Nothing happens for longer than anything takes.
    #[track_caller]
    fn stays(&self, state: &str) {
        for _ in 0..10 {
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert_eq!(self.state(), state);
        }
    }

    #[track_caller]
    fn wait_for_mount(&self, entry: &str) {
        eventually(&format!("{entry} is mounted"), 60, || self.operands.has_mounted(entry).then_some(()));
    }

    fn configure(&self, text: &str) {
        let path = format!("/api/v1/namespaces/default/configmaps/{}-mig", self.name);
        self.plane.api.merge(&path, &json!({"data": {"config.yaml": text}})).unwrap();
    }
}

/// The changes of one label of one node, in order, as the API server recorded them.
fn history(plane: &Controlplane, node: &str, label: &str) -> Vec<String> {
    let events = plane.audit(node).into_iter().filter(|event| {
        event["verb"] == "patch" && event["objectRef"]["resource"] == "nodes" && event["objectRef"]["name"] == node
    });
    let values =
        events.filter_map(|event| Some(event["requestObject"]["metadata"]["labels"][label].as_str()?.to_owned()));
    values.collect()
}

#[test]
fn a_change_goes_through_pending_to_success_and_the_gpus_come_back_later() {
    let Some(scene) = scene("mig-way") else { return };
    scene.operands.held.plugin.store(true, Ordering::SeqCst);
    scene.ask("seven");
    scene.wait_for_state("success");
    assert_eq!(scene.plugin(), "true");
    scene.wait_for_allocatable("nvidia.com/gpu", "0");
    scene.stays("success");
    assert_eq!(scene.allocatable("nvidia.com/mig-1g.10gb"), "none", "success is said before the plugin is back");
    scene.operands.held.plugin.store(false, Ordering::SeqCst);
    scene.wait_for_allocatable("nvidia.com/mig-1g.10gb", "56");
    assert_eq!(scene.allocatable("nvidia.com/gpu"), "0");
    assert_eq!(history(&scene.plane, "mig-way-0", "nvidia.com/mig.config.state"), ["pending", "success"]);
    let plugin = history(&scene.plane, "mig-way-0", "nvidia.com/gpu.deploy.device-plugin");
    assert_eq!(plugin, ["paused-for-mig-change", "true"]);
}

#[test]
fn failed_stays_until_the_value_changes_or_the_pod_is_restarted() {
    let Some(scene) = scene("mig-fail") else { return };
    scene.operands.inject("mig-fail-0", Fault::CannotDivide);
    scene.ask("seven");
    scene.wait_for_state("failed");
    scene.wait_for_allocatable("nvidia.com/gpu", "8");
    scene.ask("seven");
    scene.label("bench.test/touched", json!("yes"));
    scene.stays("failed");
    scene.operands.restart_mig_manager("mig-fail-0");
    scene.wait_for_state("success");
    scene.wait_for_allocatable("nvidia.com/mig-1g.10gb", "56");
}

#[test]
fn taking_the_label_away_and_setting_it_again_is_a_change() {
    let Some(scene) = scene("mig-again") else { return };
    scene.operands.inject("mig-again-0", Fault::CannotDivide);
    scene.ask("seven");
    scene.wait_for_state("failed");
    scene.label("nvidia.com/mig.config", Value::Null);
    scene.stays("failed");
    scene.ask("seven");
    scene.wait_for_state("success");
}

#[test]
fn a_name_that_is_not_mounted_yet_fails_and_an_edit_under_an_old_name_does_nothing() {
    let Some(scene) = scene("mig-mount") else { return };
    scene.operands.held.mount.store(true, Ordering::SeqCst);
    scene.configure(&SEVEN.replace("seven", "eight"));
    std::thread::sleep(3 * Timing::default().mount);
    scene.ask("eight");
    scene.wait_for_state("failed");
    scene.operands.held.mount.store(false, Ordering::SeqCst);
    scene.wait_for_mount("eight");
    scene.stays("failed");
    assert_eq!(scene.allocatable("nvidia.com/gpu"), "8");
    scene.label("nvidia.com/mig.config", Value::Null);
    scene.ask("eight");
    scene.wait_for_state("success");
    scene.wait_for_allocatable("nvidia.com/mig-1g.10gb", "56");
    scene.configure("version: v1\nmig-configs: {eight: [{devices: all, mig-enabled: false}]}\n");
    scene.stays("success");
    assert_eq!(scene.allocatable("nvidia.com/mig-1g.10gb"), "56");
}

#[test]
fn a_part_that_does_not_stop_leaves_the_node_pending_without_gpus() {
    let Some(scene) = scene("mig-hang") else { return };
    scene.operands.inject("mig-hang-0", Fault::PartStays);
    scene.ask("seven");
    scene.wait_for_state("pending");
    scene.stays("pending");
    assert_eq!((scene.plugin().as_str(), scene.allocatable("nvidia.com/gpu").as_str()), ("paused-for-mig-change", "0"));
}

#[test]
fn a_failure_after_a_success_leaves_the_device_plugin_paused() {
    let Some(scene) = scene("mig-flag") else { return };
    scene.configure(&format!("{SEVEN}  whole:\n  - {{devices: all, mig-enabled: false}}\n"));
    scene.wait_for_mount("whole");
    scene.ask("seven");
    scene.wait_for_allocatable("nvidia.com/mig-1g.10gb", "56");
    scene.operands.inject("mig-flag-0", Fault::CannotDivide);
    scene.ask("whole");
    scene.wait_for_state("failed");
    scene.stays("failed");
    assert_eq!(
        (scene.plugin().as_str(), scene.allocatable("nvidia.com/mig-1g.10gb").as_str()),
        ("paused-for-mig-change", "0")
    );
}

#[test]
fn a_reboot_is_said_and_a_part_that_is_off_stays_off() {
    let Some(scene) = scene("mig-boot") else { return };
    scene.label("nvidia.com/gpu.deploy.nvsm", json!("false"));
    scene.operands.inject("mig-boot-0", Fault::Reboot);
    scene.ask("seven");
    scene.wait_for_state("success");
    let states = history(&scene.plane, "mig-boot-0", "nvidia.com/mig.config.state");
    assert_eq!(states, ["pending", "rebooting", "pending", "success"]);
    assert_eq!(scene.node()["metadata"]["labels"]["nvidia.com/gpu.deploy.nvsm"], "false");
}

#[test]
fn the_device_plugin_shares_gpus_as_its_own_label_says() {
    let Some(scene) = scene("mig-share") else { return };
    scene.label("nvidia.com/device-plugin.config", json!("quarter"));
    scene.wait_for_allocatable("nvidia.com/gpu", "0");
    scene.wait_for_allocatable("nvidia.com/gpu.shared", "32");
    scene.label("nvidia.com/device-plugin.config", json!("no-such-key"));
    scene.wait_for_allocatable("nvidia.com/gpu.shared", "0");
    scene.label("nvidia.com/device-plugin.config", Value::Null);
    scene.wait_for_allocatable("nvidia.com/gpu", "8");
}
