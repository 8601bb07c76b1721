//! Machines that change places: every way to do it wrongly is caught.

use super::bench::*;
use crate::effect::*;
use crate::ids::*;
use crate::observed::*;
use crate::plan::*;

const ALIKE: &str = "machines change places only where both are empty and alike";
const FINISHED: &str = "an exchange is finished before anything else is done in its slots";
const TRUE: &str = "the ledger is told only what is true";

fn machine(bench: &mut Bench, pool: &str, index: u32) -> Machine {
    let own = slot(pool, index);
    bench.slot(pool, index).machine(&own).unwrap()
}

fn fabric() -> Reason {
    Reason::Fabric { to: None }
}

/// train/3 and serve/2, which are cut alike here, are empty and change places.
fn exchange() -> Bench {
    let mut bench = Bench::settled(NOON);
    let whole = bench.input.target.standing.pools["train"].layout.clone();
    bench.standing().pools.get_mut("serve").unwrap().layout = whole;
    let layouts = bench.input.desired.pools["train"].layouts.clone();
    bench.input.desired.pools.get_mut("serve").unwrap().layouts = layouts;
    let template = bench.input.desired.pools["train"].template.digest.clone();
    bench.input.desired.pools.get_mut("serve").unwrap().template.digest = template.clone();
    bench.instance("serve", 2, |seen| seen.template = Some(template));
    for (pool, index) in [("train", 3), ("serve", 2)] {
        bench.cordoned(pool, index, "exchange");
    }
    let (gives, takes) = (machine(&mut bench, "train", 3), machine(&mut bench, "serve", 2));
    let (one, other) = (slot("train", 3), slot("serve", 2));
    let first = LedgerChange::Exchange {
        slot: one.clone(),
        with: other.clone(),
        gives: gives.instance.clone(),
        takes: takes.clone(),
    };
    let requires = vec![Fact::Empty(node("train", 3)), Fact::Empty(node("serve", 2))];
    bench.step("exchange", Action::Record(first), fabric(), &[]).requires = requires;
    let second =
        LedgerChange::Exchanged { slot: other, with: one.clone(), gives: takes.instance.clone(), takes: gives };
    bench.step("exchanged", Action::Record(second), fabric(), &["exchange"]);
    let over = LedgerChange::ExchangeOver { slot: one, keeps: takes.instance };
    bench.step("over", Action::Record(over), fabric(), &["exchanged"]);
    bench
}

/// Whether a law is broken, with these words.
fn breaks(bench: &Bench, law: &str, words: &str) {
    let found = super::judge(&bench.input, &bench.plan);
    let said = found.iter().any(|one| one.law == law && one.what.contains(words));
    assert!(said, "{law}: {words}: {found:?}");
}

fn with(change: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = exchange();
    change(&mut bench);
    bench
}

#[test]
fn two_that_are_empty_and_alike_change_places() {
    let bench = exchange();
    let found = super::judge(&bench.input, &bench.plan);
    let about = |law: &str| [ALIKE, FINISHED, TRUE].contains(&law);
    assert!(!found.iter().any(|one| about(one.law)), "{found:?}");
}

#[test]
fn what_is_not_empty_or_not_looked_at_again_stays() {
    breaks(&with(|bench| bench.find("exchange").requires.clear()), ALIKE, "closed and empty");
    breaks(&with(|bench| _ = bench.find("exchange").requires.pop()), ALIKE, "whether serve-2 is closed and empty");
    breaks(&with(|bench| _ = bench.pod("late", ("train", 3))), ALIKE, "team/late is on train-3");
    let open = |bench: &mut Bench| bench.node("train", 3, |node| node.annotations.clear());
    breaks(&with(open), ALIKE, "whether train-3 is closed and empty");
    let opened = |bench: &mut Bench| {
        let uncordon = Action::Cluster(ClusterAction::Uncordon { node: node("serve", 2) });
        bench.step("open", uncordon, fabric(), &[]);
    };
    breaks(&with(opened), ALIKE, "serve-2 is opened");
}

#[test]
fn what_is_made_bought_or_cut_otherwise_stays() {
    let template = |bench: &mut Bench| bench.instance("serve", 2, |seen| seen.template = Some(digest(b"old")));
    breaks(&with(template), ALIKE, "i-serve-2 is not what pool train launches");
    let market = |bench: &mut Bench| bench.instance("serve", 2, |seen| seen.market = Market::Spot);
    breaks(&with(market), ALIKE, "are not bought alike");
    let reservation = |bench: &mut Bench| bench.instance("serve", 2, |seen| seen.reservation = Some("cr-2".into()));
    breaks(&with(reservation), ALIKE, "i-serve-2 is not what pool train launches");
    let zone = |bench: &mut Bench| bench.instance("train", 3, |seen| seen.instance_type = "p4d.24xlarge".into());
    breaks(&with(zone), ALIKE, "i-train-3 is not what pool serve launches");
    let cut = |bench: &mut Bench| {
        let layouts = &mut bench.input.desired.pools.get_mut("serve").unwrap().layouts;
        layouts.values_mut().for_each(|laid_out| laid_out.absent.push("nvidia.com/other".into()));
    };
    breaks(&with(cut), ALIKE, "are not cut alike");
}

#[test]
fn what_the_ledger_says_otherwise_stays() {
    breaks(&with(|bench| bench.slot("train", 3).instance = Some("i-x".into())), ALIKE, "does not have i-train-3");
    breaks(&with(|bench| bench.slot("serve", 2).launched = None), ALIKE, "is not what is remembered of serve/2");
    let stopped = |bench: &mut Bench| bench.instance("train", 3, |seen| seen.state = InstanceState::ShuttingDown);
    breaks(&with(stopped), ALIKE, "i-train-3 does not run");
    let again = |bench: &mut Bench| {
        let twice = bench.plan.steps[0].clone();
        bench.plan.steps.push(Step { id: "again".into(), ..twice });
    };
    breaks(&with(again), ALIKE, "changes places twice");
    breaks(&with(|bench| bench.find("exchanged").after.clear()), TRUE, "did not take the machine of");
    breaks(&with(|bench| bench.find("over").after.clear()), TRUE, "for another machine");
}

#[test]
fn an_exchange_that_was_broken_off_is_finished_first() {
    let mut bench = exchange();
    bench.plan.steps.remove(0);
    bench.find("exchanged").after.clear();
    let (gives, takes) = (machine(&mut bench, "train", 3), machine(&mut bench, "serve", 2));
    let (one, other) = (slot("train", 3), slot("serve", 2));
    let gone = gives.instance.clone();
    bench.input.ledger.change(&LedgerChange::Exchange { slot: one, with: other, gives: gone, takes });
    bench.input.ledger.settle_exchanges();
    let found = super::judge(&bench.input, &bench.plan);
    assert!(!found.iter().any(|one| [ALIKE, FINISHED, TRUE].contains(&one.law)), "{found:?}");
    let uncordon = |node: NodeName| Action::Cluster(ClusterAction::Uncordon { node });
    for name in [node("train", 3), node("serve", 2)] {
        bench.step("open", uncordon(name), Reason::LeftOver, &[]);
        breaks(&bench, FINISHED, "the exchange of train/3 is not over before it");
        bench.find("open").after = vec!["over".into()];
        let found = super::judge(&bench.input, &bench.plan);
        assert!(!found.iter().any(|one| one.law == FINISHED), "{found:?}");
        bench.plan.steps.pop();
    }
}
