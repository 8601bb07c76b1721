//! What every describe call has: filters on what is answered, and pages.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::ask::Ask;
use super::refuse;
use crate::provider::ProviderError;

/// One thing that may be listed: what it is found again by, and what is told of it.
pub type Row = (String, Value);

/// The filters that an action knows: the name, and where the value stands in a row.
pub type Filters = &'static [(&'static str, &'static str)];

/// How many rows an answer holds.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// Without a number all are given.
    pub usual: Option<usize>,
    pub least: i64,
    pub most: i64,
}

pub const BY_THOUSAND: Pages = Pages { usual: None, least: 1, most: 1000 };

struct Filter<'a> {
    name: &'a str,
    values: Vec<&'a str>,
}

/// Filters the rows, cuts them into pages, and gives the answer: the rows under their name, and how to go on.
pub fn answer(ask: &Ask, name: &str, known: Filters, pages: Pages, rows: Vec<Row>) -> Result<Value, ProviderError> {
    let kept = filtered(ask, known, rows)?;
    let root = ask.root();
    let most = root.number("MaxResults");
    let start = root.text("NextToken").map(opened).transpose()?;
    ask.done()?;
    if let Some(n) = most.filter(|n| !(pages.least..=pages.most).contains(n)) {
        let text = format!(
            "Value ({n}) for parameter maxResults is invalid. Expecting a value between {} and {}.",
            pages.least, pages.most
        );
        return Err(refuse("InvalidParameterValue", text));
    }
    let most = most.and_then(|n| usize::try_from(n).ok()).or(pages.usual).unwrap_or(usize::MAX);
    let mut rest = kept.into_iter().filter(|(key, _)| start.as_ref().is_none_or(|start| key > start)).peekable();
    let page: Vec<Row> = rest.by_ref().take(most).collect();
    let more = rest.peek().is_some().then(|| page.last().map(|(key, _)| closed(key))).flatten();
    let values: Vec<Value> = page.into_iter().map(|(_, value)| value).collect();
    Ok(match more {
        Some(token) => json!({name: values, "NextToken": token}),
        None => json!({name: values}),
    })
}

/// The same for actions that know no pages.
pub fn all(ask: &Ask, name: &str, known: Filters, rows: Vec<Row>) -> Result<Value, ProviderError> {
    let kept = filtered(ask, known, rows)?;
    ask.done()?;
    let values: Vec<Value> = kept.into_iter().map(|(_, value)| value).collect();
    Ok(json!({name: values}))
}

pub fn filtered(ask: &Ask, known: Filters, rows: Vec<Row>) -> Result<Vec<Row>, ProviderError> {
    let parts = ask.root().parts("Filters");
    let filters: Vec<Filter<'_>> = parts
        .iter()
        .map(|part| Filter { name: part.text("Name").unwrap_or_default(), values: part.texts("Values") })
        .collect();
    for filter in &filters {
        let named = known.iter().any(|(name, _)| *name == filter.name);
        if !named && !filter.name.starts_with("tag:") && filter.name != "tag-key" {
            return Err(refuse("InvalidParameterValue", format!("The filter '{}' is invalid", filter.name)));
        }
    }
    let passes = |row: &Value| filters.iter().all(|filter| matches(filter, known, row));
    Ok(rows.into_iter().filter(|(_, row)| passes(row)).collect())
}

fn matches(filter: &Filter<'_>, known: Filters, row: &Value) -> bool {
    let tags = || row["Tags"].as_array().into_iter().flatten();
    let found: Vec<String> = if let Some(key) = filter.name.strip_prefix("tag:") {
        tags().filter(|tag| tag["Key"] == key).map(|tag| word(&tag["Value"])).collect()
    } else if filter.name == "tag-key" {
        tags().map(|tag| word(&tag["Key"])).collect()
    } else {
        let path = known.iter().find(|(name, _)| *name == filter.name).map_or("", |(_, path)| *path);
        let mut found = Vec::new();
        words(row, path, &mut found);
        found
    };
    found.iter().any(|word| filter.values.iter().any(|pattern| like(pattern, word)))
}

/// What stands at a path; of a list, at the path in each of its elements.
fn words(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| words(item, path, found)),
        Value::Null => {}
        _ if path.is_empty() => found.push(word(value)),
        _ => {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            words(&value[first], rest, found);
        }
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// EC2's wildcards: `*` for any text, `?` for one letter, and a backslash before either for itself.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (wanted(pattern), text.chars().collect::<Vec<char>>());
    let (mut at, mut told) = (0, 0);
    // Where the last star stands, and up to where it was taken to reach: on a mismatch it reaches one letter further.
    let mut star: Option<(usize, usize)> = None;
    while told < text.len() {
        match pattern.get(at) {
            Some(Wanted::Any) => {
                star = Some((at, told));
                at += 1;
            }
            Some(wanted) if wanted.fits(text[told]) => (at, told) = (at + 1, told + 1),
            _ => match &mut star {
                Some((place, reach)) => {
                    *reach += 1;
                    (at, told) = (*place + 1, *reach);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| matches!(rest, Wanted::Any))
}

#[derive(Clone, Copy)]
enum Wanted {
    Any,
    One,
    Letter(char),
}

impl Wanted {
    fn fits(self, letter: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Letter(wanted) => wanted == letter,
        }
    }
}

fn wanted(pattern: &str) -> Vec<Wanted> {
    let mut letters = pattern.chars();
    let mut found = Vec::new();
    while let Some(letter) = letters.next() {
        found.push(match letter {
            '*' => Wanted::Any,
            '?' => Wanted::One,
            '\\' => Wanted::Letter(letters.next().unwrap_or('\\')),
            letter => Wanted::Letter(letter),
        });
    }
    found
}

fn closed(key: &str) -> String {
    BASE64URL_NOPAD.encode(format!("after {key}").as_bytes())
}

fn opened(token: &str) -> Result<String, ProviderError> {
    let wrong = || refuse("InvalidNextToken", format!("The token '{token}' is invalid"));
    let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).map_err(|_| wrong())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    text.strip_prefix("after ").map(String::from).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_is_one_letter() {
        for (pattern, text, same) in [
            ("p5.*", "p5.48xlarge", true),
            ("p?.48xlarge", "p5.48xlarge", true),
            ("p5.48xlarge", "p5.48xlarge", true),
            ("*", "", true),
            ("?", "", false),
            ("p5", "p5.48xlarge", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("*48*", "p5.48xlarge", true),
        ] {
            assert_eq!(like(pattern, text), same, "{pattern} {text}");
        }
    }

    #[test]
    fn a_token_of_somebody_else_is_refused() {
        assert_eq!(opened(&closed("i-1")).unwrap(), "i-1");
        assert!(opened("nonsense!").unwrap_err().message.starts_with("InvalidNextToken: "));
        assert!(opened(&BASE64URL_NOPAD.encode(b"i-1")).is_err());
    }
}
