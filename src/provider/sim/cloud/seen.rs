//! What a describe call answers: the state as EC2 lists it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::CloudState;
use super::fabric::{self, Hall};
use super::instance::Instance;
use super::market::spot_price;
use super::reservation::{Reservation, Stage};
use crate::effect::Subject;
use crate::fleet::Target;
use crate::fleet::pool::Source;
use crate::fleet::standing::PoolSpec;
use crate::ids::{HostName, InstanceId, InstanceType, ReservationId, Zone};
use crate::observed::{
    CloudSeen, GroupSeen, HostSeen, InstanceSeen, InstanceState, Market, Read, ReservationSeen, ReservationState,
    TemplateSeen,
};
use crate::units::Usd;

impl CloudState {
    /// Everything but the offers. Depends on nothing but the state and the instant.
    pub fn seen(&self, now: Timestamp, target: &Target) -> CloudSeen {
        let instances = self.instances.iter().filter(|(_, found)| found.visible <= now);
        let instances = instances.map(|(id, found)| (id.clone(), self.instance_seen(found)));
        let recommended = self.instances.iter().filter(|(_, found)| found.visible <= now && found.state.serves());
        let recommended = recommended.filter_map(|(id, found)| Some((id.clone(), found.recommended?)));
        let reservations = self.reservations.iter().filter(|(_, held)| held.is_listed(now));
        let reservations = reservations.map(|(id, held)| (id.clone(), self.reservation_seen(now, held)));
        let groups = self.groups.iter().map(|(name, ours)| (name.clone(), GroupSeen { ours: *ours }));
        let templates = self.templates.iter().map(|(name, versions)| {
            let digest = versions.last().map(|newest| newest.digest.clone());
            let version = u32::try_from(versions.len()).unwrap_or(u32::MAX);
            (name.clone(), TemplateSeen { ours: true, digest, version })
        });
        CloudSeen {
            reservations: Read::new(reservations.collect(), now),
            offerings: Read::default(),
            instances: Read::new(instances.collect(), now),
            groups: Read::new(groups.collect(), now),
            templates: Read::new(templates.collect(), now),
            spot_prices: Read::new(self.spot_prices(now, target), now),
            hosts: self.free_hosts(now, target),
            recommended: recommended.collect(),
            unplaced: None,
        }
    }

    /// Hosts that a launch may name, for pools that should stand together somewhere.
    fn free_hosts(&self, now: Timestamp, target: &Target) -> BTreeMap<HostName, HostSeen> {
        let standing = &target.standing;
        let together = |pool: &&PoolSpec| pool.placement.as_ref().is_some_and(|asked| asked.together.is_some());
        let pools = standing.pools.values().filter(together).filter(|_| !standing.levels.is_empty());
        let mut found = BTreeMap::new();
        for pool in pools.filter(|pool| fabric::layers(&pool.shape.instance_type) > 0) {
            let kind = &pool.shape.instance_type;
            let mut tell = |hall: Hall<'_>, host: u32, reservation: Option<&ReservationId>| {
                let network = fabric::path(self.dice, hall, host);
                let (instance_type, zone) = (kind.clone(), hall.zone.clone());
                let seen = HostSeen { instance_type, zone, reservation: reservation.cloned(), network };
                found.insert(fabric::name(hall, host), seen);
            };
            let by_the_hour = |source: &Source| matches!(source, Source::OnDemand { .. } | Source::Spot { .. });
            let mut zones = standing.zones(pool);
            if zones.is_empty() {
                zones = super::block::ZONES.map(Zone::from).to_vec();
            }
            for zone in zones.iter().filter(|_| pool.capacity.iter().any(by_the_hour)) {
                let hall = Hall { instance_type: kind, zone };
                self.fabric.offered(self.dice, hall).for_each(|host| tell(hall, host, None));
            }
            for (id, held) in self.reservations.iter().filter(|(_, held)| held.is_listed(now)) {
                let hall = Hall { instance_type: kind, zone: &held.zone };
                if held.instance_type == *kind {
                    held.hosts.iter().for_each(|host| tell(hall, *host, Some(id)));
                }
            }
        }
        found
    }

    /// Only these instances and reservations; the rest is unread.
    pub fn seen_again(&self, now: Timestamp, what: &[Subject]) -> CloudSeen {
        let (instances, reservations) = named(what);
        let mut seen = CloudSeen::default();
        if !instances.is_empty() {
            let found = instances.into_iter().filter_map(|id| {
                let found = self.instances.get(id).filter(|found| found.visible <= now)?;
                Some((id.clone(), self.instance_seen(found)))
            });
            seen.instances = Read::new(found.collect(), now);
        }
        if !reservations.is_empty() {
            let found = reservations.into_iter().filter_map(|id| {
                let held = self.reservations.get(id).filter(|held| held.is_listed(now))?;
                Some((id.clone(), self.reservation_seen(now, held)))
            });
            seen.reservations = Read::new(found.collect(), now);
        }
        seen
    }

    fn instance_seen(&self, found: &Instance) -> InstanceSeen {
        // EC2 tells the network of running instances only.
        let network = match found.state {
            InstanceState::Running => fabric::path(self.dice, found.hall(), found.host),
            _ => Vec::new(),
        };
        InstanceSeen {
            tag: found.tag.clone(),
            token: found.token.clone(),
            state: found.state.clone(),
            instance_type: found.instance_type.clone(),
            zone: found.zone.clone(),
            market: found.paid_as(),
            reservation: found.reservation.clone(),
            group: found.group.clone(),
            template: found.digest.clone(),
            launched: found.launched,
            network,
            notice: found.notice.clone(),
        }
    }

    fn reservation_seen(&self, now: Timestamp, held: &Reservation) -> ReservationSeen {
        let state = match held.stage(now) {
            Stage::PaymentPending => ReservationState::Pending,
            Stage::Scheduled => ReservationState::Scheduled,
            Stage::Active if now < held.shown => ReservationState::Pending,
            Stage::Active | Stage::Closing => ReservationState::Active,
            Stage::Ended => ReservationState::Ended,
        };
        let hall = Hall { instance_type: &held.instance_type, zone: &held.zone };
        ReservationSeen {
            tag: held.tag.clone(),
            instance_type: held.instance_type.clone(),
            zone: held.zone.clone(),
            total: held.total,
            available: held.available(now),
            state,
            start: held.block.as_ref().map(|block| block.start),
            end: held.end,
            matching: held.matching,
            block: held.block.is_some(),
            offering: held.block.as_ref().map(|block| block.offering.clone()),
            network: fabric::common(self.dice, hall, held.all_hosts.iter().copied()),
        }
    }

    fn spot_prices(&self, now: Timestamp, target: &Target) -> BTreeMap<InstanceType, BTreeMap<Zone, Usd>> {
        let mut found: BTreeMap<InstanceType, BTreeMap<Zone, Usd>> = BTreeMap::new();
        for pool in target.standing.pools.values() {
            let kind = &pool.shape.instance_type;
            let mut zones = target.standing.zones(pool);
            if zones.is_empty() {
                zones = super::block::ZONES.map(Zone::from).to_vec();
            }
            for zone in zones {
                let price = spot_price(self.dice, kind, &zone, now);
                found.entry(kind.clone()).or_default().insert(zone, price);
            }
        }
        // And of what is there, whatever the documents ask for by now.
        let spot = self.instances.values().filter(|one| one.market == Market::Spot && one.state.is_live());
        for one in spot.filter(|one| one.visible <= now && one.tag.is_some()) {
            let price = spot_price(self.dice, &one.instance_type, &one.zone, now);
            found.entry(one.instance_type.clone()).or_default().insert(one.zone.clone(), price);
        }
        found
    }
}

/// The instances and reservations among some subjects.
pub fn named(what: &[Subject]) -> (Vec<&InstanceId>, Vec<&ReservationId>) {
    let mut found = (Vec::new(), Vec::new());
    for subject in what {
        match subject {
            Subject::Instance(id) | Subject::NodeOf(id) => found.0.push(id),
            Subject::Reservation(id) => found.1.push(id),
            Subject::Node(_) | Subject::Workload(_) | Subject::Object(_) => {}
        }
    }
    found
}
