//! What is on the screen, and that nothing unconfirmed goes there without its mark.

use super::*;
use crate::hardware::catalogue;

/// Every text that this module makes of the catalogue.
fn texts() -> Vec<String> {
    let all = catalogue();
    let names = all.types.keys().map(InstanceType::as_str).chain(all.gpus.keys().map(|model| model.as_str()));
    names.map(|name| one(all, name).expect("a known name")).chain([table(all)]).collect()
}

#[test]
fn every_line_fits_a_terminal_and_has_no_trailing_space() {
    for line in texts().iter().flat_map(|text| text.lines()) {
        assert!(line.chars().count() <= 120 && line == line.trim_end(), "{line}");
    }
    assert!(texts().iter().all(|text| text.ends_with('\n') && !text.ends_with("\n\n") && !text.contains("\n\n\n")));
}

#[test]
fn the_table_has_every_type_in_the_order_of_families_and_sizes() {
    let text = table(catalogue());
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let listed: Vec<_> = text.lines().skip(1).map(first).take_while(|name| !name.is_empty()).collect();
    assert_eq!(listed.len(), catalogue().types.len());
    assert_eq!(&listed[..3], ["g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge"]);
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("p5.48") || line.starts_with("p6e")).collect();
    assert_eq!(
        lines,
        [
            "p5.48xlarge         8 × h100-sxm        640 GB       8  3200 Gbit/s, 32 EFA   2048 GiB   55.04",
            "p6e-gb200.36xlarge  4 × gb200?         744 GB?      72  3200 Gbit/s, 17 EFA?  960 GiB?       -",
        ]
    );
}

#[test]
fn every_unconfirmed_figure_is_marked() {
    let all = catalogue();
    let marks = |name: &str| one(all, name).expect("a known name").matches("unverified)").count();
    for gpu in all.gpus.values() {
        assert_eq!(marks(gpu.model.as_str()), gpu.unverified.len(), "{}", gpu.model);
    }
    for node in all.types.values() {
        // The memory of all GPUs hangs on their number.
        let twice = usize::from(is_unverified(&node.unverified, "gpus"));
        assert_eq!(marks(node.name.as_str()), node.unverified.len() + twice, "{}", node.name);
    }
}

#[test]
fn every_price_and_figure_is_shown_with_its_source_and_dates() {
    let text = one(catalogue(), "p5.48xlarge").expect("a known name");
    for line in [
        "p5.48xlarge: 8 × h100-sxm, NVIDIA H100 SXM5 80GB",
        "Network           3200 Gbit/s, 32 cards, 32 EFA interfaces",
        "On demand         $55.04 an hour (us-east-1, Linux, 2026-07-20)",
        "Spot              $20.2849 to $21.0363 an hour (us-east-1, Linux, 2026-08-22)",
        "on demand  aws/karpenter-provider-aws@1d927085, on-demand prices of 2026-07-20  2026-11-15",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn a_gpu_is_shown_with_its_cuts_and_the_types_that_carry_it() {
    let text = one(catalogue(), "h100-sxm").expect("a known name");
    assert!(text.contains("\n1g.20gb           1       2        4  0 2 4 6\n"), "{text}");
    assert!(text.contains("\nInstance types with it: p5.4xlarge (1), p5.48xlarge (8)\n"), "{text}");
    let text = one(catalogue(), "rtx-pro-6000-blackwell").expect("a known name");
    assert!(text.contains("Beside 1g.24gb+me.all or 2g.48gb+me.all only these fit: 1g.24gb-me, 2g.48gb-me."), "{text}");
    assert!(text.contains("Instance types with it: none that is known here"), "{text}");
}

#[test]
fn a_node_without_a_gpu_can_be_shown() {
    let mut all = catalogue().clone();
    all.types.insert("cpu".into(), NodeType::named("cpu".into()));
    assert!(one(&all, "cpu").is_some_and(|text| text.starts_with("cpu: no GPU\n")));
    assert!(table(&all).lines().any(|line| line.starts_with("cpu ") && line.ends_with(" -")));
    assert_eq!(json_one(&all, "cpu").expect("a known name")["gpu"], Value::Null);
}

#[test]
fn json_has_a_version_and_only_the_sources_that_it_names() {
    let all = json(catalogue());
    assert_eq!((&all["format_version"], all["types"].as_array().map(Vec::len)), (&json!("1.0"), Some(50)));
    let h100 = json_one(catalogue(), "h100-sxm").expect("a known name");
    assert_eq!(h100["types"], json!(["p5.4xlarge", "p5.48xlarge"]));
    assert_eq!(h100["gpu"]["mig"]["profiles"][0]["starts"], json!([0, 1, 2, 3, 4, 5, 6]));
    assert_eq!(h100["sources"]["lockwood-h100"]["read"], "2026-11-15");
    assert_eq!(h100["sources"].get("verda-gb300"), None);
    let p5 = json_one(catalogue(), "p5.48xlarge").expect("a known name");
    assert_eq!((&p5["type"]["on_demand"]["usd"], &p5["gpu"]["model"]), (&json!(55.04), &json!("h100-sxm")));
    assert!(one(catalogue(), "p5").is_none() && json_one(catalogue(), "p5").is_none());
}
