//! What ours rests on in objects of other owners: Kueue's Configuration and the GPU Operator's ClusterPolicy.
//!
//! They are read and never written. For each there is a function from how it is to how it has to be, which gives back
//! the same where nothing is needed; what differs is for their owner to change (`plan::others`).

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use serde_json::{Map, Value, json};

use super::currency::CURRENCY;
use super::{gpus, holds, quantity};
use crate::fleet::Target;
use crate::fleet::standing::CutSpec;
use crate::ids::ResourceName;
use crate::queue::transform::of_file;
use crate::units::Duration;

/// The Kueue that the suites of the real cluster run with: major and minor version.
pub const KUEUE_TRIED: &str = "0.19";

/// What documents ask for that others carry out.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Rests {
    /// Some pool is cut by mig-manager, now or with a tide.
    pub cuts: bool,
    /// Some pool's GPUs are shared by the device plugin.
    pub shares: bool,
    /// What queues count. Kueue has to count it too, under the same name.
    pub counted: BTreeSet<ResourceName>,
    /// How long the pods of a gang wait for each other. Kueue knows one such time for all, so it is the longest: a
    /// shorter one would end gangs that were promised more.
    pub gang_timeout: Option<Duration>,
    pub namespaces: BTreeSet<String>,
    /// What each accelerator is worth in the currency that totals are kept in, once all our queues have some of it.
    pub worths: Option<holds::Resources>,
}

pub fn rests(target: &Target) -> Rests {
    let standing = &target.standing;
    let mut found = Rests::default();
    for (name, pool) in &standing.pools {
        found.shares |= gpus::is_shared(standing, name, pool);
        for layout in gpus::layouts(standing, name, pool) {
            let cut = standing.layouts.get(&layout).map(|layout| &layout.cut);
            found.cuts |= gpus::is_cut_by_mig_manager(pool) && matches!(cut, Some(CutSpec::Mig(_)));
            let supply = standing.per_node(pool, &layout);
            found.counted.extend(holds::counted(standing, pool, &layout, &supply).into_keys());
        }
    }
    found.gang_timeout = standing.schedulers.values().filter_map(|profile| Some(profile.gang.as_ref()?.timeout)).max();
    let quotas = standing.quotas.values().filter(|quota| !quota.retire);
    found.namespaces =
        quotas.flat_map(|quota| quota.namespaces.iter().map(|(namespace, _)| namespace.clone())).collect();
    found
}

/// A ClusterPolicy that has mig-manager and the device plugin read our files, and slices called slices. Only for those
/// of the two that are asked for.
pub fn policy(seen: &Value, cuts: bool, shares: bool) -> Value {
    let mut policy = seen.clone();
    if cuts {
        // Under `single` a slice would be called a GPU, and be counted as one.
        set(&mut policy, &["spec", "mig", "strategy"], "mixed".into());
        set(&mut policy, &["spec", "migManager", "config", "name"], gpus::MIG_PARTED.into());
        switch_on(&mut policy, &["spec", "migManager", "enabled"]);
    }
    if shares {
        set(&mut policy, &["spec", "devicePlugin", "config", "name"], gpus::DEVICE_PLUGIN.into());
        switch_on(&mut policy, &["spec", "devicePlugin", "enabled"]);
        // Without a name nodes that nobody labelled get what the plugin does by itself; a name that is not in our file
        // keeps it down.
        if at(&policy, &["spec", "devicePlugin", "config", "default"]).is_some_and(|name| !is_nothing(name)) {
            set(&mut policy, &["spec", "devicePlugin", "config", "default"], gpus::DEFAULT.into());
        }
    }
    policy
}

/// Kueue's Configuration, with which it counts what our queues count, in the namespaces of our teams, placed by our
/// topologies, and waits as long for a gang as is promised.
pub fn configuration(seen: &Value, rests: &Rests) -> Value {
    let mut file = seen.clone();
    if !rests.counted.is_empty() {
        count_what_we_count(&mut file, &rests.counted);
    }
    if let Some(worths) = &rests.worths {
        count_together(&mut file, worths);
    }
    if at(&file, &["featureGates", "TopologyAwareScheduling"]) == Some(&Value::Bool(false)) {
        set(&mut file, &["featureGates", "TopologyAwareScheduling"], true.into());
    }
    // Where the list is left out, Kueue takes Jobs.
    if list(&file, &["integrations", "frameworks"]).is_some_and(Vec::is_empty) {
        set(&mut file, &["integrations", "frameworks"], json!(["batch/job"]));
    }
    if let Some(timeout) = rests.gang_timeout {
        let path = ["waitForPodsReady", "timeout"];
        let is = at(&file, &path).and_then(Value::as_str).and_then(|text| text.parse::<Duration>().ok());
        if is != Some(timeout) {
            set(&mut file, &path, timeout.to_string().into());
        }
        // Before v1beta2 the block had a switch of its own.
        switch_on(&mut file, &["waitForPodsReady", "enable"]);
    }
    let_namespaces_in(&mut file, &rests.namespaces);
    file
}

/// Whether a queue that does not cover all that is asked for admits it all the same.
pub fn ignores_undeclared(file: &Value) -> bool {
    at(file, &["resources", "quotaCheckStrategy"]).and_then(Value::as_str) == Some("IgnoreUndeclared")
}

/// Has every accelerator counted in the currency too, whatever else it is counted as.
fn count_together(file: &mut Value, worths: &holds::Resources) {
    let path = ["resources", "transformations"];
    let known = of_file(file);
    let mut all = list(file, &path).cloned().unwrap_or_default();
    for (resource, worth) in worths {
        let of = known.get(resource).filter(|rule| !rule.replaces).and_then(|rule| rule.outputs.get(CURRENCY));
        if of == Some(&Decimal::from(*worth)) {
            continue;
        }
        let mut outputs = Map::new();
        let old = all.iter().position(|one| one["input"].as_str() == Some(resource.as_str()));
        if let Some(old) = old.map(|place| all.remove(place)) {
            outputs.extend(old["outputs"].as_object().cloned().unwrap_or_default());
        }
        outputs.insert(CURRENCY.into(), quantity::count(*worth).into());
        all.push(json!({"input": resource, "strategy": "Retain", "outputs": outputs}));
    }
    if list(file, &path) != Some(&all) {
        set(file, &path, all.into());
    }
}

/// A resource that is excluded is given away without limit. One that becomes another is counted under a name that no
/// queue covers: then it is not counted at all, or nothing is admitted. The currency is covered.
fn count_what_we_count(file: &mut Value, counted: &BTreeSet<ResourceName>) {
    let is_counted = |name: &str| counted.iter().any(|counted| counted.as_str() == name);
    let prefixes = ["resources", "excludeResourcePrefixes"];
    if let Some(all) = list(file, &prefixes) {
        let harms = |prefix: &str| counted.iter().any(|counted| counted.as_str().starts_with(prefix));
        let kept: Vec<Value> = all.iter().filter(|one| !one.as_str().is_some_and(harms)).cloned().collect();
        if kept.len() < all.len() {
            set(file, &prefixes, kept.into());
        }
    }
    let transformations = ["resources", "transformations"];
    let ignores = ignores_undeclared(file);
    if let Some(all) = list(file, &transformations) {
        let harms = |one: &&Value| {
            let replaces = one["strategy"].as_str() == Some("Replace");
            let becomes = one["outputs"].as_object().into_iter().flat_map(Map::keys).any(|output| output != CURRENCY);
            one["input"].as_str().is_some_and(is_counted) && (replaces || becomes && !ignores)
        };
        let kept: Vec<Value> = all.iter().filter(|one| !harms(one)).cloned().collect();
        if kept.len() < all.len() {
            set(file, &transformations, kept.into());
        }
    }
}

/// The label that every namespace has: its name.
const ITS_NAME: &str = "kubernetes.io/metadata.name";

/// Work in a namespace that the selector leaves out runs beside the queues. Only selection by name can be judged here.
fn let_namespaces_in(file: &mut Value, namespaces: &BTreeSet<String>) {
    let path = ["managedJobsNamespaceSelector", "matchExpressions"];
    let Some(mut all) = list(file, &path).cloned() else { return };
    let before = all.clone();
    for one in all.iter_mut().filter(|one| one["key"].as_str() == Some(ITS_NAME)) {
        let mut values: Vec<Value> = one["values"].as_array().cloned().unwrap_or_default();
        let is_named = |name: &str, values: &[Value]| values.iter().any(|value| value.as_str() == Some(name));
        match one["operator"].as_str() {
            Some("NotIn") => values.retain(|value| !value.as_str().is_some_and(|name| namespaces.contains(name))),
            Some("In") => {
                let missing = namespaces.iter().filter(|name| !is_named(name, &values));
                let missing: Vec<Value> = missing.map(|name| name.as_str().into()).collect();
                values.extend(missing);
            }
            _ => continue,
        }
        one["values"] = values.into();
    }
    // An expression without a value is none that Kubernetes takes.
    all.retain(|one| {
        one["operator"].as_str() != Some("NotIn") || one["values"].as_array().is_none_or(|all| !all.is_empty())
    });
    if all != before {
        set(file, &path, all.into());
    }
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |at, key| at.get(key))
}

fn list<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Vec<Value>> {
    at(value, path).and_then(Value::as_array)
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

/// Sets a field, and makes what has to be above it.
fn set(value: &mut Value, path: &[&str], to: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = to;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    set(&mut value[*first], rest, to);
}

/// What is on unless somebody says otherwise is switched on where somebody did.
fn switch_on(value: &mut Value, path: &[&str]) {
    if at(value, path) == Some(&Value::Bool(false)) {
        set(value, path, true.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus_and_slices() -> Rests {
        let counted = ["nvidia.com/gpu", "nvidia.com/mig-3g.40gb"].map(ResourceName::from).into();
        Rests { counted, namespaces: ["vision".into()].into(), ..Rests::default() }
    }

    #[test]
    fn a_policy_that_does_what_is_needed_is_left_as_it_is() {
        let right = json!({"spec": {
            "mig": {"strategy": "mixed"},
            "migManager": {"enabled": true, "config": {"name": "tidewright-mig-parted", "default": "all-disabled"}},
            "devicePlugin": {"config": {"name": "tidewright-device-plugin"}},
        }});
        assert_eq!(policy(&right, true, true), right);
        let other = json!({"spec": {"mig": {"strategy": "single"}, "migManager": {"enabled": false}}});
        assert_eq!(policy(&other, false, false), other, "nobody asks for cuts");
    }

    #[test]
    fn a_policy_is_made_to_read_our_files() {
        let seen = json!({"spec": {
            "mig": {"strategy": "single"},
            "migManager": {"enabled": false, "config": {"name": "default-mig-parted-config"}},
            "devicePlugin": {"config": {"name": "theirs", "default": "a100"}},
        }});
        let wanted = policy(&seen, true, true);
        assert_eq!(wanted["spec"]["mig"]["strategy"], "mixed");
        assert_eq!(wanted["spec"]["migManager"], json!({"enabled": true, "config": {"name": "tidewright-mig-parted"}}));
        let plugin = json!({"config": {"name": "tidewright-device-plugin", "default": "default"}});
        assert_eq!(wanted["spec"]["devicePlugin"], plugin);
        assert_eq!(policy(&json!({}), true, false)["spec"]["migManager"]["config"]["name"], "tidewright-mig-parted");
    }

    #[test]
    fn kueue_counts_what_our_queues_count() {
        let seen = json!({"resources": {
            "excludeResourcePrefixes": ["example.com/", "nvidia.com/"],
            "transformations": [
                {"input": "nvidia.com/mig-3g.40gb", "strategy": "Retain", "outputs": {"example.com/credits": "40"}},
                {"input": "nvidia.com/gpu", "strategy": "Replace", "outputs": {"example.com/credits": "80"}},
                {"input": "amd.com/gpu", "strategy": "Replace", "outputs": {"example.com/credits": "80"}}],
        }});
        let wanted = configuration(&seen, &gpus_and_slices());
        assert_eq!(wanted["resources"]["excludeResourcePrefixes"], json!(["example.com/"]));
        assert_eq!(wanted["resources"]["transformations"].as_array().unwrap().len(), 1);
        // What is added and ignored harms nobody.
        let mut lenient = seen;
        lenient["resources"]["quotaCheckStrategy"] = json!("IgnoreUndeclared");
        let wanted = configuration(&lenient, &gpus_and_slices());
        assert_eq!(wanted["resources"]["transformations"][0]["strategy"], "Retain");
    }

    #[test]
    fn every_accelerator_is_counted_in_the_currency_too_and_what_is_right_is_left() {
        let worths = || Some([("nvidia.com/gpu".into(), 1000), ("nvidia.com/mig-3g.40gb".into(), 500)].into());
        let rests = Rests { worths: worths(), ..gpus_and_slices() };
        let wanted = configuration(&json!({}), &rests);
        let of = |input: &str, worth: &str| json!({"input": input, "strategy": "Retain", "outputs": {CURRENCY: worth}});
        let both = json!([of("nvidia.com/gpu", "1k"), of("nvidia.com/mig-3g.40gb", "500")]);
        assert_eq!(wanted, json!({"resources": {"transformations": both}}));
        assert_eq!(configuration(&wanted, &rests), wanted);
        assert_eq!(configuration(&wanted, &gpus_and_slices()), wanted, "no total any more, and queues still have it");
        let by_hand = json!({"resources": {"transformations": [
            {"input": "nvidia.com/gpu", "outputs": {CURRENCY: 1000}}, of("nvidia.com/mig-3g.40gb", "400"),
            of("amd.com/gpu", "1k")]}});
        let right = configuration(&by_hand, &rests);
        let all = right["resources"]["transformations"].as_array().unwrap();
        assert_eq!((all.len(), &all[0]), (3, &by_hand["resources"]["transformations"][0]));
        assert_eq!(all[2], of("nvidia.com/mig-3g.40gb", "500"));
    }

    #[test]
    fn kueue_waits_for_a_gang_as_long_as_is_promised() {
        let rests = Rests { gang_timeout: Some(Duration::minutes(10)), ..gpus_and_slices() };
        let of = |seen: Value| configuration(&seen, &rests)["waitForPodsReady"].clone();
        assert_eq!(of(json!({})), json!({"timeout": "10m"}));
        assert_eq!(of(json!({"waitForPodsReady": {"timeout": "10m0s"}})), json!({"timeout": "10m0s"}), "the same");
        let old = json!({"waitForPodsReady": {"enable": false, "timeout": "5m", "blockAdmission": true}});
        assert_eq!(of(old), json!({"enable": true, "timeout": "10m", "blockAdmission": true}));
        assert_eq!(configuration(&json!({}), &gpus_and_slices()), json!({}), "nobody asks for a time");
    }

    #[test]
    fn teams_are_not_left_out_and_topologies_not_switched_off() {
        let name = |operator: &str, values: Value| {
            json!({"managedJobsNamespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": operator, "values": values}]}})
        };
        let of = |seen: Value| configuration(&seen, &gpus_and_slices());
        let released = name("NotIn", json!(["kube-system", "kueue-system"]));
        assert_eq!(of(released.clone()), released);
        assert_eq!(of(name("NotIn", json!(["kube-system", "vision"]))), name("NotIn", json!(["kube-system"])));
        assert_eq!(of(name("In", json!(["speech"]))), name("In", json!(["speech", "vision"])));
        assert_eq!(
            of(json!({"featureGates": {"TopologyAwareScheduling": false}}))["featureGates"]["TopologyAwareScheduling"],
            true
        );
        assert_eq!(of(json!({"integrations": {"frameworks": []}}))["integrations"]["frameworks"], json!(["batch/job"]));
        let jobset = json!({"integrations": {"frameworks": ["jobset.x-k8s.io/jobset"]}});
        assert_eq!(of(jobset.clone()), jobset, "what teams submit is theirs to say");
    }
}
