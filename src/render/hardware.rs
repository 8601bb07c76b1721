//! The catalogue as text and as JSON: all instance types in a table, or one type or GPU with every figure.
//!
//! A figure that no source confirms carries a mark wherever it is shown: `?` in the table, a word elsewhere. Called by
//! the command line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::table::{columns, pad, plain, trimmed};
use crate::hardware::mig::{Geometry, Profile};
use crate::hardware::{Catalogue, Gpu, Network, NodeType, Notices, Source, Usage, Vendor};
use crate::ids::InstanceType;

/// Grows by a minor number when something is added, by a major one when something that was there changes.
const FORMAT_VERSION: &str = "1.0";

/// Every instance type on one line, and how to see more of one.
pub fn table(catalogue: &Catalogue) -> String {
    let header = ["TYPE", "GPUS", "GPU MEMORY", "NVLINK", "NETWORK", "MEMORY", "$/HOUR"];
    let mut rows = columns(header, &[2, 3, 5, 6]);
    for node in by_family(catalogue) {
        let mark = |field: &str| if is_unverified(&node.unverified, field) { "?" } else { "" };
        let or_dash = |text: Option<String>, field: &str| text.map_or("-".into(), |text| text + mark(field));
        let gpus = node.gpu.as_ref().map(|gpu| format!("{} × {gpu}", node.gpus));
        let memory = gpu_memory_gb(catalogue, node).map(|gb| format!("{gb} GB"));
        let price = node.on_demand.as_ref().map(|price| format!("{:.2}", price.usd.0.round_dp(2)));
        rows.add_row([
            node.name.to_string(),
            or_dash(gpus, "gpus"),
            or_dash(memory, "gpus"),
            or_dash((node.nvlink_domain > 1).then(|| node.nvlink_domain.to_string()), "nvlink_domain"),
            or_dash(node.network.as_ref().map(network), "network"),
            or_dash(node.memory_gib.map(|gib| format!("{gib} GiB")), "memory_gib"),
            or_dash(price, "on_demand"),
        ]);
    }
    format!(
        "{}\n\nOn-demand prices of {} for {}. A figure with ? is confirmed by no source.\n\
         See one with `tidewright hardware <type or GPU>`: its sources and dates, Spot prices, MIG profiles.\n",
        trimmed(&rows),
        catalogue.region,
        catalogue.os
    )
}

/// An instance type or a GPU with all that is known of it; nothing when the name is neither.
pub fn one(catalogue: &Catalogue, name: &str) -> Option<String> {
    match (catalogue.types.get(name), catalogue.gpus.get(name)) {
        (Some(node), _) => Some(one_type(catalogue, node)),
        (None, Some(gpu)) => Some(one_gpu(catalogue, gpu)),
        (None, None) => None,
    }
}

/// The catalogue, or with a name one instance type with its GPU, or one GPU with the types that carry it.
#[derive(JsonSchema)]
#[schemars(title = "Tidewright hardware", rename = "Hardware", untagged)]
#[allow(dead_code, clippy::large_enum_variant)]
enum Report {
    All(All),
    Type(OneType),
    Gpu(OneGpu),
}

/// All that is known.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct All {
    #[schemars(flatten)]
    head: Head,
    /// Every instance type, by family.
    types: Vec<NodeType>,
    /// Every GPU.
    gpus: Vec<Gpu>,
    /// How long before they end machines are warned.
    notices: Notices,
}

/// One instance type.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct OneType {
    #[schemars(flatten)]
    head: Head,
    /// The instance type.
    r#type: NodeType,
    /// Its GPU; null where it has none.
    gpu: Option<Gpu>,
}

/// One GPU.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct OneGpu {
    #[schemars(flatten)]
    head: Head,
    /// The GPU.
    gpu: Gpu,
    /// The instance types that carry it.
    types: Vec<String>,
}

/// What stands in each.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct Head {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: String,
    /// The region that the prices hold for.
    region: String,
    /// The operating system that they hold for.
    os: String,
    /// What the figures name as their sources.
    sources: BTreeMap<String, Source>,
}

/// The JSON Schema (draft-07) of what [`json()`] and [`json_one`] give.
pub fn json_schema() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Report>().to_value()
}

/// The whole catalogue for programs.
pub fn json(catalogue: &Catalogue) -> Value {
    json!({
        "format_version": FORMAT_VERSION,
        "region": catalogue.region,
        "os": catalogue.os,
        "types": by_family(catalogue),
        "gpus": catalogue.gpus.values().collect::<Vec<_>>(),
        "notices": catalogue.notices,
        "sources": catalogue.sources,
    })
}

/// What [`one`] shows, for programs: the type with its GPU, or the GPU with the types that carry it.
pub fn json_one(catalogue: &Catalogue, name: &str) -> Option<Value> {
    let node = catalogue.types.get(name);
    let model = node.map_or(Some(name), |node| node.gpu.as_ref().map(|gpu| gpu.as_str()));
    let gpu = model.and_then(|model| catalogue.gpus.get(model));
    let mut ids: Vec<&String> = gpu.iter().flat_map(|gpu| gpu_sources(catalogue, gpu)).map(|(_, id)| id).collect();
    ids.extend(node.iter().flat_map(|node| type_sources(node)).map(|(_, id)| id));
    let sources: BTreeMap<&String, &Source> =
        ids.into_iter().filter_map(|id| catalogue.sources.get(id).map(|source| (id, source))).collect();
    let mut value = json!({ "format_version": FORMAT_VERSION, "region": catalogue.region, "os": catalogue.os });
    match (node, gpu) {
        (None, None) => return None,
        (Some(node), gpu) => (value["type"], value["gpu"]) = (json!(node), json!(gpu)),
        (None, Some(gpu)) => {
            let types: Vec<&InstanceType> = types_with(catalogue, gpu).map(|node| &node.name).collect();
            (value["gpu"], value["types"]) = (json!(gpu), json!(types));
        }
    }
    value["sources"] = json!(sources);
    Some(value)
}

/// A field of the catalogue, what it is called on the screen, and its value with its unit.
type Figure = (&'static str, String, String);

fn one_type(catalogue: &Catalogue, node: &NodeType) -> String {
    let model = node.gpu.as_ref().and_then(|gpu| catalogue.gpus.get(gpu));
    let title = match (&node.gpu, model) {
        (Some(gpu), Some(known)) => format!("{}: {} × {gpu}, {}", node.name, node.gpus, known.name),
        (Some(gpu), None) => format!("{}: {} × {gpu}", node.name, node.gpus),
        (None, _) => format!("{}: no GPU", node.name),
    };
    let place = format!("{}, {}", catalogue.region, catalogue.os);
    let mut figures: Vec<Figure> = Vec::new();
    let mut add = |field, label: &str, value: Option<String>| {
        figures.extend(value.map(|value| (field, label.to_owned(), value)));
    };
    add("gpus", "GPUs", Some(node.gpus.to_string()));
    add("gpus", "GPU memory", gpu_memory_gb(catalogue, node).map(|gb| format!("{gb} GB")));
    add("link", "Link in the node", (node.gpus > 1).then(|| word(&node.link)));
    add("nvlink_domain", "NVLink domain", Some(plural(node.nvlink_domain, "GPU")));
    add("vcpus", "vCPUs", node.vcpus.map(|vcpus| vcpus.to_string()));
    add("memory_gib", "Memory", node.memory_gib.map(|gib| format!("{gib} GiB")));
    add("nvme_gb", "Local NVMe", node.nvme_gb.filter(|gb| *gb > 0).map(|gb| format!("{gb} GB")));
    add("nvme_gb", "Local NVMe", node.nvme_gb.filter(|gb| *gb == 0).map(|_| "none".into()));
    add("network", "Network", node.network.as_ref().map(network_in_full));
    add("ultraserver", "UltraServer", node.ultraserver.then(|| "a part of one".into()));
    add("usage", "Sold as", (!node.usage.is_empty()).then(|| list(node.usage.iter().map(word::<Usage>))));
    let price = node.on_demand.as_ref();
    let price = price.map(|price| format!("${} an hour ({place}, {})", price.usd, price.as_of));
    add("on_demand", "On demand", Some(price.unwrap_or_else(|| "no public price".into())));
    let spot = node.spot.as_ref();
    let spot = spot.map(|spot| format!("${} to ${} an hour ({place}, {})", spot.low, spot.high, spot.as_of));
    add("spot", "Spot", spot);
    add("notes", "Note", node.notes.clone());
    let gpu = node.gpu.as_ref().map_or(String::new(), |gpu| format!("\nThe GPU: `tidewright hardware {gpu}`.\n"));
    let sources = sources(catalogue, type_sources(node));
    format!("{title}\n\n{}\n{gpu}\n{sources}", in_rows(&figures, &node.unverified))
}

fn one_gpu(catalogue: &Catalogue, gpu: &Gpu) -> String {
    let mut figures: Vec<Figure> = Vec::new();
    let mut add = |field, label: &str, value: Option<String>| {
        figures.extend(value.map(|value| (field, label.to_owned(), value)));
    };
    add("architecture", "Architecture", Some(format!("{} ({})", gpu.architecture, word(&gpu.vendor))));
    add("ec2_name", "Name at EC2", gpu.ec2_name.clone());
    add("memory_gb", "Memory", Some(format!("{} GB", gpu.memory_gb)));
    add("memory_usable_mib", "Usable memory", gpu.memory_usable_mib.map(|mib| format!("{mib} MiB")));
    add("memory_type", "Memory type", gpu.memory_type.clone());
    add("bandwidth_gb_s", "Memory bandwidth", gpu.bandwidth_gb_s.map(|gb_s| format!("{gb_s} GB/s")));
    for (precision, tflops) in &gpu.dense_tflops {
        let unit = if precision.starts_with("int") { "TOPS" } else { "TFLOPS" };
        add("dense_tflops", &format!("Dense {precision}"), Some(format!("{tflops} {unit}")));
    }
    for (precision, tflops) in &gpu.reached_tflops {
        add("reached_tflops", &format!("Reached {precision}"), Some(format!("{tflops} TFLOPS, the best measured")));
    }
    add(
        "nvlink",
        if gpu.vendor == Vendor::Nvidia { "NVLink" } else { "Link" },
        gpu.nvlink.as_ref().map(|link| {
            let pair = link.pair_gb_s.map_or(String::new(), |pair| format!(", {pair} GB/s for a pair"));
            let both = link.both_ways_gb_s.map_or(String::new(), |both| format!(", {both} GB/s both ways"));
            let named = link.generation.starts_with(char::is_alphabetic);
            let generation = format!("{}{}", if named { "" } else { "generation " }, link.generation);
            format!("{generation}: {} GB/s one way{both}{pair}, at most {} GPUs", link.one_way_gb_s, link.domain)
        }),
    );
    add("pcie", "PCIe", gpu.pcie.clone());
    add("tdp_w", "Power", gpu.tdp_w.map(|watts| format!("{watts} W")));
    add("pci_ids", "PCI ids", (!gpu.pci_ids.is_empty()).then(|| list(gpu.pci_ids.iter().cloned())));
    let mps = if gpu.mps_clients == 0 { "none".into() } else { format!("at most {}", gpu.mps_clients) };
    add("mps_clients", "MPS clients", Some(mps));
    if gpu.mig.is_none() {
        add("mig", "MIG", Some("none".into()));
    }
    add("notes", "Note", gpu.notes.clone());
    let mig = gpu.mig.as_ref().map_or(String::new(), |geometry| {
        let inferred = is_unverified(&gpu.unverified, "mig");
        format!("\n{}", mig(geometry, if inferred { " (starts are inferred: unverified)" } else { "" }))
    });
    let types = types_with(catalogue, gpu).map(|node| format!("{} ({})", node.name, node.gpus));
    let types = wrapped("Instance types with it:", types);
    let sources = sources(catalogue, gpu_sources(catalogue, gpu));
    let rows = in_rows(&figures, &gpu.unverified);
    format!("{}: {}\n\n{rows}\n{mig}\n{types}\n{sources}", gpu.model, gpu.name)
}

fn mig(geometry: &Geometry, remark: &str) -> String {
    let mut rows = columns(["PROFILE", "COMPUTE", "MEMORY", "AT MOST", "STARTS AT"], &[1, 2, 3]);
    for profile in &geometry.profiles {
        let starts = profile.starts.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let numbers = [profile.compute, profile.memory, profile.max].map(|number| number.to_string());
        let [compute, memory, max] = numbers;
        rows.add_row([profile.name.to_string(), compute, memory, max, starts]);
    }
    let slices = format!("{} compute and {} memory slices", geometry.compute, geometry.memory);
    format!("MIG: {slices}{remark}\n\n{}\n{}", trimmed(&rows), engines(geometry))
}

/// What the table of starts does not tell: instances that exclude each other by the engines they take.
fn engines(geometry: &Geometry) -> String {
    let parts = || geometry.profiles.iter().filter(|profile| profile.compute < geometry.compute);
    let names = |of: fn(&Profile, &Geometry) -> bool| {
        parts().filter(|profile| of(profile, geometry)).map(|profile| profile.name.to_string()).collect::<Vec<_>>()
    };
    let (all, none) = (names(|profile, gpu| profile.media == gpu.media), names(|profile, _| profile.media == 0));
    if all.is_empty() {
        return String::new();
    }
    format!("\nBeside {} only these fit: {}.\n", all.join(" or "), none.join(", "))
}

/// What comes from where, for an instance type.
fn type_sources(node: &NodeType) -> Vec<(&'static str, &String)> {
    let shape = node.sources.iter().map(|id| ("figures", id));
    let prices = node.on_demand.iter().map(|price| ("on demand", &price.source));
    shape.chain(prices).chain(node.spot.iter().map(|spot| ("spot", &spot.source))).collect()
}

fn gpu_sources<'a>(catalogue: &'a Catalogue, gpu: &'a Gpu) -> Vec<(&'static str, &'a String)> {
    let mps = catalogue.mps_sources.iter().filter(|_| gpu.mps_clients > 0);
    gpu.sources.iter().map(|id| ("figures", id)).chain(mps.map(|id| ("MPS clients", id))).collect()
}

fn sources(catalogue: &Catalogue, of: Vec<(&'static str, &String)>) -> String {
    let mut rows = columns(["SOURCE OF", "TITLE", "READ"], &[]);
    for (what, id) in of {
        let source = catalogue.sources.get(id);
        let (title, read) = source.map_or((id.clone(), "-".into()), |s| (s.title.clone(), s.read.to_string()));
        rows.add_row([what.to_owned(), title, read]);
    }
    trimmed(&rows) + "\n"
}

fn in_rows(figures: &[Figure], unverified: &[String]) -> String {
    let mut rows = plain();
    for (field, label, value) in figures {
        // A precision is listed by its name alone; figures reached in a measurement are not on that list.
        let precision = label.strip_prefix("Dense ").unwrap_or(field);
        let mark = if is_unverified(unverified, precision) { " (unverified)" } else { "" };
        rows.add_row([label.clone(), format!("{value}{mark}")]);
    }
    pad(&mut rows);
    trimmed(&rows)
}

fn is_unverified(unverified: &[String], field: &str) -> bool {
    unverified.iter().any(|one| one == field)
}

/// Families together, small before large: the order in which people look for a type.
fn by_family(catalogue: &Catalogue) -> Vec<&NodeType> {
    let mut nodes: Vec<_> = catalogue.types.values().collect();
    nodes.sort_by_key(|node| (node.name.as_str().split('.').next(), node.vcpus, &node.name));
    nodes
}

fn types_with<'a>(catalogue: &'a Catalogue, gpu: &Gpu) -> impl Iterator<Item = &'a NodeType> {
    by_family(catalogue).into_iter().filter(|node| node.gpu.as_ref() == Some(&gpu.model))
}

fn gpu_memory_gb(catalogue: &Catalogue, node: &NodeType) -> Option<u32> {
    let gpu = catalogue.gpus.get(node.gpu.as_ref()?)?;
    Some(node.gpus.saturating_mul(gpu.memory_gb))
}

fn network(network: &Network) -> String {
    let efa = network.efa.filter(|efa| *efa > 0).map_or(String::new(), |efa| format!(", {efa} EFA"));
    format!("{} Gbit/s{efa}", network.gbps)
}

fn network_in_full(network: &Network) -> String {
    let cards = network.cards.map_or(String::new(), |cards| format!(", {}", plural(cards, "card")));
    let efa = network.efa.map_or(String::new(), |efa| format!(", {}", plural(efa, "EFA interface")));
    format!("{} Gbit/s{cards}{efa}", network.gbps)
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// A list after its heading, broken into lines that fit a terminal.
fn wrapped(heading: &str, items: impl Iterator<Item = String>) -> String {
    let mut text = heading.to_owned();
    let mut width = heading.len();
    let mut between = " ";
    for item in items {
        width += between.len() + item.len();
        if width > 100 {
            width = 2 + item.len();
            text += if between == " " { "\n  " } else { ",\n  " };
        } else {
            text += between;
        }
        text += &item;
        between = ", ";
    }
    if between == " " {
        text += " none that is known here";
    }
    text + "\n"
}

/// The word that the catalogue itself uses.
fn word<T: serde::Serialize>(value: &T) -> String {
    json!(value).as_str().map_or(String::new(), str::to_owned)
}

#[cfg(test)]
mod tests;
