//! What a real Kueue 0.19.2 was seen to do, with the numbers of the experiment.

use super::*;

/// Six batch jobs of 100, pending.
const SIX_WAIT: &str = "
    wait b0 batch - 100 @0
    wait b1 batch - 100 @1
    wait b2 batch - 100 @2
    wait b3 batch - 100 @3
    wait b4 batch - 100 @4
    wait b5 batch - 100 @5";

const ALL_IN: &str = "+b0, +b1, +b2, +b3, +b4, +b5";

/// Lends to six jobs, turns the quota back, and sees what became of the six and of a new job.
#[track_caller]
fn lend_and_take_back(evening: &str, morning: &str, new_job: &str) -> QueueState {
    let mut state = state(evening);
    more(&mut state, SIX_WAIT);
    assert_eq!(settled(&mut state), ALL_IN);
    more(&mut state, morning);
    assert_eq!(settled(&mut state), "", "taking quota back evicts nobody");
    assert_eq!(used(&state, "batch"), 600);
    more(&mut state, "wait new batch - 100 @9");
    assert_eq!(settled(&mut state), new_job);
    state
}

#[test]
fn scheme_a_moves_nominal_and_batch_still_borrows_in_the_morning() {
    lend_and_take_back(
        "queue serve in c: 200; reclaim any
         queue batch in c: 600; reclaim any",
        "queue serve in c: 800; reclaim any
         queue batch in c: 0; reclaim any",
        "+new",
    );
}

#[test]
fn scheme_b_lending_limit_refuses_new_work_and_debits_what_runs() {
    let mut state = lend_and_take_back(
        "queue serve in c: 800 lend 600; reclaim any
         queue batch in c: 0",
        "queue serve in c: 800 lend 0; reclaim any
         queue batch in c: 0",
        "new? ExceedsQuota",
    );
    // Nothing is lent any more and 600 is in use: of its 800 the owner has 200 free, and takes back the rest.
    more(&mut state, "wait s0 serve high 200 @10");
    assert_eq!(settled(&mut state), "+s0, new? ExceedsQuota");
    more(&mut state, "wait s1 serve high 100 @11");
    assert_eq!(settled(&mut state), "-b0 reclaim s1, +s1, b0? ExceedsQuota, new? ExceedsQuota");
}

#[test]
fn scheme_c_borrowing_limit_refuses_new_work() {
    lend_and_take_back(
        "queue serve in c: 800; reclaim any
         queue batch in c: 0 borrow 600",
        "queue serve in c: 800; reclaim any
         queue batch in c: 0 borrow 0",
        "new? ExceedsQuota",
    );
}

#[test]
fn scheme_d_a_queue_cannot_reclaim_quota_of_its_cohort() {
    let mut state = lend_and_take_back(
        "cohort c: 600
         queue serve in c: 200; reclaim any
         queue batch in c: 0",
        "",
        "+new",
    );
    more(&mut state, "run s0 serve high 100 @10");
    // 700 lent of 800 and 100 in use: 200 more would be borrowing.
    more(&mut state, "wait s1 serve high 200 @11");
    assert_eq!(settled(&mut state), "s1? QuotaInUse");
}

#[test]
fn scheme_e_a_held_queue_goes_on_lending() {
    check(
        "queue tide in c: 600; hold
         queue serve in c: 200; reclaim any
         wait s serve - 700 @1
         wait t tide - 100 @1",
        "+s, t? QueueStopped",
    );
}

const SCHEME_F: &str = "
    cohort org:
    cohort night in org: 0 borrow 600
    queue serve in org: 800; reclaim any; within lower
    queue batch in night: 0
    queue other in night: 0";

#[test]
fn scheme_f_a_child_cohort_caps_all_its_queues_together() {
    let mut state = lend_and_take_back(SCHEME_F, "cohort night in org: 0 borrow 0", "new? ExceedsQuota");
    state.workloads.remove("b0");
    state.parked.clear();
    assert_eq!(settled(&mut state), "new? ExceedsQuota", "also after one of them ended");
    more(&mut state, "wait s0 serve high 400 @20");
    assert_eq!(settled(&mut state), "-b1 reclaim s0, +s0, b1? ExceedsQuota, new? ExceedsQuota");
}

#[test]
fn scheme_f_the_cap_is_shared() {
    check(
        &format!("{SCHEME_F}\nwait a batch - 400 @1\nwait b other - 300 @2\nwait c other - 200 @3"),
        "+a, +c, b? QuotaInUse",
    );
}

#[test]
fn reclaiming_300_of_600_lent_evicts_one_of_100() {
    let six = SIX_WAIT.replace("wait", "run");
    check(&format!("{SCHEME_F}\n{six}\nwait s0 serve high 300 @9"), "-b5 reclaim s0, +s0, b5? QuotaInUse");
}

#[test]
fn six_reclaims_go_one_after_the_other() {
    let six = SIX_WAIT.replace("wait", "run");
    let serve: String = (0..8).map(|n| format!("wait s{n} serve high 100 @{}\n", 10 + n)).collect();
    let decisions = settle(&state(&format!("{SCHEME_F}\n{six}\n{serve}")));
    let mut words = told(&decisions);
    words.retain(|word| !word.contains('?'));
    assert_eq!(
        words.join(", "),
        "+s0, +s1, -b5 reclaim s2, +s2, -b4 reclaim s3, +s3, -b3 reclaim s4, +s4, -b2 reclaim s5, +s5, \
         -b1 reclaim s6, +s6, -b0 reclaim s7, +s7"
    );
    // Before the first victim is gone the second head does not ask for one.
    let first = step(&state(&format!("{SCHEME_F}\n{six}\n{serve}")));
    assert_eq!(first.iter().filter(|one| matches!(one, Decision::Preempt { .. })).count(), 1);
}

#[test]
fn moving_nominal_to_batch_evicts_running_serving() {
    let serve: String = (0..8).map(|n| format!("run s{n} serve high 100 @{n}\n")).collect();
    evicts(
        &format!("queue serve in c: 200\nqueue batch in c: 600; reclaim any\n{serve}{SIX_WAIT}"),
        "-s2 reclaim b5, -s3 reclaim b4, -s4 reclaim b3, -s5 reclaim b2, -s6 reclaim b1, -s7 reclaim b0",
    );
}

#[test]
fn demand_above_all_quota_never_preempts() {
    check(
        "queue serve in c: 800; reclaim any
         queue batch in c: 0
         run b batch low 100 @1
         wait s serve high 900 @2",
        "s? ExceedsQuota",
    );
}

#[test]
fn demand_above_own_nominal_never_preempts() {
    check(
        "queue serve in c: 400; reclaim any; within lower
         queue batch in c: 400
         run b batch low 500 @1
         wait s serve high 500 @2",
        "s? QuotaInUse",
    );
}

// 1.1: the choice of victims, one rule at a time.

#[test]
fn other_queues_go_before_the_own_even_at_higher_priority() {
    evicts(
        "queue serve in c: 800; reclaim any; within lower
         queue batch in c: 0
         run own serve low 600 @1
         run far batch high 200 @1
         wait s serve high 200 @2",
        "-far reclaim s",
    );
}

#[test]
fn lower_priority_goes_first_however_much_a_queue_borrows() {
    evicts(
        "queue serve in c: 500; reclaim any
         queue much in c: 0
         queue little in c: 0
         run m much mid 400 @9
         run l little low 100 @1
         wait s serve - 100 @10",
        "-l reclaim s",
    );
}

#[test]
fn the_latest_reservation_goes_first_then_the_smaller_uid() {
    let queues = "queue serve in c: 300; reclaim any\nqueue batch in c: 0\nwait s serve - 100 @10\n";
    evicts(&format!("{queues}run a batch low 100 @1\nrun b batch low 100 @3\nrun c batch low 100 @2"), "-b reclaim s");
    evicts(&format!("{queues}run a batch low 100 @3\nrun b batch low 100 @3\nrun c batch low 100 @2"), "-a reclaim s");
}

#[test]
fn a_queue_within_its_nominal_gives_nothing_more() {
    evicts(
        "queue serve in c: 200; reclaim any
         queue over in c: 100
         queue guest in c: 0
         run x over low 100 @1
         run y over low 100 @2
         run z guest high 100 @1
         wait s serve - 200 @9",
        "-y reclaim s, -z reclaim s",
    );
}

#[test]
fn fill_back_evicts_one_big_gang_instead_of_two_small_ones() {
    evicts(
        "queue serve in c: 600; reclaim any
         queue batch in c: 0
         run a batch low 100 @1
         run b batch low 100 @2
         run m batch mid 400 @1
         wait s serve - 400 @9",
        "-m reclaim s",
    );
}

const BORROWING: &str = "
    queue batch in c: 100
    run own serve low 700 @1
    run far batch low 200 @2
    wait s serve high 200 @9";

#[test]
fn above_nominal_it_evicts_its_own_700_rather_than_a_borrower() {
    evicts(&format!("queue serve in c: 800; reclaim any; within lower {BORROWING}"), "-own own s");
}

#[test]
fn with_borrow_within_cohort_it_evicts_the_borrower() {
    evicts(&format!("queue serve in c: 800; reclaim any; within lower; borrowing {BORROWING}"), "-far borrowing s");
    evicts(&format!("queue serve in c: 800; reclaim any; within lower; borrowing below 5 {BORROWING}"), "-own own s");
}

#[test]
fn a_second_flavor_is_tried_before_anybody_is_evicted() {
    check(
        "queue serve in c: 100, spot 100; within lower
         run a serve low 100 @1
         wait s serve high 100 @2",
        "+s",
    );
    check(
        "queue serve in c: 100, spot 100; within lower; stop when preempting
         run a serve low 100 @1
         wait s serve high 100 @2",
        "-a own s, +s, +a",
    );
}

#[test]
fn borrowing_stops_the_search_for_a_flavor_by_default() {
    let state_of = |option: &str| {
        let mut state = state(&format!(
            "queue serve in c: 100, spot 100{option}
             queue batch in c: 100
             run a serve low 100 @1
             wait s serve high 100 @2"
        ));
        settled(&mut state);
        state.workloads["s"].reservation.as_ref().unwrap().assignment.flavors[GPU].to_string()
    };
    assert_eq!(state_of(""), "big");
    assert_eq!(state_of("; next when borrowing"), "spot");
}

#[test]
fn a_queue_may_rather_preempt_than_borrow() {
    let text = "
        queue batch in c: 0, spot 100
        run a serve low 100 @1
        wait s serve high 100 @2\n";
    check(&format!("{text} queue serve in c: 100, spot 0; within lower; next when borrowing"), "+s");
    let rather = "queue serve in c: 100, spot 0; within lower; next when borrowing; preempt rather than borrow";
    check(&format!("{text} {rather}"), "-a own s, +s, +a");
}

#[test]
fn a_release_wakes_what_was_put_aside() {
    let mut state = state("queue q: 100\nrun a q - 100 @0\nwait b q - 100 @2");
    assert_eq!(settled(&mut state), "b? QuotaInUse");
    state.workloads.get_mut("a").unwrap().active = false;
    apply(&mut state, &Decision::Release { workload: "a".into() });
    assert_eq!(settled(&mut state), "+b, a? Inactive");
}

// 6: priority.

#[test]
fn equal_priority_preempts_only_if_older_and_allowed() {
    let full = "run b serve mid 100 @5\nwait p serve mid 100";
    evicts(&format!("queue serve: 100; within lower\n{full} @1"), "");
    evicts(&format!("queue serve: 100; within newer\n{full} @1"), "-b own p");
    evicts(&format!("queue serve: 100; within newer\n{full} @5"), "");
    evicts(&format!("queue serve: 100; within newer\n{full} @9"), "");
}

#[test]
fn a_preempted_workload_keeps_its_place() {
    let mut state = state(
        "queue serve: 100; within lower
         run j0 serve low 100 @1
         wait j1 serve low 100 @2
         wait p serve high 100 @3",
    );
    assert_eq!(settled(&mut state), "-j0 own p, +p, j0? QuotaInUse, j1? QuotaInUse");
    state.workloads.remove("p");
    state.parked.clear();
    assert_eq!(settled(&mut state), "+j0, j1? QuotaInUse");
}

#[test]
fn a_raised_priority_preempts_and_a_lowered_one_is_preempted() {
    check(
        "queue q: 200; within lower
         run j0 q - 100 @0
         run j1 q - 100 @1
         wait j2 q - 100 @2
         wait j3 q 5000 100 @3",
        "-j1 own j3, +j3, j1? QuotaInUse, j2? QuotaInUse",
    );
    check(
        "queue q: 100; within lower
         run j0 q low 100 @0
         wait j1 q mid 100 @1",
        "-j0 own j1, +j1, j0? QuotaInUse",
    );
}

// 2: stop policies and the flag.

#[test]
fn drained_and_deactivated_work_goes_and_the_next_comes_in() {
    check(
        "queue q: 200; drain\nrun j0 q - 100 @0\nwait j2 q - 100 @2",
        "-j0 QueueDrained, j0? QueueStopped, j2? QueueStopped",
    );
    check("queue q: 200; hold\nrun j0 q - 100 @0\nwait j2 q - 100 @2", "j2? QueueStopped");
    let mut state = state("queue q: 100\nrun j0 q - 100 @0\nwait j2 q - 100 @2");
    state.workloads.get_mut("j0").unwrap().active = false;
    assert_eq!(settled(&mut state), "-j0 Deactivated, +j2, j0? Inactive");
}

#[test]
fn nobody_preempts_in_a_held_queue() {
    check(
        "queue serve in c: 100; reclaim any
         queue batch in c: 0; hold
         run b batch low 100 @1
         wait s serve high 100 @2",
        "s? QuotaInUse",
    );
}

#[test]
fn a_strict_queue_waits_for_its_head() {
    let text = "wait a q - 300 @1\nwait b q - 100 @2";
    check(&format!("queue q: 200\n{text}"), "+b, a? ExceedsQuota");
    check(&format!("queue q: 200; strict\n{text}"), "a? ExceedsQuota, b? BehindHead");
}

// 4: changes to objects in use.

#[test]
fn a_removed_flavor_is_forgotten_and_a_moved_queue_counts_where_it_is() {
    check("queue q: new 200\nrun a q - 100 @1 big\nwait b q - 200 @2", "+b");
    check("queue q: new 200, big 0\nrun a q - 100 @1 big\nwait b q - 200 @2", "+b");
    check(
        "queue owner in old: 200
         queue moved in other: 0
         queue its in other: 50; reclaim any
         run a moved - 100 @1
         wait b owner - 200 @2
         wait c its - 50 @2",
        "+b, -a reclaim c, +c, a? ExceedsQuota",
    );
}

#[test]
fn cohorts_in_a_cycle_stop_their_queues() {
    check("cohort a in b:\ncohort b in a:\nqueue q in a: 100\nwait w q - 10 @1", "w? QueueStopped");
}

#[test]
fn what_no_flavor_covers_waits() {
    let mut state = state("queue q: 100\nwait w q - 10 @1\nwait x nowhere - 10 @1");
    state.workloads.get_mut("w").unwrap().requests.insert("cpu".into(), 1);
    assert_eq!(settled(&mut state), "w? NoFlavor, x? NoSuchQueue");
}
