//! The story of a code at the terminal (`tidewright validate --explain`).

use crate::diag::explain::Story;

/// Text first, then both examples, indented so that they stand out without colour.
pub fn render_story(story: &Story) -> String {
    let Story { code, text, wrong, right } = story;
    format!("{code}: {}\n\n{text}\n\nWrong:\n\n{}\nRight:\n\n{}", code.title(), indent(wrong), indent(right))
}

fn indent(example: &str) -> String {
    example.lines().map(|line| if line.is_empty() { "\n".to_string() } else { format!("    {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::diag::codes;

    #[test]
    fn a_story_with_its_examples() {
        let (text, wrong, right) = ("Why.\n\nWhat to do.", "a: 1\n\na: 2\n", "a: 2\n");
        assert_snapshot!(render_story(&Story { code: codes::DUPLICATE_KEY, text, wrong, right }), @"
        TW006: the same key twice

        Why.

        What to do.

        Wrong:

            a: 1

            a: 2

        Right:

            a: 2
        ");
    }
}
