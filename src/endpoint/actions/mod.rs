//! What each action of EC2 does: reads its parameters, says that it is done with them, and answers.
//!
//! One file for each kind of thing. All of them speak JSON by the names of EC2's model; the wire is `model`'s business.

mod blocks;
mod groups;
mod instances;
mod launch;
mod network;
mod reservations;
mod spot;
mod tags;
mod templates;
mod topology;
mod types;

use serde_json::{Value, json};

use super::ask::Ask;
use super::refuse;
use crate::provider::ProviderError;
use crate::provider::sim::cloud::CloudState;
use crate::provider::sim::{Sight, State};

/// How an action works.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// It only looks; what it looks at may be hidden by a fault.
    Look(Option<Sight>, fn(&CloudState, &Ask) -> Answer),
    /// It looks, and the cloud remembers that it did.
    Aside(fn(&mut CloudState, &Ask) -> Answer),
    /// It would change something. The first word is what such a call is counted as.
    Change(&'static str, fn(&mut State, &Ask) -> Changed),
}

pub type Answer = Result<Value, ProviderError>;
/// The answer, and whether anything is different now.
pub type Changed = Result<(Value, bool), ProviderError>;

/// Who answers an action.
pub fn handler(action: &str) -> Option<Handler> {
    use Handler::{Aside, Change, Look};
    let (instances, reservations) = (Some(Sight::Instances), Some(Sight::Reservations));
    Some(match action {
        "RunInstances" => Change("launch", launch::run),
        "TerminateInstances" => Change("terminate", instances::terminate),
        "RebootInstances" => Change("reboot", instances::reboot),
        "ModifyInstanceAttribute" => Change("protect", instances::modify),
        "DescribeInstances" => Look(instances, instances::describe),
        "DescribeInstanceStatus" => Look(instances, instances::status),
        "DescribeInstanceTopology" => Look(instances, topology::instances),
        "CreateCapacityReservation" => Change("reserve", reservations::create),
        "ModifyCapacityReservation" => Change("modify", reservations::modify),
        "CancelCapacityReservation" => Change("cancel", reservations::cancel),
        "DescribeCapacityReservations" => Look(reservations, reservations::describe),
        "DescribeCapacityReservationTopology" => Look(reservations, topology::reservations),
        "DescribeCapacityBlockOfferings" => Aside(blocks::offerings),
        "DescribeCapacityBlockExtensionOfferings" => Aside(blocks::extension_offerings),
        "DescribeCapacityBlocks" => Look(reservations, blocks::describe),
        "PurchaseCapacityBlock" => Change("purchase", blocks::purchase),
        "PurchaseCapacityBlockExtension" => Change("extend", blocks::extend),
        "CreatePlacementGroup" => Change("ensure-group", groups::create),
        "DeletePlacementGroup" => Change("delete-group", groups::delete),
        "DescribePlacementGroups" => Look(None, groups::describe),
        "CreateLaunchTemplate" => Change("ensure-template", templates::create),
        "CreateLaunchTemplateVersion" => Change("ensure-template", templates::create_version),
        "DeleteLaunchTemplate" => Change("delete-template", templates::delete),
        "DescribeLaunchTemplates" => Look(None, templates::describe),
        "DescribeLaunchTemplateVersions" => Look(None, templates::describe_versions),
        "CreateTags" => Change("tag", tags::create),
        "DeleteTags" => Change("untag", tags::delete),
        "DescribeTags" => Look(None, tags::describe),
        "DescribeSubnets" => Look(None, network::subnets),
        "DescribeSecurityGroups" => Look(None, network::security_groups),
        "DescribeAvailabilityZones" => Look(None, network::zones),
        "DescribeImages" => Look(None, network::images),
        "DescribeSpotInstanceRequests" => Look(instances, spot::requests),
        "DescribeSpotPriceHistory" => Look(None, types::spot_prices),
        "DescribeInstanceTypes" => Look(None, types::describe),
        "DescribeInstanceTypeOfferings" => Look(None, types::offerings),
        _ => return None,
    })
}

/// Whether a call was heard before, by its token.
pub fn is_known(cloud: &CloudState, ask: &Ask) -> bool {
    ask.action == "RunInstances" && launch::read(cloud, ask).is_ok_and(|run| cloud.knows_launch(&run))
}

/// Tags as they are told.
fn tags_of(cloud: &CloudState, id: &str) -> Value {
    let tags = cloud.account.tags.get(id).into_iter().flatten();
    tags.map(|(key, value)| json!({"Key": key, "Value": value})).collect()
}

fn arn(cloud: &CloudState, kind: &str, id: &str) -> String {
    arn_of(cloud, cloud.account.owner(), kind, id)
}

/// The same of something that may be another account's.
fn arn_of(cloud: &CloudState, owner: &str, kind: &str, id: &str) -> String {
    format!("arn:aws:ec2:{}:{owner}:{kind}/{id}", cloud.account.region())
}

/// The id of a zone: the same place whatever an account calls it.
fn zone_id(zone: &str) -> String {
    let (region, letter) = zone.split_at(zone.len().saturating_sub(1));
    let mut words = region.split('-');
    let (area, side, number) = (words.next(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let short: String = match side {
        "central" => "c".into(),
        side if side.len() > 5 => {
            let both = ["north", "south", "east", "west"].iter().filter(|word| side.contains(*word));
            both.filter_map(|word| word.chars().next()).collect()
        }
        side => side.chars().take(1).collect(),
    };
    let place = letter.bytes().next().map_or(1, |letter| letter.wrapping_sub(b'a') + 1);
    format!("{}{short}{number}-az{place}", area.unwrap_or_default())
}

fn not_found(code: &str, text: String) -> ProviderError {
    refuse(code, text)
}

fn combination(text: &str) -> ProviderError {
    refuse("InvalidParameterCombination", text)
}

fn invalid(text: impl Into<String>) -> ProviderError {
    refuse("InvalidParameterValue", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::model::model;

    #[test]
    fn every_action_of_the_table_is_answered() {
        let missing: Vec<&str> = model().actions().filter(|action| handler(action).is_none()).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn a_zone_has_the_id_that_ec2_gives_it() {
        for (zone, id) in [("us-west-2a", "usw2-az1"), ("eu-central-1b", "euc1-az2"), ("ap-southeast-2c", "apse2-az3")]
        {
            assert_eq!(zone_id(zone), id);
        }
    }
}
