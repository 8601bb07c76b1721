//! A script as lines: commands with their blocks, what each must print, and everything between, kept as it is.

use super::ScriptError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    lines: Vec<Line>,
    pub items: Vec<Item>,
}

/// A command with what belongs to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// From one.
    pub line: usize,
    pub text: String,
    /// Indented lines under it, without their common indent.
    pub block: Option<String>,
    pub expected: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Line {
    /// A comment, an empty line, a line of a block.
    Text(String),
    Command(String),
    /// Where the output of the command with this number goes.
    Output(usize),
}

impl Script {
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self { lines: Vec::new(), items: Vec::new() };
        let all: Vec<&str> = text.lines().map(str::trim_end).collect();
        let mut at = 0;
        while let Some(line) = all.get(at) {
            let wrong = |what: &str| {
                let (command, what) = (line.to_string(), what.to_string());
                ScriptError { line: at + 1, command, what, hint: None, so_far: String::new() }
            };
            if line.is_empty() || line.starts_with('#') {
                script.lines.push(Line::Text(line.to_string()));
                at += 1;
            } else if line.starts_with('|') {
                return Err(wrong("expected output stands under a command and its block"));
            } else if line.starts_with(' ') {
                return Err(wrong("an indented line belongs to a command that takes documents, right under it"));
            } else {
                at = script.command(&all, at);
            }
        }
        Ok(script)
    }

    /// Takes the command at this line with its block and its output; the line after them.
    fn command(&mut self, all: &[&str], start: usize) -> usize {
        let mut at = start + 1;
        while all.get(at).is_some_and(|line| line.starts_with(' ') || (line.is_empty() && goes_on(&all[at..]))) {
            at += 1;
        }
        let block = &all[start + 1..at];
        let indent = block.iter().filter(|line| !line.is_empty()).map(|line| line.len() - line.trim_start().len());
        let indent = indent.min().unwrap_or(0);
        let dedented: String = block.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or(""))).collect();
        let outputs = all[at..].iter().take_while(|line| line.starts_with('|')).count();
        let expected = all[at..at + outputs].iter().map(|line| {
            let line = &line[1..];
            line.strip_prefix(' ').unwrap_or(line).to_string()
        });
        self.lines.push(Line::Command(all[start].to_string()));
        self.lines.extend(block.iter().map(|line| Line::Text(line.to_string())));
        self.lines.push(Line::Output(self.items.len()));
        self.items.push(Item {
            line: start + 1,
            text: all[start].to_string(),
            block: (!block.is_empty()).then_some(dedented),
            expected: expected.collect(),
        });
        at + outputs
    }

    /// The script with this output under its commands; where there is none yet the script ends.
    pub fn with_output(&self, printed: &[Vec<String>]) -> String {
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Text(line) | Line::Command(line) => {
                    text.push_str(line);
                    text.push('\n');
                }
                Line::Output(number) => {
                    let Some(lines) = printed.get(*number) else { return text };
                    for line in lines {
                        text.push_str(format!("| {line}").trim_end());
                        text.push('\n');
                    }
                }
            }
        }
        text
    }
}

/// Whether a block goes on behind empty lines.
fn goes_on(lines: &[&str]) -> bool {
    lines.iter().find(|line| !line.is_empty()).is_some_and(|line| line.starts_with(' '))
}
