//! For a GitHub workflow: one command a diagnostic, which the runner turns into an annotation on the changed lines.

use super::{Places, Region};
use crate::diag::{Diagnostic, Severity, Sources};

/// One line a diagnostic. GitHub shows the first ten of each severity in a step; the log has all.
pub fn github(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let places = Places::new(sources, diagnostics);
    diagnostics.iter().map(|diagnostic| command(&places, diagnostic)).collect()
}

fn command(places: &Places<'_>, diagnostic: &Diagnostic) -> String {
    let command = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let title = escape_property(&format!("{} {}", diagnostic.code, diagnostic.code.title()));
    let place = diagnostic.span().map_or_else(String::new, |span| {
        let path = places.path(span);
        let path = escape_property(path.strip_prefix("./").unwrap_or(path));
        format!("file={path},{},", position(places.region(span)))
    });
    format!("::{command} {place}title={title}::{}\n", escape(&text(places, diagnostic)))
}

/// GitHub refuses columns where the annotation has several lines.
fn position(Region { line, column, end_line, end_column }: Region) -> String {
    if line == end_line {
        format!("line={line},col={column},endLine={end_line},endColumn={end_column}")
    } else {
        format!("line={line},endLine={end_line}")
    }
}

/// An annotation has one place: the others are told in words.
fn text(places: &Places<'_>, diagnostic: &Diagnostic) -> String {
    let others = diagnostic.labels.iter().skip(1).map(|(span, label)| format!("{}: {label}", places.place(*span)));
    let lines = std::iter::once(diagnostic.message.clone()).chain(others).chain(diagnostic.hint.clone());
    lines.collect::<Vec<_>>().join("\n")
}

fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::tests::fleet;
    use super::*;

    #[test]
    fn one_command_a_diagnostic() {
        let (sources, diagnostics) = fleet();
        let commands = github(&sources, &diagnostics);
        assert_eq!(commands.lines().count(), diagnostics.len());
        let broken_for_reading = commands.replace(",title", ",\n  title").replace("%0A", "\n    %0A");
        assert_snapshot!(broken_for_reading, @"
        ::error title=TW001 nothing to read::100%25 of the directory is empty
        ::error file=fleet/pool%2C new.yaml,line=4,col=3,endLine=4,endColumn=8,
          title=TW103 unknown field::NodePool has no field `spare`
            %0Adid you mean `spares`?
        ::warning file=fleet/pool%2C new.yaml,line=6,endLine=7,
          title=TW206 a name that is taken::these labels are taken
        ::error file=fleet/quota.yaml,line=3,col=39,endLine=3,endColumn=42,
          title=TW501 guarantees that add up to more than the pool holds::256 GPUs are guaranteed, the pool holds 128
            %0A./fleet/pool, new.yaml:3:10: 16 nodes of 8 GPUs
            %0Afleet/quota.yaml:3:14: this pool
            %0Alower the guarantee,
            %0Aor make the pool larger
        ");
    }

    #[test]
    fn nothing_in_a_text_ends_its_command() {
        assert_eq!(escape("100%\r\n::error::x, y"), "100%25%0D%0A::error::x, y");
        assert_eq!(escape_property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
    }
}
