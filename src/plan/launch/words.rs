//! What a slot waits for, in words that name all its sources.

use crate::fleet::pool::Source;
use crate::ids::Zone;
use crate::plan::types::WaitingOn;
use crate::plan::view::PoolView;

/// What two sources wait for: a slot is filled by either, so both are told; where one is asked again, with when.
pub(super) fn both(first: Option<WaitingOn>, next: WaitingOn) -> WaitingOn {
    match (first, next) {
        (Some(WaitingOn::Capacity { what, retry: None }), WaitingOn::Capacity { what: other, retry: Some(at) }) => {
            WaitingOn::Capacity { what: format!("{other}, beside {what}"), retry: Some(at) }
        }
        (Some(WaitingOn::Capacity { what, retry: Some(at) }), WaitingOn::Capacity { what: other, retry }) => {
            WaitingOn::Capacity {
                what: format!("{what}, beside {other}"),
                retry: retry.map_or(Some(at), |r| Some(r.min(at))),
            }
        }
        (Some(WaitingOn::Capacity { what, retry: None }), WaitingOn::Capacity { what: other, retry: None }) => {
            WaitingOn::Capacity { what: format!("{what}, or {other}"), retry: None }
        }
        (first, next) => first.unwrap_or(next),
    }
}

/// What the cloud was asked for and had none of.
pub(super) fn describe(zones: &[Zone], pool: &PoolView<'_>, source: &Source) -> String {
    let zones: Vec<String> = zones.iter().map(ToString::to_string).collect();
    let nodes = format!("{} in {}", pool.spec.shape.instance_type, zones.join(" or "));
    match source {
        Source::Reservation(name) => format!("room in reservation/{name}"),
        Source::OnDemand { .. } => format!("on-demand {nodes}"),
        Source::Spot { .. } => format!("spot {nodes}"),
        Source::Existing { .. } => "existing node with its labels".into(),
    }
}
