//! Which statement of `deploy/aws` grants what is missing: by the call, or by what AWS says that was denied.

use serde_json::Value;

use super::actions::Api;
use crate::fleet::config::AwsCloud;

/// The files of `deploy/aws` and what is in them.
const POLICIES: [(&str, &str); 2] = [
    ("iam-policy.json", include_str!("../../../deploy/aws/iam-policy.json")),
    ("iam-policy-purchases.json", include_str!("../../../deploy/aws/iam-policy-purchases.json")),
];

/// What AWS says that was denied: an action may be several permissions, each on things of several kinds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Such as `iam:PassRole`.
    pub action: String,
    /// Its ARN, or `*`.
    pub resource: String,
}

/// A statement of a policy, as its file has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Grant {
    pub file: &'static str,
    statement: Value,
}

impl Missing {
    /// From the words that AWS has for a denial, where they say it.
    pub fn said(text: &str) -> Option<Self> {
        let (_, what) = text.split_once(" is not authorized to perform: ")?;
        let word =
            |text: &str| text.split_whitespace().next().map(|word| word.trim_end_matches(['.', ',']).to_string());
        let resource = what.split_once(" on resource: ").and_then(|(_, resource)| word(resource));
        Some(Self { action: word(what)?, resource: resource.unwrap_or_else(|| "*".into()) })
    }
}

/// What grants it; none where no policy of ours does.
pub fn of(api: Api, missing: Option<&Missing>) -> Option<Grant> {
    let Some(missing) = missing else { return all().find(|grant| grant.sid() == api.statement()) };
    let mut allow: Vec<Grant> = all().filter(|grant| grant.words("Action").any(|one| one == missing.action)).collect();
    let wanted = kind(&missing.resource);
    let concerns = |grant: &Grant| grant.words("Resource").any(|one| one == "*" || kind(one) == wanted);
    match allow.iter().position(concerns) {
        Some(at) => Some(allow.swap_remove(at)),
        // The only one that has the action is the one, whatever its things are called.
        None if allow.len() == 1 => allow.pop(),
        None => None,
    }
}

fn all() -> impl Iterator<Item = Grant> {
    POLICIES.into_iter().flat_map(|(file, text)| {
        let policy: Value = serde_json::from_str(text).unwrap_or_default();
        let statements = policy["Statement"].as_array().cloned().unwrap_or_default();
        statements.into_iter().map(move |statement| Grant { file, statement })
    })
}

/// What kind of thing an ARN names: `launch-template` of `arn:aws:ec2:us-west-2:123456789012:launch-template/lt-1`.
fn kind(arn: &str) -> &str {
    let thing = arn.splitn(6, ':').nth(5).unwrap_or(arn);
    thing.split_once('/').map_or(thing, |(kind, _)| kind)
}

impl Grant {
    pub fn sid(&self) -> &str {
        self.statement["Sid"].as_str().unwrap_or_default()
    }

    /// As it has to be written for this fleet.
    pub fn written(&self, cloud: &AwsCloud, fleet: &str, missing: Option<&Missing>) -> String {
        // The policy is written by the fleet's name, which an identity begins with.
        let fleet = fleet.split('.').next().unwrap_or(fleet);
        let text = self.statement.to_string();
        let text = text.replace("REGION", &cloud.region).replace("ACCOUNT", &cloud.account_id).replace("FLEET", fleet);
        match missing.and_then(|missing| missing.resource.split_once(":role/")) {
            Some((_, role)) => text.replace("NODE-ROLE", role),
            None => text,
        }
    }

    /// One word or several.
    fn words(&self, field: &str) -> impl Iterator<Item = &str> {
        let field = &self.statement[field];
        field.as_array().map_or(std::slice::from_ref(field), Vec::as_slice).iter().filter_map(Value::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(api: Api, action: &str, resource: &str) -> Option<String> {
        let missing = Missing { action: action.into(), resource: resource.into() };
        of(api, Some(&missing)).map(|grant| grant.sid().to_string())
    }

    #[test]
    fn a_statement_is_chosen_by_what_was_denied_and_on_what() {
        let arn = |kind: &str| format!("arn:aws:ec2:us-west-2:123456789012:{kind}/x-1");
        let launch = |kind: &str| granted(Api::RunInstances, "ec2:RunInstances", &arn(kind)).unwrap_or_default();
        for kind in ["instance", "volume"] {
            assert_eq!(launch(kind), "Launch", "{kind}");
        }
        for kind in ["subnet", "capacity-reservation", "security-group", "network-interface", "placement-group"] {
            assert_eq!(launch(kind), "LaunchWith", "{kind}");
        }
        assert_eq!(
            granted(Api::RunInstances, "ec2:RunInstances", "arn:aws:ec2:us-west-2::image/ami-1").unwrap(),
            "LaunchWith"
        );
        assert_eq!(launch("launch-template"), "LaunchFromOwnTemplates");
        let role = "arn:aws:iam::123456789012:role/gpu-node";
        assert_eq!(granted(Api::RunInstances, "iam:PassRole", role).unwrap(), "GiveNodesTheirRole");
        for api in [Api::RunInstances, Api::CreateLaunchTemplate, Api::CreateCapacityReservation] {
            assert_eq!(granted(api, "ec2:CreateTags", &arn("launch-template")).unwrap(), "TagWhatIsMade");
        }
        assert_eq!(granted(Api::DescribeInstances, "ec2:DescribeInstances", "*").unwrap(), "Look");
        // Of another kind than any that we ask for, and of another service.
        assert_eq!(granted(Api::RunInstances, "ec2:RunInstances", &arn("elastic-gpu")), None);
        assert_eq!(granted(Api::RunInstances, "kms:CreateGrant", "arn:aws:kms:us-west-2:123456789012:key/1"), None);
    }

    #[test]
    fn every_call_has_its_statement_though_nobody_says_what_was_denied() {
        for api in Api::ALL.iter().filter(|api| !api.is_free()) {
            assert_eq!(of(*api, None).unwrap().sid(), api.statement(), "{}", api.name());
        }
    }

    #[test]
    fn a_denial_in_plain_words_says_what_is_missing() {
        let said = Missing::said(
            "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/a/b is not authorized \
             to perform: ec2:RunInstances on resource: arn:aws:ec2:us-west-2:1:subnet/subnet-1 because no \
             identity-based policy allows the ec2:RunInstances action",
        );
        let resource = "arn:aws:ec2:us-west-2:1:subnet/subnet-1".to_string();
        assert_eq!(said, Some(Missing { action: "ec2:RunInstances".into(), resource }));
        assert_eq!(Missing::said("You are not authorized to perform this operation."), None);
    }
}
