//! For a person: the lines in question with the blamed value underlined, then what to do.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use super::{Places, count, settle};
use crate::diag::{Diagnostic, Severity, Sources, Span};

/// Columns of an excerpt. Fits the log viewers of CI services; longer lines are cut around the label.
const WIDTH: usize = 100;

/// Longer lines (bytes) are not shown at all: two labels far apart on one would fill the screen, and drawing ten
/// thousand errors on one would take minutes.
const LONGEST_LINE: usize = 4096;

/// Characters that are underlined on one line at most, so that the label stays in sight.
const LONGEST_MARK: usize = 80;

/// Ends with a line that counts them, unless there is nothing to say. With `colour`, ANSI escapes are inside.
pub fn human(sources: &Sources, diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() }.term_width(WIDTH);
    let places = Places::new(sources, diagnostics);
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&report(&places, diagnostic)));
        out.push_str("\n\n");
    }
    out.push_str(&footer(diagnostics));
    out
}

fn report<'a>(places: &Places<'a>, diagnostic: &'a Diagnostic) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(printable(&diagnostic.message)).id(diagnostic.code.id());
    let mut groups = vec![title.elements(excerpts(places, diagnostic))];
    if let Some(hint) = &diagnostic.hint {
        groups.push(Group::with_title(Level::HELP.secondary_title(printable(hint))));
    }
    groups
}

/// One excerpt a file, the file to blame first.
fn excerpts<'a>(places: &Places<'a>, diagnostic: &'a Diagnostic) -> Vec<Element<'a>> {
    let mut files: Vec<u32> = Vec::new();
    for (span, _) in &diagnostic.labels {
        if !files.contains(&span.file) {
            files.push(span.file);
        }
    }
    files.into_iter().flat_map(|file| excerpt(places, diagnostic, file)).collect()
}

/// The lines of one file from the first label to the last; lines between them that have none are folded away.
fn excerpt<'a>(places: &Places<'a>, diagnostic: &'a Diagnostic, file: u32) -> Vec<Element<'a>> {
    let labels: Vec<_> = diagnostic.labels.iter().enumerate().filter(|(_, (span, _))| span.file == file).collect();
    let Some((_, (first, _))) = labels.first() else { return Vec::new() };
    let text = places.text(*first);
    let ranges: Vec<Range<usize>> = labels.iter().map(|(_, (span, _))| shown(text, settle(text, *span))).collect();
    let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
    let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let (line, start) = places.line_start(*first, start);
    let end = text[end..].find('\n').map_or(text.len(), |length| end + length + 1);
    let lines = &text[start..end];

    if lines.lines().any(|line| line.len() > LONGEST_LINE) {
        return labels.iter().flat_map(|(_, (span, label))| without_lines(places, *span, label)).collect();
    }
    let annotations = labels.iter().zip(ranges).map(|((index, (_, label)), range)| {
        let kind = if *index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        annotation(kind, range.start - start..range.end - start, label)
    });
    let path = printable(places.path(*first));
    vec![Snippet::source(same_length(lines)).line_start(line).path(path).annotations(annotations).into()]
}

/// What is underlined: all of it, or its beginning if that would be too wide for the screen.
fn shown(text: &str, range: Range<usize>) -> Range<usize> {
    let covered = &text[range.clone()];
    if covered.lines().all(|line| line.len() <= LONGEST_MARK) {
        return range;
    }
    let first = covered.lines().next().unwrap_or_default();
    let length = first.char_indices().nth(LONGEST_MARK).map_or(first.len(), |(at, _)| at);
    range.start..range.start + length
}

fn annotation<'a>(kind: AnnotationKind, range: Range<usize>, label: &'a str) -> Annotation<'a> {
    let label = (!label.is_empty()).then(|| printable(label));
    kind.span(range).label(label)
}

fn without_lines<'a>(places: &Places<'a>, span: Span, label: &'a str) -> Vec<Element<'a>> {
    let region = places.region(span);
    let origin = Origin::path(printable(places.path(span))).line(region.line).char_column(region.column);
    let mut elements = vec![origin.into()];
    if !label.is_empty() {
        elements.push(Level::NOTE.message(printable(label)).into());
    }
    elements
}

/// Text from a file may hold escape sequences; none reaches the terminal.
fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| (c.is_control() && c != '\n') || is_direction(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            '\t' => out.push(' '),
            c if c.is_control() || is_direction(c) => {
                write!(out, "{}", c.escape_unicode()).expect("a String takes all")
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same for an excerpt, where positions must stay: the drawing library replaces all but these, which have two
/// bytes like their stand-in.
fn same_length(lines: &str) -> Cow<'_, str> {
    let is_late_control = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
    if lines.contains(is_late_control) {
        Cow::Owned(lines.replace(is_late_control, "·"))
    } else {
        Cow::Borrowed(lines)
    }
}

/// Characters that make a terminal show text in another order than it is written.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn footer(diagnostics: &[Diagnostic]) -> String {
    let (errors, warnings) = count(diagnostics);
    let number = |n: usize, word: &str| match n {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{n} {word}s")),
    };
    let counts: Vec<String> = [number(errors, "error"), number(warnings, "warning")].into_iter().flatten().collect();
    let worst = diagnostics.iter().find(|diagnostic| diagnostic.is_error()).or(diagnostics.first());
    worst.map_or_else(String::new, |worst| {
        format!("{}. For the story of a code: tidewright validate --explain {}\n", counts.join(" and "), worst.code)
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::tests::{at, fleet, sources};
    use super::*;
    use crate::diag::codes;

    /// What one error at these bytes of this text looks like, without the footer.
    fn show(text: &str, start: u32, end: u32) -> String {
        let diagnostic = Diagnostic::error(codes::SYNTAX, "not YAML").at(at(start, end), "here");
        let out = human(&sources(&[("a.yaml", text)]), &[diagnostic], false);
        out.split("\n\n").next().unwrap().to_string()
    }

    #[test]
    fn all_kinds_of_diagnostics() {
        let (sources, diagnostics) = fleet();
        assert_snapshot!(human(&sources, &diagnostics, false), @"
        error[TW001]: 100% of the directory is empty

        error[TW103]: NodePool has no field `spare`
         --> ./fleet/pool, new.yaml:4:3
          |
        4 |   spare: 1
          |   ^^^^^ unknown field
          |
        help: did you mean `spares`?

        warning[TW206]: these labels are taken
         --> ./fleet/pool, new.yaml:6:5
          |
        6 | /     a: b
        7 | |     c: d
          | |________^

        error[TW501]: 256 GPUs are guaranteed, the pool holds 128
         --> fleet/quota.yaml:3:39
          |
        3 |     - {pool: train, guarantee: {gpus: 256}}
          |              ----- this pool          ^^^ guaranteed here
          |
         ::: ./fleet/pool, new.yaml:3:10
          |
        3 |   nodes: 16
          |          -- 16 nodes of 8 GPUs
          |
        help: lower the guarantee,
              or make the pool larger

        3 errors and 1 warning. For the story of a code: tidewright validate --explain TW001
        ");
    }

    #[test]
    fn colour_adds_only_escapes() {
        let (sources, diagnostics) = fleet();
        let coloured = human(&sources, &diagnostics, true);
        assert!(coloured.contains("\u{1b}["));
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), human(&sources, &diagnostics, false));
    }

    #[test]
    fn the_footer_counts_and_names_the_worst() {
        let error = Diagnostic::error(codes::SYNTAX, "");
        let warning = Diagnostic::warning(codes::NO_PRICE, "");
        let parts = |diagnostics: &[Diagnostic]| {
            footer(diagnostics).replace(". For the story of a code: tidewright validate --explain", " --")
        };
        assert_snapshot!(parts(&[warning.clone(), error]), @"1 error and 1 warning -- TW004");
        assert_snapshot!(parts(&[warning.clone(), warning]), @"2 warnings -- TW308");
        assert_eq!(human(&Sources::default(), &[], true), "");
    }

    #[test]
    fn tabs_wide_characters_and_line_breaks() {
        assert_snapshot!(show("a:\tbad\n", 3, 6), @"
        error[TW004]: not YAML
         --> a.yaml:1:4
          |
        1 | a:    bad
          |       ^^^ here
        ");
        assert_snapshot!(show("名前: 悪い # x\n", 8, 14), @"
        error[TW004]: not YAML
         --> a.yaml:1:5
          |
        1 | 名前: 悪い # x
          |       ^^^^ here
        ");
        assert_snapshot!(show("a: 1\r\nb: 2\r\n", 9, 10), @"
        error[TW004]: not YAML
         --> a.yaml:2:4
          |
        2 | b: 2
          |    ^ here
        ");
        assert_snapshot!(show("a: 1\r\nb: 2\r\n", 0, 12), @"
        error[TW004]: not YAML
         --> a.yaml:1:1
          |
        1 | / a: 1
        2 | | b: 2
          | |____^ here
        ");
    }

    #[test]
    fn the_end_of_a_file_is_on_its_last_line() {
        assert_snapshot!(show("a: [1\n\n", 7, 7), @"
        error[TW004]: not YAML
         --> a.yaml:1:6
          |
        1 | a: [1
          |      ^ here
        ");
        assert_snapshot!(show("a: [1", 5, 5), @"
        error[TW004]: not YAML
         --> a.yaml:1:6
          |
        1 | a: [1
          |      ^ here
        ");
        assert_snapshot!(show("", 0, 0), @"
        error[TW004]: not YAML
         --> a.yaml:1:1
          |
        1 |
          | ^ here
        ");
        assert_snapshot!(show("\n", 0, 1), @"
        error[TW004]: not YAML
         --> a.yaml:1:1
          |
        1 |
          | ^ here
        ");
    }

    #[test]
    fn a_span_may_be_empty_inverted_inside_a_character_or_beyond_the_end() {
        assert_snapshot!(show("a: b\n", 3, 3), @"
        error[TW004]: not YAML
         --> a.yaml:1:4
          |
        1 | a: b
          |    ^ here
        ");
        assert_snapshot!(show("a: b\n", 3, 1), @"
        error[TW004]: not YAML
         --> a.yaml:1:4
          |
        1 | a: b
          |    ^ here
        ");
        assert_snapshot!(show("a: é\n", 4, 4), @"
        error[TW004]: not YAML
         --> a.yaml:1:4
          |
        1 | a: é
          |    ^ here
        ");
        assert_snapshot!(show("a: b\n", u32::MAX, u32::MAX), @"
        error[TW004]: not YAML
         --> a.yaml:1:5
          |
        1 | a: b
          |     ^ here
        ");
    }

    #[test]
    fn a_long_line_is_cut_and_a_longer_one_only_named() {
        assert_snapshot!(show(&format!("a: [{}]", "1, ".repeat(1000)), 1501, 1502), @"
        error[TW004]: not YAML
         --> a.yaml:1:1502
          |
        1 | ...1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...
          |                                              ^ here
        ");
        assert_snapshot!(show(&format!("a: {}", "é".repeat(1000)), 3, 2003), @"
        error[TW004]: not YAML
         --> a.yaml:1:4
          |
        1 | a: éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé...
          |    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ here
        ");
        assert_snapshot!(show(&format!("a: [{}]", "1, ".repeat(10_000)), 1501, 1502), @"
        error[TW004]: not YAML
        --> a.yaml:1:1502
         = note: here
        ");
    }

    #[test]
    fn what_was_written_cannot_steer_the_terminal() {
        let text = "a: \u{1b}[31m\u{9b}2J\u{202e}x\n";
        let diagnostic =
            Diagnostic::error(codes::SYNTAX, "m\u{1b}]0;m\u{7}").at(at(3, 5), "l\u{9b}1m").hint("h\u{202e}\r");
        let out = human(&sources(&[("p\u{1b}.yaml", text)]), &[diagnostic], false);
        assert!(!out.chars().any(|c| (c.is_control() && c != '\n') || is_direction(c)), "{out:?}");
    }
}
