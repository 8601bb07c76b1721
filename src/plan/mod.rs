//! Desired, Observed and Ledger in, one plan across all layers out. Pure.
//!
//! A plan holds what may start now as a DAG of [`Step`]s, and everything else that is wanted as [`Held`], with what it
//! waits on. Not here: what an object looks like (`compile`), what Kueue will do (`queue`), any call (`provider`), a
//! check that must hold whatever the planner does (`audit`).

pub mod anew;
pub mod blocks;
pub mod bound;
pub mod came;
pub mod chosen;
pub mod cost;
pub mod draft;
pub mod drain;
pub mod dress;
pub mod empty;
pub mod ends;
pub mod former;
pub mod gates;
pub mod harm;
pub mod health;
pub mod kept;
pub mod launch;
pub mod later;
pub mod layout;
pub mod links;
pub mod marks;
pub mod nowhere;
pub mod objects;
pub mod on_the_way;
pub mod once;
pub mod order;
pub mod others;
pub mod overfull;
pub mod placing;
pub mod recut;
pub mod removed;
pub mod reported;
pub mod reservations;
pub mod resized;
pub mod rollout;
pub mod serving;
pub mod shrink;
pub mod silent;
pub mod slots;
pub mod smaller;
pub mod stands;
pub mod steps;
pub mod survey;
pub mod taints;
#[cfg(test)]
pub mod testing;
pub mod tide;
pub mod types;
pub mod unmet;
pub mod upcoming;
pub mod view;
pub mod wish;
pub mod worn;

pub use bound::{is_approved_now, templates};
pub use types::*;

use chosen::Chosen;
use draft::Draft;
use kept::Kept;
use overfull::Overfull;
use view::View;

use crate::effect::{Effects, Thing, digest_of};

/// The plan for an input: the same for the same, byte for byte.
pub fn plan(input: &PlanInput) -> Plan {
    let view = View::new(input);
    let (overfull, chosen) = (Overfull::of(&view), Chosen::of(&view));
    let mut kept = Kept::new();
    let (mut draft, mut left_out) = drafted(&view, &overfull, &chosen, &kept);
    for _ in 0..kept::PASSES {
        let more = kept::more(&kept, &draft);
        if more.is_empty() {
            break;
        }
        kept.extend(more);
        (draft, left_out) = drafted(&view, &overfull, &chosen, &kept);
    }
    nowhere::say(&view, &mut draft);
    Plan { stands: chosen.stands, ..finished(input, draft, left_out) }
}

/// All that is wanted, as what is let through and what waits; and what was left out. `kept` are nodes that are known to
/// wait.
fn drafted(view: &View<'_>, overfull: &Overfull<'_>, chosen: &Chosen, kept: &Kept) -> (Draft, Vec<Thing>) {
    let (input, mut draft) = (view.input, Draft::default());
    // What is asked of one node has nothing to do with what is bought, written or coming.
    let is_whole = input.only_node.is_none();
    input.observed.looks_only.iter().for_each(|why| draft.note(Thing::Fleet, why));
    if is_whole {
        anew::say(input, &mut draft);
        reservations::plan(input, overfull, &mut draft);
        chosen::trades::finish(view, &mut draft);
        marks::pools(view, &mut draft);
        empty::listed_again(view, &mut draft);
    }
    slots::plan(view, overfull, chosen, kept, &mut draft);
    if is_whole {
        objects::plan(input, &view.harm, &mut draft);
        others::plan(input, &mut draft);
    }
    recut::quotas_follow(view, &mut draft);
    tide::plan(view, &mut draft);
    marks::plan(view, &mut draft);
    if is_whole {
        taints::say(view, &mut draft);
        worn::say(view, &mut draft);
        resized::remember(view, &mut draft);
        marks::orders(view, &mut draft);
        marks::unanswered(view, &mut draft);
        unmet::say(input, &view.harm, &mut draft);
        ends::recommended_in_vain(view, &mut draft);
        upcoming::plan(view, &mut draft);
    }
    bound::bind_templates(input, &mut draft);
    let left_out = gates::pass(view, kept, &mut draft);
    chosen.couple(view, &mut draft);
    (draft, left_out)
}

/// The plan of a draft.
fn finished(input: &PlanInput, draft: Draft, left_out: Vec<Thing>) -> Plan {
    let mut held = draft.held;
    let steps = order::flatten(draft.courses, &mut held);
    once::count(&steps, &mut held);
    let mut effects = Effects::default();
    steps.iter().for_each(|step| effects.add(&step.effects));
    held.iter().filter(|one| one.waiting_on.is_part_of_it()).for_each(|one| effects.add(&one.effects));
    let digest = effects.digest();
    gates::name_approval(&mut held, &digest);
    let cost = cost::cost(input, &steps, &held);
    Plan {
        id: digest_of(input).as_str().into(),
        digest,
        effects,
        steps,
        held,
        drift: draft.drift,
        upcoming: draft.upcoming,
        released: draft.released,
        offers: draft.offers,
        notes: draft.notes,
        cost,
        left_out,
        stands: None,
    }
}
