//! `tidewright pack`: the cuts of a pool's GPUs that serve a demand of MIG slices, as a GpuLayout.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::plan::near;
use super::session::{Access, Session};
use super::{BLOCKED, Common, DONE, Directory, Output, fail, json, print, talk};
use crate::fabric::pack::{Cut, Packing, pack};
use crate::fleet::standing::{CutSpec, LayoutSpec, PoolSpec, Standing};
use crate::hardware::catalogue;
use crate::hardware::mig::{Geometry, place};
use crate::ids::MigProfile;
use crate::manifest::layout::{GpuLayoutSpec, MigPart, Slices};
use crate::manifest::{Body, Metadata, Spec, print as yaml};
use crate::round::Options;

/// Grows by a minor number when something is added, by a major one when something that was there changes.
const FORMAT_VERSION: &str = "1.0";

/// With how many numbers of nodes a pool of its own is tried.
const TRIED: usize = 32;

/// How the GPUs of a pool should be cut for a demand of slices.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Tidewright pack", rename = "Pack")]
struct Report {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// The pool.
    pool: String,
    /// How many nodes it has.
    nodes: u32,
    /// The slices of each GPU of a node, by profile.
    cuts: Vec<BTreeMap<String, u32>>,
    /// GPUs of a node that are cut otherwise than now.
    recut: u32,
    /// How much of what is cut nobody asked for.
    waste_percent: f64,
    /// The slices of a node's share that find no place, by profile.
    unserved_per_node: BTreeMap<String, u32>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright pack --demand 1g.10gb=40,3g.40gb=6 --pool serve > layout.yaml
                                               the GpuLayout with which the pool serves so many slices
  tidewright pack clusters/demo --demand 1g.10gb=40 --pool serve --name small
                                               another fleet, and a name of your own

The layout goes to standard output, and what it means to standard error.
Exit codes: 0 all of it is served, 1 error, 3 the pool is too small for it.")]
pub struct Arguments {
    #[command(flatten)]
    directory: Directory,
    /// Slices of each profile in the whole pool: 1g.10gb=40,3g.40gb=6
    #[arg(long, value_name = "SLICES", value_parser = demand)]
    demand: Demand,
    /// The pool
    #[arg(long, value_name = "NAME")]
    pool: String,
    /// The name of the layout; absent: the pool's, with `-slices`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Demand(BTreeMap<MigProfile, u32>);

fn demand(text: &str) -> Result<Demand, String> {
    let mut found = BTreeMap::new();
    for part in text.split(',').map(str::trim) {
        let wrong = || format!("`{part}` is no number of slices: write 1g.10gb=40");
        let (profile, count) = part.split_once('=').ok_or_else(wrong)?;
        let count: u32 = count.trim().parse().ok().filter(|count| (1..=1_000_000).contains(count)).ok_or_else(wrong)?;
        if found.insert(MigProfile::from(profile.trim()), count).is_some() {
            return Err(format!("`{}` is written twice", profile.trim()));
        }
    }
    Ok(Demand(found))
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("pack", &[Output::Human, Output::Json]) {
        return code;
    }
    show(arguments, common).unwrap_or_else(|code| code)
}

/// A pool as far as its cuts go.
struct Cutting<'a> {
    geometry: &'a Geometry,
    nodes: u32,
    gpus: u32,
    /// How the GPUs of a node are cut now.
    now: Vec<Cut>,
}

fn show(arguments: &Arguments, common: &Common) -> Result<u8, u8> {
    let session = Session::open(&arguments.directory.directory, Access::Look)?;
    let input = session.input(&Options::default())?;
    let standing = &*input.target.standing;
    let (name, pool) = standing.pools.get_key_value(arguments.pool.as_str()).ok_or_else(|| {
        let names: Vec<&str> = standing.pools.keys().map(|name| name.as_str()).collect();
        fail(&format!("the fleet has no pool `{}`: {}", arguments.pool, near(&arguments.pool, "pool", &names)))
    })?;
    let nodes = input.target.pools.get(name).map_or(0, |target| target.nodes);
    let cutting = cutting(standing, pool, nodes).map_err(|why| fail(&format!("pool {name}: {why}")))?;
    for profile in arguments.demand.0.keys() {
        if cutting.geometry.profile(profile).is_none() {
            let known: Vec<&str> = cutting.geometry.profiles.iter().map(|profile| profile.name.as_str()).collect();
            let near = near(profile.as_str(), "profile", &known);
            return Err(fail(&format!("the GPUs of pool {name} have no slice `{profile}`: {near}")));
        }
    }
    let packing = on_nodes(&cutting, &arguments.demand.0, nodes);
    let layout = arguments.name.clone().unwrap_or_else(|| format!("{name}-slices"));
    if common.output == Output::Json {
        print(&json(&as_json(&cutting, &arguments.demand.0, &packing, name.as_str())));
    } else if packing.cuts.iter().any(|cut| !cut.is_empty()) {
        print(&document(&layout, &packing));
    }
    talk(&words(&cutting, &arguments.demand.0, &packing, name.as_str(), &layout));
    Ok(if packing.unserved.is_empty() { DONE } else { BLOCKED })
}

fn cutting<'a>(standing: &Standing, pool: &PoolSpec, nodes: u32) -> Result<Cutting<'a>, String> {
    let model = pool.shape.gpu.as_ref().ok_or("its nodes have no GPUs")?;
    let gpu = catalogue().gpus.get(model).ok_or_else(|| format!("nothing is known about {model}"))?;
    let geometry = gpu.mig.as_ref().ok_or_else(|| format!("{model} cannot be cut by MIG"))?;
    if nodes == 0 {
        return Err("it has no nodes to cut".into());
    }
    let gpus = pool.shape.gpus;
    let mut now = vec![Cut::new(); gpus as usize];
    if let Some(LayoutSpec { cut: CutSpec::Mig(parts), .. }) = standing.layouts.get(&pool.layout) {
        for part in parts {
            let all: Vec<u32> = if part.gpus.is_empty() { (0..gpus).collect() } else { part.gpus.clone() };
            for gpu in all {
                if let Some(cut) = now.get_mut(gpu as usize) {
                    *cut = part.slices.clone();
                }
            }
        }
    }
    Ok(Cutting { geometry, nodes, gpus, now })
}

/// All nodes are cut alike: each serves its part, rounded up.
fn on_nodes(cutting: &Cutting<'_>, demand: &Cut, nodes: u32) -> Packing {
    let each = demand.iter().map(|(profile, count)| (profile.clone(), count.div_ceil(nodes))).collect();
    pack(&each, &cutting.now, |cut| place(cutting.geometry, cut).is_ok())
}

/// The layout as YAML: GPUs that are cut alike in one entry.
fn document(name: &str, packing: &Packing) -> String {
    let mut parts: BTreeMap<&Cut, Vec<u32>> = BTreeMap::new();
    for (gpu, cut) in packing.cuts.iter().enumerate().filter(|(_, cut)| !cut.is_empty()) {
        parts.entry(cut).or_default().push(u32::try_from(gpu).unwrap_or(u32::MAX));
    }
    let is_all = parts.len() == 1 && parts.values().all(|gpus| gpus.len() == packing.cuts.len());
    let part = |(cut, gpus): (&Cut, Vec<u32>)| MigPart {
        gpus: if is_all { Vec::new() } else { gpus },
        slices: cut.iter().map(|(profile, count)| (profile.clone(), Slices(*count))).collect(),
    };
    let mut mig: Vec<MigPart> = parts.into_iter().map(part).collect();
    mig.sort_by(|a, b| a.gpus.cmp(&b.gpus));
    let spec =
        GpuLayoutSpec { mig: Some(mig), mps: None, time_slicing: None, keep_ready: BTreeMap::new(), retire: false };
    let metadata =
        Metadata { name: name.into(), renamed_from: None, labels: BTreeMap::new(), annotations: BTreeMap::new() };
    yaml::print([&Body { metadata, spec: Spec::GpuLayout(spec) }])
}

/// Compute slices that are cut and nobody asked for, and those that no cut can reach, in percent of the GPUs cut.
fn waste(cutting: &Cutting<'_>, demand: &Cut, packing: &Packing) -> f64 {
    let size = |profile: &MigProfile| cutting.geometry.profile(profile).map_or(0, |profile| profile.compute);
    let cut = packing.cuts.iter().filter(|cut| !cut.is_empty()).count();
    let there = f64::from(cutting.geometry.compute) * cut as f64 * f64::from(cutting.nodes);
    let unserved = |profile: &MigProfile| packing.unserved.get(profile).copied().unwrap_or(0) * cutting.nodes;
    let used: u32 = demand.iter().map(|(profile, count)| size(profile) * count.saturating_sub(unserved(profile))).sum();
    if there > 0.0 { (1.0 - f64::from(used) / there).max(0.0) * 100.0 } else { 0.0 }
}

/// The least number of nodes from here on that would be enough.
fn enough(cutting: &Cutting<'_>, demand: &Cut, from: u32) -> Option<u32> {
    let most: u32 = demand.values().sum();
    let is_enough = |nodes: &u32| on_nodes(cutting, demand, *nodes).unserved.is_empty();
    // More nodes never serve less.
    let (mut low, mut high) = (from, most.max(from));
    if !is_enough(&high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(&middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

/// What fewer GPUs would be cut for, and how: the nodes of a pool are cut alike, so that a pool of few nodes of its own may
/// waste less than one part of each of many. Its nodes, the GPUs cut, and how much of those nobody asked for.
fn apart(cutting: &Cutting<'_>, demand: &Cut, packing: &Packing) -> Option<(u32, u32, f64)> {
    let many = |packing: &Packing| packing.cuts.iter().filter(|cut| !cut.is_empty()).count();
    let gpus = |nodes: u32, packing: &Packing| nodes * u32::try_from(many(packing)).unwrap_or(u32::MAX);
    let least = enough(cutting, demand, 1)?;
    let tried = (least..cutting.nodes).take(TRIED).map(|nodes| {
        let own = Cutting { nodes, now: vec![Cut::new(); cutting.gpus as usize], ..*cutting };
        let packing = on_nodes(&own, demand, nodes);
        (gpus(nodes, &packing), nodes, waste(&own, demand, &packing))
    });
    let (cut, nodes, waste) = tried.min_by_key(|(cut, nodes, _)| (*cut, *nodes))?;
    (cut < gpus(cutting.nodes, packing)).then_some((nodes, cut, waste))
}

/// What the cuts that are there leave unused, where they serve all of it.
fn as_it_is(cutting: &Cutting<'_>, demand: &Cut) -> Option<f64> {
    let there = |profile: &MigProfile| cutting.now.iter().filter_map(|cut| cut.get(profile)).sum::<u32>();
    let serves = demand.iter().all(|(profile, count)| there(profile).saturating_mul(cutting.nodes) >= *count);
    let packing = Packing { cuts: cutting.now.clone(), unserved: Cut::new(), changed: 0 };
    serves.then(|| waste(cutting, demand, &packing))
}

fn words(cutting: &Cutting<'_>, demand: &Cut, packing: &Packing, pool: &str, layout: &str) -> String {
    let cut = packing.cuts.iter().filter(|cut| !cut.is_empty()).count();
    let nodes = cutting.nodes;
    let all = cutting.gpus;
    let mut out = format!("Pool {pool}, {nodes} nodes of {all} GPUs: {cut} of each node's are cut, ");
    out += &format!("{} otherwise than now; {:.0} % ", packing.changed, waste(cutting, demand, packing));
    out += "of what is cut is not asked for.";
    if packing.unserved.is_empty() {
        out += &format!("\nWrite it beside the pool, with `layout: {layout}` in it.");
        if let Some(waste) = as_it_is(cutting, demand).filter(|_| packing.changed > 0) {
            out += &format!(
                "\nThe layout that is there serves all of it too, and no GPU is cut anew; {waste:.0} % of what it cuts is not \
                 asked for."
            );
        }
        if let Some((nodes, cut, waste)) = apart(cutting, demand, packing) {
            let nodes = if nodes == 1 { "one node".into() } else { format!("{nodes} nodes") };
            out += &format!(
                "\nThe nodes of a pool are cut alike: a pool of {nodes} for this alone would cut {cut} GPUs, of which {waste:.0} % \
                 is not asked for."
            );
        }
        return out;
    }
    let missing: Vec<String> = packing
        .unserved
        .iter()
        .map(|(profile, count)| {
            let missing =
                demand.get(profile).map_or(0, |all| all.saturating_sub((all.div_ceil(nodes) - count) * nodes));
            format!("{missing} of {profile}")
        })
        .collect();
    out += &format!("\nNot served: {}", missing.join(", "));
    match enough(cutting, demand, nodes + 1) {
        Some(nodes) => out + &format!("; {nodes} nodes would be enough."),
        None => out + ".",
    }
}

fn as_json(cutting: &Cutting<'_>, demand: &Cut, packing: &Packing, pool: &str) -> Value {
    let slices = |cut: &Cut| cut.iter().map(|(profile, count)| (profile.to_string(), *count)).collect();
    let report = Report {
        format_version: FORMAT_VERSION,
        pool: pool.to_string(),
        nodes: cutting.nodes,
        cuts: packing.cuts.iter().map(slices).collect(),
        recut: packing.changed,
        waste_percent: waste(cutting, demand, packing),
        unserved_per_node: slices(&packing.unserved),
    };
    serde_json::to_value(report).expect("plain data always serialises")
}

/// The JSON Schema (draft-07) of what `--output json` gives.
pub fn json_schema() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Report>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(all: &[(&str, u32)]) -> Cut {
        all.iter().map(|(profile, count)| ((*profile).into(), *count)).collect()
    }

    /// Twelve nodes of eight GPUs, half of them in halves and half in sevenths.
    #[test]
    fn what_stays_as_it_is_and_what_a_pool_of_its_own_would_cut_is_told() {
        let geometry = catalogue().gpus["h100-sxm"].mig.as_ref().unwrap();
        let (halves, sevenths) = (slices(&[("3g.40gb", 2)]), slices(&[("1g.10gb", 7)]));
        let now = [vec![halves; 4], vec![sevenths; 4]].concat();
        let cutting = Cutting { geometry, nodes: 12, gpus: 8, now };
        let demand = slices(&[("1g.10gb", 40), ("3g.40gb", 6)]);
        let packing = on_nodes(&cutting, &demand, 12);
        // One GPU of each of twelve; on three nodes two in sevenths and one in halves are enough.
        let (nodes, cut, waste) = apart(&cutting, &demand, &packing).unwrap();
        assert_eq!((nodes, cut, waste.round() as u32), (3, 9, 8));
        assert_eq!(as_it_is(&cutting, &demand).map(|waste| waste.round() as u32), Some(91));
        assert_eq!(as_it_is(&cutting, &slices(&[("2g.20gb", 1)])), None);
        let said = words(&cutting, &demand, &packing, "serve", "serve-slices");
        assert!(
            said.contains("serves all of it too") && said.contains("a pool of 3 nodes for this alone would cut 9"),
            "{said}"
        );
        // Every GPU in halves: no pool of its own cuts fewer.
        let all = slices(&[("3g.40gb", 192)]);
        assert_eq!(apart(&cutting, &all, &on_nodes(&cutting, &all, 12)), None);
    }
}
