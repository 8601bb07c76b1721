//! A memory that was begun anew beside a fleet that was there: what people had said in the one before is gone.
//!
//! What was launched and reserved is found again by its tags, and what was cut by its labels. A freeze, a recall, a
//! quarantine, the drain of a node and an approval stand nowhere else: a plan goes on without them, and says so until a
//! person says that they know (`tidewright lost`). That a node was in quarantine or drained stands in the mark on it too:
//! it stays closed until somebody says what becomes of it.

use jiff::Timestamp;

use super::draft::Draft;
use super::removed::ended;
use super::reservations::fleet;
use super::types::PlanInput;
use super::wish::{DRAIN, QUARANTINE};
use crate::effect::marks::{CORDON, Mark};
use crate::effect::{Began, Thing, is_kin};
use crate::ids::{FleetUid, NodeName};
use crate::observed::NodeSeen;

/// What only a ledger holds of what people said.
pub const SAID: &str = "freezes, recalls, quarantines, drains and approvals";

/// When it was seen that the memory which knew what people had said is lost, where nobody settled that.
pub fn since(input: &PlanInput) -> Option<Timestamp> {
    began(input).filter(|began| began.anew).map(|began| began.at)
}

/// The beginning of our memory, or what will be it.
pub fn began(input: &PlanInput) -> Option<Began> {
    match &input.ledger.head.fleet {
        Some(_) => input.ledger.head.began,
        None => Some(beginning(input, input.now)),
    }
}

/// What a memory that is begun beside what is there now has to know.
pub fn beginning(input: &PlanInput, at: Timestamp) -> Began {
    Began { at, ended: ended(input), anew: has_traces(input) }
}

pub fn say(input: &PlanInput, draft: &mut Draft) {
    if let Some(at) = since(input) {
        let text = format!(
            "the ledger was lost, which was seen at {at}: the {SAID} that it held are not known. Give those again that \
             should hold, and then say that you know: tidewright lost --yes"
        );
        draft.note(Thing::Fleet, text);
    }
}

/// A node that was taken out of service by a word of the memory that is lost, and of which nobody has said anything since.
#[derive(Clone, PartialEq, Debug)]
pub struct Unanswered {
    /// When it was closed.
    since: Timestamp,
    is_drain: bool,
}

impl Unanswered {
    pub fn of(input: &PlanInput, name: &NodeName, node: &NodeSeen) -> Option<Self> {
        let mark = kept_by_mark(input, node)?;
        let head = &input.ledger.head;
        let is_ordered = head.quarantined.contains_key(name) || head.drains.contains_key(name);
        let is_free = || head.returned.get(name).is_some_and(|at| *at >= mark.since);
        // Whoever closed it later did so for what this memory knows.
        let is_of_before = || since(input).is_some_and(|at| mark.since <= at);
        (!is_ordered && !is_free() && is_of_before()).then(|| Self { since: mark.since, is_drain: mark.why == DRAIN })
    }

    fn was(&self) -> &'static str {
        if self.is_drain { "drained for somebody" } else { "in quarantine" }
    }

    /// What it says, and what a person can say to it.
    pub fn words(&self, name: &NodeName) -> String {
        let (since, was) = (self.since, self.was());
        let (keeps, opens) = match self.is_drain {
            true => (format!("tidewright drain {name}"), format!("tidewright undrain {name}")),
            false => (format!("tidewright quarantine {name} --reason '...'"), format!("tidewright return {name}")),
        };
        format!(
            "{name} says that it was {was} (since {since}), and the ledger that knew why is lost: {keeps} keeps it out, \
             {opens} opens it, and so does tidewright lost --yes"
        )
    }
}

/// The nodes that wait for a person's word, each with what it was.
pub fn unanswered(input: &PlanInput) -> Vec<(&NodeName, &'static str)> {
    let nodes = input.observed.cluster.nodes.seen().iter();
    nodes.filter_map(|(name, node)| Some((name, Unanswered::of(input, name, node)?.was()))).collect()
}

/// Our mark on a node that was closed until somebody says otherwise.
fn kept_by_mark(input: &PlanInput, node: &NodeSeen) -> Option<Mark> {
    let mark = Mark::parse(node.annotation(CORDON)?);
    let is_kept = mark.why == DRAIN || mark.why == QUARANTINE;
    (is_kept && !mark.is_foreign(fleet(input))).then_some(mark)
}

/// Whether something of ours is there. Nothing is made before the first record.
fn has_traces(input: &PlanInput) -> bool {
    let (ours, cloud) = (fleet(input), &input.observed.cloud);
    let is_ours = |whose: &FleetUid| whose == ours || is_kin(ours, whose);
    let mut instances = cloud.instances.seen().values().filter_map(|seen| seen.tag.as_ref());
    let mut reservations = cloud.reservations.seen().values().filter_map(|seen| seen.tag.as_ref());
    instances.any(|tag| is_ours(&tag.fleet))
        || reservations.any(|tag| is_ours(&tag.fleet))
        || input.observed.cluster.objects.seen().values().any(|object| object.written.is_some())
        || input.observed.cluster.nodes.seen().values().any(|node| kept_by_mark(input, node).is_some())
}
