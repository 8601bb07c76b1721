//! For a person: what is disturbed, then what is held, then what comes; the totals and the next command last.

use super::group::{Group, Kind, groups, longest};
use super::words::{self, MOST_OFF, clean, count, gpu_hours, is_zero, list, money, money_change, range, short};
use super::{Look, Shown, Verdict, stands, verdict};
use crate::effect::{Action, CloudAction, ClusterAction, Thing};
use crate::ids::StepId;
use crate::plan::objects::fields::fields;
use crate::plan::{Disruption, Offer, Plan, Reason, Step};
use crate::render::ink::{BOLD, CYAN, DIM, GREEN, Ink, RED, YELLOW};
use crate::render::progress::{self, action, market_name};
use crate::render::table::{columns, trimmed};
use crate::render::tide::clock::day_and_time;

/// Names that stand in one line before the rest is counted.
const NAMES: usize = 6;
/// Gangs, held things and lines of drift that are told before the rest is counted.
const LINES: usize = 12;
/// Characters of a patch that are shown before the rest is counted.
const PATCH: usize = 400;

/// Ends with a line break.
pub fn human(shown: &Shown<'_>, look: &Look) -> String {
    let page = Page { shown, look, ink: Ink(look.colour), words: shown.words() };
    let groups = groups(shown);
    let parts = [
        Some(page.head(&groups)),
        page.changes(&groups),
        page.held(),
        page.drift(),
        page.upcoming(),
        page.offers(),
        page.released(),
        page.fabric(),
        page.notes(),
        page.left_out(),
        Some(page.footer(&groups)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n") + "\n"
}

/// The changes that need nobody's word, without what stands below them, a line each: for a diary of many plans.
pub fn diary(shown: &Shown<'_>) -> Vec<String> {
    let told = |group: &&Group<'_>| !group.asked && !matches!(group.kind, Kind::Record | Kind::Prepare);
    let groups = groups(shown);
    let lines = groups.iter().filter(told).map(|group| {
        let harm = harm(&group.disruption);
        let harm = if harm.is_empty() { harm } else { format!(": {harm}") };
        format!("{} {}, {}{harm}", group.kind.name(), on(group), size(group))
    });
    lines.collect()
}

struct Page<'a> {
    shown: &'a Shown<'a>,
    look: &'a Look,
    ink: Ink,
    words: words::Words<'a>,
}

impl Page<'_> {
    fn head(&self, groups: &[Group<'_>]) -> String {
        let Shown { input, plan, .. } = *self.shown;
        let standing = &input.target.standing;
        let when = format!("{} ({})", day_and_time(input.now, &self.words.zone), standing.time_zone);
        let revision =
            input.revision.as_deref().map_or(String::new(), |revision| format!(", revision {}", short(revision)));
        let title = format!("Fleet {} at {when}{revision}, plan {}", standing.fleet, short(plan.id.as_str()));
        let counts = counts(self.shown, groups);
        let verdict = match verdict(plan) {
            Verdict::NoChanges => {
                format!("{} {}", self.ink.paint(GREEN, "No changes."), as_wanted(plan))
            }
            Verdict::Blocked => {
                format!(
                    "{} Something is wanted, and all of it is held: {counts}.",
                    self.ink.paint(YELLOW, "No changes.")
                )
            }
            Verdict::Changes => counts,
        };
        let freezes = self.shown.freezes().map(|freeze| {
            let what = match freeze.scope {
                // A name stays as it is written.
                crate::effect::Scope::Fleet => capital(&words::scope(&freeze.scope)),
                _ => words::scope(&freeze.scope),
            };
            let line = format!("{what} is {}", self.words.freeze(&freeze));
            format!("\n{}\n  to lift it: {}", self.ink.paint(YELLOW, &line), self.words.thaw(&freeze))
        });
        let off = self.words.hands_off.iter().take(MOST_OFF).map(|(node, why)| {
            let line = self.ink.paint(YELLOW, &words::hands_off(node, why));
            format!("\n{line}\n  to take that back: {}", words::hands_on(node))
        });
        let more = self.words.hands_off.len().saturating_sub(MOST_OFF);
        let more = if more > 0 { format!("\nand {more} more nodes with hands-off") } else { String::new() };
        let stops: String = freezes.chain(off).chain([more]).collect();
        format!("{}\n{verdict}{stops}", self.ink.paint(BOLD, &title))
    }

    fn heading(&self, text: &str) -> String {
        self.ink.paint(BOLD, text)
    }

    fn changes(&self, groups: &[Group<'_>]) -> Option<String> {
        // What is only remembered or prepared is told where somebody asked for everything, or where there is no more.
        let quiet = |group: &&Group<'_>| matches!(group.kind, Kind::Record | Kind::Prepare);
        let all = self.look.verbose || groups.iter().all(|group| quiet(&group));
        let groups: Vec<&Group<'_>> = groups.iter().filter(|group| all || !quiet(group)).collect();
        if groups.is_empty() {
            return None;
        }
        let rows: Vec<[String; 3]> =
            groups.iter().map(|group| [group.kind.name().into(), on(group), size(group)]).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        let mut lines = vec![self.heading("Changes, the riskiest first")];
        for (group, [verb, on, size]) in groups.iter().zip(&rows) {
            let style = match group.kind {
                Kind::Remove | Kind::Cancel | Kind::Delete => RED,
                Kind::Drain
                | Kind::Release
                | Kind::Exchange
                | Kind::Replace
                | Kind::Reboot
                | Kind::Cut
                | Kind::Purchase => YELLOW,
                Kind::Launch | Kind::Claim | Kind::Create | Kind::Reserve => GREEN,
                Kind::Prepare | Kind::Record => DIM,
                _ => CYAN,
            };
            let sign = self.ink.paint(style, &format!("{:<2} {verb:<w$}", group.kind.sign(), w = widths[0]));
            let (a, b) = (widths[1], widths[2]);
            let line = format!("  {sign}  {on:<a$}  {size:<b$}  {}", effect(group));
            lines.push(line.trim_end().to_string());
            lines.extend(
                self.details(group)
                    .into_iter()
                    .map(|(name, text)| format!("       {} {text}", self.ink.paint(DIM, &format!("{name:<6}")))),
            );
        }
        Some(lines.join("\n"))
    }

    /// What stands below a line: a word and what it says.
    fn details(&self, group: &Group<'_>) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let most = if self.look.verbose { usize::MAX } else { NAMES };
        // That the documents ask for something is news only to whom it disturbs.
        let asked_for = group.why == self.words.reason(&Reason::Wanted) && group.disruption.is_none();
        if group.why.is_empty() && group.kind == Kind::Change {
            lines.push(("why", self.words.reason(&Reason::Bookkeeping)));
        }
        if !group.why.is_empty() && !asked_for {
            lines.push(("why", group.why.clone()));
        }
        let what = contents(self.shown, group, most);
        lines.extend((!what.is_empty()).then_some(("what", what)));
        let hit = &group.disruption;
        let gangs = hit.gangs.iter().take(if self.look.verbose { usize::MAX } else { LINES });
        lines.extend(gangs.map(|gang| ("gang", words::gang(gang))));
        if !self.look.verbose && hit.gangs.len() > LINES {
            lines.push(("gang", format!("and {} more", hit.gangs.len() - LINES)));
        }
        let names = |names: &[crate::ids::NamespacedName]| {
            let names: Vec<String> = names.iter().map(|name| clean(&name.to_string())).collect();
            list(&names, most)
        };
        if !hit.blocked_by.is_empty() {
            let allow = if hit.blocked_by.len() == 1 { "allows" } else { "allow" };
            lines.push(("PDB", format!("{} {allow} no eviction now", names(&hit.blocked_by))));
        }
        if !hit.lost.is_empty() {
            let why = match hit.lost.len() {
                1 => "nobody makes it again, or its local data goes with it",
                _ => "nobody makes them again, or their local data goes with them",
            };
            lines.push(("lost", format!("{}: {why}", names(&hit.lost))));
        }
        if group.asked {
            lines.push(("asks", "needs an approval".into()));
        }
        if self.look.verbose {
            lines.extend(group.steps.iter().map(|step| ("step", step_line(self.shown.plan, group, step))));
        }
        lines
    }

    fn held(&self) -> Option<String> {
        let held = self.words.held(&self.shown.plan.held);
        if held.is_empty() {
            return None;
        }
        let mut lines = vec![self.heading("Held: wanted, and not done now")];
        let width = held.iter().map(|one| one.first.what.to_string().chars().count()).max().unwrap_or(0);
        let most = if self.look.verbose { usize::MAX } else { LINES };
        for one in held.iter().take(most) {
            let (what, wait) = (one.first.what.to_string(), &one.wait);
            lines.push(format!("  {} {what:<width$}  {}", self.ink.paint(YELLOW, "x"), one.wanted()));
            let mut detail = |name: &str, text: &str| {
                lines.push(format!("       {} {text}", self.ink.paint(DIM, &format!("{name:<6}"))));
            };
            detail("waits", &wait.on);
            if let Some(remedy) = &wait.remedy {
                detail("to do", remedy);
            }
            if let Some(patch) = &wait.patch {
                let shown = if self.look.verbose { patch.clone() } else { shortened(patch) };
                shown.lines().for_each(|line| detail("", &format!("  {line}")));
            }
            let harm = harm(&one.disruption);
            if !harm.is_empty() {
                detail("then", &harm);
            }
            let gangs = &one.disruption.gangs;
            gangs.iter().take(most.min(NAMES)).for_each(|gang| detail("gang", &words::gang(gang)));
            if gangs.len() > most.min(NAMES) {
                detail("gang", &format!("and {} more", gangs.len() - most.min(NAMES)));
            }
            if let Some(done) = one.done_by {
                detail("done", &format!("by {}, as it looks now", self.words.near(done)));
            }
        }
        lines.extend(self.more(held.len(), most));
        Some(lines.join("\n"))
    }

    fn more(&self, all: usize, most: usize) -> Option<String> {
        (all > most).then(|| format!("  and {} more (--verbose shows all)", all - most))
    }

    fn drift(&self) -> Option<String> {
        let drift = &self.shown.plan.drift;
        if drift.is_empty() {
            return None;
        }
        let most = if self.look.verbose { usize::MAX } else { LINES };
        let mut lines = vec![self.heading("Drift: somebody else moved it")];
        for one in drift.iter().take(most) {
            let by = one.by.as_deref().map_or("somebody".into(), clean);
            let at = one.at.map_or(String::new(), |at| format!(" at {}", self.words.near(at)));
            let back = if one.step.is_some() { "put back" } else { "left as it is" };
            lines.push(format!(
                "  {}: {} → {} by {by}{at}; {back}",
                clean(&one.what),
                clean(&one.from),
                clean(&one.to)
            ));
        }
        lines.extend(self.more(drift.len(), most));
        Some(lines.join("\n"))
    }

    fn upcoming(&self) -> Option<String> {
        let upcoming = &self.shown.plan.upcoming;
        if upcoming.is_empty() {
            return None;
        }
        let most = if self.look.verbose { usize::MAX } else { LINES };
        let hurts = upcoming.iter().any(|one| !one.disruption.is_none());
        let mut rows = columns(["WHEN", "WHAT", "CHANGE", if hurts { "DISTURBS, AS IT IS NOW" } else { "" }], &[]);
        let mut last = String::new();
        for one in upcoming.iter().take(most) {
            let when = self.words.near(one.at);
            let shown = if when == last { String::new() } else { when.clone() };
            last = when;
            let harm = harm(&one.disruption);
            let harm = if hurts && harm.is_empty() { "-".into() } else { harm };
            rows.add_row([shown, one.what.to_string(), clean(&one.change), harm]);
        }
        let table: String = trimmed(&rows).lines().map(|line| format!("\n  {line}")).collect();
        let more = self.more(upcoming.len(), most).map_or(String::new(), |more| format!("\n{more}"));
        let heading = match hurts {
            true => "The tide in the next 24 hours",
            false => "The tide in the next 24 hours, which disturbs nobody that runs now",
        };
        Some(format!("{}{table}{more}", self.heading(heading)))
    }

    fn offers(&self) -> Option<String> {
        let offers = &self.shown.plan.offers;
        if offers.is_empty() {
            return None;
        }
        let mut rows = columns(["RESERVATION", "OFFER", "NODES", "ZONE", "FROM", "TO", "UPFRONT", ""], &[2, 6]);
        for offer in offers {
            rows.add_row(offer_row(offer, &|at| day_and_time(at, &self.words.zone)));
        }
        let table: String = trimmed(&rows).lines().map(|line| format!("\n  {line}")).collect();
        Some(format!("{}{table}", self.heading("Capacity Blocks on offer")))
    }

    fn released(&self) -> Option<String> {
        let released = &self.shown.plan.released;
        if released.is_empty() {
            return None;
        }
        let lines = released.iter().map(|one| format!("\n  {}: {}", clean(&one.what), clean(&one.stays)));
        let heading = self.heading("Released: no longer in the documents, so no longer managed. Nothing is destroyed");
        Some(heading + &lines.collect::<String>())
    }

    fn notes(&self) -> Option<String> {
        let notes = &self.shown.plan.notes;
        let lines = notes.iter().map(|note| format!("\n  {}: {}", note.on, clean(&note.text)));
        (!notes.is_empty()).then(|| self.heading("Good to know") + &lines.collect::<String>())
    }

    /// Where pools stand and why, and how broken up the free GPUs are, before and after.
    fn fabric(&self) -> Option<String> {
        let found = self.shown.plan.stands.as_ref()?;
        let most = if self.look.verbose { usize::MAX } else { LINES };
        let mut lines = stands::pools(found, most);
        lines.extend(stands::slots(found).lines().map(str::to_string));
        lines.extend(found.fragmented.as_ref().map(stands::fragmented));
        let bought = stands::bargains(found, most);
        lines.extend(bought.iter().map(|line| format!("moves  {line}")));
        lines.extend(stands::odd(found, most));
        let lines: String = lines.iter().map(|line| format!("\n  {}", clean(line).trim_end())).collect();
        Some(self.heading(&stands::heading(found)) + &lines)
    }

    fn left_out(&self) -> Option<String> {
        let left_out: Vec<String> = self.shown.plan.left_out.iter().map(Thing::to_string).collect();
        let most = if self.look.verbose { usize::MAX } else { LINES };
        (!left_out.is_empty())
            .then(|| format!("Left out, because only a part was asked for: {}", list(&left_out, most)))
    }

    fn footer(&self, groups: &[Group<'_>]) -> String {
        let Shown { plan, .. } = *self.shown;
        let mut lines = vec![format!("Plan: {}.", totals(self.shown, groups))];
        lines.extend(cost(self.shown).map(|cost| format!("Cost: {cost}")));
        if !plan.steps.is_empty() {
            let all: Vec<&Step> = plan.steps.iter().collect();
            lines.push(format!("Time: {}", range(longest(&all))));
            let asks = self.shown.asks();
            lines.push(format!("Digest: {}", plan.digest));
            lines.push(match self.shown.is_now {
                true => format!("To carry it out: {} ({asks})", self.shown.apply_command()),
                false => "This is what would be done at that time; nothing of it can be carried out now.".into(),
            });
        } else if !plan.effects.is_empty() {
            lines.push(format!("Digest: {}", plan.digest));
        }
        lines.join("\n")
    }
}

/// What it means that there is nothing to do.
pub fn as_wanted(plan: &Plan) -> &'static str {
    match plan.left_out.is_empty() {
        true => "The fleet is as the documents say.",
        false => "This part is as the documents say; others, which were left out, are not.",
    }
}

/// "2 changes, 1 held, 1 drifted, 3 scheduled"
pub fn counts(shown: &Shown<'_>, groups: &[Group<'_>]) -> String {
    let plan = shown.plan;
    let changes = groups.iter().filter(|group| !matches!(group.kind, Kind::Record | Kind::Prepare)).count();
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let mut parts = Vec::new();
    if !plan.steps.is_empty() {
        parts.push(if changes == 0 { "only bookkeeping".into() } else { count(number(changes), "change") });
    }
    let others = [(plan.held.len(), "held"), (plan.drift.len(), "drifted"), (plan.upcoming.len(), "scheduled")];
    parts.extend(others.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")));
    parts.join(", ")
}

/// "2 nodes to replace, 3 nodes to launch, 12 objects to create; 1 held"
pub fn totals(shown: &Shown<'_>, groups: &[Group<'_>]) -> String {
    let mut sums: Vec<(Kind, &str, u32)> = Vec::new();
    for group in groups.iter().filter(|group| !matches!(group.kind, Kind::Record | Kind::Prepare)) {
        match sums.iter_mut().find(|(kind, unit, _)| *kind == group.kind && *unit == group.unit) {
            Some((.., sum)) => *sum += group.count,
            None => sums.push((group.kind, group.unit, group.count)),
        }
    }
    let parts: Vec<String> =
        sums.iter().map(|(kind, unit, sum)| format!("{} to {}", count(*sum, unit), kind.name())).collect();
    let done = if parts.is_empty() { "no changes".into() } else { parts.join(", ") };
    let held = shown.plan.held.len();
    if held > 0 { format!("{done}; {held} held") } else { done }
}

pub fn cost(shown: &Shown<'_>) -> Option<String> {
    let cost = &shown.plan.cost;
    let mut parts = Vec::new();
    if !is_zero(cost.hourly_now) || !is_zero(cost.hourly_after) {
        parts.push(format!("on demand and spot {} an hour", money_change(cost.hourly_now, cost.hourly_after)));
    }
    if !is_zero(cost.reserved_now) || !is_zero(cost.reserved_after) {
        let reserved = money_change(cost.reserved_now, cost.reserved_after);
        let idle = money_change(cost.idle_now, cost.idle_after);
        parts.push(format!("reserved {reserved} an hour, of which idle {idle}"));
    }
    if !is_zero(cost.upfront) {
        parts.push(format!("{} upfront, once", money(cost.upfront)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

pub fn on(group: &Group<'_>) -> String {
    group.on.as_ref().map_or_else(|| "cluster".into(), Thing::to_string)
}

/// "6 nodes, 48 GPUs"
pub fn size(group: &Group<'_>) -> String {
    let reserved = group.steps.iter().find_map(|step| match &step.action {
        Action::Cloud(CloudAction::Reserve(request)) => Some(request.nodes),
        _ => None,
    });
    if let Some(nodes) = reserved {
        return count(nodes, "node");
    }
    let gpus = if group.gpus > 0 { format!(", {}", count(group.gpus, "GPU")) } else { String::new() };
    count(group.count, group.unit) + &gpus
}

/// "14 pods, 2 gangs of nlp and vision, ~31 GPU-h at risk; +$43.92/h; 11–18 min"
fn effect(group: &Group<'_>) -> String {
    let mut parts = Vec::new();
    if matches!(group.kind, Kind::Record | Kind::Prepare) {
        return String::new();
    }
    let harm = harm(&group.disruption);
    parts.push(if harm.is_empty() { "disturbs nobody".into() } else { harm });
    parts.extend(price(group));
    if group.takes.1 > 0 {
        parts.push(range(group.takes));
    }
    parts.join("; ")
}

pub fn price(group: &Group<'_>) -> Option<String> {
    let (mut hourly, mut upfront) = (rust_decimal::Decimal::ZERO, rust_decimal::Decimal::ZERO);
    for amount in group.effects.0.values() {
        hourly += amount.usd_hour.0;
        upfront += amount.usd_upfront.0;
    }
    let hourly = (!hourly.is_zero()).then(|| format!("+{}/h", money(crate::units::Usd(hourly))));
    let upfront = (!upfront.is_zero()).then(|| format!("{} upfront", money(crate::units::Usd(upfront))));
    let parts: Vec<String> = hourly.into_iter().chain(upfront).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// "14 pods, 2 gangs of nlp and vision, ~31 GPU-h at risk"; empty where nobody is disturbed.
pub fn harm(hit: &Disruption) -> String {
    if hit.is_none() {
        return String::new();
    }
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let mut parts = vec![count(hit.pods, "pod")];
    if !hit.gangs.is_empty() {
        parts.push(count(number(hit.gangs.len()), "gang"));
    }
    if !hit.teams.is_empty() {
        let teams: Vec<String> = hit.teams.iter().map(|team| team.to_string()).collect();
        let last = parts.pop().unwrap_or_default();
        parts.push(format!("{last} of {}", list(&teams, NAMES)));
    }
    if hit.gpu_secs > 0 {
        parts.push(format!("{} at risk", gpu_hours(hit.gpu_secs)));
    }
    if !hit.blocked_by.is_empty() {
        parts.push(format!("{} in the way", count(number(hit.blocked_by.len()), "PDB")));
    }
    parts.join(", ")
}

/// What a group holds, where its line does not say it: which sources nodes come from, which objects are written.
pub fn contents(shown: &Shown<'_>, group: &Group<'_>, most: usize) -> String {
    let mut sources: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    let mut named: Vec<String> = Vec::new();
    for step in &group.steps {
        match &step.action {
            Action::Cloud(CloudAction::Launch(request)) => {
                let source = match &request.reservation {
                    Some(id) => format!("in {id}, {}", request.zone),
                    None => format!("{}, {}", market_name(request.market), request.zone),
                };
                *sources.entry(format!("{} {source}", request.instance_type)).or_default() += 1;
            }
            Action::Cluster(ClusterAction::Apply(object)) => {
                let there = shown.input.observed.cluster.objects.seen().get(&object.key);
                let moved = there.map(|there| fields(object.key.kind, &there.body, &object.body)).unwrap_or_default();
                let moved: Vec<String> = moved.iter().map(|field| clean(&field.change())).collect();
                let moved = if moved.is_empty() { String::new() } else { format!(": {}", list(&moved, most.min(3))) };
                named.push(format!("{}{moved}", object.key.words()));
            }
            Action::Cluster(ClusterAction::Delete(key) | ClusterAction::Disown(key)) => named.push(key.words()),
            Action::Cluster(ClusterAction::Dress { node, labels, taints, remove_taints, .. })
                if group.kind == Kind::Change =>
            {
                let labels = labels.iter().map(|(key, value)| match value {
                    Some(value) => format!("{key}={value}"),
                    None => format!("{key}-"),
                });
                let taints = taints.iter().map(|taint| format!("+taint {}", taint.key));
                let off = remove_taints.iter().map(|taint| format!("-taint {}", taint.key));
                let all: Vec<String> = labels.chain(taints).chain(off).map(|one| clean(&one)).collect();
                named.push(format!("{node}: {}", list(&all, 3)));
            }
            Action::Cluster(ClusterAction::Cut { node, .. }) => named.push(node.to_string()),
            Action::Cluster(ClusterAction::Cordon { node, .. }) if group.kind == Kind::Drain => {
                named.push(node.to_string())
            }
            Action::Cluster(ClusterAction::Uncordon { node }) if group.kind == Kind::Reopen => {
                named.push(node.to_string())
            }
            Action::Cluster(_) | Action::Await(_) => {}
            Action::Cloud(CloudAction::Terminate { slot, instance } | CloudAction::Reboot { slot, instance }) => {
                named.push(format!("{slot} ({instance})"));
            }
            Action::Cloud(_) => named.push(action(&step.action)),
            Action::Record(_) if group.kind == Kind::Record => named.push(action(&step.action)),
            Action::Record(_) => {}
        }
    }
    let sources: Vec<String> = sources.into_iter().map(|(source, number)| format!("{number} × {source}")).collect();
    let named = if group.kind == Kind::Create { by_kind(&named) } else { named };
    match (list(&named, most), list(&sources, most)) {
        (named, sources) if named.is_empty() || sources.is_empty() => named + &sources,
        (named, sources) => format!("{named}, by {sources}"),
    }
}

/// "4 ClusterQueue, 4 LocalQueue": many objects by their kinds, few by their names.
fn by_kind(named: &[String]) -> Vec<String> {
    if named.len() <= NAMES {
        return named.to_vec();
    }
    let mut kinds: Vec<(&str, u32)> = Vec::new();
    for kind in named.iter().filter_map(|name| name.split(' ').next()) {
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, number)) => *number += 1,
            None => kinds.push((kind, 1)),
        }
    }
    kinds.into_iter().map(|(kind, number)| format!("{number} {kind}")).collect()
}

pub fn offer_row(offer: &Offer, when: &dyn Fn(jiff::Timestamp) -> String) -> [String; 8] {
    let extends = if offer.extends.is_some() { " (extends)" } else { "" };
    [
        format!("{}{extends}", offer.reservation),
        offer.offering.to_string(),
        offer.nodes.to_string(),
        offer.zone.to_string(),
        when(offer.start),
        when(offer.end),
        money(offer.fee),
        clean(&offer.verdict),
    ]
}

/// A step with how long it takes, and what it comes after, where that stands below another line of the plan.
fn step_line(plan: &Plan, group: &Group<'_>, step: &Step) -> String {
    let is_told = |id: &StepId| group.steps.iter().any(|other| other.id == *id);
    let others = step.after.iter().filter(|id| !is_told(id));
    let others: Vec<String> = others.filter_map(|id| plan.step(id)).map(progress::step).collect();
    let after = (!others.is_empty()).then(|| format!("after: {}", list(&others, 2)));
    let takes = (step.takes.1 > 0).then(|| range(step.takes));
    let told: Vec<String> = takes.into_iter().chain(after).collect();
    let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join("; ")) };
    format!("{}{told}", progress::step(step))
}

/// As much of a change to make elsewhere as a reader looks at.
fn shortened(patch: &str) -> String {
    if patch.chars().count() <= PATCH {
        return patch.into();
    }
    let (shown, more): (String, usize) = (patch.chars().take(PATCH).collect(), patch.chars().count() - PATCH);
    format!("{shown}… and {more} characters more (whole with --verbose, and with --output json)")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
