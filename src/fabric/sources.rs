//! Where hosts say that they hang: labels of nodes, EC2's lists of network nodes, or a file.

use std::collections::BTreeMap;

use super::tree::Place;
use crate::ids::NodeName;

/// By labels, one key for each level; a level without a key is known of nobody. An empty value says nothing.
pub fn by_labels(keys: &[Option<&str>], host: &NodeName, labels: &BTreeMap<String, String>) -> Place {
    let value = |key: &Option<&str>| key.and_then(|key| labels.get(key)).filter(|value| !value.is_empty()).cloned();
    Place { host: host.clone(), path: keys.iter().map(value).collect() }
}

/// By EC2's list of network nodes, top to bottom. How long it is differs by instance type, so lists are compared from
/// the top: what a short one does not say is unknown.
pub fn by_network(levels: usize, host: &NodeName, network: &[String]) -> Place {
    let mut path: Vec<Option<String>> =
        network.iter().take(levels).map(|node| Some(node.clone()).filter(|node| !node.is_empty())).collect();
    path.resize(levels, None);
    Place { host: host.clone(), path }
}

/// The label under which EKS tells a layer of EC2's network, before its number; the first is the topmost.
const LAYER: &str = "topology.k8s.aws/network-node-layer-";

/// Which of EC2's network nodes a level is: the one that its label names, else as many from the top as the level is.
pub fn layer(level: usize, label: Option<&str>) -> usize {
    let named = label.and_then(|label| label.strip_prefix(LAYER)?.parse::<usize>().ok());
    named.and_then(|layer| layer.checked_sub(1)).unwrap_or(level)
}

/// The same for levels that may be some of the layers only.
pub fn by_layers(keys: &[Option<&str>], host: &NodeName, network: &[String]) -> Place {
    let node = |(level, key): (usize, &Option<&str>)| network.get(layer(level, *key)).filter(|node| !node.is_empty());
    Place { host: host.clone(), path: keys.iter().enumerate().map(|one| node(one).cloned()).collect() }
}

/// By a file that names every host with its path; one that it does not name hangs nowhere.
pub fn by_declaration(levels: usize, host: &NodeName, declared: &BTreeMap<String, Vec<String>>) -> Place {
    by_network(levels, host, declared.get(host.as_str()).map_or(&[], Vec::as_slice))
}

impl Place {
    /// Whether nothing at all is known.
    pub fn is_unknown(&self) -> bool {
        self.path.iter().all(Option::is_none)
    }

    /// With what another source knows where this one knows nothing.
    pub fn or(self, other: Place) -> Self {
        if self.is_unknown() { other } else { self }
    }
}
