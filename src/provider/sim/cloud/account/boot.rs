//! What a machine registers with: the labels and taints that its user data gives the kubelet.

use std::collections::BTreeMap;

use data_encoding::BASE64;

use crate::fleet::launch::{Taint, TaintEffect};

/// The values of `--node-labels=…` and `--register-with-taints=…`, wherever they stand: in a NodeConfig of nodeadm, or
/// in the arguments of an older bootstrap script. Of user data that cannot be read there are none.
pub fn registration(user_data: Option<&str>) -> (BTreeMap<String, String>, Vec<Taint>) {
    let bytes = user_data.and_then(|text| BASE64.decode(text.trim().as_bytes()).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let labels = values(&text, "--node-labels=");
    let labels = labels.filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.into(), value.into()));
    let taints = values(&text, "--register-with-taints=").filter_map(taint).collect();
    (labels.collect(), taints)
}

fn values<'a>(text: &'a str, flag: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ']' | '\\' | '`');
    let lists = text.match_indices(flag).map(move |(at, _)| &text[at + flag.len()..]);
    lists.flat_map(move |rest| rest.split(ends).next().unwrap_or_default().split(',')).filter(|word| !word.is_empty())
}

/// `key=value:effect`, or `key:effect`.
fn taint(text: &str) -> Option<Taint> {
    let (name, effect) = text.rsplit_once(':')?;
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    };
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    Some(Taint { key: key.into(), value: (!value.is_empty()).then(|| value.into()), effect })
}
