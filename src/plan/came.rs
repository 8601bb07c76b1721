//! Pods that came to a node although we had closed it. No taint keeps them away, so they come as often as they are sent away:
//! whoever goes on evicting them disturbs them for nothing and never ends.

use super::types::WaitingOn;
use super::view::{SlotView, View};
use crate::effect::came_anyway;
use crate::observed::PodSeen;

/// What a node that is being emptied waits for, where somebody came back to it.
pub fn back(view: &View<'_>, slot: &SlotView<'_>) -> Option<WaitingOn> {
    let (node, _) = slot.node?;
    let back = |pod: &&&PodSeen| back_on(slot, pod).is_some();
    let first = view.harm.pods_on(node).iter().filter(back).min_by(|a, b| a.name.cmp(&b.name))?;
    back_on(slot, first)
}

/// The same of one of its pods.
pub fn back_on(slot: &SlotView<'_>, pod: &PodSeen) -> Option<WaitingOn> {
    let (node, _) = slot.node?;
    slot.mark.as_ref().filter(|mark| came_anyway(pod, mark))?;
    Some(WaitingOn::Person(format!(
        "pod {} tolerates every taint and came to {node} although it is closed: sent away, it would come again. Have it \
         tolerate less, keep it off this node by an affinity, or scale it down",
        pod.name
    )))
}
