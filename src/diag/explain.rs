//! The stories of the codes, read from `codes.md`: why a rule exists, what to do, and an example of either kind.
//!
//! The file is part of the program, so it is taken apart without copying. Not here: how a story looks (`render`).

use super::Code;

/// Why a rule exists and what to do about it. The examples are whole YAML documents, which may name objects that
/// they leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Story {
    pub code: Code,
    /// Markdown: some paragraphs, without the heading and the examples.
    pub text: &'static str,
    pub wrong: &'static str,
    pub right: &'static str,
}

static STORIES: &str = include_str!("codes.md");

/// The story of a code, if it is written down whole: a text and both examples.
pub fn story(code: Code) -> Option<Story> {
    let section = section(STORIES, code)?;
    let (examples, _) = lines(section).find(|(_, line)| is_fence(line))?;
    let text = section[..examples].trim();
    let (wrong, right) = (block(section, "yaml wrong")?, block(section, "yaml right")?);
    (!text.is_empty()).then_some(Story { code, text, wrong, right })
}

/// What stands under the heading of a code, up to the next heading. Headings inside of examples are none.
fn section(all: &'static str, code: Code) -> Option<&'static str> {
    let is_heading = |line: &str| line.starts_with("## ");
    let of_code = |line: &str| is_heading(line) && line.split_whitespace().nth(1) == Some(code.id());
    let mut lines = prose_lines(all).skip_while(|(_, line)| !of_code(line));
    let (at, heading) = lines.next()?;
    let start = at + heading.len();
    let end = lines.find(|(_, line)| is_heading(line)).map_or(all.len(), |(at, _)| at);
    Some(&all[start..end])
}

/// The inside of the first fenced block with this info string.
fn block(section: &'static str, info: &str) -> Option<&'static str> {
    let mut fences = lines(section).filter(|(_, line)| is_fence(line));
    loop {
        let ((open, fence), (close, _)) = (fences.next()?, fences.next()?);
        if fence.trim_start_matches('`').trim() == info {
            return Some(&section[open + fence.len()..close]);
        }
    }
}

/// Every line outside of a fenced block, with the byte it starts at.
fn prose_lines(text: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    let mut inside = false;
    lines(text).filter(move |(_, line)| {
        inside ^= is_fence(line);
        !inside
    })
}

/// Lines with their line breaks.
fn lines(text: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// An indented fence is text of the example, such as a block scalar.
fn is_fence(line: &str) -> bool {
    line.starts_with("```")
}

#[cfg(test)]
mod tests {
    use super::super::codes;
    use super::*;

    #[test]
    fn a_story_has_a_text_and_two_examples() {
        let story = story(codes::UNKNOWN_FIELD).unwrap();
        assert!(story.text.starts_with("Every field"), "{}", story.text);
        assert!(!story.text.contains("```") && !story.text.contains("##"));
        assert!(story.wrong.starts_with("apiVersion: ") && story.wrong.contains("\n  spare: 1\n"));
        assert!(story.right.starts_with("apiVersion: ") && story.right.contains("\n  spares: 1\n"));
    }

    #[test]
    fn every_heading_names_a_code_and_its_title_and_stands_in_order() {
        let mut last = None;
        for (_, line) in prose_lines(STORIES).filter(|(_, line)| line.starts_with("## ")) {
            let (id, title) = line["## ".len()..].trim_end().split_once(' ').unwrap();
            let code = Code::from_id(id).unwrap_or_else(|| panic!("no code {id}"));
            assert_eq!((code.id(), code.title()), (id, title));
            assert!(story(code).is_some(), "the story of {id} is not whole");
            assert!(last < Some(code), "{id} is out of order");
            last = Some(code);
        }
        assert!(last.is_some());
        assert!(STORIES.lines().all(|line| line.chars().count() <= 120), "the terminal shows the lines as they stand");
    }

    #[test]
    fn examples_may_hold_headings_and_indented_fences() {
        const TEXT: &str = "# All\n\n## TW102 a\nNo.\n\n## TW103 b\nWhy.\n\n```yaml wrong\n## TW104 c\n\
            a: |\n  ```yaml right\n  ```\n```\nBetween.\n```yaml right\nb: 1\n```\n## TW104 d\nend";
        let section = section(TEXT, codes::UNKNOWN_FIELD).unwrap();
        assert_eq!(block(section, "yaml wrong"), Some("## TW104 c\na: |\n  ```yaml right\n  ```\n"));
        assert_eq!(block(section, "yaml right"), Some("b: 1\n"));
        assert_eq!(super::section(TEXT, codes::MISSING_FIELD), Some("end"));
        assert_eq!(super::section(TEXT, codes::SYNTAX), None);
        assert_eq!(block("```yaml right\nnever closed", "yaml right"), None);
    }
}
