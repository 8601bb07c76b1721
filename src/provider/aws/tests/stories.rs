//! Stories of the core, told again with the provider and the endpoint in between: what they expect holds over the wire too.
//! What they print is the same but for names, and is not compared.

use std::path::Path;
use std::rc::Rc;

use super::door::Wired;
use crate::scenario::campaign::caught;
use crate::scenario::run_through;

/// Capacity that ends, notices, blocks, reservations, and want of capacity. Each is told once to a fleet that asks, and once to
/// one that is told by a queue.
const STORIES: &[&str] = &[
    "another_zone_is_asked_after_a_definite_no",
    "block_ends_while_nobody_looks",
    "block_is_bought_filled_and_drained",
    "bought_block_is_not_bought_for_another_identity",
    "capacity_error_falls_back",
    "dead_node_is_replaced",
    "given_up_place_is_not_bought_by_the_hour",
    "interruption_under_a_freeze_moves_a_gang",
    "maintenance_is_answered_early",
    "maintenance_under_a_freeze_moves_a_gang",
    "mandate_that_is_over_buys_nothing",
    "notice_under_a_freeze",
    "replace_in_a_full_reservation",
    "reservation_and_pool_grow_together",
    "reservation_is_given_back_empty",
    "reservation_shrinks_under_its_nodes",
    "spot_interruption",
    "two_blocks_take_two_offers",
    "what_ends_soon_is_not_moved_before",
];

/// Only those who have a queue hear of a recommendation.
const TOLD: &[&str] = &["recommended_move_is_drained", "recommended_move_waits_for_idle"];

fn told(name: &str, seed: u64) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(format!("tests/scenarios/{name}.tw"))).unwrap();
    let ran = caught(|| run_through(&text, root, Some(Rc::new(Wired::new(seed)))));
    ran.failed.map(|failed| format!("{name} with seed {seed}: {failed:?}"))
}

#[test]
fn what_ends_and_what_is_reserved_is_the_same_story_over_the_wire() {
    let twice = STORIES.iter().flat_map(|name| [(*name, 1), (*name, 8)]);
    let all = twice.chain(TOLD.iter().map(|name| (*name, 8)));
    let failed: Vec<String> = all.filter_map(|(name, seed)| told(name, seed)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
