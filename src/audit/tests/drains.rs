//! What is disturbed or destroyed, and what must come before.

use jiff::SignedDuration;

use super::bench::*;
use super::flows::*;
use crate::effect::marks::{ASKED, Mark};
use crate::effect::*;
use crate::fleet::tier::{Checkpoint, Signal};
use crate::fleet::updates::When;
use crate::ids::*;
use crate::observed::*;
use crate::plan::*;
use crate::units::Duration;

const DRAIN: &str = "drained before";
const GANGS: &str = "whole gangs";
const AGAIN: &str = "listed again";
const SEEN: &str = "only what was seen";
const BUDGETS: &str = "disruption budgets";

#[test]
fn steps_stand_behind_those_that_they_come_after_and_have_ids_of_their_own() {
    const ORDER: &str = "an order";
    replace()
        .edit("settle train/3", |step| step.after.push("gone train/3".into()))
        .breaks(ORDER, "does not stand before");
    replace().edit("settle train/3", |step| step.after.push("nowhere".into())).breaks(ORDER, "is no step");
    replace().edit("settle train/3", |step| step.id = "cordon train/3".into()).breaks_also(ORDER, "two steps");
    replace().edit("cordon train/3", |step| step.after.push(step.id.clone())).breaks(ORDER, "does not stand before");
}

#[test]
fn a_node_is_cordoned_and_seen_empty_before_its_instance_ends() {
    replace().without("cordon train/3").breaks_also(DRAIN, "not cordoned");
    replace()
        .without("empty train/3")
        .edit("terminate train/3", |step| step.requires.clear())
        .edit("terminate train/3", |step| step.after.push("suspend bert".into()))
        .breaks(DRAIN, "looks whether");
    replace().edit("terminate train/3", |step| step.requires.clear()).passes();
    replace().edit("empty train/3", |step| step.after.clear()).breaks(DRAIN, "not cordoned");
    // The order of the list is no order of doing.
    replace().edit("terminate train/3", |step| step.after.clear()).breaks(DRAIN, "no step before it sends it away");
}

#[test]
fn nobody_lifts_the_cordon_under_a_node_that_is_going() {
    let uncordon = cluster(ClusterAction::Uncordon { node: node("train", 3) });
    replace()
        .with(|bench| {
            bench.step("uncordon train/3", uncordon, Reason::Outdated, &["empty train/3"]);
        })
        .breaks(DRAIN, "lifts the cordon");
}

#[test]
fn a_pod_that_no_step_sends_away_keeps_its_node() {
    replace()
        .with(|bench| {
            let uid = bench.pod("stray", ("train", 3));
            bench.find("suspend bert").requires =
                vec![Fact::HoldsOnly { node: node("train", 3), pods: [uid, "uid-bert-0".into()].into() }];
        })
        .breaks(DRAIN, "team/stray is on train-3");
    // What belongs to the node, has ended, or was told to end does not.
    for change in [
        |pod: &mut PodSeen| pod.keeper = Keeper::DaemonSet,
        |pod: &mut PodSeen| pod.phase = PodPhase::Succeeded,
        |pod: &mut PodSeen| pod.terminating = pod.started,
    ] {
        let mut bench = replace();
        bench.pod("stray", ("train", 3));
        bench.pods(|pod| {
            if &*pod.name.name == "stray" {
                change(pod);
            }
        });
        bench.passes();
    }
}

#[test]
fn a_node_is_cut_only_behind_cordon_and_drain() {
    lend().edit("cut serve/0", |step| step.after.clear()).breaks_also(DRAIN, "not cordoned");
    lend()
        .edit("cut serve/0", |step| step.after = vec!["suspend chat".into()])
        .breaks(DRAIN, "looks whether serve-0 is empty");
    lend()
        .edit("uncordon serve/0", |step| step.after = vec!["cordon serve/0".into()])
        .breaks(DRAIN, "lifts the cordon");
}

#[test]
fn an_instance_without_a_node_ends_only_if_the_nodes_were_read_and_it_is_looked_at_again() {
    let ends = || {
        let mut bench = Bench::settled(NOON);
        edit(&mut bench.input.observed.cluster.nodes, |nodes| nodes.remove(&node("train", 3)));
        let sick = Reason::Sick { remedy: crate::fleet::policy::Remedy::Replace, symptom: "never joined".into() };
        let terminate = cloud(CloudAction::Terminate { slot: slot("train", 3), instance: instance("train", 3) });
        let step = bench.step("terminate train/3", terminate, sick, &[]);
        step.effects = one(Verb::Terminate, "train");
        step.requires.push(Fact::Unjoined(instance("train", 3)));
        bench
    };
    ends().passes();
    ends().with(|bench| gap(&mut bench.input.observed.cluster.nodes)).breaks_also(DRAIN, "were not read");
    ends().edit("terminate train/3", |step| step.requires.clear()).breaks(DRAIN, "looks again whether");
}

#[test]
fn a_node_that_is_silent_for_good_may_go_with_pods_that_had_their_time() {
    let dead = |minutes: i64, secs: i64| {
        let mut bench = Bench::settled(NOON);
        bench.pod("stuck", ("train", 3));
        let since = bench.input.now - SignedDuration::from_secs(secs);
        bench.pods(|pod| pod.terminating = Some(since));
        let silent = bench.input.now - SignedDuration::from_mins(minutes);
        bench.node("train", 3, |node| (node.ready, node.unready_since) = (false, Some(silent)));
        bench.cordoned("train", 3, "replace");
        let sick = Reason::Sick { remedy: crate::fleet::policy::Remedy::Replace, symptom: "not ready".into() };
        let terminate = cloud(CloudAction::Terminate { slot: slot("train", 3), instance: instance("train", 3) });
        let step = bench.step("terminate train/3", terminate, sick, &[]);
        step.effects = one(Verb::Terminate, "train");
        step.requires.push(Fact::GivenUp(node("train", 3)));
        bench
    };
    dead(10, 60).passes();
    // How much time the pods still have is looked at just before.
    dead(10, 20).passes();
    dead(10, 60).edit("terminate train/3", |step| step.requires.clear()).breaks(DRAIN, "looks whether");
    dead(9, 60).breaks(DRAIN, "looks whether");
    let mut answers = dead(10, 60);
    answers.node("train", 3, |node| node.ready = true);
    answers.breaks(DRAIN, "looks whether");
    // A machine that is only booted is the same afterwards.
    let boots = |step: &mut Step| {
        step.action = cloud(CloudAction::Reboot { slot: slot("train", 3), instance: instance("train", 3) });
        step.effects = one(Verb::Reboot, "train");
    };
    dead(10, 60).edit("terminate train/3", boots).breaks(DRAIN, "looks whether");
}

#[test]
fn a_deadline_is_believed_only_if_the_world_says_it_too() {
    let terminate = |at: SignedDuration, noticed: bool| {
        let mut bench = Bench::settled(NOON);
        let at = bench.input.now + at;
        if noticed {
            bench.instance("burst", 1, |seen| seen.notice = Some(Notice { why: NoticeKind::SpotInterruption, at }));
        }
        bench.cordoned("burst", 1, "notice");
        let reason = Reason::Notice { why: NoticeKind::SpotInterruption, at };
        let terminate = cloud(CloudAction::Terminate { slot: slot("burst", 1), instance: instance("burst", 1) });
        bench.step("terminate burst/1", terminate, reason, &[]).effects = one(Verb::Terminate, "burst");
        bench
    };
    terminate(SignedDuration::ZERO, true).passes();
    terminate(SignedDuration::ZERO, false).breaks(DRAIN, "looks whether");
    terminate(SignedDuration::from_secs(60), true).breaks(DRAIN, "looks whether");
    let later = SignedDuration::from_secs(60);
    let mut waits = terminate(later, true);
    let until = waits.input.now + later;
    waits.find("terminate burst/1").requires.push(Fact::After(until));
    waits.passes();
}

#[test]
fn a_gang_goes_as_a_whole() {
    let mut bench = Bench::settled(NOON);
    bench.gang("bert", "vision", "research", &[("train", 3), ("train", 4)]);
    bench.drain("train", 3, "replace", &Reason::Outdated, &[]);
    let evict =
        ClusterAction::Evict { pods: vec![(NamespacedName::new("team", "bert-0"), "uid-bert-0".into())], force: false };
    let step = bench.step("evict", cluster(evict), Reason::Outdated, &["settle train/3"]);
    step.requires = vec![Fact::HoldsOnly { node: node("train", 3), pods: ["uid-bert-0".into()].into() }];
    step.effects = disturbs("train", "vision", 200);
    bench.breaks(GANGS, "team/bert-1 of gang bert stays");
    // A gang of several workloads.
    let mut bench = replace();
    bench.gang("bert-head", "vision", "research", &[("train", 5)]);
    bench.pods(|pod| pod.gang = Some(GangName("bert".into())));
    bench.breaks(GANGS, "team/bert-head-0 of gang bert stays");
}

#[test]
fn the_node_is_listed_again_before_work_is_disturbed() {
    replace().edit("suspend bert", |step| step.requires.clear()).breaks(AGAIN, "no fresh list");
    // Of the node that is being emptied, not of another.
    replace()
        .edit("suspend bert", |step| {
            step.requires = vec![Fact::HoldsOnly { node: node("train", 4), pods: ["uid-bert-1".into()].into() }];
        })
        .breaks(AGAIN, "train-3, which is being emptied");
    // And nothing is expected there that nobody saw.
    replace()
        .edit("suspend bert", |step| {
            step.requires =
                vec![Fact::HoldsOnly { node: node("train", 3), pods: ["uid-bert-0".into(), "who".into()].into() }];
        })
        .breaks(AGAIN, "it expects who");
}

fn evicting(force: bool, now: &str) -> Bench {
    let mut bench = returning(now).without("suspend sweep");
    bench.pod("web", ("serve", 0));
    let names = [("web", "serve"), ("sweep-0", "serve"), ("sweep-1", "serve")];
    let pods =
        names.map(|(name, _)| (NamespacedName::new("team", name), format!("uid-{name}").as_str().into())).to_vec();
    let reason = bench.find("cordon serve/0").reason.clone();
    let step = bench.step("evict", cluster(ClusterAction::Evict { pods, force }), reason, &["settle serve/0"]);
    let pods = ["uid-web".into(), "uid-sweep-0".into()].into();
    step.requires = vec![Fact::HoldsOnly { node: node("serve", 0), pods }];
    step.effects = disturbs("serve", "night", 100);
    step.consent = Consent::Standing;
    let evict = bench.plan.steps.pop().unwrap();
    bench.plan.steps.insert(2, evict);
    bench.find("empty serve/0").after.push("evict".into());
    bench
}

#[test]
fn pods_are_evicted_by_the_uid_that_was_seen_and_by_force_only_past_the_deadline() {
    evicting(false, RECLAIM).passes();
    evicting(true, HARD).passes();
    evicting(true, RECLAIM).breaks(SEEN, "no declared deadline has passed");
    let until = crate::fleet::testing::at("2026-06-09T06:20-07:00");
    evicting(true, RECLAIM).edit("evict", |step| step.requires.push(Fact::After(until))).passes();
    let another = |step: &mut Step| {
        if let Action::Cluster(ClusterAction::Evict { pods, .. }) = &mut step.action {
            pods[0].1 = "another".into();
        }
    };
    evicting(false, RECLAIM).edit("evict", another).breaks_also(SEEN, "team/web was not seen");
    let daemon = |bench: &mut Bench| {
        bench.pods(|pod| {
            if &*pod.name.name == "web" {
                pod.keeper = Keeper::DaemonSet;
            }
        });
        bench.find("evict").requires =
            vec![Fact::HoldsOnly { node: node("serve", 0), pods: ["uid-sweep-0".into()].into() }];
    };
    evicting(false, RECLAIM).with(daemon).breaks(SEEN, "belongs to its node");
    replace()
        .with(|bench| edit(&mut bench.input.observed.cluster.workloads, |all| all.clear()))
        .breaks_also(SEEN, "workload bert was not seen");
}

#[test]
fn a_disruption_budget_gives_no_more_than_it_allows() {
    let with = |allowed: i32, budgets: &[&str], change: fn(&mut PodSeen)| {
        let mut bench = evicting(false, RECLAIM);
        let budgets: Vec<NamespacedName> = budgets.iter().map(|name| NamespacedName::new("team", name)).collect();
        let seen = BudgetSeen { allowed, healthy: 3, desired: 2, expected: 3, always_allow: false };
        edit(&mut bench.input.observed.cluster.budgets, |all| {
            all.extend(budgets.iter().map(|name| (name.clone(), seen.clone())));
        });
        bench.pods(|pod| {
            pod.budgets = budgets.clone();
            change(pod);
        });
        bench
    };
    with(3, &["a"], |_| ()).passes();
    with(2, &["a"], |_| ()).breaks(BUDGETS, "allows 2 evictions now, and 3");
    with(-1, &["a"], |_| ()).breaks(BUDGETS, "allows 0");
    with(9, &["a", "b"], |_| ()).breaks(BUDGETS, "2 disruption budgets select");
    // The API server asks no budget for these.
    with(0, &["a"], |pod| pod.phase = PodPhase::Pending).passes();
    with(0, &["a"], |pod| pod.ready = false).passes();
    with(3, &["a"], |_| ())
        .with(|bench| edit(&mut bench.input.observed.cluster.budgets, |all| all.clear()))
        .breaks(BUDGETS, "allows 0");
}

#[test]
fn only_what_we_suspended_is_resumed_and_only_once_it_is_gone() {
    const RESUME: &str = "is resumed";
    replace().edit("resume bert", |step| step.after = vec!["suspend bert".into()]).breaks(RESUME, "not seen gone");
    replace().edit("resume bert", |step| step.after.clear()).breaks_also(RESUME, "not seen gone");
    let mut bench = Bench::settled(NOON);
    bench.gang("bert", "vision", "research", &[("train", 3)]);
    bench.workload("bert", |workload| workload.active = false);
    let resume = cluster(ClusterAction::Resume { workload: "bert".into() });
    bench.step("resume bert", resume, Reason::LeftOver, &[]);
    bench.breaks(RESUME, "does not carry our mark");
}

#[test]
fn a_tide_disturbs_only_the_borrowers_work() {
    const TIDE: &str = "a tide takes only";
    let other = |bench: &mut Bench| {
        bench.workload("sweep", |workload| workload.queue = "vision".into());
        bench.find("suspend sweep").effects = disturbs("serve", "vision", 100);
    };
    returning(RECLAIM).with(other).breaks(TIDE, "queue vision");
    // The lender's own work goes with a node that is cut anew, and only then.
    let lender = |bench: &mut Bench| {
        bench.workload("sweep", |workload| workload.queue = "serving".into());
        bench.find("suspend sweep").effects = disturbs("serve", "serving", 100);
    };
    returning(RECLAIM).with(lender).breaks(TIDE, "queue serving");
    lend().passes();
}

#[test]
fn work_runs_as_long_as_its_tier_promises() {
    const RUNTIME: &str = "tier promises";
    let promise = |bench: &mut Bench, tier: &str| {
        bench.standing().tiers.get_mut(tier).unwrap().minimum_runtime = Duration::hours(30);
    };
    replace().with(|bench| promise(bench, "research")).breaks(RUNTIME, "promised to run until");
    returning(RECLAIM).with(|bench| promise(bench, "batch")).breaks(RUNTIME, "promised to run until");
    returning(HARD).with(|bench| promise(bench, "batch")).passes();
    // The tide has turned: its hard time is over too.
    returning(NOON).with(|bench| promise(bench, "batch")).passes();
    let mut sick = replace().with(|bench| promise(bench, "research"));
    let reason = Reason::Sick { remedy: crate::fleet::policy::Remedy::Replace, symptom: "Xid 79".into() };
    sick.plan.steps.iter_mut().for_each(|step| step.reason = reason.clone());
    sick.passes();
}

#[test]
fn work_is_asked_to_save_itself_before_it_goes() {
    const SAVE: &str = "asked to save";
    let asks = || {
        let mut bench = replace();
        let checkpoint = Checkpoint { deadline: Duration::minutes(10), signal: Signal::Annotation };
        bench.standing().tiers.get_mut("research").unwrap().checkpoint = Some(checkpoint);
        bench
    };
    asks().breaks(SAVE, "was not asked");
    let now = asks().input.now;
    let saved = Fact::Saved { workload: "bert".into(), within_secs: 600, hard_at: None };
    asks().edit("suspend bert", |step| step.requires.push(saved)).passes();
    let asked = |minutes: i64| {
        asks().with(|bench| {
            let mark = Mark::new(now - SignedDuration::from_mins(minutes), "replace");
            bench.workload("bert", |workload| drop(workload.marks.insert(ASKED.into(), mark.text())));
        })
    };
    asked(11).passes();
    asked(5).breaks(SAVE, "did not answer");
    asked(5).with(|bench| bench.workload("bert", |workload| workload.saved = Some(now))).passes();
}

#[test]
fn a_gang_beside_the_queues_is_asked_to_save_itself_too() {
    let asks = || {
        evicting(false, RECLAIM).with(|bench| {
            let tier = bench.standing().tiers.get_mut("research").unwrap();
            tier.checkpoint = Some(Checkpoint { deadline: Duration::minutes(10), signal: Signal::Annotation });
            let rank = tier.rank;
            bench.pods(|pod| {
                if &*pod.name.name == "web" {
                    (pod.gang, pod.priority) = (Some(GangName("set".into())), rank);
                }
            });
        })
    };
    asks().breaks("asked to save", "set was not asked");
    let (gang, nodes, since) = (GangName("set".into()), [node("serve", 0)].into(), asks().input.now);
    let saved = Fact::PodsSaved { gang, nodes, since, within_secs: 600, hard_at: None };
    asks().edit("evict", |step| step.requires.push(saved)).passes();
}

#[test]
fn updates_disturb_work_only_where_the_pool_lets_them() {
    const WHEN: &str = "`when` and the windows";
    let updates = |bench: &mut Bench, change: fn(&mut crate::fleet::updates::Updates)| {
        change(&mut bench.standing().pools.get_mut("train").unwrap().updates);
    };
    replace().with(|bench| updates(bench, |updates| updates.when = When::Idle)).breaks(WHEN, "fall free");
    let window = r#"{"days": ["Mon-Fri"], "from": "10:00", "to": "16:00"}"#;
    let closed = r#"{"days": ["Sat"], "from": "10:00", "to": "16:00"}"#;
    for (window, open) in [(window, true), (closed, false)] {
        let mut bench = replace();
        let windows = vec![serde_json::from_str(window).unwrap()];
        bench.standing().pools.get_mut("train").unwrap().updates.windows = windows;
        if open { bench.passes() } else { bench.breaks(WHEN, "no window") }
    }
}

#[test]
fn only_what_may_be_smaller_is_made_smaller_and_only_for_a_tide() {
    const SMALLER: &str = "only what may be smaller";
    let back = || Reason::Returning { tide: "nightly".into(), due: crate::fleet::testing::at(NOON) };
    let bench = |fewest: Option<u32>, pods: u32, reason: Reason| {
        let mut bench = Bench::settled(NOON);
        bench.gang("bert", "vision", "research", &[("train", 3), ("train", 4)]);
        bench.workload("bert", |workload| workload.fewest = fewest);
        let action = ClusterAction::Shrink { workload: "bert".into(), pods };
        bench.step("shrink bert", Action::Cluster(action), reason, &[]);
        bench
    };
    bench(Some(1), 1, back()).passes();
    bench(None, 1, back()).breaks(SMALLER, "all its pods or not at all");
    bench(Some(2), 1, back()).breaks(SMALLER, "needs 2 pods");
    bench(Some(1), 2, back()).breaks(SMALLER, "not fewer");
    bench(Some(1), 1, Reason::Outdated).breaks(SMALLER, "no tide asks for it");
}
