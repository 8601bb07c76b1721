//! Schemas and CRDs: no drift, well formed for those who read them, and the same judgement as the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assert_cmd::Command;
use kube_cel::cel::Program;
use kube_cel::cel::common::ast::Expr;
use kube_cel::{CompiledSchema, ErrorKind, Validator, compile_schema, validate_compiled};
use proptest::prelude::*;
use serde_json::Value;
use tidewright::diag::Diagnostic;
use tidewright::load::{Loaded, load};
use tidewright::manifest::formats;
use tidewright::manifest::schema::{crd, editor, editor_any};
use tidewright::manifest::{Kind, Manifest, lower};

use crate::fleets::{Checked, INIT, check, document, head, now};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a directory, by its path from there.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let name = entry.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
                found.insert(name, std::fs::read_to_string(&entry).unwrap_or_default());
            }
        }
    }
    found
}

#[test]
fn the_published_schemas_are_what_the_program_writes() {
    let mut check = Command::cargo_bin("tidewright").unwrap();
    check.current_dir(root()).args(["schema", "--check"]).assert().success();
    let fresh = tempfile::tempdir().unwrap();
    let mut write = Command::cargo_bin("tidewright").unwrap();
    write.arg("schema").arg(fresh.path()).assert().success();
    let (fresh, published) = (files(fresh.path()), files(&root().join("schemas")));
    assert_eq!(fresh.keys().collect::<Vec<_>>(), published.keys().collect::<Vec<_>>());
    for (name, text) in &fresh {
        assert!(published[name] == *text, "schemas/{name} has drifted: run `tidewright schema`");
    }
    assert!(fresh.len() > 2 * Kind::ALL.len());
}

#[test]
fn a_schema_that_has_drifted_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("tidewright").unwrap();
        command.arg("schema").arg(directory.path()).args(arguments).assert()
    };
    run(&["--check"]).code(1);
    run(&[]).success();
    run(&["--check"]).success();
    let one = directory.path().join("crds/quotas.yaml");
    std::fs::write(&one, std::fs::read_to_string(&one).unwrap().replace("twquota", "tq")).unwrap();
    let said = String::from_utf8(run(&["--check"]).code(1).get_output().stderr.clone()).unwrap();
    assert!(said.contains("crds/quotas.yaml") && !said.contains("crds/fleets.yaml"), "{said}");
}

fn editor_schemas() -> Vec<(String, Value)> {
    let kinds = Kind::ALL.iter().map(|kind| (kind.name().to_string(), editor(*kind)));
    kinds.chain([("any".to_string(), editor_any())]).collect()
}

/// Calls back for a schema and every schema in it, with its path.
fn each<'s>(schema: &'s Value, path: &str, visit: &mut dyn FnMut(&str, &'s serde_json::Map<String, Value>)) {
    let Some(object) = schema.as_object() else { return };
    visit(path, object);
    for (name, field) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        each(field, &format!("{path}.{name}"), visit);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}"), ("if", "?"), ("then", "")] {
        if let Some(inner) = object.get(key) {
            each(inner, &format!("{path}{mark}"), visit);
        }
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for inner in object.get(key).and_then(Value::as_array).into_iter().flatten() {
            each(inner, &format!("{path}|"), visit);
        }
    }
}

#[test]
fn every_editor_schema_is_a_schema_of_draft_07() {
    for (name, schema) in editor_schemas() {
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#", "{name}");
        if let Err(error) = jsonschema::draft7::meta::validate(&schema) {
            panic!("{name}: {error}");
        }
        each(&schema, &name, &mut |path, object| {
            let ours = object.keys().find(|key| key.starts_with("x-"));
            assert_eq!(ours, None, "{path}: editors know nothing of it");
        });
    }
    let output = files(&root().join("schemas/output"));
    for (name, text) in output {
        jsonschema::draft7::meta::validate(&serde_json::from_str(&text).unwrap())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Longer texts hide what is below them when an editor shows them beside the field.
const LONGEST_DESCRIPTION: usize = 400;

#[test]
fn every_field_is_described_and_none_at_length() {
    let crds = Kind::ALL.iter().map(|kind| (format!("crd {}", kind.name()), openapi(*kind).clone()));
    for (name, schema) in editor_schemas().into_iter().chain(crds) {
        each(&schema, &name, &mut |path, object| {
            for (field, schema) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let is_choice = path.ends_with('?');
                let said = schema["description"].as_str().unwrap_or_default();
                assert!(is_choice || !said.trim().is_empty(), "{path}.{field} has no description");
                let length = said.chars().count();
                assert!(length <= LONGEST_DESCRIPTION, "{path}.{field} is described by {length} characters");
                assert!(!said.contains("  ") && !said.starts_with(' '), "{path}.{field}: {said:?}");
            }
        });
    }
}

#[test]
fn what_is_valid_for_the_program_is_valid_for_editors_and_api_servers() {
    let mut documents = 0;
    for (_, text) in INIT {
        for document in text.split("\n---\n") {
            let value: Value = serde_saphyr::from_str(document).unwrap();
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value["kind"]).unwrap();
            for schema in [editor(kind), editor_any(), openapi(kind).clone()] {
                let validator = jsonschema::draft7::new(&schema).unwrap();
                let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
                assert_eq!(errors, Vec::<String>::new(), "{document}");
                let mut spoilt = value.clone();
                spoilt["spec"]["nodes"] = "many".into();
                spoilt["spec"]["rank"] = "high".into();
                spoilt["spec"]["mig"] = 1.into();
                spoilt["spec"]["timeZone"] = 1.into();
                spoilt["spec"]["tiers"] = 1.into();
                assert!(!validator.is_valid(&spoilt), "{document}");
            }
            documents += 1;
        }
    }
    assert_eq!(documents, 10);
}

/// The formats that some schema names.
const FORMATS: [&str; 28] = [
    "name",
    "subdomain",
    "cohort",
    "labelKey",
    "labelValue",
    "instanceType",
    "gpuModel",
    "migProfile",
    "zone",
    "region",
    "accountId",
    "url",
    "reservationId",
    "imageId",
    "ssmName",
    "tagKey",
    "tagValue",
    "conditionType",
    "duration",
    "timeOfDay",
    "days",
    "percent",
    "timeZone",
    "date",
    "instant",
    "end",
    "usd",
    "ratio",
];

/// What the program takes for a word of a format, the pattern takes too: an editor never refuses what is right.
fn pattern_allows(format: &formats::Format, word: &str) {
    if (format.check)(word).is_ok() && format.longest > 0 {
        let schema = serde_json::json!({"type": "string", "pattern": format.pattern, "maxLength": format.longest});
        assert!(jsonschema::draft7::is_valid(&schema, &word.into()), "{}: {word:?}", format.name);
    }
}

#[test]
fn every_word_of_a_document_has_a_pattern_that_allows_it() {
    let words = [
        "",
        "a",
        "a-b",
        "a.b",
        "A",
        "a/b",
        "0",
        "00",
        "a b",
        "p5.48xlarge",
        "h100-sxm",
        "1g.10gb",
        "1g.10gb+me.all",
        "us-west-2a",
        "us-west-2-lax-1a",
        "us-east-1-wl1-bos-wlz-1",
        "us-west-2",
        "us-gov-west-1",
        "123456789012",
        "http://a",
        "https://a/b?c",
        "http://",
        "cr-01234567",
        "ami-0123456789abcdef0",
        "/a/b",
        "/",
        "Ready",
        "a.b/C",
        "0s",
        "90s",
        "1h30m",
        "10d",
        "007d",
        "3660d",
        "00:00",
        "23:59",
        "24:00",
        "+1:30",
        "1:30",
        "Mon",
        "Mon-Fri",
        "mon",
        "1%",
        "100%",
        "+5%",
        "005%",
        "101%",
        "UTC",
        "Etc/GMT+1",
        "America/Argentina/Buenos_Aires",
        "utc",
        "2026-11-27",
        "2026-W48-5",
        "20261127",
        "2026-06-20T00:00Z",
        "2026-06-20T00Z",
        "20260620T000000Z",
        "2026-06-20 00:00:00+05:30",
        "2026-06-20T00:00:00.123456789-08:00[America/Los_Angeles]",
        "+002026-06-20T00:00Z",
        "never",
        "Never",
        "1200",
        "38.10",
        "example.com/Gpu_1",
        "nvidia.com/gpu",
    ];
    let long = [
        "a".repeat(63),
        "a".repeat(64),
        "a".repeat(253),
        "a".repeat(254),
        format!("{}/{}", "a".repeat(63), "b".repeat(63)),
    ];
    let zones: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    for format in FORMATS.map(|name| formats::format(name).unwrap()) {
        let all = words.iter().copied().chain(long.iter().map(String::as_str)).chain(zones.iter().map(String::as_str));
        all.for_each(|word| pattern_allows(format, word));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_word_is_right_for_the_program_and_wrong_for_an_editor(
        word in concat!(
            "[-a-zA-Z0-9:/.+_%TZ ]{0,24}|[a-z]{2}(-[a-z0-9]{1,4}){1,5}|[0-9]{1,3}[dhms]?[0-9]{0,2}[hms]?|",
            "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}(:[0-9]{2}){0,2}(Z|[+-][0-9]{2}:?[0-9]{2}))?",
        ),
    ) {
        FORMATS.iter().for_each(|name| pattern_allows(formats::format(name).unwrap(), &word));
    }
}

// ---- CRDs ----

fn openapi(kind: Kind) -> &'static Value {
    static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let schema = |kind: &Kind| crd(*kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
        Kind::ALL.iter().map(schema).collect()
    });
    &ALL[kind as usize]
}

/// What an API server refuses in a structural schema, or drops without a word.
const FORBIDDEN: [&str; 16] = [
    "$ref",
    "$id",
    "$schema",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "const",
    "propertyNames",
    "if",
    "then",
];

/// Beside these a value may only be judged, not described.
const LOGICAL: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];

/// The first thing that makes a schema not structural.
fn unstructural(schema: &Value) -> Option<String> {
    let mut found = None;
    each(schema, "", &mut |path, object| {
        let mut say = |what: String| found = found.take().or(Some(format!("{path}: {what}")));
        for key in FORBIDDEN.iter().filter(|key| object.contains_key(**key)) {
            say(format!("`{key}`"));
        }
        if path.ends_with('|') {
            // Inside of a logical junctor nothing is described.
            for key in ["type", "description", "title", "default", "additionalProperties", "nullable"] {
                if object.contains_key(key) {
                    say(format!("`{key}` inside of {LOGICAL:?}"));
                }
            }
            return;
        }
        if !object.get("type").is_some_and(Value::is_string) && object.get("x-kubernetes-int-or-string").is_none() {
            say("no type".into());
        }
        if object.contains_key("properties") && object.contains_key("additionalProperties") {
            say("`properties` beside `additionalProperties`".into());
        }
        if object.get("additionalProperties").is_some_and(|inner| !inner.is_object()) {
            say("`additionalProperties` that is no schema".into());
        }
        if object.get("type").is_some_and(|kind| kind == "array") && !object.get("items").is_some_and(Value::is_object)
        {
            say("a list without `items`".into());
        }
        if object.get("uniqueItems") == Some(&Value::Bool(true)) {
            say("`uniqueItems`".into());
        }
        // Not asked by the API server, but by what it works out a rule to cost.
        let bounded = match object.get("type").and_then(Value::as_str) {
            Some("array") => object.contains_key("maxItems"),
            Some("string") => object.contains_key("maxLength") || object.contains_key("enum"),
            Some("object") if object.contains_key("additionalProperties") => object.contains_key("maxProperties"),
            _ => true,
        };
        if !bounded {
            say("no bound on its size".into());
        }
    });
    found
}

#[test]
fn every_crd_is_structural_and_bounded() {
    for kind in Kind::ALL {
        let schema = openapi(kind);
        assert_eq!(unstructural(schema), None, "{}", kind.name());
        each(schema, kind.name(), &mut |path, object| {
            for key in object.keys().filter(|key| key.starts_with("x-")) {
                assert!(key.starts_with("x-kubernetes-"), "{path}: an API server knows nothing of {key}");
            }
            // A default of an object is filled in as it is: what is in it must be allowed.
            if let Some(default) = object.get("default") {
                assert!(jsonschema::draft7::is_valid(&Value::Object(object.clone()), default), "{path}: {default}");
            }
        });
    }
}

#[test]
fn the_check_for_structural_schemas_can_fail() {
    let wrong = [
        r#"{"type": "object", "properties": {"a": {"$ref": "x"}}}"#,
        r#"{"type": "object", "properties": {}, "additionalProperties": false}"#,
        r#"{"type": "object", "properties": {"a": {"description": "no type"}}}"#,
        r#"{"type": "object", "properties": {"a": {"type": "array", "maxItems": 1}}}"#,
        r#"{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}"#,
        r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#,
        r#"{"type": "object", "oneOf": [{"type": "object"}]}"#,
        r#"{"type": "object", "additionalProperties": true, "maxProperties": 1}"#,
        r#"{"type": "object", "patternProperties": {}}"#,
    ];
    for text in wrong {
        assert!(unstructural(&serde_json::from_str(text).unwrap()).is_some(), "{text}");
    }
}

#[test]
fn printer_columns_point_at_fields() {
    for kind in Kind::ALL {
        let (schema, definition) = (openapi(kind), crd(kind));
        let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap().clone();
        assert!(columns.len() >= 3, "{}", kind.name());
        for column in columns {
            let path = column["jsonPath"].as_str().unwrap();
            if path.starts_with(".metadata.") {
                continue;
            }
            let field = path.split('.').skip(1).try_fold(schema, |schema, name| schema["properties"].get(name));
            let field = field.unwrap_or_else(|| panic!("{}: there is no {path}", kind.name()));
            let shown = match field["type"].as_str().unwrap() {
                // A list is shown as text.
                "array" => "string",
                other => other,
            };
            assert_eq!(column["type"], shown, "{} {path}", kind.name());
        }
    }
}

/// Names that `kubectl` knows already: of Kubernetes, Karpenter, Kueue, Cluster API and others that run beside us.
const TAKEN: &str = "po no ns svc ep deploy rs sts ds cm pv pvc sa sc pdb pc quota limits rc csr crd crds hpa ing \
    netpol ev \
    cj cs va vac nodepool nodepools np nc nodeclaim nodeclaims nodeclass ec2nodeclass ec2nodeclasses cq lq rf wl wpc \
    co topo \
    ac localqueue clusterqueue workload cohort ma md ms mhc cl mp kcp kct machine machines rt rtb cluster prov \
    quotas tier fleet fleets reservations";

#[test]
fn the_names_in_a_cluster_are_our_own() {
    let taken: BTreeSet<&str> = TAKEN.split_whitespace().collect();
    let mut short = BTreeSet::new();
    for kind in Kind::ALL {
        let definition = crd(kind);
        let names = &definition["spec"]["names"];
        assert_eq!(names["categories"], serde_json::json!(["tidewright"]));
        assert_eq!(definition["metadata"]["name"], format!("{}.tidewright.dev", names["plural"].as_str().unwrap()));
        assert_eq!(definition["spec"]["scope"], "Cluster");
        for name in names["shortNames"].as_array().unwrap() {
            let name = name.as_str().unwrap().to_string();
            assert!(!taken.contains(name.as_str()), "{name} is taken");
            assert!(name.starts_with("tw"), "{name}");
            assert!(short.insert(name.clone()), "{name} is the short name of two kinds");
        }
    }
}

// ---- rules in CEL ----

/// A rule of a CRD, where it stands.
struct Rule<'s> {
    kind: Kind,
    path: String,
    text: String,
    message: String,
    schema: &'s Value,
    root: &'s Value,
}

fn rules() -> Vec<Rule<'static>> {
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let root = openapi(kind);
        nodes(root, String::new(), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let text = |key: &str| rule[key].as_str().unwrap_or_default().to_string();
                let (text, message) = (text("rule"), text("message"));
                found.push(Rule { kind, path: path.to_string(), text, message, schema, root });
            }
        });
    }
    found
}

fn nodes<'s>(schema: &'s Value, path: String, visit: &mut dyn FnMut(&str, &'s Value)) {
    visit(&path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        nodes(field, format!("{path}.{name}"), visit);
    }
    if schema["items"].is_object() {
        nodes(&schema["items"], format!("{path}[]"), visit);
    }
    if schema["additionalProperties"].is_object() {
        nodes(&schema["additionalProperties"], format!("{path}{{}}"), visit);
    }
}

#[test]
fn every_rule_in_cel_compiles_and_names_its_code() {
    fn errors(schema: &CompiledSchema, found: &mut Vec<String>) {
        found.extend(schema.compilation_errors().iter().map(|error| error.to_string()));
        schema.properties.values().for_each(|inner| errors(inner, found));
        schema.items.iter().chain(&schema.additional_properties).for_each(|inner| errors(inner, found));
    }
    for kind in Kind::ALL {
        let mut found = Vec::new();
        errors(&compile_schema(openapi(kind)), &mut found);
        assert_eq!(found, Vec::<String>::new(), "{}", kind.name());
    }
    let rules = rules();
    assert!(rules.len() > 40, "{}", rules.len());
    for Rule { message, .. } in rules {
        let (code, said) = message.split_once(": ").unwrap_or_else(|| panic!("{message}"));
        assert!(tidewright::diag::Code::from_id(code).is_some_and(|known| known.id() == code), "{message}");
        assert!(!said.is_empty() && said.len() < 100, "{message}");
    }
}

/// An API server refuses a CRD with a rule that could cost more, and a CRD whose rules could cost ten times that
/// together (`StaticEstimatedCostLimit` in apiextensions-apiserver).
const MOST_FOR_A_RULE: u64 = 10_000_000;

/// What a rule could cost at most, by the model of Kubernetes: a step costs one, a comparison of texts a tenth of their
/// length, and a loop its body as often as the list is long.
struct Cost<'s> {
    bound: Vec<(String, Option<&'s Value>)>,
}

impl<'s> Cost<'s> {
    /// What it costs, and the schema of what it gives where that is known.
    fn of(&mut self, expr: &Expr) -> (u64, Option<&'s Value>) {
        match expr {
            Expr::Ident(name) => {
                let bound = self.bound.iter().rev().find(|(bound, _)| bound == name);
                (1, bound.unwrap_or_else(|| panic!("`{name}` is bound to nothing")).1)
            }
            Expr::Select(select) => {
                let (cost, schema) = self.of(&select.operand.expr);
                (
                    cost + 1,
                    schema.and_then(|schema| {
                        schema["properties"].get(&select.field).or_else(|| schema.get("additionalProperties"))
                    }),
                )
            }
            Expr::Call(call) => {
                let parts = call.target.iter().map(|target| &target.expr).chain(call.args.iter().map(|arg| &arg.expr));
                let parts: Vec<_> = parts.map(|part| self.of(part)).collect();
                let size = |schema: &Option<&'s Value>| schema.map_or(1, largest);
                let cost: u64 = parts.iter().map(|(cost, _)| cost).sum();
                let walk: u64 = match call.func_name.as_str() {
                    // A search in a list looks at every entry, a comparison at a tenth of the characters.
                    "@in" if parts.iter().all(|(_, schema)| schema.is_none_or(|s| s["type"] != "array")) => 1,
                    "@in" | "sum" => parts.iter().map(|(_, schema)| size(schema)).max().unwrap_or(1),
                    _ => parts.iter().map(|(_, schema)| size(schema).div_ceil(10)).max().unwrap_or(1),
                };
                let inner = (call.func_name == "_[_]")
                    .then(|| parts[0].1.and_then(|s| s.get("additionalProperties").or(s.get("items"))))
                    .flatten();
                (cost + walk, inner)
            }
            Expr::Comprehension(loops) => {
                let (cost, schema) = self.of(&loops.iter_range.expr);
                let entry = schema.and_then(|schema| schema.get("items"));
                self.bound.push((loops.iter_var.clone(), entry));
                self.bound.push((loops.accu_var.clone(), None));
                let each = [&loops.loop_cond, &loops.loop_step].map(|part| self.of(&part.expr).0).iter().sum::<u64>();
                let end = self.of(&loops.accu_init.expr).0 + self.of(&loops.result.expr).0;
                self.bound.truncate(self.bound.len() - 2);
                // A list made by `map` or `filter` is as long as the one it is made of.
                (cost + end + each * schema.map_or(1, largest), schema)
            }
            Expr::List(list) => (1 + list.elements.iter().map(|one| self.of(&one.expr).0).sum::<u64>(), None),
            _ => (1, None),
        }
    }
}

/// The largest value that a schema allows, in entries or characters.
fn largest(schema: &Value) -> u64 {
    let of = |key: &str| schema[key].as_u64();
    match schema["type"].as_str() {
        Some("array") => of("maxItems").unwrap_or(u64::from(u16::MAX)),
        Some("object") if schema["additionalProperties"].is_object() => {
            of("maxProperties").unwrap_or(u64::from(u16::MAX))
        }
        Some("string") if schema["enum"].is_array() => 32,
        Some("string") => of("maxLength").unwrap_or(u64::from(u16::MAX)),
        _ => 1,
    }
}

/// How often a rule at this path may run: once for each entry of every list above it.
fn times(root: &Value, path: &str) -> u64 {
    let mut schema = root;
    let mut times = 1;
    for step in path.split_inclusive(['.', ']', '}']).filter(|step| *step != ".") {
        let (name, rest) = step.split_at(step.find(['.', '[', '{']).unwrap_or(step.len()));
        if !name.is_empty() {
            schema = &schema["properties"][name];
        }
        if rest.starts_with('[') {
            times *= largest(schema);
            schema = &schema["items"];
        } else if rest.starts_with('{') {
            times *= largest(schema);
            schema = &schema["additionalProperties"];
        }
    }
    times
}

fn cost(rule: &Rule<'_>) -> u64 {
    let program = Program::compile(&rule.text).unwrap();
    let mut cost = Cost { bound: vec![("self".into(), Some(rule.schema))] };
    times(rule.root, &rule.path) * cost.of(&program.expression().expr).0
}

#[test]
fn no_rule_in_cel_costs_more_than_an_api_server_allows() {
    let mut total: BTreeMap<Kind, u64> = BTreeMap::new();
    for rule in rules() {
        let cost = cost(&rule);
        assert!(cost < MOST_FOR_A_RULE / 2, "{} {}: {cost} for {}", rule.kind.name(), rule.path, rule.text);
        *total.entry(rule.kind).or_default() += cost;
    }
    assert!(total.values().all(|cost| *cost < 10 * MOST_FOR_A_RULE / 2), "{total:?}");
    // The estimate sees loops in loops, lists above the rule, and lists without a bound.
    let schema = |most: Option<u32>| {
        let entry = serde_json::json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 100}}});
        let mut list = serde_json::json!({"type": "array", "items": entry});
        if let Some(most) = most {
            list["maxItems"] = most.into();
        }
        serde_json::json!({"type": "object", "properties": {"l": list}})
    };
    let of = |schema: &Value, text: &str| {
        cost(&Rule {
            kind: Kind::Quota,
            path: String::new(),
            text: text.into(),
            message: String::new(),
            schema,
            root: schema,
        })
    };
    let (small, unbound) = (schema(Some(10)), schema(None));
    let (once, twice) = ("self.l.all(a, a.s == 'x')", "self.l.all(a, self.l.exists_one(b, a.s == b.s))");
    assert!((100..1000).contains(&of(&small, once)) && (1000..10_000).contains(&of(&small, twice)));
    assert!(of(&unbound, twice) > MOST_FOR_A_RULE);
    assert_eq!(times(openapi(Kind::Quota), ".spec.shares[].guarantee"), 200);
}

/// The codes that CEL reports for a document, and the rules that it breaks.
fn judged(kind: Kind, document: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    thread_local! {
        static COMPILED: Vec<CompiledSchema> = Kind::ALL.iter().map(|kind| compile_schema(openapi(*kind))).collect();
    }
    let errors = COMPILED.with(|compiled| validate_compiled(&compiled[kind as usize], document, None));
    let errors = errors.err().map(|errors| errors.into_vec());
    let (mut codes, mut broken) = (BTreeSet::new(), BTreeSet::new());
    for error in errors.unwrap_or_default() {
        assert_eq!(error.kind, ErrorKind::ValidationFailure, "{error:?}\n{document}");
        codes.insert(error.message.split(':').next().unwrap_or_default().to_string());
        broken.insert(error.rule);
    }
    (codes, broken)
}

/// A rule of the program that has a code which CEL also has for the kind, and that CEL cannot say.
#[derive(Debug)]
#[allow(dead_code, reason = "the reason is for people")]
struct Beyond {
    kind: Kind,
    code: &'static str,
    /// A part of the program's message or of one of its labels.
    message: &'static str,
    why: &'static str,
}

const fn beyond(kind: Kind, code: &'static str, message: &'static str, why: &'static str) -> Beyond {
    Beyond { kind, code, message, why }
}

const OTHER_OBJECTS: &str = "needs other objects, and a rule sees one";
const OUR_WORDS: &str = "compares lengths of time or instants, which are written in our own way";
const CATALOGUE: &str = "needs the catalogue of hardware";
const OTHER_FILE: &str = "is about a file beside the document";

const BEYOND: &[Beyond] = &[
    beyond(Kind::Reservation, "TW408", "no block lasts", OUR_WORDS),
    beyond(Kind::Reservation, "TW408", "no extension lasts", OUR_WORDS),
    beyond(Kind::Reservation, "TW408", "ends before it begins", OUR_WORDS),
    beyond(Kind::Reservation, "TW408", "the window lasts", OUR_WORDS),
    beyond(Kind::Reservation, "TW408", "extended by", OUR_WORDS),
    beyond(Kind::Reservation, "TW408", "EC2 sells no Capacity Blocks of", CATALOGUE),
    beyond(Kind::GpuLayout, "TW304", "has no GPU", OTHER_OBJECTS),
    beyond(Kind::NodePool, "TW203", "there is no ", OTHER_OBJECTS),
    beyond(
        Kind::NodePool,
        "TW406",
        "nothing is left to use",
        "a reservation fills the pool, or a tide makes it smaller",
    ),
    beyond(Kind::NodePool, "TW203", "the fabric has no level", OTHER_OBJECTS),
    beyond(Kind::GpuLayout, "TW306", "with one node away", OTHER_OBJECTS),
    beyond(Kind::NodePool, "TW306", "with one node away", OTHER_OBJECTS),
    beyond(Kind::Quota, "TW505", "which has none", OTHER_OBJECTS),
    beyond(Kind::Quota, "TW509", "×", "a sum for each profile would cost too much"),
    beyond(Kind::Quota, "TW509", "GPUs, and may use", "counts nodes as GPUs, for which it needs the pool"),
    beyond(Kind::TideSchedule, "TW607", "has no share of pool", OTHER_OBJECTS),
    beyond(Kind::TideSchedule, "TW607", "is guaranteed nothing of pool", OTHER_OBJECTS),
    beyond(Kind::Fleet, "TW307", "the catalogue knows", CATALOGUE),
    beyond(Kind::Fleet, "TW307", "which nothing describes", CATALOGUE),
    beyond(Kind::Fleet, "TW309", "the file does not begin with", OTHER_FILE),
    beyond(Kind::Fleet, "TW309", "names no node", OTHER_FILE),
];

fn says(diagnostic: &Diagnostic, what: &str) -> bool {
    diagnostic.message.contains(what) || diagnostic.labels.iter().any(|(_, label)| label.contains(what))
}

fn is_about(manifest: &Manifest, diagnostic: &Diagnostic) -> bool {
    let tree = manifest.tree.span;
    diagnostic
        .labels
        .iter()
        .any(|(span, _)| span.file == tree.file && tree.start <= span.start && span.start <= tree.end)
}

/// What came of holding documents against both judges.
#[derive(Default)]
struct Agreed {
    /// The rules in CEL that were broken.
    broken: BTreeSet<(Kind, String)>,
    /// Where the judges differ.
    disagreements: Vec<String>,
    /// The excuses that were needed, by their place in the list.
    excuses: BTreeSet<usize>,
}

/// Holds every well-formed document of a fleet against both judges.
fn agree(what: &str, manifests: &[Manifest], sources: &tidewright::diag::Sources, found: &[Diagnostic]) -> Agreed {
    let mut known: BTreeSet<(Kind, String)> = BTreeSet::new();
    for rule in rules() {
        known.insert((rule.kind, rule.message.split(':').next().unwrap_or_default().to_string()));
    }
    let mut agreed = Agreed::default();
    for manifest in manifests.iter().filter(|manifest| manifest.body.is_some()) {
        let kind = manifest.kind.unwrap();
        let about: Vec<&Diagnostic> = found.iter().filter(|d| d.is_error() && is_about(manifest, d)).collect();
        // Of two documents of one name, and of two Fleets, neither is looked at further.
        if about.iter().any(|d| ["TW201", "TW202"].contains(&d.code.id())) {
            continue;
        }
        let text = &sources.file(manifest.tree.span.file).text;
        let text = &text[manifest.tree.span.start as usize..manifest.tree.span.end as usize];
        // As it is indented where it stands, so that block style stays what it is.
        let value: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
        let (by_cel, broken) = judged(kind, &value);
        let excuse =
            |d: &Diagnostic| BEYOND.iter().position(|b| b.kind == kind && b.code == d.code.id() && says(d, b.message));
        let by_us: BTreeSet<String> = about
            .iter()
            .filter(|d| known.contains(&(kind, d.code.id().to_string())) && excuse(d).is_none())
            .map(|d| d.code.id().to_string())
            .collect();
        // What CEL says and an excused rule of the program says too is one opinion.
        let excused: BTreeSet<&str> = about.iter().filter(|d| excuse(d).is_some()).map(|d| d.code.id()).collect();
        let by_cel: BTreeSet<String> =
            by_cel.into_iter().filter(|code| by_us.contains(code) || !excused.contains(code.as_str())).collect();
        if by_cel != by_us {
            let about: Vec<String> = about.iter().map(|d| format!("{} {} {:?}", d.code, d.message, d.labels)).collect();
            let about = about.join("\n");
            agreed
                .disagreements
                .push(format!("{what}: {by_cel:?} by CEL, {by_us:?} by the program\n{text}\n{about}\n"));
        }
        agreed.broken.extend(broken.into_iter().map(|rule| (kind, rule)));
        agreed.excuses.extend(about.iter().filter_map(|d| excuse(d)));
    }
    agreed
}

/// One document for each rule that can be broken by it, with what else it needs to be whole.
const BROKEN: &[(Kind, &str, &str)] = &[
    (Kind::Reservation, "TW104", "{instanceType: p5.48xlarge, nodes: 1, onDemand: {}}"),
    (
        Kind::Reservation,
        "TW408",
        "{id: cr-01234567, instanceType: p5.48xlarge, zone: us-west-2a, nodes: 1, manage: observe, \
            onDemand: {cancel: true}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{id: cr-01234567, instanceType: p5.48xlarge, nodes: 1, manage: observe, capacityBlock: {duration: 7d, \
            window: {from: 2027-01-01T11:30Z, to: 2027-01-08T11:30Z}, maxUpfrontUsd: 1, \
            extend: {by: 7d, approval: {mandate: {upToUsd: 1, expires: 2027-01-01T00:00Z}}}}}",
    ),
    (
        Kind::Reservation,
        "TW104",
        "{instanceType: p5.48xlarge, zone: us-west-2a, nodes: 1, manage: observe, onDemand: {}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{instanceType: p5.48xlarge, nodes: 65, capacityBlock: {duration: 7d, startBetween: {from: 2027-01-01, to: \
            2027-01-02}, maxUpfrontUsd: 1}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{instanceType: p5.48xlarge, nodes: 1, capacityBlock: {duration: 7d, window: {from: 2027-01-01T00:00Z, to: \
            2027-01-08T00:00Z}, maxUpfrontUsd: 1}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{instanceType: p5.48xlarge, nodes: 1, capacityBlock: {duration: 7d, maxUpfrontUsd: 1}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{id: cr-01234567, instanceType: p5.48xlarge, nodes: 1, capacityBlock: {duration: 7d, startBetween: {from: \
            2027-01-01, to: 2027-01-02}, window: {from: 2027-01-01T00:00Z, to: 2027-01-08T00:00Z}, maxUpfrontUsd: 1}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{instanceType: p5.48xlarge, nodes: 1, capacityBlock: {duration: 7d, startBetween: {from: 2027-01-03, to: \
            2027-01-02}, maxUpfrontUsd: 1}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{instanceType: p5.48xlarge, nodes: 1, capacityBlock: {duration: 7d, startBetween: {from: 2027-01-01, to: \
            2027-01-02}, maxUpfrontUsd: 10.5, approval: {offering: {id: cb-1, feeUsd: 10.51}}}}",
    ),
    (
        Kind::Reservation,
        "TW408",
        "{instanceType: p5.48xlarge, nodes: 1, capacityBlock: {duration: 7d, startBetween: {from: 2027-01-01, to: \
            2027-01-02}, maxUpfrontUsd: 10, approval: {mandate: {upToUsd: 11, expires: 2027-01-01T00:00Z}}}}",
    ),
    (Kind::NodePool, "TW411", "{instanceType: p5.48xlarge, fill: reservations, capacity: [{onDemand: {max: 1}}]}"),
    (Kind::NodePool, "TW406", "{instanceType: p5.48xlarge, nodes: 2, spares: 2, capacity: [{onDemand: {max: 2}}]}"),
    (
        Kind::NodePool,
        "TW415",
        "{instanceType: p5.48xlarge, nodes: 2, capacity: [{onDemand: {max: 2}}], updates: {canary: {nodes: 2, for: \
            1h}}}",
    ),
    (
        Kind::NodePool,
        "TW415",
        "{instanceType: p5.48xlarge, nodes: 2, capacity: [{onDemand: {max: 2}}], updates: {when: drain, \
            maxUnavailable: 0}}",
    ),
    (
        Kind::NodePool,
        "TW415",
        "{instanceType: p5.48xlarge, fill: reservations, capacity: [{reservation: r}], updates: {when: drain, \
            maxUnavailable: 0}}",
    ),
    (
        Kind::NodePool,
        "TW207",
        "{instanceType: p5.48xlarge, nodes: 1, capacity: [{reservation: r}, {onDemand: {max: 2}}, {reservation: r}]}",
    ),
    (
        Kind::NodePool,
        "TW207",
        "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 2}}], taints: [{key: a, effect: \
            NoExecute}, {key: a, value: b, effect: NoExecute}]}",
    ),
    (
        Kind::NodePool,
        "TW206",
        "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 2}}], labels: {kubernetes.io/a: b}}",
    ),
    (
        Kind::NodePool,
        "TW206",
        "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 2}}], taints: [{key: tidewright.dev/a, \
            effect: NoExecute}]}",
    ),
    (
        Kind::NodePool,
        "TW203",
        "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 2}}], placement: {apartFrom: [x]}}",
    ),
    (Kind::GpuLayout, "TW306", "{mps: {clients: 2}, keepReady: {1g.10gb: 1}}"),
    (Kind::GpuLayout, "TW304", "{mig: [{slices: {1g.10gb: 7}}, {gpus: [0], slices: {1g.10gb: 7}}]}"),
    (Kind::GpuLayout, "TW304", "{mig: [{gpus: [0, 1], slices: {1g.10gb: 7}}, {gpus: [1], slices: {1g.10gb: 7}}]}"),
    (Kind::GpuLayout, "TW304", "{mig: [{gpus: [0, 1, 0], slices: {1g.10gb: 7}}]}"),
    (Kind::GpuLayout, "TW306", "{mig: [{slices: {1g.10gb: 7}}], keepReady: {2g.20gb: 1}}"),
    (
        Kind::Quota,
        "TW503",
        "{namespaces: [{name: a}], tiers: [t], shares: [{pool: p, guarantee: {gpus: 1}, borrow: {gpus: 1}}]}",
    ),
    (Kind::Quota, "TW207", "{namespaces: [{name: a}], tiers: [t, t]}"),
    (
        Kind::Quota,
        "TW207",
        "{namespaces: [{name: a}], tiers: [t], shares: [{pool: p, guarantee: {gpus: 1}}, {pool: p, guarantee: {gpus: \
            1}}]}",
    ),
    (Kind::Quota, "TW207", "{namespaces: [{name: a}, {name: a, localQueue: default}], tiers: [t]}"),
    (
        Kind::Quota,
        "TW509",
        "{namespaces: [{name: a}], tiers: [t], shares: [{pool: p, guarantee: {gpus: 5}}], total: {gpus: 4}}",
    ),
    (
        Kind::Quota,
        "TW509",
        "{namespaces: [{name: a}], tiers: [t], shares: [{pool: p, guarantee: {nodes: 1}}], total: {nodes: 0}}",
    ),
    (
        Kind::Quota,
        "TW502",
        "{namespaces: [{name: a}], cohort: c, tiers: [t], shares: [{pool: p, guarantee: {gpus: 1}, lend: {gpus: 2}}]}",
    ),
    (
        Kind::Quota,
        "TW502",
        "{namespaces: [{name: a}], cohort: c, tiers: [t], shares: [{pool: p, guarantee: {nodes: 0}, lend: {nodes: \
            1}}]}",
    ),
    (
        Kind::Quota,
        "TW502",
        "{namespaces: [{name: a}], cohort: c, tiers: [t], shares: [{pool: p, guarantee: {slices: {}}, lend: {slices: \
            {1g.10gb: 1}}}]}",
    ),
    (
        Kind::Quota,
        "TW505",
        "{namespaces: [{name: a}], cohort: c, tiers: [t], shares: [{pool: p, guarantee: {nodes: 1}, lend: {gpus: 1}}]}",
    ),
    (
        Kind::Quota,
        "TW505",
        "{namespaces: [{name: a}], cohort: c, tiers: [t], shares: [{pool: p, guarantee: {nodes: 1}, borrow: {slices: \
            {}}}]}",
    ),
    (
        Kind::TideSchedule,
        "TW608",
        "{lowTide: [{days: [Mon], from: \"01:00\", to: \"05:00\"}], exceptions: [{date: 2026-12-24, tide: low}, \
            {date: 2026-12-24, tide: high}], reclaim: {lead: 45m, hardAt: 10m}}",
    ),
    (
        Kind::TideSchedule,
        "TW207",
        "{lowTide: [{days: [Mon], from: \"01:00\", to: \"05:00\"}], resize: [{pool: p, nodes: 1}, {pool: p, nodes: \
            1}], reclaim: {lead: 45m, hardAt: 10m}}",
    ),
    (
        Kind::TideSchedule,
        "TW207",
        "{lowTide: [{days: [Mon], from: \"01:00\", to: \"05:00\"}], lend: [{pool: p, nodes: 1, from: q, to: s}, \
            {pool: p, nodes: 1, from: q, to: s}], reclaim: {lead: 45m, hardAt: 10m}}",
    ),
    (
        Kind::TideSchedule,
        "TW607",
        "{lowTide: [{days: [Mon-Sun], from: \"01:00\", to: \"01:00\"}], lend: [{pool: p, nodes: 1, from: q, to: q}], \
            reclaim: {lead: 45m, hardAt: 10m}}",
    ),
    (Kind::SchedulerProfile, "TW207", "{score: pack, pools: [p, p]}"),
    (Kind::HealthPolicy, "TW207", "{rules: [{when: {xid: [48]}, then: [report]}], limit: 10%, pools: [p, p]}"),
    (
        Kind::Fleet,
        "TW207",
        "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, hardware: [{name: a}, {name: a}]}",
    ),
    (Kind::Fleet, "TW307", "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, hardware: [{name: a, gpus: 1}]}"),
    (
        Kind::Fleet,
        "TW307",
        "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, hardware: [{name: a, gpu: nobody, gpus: 0}]}",
    ),
    (Kind::Fleet, "TW309", "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, fabric: {levels: [{name: a}]}}"),
    (
        Kind::Fleet,
        "TW309",
        "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, fabric: {levels: [{name: a, nodeLabel: \
         kubernetes.io/hostname}, {name: b, nodeLabel: b}]}}",
    ),
    (
        Kind::Fleet,
        "TW309",
        "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, fabric: {levels: [{name: a, nodeLabel: x}, {name: \
            b, nodeLabel: x}]}}",
    ),
    (
        Kind::Fleet,
        "TW207",
        "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, fabric: {levels: [{name: a, nodeLabel: x}, {name: \
            a, nodeLabel: y}]}}",
    ),
];

/// What the broken documents name.
fn around(kind: Kind) -> String {
    let mut all = vec![
        document("Reservation", "r", "{instanceType: p5.48xlarge, zone: us-west-2a, nodes: 4, onDemand: {}}"),
        document("NodePool", "p", "{instanceType: p5.48xlarge, nodes: 4, capacity: [{onDemand: {max: 4}}]}"),
        document("PreemptionTier", "t", "{rank: 1}"),
        document("Quota", "q", "{namespaces: [{name: q}], tiers: [t], shares: [{pool: p, guarantee: {nodes: 2}}]}"),
        document("Quota", "s", "{namespaces: [{name: s}], tiers: [t]}"),
    ];
    if kind != Kind::Fleet {
        all.push(head());
    }
    all.join("---\n")
}

#[test]
fn every_rule_in_cel_is_broken_by_a_document_that_the_program_refuses_too() {
    let mut unbroken: BTreeMap<(Kind, String), String> = BTreeMap::new();
    for rule in rules().into_iter().filter(|rule| !rule.message.starts_with("TW107")) {
        unbroken.insert((rule.kind, rule.text), rule.message);
    }
    let named = [
        (Kind::GpuLayout, "TW206", "whole", "{mps: {clients: 2}}"),
        (Kind::PreemptionTier, "TW206", "system-a", "{rank: 5}"),
    ];
    let all = BROKEN.iter().map(|(kind, code, spec)| (*kind, *code, "x", *spec)).chain(named);
    for (kind, code, name, spec) in all {
        let checked = check(&[("a.yaml", &document(kind.name(), name, spec)), ("b.yaml", &around(kind))]);
        let Checked { sources, manifests, diagnostics, .. } = checked;
        let Agreed { broken, disagreements, .. } =
            agree(&format!("{} {spec}", kind.name()), &manifests, &sources, &diagnostics);
        assert_eq!(disagreements, Vec::<String>::new());
        assert!(manifests[0].body.is_some(), "{spec}: {diagnostics:#?}");
        assert!(
            diagnostics.iter().any(|d| d.code.id() == code && is_about(&manifests[0], d)),
            "{code} {spec}: {diagnostics:#?}"
        );
        assert!(broken.iter().any(|(of, _)| *of == kind), "{code} {spec}");
        for rule in broken {
            unbroken.remove(&rule);
        }
    }
    assert_eq!(unbroken, BTreeMap::new(), "rules that no document here breaks");
}

#[test]
fn names_are_judged_alike_by_api_servers_and_the_program() {
    for kind in Kind::ALL {
        let rules = &openapi(kind)["x-kubernetes-validations"];
        let schema = serde_json::json!({"type": "object", "x-kubernetes-validations": rules});
        let judge = |name: &str| {
            let object = serde_json::json!({"metadata": {"name": name}, "spec": {}});
            let errors = Validator::new().validate(&schema, &object, None).err();
            errors.is_none_or(|errors| errors.iter().all(|error| !error.message.starts_with("TW107")))
        };
        let rust = |name: &str| (formats::format("name").unwrap().check)(name).is_ok();
        for name in ["a", "a-b", &"a".repeat(63), "a.b", &"a".repeat(64)] {
            assert_eq!(judge(name), rust(name), "{} {name}", kind.name());
        }
    }
}

/// Every directory below one of these that is a fleet.
fn fleets() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = ["tests/wrong", "tests/right", "tests/base", "examples", "clusters"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        let entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        if entries.iter().any(|path| path.is_file() && path.extension().is_some_and(|e| e == "yaml" || e == "yml")) {
            found.push(next);
        } else {
            open.extend(entries.into_iter().filter(|path| path.is_dir()));
        }
    }
    found.sort();
    found
}

#[test]
fn cel_and_the_program_agree_on_every_fleet_of_this_repository() {
    let start = tempfile::tempdir().unwrap();
    for (name, text) in INIT {
        std::fs::write(start.path().join(name), text).unwrap();
    }
    let (mut excuses, mut disagreements) = (BTreeSet::new(), Vec::new());
    for directory in fleets().into_iter().chain([start.path().to_path_buf()]) {
        let Loaded { sources, manifests, mut diagnostics } = load(&directory);
        let (_, mut found) = lower(&manifests, &sources, now());
        diagnostics.append(&mut found);
        let agreed = agree(&directory.display().to_string(), &manifests, &sources, &diagnostics);
        excuses.extend(agreed.excuses);
        disagreements.extend(agreed.disagreements);
    }
    let slices = "{namespaces: [{name: a}], tiers: [t], shares: [{pool: m, guarantee: {slices: {1g.10gb: 2}}}], \
        total: {slices: {1g.10gb: 1}}}";
    let pool = "{instanceType: p5.48xlarge, nodes: 1, layout: l, capacity: [{onDemand: {max: 4}}]}";
    let layout = "{mig: [{slices: {1g.10gb: 7}}]}";
    let documents =
        [document("Quota", "x", slices), document("NodePool", "m", pool), document("GpuLayout", "l", layout)];
    let Checked { sources, manifests, diagnostics, .. } =
        check(&[("a.yaml", &documents.join("---\n")), ("b.yaml", &around(Kind::Quota))]);
    let agreed = agree("slices", &manifests, &sources, &diagnostics);
    excuses.extend(agreed.excuses);
    disagreements.extend(agreed.disagreements);
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    let needless: Vec<_> =
        (0..BEYOND.len()).filter(|index| !excuses.contains(index)).map(|index| &BEYOND[index]).collect();
    assert!(needless.is_empty(), "no fleet needs these excuses: {needless:#?}");
}
