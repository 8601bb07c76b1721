//! How a node is launched and what it carries: parts of a pool that no other object contradicts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::Nothing;
use crate::ids::Zone;

/// A taint, as Kubernetes has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    /// The key.
    #[schemars(extend("x-tidewright-format" = "labelKey"))]
    pub key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "labelValue"))]
    pub value: Option<String>,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// What happens to pods that do not tolerate a taint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They are not placed here.
    NoSchedule,
    /// They are placed here only when nothing else is free.
    PreferNoSchedule,
    /// They are not placed here, and those that run here are evicted.
    NoExecute,
}

/// How nodes are launched.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Launch {
    /// The machine image. Running nodes move only when git names another.
    pub image: Image,
    /// How a node joins the cluster. Registration taints are part of it, because a taint after the join is a race.
    pub bootstrap: Bootstrap,
    /// The subnets, by their tags.
    pub subnets: Subnets,
    /// The security groups, by their tags.
    pub security_groups: Tagged,
    /// The name of the instance profile.
    #[schemars(length(min = 1, max = 128))]
    pub role: String,
    /// Network interfaces for the Elastic Fabric Adapter. `auto`: as many as the instance type has.
    #[serde(default)]
    pub efa: Efa,
    /// The placement group: `auto` (one for the pool), `none`, or the name of one that exists.
    #[serde(default = "auto")]
    #[schemars(length(min = 1, max = 255))]
    pub placement_group: String,
    /// EBS volumes. Absent: what the image brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub volumes: Vec<Volume>,
}

fn auto() -> String {
    "auto".into()
}

/// A machine image. Exactly one of `ssmParameter` and `ami`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Image {
    /// A version of an SSM parameter that holds an image id.
    SsmParameter(SsmParameter),
    /// An image by its id.
    Ami(Ami),
}

/// A version of an SSM parameter that holds an image id.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SsmParameter {
    /// The parameter's name, beginning with `/`.
    #[schemars(extend("x-tidewright-format" = "ssmName"))]
    pub name: String,
    /// The parameter's version. It is pinned, so that nodes change only when git does.
    #[schemars(range(min = 1))]
    pub version: u64,
}

/// An image by its id.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ami {
    /// The image's id, such as `ami-0123456789abcdef0`.
    #[schemars(extend("x-tidewright-format" = "imageId"))]
    pub id: String,
}

/// How a node joins the cluster. Exactly one of `nodeadm` and `userData`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Bootstrap {
    /// EKS's nodeadm: the image brings it, and the fleet's `eks` says which cluster.
    Nodeadm(Nothing),
    /// Own user data.
    UserData(UserData),
}

/// Own user data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserData {
    /// A file beside this one.
    #[schemars(length(min = 1, max = 1024))]
    pub file: String,
}

/// Subnets, by their tags.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subnets {
    /// The tags that a subnet must carry.
    #[schemars(extend("minProperties" = 1))]
    #[schemars(extend("x-tidewright-key-format" = "tagKey", "x-tidewright-value-format" = "tagValue"))]
    pub tags: BTreeMap<String, String>,
    /// Only subnets in these zones. Absent: all that carry the tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub zones: Vec<Zone>,
}

/// Things in the cloud, by their tags.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tagged {
    /// The tags that a thing must carry.
    #[schemars(extend("minProperties" = 1))]
    #[schemars(extend("x-tidewright-key-format" = "tagKey", "x-tidewright-value-format" = "tagValue"))]
    pub tags: BTreeMap<String, String>,
}

/// Network interfaces for the Elastic Fabric Adapter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Efa {
    /// As many as the instance type has.
    #[default]
    Auto,
    /// None.
    None,
}

/// An EBS volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Volume {
    /// Its size in GiB.
    #[schemars(range(min = 1, max = 65_536))]
    pub gib: u32,
}
