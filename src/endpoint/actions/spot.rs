//! Spot requests, as far as they tell what becomes of an instance. There is one for each spot instance.

use serde_json::{Value, json};

use super::{Answer, not_found, tags_of};
use crate::endpoint::ask::Ask;
use crate::endpoint::list::{self, Filters, Pages, Row};
use crate::endpoint::model::instant;
use crate::hardware::catalogue;
use crate::ids::InstanceId;
use crate::observed::{Market, NoticeKind};
use crate::provider::sim::cloud::{CloudState, Instance};

const FILTERS: Filters = &[
    ("instance-id", "InstanceId"),
    ("spot-instance-request-id", "SpotInstanceRequestId"),
    ("state", "State"),
    ("status-code", "Status.Code"),
];
const PAGES: Pages = Pages { usual: None, least: 5, most: 1000 };

/// The request that an instance came from.
pub fn id_of(cloud: &CloudState, id: &InstanceId) -> String {
    cloud.fixed_id("sir", &[id.as_str()])
}

pub fn requests(cloud: &CloudState, ask: &Ask) -> Answer {
    let wanted = ask.root().texts("SpotInstanceRequestIds");
    let spot = cloud.listed_instances(ask.now).filter(|(_, found)| found.market == Market::Spot);
    let rows: Vec<Row> = spot
        .map(|(id, found)| (id_of(cloud, id), told(cloud, id, found)))
        .filter(|(id, _)| wanted.is_empty() || wanted.contains(&id.as_str()))
        .collect();
    if let Some(missing) = wanted.iter().find(|id| rows.iter().all(|(there, _)| there != *id)) {
        let text = format!("The spot instance request ID '{missing}' does not exist");
        return Err(not_found("InvalidSpotInstanceRequestID.NotFound", text));
    }
    list::answer(ask, "SpotInstanceRequests", FILTERS, PAGES, rows)
}

fn told(cloud: &CloudState, id: &InstanceId, found: &Instance) -> Value {
    let notice = found.notice.as_ref().filter(|notice| notice.why == NoticeKind::SpotInterruption);
    // It was marked when the notice was given.
    let since = notice.map_or(found.launched, |notice| notice.at - catalogue().notices.spot.signed());
    let (state, code) = match (found.state.serves(), notice.is_some()) {
        (true, true) => ("active", "marked-for-termination"),
        (true, false) => ("active", "fulfilled"),
        (false, _) => ("closed", "instance-terminated-by-user"),
    };
    let request = id_of(cloud, id);
    let mut told = json!({
        "SpotInstanceRequestId": request,
        "InstanceId": id.as_str(),
        "State": state,
        "Status": {
            "Code": code,
            "Message": format!("The request is {code}."),
            "UpdateTime": instant(since),
        },
        "Type": "one-time",
        "InstanceInterruptionBehavior": "terminate",
        "LaunchedAvailabilityZone": found.zone.as_str(),
        "ProductDescription": "Linux/UNIX",
        "CreateTime": instant(found.launched),
        "Tags": tags_of(cloud, &request),
    });
    if let Some(price) = found.max_price {
        told["SpotPrice"] = price.0.to_string().into();
    }
    told
}
