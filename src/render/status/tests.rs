//! One screen, and the same for programs.

use insta::assert_snapshot;
use serde_json::Value;

use super::*;
use crate::effect::{Freeze, Quarantine, Scope};
use crate::observed::{Gap, Read};
use crate::status::sample;

#[test]
fn a_fleet_as_git_says_fits_on_a_screen() {
    let input = sample::input();
    let status = Status::of(&input, &sample::empty_plan());
    let text = human(&status, ".", false);
    assert!(text.lines().count() <= 40);
    assert_snapshot!(text, @"");
}

#[test]
fn what_it_waits_for_is_told_with_what_to_do() {
    let mut input = sample::input_at("2026-11-02T23:00-08:00");
    let now = input.now;
    let freeze = |scope| Freeze { scope, by: "ana".into(), at: now, reason: "incident 4711".into(), all: false };
    input.ledger.head.frozen = vec![freeze(Scope::Fleet), freeze(Scope::Node("train-3".into()))];
    let quarantine = Quarantine { by: "bo".into(), at: now, reason: "ECC errors".into() };
    input.ledger.head.quarantined.insert("train-0".into(), quarantine);
    sample::cordon(&mut input, "train-0");
    sample::with_node(&mut input, "train-1", |node| node.ready = false);
    sample::with_node(&mut input, "train-2", |node| {
        node.annotations.insert(crate::effect::marks::HANDS_OFF.into(), String::new());
    });
    input.ledger.pools.get_mut("serve").unwrap().slots.get_mut(&2).unwrap().instance = None;
    let gap = Gap { what: "DescribeSpotPriceHistory".into(), why: "RequestLimitExceeded".into() };
    input.observed.cloud.spot_prices = Read::with_gap(Default::default(), now, gap);
    let plan = crate::plan::Plan { held: sample::plan(&input).held, ..sample::empty_plan() };
    let status = Status::of(&input, &plan);
    assert_snapshot!(human(&status, "clusters/demo", false), @"");
    let painted = human(&status, "clusters/demo", true);
    assert_eq!(anstream::adapter::strip_str(&painted).to_string(), human(&status, "clusters/demo", false));
}

#[test]
fn json_is_what_its_schema_says() {
    let schema = jsonschema::draft7::new(&json_schema()).unwrap();
    let input = sample::input();
    for plan in [sample::empty_plan(), sample::plan(&input)] {
        let value: Value = serde_json::from_str(&json(&Status::of(&input, &plan), ".")).unwrap();
        let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
    }
    let value: Value = serde_json::from_str(&json(&Status::of(&input, &sample::empty_plan()), ".")).unwrap();
    assert_eq!((&value["verdict"], &value["pools"]["train"]["ready"]), (&"converged".into(), &4.into()));
    assert_eq!(value["quotas"][2]["borrowed"]["gpus"], 8);
    assert_eq!(value["tides"]["nightly"]["turns_to"], "low");
    assert!(!schema.is_valid(&serde_json::json!({"format_version": "1.0"})));
}
