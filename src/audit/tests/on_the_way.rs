//! What a tide empties and is replaced on the way.

use super::audit;
use super::bench::*;
use crate::effect::marks::starting_taint;
use crate::effect::*;
use crate::plan::*;

const AROUND: &str = "way around a roll-out";

/// The nodes of a loan are replaced, one more than may be away at once; nobody was let on them yet.
fn replaced() -> Bench {
    let reason = Reason::Lent { tide: "nightly".into(), to: "night".into() };
    let mut bench = Bench::settled(NIGHT);
    for index in 0..3 {
        bench.node("serve", index, |node| node.taints.push(starting_taint()));
        bench.drain("serve", index, "replace", &reason, &[]);
        bench.terminate("serve", index, &reason);
        bench.find(&format!("terminate serve/{index}")).consent = Consent::Given;
        bench.find(&format!("cordon serve/{index}")).requires.push(Fact::Unopened(node("serve", index)));
    }
    bench
}

#[test]
fn nodes_that_nobody_was_let_on_are_nobodys_loss() {
    let at_once = |mut bench: Bench| {
        bench.seal();
        let found = audit(&bench.input, bench.plan).err().unwrap_or_default();
        found.iter().any(|one| one.law.contains(AROUND) && one.what.contains("would move at once"))
    };
    assert!(!at_once(replaced()));
    let let_in = |bench: &mut Bench| (0..3).for_each(|index| bench.node("serve", index, |node| node.taints.clear()));
    assert!(at_once(replaced().with(let_in)));
    let unseen = |bench: &mut Bench| {
        (0..3).for_each(|index| bench.find(&format!("cordon serve/{index}")).requires.clear());
    };
    assert!(at_once(replaced().with(unseen)), "one of them may be let in meanwhile");
}
