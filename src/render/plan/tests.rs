//! What is on the screen, in a comment, in a file.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::Value;

use super::*;
use crate::effect::{
    Amount, CloudAction, ClusterAction, Counts, Effects, Freeze, LedgerChange, Object, PurchaseRequest, Scope, Thing,
    Verb,
};
use crate::fleet::testing::at;
use crate::ids::SlotId;
use crate::observed::{Gap, ObjectKey, ObjectKind};
use crate::plan::{Disruption, Held, Offer, Reason, WaitingOn};
use crate::render::plan::words::{clean, gpu_hours, length, list, money, quoted, range};
use crate::status::sample::{self, empty_plan, pool, sealed, step, usd};

fn shown<'a>(input: &'a PlanInput, plan: &'a Plan) -> Shown<'a> {
    Shown { input, plan, directory: "clusters/demo" }
}

fn plain(input: &PlanInput, plan: &Plan) -> String {
    human(&shown(input, plan), &Look::default())
}

#[test]
fn a_plan_tells_who_is_disturbed_first() {
    let input = sample::input();
    let plan = sample::plan(&input);
    assert_snapshot!(plain(&input, &plan), @"");
}

#[test]
fn every_step_is_told_to_whoever_asks() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let text = human(&shown(&input, &plan), &Look { verbose: true, ..Look::default() });
    let (_, changes) = text.split_once("Changes, the riskiest first\n").unwrap();
    let (changes, _) = changes.split_once("\n\n").unwrap();
    assert_snapshot!(changes, @"");
    assert_eq!(changes.lines().filter(|line| line.contains(" step ")).count(), plan.steps.len());
}

#[test]
fn colours_add_nothing_but_colour() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let painted = human(&shown(&input, &plan), &Look { colour: true, verbose: false });
    assert!(painted.contains("\u{1b}["));
    assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain(&input, &plan));
}

#[test]
fn that_there_are_no_changes_is_always_said() {
    let input = sample::input();
    assert_snapshot!(plain(&input, &empty_plan()), @"");
    let held = Plan { held: sample::plan(&input).held, ..empty_plan() };
    let said = plain(&input, &held);
    assert!(said.contains("No changes. Something is wanted, and all of it is held: 4 held.\n"), "{said}");
    assert!(said.contains("Plan: no changes; 4 held."), "{said}");
    assert_eq!((verdict(&empty_plan()), verdict(&held)), (Verdict::NoChanges, Verdict::Blocked));
    for plan in [empty_plan(), held] {
        let text = markdown(&shown(&input, &plan));
        assert!(text.contains("**No changes"), "{text}");
    }
}

#[test]
fn what_is_taken_away_comes_first_and_what_is_new_last() {
    let input = sample::input();
    let slot = |index| SlotId::new(&"serve".into(), index);
    let terminate = |index: u32| {
        let instance = format!("i-serve-{index}").as_str().into();
        crate::effect::Action::Cloud(CloudAction::Terminate { slot: slot(index), instance })
    };
    let object = |name: &str| Object::new(ObjectKey::cluster(ObjectKind::Cohort, name), Value::Null);
    let apply = |name: &str| crate::effect::Action::Cluster(ClusterAction::Apply(object(name)));
    let buy = crate::effect::Action::Cloud(CloudAction::Purchase(PurchaseRequest {
        reservation: "july".into(),
        offering: "cb-1".into(),
        extends: None,
        fee: usd("371002.88"),
    }));
    let price = Amount { count: 1, usd_upfront: usd("371002.88"), ..Amount::default() };
    let cordon = |node: &str| {
        let mark = crate::effect::marks::Mark::new(input.now, "quarantine");
        crate::effect::Action::Cluster(ClusterAction::Cordon { node: node.into(), mark })
    };
    let remember = crate::effect::Action::Record(LedgerChange::Closed { slot: slot(9) });
    let plan = sealed(Plan {
        steps: vec![
            step("record", Thing::Fleet, remember, Reason::Bookkeeping),
            step("new", Thing::Fleet, apply("a"), Reason::Wanted),
            step("launch", pool("serve"), sample::launch("serve", 3, 1, None), Reason::SlotEmpty),
            step("buy", Thing::Reservation("july".into()), buy, Reason::Wanted).effect(Verb::Purchase, price),
            step("cordon", pool("train"), cordon("train-0"), Reason::Quarantined { by: "ana".into() }),
            step("replace", pool("serve"), terminate(1), Reason::Outdated),
            step("remove", pool("serve"), terminate(2), Reason::NotWanted),
        ],
        ..empty_plan()
    });
    let told = plain(&input, &plan);
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    ")).collect();
    assert_snapshot!(lines.join("\n"), @"");
}

#[test]
fn offers_are_shown_with_their_price() {
    let input = sample::input();
    let offer = Offer {
        reservation: "july".into(),
        offering: "cb-0123".into(),
        extends: None,
        zone: "us-west-2a".into(),
        nodes: 32,
        start: at("2027-07-01T11:30Z"),
        end: at("2027-07-15T11:30Z"),
        fee: usd("371002.88"),
        verdict: "needs an approval".into(),
    };
    let plan = Plan { offers: vec![offer], ..empty_plan() };
    let told = plain(&input, &plan);
    let (_, told) = told.split_once("\n\n").unwrap();
    assert_snapshot!(told, @"");
}

#[test]
fn a_comment_tells_the_verdict_first() {
    let input = sample::input();
    let plan = sample::plan(&input);
    assert_snapshot!(markdown(&shown(&input, &plan)), @"");
}

/// A plan of many pools, each with names as long as a name may be.
fn huge(pools: usize) -> Plan {
    let name = "x".repeat(253);
    let steps = (0..pools).map(|index| {
        let disruption = Disruption {
            pods: 4000,
            teams: (0..40).map(|team| format!("team-{team}").into()).collect(),
            lost: (0..50).map(|pod| format!("ns/{name}-{pod}").parse().unwrap()).collect(),
            ..Disruption::default()
        };
        let cut = sample::launch(&format!("pool-{index:04}-{name}"), 0, 1, None);
        step(&format!("launch-{index}"), pool(&format!("pool-{index:04}-{name}")), cut, Reason::SlotEmpty)
            .disturbs(disruption)
    });
    let waits = WaitingOn::Person("<b>".repeat(300));
    let held = (0..pools).map(|index| Held {
        what: pool(&format!("held-{index:04}")),
        wanted: name.clone(),
        reason: Reason::Wanted,
        effects: Effects::default(),
        disruption: Disruption::default(),
        waiting_on: waits.clone(),
        done_by: None,
    });
    sealed(Plan { steps: steps.collect(), held: held.collect(), ..empty_plan() })
}

#[test]
fn a_comment_fits_and_never_drops_what_decides() {
    let input = sample::input();
    let mut last = usize::MAX;
    for pools in [1, 20, 60, 200, 2000] {
        let plan = huge(pools);
        let text = markdown(&shown(&input, &plan));
        assert!(text.len() <= 60_000, "{pools} pools make {} bytes", text.len());
        for part in [&format!("{pools} change"), plan.digest.as_str(), "| launch | pool/pool-", "**Held**", "Plan: "] {
            assert!(text.contains(part), "{pools}: {part} is missing");
        }
        let rows = text.lines().filter(|line| line.contains("| launch |")).count();
        assert!(rows >= pools.min(10), "{pools}: {rows} rows");
        assert_eq!(text.contains("more |"), rows < pools, "{pools}: what is cut is counted");
        let folded = text.matches("<details>").count();
        assert!(folded <= last, "more is dropped the larger it is");
        last = folded;
    }
}

#[test]
fn names_from_outside_are_text_and_nothing_else() {
    let input = sample::input();
    let nasty = "a|b <img src=x> @here [x](http://y) `c` **d** -->\n# e \u{1b}[31m \u{202e}";
    let mut plan = sample::plan(&input);
    plan.held[0].wanted = nasty.into();
    plan.drift[0].by = Some(nasty.into());
    plan.released[0].what = nasty.into();
    let text = markdown(&shown(&input, &plan));
    for bad in ["<img", "@here", "](http", "**d**", "\u{1b}", "\u{202e}", "\n# e"] {
        assert!(!text.contains(bad), "{bad:?} came through");
    }
    let row = text.lines().find(|line| line.contains("img src")).unwrap();
    assert_eq!(row.replace("\\|", "").matches('|').count(), 5, "{row}");
    let told = plain(&input, &plan);
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told}");
}

#[test]
fn json_is_what_its_schema_says() {
    let schema = jsonschema::draft7::new(&json_schema()).unwrap();
    let input = sample::input();
    for plan in [sample::plan(&input), empty_plan(), huge(2)] {
        let value: Value = serde_json::from_str(&json(&shown(&input, &plan))).unwrap();
        let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
    }
    let plan = sample::plan(&input);
    let value: Value = serde_json::from_str(&json(&shown(&input, &plan))).unwrap();
    assert_eq!((&value["format_version"], &value["verdict"]), (&"1.0".into(), &"changes".into()));
    assert_eq!(value["changes"][0]["actions"], serde_json::json!(["cordon", "suspend", "terminate", "launch"]));
    assert_eq!(value["changes"][0]["needs_approval"], Value::Bool(true));
    assert_eq!(value["held"][0]["until"], "2026-11-03T18:00:00Z");
    assert_eq!(value["effects"]["launch pool/serve"]["usd_per_hour"], "21.96");
    assert!(!schema.is_valid(&serde_json::json!({"format_version": "1.0"})));
}

#[test]
fn a_saved_plan_comes_back_as_it_was() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let text = save(&input, &plan);
    let saved = load_saved(&text).unwrap();
    assert_eq!((&saved.plan, &saved.effects, &saved.digest), (&plan, &plan.effects, &plan.digest));
    assert_eq!(save(&input, &saved.plan), text, "byte for byte");
}

#[test]
fn what_is_no_saved_plan_is_told() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let text = save(&input, &plan);
    let says = |text: &str, part: &str| {
        let said = load_saved(text).unwrap_err();
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    };
    for share in [10, 50, 90] {
        says(&text[..text.len() * share / 100], "cut short");
    }
    says("", "empty");
    says("kind: Fleet\n", "no saved plan");
    says("{\"a\": 1}", "no saved plan");
    says("[1, 2]", "no saved plan");
    says(&json(&shown(&input, &plan)), "the output for programs");
    says(&text.replacen("\"format_version\": \"1.0\"", "\"format_version\": \"2.1\"", 1), "format 2.1");
    says(&text.replacen("\"drift\"", "\"shift\"", 1), "damaged");
    // Somebody allows a little more than was seen.
    says(&text.replacen("\"count\": 1", "\"count\": 100", 1), "changed after it was saved");
    let newer = text.replacen("\"format_version\": \"1.0\"", "\"format_version\": \"1.7\"", 1);
    assert!(load_saved(&newer).is_ok(), "a later minor version can be read");
}

#[test]
fn what_goes_beyond_an_approval_is_told_line_by_line() {
    let input = sample::input();
    let approved = sample::plan(&input).effects;
    let mut wanted = approved.clone();
    let more = Amount {
        count: 2,
        gpus: 16,
        gpu_secs: 7200,
        teams: BTreeSet::from(["nlp".into()]),
        highest: Some(200),
        ..Amount::default()
    };
    wanted.add(&Effects::one(Verb::Drain, pool("serve"), more));
    let hour = Amount { count: 1, usd_hour: usd("21.96"), ..Amount::default() };
    wanted.add(&Effects::one(Verb::Launch, pool("serve"), hour));
    let beyond = wanted.within(&approved).unwrap_err();
    assert_snapshot!(excesses(&beyond).join("\n"), @"");
}

#[test]
fn whatever_is_waited_on_is_told_with_what_to_do() {
    let input = sample::input();
    let now = input.now;
    let freeze = |by: &str, scope| Freeze { scope, by: by.into(), at: now, reason: "why".into(), all: true };
    let document = crate::plan::frozen_by_document("audit", now);
    let waits = [
        WaitingOn::Budget { name: "maxUnavailable of pool/train".into(), allowed: 2, used: 2 },
        WaitingOn::Until(at("2026-11-08T10:00-08:00")),
        WaitingOn::Capacity { what: "p5.48xlarge in us-west-2a".into(), retry: Some(now) },
        WaitingOn::Capacity { what: "reservation/h100, which comes first".into(), retry: None },
        WaitingOn::Step("terminate:train/1@2".into()),
        WaitingOn::Step("unheard-of".into()),
        WaitingOn::DisruptionBudget("nlp/eval-server".parse().unwrap()),
        WaitingOn::Gang { name: "vision/pretrain-7".into() },
        WaitingOn::Unread(Gap { what: "DescribeInstances".into(), why: "RequestLimitExceeded".into() }),
        WaitingOn::Shrunk { seen: Counts { instances: 3, nodes: 4 }, trusted: Counts { instances: 16, nodes: 16 } },
        WaitingOn::Limit { name: "limits.hourlyUsd".into(), allowed: usd("120"), wanted: usd("1164.5") },
        WaitingOn::Approval("62eb5d9e018a225d472e1584".into()),
        WaitingOn::Frozen(freeze("ana", Scope::Fleet)),
        WaitingOn::Frozen(freeze("ana", Scope::Node("train-1".into()))),
        WaitingOn::Frozen(document),
        WaitingOn::HandsOff("train-1".into()),
        WaitingOn::OtherOwner {
            object: ObjectKey::cluster(ObjectKind::ClusterQueue, "vision"),
            patch: "spec:\n  cohort: all".into(),
        },
        WaitingOn::Guard { tide: "nightly".into(), why: "0.72 is not below 0.6".into() },
        WaitingOn::Person("the document names no zone".into()),
    ];
    let plan = sample::plan(&input);
    let shown = shown(&input, &plan);
    let told = waits.iter().map(|waits| {
        let wait = shown.words().waiting(waits);
        let remedy = wait.remedy.map_or(String::new(), |remedy| format!("\n  {remedy}"));
        let patch = wait.patch.map_or(String::new(), |patch| format!("\n    {}", patch.replace('\n', "\n    ")));
        format!("{}{remedy}{patch}", wait.on)
    });
    assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"");
}

#[test]
fn numbers_are_said_as_people_say_them() {
    let said = |values: &[&str]| values.iter().map(|text| money(usd(text))).collect::<Vec<_>>().join(" ");
    assert_eq!(said(&["0", "120", "43.9", "1234567.891", "999.999", "0.004"]), "$0 $120 $43.90 $1,234,567.89 $1,000 $0");
    let lengths: Vec<String> = [45, 60, 89, 3599, 3600, 12_000, 90_000].map(length).into();
    assert_eq!(lengths.join(", "), "45 s, 1 min, 1 min, 60 min, 1 h, 3 h 20 min, 1 d 1 h");
    let ranges: Vec<String> = [(0, 1), (40, 90), (90, 200), (660, 1080), (600, 600), (7000, 9000)].map(range).into();
    assert_eq!(ranges.join(", "), "0–1 s, 40–90 s, 1–4 min, 11–18 min, 10 min, 1–3 h");
    let work: Vec<String> = [100, 3600, 35_999, 36_000, 111_600].map(gpu_hours).into();
    assert_eq!(work.join(", "), "under 0.1 GPU-h, ~1.0 GPU-h, ~9.9 GPU-h, ~10 GPU-h, ~31 GPU-h");
    let names = ["a", "b", "c", "d"].map(String::from);
    assert_eq!((list(&names, 2), list(&names, 4)), ("a, b and 2 more".into(), "a, b, c and d".into()));
    assert_eq!(quoted("it's"), "'it'\\''s'");
    assert_eq!(clean("a\tb\u{7}"), "a b\\u{7}");
}
