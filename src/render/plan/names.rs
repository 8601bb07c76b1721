//! The words that programs branch on. A name never changes its meaning; the sets may grow.

use crate::effect::{Action, CloudAction, ClusterAction};
use crate::plan::{Reason, WaitingOn};

pub fn action_name(action: &Action) -> &'static str {
    match action {
        Action::Cloud(action) => match action {
            CloudAction::Launch(_) => "launch",
            CloudAction::Terminate { .. } => "terminate",
            CloudAction::Reboot { .. } => "reboot",
            CloudAction::Reserve(_) => "reserve",
            CloudAction::Modify { .. } => "modify",
            CloudAction::Cancel { .. } => "cancel",
            CloudAction::Purchase(_) => "purchase",
            CloudAction::EnsureTemplate(_) => "ensure_template",
            CloudAction::EnsureGroup { .. } => "ensure_group",
        },
        Action::Cluster(action) => match action {
            ClusterAction::Apply(_) => "apply",
            ClusterAction::Delete(_) => "delete",
            ClusterAction::Disown(_) => "disown",
            ClusterAction::Dress { .. } => "dress",
            ClusterAction::Cordon { .. } => "cordon",
            ClusterAction::Uncordon { .. } => "uncordon",
            ClusterAction::Ask { .. } | ClusterAction::AskPods { .. } => "ask_to_save",
            ClusterAction::Suspend { .. } => "suspend",
            ClusterAction::Resume { .. } => "resume",
            ClusterAction::Shrink { .. } => "shrink",
            ClusterAction::Evict { .. } => "evict",
            ClusterAction::Cut { .. } => "cut",
        },
        Action::Record(_) => "record",
        Action::Await(_) => "await",
    }
}

pub fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::Wanted => "wanted",
        Reason::NotWanted => "not_wanted",
        Reason::Resized => "resized",
        Reason::SlotEmpty => "slot_empty",
        Reason::Unanswered => "unanswered",
        Reason::Outdated => "outdated",
        Reason::Overfull { .. } => "overfull",
        Reason::Fabric { .. } => "fabric",
        Reason::Layout { .. } => "layout",
        Reason::Lent { .. } => "lent",
        Reason::Returning { .. } => "returning",
        Reason::Sick { .. } => "sick",
        Reason::Quarantined { .. } => "quarantined",
        Reason::Drained { .. } => "drained",
        Reason::Notice { .. } => "notice",
        Reason::Recommended { .. } => "recommended",
        Reason::CapacityEnds { .. } => "capacity_ends",
        Reason::Drift { .. } => "drift",
        Reason::LeftOver => "left_over",
        Reason::For(_) => "for_another_step",
        Reason::Bookkeeping => "bookkeeping",
    }
}

pub fn waiting_name(waiting: &WaitingOn) -> &'static str {
    match waiting {
        WaitingOn::Budget { .. } => "budget",
        WaitingOn::Until { .. } => "until",
        WaitingOn::Canary { .. } => "canary",
        WaitingOn::Capacity { .. } => "capacity",
        WaitingOn::Step(_) => "step",
        WaitingOn::DisruptionBudget(_) => "disruption_budget",
        WaitingOn::Gang { .. } => "gang",
        WaitingOn::Unread(_) => "unread",
        WaitingOn::Shrunk { .. } => "shrunk",
        WaitingOn::Limit { .. } => "limit",
        WaitingOn::Approval { .. } => "approval",
        WaitingOn::Frozen(_) => "frozen",
        WaitingOn::HandsOff(_) => "hands_off",
        WaitingOn::OtherOwner { .. } => "other_owner",
        WaitingOn::Guard { .. } => "guard",
        WaitingOn::Person(_) => "person",
    }
}
