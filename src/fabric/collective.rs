//! What the place of a gang does to its speed: the time of an all-reduce.
//!
//! Inside a host over the link between its GPUs, between hosts over the adapters; every level that is crossed has half
//! the bandwidth of the one below (a fabric that is thinned two to one). Where the finest domains are NVLink domains of many
//! hosts, that link joins their hosts too. The figures are an estimate for comparing places, not a promise: what is taken
//! for granted is said where they are shown.

use super::tree::Tree;

/// What data goes over. Bandwidths in 10⁹ bytes a second, one way, for one GPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Links {
    pub gpus_a_host: u32,
    /// How many GPUs reach each other over the link between them: those of one host, or of several.
    pub domain: u32,
    /// Over that link.
    pub inside: f64,
    /// Out of the host, inside one of the finest domains.
    pub outside: f64,
}

impl Links {
    /// Eight GPUs on NVLink 4 and 3,200 Gbit/s of adapters, where nothing better is known.
    pub const USUAL: Self = Self { gpus_a_host: 8, domain: 8, inside: 450.0, outside: 50.0 };
}

/// How much data each GPU has, where nobody says: 10⁹ bytes.
pub const GIGABYTES: f64 = 1.0;

/// What the link between GPUs joins of a collective on so many hosts below these leaves (each once), and how many levels the
/// adapters cross between those parts: its hosts, or its leaves where each is one domain of that link.
pub fn parts(tree: &Tree, leaves: &[u32], hosts: u32, crossed: usize, links: &Links) -> (u32, usize) {
    let finest = &tree.domains[tree.depth() - 1];
    let is_joined = |leaf: &u32| {
        let below = &finest[*leaf as usize].hosts;
        (below.end - below.start).saturating_mul(links.gpus_a_host) <= links.domain
    };
    match links.domain > links.gpus_a_host && leaves.iter().all(is_joined) {
        true => (u32::try_from(leaves.len()).unwrap_or(u32::MAX), crossed.saturating_sub(1)),
        false => (hosts, crossed),
    }
}

/// Seconds of one all-reduce over so many GPUs in so many parts, with so many levels crossed between them: `2·(n−1)/n · S/B`,
/// inside a part for all of the data, between parts for what each GPU has then.
pub fn allreduce(gpus: u32, parts: u32, crossed: usize, links: &Links, gigabytes: f64) -> f64 {
    let share = |count: f64| if count > 1.0 { 2.0 * (count - 1.0) / count } else { 0.0 };
    let parts = f64::from(parts.max(1));
    let each = (f64::from(gpus) / parts).max(1.0);
    let thinned = links.outside / 2f64.powi(i32::try_from(crossed).unwrap_or(i32::MAX));
    share(each) * gigabytes / links.inside + share(parts) * (gigabytes / each) / thinned
}
