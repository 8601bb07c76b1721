//! Work that may be smaller: how much of it goes where quota is asked back, before a gang has to go as a whole.
//!
//! Called by `tide`. A node that is emptied is another thing: which pods a smaller job loses its controller decides, so
//! there the whole of it moves.

use std::collections::BTreeMap;

use super::drain::{Steps, step_id};
use crate::effect::{Action, ClusterAction, Fact};
use crate::ids::{ResourceName, WorkloadUid};
use crate::observed::WorkloadSeen;

/// With how many pods a workload goes on when it gives what it can of what is too much; none where it can give nothing.
pub fn keeps(workload: &WorkloadSeen, over: &BTreeMap<ResourceName, i64>) -> Option<u32> {
    let spare = workload.pods.checked_sub(workload.fewest?.max(1)).filter(|spare| *spare > 0)?;
    let wanted = over.iter().filter_map(|(resource, left)| {
        let each = workload.per_pod.get(resource).copied().filter(|each| *each > 0 && *left > 0)?;
        Some(left.saturating_add(each - 1) / each)
    });
    let gives = u32::try_from(wanted.max()?).unwrap_or(u32::MAX).min(spare);
    Some(workload.pods - gives)
}

/// Whether places are kept for pods that it has no more. Kueue gives quota back when a workload becomes smaller, and
/// places only when the workload goes through its queue again.
pub fn holds_places(workload: &WorkloadSeen) -> bool {
    workload.reserved.is_some() && workload.nodes.values().sum::<u32>() > workload.pods
}

/// The pods beyond go, and are waited for.
pub fn shrink(made: &mut Steps, uid: &WorkloadUid, workload: &WorkloadSeen, pods: u32) {
    let action = Action::Cluster(ClusterAction::Shrink { workload: uid.clone(), pods });
    made.push(step_id("shrink", &workload.name, 0), action, vec![], (1, 5));
    let shrunk = Action::Await(Fact::Shrunk { workload: uid.clone(), pods });
    made.push(step_id("shrunk", &workload.name, 0), shrunk, vec![], (2, 120));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::workload;

    fn elastic(pods: u32, fewest: u32) -> WorkloadSeen {
        let per_pod: BTreeMap<ResourceName, i64> = [("nvidia.com/gpu".into(), 8)].into();
        let requests = [("nvidia.com/gpu".into(), 8 * i64::from(pods))].into();
        WorkloadSeen { pods, fewest: Some(fewest), per_pod, requests, ..workload("batch/e", "batch", 8) }
    }

    fn over(gpus: i64) -> BTreeMap<ResourceName, i64> {
        [("nvidia.com/gpu".into(), gpus)].into()
    }

    #[test]
    fn it_gives_whole_pods_for_what_is_too_much_and_never_more_than_it_can_spare() {
        assert_eq!(keeps(&elastic(10, 1), &over(16)), Some(8));
        assert_eq!(keeps(&elastic(10, 1), &over(17)), Some(7), "half a pod is a pod");
        assert_eq!(keeps(&elastic(10, 4), &over(800)), Some(4));
        assert_eq!(keeps(&elastic(10, 0), &over(800)), Some(1), "no pods are no job");
        assert_eq!(keeps(&elastic(4, 4), &over(8)), None);
        assert_eq!(keeps(&elastic(10, 1), &over(0)), None, "nothing is too much");
        assert_eq!(keeps(&WorkloadSeen { fewest: None, ..elastic(10, 1) }, &over(8)), None, "all or nothing");
        let others = [("nvidia.com/mig-1g.10gb".into(), 8)].into();
        assert_eq!(keeps(&elastic(10, 1), &others), None, "it holds none of that");
    }

    #[test]
    fn places_of_pods_that_are_gone_are_held_until_it_goes_through_its_queue() {
        let placed =
            |pods: u32| WorkloadSeen { nodes: [("n0".into(), 2), ("n1".into(), 2)].into(), ..elastic(pods, 1) };
        assert!(holds_places(&placed(3)));
        assert!(!holds_places(&placed(4)));
        assert!(!holds_places(&WorkloadSeen { reserved: None, ..placed(3) }));
    }
}
