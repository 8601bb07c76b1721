//! Who gets a place from which reservation: a flow from reservations to the pools that name them.

use petgraph::algo::ford_fulkerson;
use petgraph::graph::{DiGraph, NodeIndex};

/// How much each pool can get from the reservations it names, so that the sum is as large as possible.
///
/// `holds[r]` is what a reservation has, `wants[p]` what a pool could use, `names[p]` the reservations it names.
pub fn share_out(holds: &[u32], wants: &[u32], names: &[Vec<usize>]) -> Vec<u32> {
    let mut graph: DiGraph<(), u64> = DiGraph::new();
    let (source, sink) = (graph.add_node(()), graph.add_node(()));
    let reservations: Vec<NodeIndex> = holds
        .iter()
        .map(|held| {
            let node = graph.add_node(());
            graph.add_edge(source, node, u64::from(*held));
            node
        })
        .collect();
    let mut into_sink = Vec::new();
    for (wanted, named) in wants.iter().zip(names) {
        let node = graph.add_node(());
        for reservation in named {
            graph.add_edge(reservations[*reservation], node, u64::from(holds[*reservation]));
        }
        into_sink.push(graph.add_edge(node, sink, u64::from(*wanted)));
    }
    let (_, flow) = ford_fulkerson(&graph, source, sink);
    into_sink.iter().map(|edge| u32::try_from(flow[edge.index()]).unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_with_a_choice_leaves_room_for_one_without() {
        assert_eq!(share_out(&[10, 5], &[10, 5], &[vec![0, 1], vec![1]]), [10, 5]);
        assert_eq!(share_out(&[10, 5], &[10, 10], &[vec![0, 1], vec![0, 1]]).iter().sum::<u32>(), 15);
        assert_eq!(share_out(&[], &[3], &[vec![]]), [0]);
    }
}
