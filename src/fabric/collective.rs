//! What the place of a gang does to its speed: the time of an all-reduce.
//!
//! Inside a host over the link between its GPUs, between hosts over the adapters; every level that is crossed has half
//! the bandwidth of the one below (a fabric that is thinned two to one). The figures are an estimate for comparing
//! places, not a promise: what is taken for granted is said where they are shown.

/// What data goes over. Bandwidths in 10⁹ bytes a second, one way, for one GPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Links {
    pub gpus_a_host: u32,
    /// Between the GPUs of one host.
    pub inside: f64,
    /// Out of the host, inside one of the finest domains.
    pub outside: f64,
}

impl Links {
    /// Eight GPUs on NVLink 4 and 3,200 Gbit/s of adapters, where nothing better is known.
    pub const USUAL: Self = Self { gpus_a_host: 8, inside: 450.0, outside: 50.0 };
}

/// How much data each GPU has, where nobody says: 10⁹ bytes.
pub const GIGABYTES: f64 = 1.0;

/// Seconds of one all-reduce over so many GPUs on so many hosts that cross so many levels: `2·(n−1)/n · S/B`, inside a
/// host for all of the data, between hosts for the part that each GPU has then.
pub fn allreduce(gpus: u32, hosts: u32, crossed: usize, links: &Links, gigabytes: f64) -> f64 {
    let share = |count: f64| if count > 1.0 { 2.0 * (count - 1.0) / count } else { 0.0 };
    let hosts = f64::from(hosts.max(1));
    let each = (f64::from(gpus) / hosts).max(1.0);
    let thinned = links.outside / 2f64.powi(i32::try_from(crossed).unwrap_or(i32::MAX));
    share(each) * gigabytes / links.inside + share(hosts) * (gigabytes / each) / thinned
}
