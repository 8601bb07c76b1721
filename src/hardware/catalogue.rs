//! Reads the text of the catalogue into its types.
//!
//! The text writes the table of MIG starts once a family and names each GPU's profiles by their role in it; here the
//! two are joined. Called once, by [`super::catalogue()`].

use std::collections::BTreeMap;

use serde::Deserialize;

use super::mig::{Geometry, Profile};
use super::{Catalogue, Gpu, NodeType, Notices, Source, Vendor};
use crate::ids::{GpuModel, InstanceType, MigProfile};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    region: String,
    os: String,
    sources: BTreeMap<String, Source>,
    notices: Notices,
    mps: Mps,
    gpus: BTreeMap<GpuModel, Gpu>,
    mig: Mig,
    types: BTreeMap<InstanceType, NodeType>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mps {
    clients: u32,
    by_architecture: BTreeMap<String, u32>,
    sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mig {
    families: BTreeMap<String, Family>,
    gpus: BTreeMap<GpuModel, Cut>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    compute: u32,
    memory: u32,
    media: u32,
    roles: BTreeMap<String, Role>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Role {
    compute: u32,
    memory: u32,
    starts: Vec<u32>,
    max: u32,
    media: Option<u32>,
}

/// How one GPU is cut: its family, and what its profiles are called.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cut {
    family: String,
    profiles: BTreeMap<String, MigProfile>,
}

pub(super) fn parse(text: &str) -> Result<Catalogue, String> {
    let mut written: Written = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    for (model, gpu) in &mut written.gpus {
        gpu.model = model.clone();
        if gpu.vendor == Vendor::Nvidia {
            gpu.mps_clients = *written.mps.by_architecture.get(&gpu.architecture).unwrap_or(&written.mps.clients);
        }
    }
    for (model, cut) in &written.mig.gpus {
        let gpu = written.gpus.get_mut(model).ok_or_else(|| format!("MIG for a GPU that is not listed: {model}"))?;
        gpu.mig = Some(geometry(&written.mig.families, cut).map_err(|unknown| format!("{model}: {unknown}"))?);
    }
    for (name, node) in &mut written.types {
        node.name = name.clone();
    }
    Ok(Catalogue {
        gpus: written.gpus,
        types: written.types,
        notices: written.notices,
        mps_sources: written.mps.sources,
        sources: written.sources,
        region: written.region,
        os: written.os,
    })
}

fn geometry(families: &BTreeMap<String, Family>, cut: &Cut) -> Result<Geometry, String> {
    let family = families.get(&cut.family).ok_or_else(|| format!("no MIG family {}", cut.family))?;
    let profile = |(role, name): (&String, &MigProfile)| {
        let role = family.roles.get(role).ok_or_else(|| format!("no MIG role {role}"))?;
        Ok(Profile {
            name: name.clone(),
            compute: role.compute,
            memory: role.memory,
            starts: role.starts.clone(),
            max: role.max,
            media: role.media.unwrap_or(role.compute),
        })
    };
    let profiles = cut.profiles.iter().map(profile).collect::<Result<_, String>>()?;
    Ok(Geometry { compute: family.compute, memory: family.memory, media: family.media, profiles })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::hardware::catalogue;
    use crate::units::Duration;

    #[test]
    fn every_source_that_is_named_exists_and_every_source_is_used() {
        let all = catalogue();
        let mut named: BTreeSet<&String> = all.notices.sources.iter().chain(&all.mps_sources).collect();
        for gpu in all.gpus.values() {
            assert!(!gpu.sources.is_empty(), "{} has no source", gpu.model);
            named.extend(&gpu.sources);
        }
        for node in all.types.values() {
            assert!(!node.sources.is_empty(), "{} has no source", node.name);
            named.extend(&node.sources);
            named.extend(node.on_demand.iter().map(|price| &price.source));
            named.extend(node.spot.iter().map(|price| &price.source));
        }
        assert_eq!(named, all.sources.keys().collect());
    }

    #[test]
    fn nothing_was_read_or_priced_before_it_could_be() {
        let all = catalogue();
        let read = |source: &str| all.sources[source].read;
        for node in all.types.values() {
            if let Some(price) = &node.on_demand {
                assert!(price.as_of <= read(&price.source) && !price.usd.0.is_zero(), "{}", node.name);
            }
            if let Some(price) = &node.spot {
                assert!(price.as_of <= read(&price.source) && price.low <= price.high, "{}", node.name);
            }
        }
        assert!(all.sources.values().all(|source| !source.title.is_empty()));
    }

    #[test]
    fn every_instance_type_has_a_gpu_of_the_catalogue() {
        let all = catalogue();
        assert_eq!((all.gpus.len(), all.types.len()), (25, 50));
        for node in all.types.values() {
            let gpu = node.gpu.as_ref().and_then(|gpu| all.gpus.get(gpu));
            assert!(gpu.is_some() && node.gpus > 0, "{}", node.name);
            let domain = gpu.and_then(|gpu| gpu.nvlink.as_ref()).map_or(node.gpus, |nvlink| nvlink.domain);
            assert!((1..=domain).contains(&node.nvlink_domain), "{}", node.name);
            assert_eq!(node.ultraserver, node.nvlink_domain > node.gpus, "{}", node.name);
        }
        let domain = |name: &str| all.types[name].nvlink_domain;
        let domains = ["p5.48xlarge", "p5.4xlarge", "p6e-gb200.36xlarge", "g6e.48xlarge"].map(domain);
        assert_eq!(domains, [8, 1, 72, 1]);
    }

    #[test]
    fn a_block_of_ultraservers_ends_earlier_than_its_warning() {
        let all = catalogue();
        let kill = |name: &str| all.notices.block_kill(&all.types[name]);
        assert_eq!(kill("p5.48xlarge"), Duration::minutes(30));
        assert_eq!(kill("p6e-gb200.36xlarge"), Duration::minutes(60));
        assert_eq!(all.notices.capacity_block_warning, Duration::minutes(40));
        assert_eq!(
            (all.notices.spot, all.notices.interruptible_reservation),
            (Duration::secs(120), Duration::secs(120))
        );
    }

    #[test]
    fn mps_serves_fewer_clients_on_volta_and_none_elsewhere() {
        let clients = |model: &str| catalogue().gpus[model].mps_clients;
        assert_eq!(["h100-sxm", "t4", "v100-32gb", "mi300x", "trainium2"].map(clients), [48, 48, 16, 0, 0]);
    }

    #[test]
    fn one_profile_name_has_different_limits_on_different_gpus() {
        let max = |model: &str, profile: &str| {
            let geometry = catalogue().gpus[model].mig.as_ref().expect("a GPU with MIG");
            geometry.profile(&profile.into()).expect("its profile").max
        };
        assert_eq!((max("h100-sxm", "1g.10gb"), max("a100-40gb", "1g.10gb")), (7, 4));
        assert_eq!((max("gb300", "1g.35gb"), max("h200-sxm", "1g.35gb")), (7, 4));
    }

    #[test]
    fn no_pci_id_belongs_to_two_gpus() {
        let ids: Vec<_> = catalogue().gpus.values().flat_map(|gpu| &gpu.pci_ids).collect();
        assert!(
            ids.iter().all(|id| id.len() == 4 && id.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)))
        );
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn a_catalogue_that_does_not_hold_together_is_refused() {
        let text = include_str!("catalogue.yaml");
        for (from, to) in [
            ("family: seven", "family: eight"),
            ("profiles: {1g: ", "profiles: {5g: "),
            ("    a30: {family", "    a31: {family"),
            ("memory_gb: 16", "memory_bg: 16"),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(parse(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
