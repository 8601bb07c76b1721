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
    all_that_leave_are_closed_first
    ambiguous_launch_is_sent_again
    another_owners_policy_holds_the_cut
    another_zone_is_asked_after_a_definite_no
    bare_pod_keeps_only_itself
    block_ends_under_a_freeze
    block_ends_while_nobody_looks
    block_is_bought_filled_and_drained
    block_is_bought_where_its_pool_can_be
    boot_that_does_not_help_is_not_repeated
    booted_node_goes_down_first
    booted_node_is_admitted_again
    booted_node_is_updated_on_the_way
    booted_node_shows_its_gpus_first
    bought_block_is_not_bought_for_another_identity
    bought_block_is_not_edited
    breaker_stops_mass_quarantine
    budget_is_kept_in_a_drain
    budget_lets_one_go_at_a_time
    budget_that_blocks_holds_a_drain
    budget_that_blocks_keeps_the_quota
    budget_that_is_used_up_names_who_uses_it
    budget_that_never_allows_is_named
    canary_and_windows
    canary_beside_a_shrink
    canary_closed_by_somebody_is_not_watched
    canary_in_quarantine_holds
    canary_is_in_service
    canary_let_in_late_is_watched_from_then
    canary_nobody_can_be
    canary_of_a_cut
    canary_of_lent_nodes
    canary_out_of_service_is_not_watched
    capacity_error_falls_back
    claimed_node_disappears
    claimed_node_of_a_mixed_pool_disappears
    closed_by_somebody_stays_closed
    closed_for_its_removal_is_shown
    closed_node_is_dressed_before_it_is_opened
    closed_node_is_updated_before_it_is_opened
    cohort_move_is_staged
    converged_means_that_the_gpus_are_there
    crash_after_each_effect
    crash_at_answer_each_effect
    crash_before_each_effect
    crash_in_a_roll_out_and_a_day
    cut_behind_a_drain
    cut_by_hand_is_not_the_tides
    cut_by_somebody_else_is_named
    cut_follows_its_file
    cut_that_fails_is_ordered_again
    dead_node_is_replaced
    dead_node_is_replaced_over_the_limit
    declared_fabric_is_written_to_its_nodes
    defragment_exchanges_machines_with_work
    defragment_moves_work_that_pays
    deleted_borrower_gives_back
    deleted_document_is_forgotten
    deleted_pool_waits_for_its_last_launch
    deleted_tide_asks_back_first
    deleted_tide_of_quota_alone_asks_back_first
    drain_by_hand
    drain_by_hand_keeps_budgets
    drain_ends_in_its_window
    drain_takes_whole_gangs
    drift_is_named_and_put_back
    drift_is_put_back_while_an_update_waits
    driver_has_the_first_word
    elastic_work_shrinks_first
    emptied_for_a_person_is_closed
    emptied_node_is_opened_by_its_person
    ended_loan_takes_its_own_gang
    ended_node_is_not_opened
    entries_in_use_stay_in_the_file
    existing_node_disappears
    existing_nodes_are_claimed_again
    existing_nodes_are_claimed_and_released
    existing_nodes_of_a_document_that_comes_back
    fabric_change_disturbs_nobody
    fabric_chooses_existing_nodes
    fabric_gets_another_level
    fabric_of_sixteen_levels
    far_apart_counts_hosts_that_suit
    finished_work_is_not_resumed
    first_fill
    flavor_of_another_tool_holds_its_queue
    flavor_swap_is_staged
    foreign_work_is_waited_for
    forgotten_machine_is_missing
    forgotten_pool_keeps_closed_nodes_closed
    freeze_holds_the_guards_recall
    freeze_holds_the_tide
    freeze_of_a_pool_holds_the_guards_recall
    freeze_thaw_hands_off
    fresh_instances_are_listed_late
    frozen_document_lets_memory_be_true
    frozen_in_the_middle
    frozen_in_the_middle_of_an_exchange
    frozen_node_of_a_gang_holds_all_of_it
    frozen_pool_holds_a_loan_of_quota
    frozen_pool_lends_nothing
    frozen_slot_changes_no_places
    gang_beside_the_queues_is_asked_to_save
    gang_beside_the_queues_leaves_two_nodes
    gang_comes_back_on_new_nodes
    gang_goes_in_one_hour
    gang_that_could_never_start_again_is_named
    gang_that_waits_is_counted_once
    gang_waits_for_a_whole_leaf
    gang_waits_for_its_last_node
    gangs_wider_than_the_budget_move_alone
    given_up_place_is_not_bought_by_the_hour
    grow
    guard_calls_back_what_it_lent
    guard_stops_lending
    guard_that_is_silent_for_a_moment
    held_partner_holds_an_exchange_of_nodes
    hidden_instances_freeze_deletion
    hidden_node_is_not_given_up
    higher_tier_takes_a_place
    hung_return_asks_nobody
    idle_never_touches_a_gang
    interrupted_fill_cuts_nothing_twice
    interruption_under_a_freeze_moves_a_gang
    keep_ready_holds_through_an_edited_layout
    kept_nodes_are_not_chosen_to_go
    kept_out_stays_closed_when_it_is_let_go
    kueues_file_needs_a_change
    label_of_a_pool_keeps_its_node
    labels_come_before_machines_change_places
    late_node_comes_back_to_the_tide_that_lent_it
    launched_and_never_listed
    launched_machines_change_places
    launches_name_their_hosts
    layout_edited_by_night_keeps_its_queue
    layout_edited_in_the_evening_is_told
    leaf_names_are_repeated_in_blocks
    lend_cut_short_and_edited_comes_back
    lent_node_of_a_smaller_reservation_is_only_cut
    lent_nodes_are_updated_on_the_way
    level_that_a_pool_lacks_is_told
    loan_goes_to_another_borrower
    loan_is_cut_in_another_way
    loan_of_a_night_ends_before_morning
    loan_that_another_tide_cuts_anew_comes_back_first
    loan_that_another_tide_lends_on_is_asked_back
    loans_edited_again_and_again
    lost_is_not_what_was_just_launched
    lost_ledger_after_a_rename
    lost_ledger_after_a_rename_of_existing_nodes
    lost_ledger_asks_about_closed_nodes
    lost_ledger_before_a_rename_is_recorded
    lost_ledger_is_found_again_by_its_tags
    lost_ledger_is_told_until_somebody_knows
    lost_ledger_keeps_the_canary_closed
    lost_ledger_of_a_fleet_with_another_name
    lost_ledger_of_a_pool_that_shrank
    low_tide_is_ended_by_an_edit
    lowered_quota_evicts_nobody
    lowered_quota_of_a_same_cut_loan_waits
    lowered_quota_waits_at_night_too
    machines_made_otherwise_stay
    machines_that_are_listed_hours_later
    maintenance_is_answered_early
    maintenance_under_a_freeze_moves_a_gang
    mandate_that_is_over_buys_nothing
    mig_manager_fails
    mig_manager_hangs
    missed_turn_is_no_roll_out
    new_nodes_serve_while_an_update_waits
    node_kept_out_counts_as_unavailable
    node_of_other_hardware_is_not_claimed
    node_that_goes_for_good_is_not_out_for_an_update
    node_that_is_late_is_not_idle
    node_that_nobody_was_let_on_is_updated_on_the_way
    nodes_change_places_when_that_pays
    nodes_that_say_no_place_are_named_and_serve
    not_approved_is_not_begun
    not_approved_is_not_done
    notice_under_a_freeze
    old_plan_does_not_close_a_released_node
    old_plan_does_not_take_a_cut_back
    only_failed_orders_count
    open_reservation_is_given_back_empty
    owner_takes_back_what_it_lent
    partner_dies_before_an_exchange
    partner_dies_in_an_exchange
    place_beyond_a_reservation_is_paid_by_the_hour
    place_is_taken_after_a_neighbour_has_left
    pod_comes_after_the_cordon
    pod_comes_to_an_idle_node
    pods_that_find_no_place_are_named
    policy_says_what_becomes_of_a_silent_node
    pool_shrinks_while_it_lends
    quarantine_after_the_plan_stops_the_update
    quarantine_ends_with_its_node
    quarantine_of_another_node_uses_the_room_up
    quarantined_node_goes_first
    quarantined_node_is_missed_in_a_loan
    quarantined_node_moves_its_gang
    queue_is_renamed_in_stages
    queue_keeps_its_lines_while_another_cannot_be_made
    quota_follows_a_replacement_too
    quota_follows_the_first_cut
    quota_follows_the_nodes_of_a_tide
    quota_goes_with_its_nodes
    quota_is_judged_by_places
    raised_quota_takes_from_who_borrows
    recall_and_then_edits
    recall_brings_quota_and_nodes
    recall_makes_a_pool_small_again
    recall_turns_the_tide
    recommended_move_is_drained
    recommended_move_waits_for_idle
    record_of_an_exchange_is_lost
    refused_eviction_is_quoted
    refused_reservation_falls_back
    released_node_stays_in_quarantine
    removal_that_waits_takes_no_budget
    removals_before_a_lost_ledger_count
    removals_on_the_way_count
    rename
    rename_and_resize
    rename_in_the_middle_of_a_roll_out
    rename_keeps_closed_nodes_closed
    rename_takes_the_freeze_along
    rename_under_running_work
    rename_waits_for_an_answer
    rename_while_an_update_waits
    renamed_pool_with_hindered_nodes
    replace_in_a_full_reservation
    report_is_the_first_rung
    reported_nodes_stay_in_service
    required_level_has_no_room
    required_pool_grows_while_its_machines_are_on_their_way
    required_pool_stays_where_it_is
    required_pool_stays_where_its_reservation_is
    resend_into_a_hidden_reservation
    reservation_and_pool_grow_together
    reservation_beside_a_pool_to_be_apart_from
    reservation_is_given_back_empty
    reservation_of_another_type_is_passed_over
    reservation_on_another_leaf_is_passed_over
    reservation_shrinks_under_its_nodes
    reservations_are_chosen_over_all_pools
    reserved_places_come_before_offered_hosts
    resized_pool_empties_in_the_morning
    resized_pool_is_back_in_time
    retired_borrower_gives_back
    returned_loan_waits_for_nobody
    returned_node_counts_until_it_is_open
    returned_node_is_admitted_first
    returned_node_is_not_emptied_by_an_old_plan
    returned_node_serves_while_an_update_waits
    roll_out_by_the_hour_keeps_its_approval
    roll_out_says_when_it_is_done
    roll_out_within_the_hourly_limit
    room_that_a_return_makes_is_approved
    same_cut_loan_becomes_smaller
    same_cut_loan_goes_to_another_borrower
    same_cut_loan_is_called_back
    same_cut_loan_is_reclaimed
    same_cut_loan_keeps_its_work_in_a_shrink
    second_apply_does_nothing
    service_moves_through_a_layout_change
    shared_gpus_become_whole_again
    short_of_its_promise_is_asked_to_save
    shrink_at_night_leaves_lent_work_alone
    shrink_before_they_are_listed
    shrink_before_they_join
    shrink_costs_one_gang_and_not_two
    shrink_takes_the_emptiest_place
    shrink_too_much_waits_for_approval
    shrink_within_the_hourly_budget
    sick_node_goes_with_a_shrink
    sick_node_is_booted_then_replaced
    silent_machine_of_somebody_else
    silent_node_is_given_up_by_whoever_comes_next
    silent_node_is_replaced
    slices_that_stay_up_take_no_room
    smaller_loan_is_asked_back_in_good_time
    smaller_size_of_a_tide_is_asked_for
    spares_are_kept_beside_a_loan
    spot_counts_at_its_highest_price
    spot_interruption
    spot_is_priced_in_its_zones
    stale_reads_move_nothing_backwards
    stillborn_node_is_replaced
    taint_shuts_nobody_out
    three_pools_exchange_nodes_in_a_ring
    throttled_calls_are_repeated
    tide_added_at_night_is_asked_for
    tide_is_no_way_around_a_roll_out
    tide_lends_and_reclaims
    tide_lends_what_nobody_uses
    tide_makes_a_pool_larger
    tide_makes_a_pool_smaller
    tide_that_overrules_another_at_night
    tier_is_ranked_anew
    tier_preempts_in_another_way
    total_over_gpus_and_slices_is_kept
    turn_of_the_tide_approves_nothing_else
    two_blocks_take_two_offers
    two_budgets_on_a_pod
    two_operators
    two_pools_exchange_many_nodes
    unmet_guarantee_says_who_has_it
    unread_ledger_stops_everything
    update_waits_for_a_node_that_leaves
    what_ends_soon_is_not_moved_before
    what_is_back_is_not_announced
    what_is_held_says_why
    what_is_held_takes_no_room
    what_is_not_ours_stays
    what_leaves_a_pool_leaves_its_nodes
    what_nodes_show_is_covered
    what_waits_for_a_loan_is_shown
    whoever_comes_back_is_not_sent_again
    whoever_comes_back_keeps_nobody_for_ever
    wide_gang_waits_for_who_is_kept_out
    work_shares_the_level_that_is_preferred
    work_that_did_not_save_is_named
    yes_to_one_image_is_none_to_another
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
