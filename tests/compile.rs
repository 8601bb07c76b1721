//! What every example and cluster becomes, at every hour: within what its nodes hold, and within Kueue's own rules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;
use tidewright::compile::compile;
use tidewright::effect::{Desired, Object};
use tidewright::fleet::standing::Standing;
use tidewright::fleet::{Fleet, Target};
use tidewright::ids::{LayoutName, PoolName};
use tidewright::load;
use tidewright::observed::{ObjectKey, ObjectKind};

use crate::examples::{INSTANTS, fleets};

/// Every fleet of the repository with its target at each instant of a week at which it changes.
fn targets() -> impl Iterator<Item = (String, Target)> {
    fleets().into_iter().flat_map(|directory| {
        let now: Timestamp = INSTANTS[0].parse().unwrap();
        let fleet: Fleet = load::check(&directory, now).fleet.expect("the examples are valid");
        let week = now + SignedDuration::from_hours(7 * 24);
        let later = fleet.transitions(now, week).into_iter().map(|(at, _)| at);
        let name = directory.display().to_string();
        let instants: Vec<Timestamp> = [now].into_iter().chain(later).collect();
        instants.into_iter().map(move |at| (format!("{name} at {at}"), fleet.target_at(at)))
    })
}

#[test]
fn a_target_is_the_same_after_it_was_written_and_read() {
    let mut seen = 0;
    for (name, target) in targets() {
        let text = serde_json::to_string(&target).unwrap();
        let read: Target = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read, target, "{name}");
        assert_eq!(serde_json::to_string(&read).unwrap(), text, "{name}");
        let desired = compile(&target);
        let text = serde_json::to_string(&desired).unwrap();
        assert_eq!(serde_json::from_str::<Desired>(&text).unwrap(), desired, "{name}");
        seen += 1;
    }
    assert!(seen > 60, "only {seen} targets");
}

/// A quantity as a number, by Kubernetes' rules.
fn amount(text: &Json) -> u128 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no text"));
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u128 = match &text[digits.len()..] {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        other => panic!("{other} is no unit"),
    };
    digits.parse::<u128>().unwrap() * unit
}

struct Quota<'a> {
    flavor: &'a str,
    resource: &'a str,
    limits: &'a Json,
}

fn quotas(object: &Object) -> Vec<Quota<'_>> {
    let groups = object.body["spec"]["resourceGroups"].as_array().into_iter().flatten();
    let flavors = groups.flat_map(|group| group["flavors"].as_array().unwrap());
    flavors
        .flat_map(|flavor| {
            let resources = flavor["resources"].as_array().unwrap();
            resources.iter().map(|limits| {
                let (flavor, resource) = (flavor["name"].as_str().unwrap(), limits["name"].as_str().unwrap());
                Quota { flavor, resource, limits }
            })
        })
        .collect()
}

fn of(desired: &Desired, kind: ObjectKind) -> impl Iterator<Item = &Object> {
    desired.objects.iter().filter(move |object| object.key.kind == kind)
}

/// What the nodes of each pool hold, by the word of the device plugin for each layout.
fn held(target: &Target, desired: &Desired) -> BTreeMap<(String, String), u128> {
    let mut held = BTreeMap::new();
    for (name, pool) in &target.pools {
        for part in &pool.parts {
            for (resource, each) in &desired.pools[name].layouts[&part.layout].allocatable {
                *held.entry((name.to_string(), resource.to_string())).or_insert(0) +=
                    u128::from(part.nodes) * u128::try_from(*each).unwrap();
            }
        }
    }
    held
}

#[test]
fn no_more_is_promised_than_the_nodes_hold() {
    let mut counted = 0;
    for (name, target) in targets() {
        let desired = compile(&target);
        let held = held(&target, &desired);
        let mut promised: BTreeMap<(String, String), u128> = BTreeMap::new();
        let both = of(&desired, ObjectKind::Cohort).chain(of(&desired, ObjectKind::ClusterQueue));
        for quota in both.flat_map(quotas).filter(|quota| quota.resource.starts_with("nvidia.com/")) {
            *promised.entry((quota.flavor.into(), quota.resource.into())).or_insert(0) +=
                amount(&quota.limits["nominalQuota"]);
        }
        for (key, promised) in promised.iter().filter(|(_, promised)| **promised > 0) {
            let held = held.get(key).copied().unwrap_or(0);
            assert!(*promised <= held, "{name}: {key:?} {promised} of {held}");
            counted += 1;
        }
        for object in of(&desired, ObjectKind::ClusterQueue) {
            other_resources_never_bind_first(&name, &target.standing, &target, object);
        }
    }
    assert!(counted > 100, "only {counted} sums");
}

/// Whoever may use a GPU may use all processors and all memory of the pool's nodes beside it.
fn other_resources_never_bind_first(name: &str, standing: &Standing, target: &Target, queue: &Object) {
    for quota in quotas(queue).iter().filter(|quota| quota.resource == "cpu") {
        let pool = &standing.pools[&PoolName::from(quota.flavor)];
        let uses = |other: &&Quota<'_>| other.flavor == quota.flavor && other.resource.starts_with("nvidia.com/");
        let nominal = |quota: &Quota<'_>| amount(&quota.limits["nominalQuota"]);
        let all = quotas(queue);
        let owns = all.iter().filter(uses).any(|quota| nominal(quota) > 0);
        let nodes = u128::from(target.pools[&PoolName::from(quota.flavor)].nodes);
        if let (true, Some(vcpus)) = (owns, pool.shape.vcpus) {
            assert_eq!(nominal(quota), nodes * u128::from(vcpus), "{name}: {}", queue.key);
        }
    }
}

#[test]
fn every_object_keeps_the_rules_of_kueue() {
    for (name, target) in targets() {
        let desired = compile(&target);
        let names = |kind| of(&desired, kind).map(|object| &*object.key.name).collect::<BTreeSet<_>>();
        let (topologies, flavors, cohorts) =
            (names(ObjectKind::Topology), names(ObjectKind::ResourceFlavor), names(ObjectKind::Cohort));
        for object in of(&desired, ObjectKind::Topology) {
            let levels: Vec<&str> = object.body["spec"]["levels"]
                .as_array()
                .unwrap()
                .iter()
                .map(|level| level["nodeLabel"].as_str().unwrap())
                .collect();
            let unique: BTreeSet<&&str> = levels.iter().collect();
            assert!((1..=16).contains(&levels.len()) && unique.len() == levels.len(), "{name}: {levels:?}");
            let host = levels.iter().position(|level| *level == "kubernetes.io/hostname");
            assert_eq!(host, Some(levels.len() - 1), "{name}: {levels:?}");
        }
        for object in of(&desired, ObjectKind::ResourceFlavor) {
            let spec = &object.body["spec"];
            assert!((1..=8).contains(&spec["nodeLabels"].as_object().unwrap().len()), "{name}");
            assert!(spec["tolerations"].as_array().is_none_or(|all| (1..=8).contains(&all.len())), "{name}");
            assert!(topologies.contains(spec["topologyName"].as_str().unwrap()), "{name}");
        }
        for (object, parent) in of(&desired, ObjectKind::Cohort)
            .map(|object| (object, "parentName"))
            .chain(of(&desired, ObjectKind::ClusterQueue).map(|object| (object, "cohortName")))
        {
            let parent = object.body["spec"][parent].as_str();
            assert!(parent.is_none_or(|parent| cohorts.contains(parent)), "{name}: {} in {parent:?}", object.key);
            groups_are_legal(&name, object, parent.is_some(), &flavors);
        }
        for object in of(&desired, ObjectKind::LocalQueue) {
            let queue = object.body["spec"]["clusterQueue"].as_str().unwrap();
            assert!(names(ObjectKind::ClusterQueue).contains(queue), "{name}: {queue}");
        }
    }
}

fn groups_are_legal(name: &str, object: &Object, has_parent: bool, flavors: &BTreeSet<&str>) {
    let groups = object.body["spec"]["resourceGroups"].as_array();
    for group in groups.into_iter().flatten() {
        let covered = group["coveredResources"].as_array().unwrap();
        assert!((1..=64).contains(&covered.len()), "{name}: {}", object.key);
        let all = group["flavors"].as_array().unwrap();
        let unique: BTreeSet<&str> = all.iter().map(|flavor| flavor["name"].as_str().unwrap()).collect();
        assert!(unique.len() == all.len() && all.len() <= 256 && unique.is_subset(flavors), "{name}: {unique:?}");
        for flavor in all {
            let resources: Vec<&Json> =
                flavor["resources"].as_array().unwrap().iter().map(|resource| &resource["name"]).collect();
            assert_eq!(resources, covered.iter().collect::<Vec<_>>(), "{name}: {}", object.key);
        }
    }
    for quota in quotas(object) {
        let limits = [&quota.limits["borrowingLimit"], &quota.limits["lendingLimit"]];
        assert!(limits.iter().all(|limit| limit.is_null() != has_parent), "{name}: {}", object.key);
        if has_parent && object.key.kind == ObjectKind::ClusterQueue {
            assert!(amount(limits[1]) <= amount(&quota.limits["nominalQuota"]), "{name}: {}", object.key);
        }
    }
}

/// The objects that an object names.
fn named_by(object: &Object) -> Vec<ObjectKey> {
    let spec = &object.body["spec"];
    let one = |kind, field: &str| spec[field].as_str().map(|name| ObjectKey::cluster(kind, name));
    let policy = match object.key.kind {
        ObjectKind::MutatingAdmissionPolicyBinding => ObjectKind::MutatingAdmissionPolicy,
        _ => ObjectKind::ValidatingAdmissionPolicy,
    };
    let mut named: Vec<ObjectKey> = [
        one(ObjectKind::Topology, "topologyName"),
        one(ObjectKind::Cohort, "parentName"),
        one(ObjectKind::Cohort, "cohortName"),
        one(ObjectKind::ClusterQueue, "clusterQueue"),
        one(policy, "policyName"),
    ]
    .into_iter()
    .flatten()
    .collect();
    named.extend(quotas(object).iter().map(|quota| ObjectKey::cluster(ObjectKind::ResourceFlavor, quota.flavor)));
    named.extend(object.key.namespace.as_ref().map(|name| ObjectKey::cluster(ObjectKind::Namespace, name)));
    named
}

#[test]
fn who_is_named_comes_first_and_nothing_comes_twice() {
    for (name, target) in targets() {
        let desired = compile(&target);
        let mut seen: BTreeSet<&ObjectKey> = BTreeSet::new();
        for object in &desired.objects {
            for named in named_by(object) {
                assert!(seen.contains(&named), "{name}: {} comes before {named}", object.key);
            }
            assert!(seen.insert(&object.key), "{name}: {} is there twice", object.key);
            assert!(!desired.retired.contains(&object.key), "{name}: {} is wanted and retired", object.key);
        }
    }
}

#[test]
fn which_objects_there_are_and_what_queues_cover_never_follows_the_hour() {
    type Shape = Vec<(ObjectKey, Vec<(String, String)>)>;
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for (name, target) in targets() {
        let desired = compile(&target);
        let covers = |object: &Object| match object.key.kind {
            ObjectKind::ClusterQueue => {
                let above = object.body["spec"]["cohortName"].to_string();
                let all = quotas(object).into_iter().map(|quota| (quota.flavor.into(), quota.resource.into()));
                all.chain([("in".into(), above)]).collect()
            }
            _ => Vec::new(),
        };
        let shape: Shape = desired.objects.iter().map(|object| (object.key.clone(), covers(object))).collect();
        let fleet = name.split(" at ").next().unwrap().to_owned();
        assert_eq!(*shapes.entry(fleet).or_insert_with(|| shape.clone()), shape, "{name}");
    }
}

#[test]
fn every_layout_of_a_part_is_known_and_ordered_by_a_file_that_has_it() {
    for (name, target) in targets() {
        let desired = compile(&target);
        let data = |key: &str| {
            let found = desired.objects.iter().find(|object| object.key.to_string() == key);
            found.map(|object| object.body["data"].clone()).unwrap_or_default()
        };
        let cuts = data("ConfigMap/gpu-operator/tidewright-mig-parted");
        let cuts: Json =
            cuts["config.yaml"].as_str().map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default();
        let shares = data("ConfigMap/gpu-operator/tidewright-device-plugin");
        for (pool, target) in &target.pools {
            let layouts = &desired.pools[pool].layouts;
            let parts: BTreeSet<&LayoutName> = target.parts.iter().map(|part| &part.layout).collect();
            assert!(parts.iter().all(|layout| layouts.contains_key(*layout)), "{name}: {pool} {parts:?}");
            for laid_out in layouts.values() {
                if let Some(entry) = laid_out.labels.get("nvidia.com/mig.config") {
                    assert!(cuts["mig-configs"][entry].is_array(), "{name}: {pool} {entry}");
                }
                if let Some(entry) = laid_out.labels.get("nvidia.com/device-plugin.config") {
                    assert!(shares[entry].is_string(), "{name}: {pool} {entry}");
                }
                assert!(laid_out.absent.iter().all(|gone| !laid_out.allocatable.contains_key(gone)), "{name}: {pool}");
            }
        }
    }
}
