//! How much of what is free is of no use to the work that comes (FGD, Weng et al., ATC 2023).
//!
//! A node is asked for every shape of work how many of its free GPUs that shape could not use: all of them where the shape
//! does not run there at all, else those with less left than it needs. The mean over the shapes, by how often each comes,
//! is the node's fragmentation. Work goes where it grows the least.

/// One node. GPUs in thousandths, so that shares of one count.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Room {
    pub cpu_milli: u64,
    /// What is free of each GPU.
    pub gpus: Vec<u32>,
    /// What kind of GPU, by a number.
    pub model: u32,
}

/// One shape of work.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    pub cpu_milli: u64,
    /// How many GPUs; 0 for work without.
    pub gpus: u32,
    /// How much of each of them, in thousandths.
    pub milli: u32,
    /// The kinds of GPU that it takes; empty: any.
    pub models: Vec<u32>,
    /// How much of all work has this shape, from 0 to 1.
    pub part: f64,
}

impl Shape {
    pub fn runs_on(&self, room: &Room) -> bool {
        let enough = room.gpus.iter().filter(|free| **free >= self.milli).count();
        self.cpu_milli <= room.cpu_milli
            && enough >= self.gpus as usize
            && (self.models.is_empty() || self.models.contains(&room.model))
    }
}

/// Free thousandths of a node that work on average cannot use.
pub fn fragmented(room: &Room, shapes: &[Shape]) -> f64 {
    let free: u32 = room.gpus.iter().sum();
    let lost = |shape: &Shape| {
        let lost = if shape.gpus == 0 || !shape.runs_on(room) {
            free
        } else {
            room.gpus.iter().filter(|free| **free < shape.milli).sum()
        };
        f64::from(lost) * shape.part
    };
    shapes.iter().map(lost).sum()
}

/// What of these whole free GPUs, by node, work of these shapes cannot use, and how many there are, in thousandths; none
/// where nobody knows the work.
pub fn lost_of(free: &[u32], shapes: &[Shape]) -> Option<(f64, f64)> {
    if shapes.is_empty() {
        return None;
    }
    // Nodes with as many free are alike.
    let mut nodes: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
    free.iter().for_each(|gpus| *nodes.entry(*gpus).or_insert(0) += 1);
    let (mut lost, mut all) = (0.0, 0.0);
    for (gpus, many) in nodes {
        let room = Room { cpu_milli: 0, gpus: vec![1_000; gpus as usize], model: 0 };
        lost += fragmented(&room, shapes) * f64::from(many);
        all += f64::from(gpus) * 1_000.0 * f64::from(many);
    }
    Some((lost, all))
}

/// Which GPUs of a node a shape should take, and by how much that makes the node's fragmentation grow; none where it
/// does not run.
pub fn best_gpus(room: &Room, shape: &Shape, shapes: &[Shape]) -> Option<(f64, Vec<usize>)> {
    if !shape.runs_on(room) {
        return None;
    }
    let before = fragmented(room, shapes);
    let grown = |taken: &[usize]| fragmented(&after(room, shape, taken), shapes) - before;
    if shape.gpus != 1 {
        // Whole GPUs are alike: the fullest that are enough.
        let mut order: Vec<usize> = (0..room.gpus.len()).filter(|at| room.gpus[*at] >= shape.milli).collect();
        order.sort_by_key(|at| (room.gpus[*at], *at));
        order.truncate(shape.gpus as usize);
        return Some((grown(&order), order));
    }
    let mut best: Option<(f64, usize)> = None;
    for at in (0..room.gpus.len()).filter(|at| room.gpus[*at] >= shape.milli) {
        if room.gpus[..at].contains(&room.gpus[at]) {
            continue;
        }
        let grows = grown(&[at]);
        if best.is_none_or(|(least, _)| grows < least) {
            best = Some((grows, at));
        }
    }
    best.map(|(grows, at)| (grows, vec![at]))
}

/// The node once a shape has taken these GPUs.
pub fn after(room: &Room, shape: &Shape, taken: &[usize]) -> Room {
    let mut next = room.clone();
    next.cpu_milli = next.cpu_milli.saturating_sub(shape.cpu_milli);
    for at in taken {
        next.gpus[*at] = next.gpus[*at].saturating_sub(shape.milli);
    }
    next
}
