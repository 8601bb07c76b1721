//! Placement on nodes: 32 nodes of 8 GPUs, 4 a rack, 16 a block.

use super::*;

fn fabric(text: &str) -> QueueState {
    let mut state = state(text);
    let node = |at: usize| {
        let path = vec![format!("block{}", at / 16), format!("rack{}", at / 4)];
        let name: NodeName = format!("g{at:02}").as_str().into();
        (name, TopologyNode { path, capacity: [(GPU.into(), 8)].into() })
    };
    let levels = ["block", "rack", "kubernetes.io/hostname"].map(Into::into).into();
    state.topologies.insert("big".into(), Topology { levels, nodes: (0..32).map(node).collect() });
    state
}

fn gang(state: &mut QueueState, uid: &str, priority: i32, pods: u32, wish: Option<TopologyRequest>) {
    let mut one = workload("q", priority, i64::from(pods) * 8, 0);
    one.pods = pods;
    one.per_pod = [(GPU.into(), 8)].into();
    one.topology = wish;
    state.workloads.insert(uid.into(), one);
}

fn in_rack() -> Option<TopologyRequest> {
    Some(TopologyRequest::Required("rack".into()))
}

/// Puts a gang on nodes by hand.
fn put(state: &mut QueueState, uid: &str, nodes: &[usize]) {
    let nodes = nodes.iter().map(|at| (format!("g{at:02}").as_str().into(), 1)).collect();
    let assignment = Assignment { flavors: [(GPU.into(), "big".into())].into(), nodes };
    state.workloads.get_mut(uid).unwrap().reservation = Some(Reservation { since: at(1), assignment, evicted: false });
}

fn where_is(state: &QueueState, uid: &str) -> String {
    let held = state.workloads[uid].reservation.as_ref().map(|held| &held.assignment.nodes);
    held.map_or("nowhere".into(), |nodes| nodes.keys().map(NodeName::as_str).collect::<Vec<_>>().join(" "))
}

#[test]
fn a_gang_of_four_evicts_the_two_gangs_of_one_rack() {
    let mut state = fabric("queue q: 256; within lower");
    // Sixteen low gangs of two, admitted over the racks in turn.
    for at in 0..16 {
        let uid = format!("low{at:02}");
        gang(&mut state, &uid, 10, 2, in_rack());
        let first = (at % 8) * 4 + (at / 8) * 2;
        put(&mut state, &uid, &[first, first + 1]);
        let held = state.workloads.get_mut(uid.as_str()).unwrap().reservation.as_mut().unwrap();
        held.since = super::at(i64::try_from(at).unwrap());
    }
    gang(&mut state, "high", 1000, 4, in_rack());
    let told = settled(&mut state);
    assert!(
        told.starts_with("-low07 own high, -low15 own high, +high") || told.starts_with("-low15 own high, -low07"),
        "{told}"
    );
    assert_eq!(where_is(&state, "high"), "g28 g29 g30 g31");
}

#[test]
fn required_waits_where_preferred_and_unconstrained_scatter() {
    // One free node in each rack.
    let scattered = |wish| {
        let mut state = fabric("queue q: 256");
        for rack in 0..8 {
            let uid = format!("low{rack}");
            gang(&mut state, &uid, 10, 3, in_rack());
            put(&mut state, &uid, &[rack * 4, rack * 4 + 1, rack * 4 + 2]);
        }
        gang(&mut state, "new", 10, 2, wish);
        (settled(&mut state), where_is(&state, "new"))
    };
    let told = |text: &str, place: &str| (text.to_owned(), place.to_owned());
    assert_eq!(scattered(in_rack()), told("new? NoPlacement", "nowhere"));
    assert_eq!(scattered(Some(TopologyRequest::Preferred("rack".into()))), told("+new", "g03 g07"));
    assert_eq!(scattered(Some(TopologyRequest::Unconstrained)), told("+new", "g03 g07"));
}

#[test]
fn the_tightest_rack_is_taken() {
    let mut state = fabric("queue q: 256");
    gang(&mut state, "a", 0, 2, in_rack());
    put(&mut state, "a", &[20, 21]);
    gang(&mut state, "b", 0, 1, in_rack());
    put(&mut state, "b", &[8]);
    gang(&mut state, "two", 0, 2, in_rack());
    gang(&mut state, "three", 0, 3, in_rack());
    settled(&mut state);
    assert_eq!(where_is(&state, "two"), "g22 g23");
    assert_eq!(where_is(&state, "three"), "g09 g10 g11");
}

#[test]
fn preferred_goes_up_to_a_block_and_then_spreads() {
    let mut state = fabric("queue q: 256");
    gang(&mut state, "x", 0, 1, in_rack());
    put(&mut state, "x", &[0]);
    gang(&mut state, "six", 0, 6, Some(TopologyRequest::Preferred("rack".into())));
    settled(&mut state);
    // Block 0 has 15 nodes free and is the tighter one. There a whole rack and the tightest rest, rack 0; but the
    // nodes are then taken from both racks together, by name.
    assert_eq!(where_is(&state, "six"), "g01 g02 g03 g04 g05 g06");
    gang(&mut state, "twenty", 0, 20, Some(TopologyRequest::Preferred("rack".into())));
    settled(&mut state);
    let nodes = where_is(&state, "twenty");
    assert!(nodes.contains("g16 g17 g18") && nodes.split(' ').count() == 20, "{nodes}");
}

#[test]
fn preferred_stays_in_one_block_if_it_can() {
    // Free: three nodes in each rack of block 0; four, one, one and none in those of block 1.
    let mut state = fabric("queue q: 256");
    for (at, node) in [0, 4, 8, 12, 20, 21, 22, 24, 25, 26, 28, 29, 30, 31].into_iter().enumerate() {
        let uid = format!("x{at}");
        gang(&mut state, &uid, 0, 1, in_rack());
        put(&mut state, &uid, &[node]);
    }
    gang(&mut state, "six", 0, 6, Some(TopologyRequest::Preferred("rack".into())));
    settled(&mut state);
    assert_eq!(where_is(&state, "six"), "g16 g17 g18 g19 g23 g27");
}

#[test]
fn a_job_that_does_not_say_is_placed_if_all_flavors_have_a_topology() {
    let mut state = fabric("queue q: 256");
    gang(&mut state, "plain", 0, 1, None);
    assert_eq!(settled(&mut state), "+plain");
    assert_eq!(where_is(&state, "plain"), "g00");
    let mut state = fabric("queue q: 256, spot 0");
    gang(&mut state, "plain", 0, 1, None);
    assert_eq!(settled(&mut state), "plain? ExceedsQuota", "only the flavor without a topology is left for it");
}

#[test]
fn a_flavor_without_room_on_its_nodes_is_passed_over() {
    let mut state = fabric("queue q: 256, spare 256");
    let levels = vec!["rack".into(), "kubernetes.io/hostname".into()];
    let node = TopologyNode { path: vec!["z".into()], capacity: [("mig".into(), 7)].into() };
    state.topologies.insert("spare".into(), Topology { levels, nodes: [("m0".into(), node)].into() });
    gang(&mut state, "slices", 0, 2, in_rack());
    state.workloads.get_mut("slices").unwrap().per_pod = [("mig".into(), 3)].into();
    assert_eq!(settled(&mut state), "+slices");
    assert_eq!(where_is(&state, "slices"), "m0");
}

#[test]
fn two_flavors_over_the_same_nodes_see_each_other() {
    let mut state = fabric("queue q: new 256, big 0");
    let nodes = state.topologies["big"].clone();
    state.topologies.insert("new".into(), nodes);
    gang(&mut state, "old", 0, 4, in_rack());
    put(&mut state, "old", &[0, 1, 2, 3]);
    gang(&mut state, "young", 0, 4, in_rack());
    settled(&mut state);
    assert_eq!(where_is(&state, "young"), "g04 g05 g06 g07");
}

#[test]
fn several_pods_share_a_node() {
    let mut state = fabric("queue q: 256");
    gang(&mut state, "small", 0, 3, in_rack());
    let small = state.workloads.get_mut("small").unwrap();
    small.per_pod = [(GPU.into(), 3)].into();
    small.requests = [(GPU.into(), 9)].into();
    settled(&mut state);
    let nodes = &state.workloads["small"].reservation.as_ref().unwrap().assignment.nodes;
    assert_eq!(nodes.values().copied().collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn more_pods_than_nodes_wait_even_if_all_others_left() {
    let mut state = fabric("queue q: 512; within lower");
    gang(&mut state, "low", 10, 4, in_rack());
    put(&mut state, "low", &[0, 1, 2, 3]);
    gang(&mut state, "wide", 1000, 5, in_rack());
    assert_eq!(settled(&mut state), "wide? NoPlacement");
}
