//! Cohorts inside cohorts, classical mode.

use super::*;

#[test]
fn quota_of_the_own_cohort_comes_back_from_outside_whatever_the_priority() {
    let text = "
        cohort team in org: 200
        queue q in team: 0; reclaim any
        queue guest in org: 0
        run g guest high 200 @1
        wait new q low 200 @2";
    evicts(text, "-g reclaim new");
    // Its own cohort is no place to take from: there it would borrow like everybody.
    evicts(&text.replace("guest in org", "guest in team"), "");
}

#[test]
fn who_is_within_its_nominal_stays_though_its_priority_is_lower() {
    evicts(
        "cohort team in org: 200
         queue q in team: 0; reclaim any
         queue guest in org: 0
         queue home in org: 200
         run h home -10 200 @1
         run g guest - 200 @1
         wait new q - 200 @2",
        "-g reclaim new",
    );
}

#[test]
fn the_weaker_claim_goes_before_the_lower_priority() {
    // The guest stands further from the quota than the neighbour, who alone could not be reclaimed from.
    let text = "
        cohort team in org: 200
        queue q in team: 0; reclaim any; borrowing
        queue near in team: 0
        queue guest in org: 0
        run n near low 100 @1
        run g guest mid 100 @1
        wait new q high 100 @2";
    evicts(text, "-g reclaim new");
}

#[test]
fn inside_the_cohort_the_threshold_decides_and_own_work_fills_the_rest() {
    evicts(
        "cohort org:
         cohort team in org: 300
         queue q in team: 0; reclaim any; within lower; borrowing below -
         queue near in team: 0
         run keep near 1 100 @1
         run out near - 100 @1
         run own q -1 100 @1
         wait new q 1 200 @2",
        "-out borrowing new, -own own new",
    );
}

#[test]
fn a_cohort_back_within_its_quota_gives_nothing_more() {
    evicts(
        "cohort k in org: 100
         queue k1 in k: 0
         queue k2 in k: 0
         queue guest in org: 0
         queue owner in org: 200; reclaim any
         run a k1 low 100 @1
         run b k2 low 100 @2
         run c guest high 100 @1
         wait s owner - 200 @9",
        "-b reclaim s, -c reclaim s",
    );
}

#[test]
fn a_cohort_lends_no_more_than_its_limit_and_takes_it_back() {
    let west = "
        cohort west in org: 0 lend 100
        queue w in west: 300; reclaim any
        queue east in org: 0\n";
    check(&format!("{west} wait e1 east - 150 @1\n wait e2 east - 100 @2"), "+e2, e1? ExceedsQuota");
    check(
        &format!("{west} run e2 east high 100 @2\n wait w1 w low 200 @3\n wait w2 w low 100 @4"),
        "+w1, -e2 reclaim w2, +w2, e2? QuotaInUse",
    );
}

#[test]
fn who_finds_quota_nearer_goes_first() {
    // Room for one more in the whole tree: it is the team's own, so the team's job takes it from the higher priority.
    check(
        "cohort team in org: 100
         queue q in team: 0
         queue other in org: 0
         wait far other high 100 @1
         wait near q low 100 @2",
        "+near, far? QuotaInUse",
    );
}

#[test]
fn a_head_without_victims_keeps_its_room_for_a_cycle_only() {
    // `big` waits for 300 and may not reclaim. In its cycle nobody else gets the free 100; then it is put aside.
    check(
        "queue a in c: 300
         queue b in c: 0
         run x b low 200 @1
         wait big a high 300 @2
         wait small b low 100 @3",
        "+small, big? QuotaInUse",
    );
    // A strict queue keeps asking, so the small one waits with it.
    check(
        "queue a in c: 300; strict
         queue b in c: 0
         run x b low 200 @1
         wait big a high 300 @2
         wait small b low 100 @3",
        "big? QuotaInUse, small? QuotaInUse",
    );
    // Who can always reclaim lets others have it meanwhile.
    check(
        "queue a in c: 300; strict; reclaim any
         queue b in c: 0; hold
         queue d in c: 0
         run x b low 200 @1
         wait big a high 300 @2
         wait small d low 100 @3",
        "+small, big? QuotaInUse",
    );
}

#[test]
fn two_heads_that_want_the_same_victim_take_turns() {
    let text = "
        queue a in c: 100; reclaim any
        queue b in c: 100; reclaim any
        queue guest in c: 0
        run g guest low 200 @1
        wait a1 a high 100 @2
        wait b1 b high 100 @3";
    let first = told(&step(&state(text)));
    assert_eq!(first, ["-g reclaim a1", "a1? PendingPreemption", "b1? QuotaInUse"]);
    check(text, "-g reclaim a1, +a1, +b1, g? QuotaInUse");
}

#[test]
fn the_preemptor_keeps_its_turn_before_those_its_victims_wake() {
    // `first` is older and higher but too big; the room that `second` made is not its.
    let text = "
        queue a in c: 200; reclaim any
        queue guest in c: 100
        run own a high 100 @1
        run g guest low 200 @1
        wait first a high 200 @2
        wait second a mid 100 @3";
    check(text, "-g reclaim second, +second, first? QuotaInUse, g? QuotaInUse");
}
