//! A large fleet is judged in a moment: the cost grows with the plan, not with its square.

use std::collections::BTreeMap;

use super::bench::*;
use super::flows::*;
use crate::effect::*;
use crate::observed::*;
use crate::plan::*;

/// 30 pods a node, and a replacement of every node in one chain, which is the worst for a question of what comes
/// before.
fn large(nodes: u32) -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.input.target.pools.get_mut("train").unwrap().nodes = nodes;
    bench.input.target.pools.get_mut("train").unwrap().parts[0].nodes = nodes;
    let pods: Vec<PodSeen> = {
        bench.pod("model", ("train", 0));
        let model = bench.input.observed.cluster.pods.seen()[0].clone();
        let all = (0..nodes).flat_map(|index| (0..30).map(move |pod| (index, pod)));
        all.map(|(index, pod)| PodSeen {
            name: crate::ids::NamespacedName::new("team", &format!("pod-{index}-{pod}")),
            uid: format!("uid-{index}-{pod}").as_str().into(),
            node: Some(node("train", index)),
            terminating: model.started,
            ..model.clone()
        })
        .collect()
    };
    bench.input.observed.cluster.pods = Read::new(pods, bench.input.now);
    let mut nodes_seen: BTreeMap<_, _> = bench.input.observed.cluster.nodes.seen().clone();
    let mut instances: BTreeMap<_, _> = bench.input.observed.cloud.instances.seen().clone();
    let (model, machine) = (nodes_seen[&node("train", 0)].clone(), instances[&instance("train", 0)].clone());
    for index in 10..nodes {
        let id = instance("train", index);
        nodes_seen.insert(node("train", index), NodeSeen { instance: Some(id.clone()), ..model.clone() });
        instances.insert(id.clone(), machine.clone());
        let slot = Slot { generation: 1, instance: Some(id), ..Slot::default() };
        bench.input.ledger.pools.get_mut("train").unwrap().slots.insert(index, slot);
    }
    bench.input.observed.cluster.nodes = Read::new(nodes_seen, bench.input.now);
    bench.input.observed.cloud.instances = Read::new(instances, bench.input.now);
    bench.standing().limits.nodes_removed_per_hour = nodes;
    bench.standing().pools.get_mut("train").unwrap().updates.max_unavailable = nodes;
    bench
}

#[test]
fn a_chain_of_a_thousand_replacements_among_thirty_thousand_pods_is_judged_in_a_moment() {
    let nodes = 1_000;
    let mut bench = large(nodes);
    for index in 0..nodes {
        let earlier = index.checked_sub(1).map(|earlier| format!("launch train/{earlier}"));
        let name = node("train", index);
        let mark = marks::Mark::new(bench.input.now, "replace");
        let cordon = cluster(ClusterAction::Cordon { node: name.clone(), mark });
        let after: Vec<&str> = earlier.iter().map(String::as_str).collect();
        bench.step(&format!("cordon train/{index}"), cordon, Reason::Outdated, &after);
        let empty = Action::Await(Fact::Empty(name));
        bench.step(&format!("empty train/{index}"), empty, Reason::Outdated, &[&format!("cordon train/{index}")]);
        let reason = Reason::Outdated;
        let action = cloud(CloudAction::Terminate { slot: slot("train", index), instance: instance("train", index) });
        let step = bench.step(&format!("terminate train/{index}"), action, reason, &[&format!("empty train/{index}")]);
        step.effects = one(Verb::Terminate, "train");
        let gone = Action::Await(Fact::Gone(instance("train", index)));
        bench.step(&format!("gone train/{index}"), gone, Reason::Outdated, &[&format!("terminate train/{index}")]);
        bench.launch("train", index, Reason::Outdated, &[&format!("gone train/{index}")]);
    }
    bench.passes();
}
