//! For a pull request or an incident channel: the state first, then who stopped what and what it waits for, then the tables.
//!
//! Long lists are cut short until all of it fits a comment, and what is left out is counted.

use super::{Page, REPORTED, Rows, Said, more, sentence, verdict_name};
use crate::render::comment::{self, BUDGET, bounded, cell, code, escaped, mark};
use crate::render::plan::words::{command, short};
use crate::status::Status;

/// What is told of a list, as long as it is too much.
const MOST: [usize; 4] = [100, 40, 10, 3];

/// At most 60,000 bytes. Ends with a line break.
pub fn markdown(status: &Status, directory: &str) -> String {
    let page = Page::of(status, directory, false);
    let mut text = String::new();
    for most in MOST {
        text = Comment { page: &page, most }.text();
        if text.len() <= BUDGET {
            break;
        }
    }
    text
}

struct Comment<'a> {
    page: &'a Page<'a>,
    /// Lines of each list and table.
    most: usize,
}

impl Comment<'_> {
    fn text(&self) -> String {
        let Page { status, .. } = *self.page;
        let unmet = status.unmet.iter().map(|one| (format!("quota/{}", one.quota), one.why.as_str()));
        let reports = self.page.reports();
        let reports = reports.iter().map(|(node, what)| (node.clone(), what.as_str()));
        let gaps = status.gaps.iter().map(|gap| (gap.what.clone(), gap.why.as_str()));
        let parts = [
            Some(self.head()),
            self.stopped(),
            self.held(),
            self.list("Waits within its guarantee", unmet.collect(), "of these"),
            self.list(REPORTED, reports.collect(), "reported"),
            self.list("Not read, so nothing is removed because of it", gaps.collect(), "not read"),
            self.table(&self.page.pools()),
            self.table(&self.page.reservations()),
            self.table(&self.page.quotas()),
            self.table(&self.page.tides()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n") + "\n"
    }

    fn head(&self) -> String {
        let Page { status, words, .. } = self.page;
        let head = status.revision.as_deref().map_or(String::new(), |revision| format!(" head={}", mark(revision)));
        let marker = format!("<!-- tidewright:status fleet={}{head} -->", mark(status.fleet.as_str()));
        let revision = status.revision.as_deref().map(|text| format!(", revision {}", code(&short(text))));
        let (fleet, state) = (cell(status.fleet.as_str()), escaped(&sentence(status, words.directory)));
        let (verdict, when) = (verdict_name(status.verdict), self.page.when());
        format!("{marker}\n### Tidewright: {fleet}\n\n**{verdict}**: {state}\n\n{when}{}", revision.unwrap_or_default())
    }

    fn stopped(&self) -> Option<String> {
        let lines = self.page.said(self.most, self.most).into_iter().map(|Said { what, back }| match back {
            Some((how, command)) => format!("> ⚠ {}; {how}: {}", cell(&what), code(&command)),
            None => format!("> {what}"),
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n\n"))
    }

    fn held(&self) -> Option<String> {
        let words = &self.page.words;
        let held = words.held(&self.page.status.held);
        if held.is_empty() {
            return None;
        }
        let mut lines = vec![
            "**Waiting**\n".to_string(),
            "| on | wanted | waits | to do |".into(),
            "| --- | --- | --- | --- |".into(),
        ];
        for one in held.iter().take(self.most) {
            let done = one.done_by.map_or(String::new(), |at| format!("; done by {}", words.near(at)));
            let remedy = one.wait.remedy.as_deref().filter(|_| one.wait.patch.is_none());
            lines.push(format!(
                "| {} | {} | {}{done} | {} |",
                cell(&one.first.what.to_string()),
                cell(&one.wanted()),
                cell(&one.wait.on),
                remedy.map_or(String::new(), |remedy| code(&bounded(remedy)))
            ));
        }
        lines.extend(comment::more(held.len(), self.most, 4));
        lines.push(format!("\nAll of it: {}", code(&command("plan", words.directory))));
        Some(lines.join("\n"))
    }

    fn list(&self, title: &str, all: Vec<(String, &str)>, what: &str) -> Option<String> {
        let mut lines = vec![format!("**{title}**\n")];
        lines.extend(all.iter().take(self.most).map(|(on, why)| format!("- {}: {}", cell(on), cell(why))));
        lines.extend(more(all.len(), self.most, what).map(|text| format!("- {text}")));
        (!all.is_empty()).then(|| lines.join("\n"))
    }

    fn table<const N: usize>(&self, table: &Rows<N>) -> Option<String> {
        let bar = |at: usize| if table.counts.contains(&at) { "---:" } else { "---" };
        let head = table.head.map(str::to_lowercase);
        let bars = std::array::from_fn::<_, N, _>(bar);
        let row = |row: &[String; N]| format!("| {} |", row.each_ref().map(|text| cell(text)).join(" | "));
        let mut lines = vec![format!("| {} |", head.join(" | ")), format!("| {} |", bars.join(" | "))];
        lines.extend(table.rows.iter().take(self.most).map(row));
        lines.extend(comment::more(table.rows.len(), self.most, N));
        (!table.rows.is_empty()).then(|| lines.join("\n"))
    }
}
