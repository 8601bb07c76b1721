//! Trees and pools to measure on.

use tidewright::fabric::insert::{Scratch, Style, insert};
use tidewright::fabric::state::State;
use tidewright::fabric::{Ask, Freedom, Host, Place, Placement, Prices, Problem, Tree};
use tidewright::ids::LevelName;

fn levels(names: &[&str]) -> Vec<LevelName> {
    names.iter().map(|name| LevelName::from(*name)).collect()
}

/// The Lingjun tree from the file that `LINGJUN` names, or one of its shape: three blocks with leaves of mostly 6 to 8.
pub fn lingjun() -> Tree {
    let mut places = Vec::new();
    if let Ok(path) = std::env::var("LINGJUN") {
        let text = std::fs::read_to_string(path).expect("LINGJUN names a file");
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let path = cells[1..].iter().map(|cell| Some(cell.to_string())).collect();
            places.push(Place { host: cells[0].into(), path });
        }
    } else {
        let mut dice = Dice(11);
        for (block, leaves) in [(0, 25), (1, 43), (2, 51)] {
            for leaf in 0..leaves {
                let size = if dice.below(10) < 6 { 8 } else { [2, 4, 5, 6, 6, 6, 7, 7, 7, 7][dice.below(10) as usize] };
                for host in 0..size {
                    let path = ["G".into(), format!("P{block}"), format!("S{leaf}")].map(Some).to_vec();
                    places.push(Place { host: format!("{block}-{leaf}-{host}").into(), path });
                }
            }
        }
    }
    Tree::grow(&levels(&["core", "pod", "rack"]), places).0
}

/// Leaves of 32, blocks of 8 leaves, spines of 8 blocks.
pub fn even(hosts: usize) -> Tree {
    let place = |at: usize| {
        let path = [at / 2048, at / 256, at / 32].map(|part| Some(format!("{part:05}"))).to_vec();
        Place { host: format!("host-{at:06}").into(), path }
    };
    Tree::grow(&levels(&["spine", "block", "leaf"]), (0..hosts).map(place).collect()).0
}

fn ask(at: usize, nodes: u32) -> Ask {
    Ask {
        name: format!("pool-{at:04}").into(),
        nodes,
        suits: vec![true],
        together: None,
        required: false,
        apart: Vec::new(),
    }
}

pub fn problem<'a>(tree: &'a Tree, sizes: &[u32]) -> Problem<'a> {
    let host = Host { class: 0, gpus: 8, pool: None, free: Freedom::Usable };
    let pools = sizes.iter().enumerate().map(|(at, nodes)| ask(at, *nodes)).collect();
    Problem { tree, hosts: vec![host; tree.hosts.len()], pools, prices: Prices::doubling(tree.depth()) }
}

/// Gangs of 1 to 64 hosts in the order in which they come, until so much is full.
pub fn gangs(tree: &Tree, load: usize, seed: u64) -> Problem<'_> {
    const SIZES: [u32; 16] = [1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 16, 24, 32, 64];
    let mut dice = Dice(seed * 7919);
    let mut left = u32::try_from(tree.hosts.len() * load / 100).unwrap();
    let mut sizes = Vec::new();
    while left > 0 {
        let size = SIZES[dice.below(16) as usize].min(left);
        sizes.push(size);
        left -= size;
    }
    // Crossings are counted here, whatever their level.
    let mut problem = problem(tree, &sizes);
    problem.prices.crossing.fill(1);
    problem
}

/// Pools of uneven sizes around a mean.
pub fn pools(tree: &Tree, count: usize, mean: usize, seed: u64) -> Problem<'_> {
    let mut dice = Dice(seed);
    let mean = u32::try_from(mean).unwrap();
    let sizes: Vec<u32> = (0..count).map(|_| mean / 4 + dice.below(mean * 3 / 2)).collect();
    problem(tree, &sizes)
}

/// The same with leaves of uneven sizes and hardly a host free: here pools get in each other's way.
pub fn crowded(hosts: usize, pools: usize, seed: u64) -> (Tree, Vec<u32>) {
    let mut dice = Dice(seed);
    let mut places = Vec::new();
    let mut leaf = 0;
    while places.len() < hosts {
        for _ in 0..(16 + dice.below(17)).min((hosts - places.len()) as u32) {
            let path = [leaf / 64, leaf / 8, leaf].map(|part| Some(format!("{part:05}"))).to_vec();
            places.push(Place { host: format!("host-{:06}", places.len()).into(), path });
        }
        leaf += 1;
    }
    let mut left = u32::try_from(hosts * 97 / 100).unwrap();
    let mut sizes = Vec::new();
    for pool in (1..=u32::try_from(pools).unwrap()).rev() {
        let mean = left / pool;
        let size = if pool == 1 { left } else { (mean / 4 + dice.below(mean * 3 / 2 + 1)).clamp(1, left - pool + 1) };
        sizes.push(size);
        left -= size;
    }
    (Tree::grow(&levels(&["spine", "block", "leaf"]), places).0, sizes)
}

/// The same with everything placed, and one more pool to come.
pub fn one_more<'a>(problem: &Problem<'a>, placed: &Placement) -> Problem<'a> {
    let mut next = problem.clone();
    next.hosts.iter_mut().zip(&placed.hosts).for_each(|(host, pool)| host.pool = *pool);
    next.pools.push(ask(problem.pools.len(), 48));
    next
}

/// Places what is missing on what is free.
pub fn add<'a>(problem: &'a Problem<'a>) -> State<'a> {
    let mut state = State::new(problem);
    for pool in 0..problem.pools.len() {
        let own = state.own[pool].clone();
        state.put(pool, &own);
    }
    insert(&mut state, problem.pools.len() - 1, Style::default(), &mut Scratch::default());
    state
}

pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 11) % u64::from(most.max(1))).unwrap()
    }
}
