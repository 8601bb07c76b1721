//! For code scanning: SARIF 2.1.0, with what GitHub needs to show a result and to keep it apart from others.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{Places, Region};
use crate::diag::{Code, Diagnostic, Severity, Sources, Span, explain};

/// Ends with a line break.
pub fn sarif(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let places = Places::new(sources, diagnostics);
    let codes: Vec<Code> = diagnostics.iter().map(|d| d.code).collect::<BTreeSet<_>>().into_iter().collect();
    let (placed, unplaced): (Vec<_>, Vec<_>) = diagnostics.iter().partition(|d| d.span().is_some());
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "Tidewright",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": codes.iter().map(|code| rule(*code)).collect::<Vec<_>>(),
                },
            },
            "invocations": [invocation(&unplaced)],
            "columnKind": "unicodeCodePoints",
            "results": placed.iter().map(|d| result(&places, &codes, d)).collect::<Vec<_>>(),
        }],
    });
    serde_json::to_string_pretty(&log).expect("plain data always serialises") + "\n"
}

fn rule(code: Code) -> Value {
    let help = explain::story(code).map_or(code.title(), |story| story.text);
    json!({
        "id": code.id(),
        "shortDescription": { "text": code.title() },
        "fullDescription": { "text": code.title() },
        "help": { "text": help, "markdown": help },
        "properties": { "tags": ["gpu", "kubernetes"] },
    })
}

/// GitHub refuses the whole file when a result has no place, so what is about the run as a whole is told here.
fn invocation(unplaced: &[&Diagnostic]) -> Value {
    let notification = |diagnostic: &&Diagnostic| {
        json!({
            "descriptor": { "id": diagnostic.code.id() },
            "level": level(diagnostic),
            "message": { "text": text(diagnostic) },
        })
    };
    json!({
        "executionSuccessful": !unplaced.iter().any(|diagnostic| diagnostic.is_error()),
        "toolExecutionNotifications": unplaced.iter().map(notification).collect::<Vec<_>>(),
    })
}

fn result(places: &Places<'_>, codes: &[Code], diagnostic: &Diagnostic) -> Value {
    let location = |(id, (span, label)): (usize, &(Span, String))| {
        let mut location = json!({ "id": id, "physicalLocation": physical_location(places, *span) });
        if !label.is_empty() {
            location["message"] = json!({ "text": label });
        }
        location
    };
    let mut locations = (0..).zip(&diagnostic.labels).map(location);
    json!({
        "ruleId": diagnostic.code.id(),
        "ruleIndex": codes.binary_search(&diagnostic.code).expect("the rules are those of the results"),
        "level": level(diagnostic),
        "message": { "text": text(diagnostic) },
        "locations": locations.next().into_iter().collect::<Vec<_>>(),
        "relatedLocations": locations.collect::<Vec<_>>(),
    })
}

fn physical_location(places: &Places<'_>, span: Span) -> Value {
    let Region { line, column, end_line, end_column } = places.region(span);
    json!({
        "artifactLocation": { "uri": uri(places.path(span)) },
        "region": { "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column },
    })
}

fn level(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn text(diagnostic: &Diagnostic) -> String {
    match &diagnostic.hint {
        Some(hint) => format!("{}\n{hint}", diagnostic.message),
        None => diagnostic.message.clone(),
    }
}

/// A path as a URI reference (RFC 3986), relative to the root of the repository unless it is absolute.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(byte.into()),
            _ => write!(uri, "%{byte:02X}").expect("a String takes all"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::tests::fleet;
    use super::*;

    fn log() -> Value {
        let (sources, diagnostics) = fleet();
        serde_json::from_str(&sarif(&sources, &diagnostics)).unwrap()
    }

    /// From GitHub's page "SARIF support for code scanning".
    #[test]
    fn it_has_what_code_scanning_needs() {
        let log = log();
        assert_eq!((&log["version"], log["$schema"].is_string()), (&json!("2.1.0"), true));
        let run = &log["runs"][0];
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        assert!(run["tool"]["driver"]["name"].is_string());
        for rule in rules {
            for field in ["shortDescription", "fullDescription", "help"] {
                assert!(!rule[field]["text"].as_str().unwrap().is_empty());
            }
            assert!(rule.get("helpUri").is_none());
        }
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), 3);
        for result in results {
            assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
            assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            assert_eq!(result["locations"].as_array().unwrap().len(), 1);
            for location in
                result["locations"].as_array().unwrap().iter().chain(result["relatedLocations"].as_array().unwrap())
            {
                let place = &location["physicalLocation"];
                assert!(!place["artifactLocation"]["uri"].as_str().unwrap().contains([' ', '#', '?']));
                let number = |field: &str| place["region"][field].as_u64().unwrap();
                assert!(number("startLine") >= 1 && number("startColumn") >= 1);
                let start = (number("startLine"), number("startColumn"));
                assert!(start <= (number("endLine"), number("endColumn")));
            }
        }
    }

    #[test]
    fn what_a_result_contradicts_is_a_related_location() {
        assert_snapshot!(format!("{:#}", log()["runs"][0]["results"][2]), @r#"
        {
          "ruleId": "TW501",
          "ruleIndex": 3,
          "level": "error",
          "message": {
            "text": "256 GPUs are guaranteed, the pool holds 128\nlower the guarantee,\nor make the pool larger"
          },
          "locations": [
            {
              "id": 0,
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "fleet/quota.yaml"
                },
                "region": {
                  "startLine": 3,
                  "startColumn": 39,
                  "endLine": 3,
                  "endColumn": 42
                }
              },
              "message": {
                "text": "guaranteed here"
              }
            }
          ],
          "relatedLocations": [
            {
              "id": 1,
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "fleet/pool%2C%20new.yaml"
                },
                "region": {
                  "startLine": 3,
                  "startColumn": 10,
                  "endLine": 3,
                  "endColumn": 12
                }
              },
              "message": {
                "text": "16 nodes of 8 GPUs"
              }
            },
            {
              "id": 2,
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "fleet/quota.yaml"
                },
                "region": {
                  "startLine": 3,
                  "startColumn": 14,
                  "endLine": 3,
                  "endColumn": 19
                }
              },
              "message": {
                "text": "this pool"
              }
            }
          ]
        }
        "#);
    }

    #[test]
    fn what_has_no_place_is_told_by_the_run() {
        assert_snapshot!(format!("{:#}", log()["runs"][0]["invocations"]), @r#"
        [
          {
            "executionSuccessful": false,
            "toolExecutionNotifications": [
              {
                "descriptor": {
                  "id": "TW001"
                },
                "level": "error",
                "message": {
                  "text": "100% of the directory is empty"
                }
              }
            ]
          }
        ]
        "#);
    }

    #[test]
    fn the_help_of_a_rule_is_its_story() {
        let rules = &log()["runs"][0]["tool"]["driver"]["rules"];
        assert_eq!(rules[1]["id"], "TW103");
        assert_eq!(rules[1]["help"]["text"], explain::story(crate::diag::codes::UNKNOWN_FIELD).unwrap().text);
    }

    #[test]
    fn a_path_becomes_a_uri() {
        assert_eq!(uri("./a b/ü#1%.yaml"), "a%20b/%C3%BC%231%25.yaml");
        assert_eq!(uri("../common/tier.yaml"), "../common/tier.yaml");
        assert_eq!(uri("/srv/a.yaml"), "file:///srv/a.yaml");
    }
}
