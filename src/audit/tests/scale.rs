//! A large fleet is judged in a moment: the cost grows with the plan, not with its square.

use std::collections::BTreeMap;

use cpu_time::ThreadTime;

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

fn replacing_all(nodes: u32) -> Bench {
    let mut bench = large(nodes);
    for index in 0..nodes {
        let earlier = index.checked_sub(1).map(|earlier| format!("launch train/{earlier}"));
        let (name, id) = (node("train", index), format!("train/{index}"));
        let mark = crate::effect::marks::Mark::new(bench.input.now, "replace");
        let cordon = cluster(ClusterAction::Cordon { node: name.clone(), mark });
        let after: Vec<&str> = earlier.iter().map(String::as_str).collect();
        bench.step(&format!("cordon {id}"), cordon, Reason::Outdated, &after);
        let empty = Action::Await(Fact::Empty(name));
        bench.step(&format!("empty {id}"), empty, Reason::Outdated, &[&format!("cordon {id}")]);
        let action = cloud(CloudAction::Terminate { slot: slot("train", index), instance: instance("train", index) });
        let step = bench.step(&format!("terminate {id}"), action, Reason::Outdated, &[&format!("empty {id}")]);
        step.effects = one(Verb::Terminate, "train");
        let free = Action::Await(Fact::Free { reservation: "cr-1".into(), places: 1 });
        bench.step(&format!("free {id}"), free, Reason::Outdated, &[&format!("terminate {id}")]);
        let gone = Fact::Gone(instance("train", index));
        bench.launch("train", index, Reason::Outdated, &[&format!("free {id}")]).requires = vec![gone];
    }
    bench.seal();
    bench
}

#[test]
fn four_times_the_nodes_take_about_four_times_as_long() {
    let seconds = |nodes: u32| {
        let bench = replacing_all(nodes);
        let begin = ThreadTime::now();
        assert_eq!(super::judge(&bench.input, &bench.plan), []);
        begin.elapsed().as_secs_f64()
    };
    let (small, large) = (seconds(500), seconds(2_000));
    assert!(large < small * 9.0, "500 nodes: {small} s, 2000 nodes: {large} s; the square would be 16 times");
}
