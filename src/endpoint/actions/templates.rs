//! Launch templates: what they say is kept as it was written, and means something when it is launched.

use serde_json::{Value, json};

use super::launch::KNOWN;
use super::{Answer, Changed, combination, invalid, not_found, tags_of};
use crate::endpoint::ask::{Ask, Part};
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::endpoint::model::instant;
use crate::endpoint::refuse;
use crate::provider::ProviderError;
use crate::provider::sim::State;
use crate::provider::sim::cloud::CloudState;
use crate::provider::sim::cloud::account::{LaunchTemplate, TemplateVersion};

const FILTERS: Filters = &[("launch-template-name", "LaunchTemplateName"), ("create-time", "CreateTime")];
const VERSION_FILTERS: Filters = &[
    ("create-time", "CreateTime"),
    ("image-id", "LaunchTemplateData.ImageId"),
    ("instance-type", "LaunchTemplateData.InstanceType"),
    ("is-default-version", "DefaultVersion"),
];
const PAGES: Pages = Pages { usual: Some(200), least: 1, most: 200 };

pub fn create(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let name = root.needed("LaunchTemplateName")?.to_string();
    let version = version(ask, &root)?;
    let tags = root.tags_for(&["launch-template"])?;
    let token = root.text("ClientToken").map(String::from);
    ask.done()?;
    if !(3..=128).contains(&name.len()) {
        return Err(refuse("InvalidLaunchTemplateName.MalformedException", "a name has 3 to 128 characters"));
    }
    if let Some(id) = made_before(&state.cloud, ask, token.as_deref())? {
        return Ok((json!({"LaunchTemplate": told(&state.cloud, &id)?}), false));
    }
    let account = &state.cloud.account;
    if account.templates.values().any(|template| template.name == name) {
        let text = "Launch template name already in use.";
        return Err(refuse("InvalidLaunchTemplateName.AlreadyExistsException", text));
    }
    let id = state.cloud.fresh_id("lt");
    let template = LaunchTemplate { name, made: ask.now, default: 1, versions: vec![version] };
    state.cloud.account.templates.insert(id.clone(), template);
    state.cloud.account.tag(&id, tags);
    remember(&mut state.cloud, ask, token, &id);
    Ok((json!({"LaunchTemplate": told(&state.cloud, &id)?}), true))
}

pub fn create_version(state: &mut State, ask: &Ask) -> Changed {
    let root = ask.root();
    let id = id_of(&state.cloud, &root)?;
    let version = version(ask, &root)?;
    let token = root.text("ClientToken").map(String::from);
    ask.done()?;
    if let Some(made) = made_before(&state.cloud, ask, token.as_deref())? {
        let number: u64 = made.rsplit('/').next().and_then(|word| word.parse().ok()).unwrap_or(1);
        return Ok((json!({"LaunchTemplateVersion": version_told(&state.cloud, &id, number)?}), false));
    }
    let template = state.cloud.account.templates.get_mut(&id).ok_or_else(|| unknown_id(&id))?;
    template.versions.push(version);
    let number = template.versions.len() as u64;
    remember(&mut state.cloud, ask, token, &format!("{id}/{number}"));
    Ok((json!({"LaunchTemplateVersion": version_told(&state.cloud, &id, number)?}), true))
}

pub fn delete(state: &mut State, ask: &Ask) -> Changed {
    let id = id_of(&state.cloud, &ask.root())?;
    ask.done()?;
    let answer = json!({"LaunchTemplate": told(&state.cloud, &id)?});
    state.cloud.account.templates.remove(&id);
    state.cloud.account.tags.remove(&id);
    Ok((answer, true))
}

pub fn describe(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    root.flag("IncludeManagedResources");
    let (ids, names) = (root.texts("LaunchTemplateIds"), root.texts("LaunchTemplateNames"));
    let templates = &cloud.account.templates;
    if let Some(id) = ids.iter().find(|id| !templates.contains_key(**id)) {
        return Err(unknown_id(id));
    }
    if let Some(name) = names.iter().find(|name| !templates.values().any(|template| template.name == **name)) {
        return Err(unknown_name(name));
    }
    let wanted = |id: &str, template: &LaunchTemplate| {
        (ids.is_empty() && names.is_empty()) || ids.contains(&id) || names.contains(&template.name.as_str())
    };
    let found = templates.iter().filter(|(id, template)| wanted(id, template));
    let rows = found.map(|(id, _)| Ok((id.clone(), told(cloud, id)?))).collect::<Result<Vec<Row>, ProviderError>>()?;
    list::answer(ask, "LaunchTemplates", FILTERS, PAGES, rows)
}

pub fn describe_versions(cloud: &CloudState, ask: &Ask) -> Answer {
    let root = ask.root();
    root.flag("IncludeManagedResources");
    let wanted = root.texts("Versions");
    let one = root.text("LaunchTemplateId").is_some() || root.text("LaunchTemplateName").is_some();
    let ids = match one {
        true => vec![id_of(cloud, &root)?],
        false if wanted.iter().all(|word| matches!(*word, "$Latest" | "$Default")) && !wanted.is_empty() => {
            cloud.account.templates.keys().cloned().collect()
        }
        false => return Err(refuse("MissingParameter", "A launch template must be named, by its id or its name")),
    };
    let mut rows: Vec<Row> = Vec::new();
    for id in ids {
        let template = cloud.account.templates.get(&id).ok_or_else(|| unknown_id(&id))?;
        let numbers: Vec<u64> = match wanted.as_slice() {
            [] => (1..=template.versions.len() as u64).collect(),
            words => words.iter().map(|word| number(&id, template, Some(word))).collect::<Result<_, _>>()?,
        };
        for number in numbers {
            rows.push((format!("{id}/{number:06}"), version_told(cloud, &id, number)?));
        }
    }
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows.dedup_by(|one, other| one.0 == other.0);
    list::answer(ask, "LaunchTemplateVersions", VERSION_FILTERS, PAGES, rows)
}

/// The version that a launch names: the template's id, the number, and what it says.
pub fn find(cloud: &CloudState, named: &Part<'_>) -> Result<(String, u64, Value), ProviderError> {
    let id = id_of(cloud, named)?;
    let template = cloud.account.templates.get(&id).ok_or_else(|| unknown_id(&id))?;
    let number = number(&id, template, named.text("Version"))?;
    let data = template.versions[usize::try_from(number - 1).unwrap_or(0)].data.clone();
    Ok((id, number, data))
}

fn number(id: &str, template: &LaunchTemplate, word: Option<&str>) -> Result<u64, ProviderError> {
    let latest = template.versions.len() as u64;
    let number = match word {
        None | Some("$Default") => Some(template.default),
        Some("$Latest") => Some(latest),
        Some(word) => word.parse().ok(),
    };
    number.filter(|number| (1..=latest).contains(number)).ok_or_else(|| {
        let text = format!("Could not find the specified version {} of the launch template {id}.", word.unwrap_or(""));
        not_found("InvalidLaunchTemplateId.VersionNotFound", text)
    })
}

fn id_of(cloud: &CloudState, named: &Part<'_>) -> Result<String, ProviderError> {
    match (named.text("LaunchTemplateId"), named.text("LaunchTemplateName")) {
        (Some(id), None) if cloud.account.templates.contains_key(id) => Ok(id.to_string()),
        (Some(id), None) => Err(unknown_id(id)),
        (None, Some(name)) => {
            let mut templates = cloud.account.templates.iter();
            let found = templates.find(|(_, template)| template.name == name);
            found.map(|(id, _)| id.clone()).ok_or_else(|| unknown_name(name))
        }
        _ => Err(combination("Exactly one of LaunchTemplateId and LaunchTemplateName must be given")),
    }
}

fn version(ask: &Ask, root: &Part<'_>) -> Result<TemplateVersion, ProviderError> {
    let data = root.part("LaunchTemplateData").map(|part| part.keep(KNOWN));
    let data = data.ok_or_else(|| invalid("LaunchTemplateData must not be empty"))?;
    Ok(TemplateVersion { made: ask.now, description: root.text("VersionDescription").map(String::from), data })
}

fn made_before(cloud: &CloudState, ask: &Ask, token: Option<&str>) -> Result<Option<String>, ProviderError> {
    let Some(token) = token else { return Ok(None) };
    match cloud.account.made.get(&format!("{}|{token}", ask.action)) {
        Some((first, id)) if *first == ask.whole() => Ok(Some(id.clone())),
        Some(_) => {
            let text = "The client token is associated with a request with other parameters.";
            Err(refuse("IdempotentParameterMismatch", text))
        }
        None => Ok(None),
    }
}

fn remember(cloud: &mut CloudState, ask: &Ask, token: Option<String>, id: &str) {
    if let Some(token) = token {
        cloud.account.made.insert(format!("{}|{token}", ask.action), (ask.whole(), id.to_string()));
    }
}

fn unknown_id(id: &str) -> ProviderError {
    let text = format!("The specified launch template, with template ID {id}, does not exist.");
    not_found("InvalidLaunchTemplateId.NotFound", text)
}

fn unknown_name(name: &str) -> ProviderError {
    let text = format!("The specified launch template, with template name {name}, does not exist.");
    not_found("InvalidLaunchTemplateName.NotFoundException", text)
}

fn creator(cloud: &CloudState) -> String {
    format!("arn:aws:iam::{}:user/simulated", cloud.account.owner())
}

fn told(cloud: &CloudState, id: &str) -> Answer {
    let template = cloud.account.templates.get(id).ok_or_else(|| unknown_id(id))?;
    Ok(json!({
        "LaunchTemplateId": id,
        "LaunchTemplateName": template.name,
        "CreateTime": instant(template.made),
        "CreatedBy": creator(cloud),
        "DefaultVersionNumber": template.default,
        "LatestVersionNumber": template.versions.len(),
        "Tags": tags_of(cloud, id),
    }))
}

fn version_told(cloud: &CloudState, id: &str, number: u64) -> Answer {
    let template = cloud.account.templates.get(id).ok_or_else(|| unknown_id(id))?;
    let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
    let version = template.versions.get(at).ok_or_else(|| unknown_id(id))?;
    Ok(json!({
        "LaunchTemplateId": id,
        "LaunchTemplateName": template.name,
        "VersionNumber": number,
        "VersionDescription": version.description,
        "CreateTime": instant(version.made),
        "CreatedBy": creator(cloud),
        "DefaultVersion": number == template.default,
        "LaunchTemplateData": version.data,
    }))
}
