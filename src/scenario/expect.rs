//! What a script says must be so.

use super::Wrong;
use super::bench::{Bench, Looked};
use super::command::{Counted, Expect};
use super::print;
use super::twin::as_from_nothing;
use super::work::gang_named;
use crate::effect::Scope;
use crate::effect::marks::{CORDON, POOL, is_starting};
use crate::units::Duration;

/// Between rounds in which nothing must happen: an operator's pace.
const PAUSE: Duration = Duration::secs(30);

pub fn expect(bench: &mut Bench, expect: &Expect) -> Result<(), Wrong> {
    match expect {
        Expect::Plan => {
            let looked = bench.look()?;
            if looked.plan.steps.is_empty() { Err(unlike("steps", &looked)) } else { Ok(()) }
        }
        Expect::NoChanges | Expect::Converged => {
            let looked = bench.look()?;
            if looked.plan.is_empty() { Ok(()) } else { Err(unlike("no changes", &looked)) }
        }
        Expect::Held(word) | Expect::NotHeld(word) => {
            let looked = bench.look()?;
            let wanted = matches!(expect, Expect::Held(_));
            let found = print::held(&looked.plan.held).iter().any(|line| line.contains(word.as_str()));
            let what =
                if wanted { format!("something held with `{word}`") } else { format!("nothing held with `{word}`") };
            if found == wanted { Ok(()) } else { Err(unlike(&what, &looked)) }
        }
        Expect::Coming(word) | Expect::NotComing(word) => {
            let looked = bench.look()?;
            let lines: Vec<&str> = looked.plan.upcoming.iter().map(|one| one.change.as_str()).collect();
            let found = lines.iter().any(|line| line.contains(word.as_str()));
            let wanted = matches!(expect, Expect::Coming(_));
            if found == wanted { Ok(()) } else { Err(Wrong::new(format!("what comes:\n{}", lines.join("\n")))) }
        }
        Expect::Quiet { rounds } => quiet(bench, *rounds),
        Expect::AsFromNothing => as_from_nothing(bench),
        Expect::NoViolations => bench.check().map_err(Wrong::new),
        _ => so(bench, expect),
    }
}

/// What can be seen at once.
fn so(bench: &Bench, expect: &Expect) -> Result<(), Wrong> {
    let state = bench.sim.state();
    let seen = state.cluster.observe(state.now);
    match expect {
        Expect::Nodes { pool, count } => {
            bench.names.pool(pool)?;
            let (ledger, _) = state.ledger.whole();
            let known = ledger.pools.get(pool).into_iter().flat_map(|pool| pool.slots.values());
            let found = known.filter(|slot| slot.instance.is_some() || slot.node.is_some()).count();
            same(found as u64, u64::from(*count), &format!("nodes in pool/{pool}"))
        }
        Expect::Ready { pool, count } => {
            bench.names.pool(pool)?;
            let open = seen.nodes.seen().values().filter(|node| {
                node.labels.get(POOL).is_some_and(|name| name == pool.as_str())
                    && node.ready
                    && !node.unschedulable
                    && !is_starting(node)
            });
            same(open.count() as u64, u64::from(*count), &format!("nodes of pool/{pool} in service"))
        }
        Expect::Count { what, count } => {
            let (calls, counts) = (&state.calls, state.cluster.counts());
            let found = match what {
                Counted::Launches => calls.changed("launch"),
                Counted::Terminations => calls.changed("terminate"),
                Counted::Reboots => calls.changed("reboot"),
                Counted::Purchases => calls.changed("purchase") + calls.changed("extend"),
                Counted::Evictions => counts.evictions,
                Counted::Forced => counts.forced,
                Counted::Suspends => counts.suspends,
                Counted::Cuts => counts.cuts,
                Counted::Killed => counts.killed,
            };
            same(found, *count, &format!("{what:?}").to_lowercase())
        }
        Expect::Frozen(scope) => {
            if let Scope::Pool(pool) = scope {
                bench.names.pool(pool)?;
            }
            let found = state.ledger.head().frozen.iter().any(|freeze| freeze.scope == *scope);
            if found { Ok(()) } else { Err(format!("{scope:?} is not frozen").into()) }
        }
        Expect::Running { gang, yes } => {
            let name = gang_named(bench, gang)?;
            let found = seen.workloads.seen().values().find(|workload| workload.name == name);
            let running = found.is_some_and(|workload| workload.reserved.is_some() && !workload.evicted);
            if running == *yes {
                return Ok(());
            }
            let why = state.cluster.gang_named(&name).and_then(|uid| state.cluster.waits_for(&uid).map(str::to_string));
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            Err(format!("{name} {}{why}", if running { "runs" } else { "waits" }).into())
        }
        Expect::Cordoned { place, yes } => {
            let name = bench.node(place)?;
            let node = seen.nodes.seen().get(&name).ok_or_else(|| Wrong::new(format!("there is no node {name}")))?;
            let closed = node.annotation(CORDON).is_some() || node.unschedulable;
            let word = if closed { "is cordoned" } else { "is open" };
            if closed == *yes { Ok(()) } else { Err(format!("{} {word}", place.0).into()) }
        }
        Expect::Shows { place, resource, amount } => {
            let name = bench.node(place)?;
            let found = seen.nodes.seen().get(&name).and_then(|node| node.allocatable.get(resource.as_str()));
            let found = found.copied().unwrap_or(0);
            if found == *amount { Ok(()) } else { Err(format!("{} shows {found} {resource}", place.0).into()) }
        }
        Expect::Object { object, there } => {
            let found = seen.objects.seen().contains_key(object);
            if found == *there {
                return Ok(());
            }
            Err(format!("{object} is {}", if found { "there" } else { "not there" }).into())
        }
        Expect::NoOrphans => {
            let (ledger, _) = state.ledger.whole();
            let known = |id| {
                ledger.pools.values().any(|pool| pool.slots.values().any(|slot| slot.instance.as_ref() == Some(id)))
            };
            let ours = state.cloud.instances.iter().filter(|(_, found)| found.state.serves());
            let lost = ours.filter_map(|(id, found)| Some((id, found.tag.as_ref()?))).find(|(id, _)| !known(*id));
            match lost
                .filter(|(_, tag)| bench.fleet.as_ref().is_some_and(|fleet| fleet.pools.contains_key(&tag.slot.pool)))
            {
                Some((id, tag)) => {
                    Err(Wrong::broken(format!("{id} of {} runs, and the ledger does not know it", tag.slot)))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Rounds in which no call changes or tries to change anything.
fn quiet(bench: &mut Bench, rounds: u32) -> Result<(), Wrong> {
    let before = bench.sim.state().calls.total;
    for round in 1..=rounds {
        bench.round()?;
        let calls = bench.sim.state().calls.clone();
        if let Some(call) = calls.log.back().filter(|_| calls.total > before) {
            return Err(
                format!("in quiet round {round} somebody called {} {}: {}", call.verb, call.what, call.answer).into()
            );
        }
        bench.sim.advance(PAUSE);
    }
    Ok(())
}

fn same(found: u64, wanted: u64, what: &str) -> Result<(), Wrong> {
    if found == wanted { Ok(()) } else { Err(format!("{found} {what} where {wanted} were expected").into()) }
}

fn unlike(what: &str, looked: &Looked) -> Wrong {
    Wrong::new(format!("{what} expected, and the plan is\n    {}", print::plan(&looked.plan).join("\n    ")))
}
