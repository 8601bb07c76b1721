//! For a pull request: the verdict first, a table of who is disturbed, what is held; the rest folded away.
//!
//! What does not fit a comment is dropped in a fixed order: steps, then the names of gangs and objects, then drift and
//! notes, then the tide, then lines of the tables. The verdict, the counts, the cost, the digest and the head of both
//! tables always stay.

use super::group::{Group, Kind, groups, longest};
use super::human::{contents, cost, counts, harm, on, price, size, totals};
use super::words::{self, MOST_OFF, range, short};
use super::{Shown, Verdict, stands, verdict};
use crate::plan::{Disruption, Step};
use crate::render::comment::{self, BUDGET, bounded, cell, code, folded, mark};
use crate::render::progress;
use crate::render::tide::clock::day_and_time;

/// Gangs, budgets and pods that are named of one change.
const NAMES: usize = 20;

/// What is still told: each level drops something more.
#[derive(Clone, Copy)]
struct Level {
    steps: bool,
    names: bool,
    drift: bool,
    tide: bool,
    /// Lines of each table.
    lines: usize,
}

const LEVELS: [Level; 6] = [
    Level { steps: true, names: true, drift: true, tide: true, lines: 100 },
    Level { steps: false, names: true, drift: true, tide: true, lines: 100 },
    Level { steps: false, names: false, drift: true, tide: true, lines: 100 },
    Level { steps: false, names: false, drift: false, tide: true, lines: 100 },
    Level { steps: false, names: false, drift: false, tide: false, lines: 40 },
    Level { steps: false, names: false, drift: false, tide: false, lines: 10 },
];

/// At most 60,000 bytes. Ends with a line break.
pub fn markdown(shown: &Shown<'_>) -> String {
    let groups = groups(shown);
    let mut text = String::new();
    for level in LEVELS {
        text = Page { shown, groups: &groups, level, words: shown.words() }.text();
        if text.len() <= BUDGET {
            break;
        }
    }
    text
}

struct Page<'a> {
    shown: &'a Shown<'a>,
    groups: &'a [Group<'a>],
    level: Level,
    words: words::Words<'a>,
}

impl Page<'_> {
    fn text(&self) -> String {
        let parts = [
            Some(self.head()),
            self.changes(),
            self.held(),
            self.patches(),
            Some(self.totals()),
            self.details(),
            self.drift(),
            self.upcoming(),
            self.offers(),
            self.released(),
            self.fabric(),
            self.notes(),
            self.left_out(),
            self.dropped(),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n") + "\n"
    }

    fn head(&self) -> String {
        let Shown { input, plan, .. } = *self.shown;
        let standing = &input.target.standing;
        let head = input.revision.as_deref().map_or(String::new(), |revision| format!(" head={}", mark(revision)));
        let fleet = mark(standing.fleet.as_str());
        let marker = format!("<!-- tidewright:plan fleet={fleet} digest=sha256:{}{head} -->", plan.digest);
        let verdict = match verdict(plan) {
            Verdict::NoChanges => format!("**No changes.** {}", super::human::as_wanted(plan)),
            Verdict::Blocked => {
                format!(
                    "**No changes now:** something is wanted, and all of it is held ({}).",
                    counts(self.shown, self.groups)
                )
            }
            Verdict::Changes => format!("**{}**", counts(self.shown, self.groups)),
        };
        let when = day_and_time(input.now, &self.words.zone);
        let revision =
            input.revision.as_deref().map_or(String::new(), |text| format!(", revision {}", code(&short(text))));
        let plan_id = code(&short(plan.id.as_str()));
        let freezes = self.shown.freezes().map(|freeze| {
            let (scope, why) = (words::scope(&freeze.scope), cell(&self.words.freeze(&freeze)));
            format!("\n\n> ⚠ {} is {why}; to lift it: {}", cell(&scope), code(&self.words.thaw(&freeze)))
        });
        let off = self.words.hands_off.iter().take(MOST_OFF).map(|(node, why)| {
            let (line, back) = (cell(&words::hands_off(node, why)), code(&words::hands_on(node)));
            format!("\n\n> ⚠ {line}; to take that back: {back}")
        });
        let freezes: String = freezes.chain(off).collect();
        format!(
            "{marker}\n### Tidewright: {}\n\n{verdict}{freezes}\n\nPlan {plan_id}{revision}, {when} ({})",
            cell(standing.fleet.as_str()),
            standing.time_zone
        )
    }

    fn told(&self) -> impl Iterator<Item = &Group<'_>> {
        self.groups.iter().filter(|group| !matches!(group.kind, Kind::Record | Kind::Prepare))
    }

    fn changes(&self) -> Option<String> {
        let all = self.told().count();
        if all == 0 {
            return None;
        }
        let mut lines = vec![
            "| | change | on | how much | disturbs | cost | takes | |".to_string(),
            "| --- | --- | --- | --- | --- | --- | --- | --- |".to_string(),
        ];
        for group in self.told().take(self.level.lines) {
            let harm = harm(&group.disruption);
            let harm = if harm.is_empty() { "nobody".into() } else { cell(&harm) };
            let takes = if group.takes.1 > 0 { range(group.takes) } else { String::new() };
            let asks = if group.asked { "**needs an approval**" } else { "" };
            lines.push(format!(
                "| {} | {} | {} | {} | {harm} | {} | {takes} | {asks} |",
                code(group.kind.sign()),
                group.kind.name(),
                cell(&on(group)),
                size(group),
                price(group).unwrap_or_default(),
            ));
        }
        lines.extend(self.more(all, 8));
        Some(lines.join("\n"))
    }

    /// A last row that counts what is not shown.
    fn more(&self, all: usize, width: usize) -> Option<String> {
        comment::more(all, self.level.lines, width)
    }

    fn held(&self) -> Option<String> {
        let held = self.words.held(&self.shown.plan.held);
        if held.is_empty() {
            return None;
        }
        let mut lines = vec![
            "**Held**\n".to_string(),
            "| on | wanted | waits | then disturbs | to do |".into(),
            "| --- | --- | --- | --- | --- |".into(),
        ];
        for one in held.iter().take(self.level.lines) {
            let wait = &one.wait;
            let done = one.done_by.map_or(String::new(), |at| format!("; done by {}", self.words.near(at)));
            let remedy = wait.remedy.as_deref().map_or(String::new(), |remedy| code(&bounded(remedy)));
            let patch = if wait.patch.is_some() && self.level.names { " below" } else { "" };
            lines.push(format!(
                "| {} | {} | {}{done} | {} | {remedy}{patch} |",
                cell(&one.first.what.to_string()),
                cell(&one.wanted()),
                cell(&wait.on),
                cell(&harm(&one.disruption))
            ));
        }
        lines.extend(self.more(held.len(), 5));
        Some(lines.join("\n"))
    }

    /// Whole, because half a command is none.
    fn patches(&self) -> Option<String> {
        let held = self.words.held(&self.shown.plan.held);
        let mut patches: Vec<String> = Vec::new();
        for patch in held.into_iter().filter_map(|one| one.wait.patch) {
            if !patches.contains(&patch) {
                patches.push(patch);
            }
        }
        if patches.is_empty() || !self.level.names {
            return None;
        }
        let block = |patch: &String| format!("```sh\n{}\n```", patch.replace("```", "'''"));
        Some(folded("Changes to make elsewhere", &patches.iter().map(block).collect::<Vec<_>>().join("\n\n")))
    }

    fn totals(&self) -> String {
        let Shown { plan, .. } = *self.shown;
        let mut lines = vec![format!("Plan: {}.", totals(self.shown, self.groups))];
        lines.extend(cost(self.shown).map(|cost| format!("Cost: {cost}.")));
        if !plan.steps.is_empty() {
            let all: Vec<&Step> = plan.steps.iter().collect();
            lines.push(format!("Takes {}.", range(longest(&all))));
        }
        lines.push(format!("Digest {}", code(plan.digest.as_str())));
        if !plan.steps.is_empty() && self.shown.is_now {
            lines.push(format!("To carry it out: {} ({})", code(&self.shown.apply_command()), self.shown.asks()));
        }
        lines.join("  \n")
    }

    fn details(&self) -> Option<String> {
        if !self.level.names {
            return None;
        }
        let lines: Vec<String> = self.changed().into_iter().chain(self.waiting()).collect();
        (!lines.is_empty()).then(|| folded("Details", &lines.join("\n")))
    }

    /// Whose work it is that what is held will disturb.
    fn waiting(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let held = self.words.held(&self.shown.plan.held);
        let hurts = held.iter().filter(|one| !one.disruption.gangs.is_empty() || !one.disruption.lost.is_empty());
        for one in hurts.take(self.level.lines) {
            lines.push(format!("- **held {}**: {}", cell(&one.first.what.to_string()), cell(&one.wanted())));
            lines.extend(victims(&one.disruption).into_iter().map(|text| format!("  - {text}")));
        }
        lines
    }

    /// What is done, line by line.
    fn changed(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for group in self.told().take(self.level.lines) {
            lines.push(format!("- **{} {}**, {}", group.kind.name(), cell(&on(group)), size(group)));
            let mut item = |text: String| lines.push(format!("  - {text}"));
            if !group.why.is_empty() {
                item(cell(&group.why));
            }
            let what = contents(self.shown, group, 20);
            if !what.is_empty() {
                item(cell(&what));
            }
            victims(&group.disruption).into_iter().for_each(&mut item);
            if self.level.steps {
                group.steps.iter().take(100).for_each(|step| item(cell(&progress::step(step))));
            }
        }
        lines
    }

    fn drift(&self) -> Option<String> {
        let drift = &self.shown.plan.drift;
        if drift.is_empty() || !self.level.drift {
            return None;
        }
        let lines = drift.iter().take(self.level.lines).map(|one| {
            let by = one.by.as_deref().unwrap_or("somebody");
            let at = one.at.map_or(String::new(), |at| format!(" at {}", self.words.near(at)));
            let back = if one.step.is_some() { "put back" } else { "left as it is" };
            format!("- {}: {} → {} by {}{at}; {back}", cell(&one.what), cell(&one.from), cell(&one.to), cell(by))
        });
        Some(folded(&format!("Drift ({})", drift.len()), &lines.collect::<Vec<_>>().join("\n")))
    }

    fn upcoming(&self) -> Option<String> {
        let upcoming = &self.shown.plan.upcoming;
        if upcoming.is_empty() || !self.level.tide {
            return None;
        }
        let lines = upcoming.iter().take(self.level.lines).map(|one| {
            let harm = harm(&one.disruption);
            let harm =
                if harm.is_empty() { String::new() } else { format!(" (disturbs, as it is now: {})", cell(&harm)) };
            format!("- {}: {}: {}{harm}", self.words.near(one.at), cell(&one.what.to_string()), cell(&one.change))
        });
        let title = format!("The tide in the next 24 hours ({})", upcoming.len());
        Some(folded(&title, &lines.collect::<Vec<_>>().join("\n")))
    }

    fn offers(&self) -> Option<String> {
        let offers = &self.shown.plan.offers;
        if offers.is_empty() {
            return None;
        }
        let mut lines = vec![
            "**Capacity Blocks on offer**\n".to_string(),
            "| reservation | offer | nodes | zone | from | to | upfront | |".into(),
            "| --- | --- | ---: | --- | --- | --- | ---: | --- |".into(),
        ];
        for offer in offers.iter().take(self.level.lines) {
            let row = super::human::offer_row(offer, &|at| day_and_time(at, &self.words.zone));
            lines.push(format!("| {} |", row.map(|text| cell(&text)).join(" | ")));
        }
        lines.extend(self.more(offers.len(), 8));
        Some(lines.join("\n"))
    }

    fn released(&self) -> Option<String> {
        let released = &self.shown.plan.released;
        if released.is_empty() {
            return None;
        }
        let lines = released.iter().take(self.level.lines);
        let lines = lines.map(|one| format!("\n- {}: {}", cell(&one.what), cell(&one.stays)));
        Some(format!("**Released from management; nothing is destroyed**\n{}", lines.collect::<String>()))
    }

    fn notes(&self) -> Option<String> {
        let notes = &self.shown.plan.notes;
        if notes.is_empty() || !self.level.drift {
            return None;
        }
        let lines = notes.iter().take(self.level.lines);
        let lines = lines.map(|note| format!("\n- {}: {}", cell(&note.on.to_string()), cell(&note.text)));
        Some(format!("**Good to know**\n{}", lines.collect::<String>()))
    }

    fn fabric(&self) -> Option<String> {
        let found = self.shown.plan.stands.as_ref().filter(|_| self.level.drift)?;
        let mut lines = Vec::new();
        for pool in found.pools.iter().take(self.level.lines) {
            let said = stands::pool_lines(found, pool);
            lines.push(format!("- **pool/{}**: {}", pool.pool, cell(&said[0])));
            lines.extend(said[1..].iter().map(|line| format!("  - {}", cell(line.trim()))));
        }
        let bought = stands::bargains(found, self.level.lines);
        lines.extend(bought.iter().map(|line| format!("- moves {}", cell(line))));
        lines.extend(stands::odd(found, self.level.lines).iter().map(|line| format!("- {}", cell(line))));
        lines.extend(found.fragmented.as_ref().map(|found| format!("- {}", stands::fragmented(found))));
        lines.push(format!("\n```\n{}\n```", stands::slots(found)));
        Some(folded(&stands::heading(found), &lines.join("\n")))
    }

    fn left_out(&self) -> Option<String> {
        let left_out: Vec<String> = self.shown.plan.left_out.iter().map(|thing| cell(&thing.to_string())).collect();
        (!left_out.is_empty()).then(|| {
            format!("Left out, because only a part was asked for: {}", words::list(&left_out, self.level.lines))
        })
    }

    fn dropped(&self) -> Option<String> {
        (!self.level.steps).then(|| {
            let command = words::command("plan", self.shown.directory);
            format!(
                "Some detail was left out to fit a comment: {} shows all of it.",
                code(&format!("{command} --verbose"))
            )
        })
    }
}

/// Gangs, budgets and pods by their names.
fn victims(hit: &Disruption) -> Vec<String> {
    let gangs = hit.gangs.iter().take(NAMES).map(|gang| format!("gang {}", cell(&words::gang(gang))));
    let budgets = hit.blocked_by.iter().take(NAMES);
    let budgets = budgets.map(|name| format!("PodDisruptionBudget {} allows no eviction now", cell(&name.to_string())));
    let lost = hit.lost.iter().take(NAMES).map(|pod| {
        format!("{} is lost: nobody makes it again, or its local data goes with it", cell(&pod.to_string()))
    });
    gangs.chain(budgets).chain(lost).collect()
}
