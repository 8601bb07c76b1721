//! Schemas from the spec types: what the walk reads, what editors read, what an API server reads.
//!
//! One marked schema a kind comes from schemars (`x-tidewright-*` keys carry what JSON Schema cannot say), and the
//! published forms are made from it: JSON Schema draft-07, because every editor reads it, and structural CRDs by way of
//! kube-core's rewriter. `tidewright schema` writes them; a test fails when the files drift.

use kube_core::schema::StructuralSchemaRewriter;
use schemars::generate::SchemaSettings;
use schemars::transform::Transform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value as Json, json};

use super::tree::MAX_KEYS;
use super::{API_VERSION, GROUP, Kind, Metadata, VERSION, formats};
use super::{fleet, health, layout, pool, quota, reservation, scheduler, tide, tier};

/// The schema of a whole document of one kind, with our marks in it.
pub fn marked(kind: Kind) -> Json {
    let spec = match kind {
        Kind::Fleet => plain::<fleet::FleetSpec>(),
        Kind::Reservation => plain::<reservation::ReservationSpec>(),
        Kind::NodePool => plain::<pool::NodePoolSpec>(),
        Kind::GpuLayout => plain::<layout::GpuLayoutSpec>(),
        Kind::PreemptionTier => plain::<tier::PreemptionTierSpec>(),
        Kind::Quota => plain::<quota::QuotaSpec>(),
        Kind::TideSchedule => plain::<tide::TideScheduleSpec>(),
        Kind::SchedulerProfile => plain::<scheduler::SchedulerProfileSpec>(),
        Kind::HealthPolicy => plain::<health::HealthPolicySpec>(),
    };
    json!({
        "title": kind.name(),
        "description": spec["description"],
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of the language.", "enum": [API_VERSION]},
            "kind": {"type": "string", "description": spec["description"], "enum": [kind.name()]},
            "metadata": plain::<Metadata>(),
            "spec": spec,
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": false,
    })
}

/// JSON Schema draft-07 for one kind.
pub fn editor(kind: Kind) -> Json {
    let mut schema = marked(kind);
    publish(&mut schema, Reader::Editor);
    with_head(schema)
}

/// JSON Schema draft-07 for a document of any kind: for files that hold several.
pub fn editor_any() -> Json {
    let kinds = Kind::ALL.iter().map(|kind| {
        let mut schema = marked(*kind);
        publish(&mut schema, Reader::Editor);
        json!({
            "if": {"properties": {"kind": {"const": kind.name()}}, "required": ["kind"]},
            "then": schema,
        })
    });
    with_head(json!({
        "title": "Tidewright",
        "description": "A document of a fleet.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of the language.", "enum": [API_VERSION]},
            "kind": {
                "type": "string",
                "description": "What the document describes.",
                "enum": Kind::ALL.map(Kind::name),
            },
            "metadata": {"type": "object", "description": "What is said about the document itself: its name above \
                all."},
            "spec": {"type": "object", "description": "What it describes. Its fields depend on the kind."},
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "allOf": kinds.collect::<Vec<_>>(),
    }))
}

/// The CustomResourceDefinition of one kind.
pub fn crd(kind: Kind) -> Json {
    let mut schema = marked(kind);
    publish(&mut schema, Reader::ApiServer);
    let spec = schema["properties"]["spec"].take();
    let description = schema["description"].take();
    let mut root: Schema = json!({
        "description": description,
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {
                "description": "What became of it.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
            },
        },
        "required": ["spec"],
        "x-kubernetes-validations": name_rules(kind),
    })
    .try_into()
    .expect("an object is a schema");
    StructuralSchemaRewriter.transform(&mut root);
    let columns: Vec<Json> = kind
        .columns()
        .iter()
        .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
        .chain([json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})])
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", kind.plural())},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name(),
                "listKind": format!("{}List", kind.name()),
                "plural": kind.plural(),
                "singular": kind.name().to_lowercase(),
                "shortNames": [kind.short_name()],
                "categories": ["tidewright"],
            },
            // A fleet describes a whole cluster, so its objects belong to no namespace.
            "scope": "Cluster",
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": root.to_value()},
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

/// Of an object's metadata a rule sees the name and nothing else.
fn name_rules(kind: Kind) -> Vec<Json> {
    let rule = |rule: &str, message: &str| json!({"rule": rule, "message": message});
    // Names of pools become label values, and those hold 63 characters.
    let mut rules = vec![rule(
        "self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",
        "TW107: a name has at most 63 characters and no dot",
    )];
    match kind {
        Kind::GpuLayout => rules.push(rule("self.metadata.name != 'whole'", "TW206: `whole` is built in")),
        Kind::PreemptionTier => rules.push(rule(
            "!self.metadata.name.startsWith('system-')",
            "TW206: Kubernetes keeps names that begin with `system-` for itself",
        )),
        Kind::NodePool => rules.push(rule(
            "!has(self.spec.placement) || !has(self.spec.placement.apartFrom) || \
             !(self.metadata.name in self.spec.placement.apartFrom)",
            "TW203: a pool cannot be apart from itself",
        )),
        _ => {}
    }
    rules
}

fn with_head(mut schema: Json) -> Json {
    let mut head = Map::new();
    head.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
    if let Some(body) = schema.as_object_mut() {
        head.append(body);
    }
    Json::Object(head)
}

/// The schema of a type with nothing in it that the walk does not read.
fn plain<T: JsonSchema>() -> Json {
    let generator = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
        root.remove("title");
    }
    simplify(&mut schema);
    schema
}

/// Absent is said by leaving a field out, never by null; a Rust enum with values becomes an object of which exactly one
/// field is set; a plain Rust enum becomes a list of words.
fn simplify(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.get("default") == Some(&Json::Null) {
        object.remove("default");
    }
    object.remove("format");
    if let Some(types) = object.get_mut("type").and_then(Json::as_array_mut) {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(words) = object.get_mut("enum").and_then(Json::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
    if let Some(choices) = object.remove("anyOf") {
        // `Option<T>` of a type that is no plain object: T or null.
        let some = choices.as_array().into_iter().flatten().find(|choice| choice["type"] != "null");
        for (key, value) in some.and_then(Json::as_object).cloned().unwrap_or_default() {
            object.entry(key).or_insert(value);
        }
    }
    if let Some(Json::Array(choices)) = object.remove("oneOf") {
        merge_choices(object, choices);
    }
    for key in ["properties", "patternProperties"] {
        if let Some(fields) = object.get_mut(key).and_then(Json::as_object_mut) {
            fields.values_mut().for_each(simplify);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            simplify(inner);
        }
    }
}

fn merge_choices(object: &mut Map<String, Json>, choices: Vec<Json>) {
    if choices.iter().all(|choice| choice["type"] == "string") {
        let mut words = Vec::new();
        let mut meanings = Vec::new();
        for choice in &choices {
            let of_choice = choice
                .get("const")
                .cloned()
                .into_iter()
                .chain(choice["enum"].as_array().cloned().into_iter().flatten());
            for word in of_choice {
                if let (Some(word), Some(meaning)) = (word.as_str(), choice["description"].as_str()) {
                    meanings.push(format!("`{word}`: {meaning}"));
                }
                words.push(word);
            }
        }
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), Json::Array(words));
        if !meanings.is_empty() {
            let head =
                object.get("description").and_then(Json::as_str).map(|text| format!("{text}\n\n")).unwrap_or_default();
            object.insert("description".into(), format!("{head}{}", meanings.join("\n")).into());
        }
        return;
    }
    let mut fields = Map::new();
    for choice in choices {
        for (name, field) in choice["properties"].as_object().into_iter().flatten() {
            let mut field = field.clone();
            // What the variant's comment says is closer to the use than what the type's comment says.
            if let (Some(text), Some(field)) = (choice.get("description"), field.as_object_mut()) {
                field.insert("description".into(), text.clone());
            }
            fields.insert(name.clone(), field);
        }
    }
    let names: Vec<Json> = fields.keys().map(|name| name.as_str().into()).collect();
    object.insert("type".into(), "object".into());
    object.insert("properties".into(), Json::Object(fields));
    object.insert("additionalProperties".into(), false.into());
    object.insert("x-tidewright-one-of".into(), json!([names]));
}

#[derive(Clone, Copy, PartialEq)]
enum Reader {
    Editor,
    ApiServer,
}

/// What JSON Schema can say of a format. The length repeats what the pattern says, for an API server that works out
/// what a rule over the word may cost.
fn bounds(format: &formats::Format) -> Map<String, Json> {
    let mut bounds = Map::new();
    if format.name == "usd" {
        bounds.insert("minimum".into(), 0.into());
    }
    if format.longest > 0 {
        bounds.insert("maxLength".into(), format.longest.into());
    }
    if !format.pattern.is_empty() {
        bounds.insert("pattern".into(), format.pattern.into());
    }
    bounds
}

/// Turns our marks into what JSON Schema can say for this reader, and removes them.
fn publish(schema: &mut Json, reader: Reader) {
    let Some(object) = schema.as_object_mut() else { return };
    let format = |mark: Option<Json>| mark.as_ref().and_then(Json::as_str).and_then(formats::format);
    if let Some(format) = format(object.remove("x-tidewright-format")) {
        object.append(&mut bounds(format));
    }
    let (keys, values) = (object.remove("x-tidewright-key-format"), object.remove("x-tidewright-value-format"));
    if let Some(format) = format(keys)
        && reader == Reader::Editor
    {
        object.insert("propertyNames".into(), Json::Object(bounds(format)));
    }
    if let Some(inner) = object.get_mut("additionalProperties").and_then(Json::as_object_mut) {
        if let Some(values) = values {
            inner.insert("x-tidewright-format".into(), values);
        }
        object.entry("maxProperties").or_insert(MAX_KEYS.into());
    }
    if let Some(Json::Array(groups)) = object.remove("x-tidewright-one-of") {
        let fields = object.get("properties").and_then(Json::as_object).map_or(0, Map::len);
        for group in groups.iter().filter_map(Json::as_array) {
            if group.len() == fields {
                object.insert("minProperties".into(), 1.into());
                object.insert("maxProperties".into(), 1.into());
            } else {
                let each: Vec<Json> = group.iter().map(|name| json!({"required": [name]})).collect();
                object.insert("oneOf".into(), each.into());
            }
        }
    }
    match reader {
        Reader::Editor => {
            object.remove("x-kubernetes-validations");
        }
        // An API server prunes unknown fields by itself, and refuses to be told to.
        Reader::ApiServer if object.get("additionalProperties") == Some(&Json::Bool(false)) => {
            object.remove("additionalProperties");
        }
        Reader::ApiServer => {}
    }
    if let Some(fields) = object.get_mut("properties").and_then(Json::as_object_mut) {
        fields.values_mut().for_each(|field| publish(field, reader));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            publish(inner, reader);
        }
    }
}
