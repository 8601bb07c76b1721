//! Nodes that were kept out of service and may serve again: since when.

use jiff::Timestamp;

use super::Head;
use crate::ids::NodeName;

/// How many are remembered: more than are watched at once.
const RETURNED: usize = 256;

impl Head {
    /// A node that was kept out may serve from here on; one that is gone will not, and nothing is remembered of it.
    pub(super) fn serves_again(&mut self, node: &NodeName, at: Option<Timestamp>) {
        match at {
            Some(at) => self.returned.insert(node.clone(), at),
            None => self.returned.remove(node),
        };
        if self.returned.len() > RETURNED {
            let oldest = self.returned.iter().min_by_key(|(_, at)| **at).map(|(node, _)| node.clone());
            oldest.and_then(|node| self.returned.remove(&node));
        }
    }
}
