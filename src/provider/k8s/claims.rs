//! ResourceClaims: the devices that dynamic resource allocation has given out, in the resources that quotas count.
//!
//! A pod that gets its GPUs this way asks for none in its requests, and its node would look idle. A claim that several
//! pods share is counted at one of them, or the node would look fuller than it is. Called by `observe` and `reread`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::kinds;
use super::observe::{Found, at};
use super::served::Served;
use super::slim::{Meta, Text, page};
use super::wire::Wire;
use crate::ids::{NamespacedName, ResourceName, Uid};

pub type Claims = BTreeMap<NamespacedName, Held>;

/// What a claim has been given.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Held {
    pub devices: BTreeMap<ResourceName, i64>,
    /// The first of the pods that use it, which stands for all of them. None where nobody is listed.
    pub counted_at: Option<Uid>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Claim<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    allocation: Option<Allocation<'a>>,
    #[serde(borrow)]
    reserved_for: Option<Vec<Consumer<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Consumer<'a> {
    #[serde(borrow)]
    resource: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Allocation<'a> {
    #[serde(borrow)]
    devices: Devices<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Devices<'a> {
    #[serde(borrow)]
    results: Option<Vec<Device<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Device<'a> {
    #[serde(borrow)]
    driver: Text<'a>,
    #[serde(borrow)]
    device: Text<'a>,
    admin_access: Option<bool>,
}

/// The devices of each claim that has some.
pub async fn all_claims(wire: &Wire, served: &Served, namespace: Option<&str>) -> Found<Claims> {
    let Some(version) = served.claims() else { return Ok(Claims::new()) };
    let decode = |bytes: &[u8]| page(bytes, |claim: Claim<'_>| held(&claim));
    let all = wire.list(&kinds::claims(version, namespace), "", decode).await;
    at("list resourceclaims", all.map(|all| all.into_iter().collect()))
}

fn held(claim: &Claim<'_>) -> Option<(NamespacedName, Held)> {
    let status = claim.status.as_ref()?;
    let mut held = Held::default();
    for device in status.allocation.as_ref()?.devices.results.iter().flatten() {
        // Who only watches a device takes it from nobody.
        if let Some(resource) = resource(device).filter(|_| device.admin_access != Some(true)) {
            *held.devices.entry(resource).or_default() += 1;
        }
    }
    let mut pods = status.reserved_for.iter().flatten().filter(|one| one.resource.as_str() == "pods");
    held.counted_at = pods.next().map(|pod| pod.uid.as_str().into());
    let name = NamespacedName::new(claim.metadata.namespace.as_str(), claim.metadata.name.as_str());
    (!held.devices.is_empty()).then_some((name, held))
}

/// What others call the device: the driver `gpu.nvidia.com` gives out `nvidia.com/gpu`, and slices such as
/// `gpu-1-mig-1g10gb-19-0`, which is one `nvidia.com/mig-1g.10gb`.
fn resource(device: &Device<'_>) -> Option<ResourceName> {
    let vendor = device.driver.as_str().strip_prefix("gpu.")?;
    let slice = device.device.as_str().split_once("-mig-").and_then(|(_, slice)| slice.split('-').next());
    let profile = slice.and_then(|slice| slice.split_once('g')).filter(|(compute, memory)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(compute) && memory.strip_suffix("gb").is_some_and(is_number)
    });
    Some(match profile {
        Some((compute, memory)) => format!("{vendor}/mig-{compute}g.{memory}").into(),
        None => format!("{vendor}/gpu").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_what_was_given_to_it_as_what_it_is() {
        let text = r#"{"items": [
            {"metadata": {"name": "two", "namespace": "vision"}, "status": {
                "reservedFor": [{"resource": "pods", "name": "a", "uid": "u-a"}, {"resource": "pods", "name": "b", "uid": "u-b"}],
                "allocation": {"devices": {"results": [
                    {"driver": "gpu.nvidia.com", "device": "gpu-0", "pool": "n", "request": "g"},
                    {"driver": "gpu.nvidia.com", "device": "gpu-2", "adminAccess": true},
                    {"driver": "gpu.nvidia.com", "device": "gpu-1-mig-1g10gb-19-0", "pool": "n", "request": "g"}]}}}},
            {"metadata": {"name": "nic", "namespace": "vision"}, "status": {"allocation": {"devices": {"results": [
                {"driver": "dra.net", "device": "eth1"}]}}}},
            {"metadata": {"name": "waits", "namespace": "vision"}, "status": {}}]}"#;
        let (found, _) = page(text.as_bytes(), |claim: Claim<'_>| held(&claim)).unwrap();
        let devices = ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"].map(|name| (ResourceName::from(name), 1)).into();
        let held = Held { devices, counted_at: Some("u-a".into()) };
        assert_eq!(found, [(NamespacedName::new("vision", "two"), held)]);
    }
}
