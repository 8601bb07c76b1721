//! Text in a comment on a pull request or in a channel, where others than us decide what it says: nobody's text becomes
//! markup there, mentions a person, or fills the page.

use super::plan::words::clean;

/// In bytes, which are at least as many as characters. A comment holds 65,536 characters.
pub const BUDGET: usize = 60_000;
/// Nobody's name may fill a comment.
const LONGEST_CELL: usize = 240;

pub fn folded(title: &str, body: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{body}\n\n</details>")
}

pub fn bounded(text: &str) -> String {
    let text = clean(text);
    if text.chars().count() <= LONGEST_CELL {
        return text;
    }
    text.chars().take(LONGEST_CELL).chain(['…']).collect()
}

/// Text from outside in a cell of a table, or in a line.
pub fn cell(text: &str) -> String {
    escaped(&bounded(text))
}

/// Text as text and nothing else: no markup, no mention of a person, no link, no end of a cell.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    // A scheme makes a link of its own.
    for c in text.replace("://", ":\u{200b}//").chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '#' | '!' => out.extend(['\\', c]),
            // A name behind it would be told, and an issue linked.
            '@' => out.push_str("@\u{200b}"),
            c => out.push(c),
        }
    }
    out
}

/// Text as code in a cell.
pub fn code(text: &str) -> String {
    let text = text.replace('`', "'").replace('|', "\\|");
    format!("`{text}`")
}

/// A word inside an HTML comment, which two dashes would end.
pub fn mark(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        .collect::<String>()
        .replace("--", "-")
}

/// A last row that counts what is not shown of a table.
pub fn more(all: usize, most: usize, width: usize) -> Option<String> {
    (all > most).then(|| format!("| | and {} more {}", all - most, "|".repeat(width - 1)))
}
