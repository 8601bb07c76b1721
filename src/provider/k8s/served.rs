//! Which APIs the server has: Kueue or not, and versions of what has changed its own.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::kinds::{KUEUE, KUEUE_VERSION};
use super::wire::{Failure, Wire};

/// Versions that each group is served in.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Served(BTreeMap<String, Vec<String>>);

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

impl Served {
    pub async fn read(wire: &Wire) -> Result<Self, Failure> {
        let bytes = wire.get("/apis").await?;
        Self::parse(&bytes).map_err(|error| Failure::Unreadable(error.to_string()))
    }

    fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let found: Groups = serde_json::from_slice(bytes)?;
        let versions = |group: Group| {
            let versions = group.versions.into_iter().map(|version| version.version);
            (group.name, versions.collect())
        };
        Ok(Self(found.groups.into_iter().map(versions).collect()))
    }

    /// In the version that we write.
    pub fn has_kueue(&self) -> bool {
        self.versions(KUEUE).contains(&KUEUE_VERSION)
    }

    pub fn kueue_versions(&self) -> Vec<&str> {
        self.versions(KUEUE)
    }

    /// The GPU Operator, or something else of NVIDIA's.
    pub fn has_nvidia(&self) -> bool {
        self.versions("nvidia.com").contains(&"v1")
    }

    /// The version of ResourceClaims to read.
    pub fn claims(&self) -> Option<&'static str> {
        let here = self.versions("resource.k8s.io");
        ["v1", "v1beta2", "v1beta1"].into_iter().find(|version| here.contains(version))
    }

    /// The version of PodGroups to read. `v1` of this group has no such kind yet.
    pub fn pod_groups(&self) -> Option<&'static str> {
        let here = self.versions("scheduling.k8s.io");
        ["v1beta1", "v1alpha3", "v1alpha2"].into_iter().find(|version| here.contains(version))
    }

    fn versions(&self, group: &str) -> Vec<&str> {
        self.0.get(group).into_iter().flatten().map(String::as_str).collect()
    }
}

/// Where Kueue's own manifests and its chart put it.
const KUEUE_RUNS: &str = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager";

#[derive(Deserialize)]
struct Deployment {
    spec: DeploymentSpec,
}

#[derive(Deserialize)]
struct DeploymentSpec {
    template: Template,
}

#[derive(Deserialize)]
struct Template {
    spec: TemplateSpec,
}

#[derive(Deserialize)]
struct TemplateSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    image: String,
}

/// Which Kueue runs, where that can be told. Nothing rests on it but a word to the reader.
pub async fn kueue_version(wire: &Wire) -> Option<String> {
    version(&wire.get(KUEUE_RUNS).await.ok()?)
}

fn version(deployment: &[u8]) -> Option<String> {
    let found: Deployment = serde_json::from_slice(deployment).ok()?;
    let manager = found.spec.template.spec.containers.into_iter().find(|one| one.name == "manager")?;
    let image = manager.image.split('@').next()?;
    // A registry may have a port.
    let (_, tag) = image.rsplit('/').next()?.split_once(':')?;
    let version = tag.strip_prefix('v').unwrap_or(tag);
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(groups: &str) -> Served {
        Served::parse(format!(r#"{{"kind": "APIGroupList", "groups": [{groups}]}}"#).as_bytes()).unwrap()
    }

    fn group(name: &str, versions: &[&str]) -> String {
        let versions: Vec<String> =
            versions.iter().map(|one| format!(r#"{{"groupVersion": "{name}/{one}", "version": "{one}"}}"#)).collect();
        format!(r#"{{"name": "{name}", "versions": [{}]}}"#, versions.join(","))
    }

    #[test]
    fn the_version_of_kueue_is_the_tag_of_its_image() {
        let of = |image: &str| {
            let manager = format!(r#"{{"name": "manager", "image": "{image}"}}"#);
            let spec = format!(r#"{{"containers": [{{"name": "proxy", "image": "x:v1.2"}}, {manager}]}}"#);
            version(format!(r#"{{"spec": {{"template": {{"spec": {spec}}}}}}}"#).as_bytes())
        };
        assert_eq!(of("registry.k8s.io/kueue/kueue:v0.17.3").as_deref(), Some("0.17.3"));
        assert_eq!(of("local:5000/kueue:v0.19.2@sha256:0123").as_deref(), Some("0.19.2"));
        assert_eq!(of("local:5000/kueue"), None);
        assert_eq!(of("kueue:main"), None);
    }

    #[test]
    fn what_the_server_has_is_asked_for_in_its_version() {
        let served =
            with(&[group("scheduling.k8s.io", &["v1", "v1alpha2"]), group("resource.k8s.io", &["v1beta1"])].join(","));
        assert_eq!((served.claims(), served.pod_groups()), (Some("v1beta1"), Some("v1alpha2")));
        assert!(!served.has_kueue() && served.kueue_versions().is_empty());
        let old = with(&group("kueue.x-k8s.io", &["v1beta1"]));
        assert!(!old.has_kueue() && old.kueue_versions() == ["v1beta1"]);
        assert!(with(&group("kueue.x-k8s.io", &["v1beta2", "v1beta1"])).has_kueue());
        assert_eq!((old.claims(), old.pod_groups()), (None, None));
    }
}
