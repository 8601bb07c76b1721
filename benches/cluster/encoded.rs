//! Nodes as the API server writes them for whoever asks for its own format: every field of theirs, also those that
//! nobody reads, by the numbers of `k8s.io/api`.

use bytes::Bytes;
use serde_json::Value;

/// The same list that `items` are in JSON.
pub fn list(items: &[Value], next: &str) -> Bytes {
    let mut all = part(1, &[text(2, "1"), text(3, next)].concat());
    for item in items {
        all.extend(part(2, &node(item)));
    }
    let kind = part(1, &[text(1, "v1"), text(2, "NodeList")].concat());
    let envelope = [b"k8s\0".to_vec(), kind, part(2, &all)].concat();
    Bytes::from(envelope)
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

fn part(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

fn text(field: u64, text: &str) -> Vec<u8> {
    part(field, text.as_bytes())
}

/// A text of an object, which is written also where it is empty.
fn word(field: u64, object: &Value, key: &str) -> Vec<u8> {
    text(field, object[key].as_str().unwrap_or_default())
}

fn time(field: u64, object: &Value, key: &str) -> Vec<u8> {
    let at: Option<jiff::Timestamp> = object[key].as_str().and_then(|text| text.parse().ok());
    at.map(|at| part(field, &number(1, at.as_second().cast_unsigned()))).unwrap_or_default()
}

fn each(list: &Value, one: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    list.as_array().into_iter().flatten().flat_map(one).collect()
}

fn map(field: u64, map: &Value, value: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let entries = map.as_object().into_iter().flatten();
    entries.flat_map(|(key, found)| part(field, &[text(1, key), value(found)].concat())).collect()
}

fn plain(value: &Value) -> Vec<u8> {
    text(2, value.as_str().unwrap_or_default())
}

fn quantity(value: &Value) -> Vec<u8> {
    part(2, &text(1, value.as_str().unwrap_or_default()))
}

fn node(node: &Value) -> Vec<u8> {
    [part(1, &meta(&node["metadata"])), part(2, &spec(&node["spec"])), part(3, &status(&node["status"]))].concat()
}

fn meta(meta: &Value) -> Vec<u8> {
    let managed = |one: &Value| {
        let fields = text(1, &one["fieldsV1"].to_string());
        let words = [word(1, one, "manager"), word(2, one, "operation"), word(3, one, "apiVersion")].concat();
        part(17, &[words, time(4, one, "time"), word(6, one, "fieldsType"), part(7, &fields)].concat())
    };
    [
        word(1, meta, "name"),
        word(3, meta, "namespace"),
        word(5, meta, "uid"),
        word(6, meta, "resourceVersion"),
        time(8, meta, "creationTimestamp"),
        map(11, &meta["labels"], plain),
        map(12, &meta["annotations"], plain),
        each(&meta["managedFields"], managed),
    ]
    .concat()
}

fn spec(spec: &Value) -> Vec<u8> {
    let taint = |one: &Value| part(5, &[word(1, one, "key"), word(2, one, "value"), word(3, one, "effect")].concat());
    let words = [word(1, spec, "podCIDR"), word(3, spec, "providerID"), number(4, 0)].concat();
    [words, each(&spec["taints"], taint)].concat()
}

fn status(status: &Value) -> Vec<u8> {
    let condition = |one: &Value| {
        let times = [time(3, one, "lastHeartbeatTime"), time(4, one, "lastTransitionTime")].concat();
        let words = [word(5, one, "reason"), word(6, one, "message")].concat();
        part(4, &[word(1, one, "type"), word(2, one, "status"), times, words].concat())
    };
    let image = |one: &Value| {
        let names = each(&one["names"], |name| text(1, name.as_str().unwrap_or_default()));
        part(8, &[names, number(2, one["sizeBytes"].as_u64().unwrap_or(0))].concat())
    };
    let address = |one: &Value| part(5, &[word(1, one, "type"), word(2, one, "address")].concat());
    let info = map(1, &status["nodeInfo"], plain);
    [
        map(1, &status["capacity"], quantity),
        map(2, &status["allocatable"], quantity),
        each(&status["conditions"], condition),
        each(&status["addresses"], address),
        part(7, &info),
        each(&status["images"], image),
    ]
    .concat()
}
