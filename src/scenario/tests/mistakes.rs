//! Each known mistake is made, and caught; without it the same story ends well.

mod campaign;

use std::path::Path;

use super::*;
use crate::mistakes::{Mistake, making};

/// Runs lines of a script in a world that may have begun.
pub(super) fn play(bench: &mut Option<Bench>, text: &str) -> Result<(), String> {
    let script = Script::parse(text).map_err(|error| error.to_string())?;
    for item in &script.items {
        let command = parse::command(item).map_err(|wrong| wrong.what)?;
        step(bench, &command, item, Path::new("."), None).map_err(|wrong| format!("{}: {}", item.text, wrong.what))?;
    }
    Ok(())
}

/// A script in two parts.
struct Story<'a> {
    before: &'a str,
    after: &'a str,
}

impl Story<'_> {
    fn run(&self) -> Result<(), String> {
        let mut bench = None;
        play(&mut bench, self.before)?;
        play(&mut bench, self.after)
    }

    /// Caught by something that says this, with the judge and while it sleeps; and without the mistake all is well.
    fn catches(&self, mistake: Mistake, judge: &str, world: &str) {
        assert!(!world.is_empty(), "{mistake:?}: who catches it?");
        let asleep = self.is_caught(mistake, judge);
        assert!(asleep.contains(world), "{mistake:?} while the judge sleeps: {asleep}");
    }

    /// Caught by the judge alone: while it sleeps, nothing bad comes of it here.
    fn only_the_judge_catches(&self, mistake: Mistake, judge: &str) {
        assert_eq!(self.is_caught(mistake, judge), "", "{mistake:?} while the judge sleeps");
    }

    /// What is said while the judge sleeps.
    fn is_caught(&self, mistake: Mistake, judge: &str) -> String {
        assert!(!judge.is_empty(), "{mistake:?}: who catches it?");
        assert_eq!(self.run(), Ok(()), "without {mistake:?}");
        let said = |mistakes: &[Mistake]| making(mistakes, || self.run()).err().unwrap_or_default();
        let awake = said(&[mistake]);
        assert!(awake.contains(judge), "{mistake:?}: {awake}");
        said(&[mistake, Mistake::JudgeSleeps])
    }
}

macro_rules! script {
    ($name:literal) => {
        Story { before: include_str!(concat!("../../../tests/scenarios/", $name, ".tw")), after: "" }
    };
}

/// One pool of one node, and three reservations for it, each in a zone of its own.
pub(super) const ONE_NODE: &str = "start 2026-03-02T08:00Z
fleet
  kind: Reservation
  metadata: {name: first}
  spec:
    id: cr-0123456789abcdef0
    manage: observe
    instanceType: p5.48xlarge
    zone: us-west-2a
    nodes: 2
    onDemand: {end: never, match: targeted}
  ---
  kind: Reservation
  metadata: {name: second}
  spec:
    id: cr-0123456789abcdef1
    manage: observe
    instanceType: p5.48xlarge
    zone: us-west-2b
    nodes: 1
    onDemand: {end: never, match: targeted}
  ---
  kind: Reservation
  metadata: {name: third}
  spec:
    id: cr-0123456789abcdef2
    manage: observe
    instanceType: p5.48xlarge
    zone: us-west-2c
    nodes: 1
    onDemand: {end: never, match: targeted}
  ---
  kind: NodePool
  metadata: {name: train}
  spec:
    instanceType: p5.48xlarge
    nodes: 1
    capacity: [{reservation: first}, {reservation: second}, {reservation: third}]
    launch:
      image: {ssmParameter: {name: /images/gpu, version: 1}}
      bootstrap: {nodeadm: {}}
      subnets: {tags: {team: ml}, zones: [us-west-2a, us-west-2b, us-west-2c]}
      securityGroups: {tags: {team: ml}}
      role: node
    updates: {when: drain, maxUnavailable: 1}
";

const LOST_LAUNCH: &str = "advance 2m
fail next launch ambiguous 1 times
apply
lag 5m 3 launches
lose next answer done 2 times
rounds 3
advance 6m
settle
expect launches 1
expect no orphans
";

#[test]
fn a_launch_without_a_token_makes_two_nodes() {
    let story = Story { before: ONE_NODE, after: LOST_LAUNCH };
    story.catches(Mistake::LaunchWithoutToken, "I1", "I1");
}

#[test]
fn a_token_without_the_zone_is_refused() {
    // The first zone says no, and the next one is asked with the same token. EC2 keeps tokens by zone, so that is
    // another request to it; one that keeps them by region would answer with a mismatch for ever.
    let after =
        "fail next launch no-capacity 1 times\napply\napprove\nsettle\nexpect launches 1\nexpect ready train 1\n";
    let story = Story { before: ONE_NODE, after };
    story.only_the_judge_catches(Mistake::TokenWithoutZone, "token is not that of");
}

#[test]
fn no_answer_is_not_a_no() {
    let story = Story { before: ONE_NODE, after: LOST_LAUNCH };
    story.catches(Mistake::FallbackAfterNoAnswer, "I1", "I1");
}

#[test]
fn a_deleted_file_drains_nothing() {
    script!("deleted_document_is_forgotten").catches(Mistake::DeletedFileDrains, "the judge refuses", "I2");
}

#[test]
fn nothing_is_done_after_a_freeze() {
    script!("frozen_in_the_middle").catches(Mistake::EffectAfterFreeze, "the judge refuses", "I8");
    // The plan is older than the freeze: only whoever carries it out can see it.
    let after = "keep plan\nfreeze incident 4711\napply kept\nexpect launches 0\n";
    let story = Story { before: ONE_NODE, after };
    story.catches(Mistake::EffectAfterFreeze, "I8", "I8");
}

#[test]
fn a_gang_is_not_drained_node_by_node() {
    script!("drain_takes_whole_gangs").catches(Mistake::DrainByNode, "the judge refuses", "I6");
}

#[test]
fn what_is_on_a_node_is_listed_again() {
    // The node is cordoned and empty; then comes a pod that the scheduler had bound before.
    let begun = "approve\ncrash at-answer effect 1\napply\nadvance 1m\n";
    let before = format!("{ONE_NODE}settle\nedit \"version: 1\" -> \"version: 2\"\n{begun}");
    let after =
        "keep plan\nsubmit bare web/late on train/0\nadvance 30s\napply kept\nexpect terminations 0\nexpect killed 0\n";
    let story = Story { before: &before, after };
    story.catches(Mistake::ListOnce, "I2", "I2");
}

#[test]
fn a_plan_that_is_stale_is_not_applied() {
    let meanwhile = "settle\nkill train/0\nadvance 10m\nsettle\nexpect launches 2";
    let after = format!("keep plan\n{meanwhile}\napply kept\nexpect no orphans\nexpect launches 2\n");
    let story = Story { before: ONE_NODE, after: &after };
    story.catches(Mistake::StalePlan, "the ledger does not know it", "the ledger does not know it");
}

#[test]
fn lowered_quota_takes_nothing_back() {
    script!("same_cut_loan_is_reclaimed").catches(Mistake::QuotaThoughtReclaimed, "gang-1", "gang-1");
}

#[test]
fn a_label_that_is_the_same_moves_no_mig_manager() {
    let layouts = "    layout: whole
  ---
  kind: GpuLayout
  metadata: {name: halves}
  spec: {mig: [{slices: {3g.40gb: 2}}]}
settle
mig fail train/0
edit \"layout: whole\" -> \"layout: halves\"
approve
apply
advance 3h
settle
";
    let before = format!("{ONE_NODE}{layouts}");
    let after = "expect train/0 shows 16 nvidia.com/mig-3g.40gb\nexpect reboots 0\nexpect terminations 0\n";
    let story = Story { before: &before, after };
    story.catches(Mistake::LabelRewritten, "I11", "I11");
}

#[test]
fn what_one_read_does_not_show_is_not_gone() {
    // Whoever carries it out looks again, and sees them: two lines of defence.
    let script = script!("hidden_instances_freeze_deletion");
    script.only_the_judge_catches(Mistake::DeleteOnEmptyRead, "which is not seen gone");
    // The second look is as blind as the first.
    let before = format!("{ONE_NODE}settle\nadvance 1h\n");
    let after = "hide instances 20 reads\nhide nodes 20 reads\nrounds 4\nexpect no orphans\nexpect launches 1\n";
    let story = Story { before: &before, after };
    story.catches(Mistake::DeleteOnEmptyRead, "which is not seen gone", "I1");
}

#[test]
fn a_pod_with_two_budgets_is_not_evicted() {
    script!("two_budgets_on_a_pod").catches(
        Mistake::TwoBudgets,
        "2 disruption budgets select",
        "something held with `more than one",
    );
}
