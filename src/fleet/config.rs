//! Where a fleet lives and what it may never pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Usd;

/// Where nodes come from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Cloud {
    /// The embedded simulator: no account is needed.
    Sim(Nothing),
    /// Amazon EC2.
    Aws(Box<AwsCloud>),
    /// No cloud: the nodes exist already and are claimed by pools with `existing` capacity.
    None(Nothing),
}

/// Nothing to configure: written `{}`.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Amazon EC2 in one account and region. Both are checked before anything is written.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsCloud {
    /// The region, such as `us-west-2`.
    #[schemars(extend("x-tidewright-format" = "region"))]
    pub region: String,
    /// The 12-digit account id, in quotes.
    #[schemars(extend("x-tidewright-format" = "accountId"))]
    pub account_id: String,
    /// Another endpoint than AWS's own, for all services together: `tidewright sim serve`, or a gateway to all of them.
    /// Absent: what the SDK finds (`AWS_ENDPOINT_URL_EC2`, `AWS_ENDPOINT_URL`, `endpoint_url` of the profile), else AWS's
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub endpoint_url: Option<String>,
    /// Endpoints of single services, such as interface endpoints of a VPC without private DNS. Each goes before
    /// `endpointUrl`.
    #[serde(default, skip_serializing_if = "Endpoints::is_empty")]
    pub endpoint_urls: Endpoints,
    /// The EKS cluster that launched nodes join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eks: Option<Eks>,
    /// The SQS queue that EventBridge puts notices of interruption into. Absent: EC2 is asked, which tells less early, and
    /// nothing of what it recommends to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub queue_url: Option<String>,
}

/// Where single services are asked.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoints {
    /// Of EC2: instances, reservations, launch templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub ec2: Option<String>,
    /// Of EKS, which says how nodes join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub eks: Option<String>,
    /// Of SQS, which holds notices of interruption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub sqs: Option<String>,
    /// Of SSM, which knows images by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub ssm: Option<String>,
    /// Of STS, which says whose account it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "url"))]
    pub sts: Option<String>,
}

impl Endpoints {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The EKS cluster that launched nodes join.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Eks {
    /// The cluster's name in EKS.
    #[schemars(length(min = 1, max = 100))]
    pub cluster_name: String,
}

/// Where the cluster is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Kubernetes {
    /// The embedded simulator: no cluster is needed.
    Sim(Nothing),
    /// A cluster of the local kubeconfig.
    Kubeconfig(Kubeconfig),
    /// The cluster that the operator runs in.
    InCluster(Nothing),
}

/// A cluster of the local kubeconfig.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubeconfig {
    /// The context's name. It is always named, so that the current context of a shell never decides what is changed.
    #[schemars(length(min = 1, max = 1024))]
    pub context: String,
}

/// Everything is stopped, and this is why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frozen {
    /// Shown in every plan and status.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// What no plan may pass, whatever the other documents ask for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// What launched on-demand and spot nodes may cost an hour, in US dollars. Absent: none are launched. It never
    /// blocks the replacement of a dead node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_usd: Option<Usd>,
    /// How many nodes may be removed in an hour by choice. Block ends, tides and sick nodes have their own budgets.
    /// Absent: none are removed.
    #[serde(default)]
    pub nodes_removed_per_hour: u32,
    /// A snapshot of the world that lost more than this share of its nodes, in percent, freezes deletion.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    pub observation_shrink_percent: u8,
    /// A commit that asks for the removal of more than this share of the nodes, in percent, waits for an approval.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 100))]
    pub desired_shrink_percent: u8,
}

fn twenty() -> u8 {
    20
}

fn ten() -> u8 {
    10
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hourly_usd: None,
            nodes_removed_per_hour: 0,
            observation_shrink_percent: twenty(),
            desired_shrink_percent: ten(),
        }
    }
}
