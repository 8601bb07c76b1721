//! RunInstances as the wire has it: several at once, in a zone that is named or in any, by a token or without one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::super::instance::{Instance, Registration};
use super::super::launch::{Open, Wanted, mismatch};
use super::super::{Circumstances, CloudState, refused};
use super::{Details, Launch, boot};
use crate::ids::{GroupName, InstanceId, InstanceType, ReservationId, Token, Zone};
use crate::observed::{InstanceState, Market};
use crate::provider::{Class, ProviderError};
use crate::units::Usd;

/// Where an instance boots from.
pub const ROOT: &str = "/dev/xvda";

/// What RunInstances asks for, template and request together.
#[derive(Clone, Debug)]
pub struct Run {
    /// The request as it came: a token stands for exactly this.
    pub asked: Value,
    pub token: Option<String>,
    /// The zone that the request names, or that its subnet is in.
    pub zone: Option<Zone>,
    pub least: u32,
    pub most: u32,
    pub instance_type: InstanceType,
    pub market: Market,
    pub reservation: Option<ReservationId>,
    pub open: Open,
    pub max_price: Option<Usd>,
    pub group: Option<GroupName>,
    pub data: Value,
    pub template: Option<(String, u64)>,
    /// Of the instance.
    pub tags: BTreeMap<String, String>,
    /// Of what comes with it, by EC2's word for its kind.
    pub beside: BTreeMap<String, BTreeMap<String, String>>,
    pub protected: bool,
}

impl Run {
    fn key(&self) -> Option<String> {
        let zone = self.zone.as_ref().map_or("", Zone::as_str);
        self.token.as_ref().map(|token| format!("{zone}|{token}"))
    }
}

impl CloudState {
    /// Whether a token was heard before, in the zone that is named.
    pub fn knows_launch(&self, run: &Run) -> bool {
        run.key().is_some_and(|key| self.account.launches.contains_key(&key))
    }

    /// Launches as many as there are places for, at least as many as must be; else none. Says whether anything is new.
    pub fn run(
        &mut self,
        now: Timestamp,
        run: &Run,
        circumstances: Circumstances<'_>,
    ) -> Result<(Launch, bool), ProviderError> {
        let key = run.key();
        if let Some(first) = key.as_ref().and_then(|key| self.account.launches.get(key)) {
            return if first.asked == run.asked { Ok((first.clone(), false)) } else { Err(mismatch("RunInstances")) };
        }
        let zones = run.zone.clone().map_or_else(|| self.account.zones(), |zone| vec![zone]);
        let mut no = refused(Class::NoCapacity, "InsufficientInstanceCapacity: There is no zone with capacity.");
        for zone in zones {
            match self.run_in(now, run, &zone, circumstances) {
                Ok(launch) => {
                    if let Some(key) = key {
                        self.account.launches.insert(key, launch.clone());
                    }
                    return Ok((launch, true));
                }
                Err(error) if error.class == Class::NoCapacity => no = error,
                Err(error) => return Err(error),
            }
        }
        Err(no)
    }

    fn run_in(
        &mut self,
        now: Timestamp,
        run: &Run,
        zone: &Zone,
        circumstances: Circumstances<'_>,
    ) -> Result<Launch, ProviderError> {
        let before = (run.most > 1).then(|| self.clone());
        let mut launch = Launch { id: self.fresh_id("r"), asked: run.asked.clone(), instances: Vec::new() };
        for index in 0..run.most {
            match self.run_one(now, run, zone, &launch.id, index, circumstances) {
                Ok(id) => launch.instances.push(id),
                Err(_) if index >= run.least => break,
                Err(error) => {
                    // All that must be, or none.
                    if let Some(before) = before {
                        *self = before;
                    }
                    return Err(error);
                }
            }
        }
        Ok(launch)
    }

    fn run_one(
        &mut self,
        now: Timestamp,
        run: &Run,
        zone: &Zone,
        launch: &str,
        index: u32,
        circumstances: Circumstances<'_>,
    ) -> Result<InstanceId, ProviderError> {
        let wanted = Wanted {
            instance_type: &run.instance_type,
            zone,
            market: run.market,
            reservation: run.reservation.as_ref(),
            open: run.open,
            max_price: run.max_price,
            group: run.group.as_ref(),
            host: None,
        };
        let placed = self.place(now, &wanted)?;
        let id: InstanceId = self.new_id("i");
        let node = self.next_name(zone);
        let (labels, taints) = boot::registration(run.data["UserData"].as_str());
        let mut interfaces = run.data["NetworkInterfaces"].as_array().into_iter().flatten();
        let is_efa =
            |one: &serde_json::Value| one["InterfaceType"].as_str().is_some_and(|kind| kind.starts_with("efa"));
        let registration = Registration { node: node.clone(), labels, taints, without_efa: !interfaces.any(is_efa) };
        let details = Details {
            launch: launch.to_string(),
            index,
            data: run.data.clone(),
            template: run.template.clone(),
            subnet: self.subnet_of(zone),
            name: node.to_string(),
            protected: run.protected,
            token_key: run.key(),
        };
        let instance = Instance {
            tag: super::slot_of(&run.tags),
            token: run.token.as_deref().map(Token::from),
            state: InstanceState::Pending,
            instance_type: run.instance_type.clone(),
            zone: zone.clone(),
            market: run.market,
            max_price: run.max_price,
            host: placed.host,
            notice: placed.notice,
            recommended: None,
            reservation: placed.reservation,
            group: run.group.clone(),
            digest: run.tags.get(super::TEMPLATE).map(|digest| digest.as_str().into()),
            launched: now,
            ended: None,
            visible: now.checked_add(circumstances.lag).unwrap_or(now),
            registration: (!circumstances.stillborn).then_some(registration),
        };
        self.born(now, &id, instance);
        self.account.tag(id.as_str(), run.tags.clone());
        self.account.details.insert(id.clone(), details);
        for (kind, thing) in self.beside(&id) {
            let tags = run.beside.get(kind).cloned().unwrap_or_default();
            self.account.tag(&thing, tags);
        }
        Ok(id)
    }

    /// What came with an instance and carries tags of its own: EC2's word for its kind, and its id.
    pub fn beside(&self, id: &InstanceId) -> Vec<(&'static str, String)> {
        let (Some(found), Some(details)) = (self.instances.get(id), self.account.details.get(id)) else {
            return Vec::new();
        };
        let mut all: Vec<(&str, String)> = self.volumes(id).into_iter().map(|(_, volume)| ("volume", volume)).collect();
        let interfaces = details.data["NetworkInterfaces"].as_array().map_or(1, Vec::len);
        all.extend((0..interfaces).map(|at| ("network-interface", self.interface(&details.name, at))));
        if found.market == Market::Spot {
            all.push(("spot-instances-request", self.fixed_id("sir", &[id.as_str()])));
        }
        all
    }

    /// The volumes of an instance by the names of their devices: its root, and what it was launched with.
    pub fn volumes(&self, id: &InstanceId) -> Vec<(String, String)> {
        let Some(details) = self.account.details.get(id) else { return Vec::new() };
        let mapped = details.data["BlockDeviceMappings"].as_array().into_iter().flatten();
        let mut devices: BTreeSet<String> =
            mapped.filter_map(|one| one["DeviceName"].as_str()).map(String::from).collect();
        devices.insert(ROOT.into());
        let volume = |device: String| {
            let volume = self.fixed_id("vol", &[id.as_str(), &device]);
            (device, volume)
        };
        devices.into_iter().map(volume).collect()
    }

    /// The interface at a place of an instance, which is known by its name.
    pub fn interface(&self, name: &str, at: usize) -> String {
        self.fixed_id("eni", &[name, &at.to_string()])
    }
}
