//! Fair sharing, with the numbers of the experiments, and trees of cohorts.

use super::*;

/// `a` holds 600 lent GPUs in six jobs, `b` asks for `n` jobs of 100.
fn two_borrowers(mode: &str, a: &str, b: &str, n: i64) -> QueueState {
    let mut text = format!(
        "{mode}
         queue owner in c: 600
         queue a in c: 0; reclaim any; within lower{a}
         queue b in c: 0; reclaim any; within lower{b}\n"
    );
    for at in 0..6 {
        text += &format!("run a{at} a mid 100 @{at}\n");
    }
    for at in 0..n {
        text += &format!("wait b{at} b mid 100 @{}\n", 10 + at);
    }
    state(&text)
}

fn out_of(state: &QueueState) -> Vec<String> {
    let mut words = told(&settle(state));
    words.retain(|word| word.starts_with('-'));
    words
}

#[test]
fn without_fair_sharing_a_borrower_keeps_all() {
    assert!(out_of(&two_borrowers("", "", "; weight 2", 4)).is_empty());
}

#[test]
fn equal_weights_end_at_300_and_300() {
    let mut state = two_borrowers("fair", "", "", 4);
    assert_eq!(out_of(&state), ["-a5 fair b0", "-a4 fair b1", "-a3 fair b2"]);
    settled(&mut state);
    assert_eq!((used(&state, "a"), used(&state, "b")), (300, 300));
}

#[test]
fn weights_one_to_two_end_at_200_and_400() {
    let mut state = two_borrowers("fair", "", "; weight 2", 6);
    settled(&mut state);
    assert_eq!((used(&state, "a"), used(&state, "b")), (200, 400));
}

const OWNER_RECLAIMS: &str = "
    queue owner in c: 600; reclaim any
    queue b in c: 0
    run a0 a mid 100 @0
    run a1 a mid 100 @1
    run a2 a mid 100 @2
    run a3 a mid 100 @3
    run b0 b low 100 @5
    run b1 b low 100 @6
    wait o owner - 200 @9\n";

#[test]
fn the_owner_takes_from_the_largest_share_not_from_the_lowest_priority() {
    evicts(&format!("{OWNER_RECLAIMS} queue a in c: 0"), "-b0 reclaim o, -b1 reclaim o");
    evicts(&format!("fair\n{OWNER_RECLAIMS} queue a in c: 0"), "-a2 reclaim o, -a3 reclaim o");
    evicts(&format!("fair\n{OWNER_RECLAIMS} queue a in c: 0; weight 4"), "-b0 reclaim o, -b1 reclaim o");
}

#[test]
fn weight_zero_loses_its_high_job_to_a_low_one() {
    evicts(
        "fair
         queue owner in c: 100
         queue none in c: 0; weight 0
         queue some in c: 0; reclaim any
         run n none high 100 @1
         wait s some low 100 @2",
        "-n fair s",
    );
}

#[test]
fn it_may_preempt_while_borrowing_where_classical_mode_may_not() {
    let text = "
        queue owner in c: 300
        queue a in c: 100
        queue b in c: 100; reclaim any
        run a0 a low 100 @1
        run a1 a low 100 @2
        run a2 a low 100 @3
        run a3 a low 100 @4
        wait b0 b low 200 @5";
    evicts(text, "");
    evicts(&format!("fair\n{text}"), "-a3 fair b0");
}

#[test]
fn the_second_rule_helps_where_the_first_does_not() {
    // A job of 300 against one of 400: taking it leaves its queue poorer than the newcomer, but it was the richer one.
    let text = "
        queue owner in c: 400
        queue a in c: 0
        queue b in c: 0; reclaim any
        run a0 a low 400 @1
        wait b0 b low 300 @5";
    evicts(&format!("fair final\n{text}"), "");
    evicts(&format!("fair\n{text}"), "-a0 fair b0");
    evicts(&format!("fair initial\n{text}"), "-a0 fair b0");
}

#[test]
fn shares_are_compared_where_the_branches_meet() {
    // Inside `left` the queue `l1` is the richest of all, but the right side as a whole borrows more.
    let text = "
        cohort org: 900
        cohort left in org:
        cohort right in org:
        queue l1 in left: 0
        queue r1 in right: 0
        queue r2 in right: 0
        queue new in org: 0; reclaim any
        run a l1 - 400 @1
        run b r1 - 100 @2
        run c r1 - 150 @3
        run d r2 - 250 @4
        wait n new - 100 @9";
    evicts(&format!("fair\n{text}"), "-d fair n");
}

#[test]
fn heads_are_admitted_by_share_then_priority() {
    // Room for one: the queue that borrows nothing yet goes first although its job has the lower priority.
    check(
        "fair
         queue owner in c: 200
         queue a in c: 0
         queue b in c: 0
         run a0 a - 100 @1
         wait a1 a high 100 @2
         wait b1 b low 100 @3",
        "+b1, a1? QuotaInUse",
    );
    check(
        "queue owner in c: 200
         queue a in c: 0
         queue b in c: 0
         run a0 a - 100 @1
         wait a1 a high 100 @2
         wait b1 b low 100 @3",
        "+a1, b1? QuotaInUse",
    );
}

#[test]
fn a_tournament_is_held_in_every_cohort() {
    check(
        "fair
         cohort org: 400
         cohort left in org:
         cohort right in org:
         queue l1 in left: 0
         queue l2 in left: 0
         queue r1 in right: 0
         run x l2 - 200 @1
         run y r1 - 100 @1
         wait a l1 high 100 @2
         wait b r1 low 100 @3",
        "+b, a? QuotaInUse",
    );
}

#[test]
fn a_state_that_goes_round_for_ever_is_given_up() {
    // While `low` counts as a victim its queue looks poor enough to take `back`. Then `low` is put back, `want` would
    // be the richer one, and `back` comes in again before it. Kueue itself does not stop here.
    check(
        "fair
         cohort c: 200
         queue a in c: 200; reclaim any; weight 2
         queue b in c: 500 lend 100; reclaim lower; within lower
         run x a high 100 @2
         run back a mid 400 @3
         run low b low 300 @2
         run y b high 100 @2
         wait want b high 400 @101",
        "-back fair want, +back, -back fair want, +back, -back fair want, +back, want? Unsettled",
    );
}

#[test]
fn a_head_within_quota_goes_before_a_smaller_share() {
    // `a` borrows much, but not of the flavor it asks for.
    check(
        "fair
         queue owner in c: 100, spot 1000
         queue a in c: 100, spot 0
         queue b in c: 0
         run o owner - 100 @1
         run r a - 500 @1 spot
         wait a1 a low 100 @3
         wait b1 b high 50 @2",
        "+a1, b1? QuotaInUse",
    );
}

#[test]
fn a_queue_beside_a_cohort_goes_first_if_it_is_the_richer() {
    let text = "
        fair
        cohort org: 900
        cohort k in org:
        queue k1 in k: 0
        queue lone in org: 0
        queue new in org: 0; reclaim any
        wait n new - 200 @9\n";
    evicts(&format!("{text} run a k1 - 300 @1\n run b lone - 500 @2"), "-b fair n");
    evicts(&format!("{text} run a k1 - 500 @1\n run b lone - 300 @2"), "-a fair n");
}

/// `keeps` lends nothing and nothing else is there to lend, so that whoever borrows has a share of nothing: zero.
const NOTHING_TO_LEND: &str = "
    fair
    queue keeps in c: 4 lend 0; reclaim any
    wait k keeps - 2 @9\n";

#[test]
fn who_borrows_where_nothing_is_lent_is_a_borrower_all_the_same() {
    let queue = "queue a in c: 0\nrun a0 a mid 2 @0\nrun a1 a mid 2 @1";
    evicts(&format!("{NOTHING_TO_LEND}{queue}"), "-a1 reclaim k");
    let cohort = "cohort night in c\nqueue a in night: 0\nrun a0 a mid 2 @0\nrun a1 a mid 2 @1";
    evicts(&format!("{NOTHING_TO_LEND}{cohort}"), "-a1 reclaim k");
}

#[test]
fn weight_zero_is_no_richer_than_others_as_long_as_its_share_is_zero() {
    let queues = "queue a in c: 0; weight 0\nqueue b in c: 0\nrun a0 a mid 1 @0\nrun b0 b low 1 @1\n";
    let narrow = NOTHING_TO_LEND.replace("k keeps - 2", "k keeps - 3");
    evicts(&format!("{narrow}{queues}"), "-b0 reclaim k");
}
