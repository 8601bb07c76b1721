//! Orders for whoever plays the weather: `POST /_tidewright/ORDER`, with its words in the body.
//!
//! While an endpoint serves, its process alone has the world, so what `tidewright sim` does by hand is done here.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::{Endpoint, Fault, response};
use crate::fleet::reservation::Match;
use crate::ids::{InstanceId, InstanceType, ReservationId, Zone};
use crate::observed::Market;
use crate::provider::Class;
use crate::provider::sim::{self, Sim};
use crate::units::Duration;

/// Where orders are given.
pub const PATH: &str = "/_tidewright/";

const KNOWN: &str = "advance LENGTH; fault KIND [ACTION] [TIMES] [after CALLS]; calm; capacity TYPE ZONE on-demand|spot \
                     N|unlimited; interrupt INSTANCE; rebalance INSTANCE; maintenance INSTANCE LENGTH; kill INSTANCE; fail-launches \
                     no-capacity|denied|other N; lag LENGTH N; stillborn N; share RESERVATION TYPE ZONE NODES ACCOUNT; state";

impl Endpoint {
    pub(super) fn order(&self, sim: &Sim, order: &str, body: &Bytes) -> Response<Bytes> {
        let body = String::from_utf8_lossy(body);
        let words: Vec<&str> = body.split_whitespace().collect();
        match self.obey(sim, order, &body, &words) {
            Ok(text) => response(StatusCode::OK, "application/json", text),
            Err(why) => response(StatusCode::BAD_REQUEST, "text/plain", format!("{why}\nOrders: {KNOWN}\n")),
        }
    }

    fn obey(&self, sim: &Sim, order: &str, body: &str, words: &[&str]) -> Result<String, String> {
        match (order, words) {
            ("state", _) => {}
            ("advance", [by]) => sim.advance(length(by)?),
            ("fault", [_, ..]) => self.inject(body.parse::<Fault>().map_err(|wrong| wrong.0)?),
            ("calm", []) => {
                self.faults.borrow_mut().stop();
                sim.stop_faults();
            }
            ("capacity", [kind, zone, market, left]) => {
                let market = match *market {
                    "on-demand" => Market::OnDemand,
                    "spot" => Market::Spot,
                    other => return Err(format!("no market `{other}`: on-demand or spot")),
                };
                let left = if *left == "unlimited" { None } else { Some(number(left)?) };
                sim.set_capacity(&InstanceType::from(*kind), &Zone::from(*zone), market, left);
            }
            ("interrupt", [id]) => there(sim.interrupt(&InstanceId::from(*id)), id)?,
            ("rebalance", [id]) => there(sim.recommend_move(&InstanceId::from(*id)), id)?,
            ("maintenance", [id, within]) => {
                there(sim.give_maintenance_notice(&InstanceId::from(*id), length(within)?), id)?;
            }
            ("kill", [id]) => there(sim.kill(&InstanceId::from(*id)), id)?,
            ("fail-launches", [class, times]) => {
                let class = match *class {
                    "no-capacity" => Class::NoCapacity,
                    "denied" => Class::Denied,
                    "other" => Class::Other,
                    other => return Err(format!("no class `{other}`: no-capacity, denied or other")),
                };
                sim.inject(sim::Fault::FailLaunches { times: number(times)?, class });
            }
            ("lag", [by, launches]) => {
                sim.inject(sim::Fault::Lag { launches: number(launches)?, by: length(by)? });
            }
            ("share", [id, kind, zone, nodes, account]) => {
                let (id, nodes) = (ReservationId::from(*id), number(nodes)?);
                if account.len() != 12 || account.bytes().any(|byte| !byte.is_ascii_digit()) {
                    return Err(format!("`{account}` is no account of twelve digits"));
                }
                if sim.state().cloud.reservations.contains_key(&id) {
                    return Err(format!("`{id}` is there already"));
                }
                let (kind, zone) = (InstanceType::from(*kind), Zone::from(*zone));
                let made = sim.add_foreign_reservation(&id, &kind, &zone, nodes, Match::Targeted, None);
                made.map_err(|error| error.message)?;
                sim.share_reservation(&id, account);
            }
            ("stillborn", [launches]) => sim.inject(sim::Fault::Stillborn { launches: number(launches)? }),
            _ => return Err(format!("no order `{order} {body}`")),
        }
        sim.save().map_err(|error| error.to_string())?;
        Ok(told(sim))
    }
}

/// What time it is there, and what was asked and done so far.
fn told(sim: &Sim) -> String {
    let state = sim.state();
    json!({"now": state.now.to_string(), "asked": state.calls.asked, "changed": state.calls.changed}).to_string()
}

fn there(found: bool, id: &str) -> Result<(), String> {
    if found { Ok(()) } else { Err(format!("no instance `{id}` that runs")) }
}

fn length(word: &str) -> Result<Duration, String> {
    word.parse().map_err(|error: crate::units::Malformed| format!("`{word}`: expected {}", error.0))
}

fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}
