//! Topology-aware placement: on which nodes the pods of a workload go, as Kueue chooses them.
//!
//! Domains with just enough room are preferred, so that large holes stay whole; a workload that does not care where
//! it runs fills the smallest holes. Node usage is counted by host name over all flavors: two flavors over the same
//! nodes see each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::state::{FlavorName, NodeName, QueueState, ResourceName, Topology, TopologyRequest, Workload};

/// Pods count like any other resource, where a node or a queue says how many it takes.
pub const PODS: &str = "pods";

/// Pods on nodes, by their place in [`Nodes::names`].
pub type Placement = Vec<(usize, u32)>;

/// All nodes of all topologies, with what reservations take of them.
#[derive(Debug)]
pub struct Nodes {
    pub names: Vec<NodeName>,
    index: BTreeMap<NodeName, usize>,
    used: Vec<BTreeMap<ResourceName, i64>>,
    trees: BTreeMap<FlavorName, DomainTree>,
}

/// The domains of a topology, level by level, each level sorted by the values on the way to it.
#[derive(Debug)]
struct DomainTree {
    levels: Vec<String>,
    domains: Vec<Vec<Domain>>,
    /// The leaves: which node, with what capacity.
    leaves: Vec<(usize, BTreeMap<ResourceName, i64>)>,
}

#[derive(Debug)]
struct Domain {
    /// The domain above, in its own level.
    parent: usize,
    /// Where the domains below begin and end in their level.
    children: std::ops::Range<usize>,
}

impl Nodes {
    pub fn new(state: &QueueState) -> Self {
        let mut index = BTreeMap::new();
        for name in state.topologies.values().flat_map(|topology| topology.nodes.keys()) {
            index.insert(name.clone(), 0);
        }
        let mut names = Vec::new();
        for (at, (name, number)) in index.iter_mut().enumerate() {
            *number = at;
            names.push(name.clone());
        }
        let trees = state.topologies.iter().map(|(flavor, topology)| (flavor.clone(), grow(topology, &index)));
        let trees = trees.collect();
        Self { used: vec![BTreeMap::new(); names.len()], names, index, trees }
    }

    pub fn has(&self, flavor: &FlavorName) -> bool {
        self.trees.contains_key(flavor)
    }

    pub fn has_level(&self, flavor: &FlavorName, wish: &TopologyRequest) -> bool {
        let Some(tree) = self.trees.get(flavor) else { return false };
        match wish {
            TopologyRequest::Required(level) | TopologyRequest::Preferred(level) => tree.levels.contains(level),
            TopologyRequest::Unconstrained => true,
        }
    }

    /// Nodes that are in no topology (any more) are left out: nothing is placed on them.
    pub fn find(&self, nodes: &BTreeMap<NodeName, u32>) -> Placement {
        nodes.iter().filter_map(|(name, &pods)| Some((*self.index.get(name)?, pods))).collect()
    }

    pub fn add(&mut self, workload: &Workload, placement: &[(usize, u32)]) {
        self.shift(workload, placement, 1);
    }

    pub fn remove(&mut self, workload: &Workload, placement: &[(usize, u32)]) {
        self.shift(workload, placement, -1);
    }

    fn shift(&mut self, workload: &Workload, placement: &[(usize, u32)], sign: i64) {
        for &(node, pods) in placement {
            for (resource, amount) in &workload.per_pod {
                *self.used[node].entry(resource.clone()).or_default() += sign * amount * i64::from(pods);
            }
            *self.used[node].entry(PODS.into()).or_default() += sign * i64::from(pods);
        }
    }

    /// Whether these very nodes still have room.
    pub fn has_room(&self, flavor: &FlavorName, workload: &Workload, placement: &[(usize, u32)]) -> bool {
        let Some(tree) = self.trees.get(flavor) else { return false };
        placement.iter().all(|&(node, pods)| {
            let leaf = tree.leaves.iter().find(|leaf| leaf.0 == node);
            leaf.is_some_and(|(_, capacity)| self.room(node, capacity, workload, false) >= i64::from(pods))
        })
    }

    /// How many pods a node takes; `empty` as if no reservation were there.
    fn room(&self, node: usize, capacity: &BTreeMap<ResourceName, i64>, workload: &Workload, empty: bool) -> i64 {
        let left = |resource: &str| {
            let used = if empty { 0 } else { self.used[node].get(resource).copied().unwrap_or(0) };
            capacity.get(resource).copied().unwrap_or(0) - used
        };
        let mut room = i64::from(u32::MAX);
        if capacity.contains_key(PODS) {
            room = left(PODS);
        }
        for (resource, &amount) in workload.per_pod.iter().filter(|(_, amount)| **amount > 0) {
            room = room.min(left(resource.as_str()) / amount);
        }
        room.max(0)
    }

    /// Where the pods go, or nothing if they do not fit.
    pub fn place(&self, flavor: &FlavorName, workload: &Workload, empty: bool) -> Option<Placement> {
        let tree = self.trees.get(flavor)?;
        let lowest = tree.levels.len().checked_sub(1)?;
        let level_of = |name: &String| tree.levels.iter().position(|level| level == name);
        let (level, required, unconstrained) = match &workload.topology {
            Some(TopologyRequest::Required(level)) => (level_of(level)?, true, false),
            Some(TopologyRequest::Preferred(level)) => (level_of(level)?, false, false),
            Some(TopologyRequest::Unconstrained) | None => (lowest, false, true),
        };
        let leaves = tree.leaves.iter().map(|(node, capacity)| self.room(*node, capacity, workload, empty));
        let mut rooms = vec![Vec::new(); lowest + 1];
        rooms[lowest] = leaves.collect();
        for above in (0..lowest).rev() {
            let mut sums = vec![0; tree.domains[above].len()];
            for (domain, room) in tree.domains[above + 1].iter().zip(&rooms[above + 1]) {
                sums[domain.parent] += room;
            }
            rooms[above] = sums;
        }
        let pods = i64::from(workload.pods);
        let (mut level, mut chosen) = choose(&rooms, level, pods, required, unconstrained)?;
        while level < lowest {
            let below = chosen.iter().flat_map(|&(domain, _)| tree.domains[level][domain].children.clone()).collect();
            level += 1;
            chosen = fill(&sorted(below, &rooms[level], unconstrained), &rooms[level], pods, unconstrained);
        }
        let pods = |&(leaf, pods): &(usize, i64)| (tree.leaves[leaf].0, u32::try_from(pods).unwrap_or(u32::MAX));
        Some(chosen.iter().filter(|(_, pods)| *pods > 0).map(pods).collect())
    }
}

/// The level on which the pods fit into one domain, at `level` or above, and that domain; or several domains of the
/// topmost level if even that is too small for one.
fn choose(
    rooms: &[Vec<i64>],
    level: usize,
    pods: i64,
    required: bool,
    unconstrained: bool,
) -> Option<(usize, Vec<(usize, i64)>)> {
    let order = sorted((0..rooms[level].len()).collect(), &rooms[level], unconstrained);
    if order.is_empty() {
        return None;
    }
    let largest = if unconstrained { *order.last()? } else { order[0] };
    if rooms[level][largest] >= pods {
        return Some((level, vec![(tightest(&order, &rooms[level], pods), pods)]));
    }
    if required {
        return None;
    }
    if level > 0 && !unconstrained {
        return choose(rooms, level - 1, pods, required, unconstrained);
    }
    if rooms[level].iter().sum::<i64>() < pods {
        return None;
    }
    Some((level, fill(&order, &rooms[level], pods, unconstrained)))
}

/// The largest first, or the smallest for a workload that does not care; then by name.
fn sorted(mut domains: Vec<usize>, rooms: &[i64], smallest_first: bool) -> Vec<usize> {
    if smallest_first {
        domains.sort_by_key(|&domain| (rooms[domain], domain));
    } else {
        domains.sort_by_key(|&domain| (Reverse(rooms[domain]), domain));
    }
    domains
}

/// The first of the smallest domains that take all `pods`.
fn tightest(order: &[usize], rooms: &[i64], pods: i64) -> usize {
    let enough = order.iter().copied().filter(|&domain| rooms[domain] >= pods);
    enough.min_by_key(|&domain| rooms[domain]).unwrap_or(order[0])
}

/// Domains in order until all pods are in; the last one as tight as possible, unless the smallest come first anyway.
fn fill(order: &[usize], rooms: &[i64], pods: i64, smallest_first: bool) -> Vec<(usize, i64)> {
    let mut left = pods;
    let mut chosen = Vec::new();
    for (at, &domain) in order.iter().enumerate() {
        if rooms[domain] >= left {
            let last = if smallest_first { domain } else { tightest(&order[at..], rooms, left) };
            chosen.push((last, left));
            break;
        }
        left -= rooms[domain];
        chosen.push((domain, rooms[domain]));
    }
    chosen
}

fn grow(topology: &Topology, index: &BTreeMap<NodeName, usize>) -> DomainTree {
    let above = topology.levels.len().saturating_sub(1);
    // A node without all labels is in no domain.
    let whole = topology.nodes.iter().filter(|(_, node)| node.path.len() == above);
    let mut nodes: Vec<_> = whole.collect();
    nodes.sort_by(|a, b| (&a.1.path, a.0).cmp(&(&b.1.path, b.0)));
    let mut domains: Vec<Vec<Domain>> = (0..topology.levels.len()).map(|_| Vec::new()).collect();
    let mut last: Option<&[String]> = None;
    for (leaf, (_, node)) in nodes.iter().enumerate() {
        let same = last.map_or(0, |last| last.iter().zip(&node.path).take_while(|(a, b)| a == b).count());
        for level in same..above {
            let (parent, begin) = (below(&domains, level), domains[level + 1].len());
            domains[level].push(Domain { parent, children: begin..begin });
            if let Some(parent) = level.checked_sub(1).and_then(|up| domains[up].last_mut()) {
                parent.children.end += 1;
            }
        }
        let parent = below(&domains, above);
        domains[above].push(Domain { parent, children: 0..0 });
        if let Some(parent) = above.checked_sub(1).and_then(|up| domains[up].last_mut()) {
            parent.children.end = leaf + 1;
        }
        last = Some(&node.path);
    }
    let leaves = nodes.iter().map(|(name, node)| (index[*name], node.capacity.clone())).collect();
    DomainTree { levels: topology.levels.clone(), domains, leaves }
}

/// The domain that is being filled in the level above `level`.
fn below(domains: &[Vec<Domain>], level: usize) -> usize {
    level.checked_sub(1).map_or(0, |up| domains[up].len().saturating_sub(1))
}
