//! Each known mistake is caught by the campaign too: some seed fails because of it, and passes without it.
//!
//! A debug build searches for one of them; `cargo test --profile campaign --lib mistakes -- --include-ignored
//! --nocapture` searches for all, and says which seed caught each and how.

#![allow(clippy::disallowed_macros)]

use crate::mistakes::{Mistake, making};
use crate::scenario::campaign::{draw, run};

/// So many seeds are drawn for each.
const SEEDS: u64 = 1000;

/// The first seed that fails because of these mistakes, and what it says.
fn caught(mistakes: &[Mistake]) -> Option<(u64, String)> {
    (1..=SEEDS).find_map(|seed| {
        let case = draw(seed);
        let why = making(mistakes, || run(&case)).failed?;
        run(&case).failed.is_none().then_some((seed, why))
    })
}

fn first_lines(why: &str) -> String {
    why.lines().take(2).collect::<Vec<_>>().join(" ").chars().take(240).collect()
}

fn check(mistake: Mistake) {
    let Some((seed, why)) = caught(&[mistake]) else { panic!("{mistake:?} passes {SEEDS} seeds") };
    println!("{mistake:?}: seed {seed}: {}", first_lines(&why));
}

macro_rules! mistakes {
    ($($name:ident $mistake:ident)*) => {
        $(#[test] #[ignore = "draws hundreds of seeds: for the campaign profile"] fn $name() { check(Mistake::$mistake); })*
    };
}

mistakes! {
    the_campaign_catches_a_launch_without_a_token LaunchWithoutToken
    the_campaign_catches_no_answer_taken_for_a_no FallbackAfterNoAnswer
    the_campaign_catches_a_deleted_file_that_drains DeletedFileDrains
    the_campaign_catches_an_effect_after_a_freeze EffectAfterFreeze
    the_campaign_catches_a_drain_by_node DrainByNode
    the_campaign_catches_a_list_read_once ListOnce
    the_campaign_catches_a_stale_plan StalePlan
    the_campaign_catches_quota_thought_reclaimed QuotaThoughtReclaimed
    the_campaign_catches_a_label_rewritten LabelRewritten
    the_campaign_catches_a_delete_on_an_empty_read DeleteOnEmptyRead
    the_campaign_catches_two_budgets TwoBudgets
}

/// The judge sees it in the first plan that launches, so a debug build can afford it.
#[test]
fn the_campaign_catches_a_token_without_the_zone() {
    check(Mistake::TokenWithoutZone);
}
