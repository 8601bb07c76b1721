//! What is for sale: instance types, where they are offered, and spot prices. The figures are the catalogue's.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, not_found, zone_id};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::endpoint::model::instant;
use crate::hardware::{NodeType, Usage, Vendor, catalogue};
use crate::ids::InstanceType;
use crate::provider::sim::cloud::CloudState;

const FILTERS: Filters = &[
    ("current-generation", "CurrentGeneration"),
    ("instance-type", "InstanceType"),
    ("network-info.efa-supported", "NetworkInfo.EfaSupported"),
    ("processor-info.supported-architecture", "ProcessorInfo.SupportedArchitectures"),
    ("supported-usage-class", "SupportedUsageClasses"),
];
const OFFERING_FILTERS: Filters = &[("instance-type", "InstanceType"), ("location", "Location")];
const PRICE_FILTERS: Filters = &[
    ("availability-zone", "AvailabilityZone"),
    ("instance-type", "InstanceType"),
    ("product-description", "ProductDescription"),
];
const PAGES: Pages = Pages { usual: Some(100), least: 5, most: 100 };
/// How far back prices are told.
const PAST_HOURS: i64 = 24 * 7;

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    let wanted = ask.root().texts("InstanceTypes");
    if let Some(name) = wanted.iter().find(|name| cloud.shape_of(&InstanceType::from(**name)).is_none()) {
        let text = format!("The following supplied instance types do not exist: [{name}]");
        return Err(not_found("InvalidInstanceType", text));
    }
    let rows: Vec<Row> = names(cloud, &wanted).iter().map(|name| (name.to_string(), told(cloud, name))).collect();
    let usual = if wanted.is_empty() { PAGES.usual } else { None };
    list::answer(ask, "InstanceTypes", FILTERS, Pages { usual, ..PAGES }, rows)
}

pub fn offerings(cloud: &CloudState, ask: &Ask) -> Answer {
    let kind = ask.root().text("LocationType").unwrap_or("region").to_string();
    let account = &cloud.account;
    let places: Vec<String> = match kind.as_str() {
        "region" => vec![account.region().to_string()],
        "availability-zone" => account.zones().iter().map(ToString::to_string).collect(),
        "availability-zone-id" => account.zones().iter().map(|zone| zone_id(zone.as_str())).collect(),
        other => return Err(super::invalid(format!("'{other}' is no LocationType"))),
    };
    let mut rows: Vec<Row> = Vec::new();
    for name in names(cloud, &[]) {
        for place in &places {
            let told = json!({"InstanceType": name.as_str(), "LocationType": kind, "Location": place});
            rows.push((format!("{name}/{place}"), told));
        }
    }
    list::answer(
        ask,
        "InstanceTypeOfferings",
        OFFERING_FILTERS,
        Pages { usual: Some(1000), least: 5, most: 1000 },
        rows,
    )
}

/// The price of each hour that is asked for, newest first; without a beginning the price of now.
pub fn spot_prices(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let kinds = names(cloud, &root.texts("InstanceTypes"));
    let products = root.texts("ProductDescriptions");
    let zones = match root.text("AvailabilityZone") {
        Some(zone) => vec![zone.into()],
        None => cloud.account.zones(),
    };
    let until = root.instant("EndTime").unwrap_or(ask.now).min(ask.now);
    let from = root.instant("StartTime").unwrap_or(until).min(until);
    let linux = "Linux/UNIX";
    let hours = if products.is_empty() || products.iter().any(|name| name.starts_with(linux)) {
        hours(from, until)
    } else {
        Vec::new()
    };
    let mut rows: Vec<Row> = Vec::new();
    for kind in &kinds {
        for zone in &zones {
            for (age, at) in hours.iter().enumerate() {
                let told = json!({
                    "InstanceType": kind.as_str(),
                    "AvailabilityZone": zone.as_str(),
                    "AvailabilityZoneId": zone_id(zone.as_str()),
                    "ProductDescription": linux,
                    "SpotPrice": cloud.spot_price_at(kind, zone, *at).0.to_string(),
                    "Timestamp": instant(*at),
                });
                rows.push((format!("{kind}/{zone}/{age:05}"), told));
            }
        }
    }
    list::answer(ask, "SpotPriceHistory", PRICE_FILTERS, Pages { usual: Some(1000), least: 1, most: 1000 }, rows)
}

/// The beginnings of the hours of a time, newest first.
fn hours(from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let begin = |at: Timestamp| at.as_second().div_euclid(3600);
    let oldest = until.checked_sub(SignedDuration::from_hours(PAST_HOURS)).unwrap_or(until);
    let range = begin(from.max(oldest))..=begin(until);
    range.rev().filter_map(|hour| Timestamp::from_second(hour * 3600).ok()).collect()
}

fn names(cloud: &CloudState, wanted: &[&str]) -> Vec<InstanceType> {
    if wanted.is_empty() {
        let known = catalogue().types.iter().filter(|(_, known)| known.name.as_str().contains('.'));
        return known.map(|(name, _)| name.clone()).collect();
    }
    let wanted = wanted.iter().map(|name| InstanceType::from(*name));
    wanted.filter(|name| cloud.shape_of(name).is_some()).collect()
}

fn told(cloud: &CloudState, name: &InstanceType) -> Value {
    let known = catalogue().types.get(name);
    let shape = cloud.shape_of(name);
    let vcpus = shape.as_ref().and_then(|shape| shape.vcpus).unwrap_or(0);
    let memory = shape.as_ref().and_then(|shape| shape.memory_gib).unwrap_or(0);
    let usage = known.map_or(&[][..], |known| &known.usage);
    let usage: Vec<&str> = if usage.is_empty() { vec!["on-demand", "spot"] } else { usage.iter().map(word).collect() };
    let mut told = json!({
        "InstanceType": name.as_str(),
        "CurrentGeneration": true,
        "FreeTierEligible": false,
        "SupportedUsageClasses": usage,
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": false,
        "Hypervisor": "nitro",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": u64::from(memory) * 1024},
        "InstanceStorageSupported": known.is_some_and(|known| known.nvme_gb.is_some()),
        "NetworkInfo": network(known),
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "HibernationSupported": false,
        "BurstablePerformanceSupported": false,
        "DedicatedHostsSupported": false,
        "AutoRecoverySupported": false,
        "SupportedBootModes": ["uefi"],
    });
    if let Some(size) = known.and_then(|known| known.nvme_gb) {
        told["InstanceStorageInfo"] = json!({"TotalSizeInGB": size, "NvmeSupport": "required"});
    }
    accelerators(known, &mut told);
    told
}

fn word(usage: &Usage) -> &'static str {
    match usage {
        Usage::OnDemand => "on-demand",
        Usage::Spot => "spot",
        Usage::CapacityBlock => "capacity-block",
    }
}

fn accelerators(known: Option<&NodeType>, told: &mut Value) {
    let Some(known) = known.filter(|known| known.gpus > 0) else { return };
    let Some(gpu) = known.gpu.as_ref().and_then(|model| catalogue().gpus.get(model)) else { return };
    let name = gpu.ec2_name.clone().unwrap_or_else(|| gpu.model.to_string()).to_uppercase();
    let memory = u64::from(gpu.memory_usable_mib.unwrap_or(gpu.memory_gb * 1024));
    let total = memory * u64::from(known.gpus);
    let size = json!({"SizeInMiB": memory});
    match gpu.vendor {
        Vendor::Aws => {
            let device = json!({"Name": name, "Count": known.gpus, "MemoryInfo": size});
            told["NeuronInfo"] = json!({"NeuronDevices": [device], "TotalNeuronDeviceMemoryInMiB": total});
        }
        Vendor::Nvidia | Vendor::Amd => {
            let maker = if gpu.vendor == Vendor::Amd { "AMD" } else { "NVIDIA" };
            let device = json!({"Name": name, "Manufacturer": maker, "Count": known.gpus, "MemoryInfo": size});
            told["GpuInfo"] = json!({"Gpus": [device], "TotalGpuMemoryInMiB": total});
        }
    }
}

/// Where a type has one card more than EFA interfaces, the first card is for plain traffic.
fn network(known: Option<&NodeType>) -> Value {
    let network = known.and_then(|known| known.network.as_ref());
    let cards = network.and_then(|network| network.cards).unwrap_or(1);
    let efa = network.and_then(|network| network.efa).unwrap_or(0);
    let speed = network.map_or_else(|| "Up to 10 Gigabit".into(), |network| format!("{} Gigabit", network.gbps));
    let each: Vec<Value> = (0..cards)
        .map(|card| {
            let with_efa = efa > 0 && (cards <= efa || card > 0);
            let kinds = if with_efa { json!(["interface", "efa", "efa-only"]) } else { json!(["interface"]) };
            json!({
                "NetworkCardIndex": card,
                "NetworkPerformance": speed,
                "MaximumNetworkInterfaces": 2,
                "InterfaceTypes": kinds,
            })
        })
        .collect();
    let mut told = json!({
        "NetworkPerformance": speed,
        "MaximumNetworkInterfaces": cards * 2,
        "MaximumNetworkCards": cards,
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": each,
        "Ipv4AddressesPerInterface": 50,
        "Ipv6AddressesPerInterface": 50,
        "Ipv6Supported": true,
        "EnaSupport": "required",
        "EfaSupported": efa > 0,
        "EncryptionInTransitSupported": true,
    });
    if efa > 0 {
        told["EfaInfo"] = json!({"MaximumEfaInterfaces": efa});
    }
    told
}
