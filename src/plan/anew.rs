//! A memory that was begun anew beside a fleet that was there: what people had said in the one before is gone.
//!
//! What was launched and reserved is found again by its tags, and what was cut by its labels. A freeze, a recall, a
//! quarantine, the drain of a node and an approval stand nowhere else: a plan goes on without them, and says so until a
//! person says that they know (`tidewright lost`).

use jiff::Timestamp;

use super::draft::Draft;
use super::removed::ended;
use super::reservations::fleet;
use super::types::PlanInput;
use crate::effect::{Began, Thing, is_kin};
use crate::ids::FleetUid;

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

/// Whether something of ours is there. Nothing is made before the first record.
fn has_traces(input: &PlanInput) -> bool {
    let (ours, cloud) = (fleet(input), &input.observed.cloud);
    let is_ours = |whose: &FleetUid| whose == ours || is_kin(ours, whose);
    let mut instances = cloud.instances.seen().values().filter_map(|seen| seen.tag.as_ref());
    let mut reservations = cloud.reservations.seen().values().filter_map(|seen| seen.tag.as_ref());
    instances.any(|tag| is_ours(&tag.fleet))
        || reservations.any(|tag| is_ours(&tag.fleet))
        || input.observed.cluster.objects.seen().values().any(|object| object.written.is_some())
}
