//! What joins the GPUs of a node to each other and to those of other nodes, for estimates of collectives.

use rust_decimal::prelude::ToPrimitive;

use crate::fabric::collective::Links;
use crate::fleet::standing::NodeShape;
use crate::hardware::catalogue;

/// What the catalogue knows of the links of a node, and what is usual for the rest. GPUs that no link of their own joins talk
/// over PCIe.
pub fn links(shape: &NodeShape) -> Links {
    let catalogue = catalogue();
    let gpus = shape.gpus.max(1);
    let gpu = shape.gpu.as_ref().and_then(|model| catalogue.gpus.get(model));
    let domain = shape.nvlink_domain.unwrap_or(gpus);
    let nvlink = gpu.and_then(|gpu| gpu.nvlink.as_ref()).filter(|_| domain >= gpus);
    let inside = nvlink.and_then(|link| link.one_way_gb_s.0.to_f64());
    let inside = inside.or_else(|| pcie(gpu?.pcie.as_deref()?));
    let network = catalogue.types.get(&shape.instance_type).and_then(|node| node.network.as_ref());
    // Gbit/s of the whole node.
    let outside = network.and_then(|network| network.gbps.0.to_f64()).map(|gbps| gbps / 8.0 / f64::from(gpus));
    Links {
        gpus_a_host: gpus,
        domain: domain.max(gpus),
        inside: inside.unwrap_or(Links::USUAL.inside),
        outside: outside.filter(|outside| *outside > 0.0).unwrap_or(Links::USUAL.outside),
    }
}

/// What PCIe carries one way, of `4.0x16`: its generation and its lanes.
fn pcie(written: &str) -> Option<f64> {
    let (generation, lanes) = written.split_once('x')?;
    let a_lane = match generation {
        "3.0" => 0.97,
        "4.0" => 1.94,
        "5.0" => 3.94,
        "6.0" => 7.56,
        _ => return None,
    };
    Some(a_lane * lanes.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(instance_type: &str, gpu: &str, gpus: u32, nvlink_domain: Option<u32>) -> NodeShape {
        NodeShape {
            instance_type: instance_type.into(),
            gpu: Some(gpu.into()),
            gpus,
            nvlink_domain,
            vcpus: None,
            memory_gib: None,
            efa: 0,
            on_demand: None,
        }
    }

    #[test]
    fn gpus_talk_over_their_own_link_or_over_pcie() {
        let p5 = links(&shape("p5.48xlarge", "h100-sxm", 8, None));
        assert_eq!((p5.domain, p5.inside, p5.outside), (8, 450.0, 50.0));
        let l40s = links(&shape("g6e.48xlarge", "l40s", 8, Some(1)));
        assert_eq!(l40s.domain, 8);
        assert!((l40s.inside - 31.0).abs() < 0.1, "fifteen times slower: {}", l40s.inside);
        // Bridges join two of four cards, and a collective over all of them leaves the bridge.
        let bridged = links(&shape("own", "h100-pcie", 4, Some(2)));
        assert!((bridged.inside - 63.0).abs() < 0.1, "{}", bridged.inside);
        let rack = links(&shape("p6e-gb200.36xlarge", "gb200", 4, Some(72)));
        assert_eq!((rack.gpus_a_host, rack.domain, rack.inside), (4, 72, 900.0));
    }
}
