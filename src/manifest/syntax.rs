//! What is not YAML, said to a person who does not know the parser's words. Called by `tree`.

use serde_saphyr::granit_parser::ErrorKind;

use super::tree::MAX_DEPTH;
use crate::diag::{Code, Diagnostic, Span, codes};

/// `at` is where the parser stopped; `opened` is the innermost bracket that was still open there.
pub fn diagnostic(kind: &ErrorKind, text: &str, at: Span, opened: Option<Span>) -> Diagnostic {
    let place = Place::of(text, at);
    // A field of the next line inside of brackets: they were meant to end before it.
    let runs_on = matches!(kind, ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement)
        && opened.and_then(|opened| between(text, opened.start, at.start)).is_some_and(|inside| inside.contains('\n'));
    let is_list = opened.and_then(|opened| between(text, opened.start, at.start)).is_some_and(|t| t.starts_with('['));
    let kind = match (runs_on, is_list) {
        (true, true) => &ErrorKind::ExpectedFlowSequenceSeparator,
        (true, false) => &ErrorKind::ExpectedFlowMappingSeparator,
        (false, _) => kind,
    };
    let said = explain(kind, &place);
    let at = match said.mark {
        Mark::Here => at,
        Mark::Before => Span { start: at.start.saturating_sub(1), end: at.start, ..at },
        Mark::Word => Span { start: at.start - place.word_length(), end: at.start, ..at },
        Mark::Above => place.above_span(at),
    };
    let diagnostic = Diagnostic::error(said.code, said.message).at(at, "");
    let diagnostic = match opened.filter(|_| said.in_brackets) {
        Some(opened) => diagnostic.at(Span { end: opened.start + 1, ..opened }, "opened here"),
        None => diagnostic,
    };
    diagnostic.hint(said.hint)
}

fn between(text: &str, start: u32, end: u32) -> Option<&str> {
    text.get(start as usize..end as usize)
}

struct Said {
    code: Code,
    message: String,
    hint: String,
    mark: Mark,
    /// Whether the bracket that is still open belongs to the story.
    in_brackets: bool,
}

/// What is underlined.
enum Mark {
    Here,
    /// The character before: the parser is past it.
    Before,
    /// All of the line in front.
    Word,
    /// The line above.
    Above,
}

/// The line in which the parser stopped, and the last one above it that says something.
struct Place<'a> {
    /// The line up to the place.
    lead: &'a str,
    rest: &'a str,
    above: &'a str,
    above_start: usize,
}

impl<'a> Place<'a> {
    fn of(text: &'a str, at: Span) -> Self {
        let (before, rest) = text.split_at(text.floor_char_boundary(at.start as usize));
        let (above, lead) = before.rsplit_once('\n').unwrap_or(("", before));
        let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let mut end = above.len();
        let mut lines = above.rsplit('\n').map(|line| {
            let start = end - line.len();
            end = start.saturating_sub(1);
            (start, line)
        });
        let (above_start, above) = lines.find(|(_, line)| is_content(line)).unwrap_or((0, ""));
        Self { lead, rest, above, above_start }
    }

    fn is_deeper(&self) -> bool {
        let indentation = |line: &str| line.len() - line.trim_start().len();
        indentation(self.lead) > indentation(self.above)
    }

    fn above_span(&self, at: Span) -> Span {
        let start = self.above_start + (self.above.len() - self.above.trim_start().len());
        let number = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { start: number(start), end: number(start + self.above.trim().len()), ..at }
    }

    fn word_length(&self) -> u32 {
        u32::try_from(self.lead.trim_start().len()).unwrap_or(0)
    }
}

fn explain(kind: &ErrorKind, place: &Place<'_>) -> Said {
    use ErrorKind as E;
    let said = |message: &str, hint: &str| Said {
        code: codes::SYNTAX,
        message: message.into(),
        hint: hint.into(),
        mark: Mark::Here,
        in_brackets: false,
    };
    let no_colon =
        || said("this line has no `: `", "write `field: value` with a colon and a space, or `- entry` in a list");
    let no_value = || said("a value is missing here", "write the value, or remove the `,` in front of it");
    let in_brackets = |said: Said| Said { in_brackets: true, ..said };
    match kind {
        E::RecursionLimitExceeded => Said { code: codes::TOO_LARGE, ..said(&too_deep(), DEPTH_HINT) },

        E::UnclosedFlowCollection { open } => {
            said(&format!("this `{open}` is never closed"), &format!("write `{}` where it ends", closing(*open)))
        }
        E::MismatchedFlowCollectionEnd { open, close } => {
            said(&format!("this `{open}` is closed by `{close}`"), &format!("close it with `{}`", closing(*open)))
        }
        E::MisplacedFlowCollectionEnd => {
            said("a closing bracket that belongs to none", "remove it; text with brackets in it needs quotes")
        }
        E::ExpectedFlowMappingSeparator => in_brackets(said(
            "a `,` or `}` is missing in front of this",
            "put `,` between two entries, and `}` behind the last",
        )),
        E::ExpectedFlowSequenceSeparator => in_brackets(said(
            "a `,` or `]` is missing in front of this",
            "put `,` between two entries, and `]` behind the last",
        )),
        E::UnexpectedEofFlowSequence | E::UnexpectedEofFlowMapping | E::UnexpectedEofImplicitFlowMapping
            if place.rest.starts_with(',') =>
        {
            no_value()
        }
        E::UnexpectedEofFlowSequence | E::UnexpectedEofFlowMapping | E::UnexpectedEofImplicitFlowMapping => {
            in_brackets(said("the document ends inside brackets", "close the bracket"))
        }
        E::BlockEntryInFlowCollection => {
            in_brackets(said("`- ` begins a list entry only outside of brackets", "put `,` between the entries"))
        }
        E::FlowMappingValueAdjacentCollection | E::InvalidMappingValueWhitespace => {
            said("the `:` has no space behind it", "write `field: value`, with a space")
        }

        E::MappingValueNotAllowed if place.lead.contains(": ") => {
            said("a second `: ` on one line", "put a value that has `: ` in it in quotes")
        }
        E::MappingValueNotAllowed if place.is_deeper() => Said {
            mark: Mark::Word,
            ..said(
                "this line is indented deeper than the one above, which has a value already",
                "give the fields of one mapping the same indentation",
            )
        },
        E::MappingValueNotAllowed if !place.above.contains([':', '-', '"', '\'']) => {
            Said { mark: Mark::Above, ..no_colon() }
        }
        E::MappingValueNotAllowed | E::MappingKeyNotAllowed | E::InvalidColonPlacement => {
            said("no field can begin here", "see the line above too: something may be missing at its end")
        }
        E::ExpectedBlockMappingKey | E::InvalidIndentation => said(
            "this line does not belong to the mapping above it",
            "give the fields of one mapping the same indentation, and write each as `field: value`",
        ),
        E::ExpectedBlockSequenceEntry => said(
            "this line does not belong to the list above it",
            "begin every entry of a list with `- ` at the same indentation",
        ),
        E::BlockSequenceEntryNotAllowed => {
            said("no list can begin here", "begin the list on a line of its own, or write it in brackets: [a, b]")
        }
        E::InvalidBlockEntryWhitespace | E::PlainScalarStartsWithDashFlowIndicator => {
            said("the `-` has no space behind it", "write `- entry`; text that begins with `-` needs quotes")
        }
        E::SimpleKeyExpected | E::InvalidSimpleKey => no_colon(),
        E::ExpectedNodeContent => no_value(),

        E::TabNotAllowed
        | E::TabInBlockIndentation
        | E::TabInIndentation
        | E::TabInPlainScalar
        | E::TabAtBlockScalarStart => Said {
            mark: if place.rest.starts_with('\t') || !place.lead.ends_with('\t') { Mark::Here } else { Mark::Before },
            ..said("a tab where YAML takes only spaces", "replace the tab by spaces")
        },

        E::UnclosedQuotedScalar => said("this quote is never closed", "write the same quote where the text ends"),
        E::InvalidQuotedScalarIndent if place.rest.trim().is_empty() => {
            said("the file ends inside a text in quotes", "write the same quote where the text ends")
        }
        E::InvalidQuotedScalarIndent | E::DocumentIndicatorInQuotedScalar => {
            said("a text in quotes runs on into this line", "close the quote on the line above")
        }
        E::InvalidTrailingSingleQuotedScalar => {
            said("text behind the closing quote", "put all of it inside the quotes; write ' twice to mean one")
        }
        E::InvalidTrailingDoubleQuotedScalar => {
            said("text behind the closing quote", "put all of it inside the quotes; write \\\" to mean one inside")
        }
        E::UnknownQuotedScalarEscape
        | E::InvalidQuotedScalarHexEscape
        | E::InvalidLowSurrogateHexEscape
        | E::InvalidLowSurrogate
        | E::MissingLowSurrogate
        | E::UnpairedLowSurrogate
        | E::InvalidUnicodeEscape => said(
            "a `\\` in this text begins no escape that YAML knows",
            "write `\\\\` to mean a backslash, or use single quotes, in which nothing is escaped",
        ),
        E::UnexpectedCharacter { character: '`' } => said("no value can begin with a backtick", "use quotes instead"),
        E::UnexpectedCharacter { character } => {
            said(&format!("no value can begin with `{}`", character.escape_debug()), "put the value in quotes")
        }
        E::MissingAnchorOrAliasName => said("no value can begin with `*` or `&`", "put the value in quotes"),
        E::ZeroBlockScalarIndent | E::InvalidBlockScalarHeader => {
            said("text on the line of a `|` or `>`", "begin the text on the next line, indented")
        }
        E::InvalidBlockScalarIndent | E::InvalidFlowScalarIndent => {
            said("this line is indented less than the text it belongs to", "indent all lines of a text alike")
        }

        E::CommentNotSeparated => said("a comment without a space in front of it", "write a space, then `#`"),
        E::CommentInterceptedScalar => {
            said("a comment inside a text of several lines", "move the comment, or put the text in quotes")
        }
        E::InvalidDocumentEnd => {
            said("text on the line of a document's end", "begin it on a line of its own, behind `---`")
        }
        E::BomInsideDocument => {
            said("an invisible byte order mark inside the file", "remove it: two files may have been joined here")
        }
        E::ExpectedDocumentStart | E::MissingDocumentEndBeforeDirective => {
            said("neither part of the document above nor a new one", "put a line `---` between two documents")
        }
        E::ExpectedTagBang
        | E::InvalidGlobalTagCharacter
        | E::UndeclaredTagHandle
        | E::InvalidTagTerminator
        | E::MissingTagUri
        | E::UnclosedVerbatimTag
        | E::InvalidTagEscape
        | E::InvalidTagUtf8LeadingByte
        | E::InvalidTagUtf8TrailingByte
        | E::InvalidTagUtf8 => said("a tag that is written wrongly", "put a value that begins with `!` in quotes"),
        E::DuplicateVersionDirective
        | E::UnsupportedYamlMajorVersion
        | E::DuplicateTagDirective
        | E::ExpectedTagDirectiveBang
        | E::InvalidTagDirectiveTerminator
        | E::InvalidDirectiveTerminator
        | E::MissingYamlVersionSeparator
        | E::MissingDirectiveName
        | E::InvalidDirectiveName
        | E::YamlVersionTooLong
        | E::MissingYamlVersion => {
            said("a line that begins with `%` and is no directive of YAML 1.2", "remove the line: none is needed")
        }
        other => said(&other.to_string(), "see the line above too: something may be missing at its end"),
    }
}

pub fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

pub const DEPTH_HINT: &str = "no document needs half as many: look for brackets or dashes too many";

fn closing(open: char) -> char {
    if open == '[' { ']' } else { '}' }
}

#[cfg(test)]
mod tests {
    use super::super::tree::documents;

    /// One text for each way of not being YAML that a person may come upon.
    const NOT_YAML: &[&str] = &[
        "a: [1\n",
        "a: [1, 2\nb: 3\n",
        "a: {b: 1]\n",
        "a: ]\n",
        "a: b: c\n",
        "a: 1\n  b: 2\n",
        "a:\n    b: 1\n  c: 2\n",
        "a: - b\n",
        "a:\n  - b\n  c: d\n",
        "a:\n  - b\n  c\n",
        "a\nb: 1\n",
        "a: [- b]\n",
        "a: [b, , c]\n",
        "a:\n\tb: 1\n",
        "a: 'b\n",
        "a: \"b\nc: d\n",
        "a: 'b' c\n",
        "a: \"b\" c\n",
        "a: \"\\q\"\n",
        "a: \"\\xZZ\"\n",
        "a: %b\n",
        "a: @b\n",
        "a: `b`\n",
        "a: *\n",
        "a: |b\n  c\n",
        "a: |0\n  c\n",
        "a: 'b'#c\n",
        "a: b\n# c\n  d\n",
        "a: 1\n... b\n",
        "a: 1\n%TAG ! x\n",
        "a: '\n---\n'\n",
        "a: !<b\n",
        "%YAML x\n---\na: 1\n",
    ];

    #[test]
    fn what_is_not_yaml_is_told_in_our_words() {
        for text in NOT_YAML {
            let (_, found) = documents(0, text);
            let [said, ..] = found.as_slice() else { panic!("{text:?} is YAML") };
            let of_the_parser = ["while ", "expected", "simple key", "context", "scalar", "EOF", "token", "indicator"];
            assert!(!of_the_parser.iter().any(|word| said.message.contains(word)), "{text:?}: {}", said.message);
            assert!(said.hint.is_some(), "{text:?}");
        }
    }
}
