//! Every script of `tests/scenarios/`, one test a file: it must print what it holds, and break nothing.
//!
//! `UPDATE=1 cargo test --test suite scenarios` writes what was printed into the scripts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidewright::scenario;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn check(name: &str) {
    let path = directory().join(format!("{name}.tw"));
    let text = std::fs::read_to_string(&path).unwrap();
    let done = scenario::run(&text, &directory()).unwrap_or_else(|error| {
        let last: Vec<&str> = error.so_far.lines().rev().take(12).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        panic!("{name}.tw, {error}\n\nbefore that:\n{}\n", last.join("\n"));
    });
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &done.text).unwrap();
        return;
    }
    let differences: Vec<String> = done.differences.iter().map(ToString::to_string).collect();
    assert!(differences.is_empty(), "{name}.tw\n{}\n\nUPDATE=1 writes them down", differences.join("\n"));
}

/// A script's name is the name of its file, and no sentence.
macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[core::prelude::v1::test] fn $name() { check(stringify!($name)); })*
        const ALL: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    ambiguous_launch_is_sent_again
    block_ends_while_nobody_looks
    block_is_bought_filled_and_drained
    breaker_stops_mass_quarantine
    budget_lets_one_go_at_a_time
    budget_that_blocks_keeps_the_quota
    canary_and_windows
    capacity_error_falls_back
    claimed_node_disappears
    claimed_node_of_a_mixed_pool_disappears
    converged_means_that_the_gpus_are_there
    crash_after_each_effect
    crash_at_answer_each_effect
    crash_before_each_effect
    crash_in_a_roll_out_and_a_day
    cut_behind_a_drain
    dead_node_is_replaced
    deleted_document_is_forgotten
    deleted_pool_waits_for_its_last_launch
    deleted_tide_asks_back_first
    deleted_tide_of_quota_alone_asks_back_first
    drain_by_hand
    drain_by_hand_keeps_budgets
    drain_takes_whole_gangs
    drift_is_named_and_put_back
    emptied_for_a_person_is_closed
    existing_node_disappears
    existing_nodes_are_claimed_and_released
    finished_work_is_not_resumed
    first_fill
    foreign_work_is_waited_for
    freeze_holds_the_tide
    freeze_thaw_hands_off
    fresh_instances_are_listed_late
    frozen_in_the_middle
    frozen_node_of_a_gang_holds_all_of_it
    frozen_pool_holds_a_loan_of_quota
    frozen_pool_lends_nothing
    gang_comes_back_on_new_nodes
    gangs_wider_than_the_budget_move_alone
    grow
    guard_calls_back_what_it_lent
    guard_stops_lending
    hidden_instances_freeze_deletion
    hidden_node_is_not_given_up
    hung_return_asks_nobody
    idle_never_touches_a_gang
    interrupted_fill_cuts_nothing_twice
    lost_is_not_what_was_just_launched
    lowered_quota_evicts_nobody
    maintenance_is_answered_early
    mig_manager_fails
    mig_manager_hangs
    missed_turn_is_no_roll_out
    not_approved_is_not_begun
    not_approved_is_not_done
    notice_under_a_freeze
    only_failed_orders_count
    pod_comes_after_the_cordon
    quarantine_ends_with_its_node
    quota_follows_the_nodes_of_a_tide
    quota_goes_with_its_nodes
    recall_brings_quota_and_nodes
    recall_turns_the_tide
    rename
    replace_in_a_full_reservation
    resend_into_a_hidden_reservation
    roll_out_says_when_it_is_done
    roll_out_within_the_hourly_limit
    same_cut_loan_is_reclaimed
    second_apply_does_nothing
    service_moves_through_a_layout_change
    shrink_before_they_join
    shrink_takes_the_emptiest_place
    shrink_too_much_waits_for_approval
    shrink_within_the_hourly_budget
    sick_node_is_booted_then_replaced
    spot_interruption
    spot_is_priced_in_its_zones
    stale_reads_move_nothing_backwards
    stillborn_node_is_replaced
    throttled_calls_are_repeated
    tide_lends_and_reclaims
    turn_of_the_tide_approves_nothing_else
    two_budgets_on_a_pod
    two_operators
    unread_ledger_stops_everything
    update_waits_for_a_node_that_leaves
    what_is_held_says_why
    what_is_not_ours_stays
    what_waits_for_a_loan_is_shown
}

#[test]
fn every_script_is_run() {
    let files = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "tw"));
    let names: BTreeSet<String> = scripts.map(|path| path.file_stem().unwrap().to_string_lossy().into()).collect();
    assert_eq!(names, ALL.iter().map(ToString::to_string).collect());
}

#[test]
fn a_script_that_prints_something_else_fails() {
    let text = std::fs::read_to_string(directory().join("first_fill.tw")).unwrap();
    let wrong = text.replacen("| ", "| not ", 1);
    let done = scenario::run(&wrong, &directory()).unwrap();
    assert_eq!(done.differences.len(), 1);
    assert_eq!(done.text, text);
}
