//! The tree and what is wrong with the places that hosts name.

use std::collections::BTreeMap;

use crate::fabric::sources::{by_declaration, by_labels, by_network};
use crate::fabric::{Oddity, Place, Tree};
use crate::ids::{LevelName, NodeName};

fn levels(names: &[&str]) -> Vec<LevelName> {
    names.iter().map(|name| LevelName::from(*name)).collect()
}

fn place(host: &str, path: &[&str]) -> Place {
    let path = path.iter().map(|part| Some((*part).to_string()).filter(|part| !part.is_empty())).collect();
    Place { host: host.into(), path }
}

fn paths(tree: &Tree) -> Vec<String> {
    let finest = tree.depth() - 1;
    let line =
        |(at, host): (usize, &NodeName)| format!("{host} {}", tree.path(finest, tree.leaf_of[at] as usize).join("/"));
    tree.hosts.iter().enumerate().map(line).collect()
}

#[test]
fn a_domain_is_a_range_of_hosts_and_of_leaves() {
    let places =
        vec![place("d", &["s", "b"]), place("a", &["s", "a"]), place("c", &["t", "a"]), place("b", &["s", "a"])];
    let (tree, notes) = Tree::grow(&levels(&["spine", "leaf"]), places);
    assert_eq!(paths(&tree), ["a s/a", "b s/a", "d s/b", "c t/a"]);
    assert_eq!((tree.domains[0][0].hosts.clone(), tree.domains[0][0].leaves.clone()), (0..3, 0..2));
    assert_eq!((tree.domains[1][2].parent, tree.domains[0][1].children.clone()), (1, 2..3));
    assert_eq!((tree.distance(0, 0), tree.distance(0, 1), tree.distance(0, 2)), (0, 1, 2));
    assert_eq!(notes.len(), 1, "the leaf `a` stands below two spines: {notes:?}");
    let elsewhere = Oddity::Elsewhere { domain: "a".into(), above: "t".into(), most: "s".into() };
    assert_eq!((notes[0].host.as_str(), &notes[0].what), ("c", &elsewhere));
}

#[test]
fn names_that_are_given_out_anew_below_each_domain_are_not_odd_and_are_told_with_the_way_to_them() {
    let host = |block: &str, leaf: &str, at: u32| place(&format!("{block}{leaf}{at}"), &[block, leaf]);
    let mut places = vec![place("z", &["b3", "own"])];
    for (block, many) in [("b0", 3), ("b1", 2), ("b2", 1)] {
        places.extend((0..many).flat_map(|at| [host(block, "0", at), host(block, "1", at)]));
    }
    let (tree, notes) = Tree::grow(&levels(&["block", "leaf"]), places);
    assert_eq!(notes, []);
    let called: Vec<String> = (0..tree.leaves()).map(|leaf| tree.called(1, leaf)).collect();
    assert_eq!(called, ["b0 / 0", "b0 / 1", "b1 / 0", "b1 / 1", "b2 / 0", "b2 / 1", "own"]);
    assert_eq!(tree.called(0, 1), "b1");
    // Two below one and two below another: nobody is in the minority.
    let even = ["a", "b"].map(|name| place(name, &["s", "x"])).into_iter();
    let even = even.chain(["c", "d"].map(|name| place(name, &["t", "x"])));
    assert_eq!(Tree::grow(&levels(&["spine", "leaf"]), even.collect()).1, []);
}

#[test]
fn a_domain_that_hangs_below_two_others_is_told_with_the_hosts_that_say_so() {
    let told = |hosts: &[(&str, &str, &str)]| {
        let places = hosts.iter().map(|(name, spine, leaf)| place(name, &[spine, leaf])).collect();
        let notes = Tree::grow(&levels(&["spine", "leaf"]), places).1;
        notes.into_iter().map(|note| (note.host.to_string(), note.what)).collect::<Vec<_>>()
    };
    // As many say one as say the other: both are named.
    let torn =
        |above: &str, others: &str| Oddity::Torn { domain: "x".into(), above: above.into(), others: others.into() };
    let tie = [("a", "s", "x"), ("b", "t", "x"), ("c", "s", "y"), ("d", "t", "z")];
    assert_eq!(told(&tie), [("a".into(), torn("s", "t")), ("b".into(), torn("t", "s"))]);
    // One wrong label of five on two leaves of three: no names that are given out anew.
    let mut wrong = Vec::new();
    let names: Vec<String> = (0..15).map(|at| format!("h{at:02}")).collect();
    for (at, name) in names.iter().enumerate() {
        let spine = if at == 4 || at == 9 { "t" } else { "s" };
        wrong.push((name.as_str(), spine, ["x", "y", "z"][at / 5]));
    }
    let found: Vec<String> = told(&wrong).into_iter().map(|(host, _)| host).collect();
    assert_eq!(found, ["h04", "h09"]);
}

#[test]
fn a_host_that_does_not_say_where_it_hangs_is_told_and_stays_in_the_tree() {
    let places = vec![place("a", &["s", "x"]), place("b", &["", ""]), place("c", &["s", ""]), place("d", &["", "x"])];
    let (tree, notes) = Tree::grow(&levels(&["spine", "leaf"]), places);
    assert_eq!(paths(&tree), ["b ?b/?b", "c s/?c", "a s/x", "d s/x"]);
    let told: Vec<(&str, &str, &Oddity)> =
        notes.iter().map(|note| (note.host.as_str(), note.level.as_str(), &note.what)).collect();
    let inferred = Oddity::Inferred { domain: "s".into() };
    let missing = &Oddity::Missing;
    assert_eq!(
        told,
        [("b", "leaf", missing), ("b", "spine", missing), ("c", "leaf", missing), ("d", "spine", &inferred)]
    );
}

#[test]
fn a_fabric_of_sixteen_levels_and_one_of_none_are_trees() {
    let names: Vec<String> = (0..16).map(|level| format!("l{level}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (tree, notes) = Tree::grow(&levels(&names), vec![place("a", &names), place("b", &names)]);
    assert_eq!((tree.depth(), tree.leaves(), notes.len()), (16, 1, 0));
    let (flat, notes) = Tree::grow(&[], vec![place("a", &[]), place("b", &["x"])]);
    assert_eq!((flat.depth(), flat.leaves(), flat.hosts.len(), notes.len()), (1, 1, 2, 0));
    let (empty, _) = Tree::grow(&levels(&["leaf"]), Vec::new());
    assert_eq!(empty.leaves(), 0);
}

#[test]
fn labels_network_nodes_and_a_file_say_the_same() {
    let host = NodeName::from("a");
    let labels: BTreeMap<String, String> =
        [("l1".to_string(), "nn-1".to_string()), ("l2".to_string(), "nn-2".to_string())].into();
    let declared = [("a".to_string(), vec!["nn-1".to_string(), "nn-2".to_string()])].into();
    let network = ["nn-1".to_string(), "nn-2".to_string(), "nn-3".to_string()];
    let expected = place("a", &["nn-1", "nn-2"]);
    assert_eq!(by_labels(&[Some("l1"), Some("l2")], &host, &labels), expected);
    assert_eq!(by_network(2, &host, &network), expected, "a longer list is read from the top");
    assert_eq!(by_declaration(2, &host, &declared), expected);
    assert!(by_declaration(2, &"b".into(), &declared).is_unknown());
    assert_eq!(by_network(3, &host, &network[..1]), place("a", &["nn-1", "", ""]));
    assert_eq!(by_labels(&[None, Some("other")], &host, &labels).or(expected.clone()), expected);
}
