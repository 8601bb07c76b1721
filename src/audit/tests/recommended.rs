//! Nodes that are left because the cloud recommends it.

use jiff::SignedDuration;

use super::bench::*;
use crate::effect::Scope;
use crate::fleet::updates::When;
use crate::plan::*;

const RECOMMENDED: &str = "only where there is one";
const UNAVAILABLE: &str = "maxUnavailable";
const WHEN: &str = "`when`";
const FROZEN: &str = "under a freeze";
const REMOVALS: &str = "hourly limit";

/// Nodes of the pool that buys spot, left because the cloud recommends it since ten minutes ago.
fn moving(indexes: &[u32]) -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.standing().pools.get_mut("burst").unwrap().updates.when = When::Drain;
    bench.gang("bert", "night", "batch", &[("burst", 1)]);
    let since = bench.input.now - SignedDuration::from_mins(10);
    let reason = Reason::Recommended { since };
    for index in indexes {
        bench.input.observed.cloud.recommended.insert(instance("burst", *index), since);
        bench.drain("burst", *index, "move", &reason, if *index == 1 { &["bert"] } else { &[] });
        bench.terminate("burst", *index, &reason);
        bench.launch("burst", *index, reason.clone(), &[&format!("gone burst/{index}")]);
    }
    bench.plan.steps.iter_mut().for_each(|step| step.consent = Consent::Standing);
    bench
}

#[test]
fn a_node_is_left_on_the_clouds_word_and_nobody_has_to_approve_it() {
    moving(&[1]).passes();
    moving(&[1]).with(|bench| bench.input.observed.cloud.recommended.clear()).breaks(RECOMMENDED, "nobody recommends");
    // What was begun goes on when the queue has forgotten what it said.
    let begun = |bench: &mut Bench| {
        bench.input.observed.cloud.recommended.clear();
        bench.cordoned("burst", 1, "move");
    };
    moving(&[1]).with(begun).passes();
    // It has no instant, so it gives nobody a deadline.
    moving(&[1])
        .edit("terminate burst/1", |step| step.urgency = Urgency::Deadline)
        .breaks_also(RECOMMENDED, "nothing is taken away at an instant");
    let at_once = |step: &mut Step| {
        step.requires.clear();
        step.after = vec!["settle burst/1".into()];
    };
    moving(&[1]).edit("terminate burst/1", at_once).breaks("drained before", "looks whether");
}

#[test]
fn what_has_just_come_stays_whatever_is_recommended() {
    let launched = |hours: i64| {
        let mut bench = moving(&[1]);
        let at = bench.input.now - SignedDuration::from_hours(hours);
        bench.instance("burst", 1, |seen| seen.launched = at);
        bench
    };
    launched(2).passes();
    launched(1).breaks(RECOMMENDED, "burst-1 has just come");
    launched(1).with(|bench| bench.cordoned("burst", 1, "move")).passes();
}

#[test]
fn who_is_moved_on_a_recommendation_keeps_the_budgets_of_updates_and_freezes() {
    moving(&[1, 2]).breaks(UNAVAILABLE, "2 nodes of pool burst would be out for updates, 1 may be");
    moving(&[1]).with(|bench| bench.cordoned("burst", 3, "move")).breaks(UNAVAILABLE, "2 nodes");
    let idle = |bench: &mut Bench| bench.standing().pools.get_mut("burst").unwrap().updates.when = When::Idle;
    moving(&[1]).with(idle).breaks(WHEN, "only as its nodes fall free");
    moving(&[2]).with(idle).passes();
    let never = |bench: &mut Bench| {
        let window = r#"{"days": ["Sun"], "from": "02:00", "to": "03:00"}"#;
        let window = serde_json::from_str(window).unwrap();
        bench.standing().pools.get_mut("burst").unwrap().updates.windows = vec![window];
    };
    moving(&[1]).with(never).passes();
    let limit = |bench: &mut Bench| bench.standing().limits.nodes_removed_per_hour = 0;
    moving(&[1]).with(limit).breaks(REMOVALS, "0 may be");
    let frozen = |bench: &mut Bench| {
        bench.input.ledger.head.frozen.push(crate::effect::Freeze {
            scope: Scope::Pool("burst".into()),
            by: "ana".into(),
            at: bench.input.now,
            reason: "incident".into(),
            all: false,
        });
    };
    moving(&[1]).with(frozen).breaks(FROZEN, "ana: incident");
}
