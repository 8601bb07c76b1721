//! For programs: one JSON object. Its schema comes from the same types, and is part of the program's contract.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use super::{Places, count};
use crate::diag::{self, Diagnostic, Sources};

/// The second number grows when fields are added, the first when one changes its meaning or goes away.
const FORMAT_VERSION: &str = "1.0";

/// Everything that `tidewright validate` has to say about a directory.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Tidewright diagnostics", rename = "Diagnostics")]
struct Report<'a> {
    /// The version of this format. Within one major version fields are only added: skip those you do not know.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    format_version: &'static str,
    /// In the order of path and place.
    diagnostics: Vec<Entry<'a>>,
    /// How many of the diagnostics are errors.
    errors: usize,
    /// How many of the diagnostics are warnings.
    warnings: usize,
}

/// One thing to tell about what was written.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Diagnostic")]
struct Entry<'a> {
    severity: Severity,
    /// The rule. A code is never given to another rule; `tidewright validate --explain CODE` tells its story.
    #[schemars(regex(pattern = r"^TW[0-9]{3}$"))]
    code: &'static str,
    /// The rule in a few words, the same for every diagnostic of the code.
    title: &'static str,
    /// What is wrong here, in one sentence.
    message: &'a str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// The place to blame first, then what it contradicts. Empty when the diagnostic is about the run as a whole.
    labels: Vec<Label<'a>>,
}

/// Errors keep a fleet from being planned, warnings do not.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Error,
    Warning,
}

/// A place in a file.
#[derive(Serialize, JsonSchema)]
struct Label<'a> {
    /// As it was given on the command line, or found below it.
    path: &'a str,
    /// Lines count from 1.
    #[schemars(range(min = 1))]
    line: usize,
    /// Columns count characters (Unicode code points) from 1.
    #[schemars(range(min = 1))]
    column: usize,
    /// The line of the character behind the last.
    #[schemars(range(min = 1))]
    end_line: usize,
    /// The column of the character behind the last; equal to `column` where something is missing.
    #[schemars(range(min = 1))]
    end_column: usize,
    /// What is to be seen at this place; may be empty.
    message: &'a str,
    /// Whether this is the place to blame: the first label is, the others are not.
    primary: bool,
}

/// Ends with a line break.
pub fn json(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let places = Places::new(sources, diagnostics);
    let (errors, warnings) = count(diagnostics);
    let diagnostics = diagnostics.iter().map(|diagnostic| entry(&places, diagnostic)).collect();
    let report = Report { format_version: FORMAT_VERSION, diagnostics, errors, warnings };
    serde_json::to_string_pretty(&report).expect("plain data always serialises") + "\n"
}

/// The JSON Schema (draft-07) of what [`json`] gives.
pub fn json_schema() -> serde_json::Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Report<'_>>().to_value()
}

fn entry<'a>(places: &Places<'a>, diagnostic: &'a Diagnostic) -> Entry<'a> {
    Entry {
        severity: match diagnostic.severity {
            diag::Severity::Error => Severity::Error,
            diag::Severity::Warning => Severity::Warning,
        },
        code: diagnostic.code.id(),
        title: diagnostic.code.title(),
        message: &diagnostic.message,
        hint: diagnostic.hint.as_deref(),
        labels: (0..).zip(&diagnostic.labels).map(|(index, label)| self::label(places, index, label)).collect(),
    }
}

fn label<'a>(places: &Places<'a>, index: usize, (span, message): &'a (diag::Span, String)) -> Label<'a> {
    let super::Region { line, column, end_line, end_column } = places.region(*span);
    Label { path: places.path(*span), line, column, end_line, end_column, message, primary: index == 0 }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::super::tests::fleet;
    use super::*;

    #[test]
    fn a_report_has_every_place() {
        let (sources, diagnostics) = fleet();
        assert_snapshot!(json(&sources, &diagnostics), @r#"
        {
          "format_version": "1.0",
          "diagnostics": [
            {
              "severity": "error",
              "code": "TW001",
              "title": "nothing to read",
              "message": "100% of the directory is empty",
              "labels": []
            },
            {
              "severity": "error",
              "code": "TW103",
              "title": "unknown field",
              "message": "NodePool has no field `spare`",
              "hint": "did you mean `spares`?",
              "labels": [
                {
                  "path": "./fleet/pool, new.yaml",
                  "line": 4,
                  "column": 3,
                  "end_line": 4,
                  "end_column": 8,
                  "message": "unknown field",
                  "primary": true
                }
              ]
            },
            {
              "severity": "warning",
              "code": "TW206",
              "title": "a name that is taken",
              "message": "these labels are taken",
              "labels": [
                {
                  "path": "./fleet/pool, new.yaml",
                  "line": 6,
                  "column": 5,
                  "end_line": 7,
                  "end_column": 9,
                  "message": "",
                  "primary": true
                }
              ]
            },
            {
              "severity": "error",
              "code": "TW501",
              "title": "guarantees that add up to more than the pool holds",
              "message": "256 GPUs are guaranteed, the pool holds 128",
              "hint": "lower the guarantee,\nor make the pool larger",
              "labels": [
                {
                  "path": "fleet/quota.yaml",
                  "line": 3,
                  "column": 39,
                  "end_line": 3,
                  "end_column": 42,
                  "message": "guaranteed here",
                  "primary": true
                },
                {
                  "path": "./fleet/pool, new.yaml",
                  "line": 3,
                  "column": 10,
                  "end_line": 3,
                  "end_column": 12,
                  "message": "16 nodes of 8 GPUs",
                  "primary": false
                },
                {
                  "path": "fleet/quota.yaml",
                  "line": 3,
                  "column": 14,
                  "end_line": 3,
                  "end_column": 19,
                  "message": "this pool",
                  "primary": false
                }
              ]
            }
          ],
          "errors": 3,
          "warnings": 1
        }
        "#);
    }

    #[test]
    fn a_report_fits_its_schema() {
        let schema = json_schema();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        let validator = jsonschema::validator_for(&schema).unwrap();
        let (sources, diagnostics) = fleet();
        let mut report: Value = serde_json::from_str(&json(&sources, &diagnostics)).unwrap();
        assert!(validator.is_valid(&report));
        assert!(validator.is_valid(&serde_json::from_str(&json(&Sources::default(), &[])).unwrap()));
        report["diagnostics"][1]["labels"][0]["line"] = 0.into();
        assert!(!validator.is_valid(&report));
    }

    #[test]
    fn every_field_of_the_schema_is_described() {
        fn undescribed(value: &Value, path: &str, out: &mut Vec<String>) {
            let Value::Object(fields) = value else { return };
            for (name, schema) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if schema.get("description").is_none() && schema.get("$ref").is_none() {
                    out.push(format!("{path}/{name}"));
                }
            }
            fields.iter().for_each(|(name, inner)| undescribed(inner, &format!("{path}/{name}"), out));
        }
        let mut out = Vec::new();
        undescribed(&json_schema(), "", &mut out);
        assert_eq!(out, Vec::<String>::new());
    }
}
