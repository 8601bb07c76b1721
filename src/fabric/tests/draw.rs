//! Small problems: all trees of a size, and problems drawn from a seed.

use crate::fabric::{Ask, Freedom, Host, Place, Prices, Problem, Tree};
use crate::ids::LevelName;

/// The shape of a domain: how many hosts, or the domains below.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shape {
    Hosts(u32),
    Domains(Vec<Shape>),
}

/// All shapes of so many levels with so many hosts, each up to the order of its parts.
pub fn shapes(levels: usize, hosts: u32) -> Vec<Shape> {
    if levels == 0 {
        return vec![Shape::Hosts(hosts)];
    }
    let mut found = Vec::new();
    split(levels, hosts, None, &mut Vec::new(), &mut found);
    found
}

fn split(levels: usize, hosts: u32, last: Option<&Shape>, so_far: &mut Vec<Shape>, found: &mut Vec<Shape>) {
    if hosts == 0 {
        found.push(Shape::Domains(so_far.clone()));
        return;
    }
    for first in 1..=hosts {
        for shape in shapes(levels - 1, first) {
            if last.is_none_or(|last| shape <= *last) {
                so_far.push(shape.clone());
                split(levels, hosts - first, Some(&shape), so_far, found);
                so_far.pop();
            }
        }
    }
}

/// The tree of a shape; below one root that is no level.
pub fn tree(levels: usize, shape: &Shape) -> Tree {
    let names: Vec<LevelName> = (0..levels).map(|level| LevelName::from(format!("level-{level}"))).collect();
    let mut places = Vec::new();
    walk(shape, &mut Vec::new(), &mut places);
    let (tree, notes) = Tree::grow(&names, places);
    assert!(notes.is_empty(), "{notes:?}");
    tree
}

fn walk(shape: &Shape, path: &mut Vec<Option<String>>, places: &mut Vec<Place>) {
    match shape {
        Shape::Hosts(count) => {
            for _ in 0..*count {
                places.push(Place { host: format!("host-{:04}", places.len()).into(), path: path.clone() });
            }
        }
        Shape::Domains(below) => {
            for (at, shape) in below.iter().enumerate() {
                let above = path.iter().flatten().next_back().cloned().unwrap_or_default();
                path.push(Some(format!("{above}/{at:03}")));
                walk(shape, path, places);
                path.pop();
            }
        }
    }
}

pub fn ask(name: &str, nodes: u32) -> Ask {
    Ask { name: name.into(), nodes, suits: vec![true], together: None, required: false, apart: Vec::new() }
}

pub fn host() -> Host {
    Host { class: 0, gpus: 8, pool: None, free: Freedom::Usable }
}

/// Nothing there yet, and pools of these sizes.
pub fn plain<'a>(tree: &'a Tree, sizes: &[u32]) -> Problem<'a> {
    let pools = sizes.iter().enumerate().map(|(at, nodes)| ask(&format!("pool-{at}"), *nodes)).collect();
    Problem { tree, hosts: vec![host(); tree.hosts.len()], pools, prices: Prices::doubling(tree.depth()) }
}

/// Numbers from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 11) % u64::from(most.max(1))).unwrap()
    }
}

/// A problem with everything that a pool can ask for.
pub fn anything<'a>(tree: &'a Tree, dice: &mut Dice) -> Problem<'a> {
    asked(tree, dice, 3, 3)
}

/// The same with so many pools of so many nodes at most.
pub fn asked<'a>(tree: &'a Tree, dice: &mut Dice, pools: u32, nodes: u32) -> Problem<'a> {
    let count = 1 + dice.below(pools);
    let classes = 1 + dice.below(2);
    let sizes: Vec<u32> = (0..count).map(|_| 1 + dice.below(nodes)).collect();
    let mut problem = plain(tree, &sizes);
    for (at, pool) in problem.pools.iter_mut().enumerate() {
        pool.suits = (0..classes).map(|_| dice.below(4) > 0).collect();
        if dice.below(2) == 0 {
            pool.together = Some(dice.below(u32::try_from(tree.depth()).unwrap()) as usize);
            pool.required = dice.below(2) == 0;
            let other = dice.below(count);
            if dice.below(2) == 0 && other as usize != at {
                pool.apart.push(other);
            }
        }
    }
    let any_order = problem.pools.iter().any(|pool| pool.required);
    for host in &mut problem.hosts {
        host.class = dice.below(classes);
        host.gpus = 8;
        let pool = dice.below(count);
        if dice.below(3) == 0 {
            host.pool = Some(pool);
        }
        match dice.below(16) {
            0 | 1 => host.free = Freedom::Out,
            // What is fixed may break what is required, and nobody can help it.
            2 | 3 if !any_order && host.pool.is_some() => host.free = Freedom::Fixed,
            _ => {}
        }
    }
    problem.prices.moving = u64::from(dice.below(4));
    problem
}
