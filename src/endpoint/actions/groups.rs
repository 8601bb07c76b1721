//! Placement groups.

use serde_json::{Value, json};

use super::{Answer, Changed, arn, invalid, not_found, tags_of};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Row};
use crate::endpoint::refuse;
use crate::ids::GroupName;
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::CloudState;
use crate::provider::sim::cloud::account::Group;

const FILTERS: Filters =
    &[("group-arn", "GroupArn"), ("group-name", "GroupName"), ("state", "State"), ("strategy", "Strategy")];

pub fn id_of(cloud: &CloudState, name: &GroupName) -> String {
    cloud.fixed_id("pg", &[name.as_str()])
}

/// The group that an ARN names.
pub fn by_arn(cloud: &CloudState, wanted: &str) -> Result<GroupName, ProviderError> {
    let found = cloud.groups.keys().find(|name| arn(cloud, "placement-group", name.as_str()) == wanted);
    found.cloned().ok_or_else(|| unknown(wanted))
}

pub fn create(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let name: GroupName = root.needed("GroupName")?.into();
    let strategy = root.text("Strategy").unwrap_or("cluster").to_string();
    let partitions = root.count("PartitionCount")?.map(u64::from);
    let tags = root.tags_for(&["placement-group"])?;
    ask.done()?;
    if !matches!(strategy.as_str(), "cluster" | "spread" | "partition") {
        return Err(invalid(format!("The strategy '{strategy}' is not simulated: cluster, spread or partition")));
    }
    if state.cloud.groups.contains_key(&name) {
        let text = format!("The Placement Group '{name}' already exists.");
        return Err(refuse("InvalidPlacementGroup.Duplicate", text));
    }
    state.cloud.groups.insert(name.clone(), false);
    let id = id_of(&state.cloud, &name);
    state.cloud.account.tag(&id, tags);
    state.cloud.account.groups.insert(name.clone(), Group { strategy, partitions });
    Ok((json!({"PlacementGroup": told(&state.cloud, &name)}), true))
}

pub fn delete(state: &mut State, ask: &Ask) -> Changed {
    let name: GroupName = ask.root().needed("GroupName")?.into();
    ask.done()?;
    if !state.cloud.groups.contains_key(&name) {
        return Err(unknown(name.as_str()));
    }
    let used = |cloud: &CloudState| {
        let instances =
            cloud.instances.values().any(|found| found.state.is_live() && found.group.as_ref() == Some(&name));
        let arn = arn(cloud, "placement-group", name.as_str());
        let mut reserved = cloud.account.reserved.iter();
        let held = reserved.any(|(id, asked)| {
            asked["PlacementGroupArn"] == arn.as_str()
                && cloud.reservations.get(id).is_some_and(|held| held.over.is_none())
        });
        instances || held
    };
    if used(&state.cloud) {
        let text = format!("The placement group '{name}' is in use and may not be deleted.");
        return Err(refuse("InvalidPlacementGroup.InUse", text));
    }
    state.cloud.groups.remove(&name);
    let id = id_of(&state.cloud, &name);
    state.cloud.account.groups.remove(&name);
    state.cloud.account.tags.remove(&id);
    Ok((json!({}), true))
}

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    let (names, ids) = (root.texts("GroupNames"), root.texts("GroupIds"));
    let rows: Vec<Row> = cloud.groups.keys().map(|name| (name.to_string(), told(cloud, name))).collect();
    let is = |row: &Row, word: &str| row.1["GroupName"] == word || row.1["GroupId"] == word;
    if let Some(missing) = names.iter().chain(&ids).find(|word| !rows.iter().any(|row| is(row, word))) {
        return Err(unknown(missing));
    }
    let wanted = |row: &Row| {
        let mut named = names.iter().chain(&ids).peekable();
        named.peek().is_none() || named.any(|word| is(row, word))
    };
    list::all(ask, "PlacementGroups", FILTERS, rows.into_iter().filter(wanted).collect())
}

fn unknown(name: &str) -> ProviderError {
    not_found("InvalidPlacementGroup.Unknown", format!("The Placement Group '{name}' is unknown."))
}

fn told(cloud: &CloudState, name: &GroupName) -> Value {
    let id = id_of(cloud, name);
    let known = cloud.account.groups.get(name);
    json!({
        "GroupName": name.as_str(),
        "GroupId": id,
        "GroupArn": arn(cloud, "placement-group", name.as_str()),
        "State": "available",
        "Strategy": known.map_or("cluster", |group| group.strategy.as_str()),
        "PartitionCount": known.and_then(|group| group.partitions),
        "Tags": tags_of(cloud, &id),
    })
}
