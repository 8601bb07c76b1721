//! YAML as written: one file per kind, parse, lower, schema generation.
//!
//! [`parse()`] turns source files into [`Manifest`]s, [`lower()`] turns those into a `Fleet`. Field names of the YAML
//! live here and nowhere else; what they mean lives in `fleet`. Spec types stay plain (no positions in them), so that
//! the same types give the schemas; positions are in the tree beside them.

pub mod csv;
pub mod fleet;
pub mod formats;
pub mod health;
pub mod layout;
pub mod lower;
pub mod parse;
pub mod pool;
pub mod print;
pub mod quota;
pub mod reservation;
pub mod scheduler;
pub mod schema;
pub mod shape;
mod syntax;
pub mod tide;
pub mod tier;
pub mod tree;
pub mod walk;
mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use lower::lower;
pub use parse::{parse, parse_file};
pub use print::print;

use crate::diag::Span;

pub const GROUP: &str = "tidewright.dev";
pub const VERSION: &str = "v1alpha1";
pub const API_VERSION: &str = "tidewright.dev/v1alpha1";

/// One document as written.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The document's tree, for the places of its values.
    pub tree: tree::Node,
    pub kind: Option<Kind>,
    pub name: Option<String>,
    /// Absent when the document is wrong: what is wrong with it has been reported.
    pub body: Option<Body>,
}

/// What a correct document says.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    pub metadata: Metadata,
    pub spec: Spec,
}

/// What is said about the document itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The object's name: lower-case letters, digits and `-`.
    #[schemars(extend("x-tidewright-format" = "name"))]
    pub name: String,
    /// The name it had before, so that a rename is not taken for a new object. In a cluster the annotation
    /// `tidewright.dev/renamed-from` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tidewright-format" = "name"))]
    pub renamed_from: Option<String>,
    /// Labels of the object, for people and other tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-tidewright-key-format" = "labelKey", "x-tidewright-value-format" = "labelValue"))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the object, for people and other tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-tidewright-key-format" = "labelKey"))]
    pub annotations: BTreeMap<String, String>,
}

/// The annotation that stands for `metadata.renamedFrom` in a cluster, where metadata takes no fields of ours.
pub const RENAMED_FROM: &str = "tidewright.dev/renamed-from";

impl Metadata {
    pub fn renamed_from(&self) -> Option<&str> {
        self.renamed_from.as_deref().or_else(|| self.annotations.get(RENAMED_FROM).map(String::as_str))
    }
}

/// What a document describes.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Spec {
    Fleet(Box<fleet::FleetSpec>),
    Reservation(reservation::ReservationSpec),
    NodePool(Box<pool::NodePoolSpec>),
    GpuLayout(layout::GpuLayoutSpec),
    PreemptionTier(tier::PreemptionTierSpec),
    Quota(quota::QuotaSpec),
    TideSchedule(Box<tide::TideScheduleSpec>),
    SchedulerProfile(scheduler::SchedulerProfileSpec),
    HealthPolicy(health::HealthPolicySpec),
}

impl Spec {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Fleet(_) => Kind::Fleet,
            Self::Reservation(_) => Kind::Reservation,
            Self::NodePool(_) => Kind::NodePool,
            Self::GpuLayout(_) => Kind::GpuLayout,
            Self::PreemptionTier(_) => Kind::PreemptionTier,
            Self::Quota(_) => Kind::Quota,
            Self::TideSchedule(_) => Kind::TideSchedule,
            Self::SchedulerProfile(_) => Kind::SchedulerProfile,
            Self::HealthPolicy(_) => Kind::HealthPolicy,
        }
    }
}

pub use crate::fleet::Kind;

/// What a cluster calls the kinds.
impl Kind {
    pub fn plural(self) -> String {
        let name = self.name().to_lowercase();
        match name.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{name}s"),
        }
    }

    /// Chosen so as not to collide with Karpenter's, Cluster API's or Kueue's.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Fleet => "twfleet",
            Self::Reservation => "twres",
            Self::NodePool => "twpool",
            Self::GpuLayout => "twlayout",
            Self::PreemptionTier => "twtier",
            Self::Quota => "twquota",
            Self::TideSchedule => "twtide",
            Self::SchedulerProfile => "twsched",
            Self::HealthPolicy => "twhealth",
        }
    }

    /// Name, type and path of the columns that `kubectl get` shows.
    fn columns(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Fleet => &[("Zone", "string", ".spec.timeZone"), ("Frozen", "string", ".spec.frozen.reason")],
            Self::Reservation => &[
                ("Type", "string", ".spec.instanceType"),
                ("Nodes", "integer", ".spec.nodes"),
                ("Zone", "string", ".spec.zone"),
                ("Id", "string", ".spec.id"),
            ],
            Self::NodePool => &[
                ("Type", "string", ".spec.instanceType"),
                ("Nodes", "integer", ".spec.nodes"),
                ("Fill", "string", ".spec.fill"),
                ("Layout", "string", ".spec.layout"),
            ],
            Self::GpuLayout => {
                &[("Replicas", "integer", ".spec.timeSlicing.replicas"), ("Clients", "integer", ".spec.mps.clients")]
            }
            Self::PreemptionTier => &[("Rank", "integer", ".spec.rank"), ("Preempts", "string", ".spec.preempts")],
            Self::Quota => &[("Cohort", "string", ".spec.cohort"), ("Queue", "string", ".spec.clusterQueue")],
            Self::TideSchedule => &[("Zone", "string", ".spec.timeZone"), ("Lead", "string", ".spec.reclaim.lead")],
            Self::SchedulerProfile => &[("Score", "string", ".spec.score"), ("Pools", "string", ".spec.pools")],
            Self::HealthPolicy => &[("Limit", "string", ".spec.limit"), ("Pools", "string", ".spec.pools")],
        }
    }
}

impl Manifest {
    /// The place of a value, by its path below `spec`; for a value that was not written, the place where it could be:
    /// the nearest part of the path that is there.
    pub fn at(&self, path: &[Step<'_>]) -> Span {
        let mut node = &self.tree;
        let mut span = match node.entry("metadata").and_then(|metadata| metadata.node.entry("name")) {
            Some(name) => name.node.span,
            None => node.span,
        };
        let Some(spec) = node.entry("spec") else { return span };
        node = &spec.node;
        for step in path {
            let next = match step {
                Step::Field(name) => node.entry(name).map(|entry| (entry.key_span, &entry.node)),
                Step::Key(name) => node.entry(name).map(|entry| (entry.key_span, &entry.node)),
                Step::Item(index) => node.item(*index).map(|item| (item.span, item)),
            };
            let Some((key, value)) = next else { return span };
            node = value;
            span = match (&node.value, step) {
                // A key of a map is what was chosen; a mapping or a list spans lines, its key says it shorter.
                (_, Step::Key(_)) => key,
                _ if node.block => key_or_head(key, node),
                _ => node.span,
            };
        }
        span
    }

    /// The place of the object's name.
    pub fn name_at(&self) -> Span {
        self.at_metadata("name")
    }

    pub fn at_metadata(&self, field: &str) -> Span {
        let entry = self.tree.get("metadata").and_then(|metadata| metadata.entry(field));
        entry.map_or(self.tree.span, |entry| entry.node.span)
    }
}

/// An entry of a list has no key of its own: the first key in it stands for it.
fn key_or_head(key: Span, value: &tree::Node) -> Span {
    if key.start != value.span.start {
        return key;
    }
    match &value.value {
        tree::Value::Map(entries) => entries.first().map_or(key, |first| first.key_span),
        _ => Span { end: value.span.start + 1, ..value.span },
    }
}

/// One step of a path into a document.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    Field(&'a str),
    /// A key of a map, to be blamed itself.
    Key(&'a str),
    Item(usize),
}
