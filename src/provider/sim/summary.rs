//! What exists, in words: for `tidewright sim show`.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::tz::TimeZone;

use super::Sim;
use crate::observed::InstanceState;

impl Sim {
    /// A page of text: the time, reservations, instances, nodes, and what was asked for so far.
    pub fn summary(&self, zone: &TimeZone) -> String {
        let state = self.state();
        let mut text = format!("It is {}.\n", state.now.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %:z"));
        section(
            &mut text,
            "Reservations",
            state.cloud.reservations.iter().map(|(id, held)| {
                let kind = if held.block.is_some() { "block" } else { "on-demand" };
                let name = held.tag.as_ref().map_or("not ours".to_string(), |tag| tag.reservation.to_string());
                format!(
                    "{id}  {name}  {}  {}  {kind}  {:?}  {} of {} used",
                    held.instance_type,
                    held.zone,
                    held.stage(state.now),
                    held.used,
                    held.total
                )
            }),
        );
        let mut groups: BTreeMap<String, BTreeMap<&str, u32>> = BTreeMap::new();
        // A machine that changed places serves another pool than its tag says.
        let mut ledger = state.ledger.whole().0;
        ledger.settle_exchanges();
        let slots = ledger.pools.iter().flat_map(|(pool, known)| known.slots.values().map(move |slot| (pool, slot)));
        let moved = slots.filter(|(_, slot)| slot.made_for.is_some());
        let moved: BTreeMap<_, _> =
            moved.filter_map(|(pool, slot)| Some((slot.instance.clone()?, pool.to_string()))).collect();
        for (id, found) in &state.cloud.instances {
            let tagged = || found.tag.as_ref().map_or("not ours".to_string(), |tag| tag.slot.pool.to_string());
            let whose = moved.get(id).cloned().unwrap_or_else(tagged);
            let group = format!("{whose}  {}  {}  {:?}", found.instance_type, found.zone, found.paid_as());
            *groups.entry(group).or_default().entry(word(&found.state)).or_default() += 1;
        }
        section(
            &mut text,
            "Instances",
            groups.into_iter().map(|(group, states)| {
                let states: Vec<String> = states.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
                format!("{group}  {}", states.join(", "))
            }),
        );
        let seen = state.cluster.observe(state.now);
        let nodes = seen.nodes.seen();
        let ready = nodes.values().filter(|node| node.ready).count();
        let pods = seen.pods.seen().len();
        let several = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let (all, pods) = (several(nodes.len(), "node"), several(pods, "pod"));
        let _ = writeln!(text, "Cluster\n  {all}, {ready} ready, {pods}");
        let before = nodes.values().filter(|node| node.instance.is_none()).count();
        if before > 0 {
            let _ = writeln!(
                text,
                "  {} that no cloud launched: pools of `existing` capacity claim them",
                several(before, "node")
            );
        }
        let asked = state.calls.changed.iter().map(|(verb, count)| format!("{verb} {count}"));
        section(&mut text, "Done so far", asked);
        text
    }
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(text, "{title}");
    }
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

fn word(state: &InstanceState) -> &str {
    match state {
        InstanceState::Pending => "pending",
        InstanceState::Running => "running",
        InstanceState::ShuttingDown => "shutting down",
        InstanceState::Terminated => "terminated",
        InstanceState::Stopped => "stopped",
        InstanceState::Other(other) => other,
    }
}
