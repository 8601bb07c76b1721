//! Manifests back to YAML, as a person would have written them: what parses to the same manifests again.
//!
//! Comments and the order of fields are not kept; `edit` will change a file in place where those matter.

use serde::Serialize;

use super::{API_VERSION, Body, Metadata, Spec};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'a Metadata,
    spec: &'a Spec,
}

/// One file with these documents.
pub fn print<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> String {
    let documents = bodies.into_iter().map(|Body { metadata, spec }| {
        let document = Document { api_version: API_VERSION, kind: spec.kind().name(), metadata, spec };
        serde_saphyr::to_string(&document).expect("a manifest is plain data")
    });
    documents.collect::<Vec<_>>().join("---\n")
}
