//! A command's line as words: read one after the other, each with what it should be.

use std::str::FromStr;

use super::Wrong;
use crate::diag::nearest;

/// What is left of a line.
#[derive(Clone, Debug)]
pub struct Words {
    left: std::collections::VecDeque<String>,
    usage: &'static str,
}

impl Words {
    /// Words are apart by blanks; one in double quotes may hold blanks, and `\"`.
    pub fn new(line: &str, usage: &'static str) -> Result<Self, Wrong> {
        let mut left = std::collections::VecDeque::new();
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => until_quote(quoted).ok_or("a quote is not closed")?,
                None => {
                    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                    (rest[..end].to_string(), &rest[end..])
                }
            };
            left.push_back(word);
            rest = after.trim_start();
        }
        Ok(Self { left, usage })
    }

    pub fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong::new(what).hint(format!("write: {}", self.usage))
    }

    pub fn next(&mut self, what: &str) -> Result<String, Wrong> {
        self.left.pop_front().ok_or_else(|| self.wrong(format!("{what} is missing")))
    }

    pub fn peek(&self) -> Option<&str> {
        self.left.front().map(String::as_str)
    }

    pub fn maybe(&mut self) -> Option<String> {
        self.left.pop_front()
    }

    /// Takes this word if it is the next.
    pub fn take(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        if is {
            self.left.pop_front();
        }
        is
    }

    /// This word must be the next.
    pub fn must(&mut self, word: &str) -> Result<(), Wrong> {
        match self.maybe() {
            Some(found) if found == word => Ok(()),
            Some(found) => Err(self.wrong(format!("`{found}` stands where `{word}` should"))),
            None => Err(self.wrong(format!("`{word}` is missing"))),
        }
    }

    /// A word that means something.
    pub fn parse<T: FromStr>(&mut self, what: &str) -> Result<T, Wrong> {
        let word = self.next(what)?;
        word.parse().map_err(|_| self.wrong(format!("`{word}` is no {what}")))
    }

    /// A number before a word such as `times`, if there is one; else this.
    pub fn count(&mut self, words: &[&str], otherwise: u32) -> Result<u32, Wrong> {
        let Some(number) = self.peek().and_then(|word| word.parse().ok()) else { return Ok(otherwise) };
        self.left.pop_front();
        match self.maybe() {
            Some(word) if words.contains(&word.as_str()) => Ok(number),
            Some(word) => Err(self.wrong(format!("`{word}` stands where `{}` should", words.join("` or `")))),
            None => Ok(number),
        }
    }

    /// One of some words.
    pub fn one_of<T: Copy>(&mut self, what: &str, known: &[(&str, T)]) -> Result<T, Wrong> {
        let word = self.next(what)?;
        if let Some((_, value)) = known.iter().find(|(name, _)| *name == word) {
            return Ok(*value);
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let wrong = Wrong::new(format!("`{word}` is no {what}"));
        Err(match nearest(&word, names.iter().copied()) {
            Some(near) => wrong.hint(format!("did you mean `{near}`?")),
            None => wrong.hint(format!("write one of {}", names.join(", "))),
        })
    }

    /// A word such as `a=1,b=2`.
    pub fn pairs(&mut self, what: &str) -> Result<Vec<(String, String)>, Wrong> {
        let word = self.next(what)?;
        let pairs = word.split(',').map(|pair| {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| self.wrong(format!("`{pair}` is none of the {what}: k=v")))?;
            Ok((key.to_string(), value.to_string()))
        });
        pairs.collect()
    }

    /// All that is left, as one text.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.left).into_iter().collect::<Vec<_>>().join(" ")
    }

    pub fn end(&self) -> Result<(), Wrong> {
        self.peek().map_or(Ok(()), |word| Err(self.wrong(format!("`{word}` is one word too many"))))
    }
}

fn until_quote(text: &str) -> Option<(String, &str)> {
    let (mut word, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some((word, &text[at + 1..])),
            '\\' if !escaped => escaped = true,
            'n' if escaped => {
                word.push('\n');
                escaped = false;
            }
            c => {
                word.push(c);
                escaped = false;
            }
        }
    }
    None
}
