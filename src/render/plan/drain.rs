//! What emptying one node means: every pod on it, how it leaves, and all that is in the way.

use super::words::{Words, clean, count, list};
use super::{Shown, words};
use crate::ids::{NodeName, SlotId};
use crate::observed::Keeper;
use crate::plan::survey::{Guest, Way};
use crate::plan::{GangHit, WaitingOn};
use crate::render::table::{columns, trimmed};

/// Ends with a line break.
pub fn drain(shown: &Shown<'_>, node: &NodeName, slot: &SlotId, guests: &[Guest]) -> String {
    let words = shown.words();
    let leaves = |guest: &&Guest| matches!(guest.way, Way::Suspended { .. } | Way::Evicted { .. });
    let going = guests.iter().filter(leaves).count();
    let mut parts = vec![format!("Drain of {node} ({slot}): {}", head(guests, going))];
    if !guests.is_empty() {
        let mut table = columns(["POD", "BUDGETS", "LEAVES"], &[]);
        for guest in guests {
            table.add_row([clean(&guest.pod.to_string()), budgets(guest), how(guest)]);
        }
        parts.push(trimmed(&table));
    }
    parts.extend(in_the_way(&words, shown, guests));
    parts.join("\n\n") + "\n"
}

fn head(guests: &[Guest], going: usize) -> String {
    let number = |number: usize, word: &str| count(u32::try_from(number).unwrap_or(u32::MAX), word);
    let mut gangs: Vec<&str> = guests.iter().filter_map(gang).map(|gang| gang.name.as_str()).collect();
    gangs.sort_unstable();
    gangs.dedup();
    let blocked = guests.iter().filter(|guest| !guest.in_the_way.is_empty()).count();
    let mut told = Vec::new();
    if going > 0 {
        let whole = if gangs.is_empty() { String::new() } else { format!(" ({})", number(gangs.len(), "whole gang")) };
        told.push(format!("{} to move{whole}", number(going, "pod")));
    }
    if blocked > 0 {
        told.push(format!("{blocked} in the way"));
    }
    if told.is_empty() { "nothing has to leave it.".into() } else { format!("{}.", told.join(", ")) }
}

fn gang(guest: &Guest) -> Option<&GangHit> {
    match &guest.way {
        Way::Suspended { gang, .. } => Some(gang),
        Way::Evicted { gang, .. } => gang.as_ref(),
        _ => None,
    }
}

/// How a pod leaves, in a few words.
fn how(guest: &Guest) -> String {
    let whole = |gang: &GangHit| {
        let tier = gang.tier.as_ref().map_or(String::new(), |tier| format!(", tier {tier}"));
        let (pods, nodes, gpus) = (count(gang.pods, "pod"), count(gang.nodes, "node"), count(gang.gpus, "GPU"));
        format!("gang {}: {pods} on {nodes}, {gpus}{tier}", clean(&gang.name))
    };
    let data = if guest.local_data { "; its local data goes with it" } else { "" };
    match &guest.way {
        Way::Stays(Keeper::DaemonSet) => "stays: a DaemonSet keeps it here".into(),
        Way::Stays(_) => "stays: the kubelet's own".into(),
        Way::Ended => "has ended".into(),
        Way::Leaving => "is on its way already".into(),
        Way::Suspended { gang, asked } => {
            let asked = if *asked { ", asked to save its work first" } else { "" };
            format!("suspended through the queue with {}{asked}{data}", whole(gang))
        }
        Way::Evicted { gang: Some(gang), asked } => {
            let asked = if *asked { ", asked to save its work first" } else { "" };
            format!("evicted with {}{asked}{data}", whole(gang))
        }
        Way::Evicted { gang: None, .. } => format!("evicted{data}"),
    }
}

fn budgets(guest: &Guest) -> String {
    let one = |(name, allowed): &(crate::ids::NamespacedName, i32)| format!("{name} allows {}", (*allowed).max(0));
    let all: Vec<String> = guest.budgets.iter().map(one).collect();
    if all.is_empty() { "-".into() } else { clean(&list(&all, usize::MAX)) }
}

/// Everything that has to be out of the way first: of pods, and of the node as a whole.
fn in_the_way(words: &Words<'_>, shown: &Shown<'_>, guests: &[Guest]) -> Option<String> {
    let told: Vec<&WaitingOn> = guests.iter().flat_map(|guest| &guest.in_the_way).collect();
    let of_pods = guests.iter().flat_map(|guest| guest.in_the_way.iter().map(move |wait| (guest, wait)));
    let mut lines: Vec<String> = Vec::new();
    let mut say = |who: String, wait: words::Wait| {
        let line = format!("  {who}{}", wait.on);
        if !lines.contains(&line) {
            lines.push(line);
            lines.extend(wait.remedy.map(|remedy| format!("    to do: {remedy}")));
        }
    };
    for (guest, wait) in of_pods {
        // What needs a person names its pod itself.
        let who = if matches!(wait, WaitingOn::Person(_)) { String::new() } else { format!("{}: ", guest.pod) };
        say(clean(&who), words.waiting(wait));
    }
    for held in shown.plan.held.iter().filter(|held| !told.contains(&&held.waiting_on)) {
        say(String::new(), words.waiting(&held.waiting_on));
    }
    let stuck = |guest: &&Guest| !guest.in_the_way.is_empty();
    if guests.iter().filter(stuck).any(|guest| guest.unmanaged) {
        lines.push("  to take pods along that nobody makes again: --force".into());
    }
    if guests.iter().filter(stuck).any(|guest| guest.local_data) {
        lines.push("  to take pods along with their local data: --delete-emptydir-data".into());
    }
    (!lines.is_empty()).then(|| format!("In the way\n{}", lines.join("\n")))
}
