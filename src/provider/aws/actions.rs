//! The one table of what we ask of AWS: every call goes through it by name.
//!
//! It says which service and action a call is, how often EC2 takes it, and which statement of the policy in
//! `deploy/aws` grants it; a test holds the table against the policy. Not here: how a call is made.

use super::buckets::Size;

/// One call of an AWS service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Api {
    DescribeInstances,
    DescribeInstanceStatus,
    DescribeInstanceTypes,
    DescribeInstanceTopology,
    DescribeCapacityReservations,
    DescribeCapacityReservationTopology,
    DescribeCapacityBlockOfferings,
    DescribeCapacityBlockExtensionOfferings,
    DescribePlacementGroups,
    DescribeLaunchTemplates,
    DescribeLaunchTemplateVersions,
    DescribeSpotPriceHistory,
    DescribeSpotInstanceRequests,
    DescribeSubnets,
    DescribeSecurityGroups,
    DescribeImages,
    RunInstances,
    TerminateInstances,
    RebootInstances,
    ModifyInstanceAttribute,
    CreateCapacityReservation,
    ModifyCapacityReservation,
    CancelCapacityReservation,
    PurchaseCapacityBlock,
    PurchaseCapacityBlockExtension,
    CreateLaunchTemplate,
    CreateLaunchTemplateVersion,
    CreatePlacementGroup,
    GetParameter,
    DescribeCluster,
    ReceiveMessage,
    GetCallerIdentity,
    DecodeAuthorizationMessage,
}

use Api::{
    CancelCapacityReservation, CreateCapacityReservation, CreateLaunchTemplate, CreateLaunchTemplateVersion,
    CreatePlacementGroup, DecodeAuthorizationMessage, DescribeCapacityBlockExtensionOfferings,
    DescribeCapacityBlockOfferings, DescribeCapacityReservationTopology, DescribeCapacityReservations, DescribeCluster,
    DescribeImages, DescribeInstanceStatus, DescribeInstanceTopology, DescribeInstanceTypes, DescribeInstances,
    DescribeLaunchTemplateVersions, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSecurityGroups,
    DescribeSpotInstanceRequests, DescribeSpotPriceHistory, DescribeSubnets, GetCallerIdentity, GetParameter,
    ModifyCapacityReservation, ModifyInstanceAttribute, PurchaseCapacityBlock, PurchaseCapacityBlockExtension,
    RebootInstances, ReceiveMessage, RunInstances, TerminateInstances,
};

impl Api {
    pub const ALL: &'static [Self] = &[
        DescribeInstances,
        DescribeInstanceStatus,
        DescribeInstanceTypes,
        DescribeInstanceTopology,
        DescribeCapacityReservations,
        DescribeCapacityReservationTopology,
        DescribeCapacityBlockOfferings,
        DescribeCapacityBlockExtensionOfferings,
        DescribePlacementGroups,
        DescribeLaunchTemplates,
        DescribeLaunchTemplateVersions,
        DescribeSpotPriceHistory,
        DescribeSpotInstanceRequests,
        DescribeSubnets,
        DescribeSecurityGroups,
        DescribeImages,
        RunInstances,
        TerminateInstances,
        RebootInstances,
        ModifyInstanceAttribute,
        CreateCapacityReservation,
        ModifyCapacityReservation,
        CancelCapacityReservation,
        PurchaseCapacityBlock,
        PurchaseCapacityBlockExtension,
        CreateLaunchTemplate,
        CreateLaunchTemplateVersion,
        CreatePlacementGroup,
        GetParameter,
        DescribeCluster,
        ReceiveMessage,
        GetCallerIdentity,
        DecodeAuthorizationMessage,
    ];

    /// As AWS writes it.
    pub const fn name(self) -> &'static str {
        match self {
            DescribeInstances => "DescribeInstances",
            DescribeInstanceStatus => "DescribeInstanceStatus",
            DescribeInstanceTypes => "DescribeInstanceTypes",
            DescribeInstanceTopology => "DescribeInstanceTopology",
            DescribeCapacityReservations => "DescribeCapacityReservations",
            DescribeCapacityReservationTopology => "DescribeCapacityReservationTopology",
            DescribeCapacityBlockOfferings => "DescribeCapacityBlockOfferings",
            DescribeCapacityBlockExtensionOfferings => "DescribeCapacityBlockExtensionOfferings",
            DescribePlacementGroups => "DescribePlacementGroups",
            DescribeLaunchTemplates => "DescribeLaunchTemplates",
            DescribeLaunchTemplateVersions => "DescribeLaunchTemplateVersions",
            DescribeSpotPriceHistory => "DescribeSpotPriceHistory",
            DescribeSpotInstanceRequests => "DescribeSpotInstanceRequests",
            DescribeSubnets => "DescribeSubnets",
            DescribeSecurityGroups => "DescribeSecurityGroups",
            DescribeImages => "DescribeImages",
            RunInstances => "RunInstances",
            TerminateInstances => "TerminateInstances",
            RebootInstances => "RebootInstances",
            ModifyInstanceAttribute => "ModifyInstanceAttribute",
            CreateCapacityReservation => "CreateCapacityReservation",
            ModifyCapacityReservation => "ModifyCapacityReservation",
            CancelCapacityReservation => "CancelCapacityReservation",
            PurchaseCapacityBlock => "PurchaseCapacityBlock",
            PurchaseCapacityBlockExtension => "PurchaseCapacityBlockExtension",
            CreateLaunchTemplate => "CreateLaunchTemplate",
            CreateLaunchTemplateVersion => "CreateLaunchTemplateVersion",
            CreatePlacementGroup => "CreatePlacementGroup",
            GetParameter => "GetParameter",
            DescribeCluster => "DescribeCluster",
            ReceiveMessage => "ReceiveMessage",
            GetCallerIdentity => "GetCallerIdentity",
            DecodeAuthorizationMessage => "DecodeAuthorizationMessage",
        }
    }

    pub const fn service(self) -> &'static str {
        match self {
            GetParameter => "ssm",
            DescribeCluster => "eks",
            ReceiveMessage => "sqs",
            GetCallerIdentity | DecodeAuthorizationMessage => "sts",
            _ => "ec2",
        }
    }

    /// What a policy has to allow, such as `ec2:RunInstances`.
    pub fn permission(self) -> String {
        format!("{}:{}", self.service(), self.name())
    }

    /// What the call needs beside itself: tags that are written with a thing are `CreateTags`, and who launches with a
    /// role hands that role on.
    pub const fn also(self) -> &'static [&'static str] {
        match self {
            RunInstances => &["ec2:CreateTags", "iam:PassRole"],
            CreateCapacityReservation | PurchaseCapacityBlock | CreateLaunchTemplate | CreatePlacementGroup => {
                &["ec2:CreateTags"]
            }
            _ => &[],
        }
    }

    /// Whether anybody may ask, without a permission.
    pub const fn is_free(self) -> bool {
        matches!(self, GetCallerIdentity)
    }

    /// The statement of `deploy/aws` that grants it; none where no permission is needed.
    pub const fn statement(self) -> &'static str {
        match self {
            GetCallerIdentity => "",
            RunInstances => "Launch",
            TerminateInstances | RebootInstances | ModifyInstanceAttribute => "OwnInstances",
            CreateCapacityReservation => "Reserve",
            ModifyCapacityReservation | CancelCapacityReservation => "ChangeReservations",
            PurchaseCapacityBlock | PurchaseCapacityBlockExtension => "Purchase",
            CreateLaunchTemplate | CreatePlacementGroup => "MakeTemplatesAndGroups",
            CreateLaunchTemplateVersion => "OwnTemplates",
            GetParameter => "ReadImageParameters",
            DescribeCluster => "ReadCluster",
            ReceiveMessage => "ReadNotices",
            DecodeAuthorizationMessage => "ExplainDenials",
            _ => "Look",
        }
    }

    /// Whether it changes something: then it is sent once, and who decides to send it again is `apply`.
    pub const fn changes(self) -> bool {
        matches!(
            self,
            RunInstances
                | TerminateInstances
                | RebootInstances
                | ModifyInstanceAttribute
                | CreateCapacityReservation
                | ModifyCapacityReservation
                | CancelCapacityReservation
                | PurchaseCapacityBlock
                | PurchaseCapacityBlockExtension
                | CreateLaunchTemplate
                | CreateLaunchTemplateVersion
                | CreatePlacementGroup
        )
    }

    pub const fn bucket(self) -> Size {
        let (holds, refill) = match self {
            RunInstances => (5, 2_000),
            TerminateInstances | CreateLaunchTemplateVersion => (100, 5_000),
            DescribeCapacityBlockOfferings
            | DescribeCapacityBlockExtensionOfferings
            | PurchaseCapacityBlock
            | PurchaseCapacityBlockExtension => (10, 150),
            DescribeInstanceTopology => (1, 1_000),
            // Without a filter or a page they have less; ours have both, but for the status.
            DescribeInstanceStatus | DescribeSpotInstanceRequests | DescribeSecurityGroups => (50, 10_000),
            GetParameter => (40, 40_000),
            DescribeCluster => (10, 5_000),
            ReceiveMessage | GetCallerIdentity | DecodeAuthorizationMessage => (50, 50_000),
            _ if self.changes() => (50, 5_000),
            _ => (100, 20_000),
        };
        Size { holds, refill }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    /// The statements of both policies: what each allows, by its name.
    fn granted() -> BTreeMap<String, BTreeSet<String>> {
        let policies = [
            include_str!("../../../deploy/aws/iam-policy.json"),
            include_str!("../../../deploy/aws/iam-policy-purchases.json"),
        ];
        let mut found = BTreeMap::new();
        for policy in policies {
            let policy: Value = serde_json::from_str(policy).unwrap();
            for statement in policy["Statement"].as_array().unwrap() {
                assert_eq!(statement["Effect"], "Allow");
                let actions = statement["Action"].as_array().unwrap().iter();
                let actions: BTreeSet<String> = actions.map(|action| action.as_str().unwrap().to_string()).collect();
                found.insert(statement["Sid"].as_str().unwrap().to_string(), actions);
            }
        }
        found
    }

    #[test]
    fn the_policies_grant_exactly_what_is_called() {
        let granted: BTreeSet<String> = granted().into_values().flatten().collect();
        let called = Api::ALL
            .iter()
            .filter(|api| !api.is_free())
            .flat_map(|api| std::iter::once(api.permission()).chain(api.also().iter().map(|also| also.to_string())));
        let called: BTreeSet<String> = called.collect();
        assert_eq!(granted, called);
    }

    /// The calls that stand in the sources of this provider, by what they ask of which client.
    fn written() -> BTreeSet<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/provider/aws");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut found = BTreeSet::new();
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "rs")) {
            let text = std::fs::read_to_string(file).unwrap();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim()).collect::<String>();
            let code = code.split("mod tests {").next().unwrap_or_default();
            for client in ["ec2.", "ec2_once.", "ssm.", "eks.", "sqs.", "sts."] {
                let asked = code.match_indices(client).filter_map(|(at, _)| code[at + client.len()..].split_once('('));
                let asked = asked.map(|(name, _)| name).filter(|name| !name.is_empty());
                let asked = asked.filter(|name| name.chars().all(|one| one.is_ascii_lowercase() || one == '_'));
                let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
                found.extend(asked.map(|name| name.split('_').map(capital).collect::<String>()));
            }
            let made = code.match_indices("Input::builder(").map(|(at, _)| &code[..at]);
            found.extend(
                made.filter_map(|before| before.rsplit(|one: char| !one.is_alphanumeric()).next()).map(String::from),
            );
        }
        found
    }

    #[test]
    fn the_table_is_what_the_sources_call() {
        let table: BTreeSet<String> = Api::ALL.iter().map(|api| api.name().to_string()).collect();
        assert_eq!(written(), table);
    }

    #[test]
    fn every_call_is_granted_by_the_statement_that_a_denial_names() {
        let granted = granted();
        for api in Api::ALL.iter().filter(|api| !api.is_free()) {
            let statement = granted.get(api.statement()).unwrap_or_else(|| panic!("no {}", api.statement()));
            assert!(statement.contains(&api.permission()), "{} is not in {}", api.permission(), api.statement());
        }
    }

    #[test]
    fn what_destroys_or_changes_instances_is_only_for_our_own() {
        let policy: Value = serde_json::from_str(include_str!("../../../deploy/aws/iam-policy.json")).unwrap();
        for statement in policy["Statement"].as_array().unwrap() {
            let actions: Vec<&str> = statement["Action"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let destroys = ["ec2:TerminateInstances", "ec2:RebootInstances", "ec2:ModifyInstanceAttribute"];
            if actions.iter().any(|action| destroys.contains(action)) {
                let condition = &statement["Condition"]["StringLike"]["aws:ResourceTag/tidewright.dev/fleet"];
                assert_eq!(*condition, serde_json::json!(["FLEET", "FLEET.*"]), "{}", statement["Sid"]);
            }
            assert!(!actions.iter().any(|action| action.contains('*')), "{}", statement["Sid"]);
            assert!(!actions.iter().any(|action| action.contains("Purchase")), "{}", statement["Sid"]);
        }
    }

    /// The name of what is shared has its owner's account in it.
    #[test]
    fn a_launch_may_use_what_another_account_shares() {
        let policy: Value = serde_json::from_str(include_str!("../../../deploy/aws/iam-policy.json")).unwrap();
        let statements = policy["Statement"].as_array().unwrap().iter();
        let with = statements.clone().find(|statement| statement["Sid"] == "LaunchWith").unwrap();
        let named = with["Resource"].as_array().unwrap();
        for shared in ["capacity-reservation", "placement-group", "security-group", "subnet"] {
            assert!(named.contains(&format!("arn:aws:ec2:REGION:*:{shared}/*").into()), "{shared}");
        }
        // What is changed or ended is of the account itself.
        for statement in statements.filter(|statement| statement["Sid"] != "LaunchWith") {
            assert!(!statement["Resource"].to_string().contains(":*:"), "{}", statement["Sid"]);
        }
    }

    #[test]
    fn the_table_lists_every_call_once() {
        let names: BTreeSet<&str> = Api::ALL.iter().map(|api| api.name()).collect();
        assert_eq!(names.len(), Api::ALL.len());
    }
}
