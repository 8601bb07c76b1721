//! One line an event.

use insta::assert_snapshot;

use super::*;
use crate::status::sample;
use crate::units::Duration;

#[test]
fn every_event_is_a_line_that_says_what_and_why() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let zone = input.target.standing.time_zone.zone();
    let kinds = [
        ("cordon:train/1@2", EventKind::Started),
        ("cordon:train/1@2", EventKind::Succeeded),
        ("settle:train/1@2", EventKind::Started),
        ("settle:train/1@2", EventKind::Succeeded),
        (
            "empty:train/1@2",
            EventKind::Waiting { why: "still on train-1: vision/pretrain-7-0, vision/pretrain-7-1".into() },
        ),
        ("terminate:train/1@2", EventKind::Skipped { fact: None, why: "nlp/new came to train-1".into() }),
        ("launch:train/1@2", EventKind::Dropped { after: "terminate:train/1@2".into() }),
        (
            "launch:serve/3@1",
            EventKind::Failed {
                class: "noCapacity".into(),
                why: "InsufficientInstanceCapacity: \u{1b}[31mnone".into(),
            },
        ),
        ("suspend:w-0", EventKind::Frozen { by: "ana".into(), reason: "incident 4711".into() }),
        ("suspend:w-0", EventKind::NotApproved { why: "drain pool/train is not covered".into() }),
        ("forget:pool/old", EventKind::Succeeded),
        ("unheard-of", EventKind::Succeeded),
    ];
    let lines = kinds.into_iter().enumerate().filter_map(|(index, (step, kind))| {
        let at = input.now + Duration::secs(u64::try_from(index).unwrap()).signed();
        line(&Event { at, step: step.into(), kind }, &plan, &zone)
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    19:55:01  cordon train-1 (replace): done
    19:55:04  wait until train-1 is empty: still on train-1: vision/pretrain-7-0, vision/pretrain-7-1
    19:55:05  terminate train/1 (i-train-1): left out, because it is not as planned: nlp/new came to train-1; the next plan decides
    19:55:06  launch train/1 (p5.48xlarge, us-west-2a, in cr-0aaa): left out, because this was not done: terminate train/1 (i-train-1)
    19:55:07  launch serve/3 (p4d.24xlarge, us-west-2a, on demand): failed (noCapacity): InsufficientInstanceCapacity: \u{1b}[31mnone
    19:55:08  suspend workload w-0: left out, frozen by ana: incident 4711
    19:55:09  suspend workload w-0: left out, not approved: drain pool/train is not covered
    19:55:11  unheard-of: done
    "#);
}

/// Lines leave out what is routine, such as a launch that is asked again in a moment; a person who stopped it hears of it.
#[test]
fn what_a_stop_leaves_unfinished_is_told() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let event = |step: &str, kind: EventKind| Event { at: input.now, step: step.into(), kind };
    let busy = EventKind::Waiting { why: "RequestLimitExceeded: Request limit exceeded.".into() };
    let events = [
        event("cordon:train/1@2", EventKind::Started),
        event("cordon:train/1@2", EventKind::Succeeded),
        event("settle:train/1@2", EventKind::Started),
        event("settle:train/1@2", EventKind::Waiting { why: "train-1 was cordoned less than 5s ago".into() }),
        event("launch:train/1@2", EventKind::Dropped { after: "terminate:train/1@2".into() }),
        event("launch:serve/3@1", EventKind::Started),
        event("launch:serve/3@1", busy),
    ];
    let told = |events: &[Event]| unfinished(&Progress::fold(&plan, events), &plan);
    assert_eq!(line(&events[6], &plan, &input.target.standing.time_zone.zone()), None);
    assert_snapshot!(told(&events).unwrap(), @r#"
    Begun and not finished:
      wait until the cordon of train-1 has settled: train-1 was cordoned less than 5s ago
      launch serve/3 (p4d.24xlarge, us-west-2a, on demand): RequestLimitExceeded: Request limit exceeded.
    "#);
    assert!(
        told(&events[..6]).unwrap().contains("launch serve/3 (p4d.24xlarge, us-west-2a, on demand): not known yet")
    );
    assert_eq!(told(&events[..2]), None);
}
