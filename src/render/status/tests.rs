//! One screen, and the same for programs.

use insta::assert_snapshot;
use serde_json::Value;

use super::*;
use crate::effect::{Freeze, Quarantine, Scope};
use crate::fleet::policy::Remedy;
use crate::observed::{Gap, Read};
use crate::render::plan;
use crate::status::{ReportStatus, sample};

#[test]
fn a_fleet_as_git_says_fits_on_a_screen() {
    let input = sample::input();
    let status = Status::of(&input, &sample::empty_plan());
    let text = human(&status, ".", false);
    assert!(text.lines().count() <= 40);
    assert_snapshot!(text, @"
    Fleet test at Mon 2026-11-02 19:55 -08:00 (America/Los_Angeles), revision 9bd0e1c4d5e6
    Converged: as git says

    POOL   TYPE          WANTED  READY  DRAINING  CLOSED  LAUNCHING  MISSING  LAYOUT
    serve  p4d.24xlarge       3      3         0       0          0        0  halves 3/3
    train  p5.48xlarge        4      4         0       0          0        0  whole 4/4   1 spare

    RESERVATION  STATE   HELD  USED  IDLE  IDLE COST  END
    h100         active     4     4     0       $0/h  never

    QUOTA    POOL   GUARANTEED    ON LOAN TO IT  USED     BORROWED  LENT    WAITING
    nlp      train  8 GPUs        -              -        -         8 GPUs        1
    serving  serve  48 × 3g.20gb  -              -        -         -             0
    vision   train  16 GPUs       -              24 GPUs  8 GPUs    -             0

    TIDE     PHASE  NEXT TURN     LENT  RETURNING
    nightly  high   low at 20:00     0          0
    ");
}

#[test]
fn a_node_that_is_only_reported_is_named_everywhere() {
    let mut status = Status::of(&sample::input(), &sample::empty_plan());
    let report = |node: &str, next| ReportStatus {
        node: node.into(),
        pool: "train".into(),
        policy: "watch".into(),
        symptom: "Xid 31".into(),
        since: status.at,
        next,
    };
    status.reports = vec![report("train-0", None), report("train-1", Some(Remedy::Quarantine))];
    let screen = human(&status, ".", false);
    assert!(screen.contains("\n\nReported by a HealthPolicy, and nothing is done about it\n"), "{screen}");
    assert!(screen.contains("\n  train-0 in pool/train: Xid 31, since 19:55, by HealthPolicy watch\n"), "{screen}");
    assert!(screen.contains("watch; the next time within a week it is quarantined\n"), "{screen}");
    let comment = markdown(&status, ".");
    assert!(
        comment.contains("**Reported by a HealthPolicy, and nothing is done about it**\n\n- train-0 in"),
        "{comment}"
    );
    let value: Value = serde_json::from_str(&json(&status, ".")).unwrap();
    assert_eq!(value["reports"][0]["words"], "Xid 31");
    assert_eq!((&value["reports"][0]["next"], &value["reports"][1]["next"]), (&Value::Null, &"quarantine".into()));
    let schema = jsonschema::draft7::new(&json_schema()).unwrap();
    assert!(schema.is_valid(&value));
    status.reports = (0..30).map(|node| report(&format!("train-{node}"), None)).collect();
    assert!(human(&status, ".", false).contains("and 22 more reported"), "one screen");
}

/// A fleet in a night in which much is stopped, and much waits.
fn stopped() -> Status {
    let mut input = sample::input_at("2026-11-02T23:00-08:00");
    let now = input.now;
    let freeze = |scope| Freeze { scope, by: "ana".into(), at: now, reason: "incident 4711".into(), all: false };
    input.ledger.head.frozen = vec![freeze(Scope::Fleet), freeze(Scope::Node("train-3".into()))];
    let quarantine = Quarantine { by: "bo".into(), at: now, reason: "ECC errors".into() };
    input.ledger.head.quarantined.insert("train-0".into(), quarantine);
    sample::lend(&mut input);
    sample::cordon(&mut input, "train-0");
    sample::with_node(&mut input, "train-1", |node| node.ready = false);
    sample::with_node(&mut input, "train-2", |node| {
        node.annotations.insert(crate::effect::marks::HANDS_OFF.into(), "bo looks at its fan".into());
    });
    input.ledger.pools.get_mut("serve").unwrap().slots.get_mut(&2).unwrap().instance = None;
    let gap = Gap { what: "DescribeSpotPriceHistory".into(), why: "RequestLimitExceeded".into() };
    input.observed.cloud.spot_prices = Read::with_gap(Default::default(), now, gap);
    let plan = crate::plan::Plan { held: sample::plan(&input).held, ..sample::empty_plan() };
    Status::of(&input, &plan)
}

#[test]
fn what_it_waits_for_is_told_with_what_to_do() {
    let status = stopped();
    assert_snapshot!(human(&status, "clusters/demo", false), @"
    Fleet test at Mon 2026-11-02 23:00 -08:00 (America/Los_Angeles), revision 9bd0e1c4d5e6
    Frozen: stopped; 4 wanted changes held

    POOL   TYPE          WANTED  READY  DRAINING  CLOSED  LAUNCHING  MISSING  LAYOUT
    serve  p4d.24xlarge       3      2         0       0          0        1  halves 2/1 + whole 0/2
    train  p5.48xlarge        4      2         0       1          0        1  whole 4/4               1 spare, 1 not ready

    RESERVATION  STATE   HELD  USED  IDLE  IDLE COST  END
    h100         active     4     4     0       $0/h  never

    QUOTA    POOL   GUARANTEED    ON LOAN TO IT  USED     BORROWED  LENT          WAITING
    nlp      train  8 GPUs        -              -        -         8 GPUs              1
    serving  serve  16 × 3g.20gb  -              -        -         32 × 3g.20gb        0
    vision   serve  -             16 GPUs        -        -         -                   0
             train  16 GPUs       -              24 GPUs  8 GPUs    -

    TIDE     PHASE  NEXT TURN                LENT  RETURNING
    nightly  low    reclaiming at Tue 05:45     2          0

    Frozen: the whole fleet, by ana since 23:00: incident 4711
      to lift it: tidewright thaw --dir clusters/demo
    Frozen: node/train-3, by ana since 23:00: incident 4711
      to lift it: tidewright thaw node/train-3 --dir clusters/demo
    Quarantined: train-0, by bo at 23:00: ECC errors
      to return it: tidewright return train-0 --dir clusters/demo
    Hands off: train-2: bo looks at its fan
      to take that back: kubectl annotate node train-2 tidewright.dev/hands-off-

    Waiting
      pool/train: replace 1 node
        waits: until Tue 10:00: the update window of pool/train is closed; done by Tue 10:25
      pool/train: launch a node for train/4, and 1 more like it
        waits: the cloud had no p5.48xlarge in us-west-2a; asked again at 23:05
      pool/serve: re-cut 1 node from whole to halves
        waits: frozen by ana since 21:30: incident 4711
        to do: tidewright thaw pool/serve --dir clusters/demo
      all of it: tidewright plan clusters/demo

    Not read, so nothing is removed because of it
      DescribeSpotPriceHistory: RequestLimitExceeded
    ");
    let painted = human(&status, "clusters/demo", true);
    assert_eq!(anstream::adapter::strip_str(&painted).to_string(), human(&status, "clusters/demo", false));
}

#[test]
fn a_comment_says_the_same_as_the_screen() {
    let status = Status::of(&sample::input(), &sample::empty_plan());
    assert_snapshot!(markdown(&status, "."), @"
    <!-- tidewright:status fleet=test head=9bd0e1c4d5e6f708192a3b4c5d6e7f8091a2b3c4 -->
    ### Tidewright: test

    **Converged**: as git says

    Mon 2026-11-02 19:55 -08:00 (America/Los_Angeles), revision `9bd0e1c4d5e6`

    | pool | type | wanted | ready | draining | closed | launching | missing | layout |  |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
    | serve | p4d.24xlarge | 3 | 3 | 0 | 0 | 0 | 0 | halves 3/3 |  |
    | train | p5.48xlarge | 4 | 4 | 0 | 0 | 0 | 0 | whole 4/4 | 1 spare |

    | reservation | state | held | used | idle | idle cost | end |
    | --- | --- | ---: | ---: | ---: | ---: | --- |
    | h100 | active | 4 | 4 | 0 | $0/h | never |

    | quota | pool | guaranteed | on loan to it | used | borrowed | lent | waiting |
    | --- | --- | --- | --- | --- | --- | --- | ---: |
    | nlp | train | 8 GPUs | - | - | - | 8 GPUs | 1 |
    | serving | serve | 48 × 3g.20gb | - | - | - | - | 0 |
    | vision | train | 16 GPUs | - | 24 GPUs | 8 GPUs | - | 0 |

    | tide | phase | next turn | lent | returning |  |
    | --- | --- | --- | ---: | ---: | --- |
    | nightly | high | low at 20:00 | 0 | 0 |  |
    ");
    assert_snapshot!(markdown(&stopped(), "clusters/demo"), @"
    <!-- tidewright:status fleet=test head=9bd0e1c4d5e6f708192a3b4c5d6e7f8091a2b3c4 -->
    ### Tidewright: test

    **Frozen**: stopped; 4 wanted changes held

    Mon 2026-11-02 23:00 -08:00 (America/Los_Angeles), revision `9bd0e1c4d5e6`

    > ⚠ Frozen: the whole fleet, by ana since 23:00: incident 4711; to lift it: `tidewright thaw --dir clusters/demo`

    > ⚠ Frozen: node/train-3, by ana since 23:00: incident 4711; to lift it: `tidewright thaw node/train-3 --dir clusters/demo`

    > ⚠ Quarantined: train-0, by bo at 23:00: ECC errors; to return it: `tidewright return train-0 --dir clusters/demo`

    > ⚠ Hands off: train-2: bo looks at its fan; to take that back: `kubectl annotate node train-2 tidewright.dev/hands-off-`

    **Waiting**

    | on | wanted | waits | to do |
    | --- | --- | --- | --- |
    | pool/train | replace 1 node | until Tue 10:00: the update window of pool/train is closed; done by Tue 10:25 |  |
    | pool/train | launch a node for train/4, and 1 more like it | the cloud had no p5.48xlarge in us-west-2a; asked again at 23:05 |  |
    | pool/serve | re-cut 1 node from whole to halves | frozen by ana since 21:30: incident 4711 | `tidewright thaw pool/serve --dir clusters/demo` |

    All of it: `tidewright plan clusters/demo`

    **Not read, so nothing is removed because of it**

    - DescribeSpotPriceHistory: RequestLimitExceeded

    | pool | type | wanted | ready | draining | closed | launching | missing | layout |  |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
    | serve | p4d.24xlarge | 3 | 2 | 0 | 0 | 0 | 1 | halves 2/1 + whole 0/2 |  |
    | train | p5.48xlarge | 4 | 2 | 0 | 1 | 0 | 1 | whole 4/4 | 1 spare, 1 not ready |

    | reservation | state | held | used | idle | idle cost | end |
    | --- | --- | ---: | ---: | ---: | ---: | --- |
    | h100 | active | 4 | 4 | 0 | $0/h | never |

    | quota | pool | guaranteed | on loan to it | used | borrowed | lent | waiting |
    | --- | --- | --- | --- | --- | --- | --- | ---: |
    | nlp | train | 8 GPUs | - | - | - | 8 GPUs | 1 |
    | serving | serve | 16 × 3g.20gb | - | - | - | 32 × 3g.20gb | 0 |
    | vision | serve | - | 16 GPUs | - | - | - | 0 |
    |  | train | 16 GPUs | - | 24 GPUs | 8 GPUs | - |  |

    | tide | phase | next turn | lent | returning |  |
    | --- | --- | --- | ---: | ---: | --- |
    | nightly | low | reclaiming at Tue 05:45 | 2 | 0 |  |
    ");
}

#[test]
fn a_comment_fits_whoever_wrote_into_it() {
    let long = format!("<b> @everyone | `rm` [x](https://example.com) {}", "&".repeat(300));
    let mut status = stopped();
    let quarantine = Quarantine { by: long.clone(), at: status.at, reason: long.clone() };
    status.quarantines = (0..500).map(|node| (format!("train-{node}").into(), quarantine.clone())).collect();
    status.hands_off = (0..500).map(|node| (format!("train-{node}").into(), long.clone())).collect();
    status.gaps = vec![Gap { what: long.clone(), why: long.clone() }; 500];
    let freeze = status.freezes[0].clone();
    status.freezes = vec![Freeze { by: long.clone(), reason: long.clone(), ..freeze }; 500];
    status.unmet = vec![crate::plan::unmet::Unmet { quota: "vision".into(), why: long.clone() }; 500];
    let held = status.held[0].clone();
    let held = (0..500).map(|at| crate::plan::Held {
        wanted: format!("{at} {long}"),
        waiting_on: crate::plan::WaitingOn::Person(format!("{at} {long}")),
        ..held.clone()
    });
    status.held = held.collect();
    status.pools = vec![status.pools[0].clone(); 500];
    status.quotas = vec![status.quotas[0].clone(); 500];
    status.reservations = vec![status.reservations[0].clone(); 500];
    status.tides = vec![TideStatus { closed: Some(long), ..status.tides[0].clone() }; 500];
    let text = markdown(&status, ".");
    assert!(text.len() <= 60_000, "{}", text.len());
    assert!(!text.contains("<b>") && !text.contains("@everyone") && !text.contains("[x]("), "{text}");
    for told in ["**Frozen**: stopped; 500 wanted changes held", "and 497 more quarantined", "and 497 more |||||||||"] {
        assert!(text.contains(told), "{told}\n{text}");
    }
    // Where there is room, more is told.
    status = stopped();
    status.quarantines = (0..60).map(|node| (format!("train-{node}").into(), quarantine.clone())).collect();
    assert_eq!(markdown(&status, ".").matches("> ⚠ Quarantined").count(), 40);
}

#[test]
fn hands_off_says_why_wherever_somebody_looks() {
    let mut input = sample::input();
    for (name, why) in [("train-1", "bo looks at its fan"), ("train-2", "true")] {
        sample::with_node(&mut input, name, |node| {
            node.annotations.insert(crate::effect::marks::HANDS_OFF.into(), why.into());
        });
    }
    let nothing = sample::empty_plan();
    let shown = plan::Shown { input: &input, plan: &nothing, directory: "clusters/demo", is_now: true };
    let said = "node train-1 carries tidewright.dev/hands-off: bo looks at its fan";
    let page = plan::human(&shown, &plan::Look::default());
    assert!(page.contains(&format!("No changes. The fleet is as the documents say.\n{said}\n")), "{page}");
    assert!(page.contains("\nnode train-2 carries tidewright.dev/hands-off\n"), "{page}");
    assert!(page.contains("kubectl annotate node train-1 tidewright.dev/hands-off-\n"), "{page}");
    assert!(plan::markdown(&shown).contains("bo looks at its fan"));
    let value: Value = serde_json::from_str(&plan::json(&shown)).unwrap();
    assert_eq!(value["hands_off"]["train-1"], "bo looks at its fan");
    let mut held = sample::plan(&input).held.remove(0);
    held.waiting_on = crate::plan::WaitingOn::HandsOff("train-1".into());
    let status = Status::of(&input, &crate::plan::Plan { held: vec![held], ..sample::empty_plan() });
    let page = human(&status, "clusters/demo", false);
    assert!(page.contains("\nHands off: train-1: bo looks at its fan\n"), "{page}");
    assert!(page.contains(&format!("    waits: {said}")), "{page}");
    let value: Value = serde_json::from_str(&json(&status, ".")).unwrap();
    assert_eq!(value["hands_off"], serde_json::json!(["train-1", "train-2"]));
    assert_eq!(value["hands_off_why"]["train-1"], "bo looks at its fan");
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
