//! The life of an instance: pending, running, a node of the cluster, on its way out, terminated, forgotten.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::cluster::NodeJoin;
use super::fabric::{self, Hall};
use super::market::spot_price;
use super::{CloudState, Event, Performed, Word, after, refused};
use crate::effect::{Template, marks};
use crate::fleet::launch::Efa;
use crate::fleet::standing::NodeShape;
use crate::hardware::catalogue;
use crate::ids::{Digest, GroupName, InstanceId, InstanceType, NodeName, ReservationId, Token, Zone};
use crate::observed::{InstanceState, Market, Notice, NoticeKind, SlotTag};
use crate::provider::{Class, Done, ProviderError};
use crate::units::Usd;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Instance {
    pub tag: Option<SlotTag>,
    pub token: Option<Token>,
    pub state: InstanceState,
    pub instance_type: InstanceType,
    pub zone: Zone,
    /// What it was launched as. In a reservation that ended it goes on as on-demand.
    pub market: Market,
    pub max_price: Option<Usd>,
    pub reservation: Option<ReservationId>,
    pub group: Option<GroupName>,
    pub digest: Option<Digest>,
    pub launched: Timestamp,
    pub ended: Option<Timestamp>,
    /// From when on it is listed.
    pub visible: Timestamp,
    pub notice: Option<Notice>,
    /// Since when it is recommended to move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Timestamp>,
    pub(super) host: u32,
    /// What it registers with; none joins no cluster of ours.
    pub(super) registration: Option<Registration>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Registration {
    pub node: NodeName,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<crate::fleet::launch::Taint>,
    /// Its template attaches no adapters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_efa: bool,
}

/// From the request to `running`, in seconds.
const STARTS: (u64, u64) = (30, 50);
/// From the request to a node that is ready: boot, driver, kubelet.
const JOINS: (u64, u64) = (75, 110);
/// How long `shutting-down` holds its place: "several minutes" ("Launch instances using Capacity Blocks").
const ENDS: (u64, u64) = (180, 300);
/// From a reboot to a node that is ready again: GPU servers count their memory first.
const REBOOTS: (u64, u64) = (180, 300);
/// How long a terminated instance stays listed.
const LISTED_SECS: u64 = 3600;
/// How long after its instance's end a token is remembered: "at least 24 hours", so not longer.
const TOKEN_SECS: u64 = 24 * 3600;

impl Instance {
    pub(super) fn hall(&self) -> Hall<'_> {
        Hall { instance_type: &self.instance_type, zone: &self.zone }
    }

    /// What it is paid as now.
    pub fn paid_as(&self) -> Market {
        match (&self.reservation, self.market) {
            (Some(_), Market::Block) => Market::Block,
            (Some(_), _) => Market::Reserved,
            (None, Market::Spot) => Market::Spot,
            (None, _) => Market::OnDemand,
        }
    }
}

impl CloudState {
    /// Begins its life: it will run, and its node will join.
    pub(super) fn born(&mut self, now: Timestamp, id: &InstanceId, instance: Instance) {
        let jitter = |what: &str, (from, to)| self.dice.between(from, to, &[what, id.as_str()]);
        let (runs, joins) = (after(now, jitter("runs", STARTS)), after(now, jitter("joins", JOINS)));
        self.plan_event(runs, Event::Runs(id.clone()));
        if instance.registration.is_some() {
            self.plan_event(joins, Event::Joins(id.clone()));
        }
        if instance.market == Market::Spot && !self.spot_is_watched() {
            self.plan_event(next_hour(now), Event::SpotHour);
        }
        self.instances.insert(id.clone(), instance);
    }

    /// Labels and taints of a template's version, and what the cloud itself adds.
    pub(super) fn registration(&self, template: &Template, tag: &SlotTag, zone: &Zone) -> Registration {
        let mut labels = template.labels.clone();
        labels.insert(marks::SLOT.into(), tag.slot.index.to_string());
        let without_efa = template.launch.as_ref().is_some_and(|launch| launch.efa == Efa::None);
        Registration { node: self.next_name(zone), labels, taints: template.taints.clone(), without_efa }
    }

    /// The private name of the newest machine.
    pub(super) fn next_name(&self, zone: &Zone) -> NodeName {
        let (n, region) = (self.issued, region(zone));
        format!("ip-10-{}-{}-{}.{region}.compute.internal", n / 62_500, n / 250 % 250, n % 250 + 4).into()
    }

    pub(super) fn runs(&mut self, id: &InstanceId) {
        if let Some(found) = self.instances.get_mut(id)
            && found.state == InstanceState::Pending
        {
            found.state = InstanceState::Running;
        }
    }

    pub(super) fn joins(&mut self, id: &InstanceId) {
        let Some(found) = self.instances.get(id).filter(|found| found.state == InstanceState::Running) else { return };
        let Some(registration) = &found.registration else { return };
        let mut labels = registration.labels.clone();
        let mut label = |key: &str, value: &str| labels.insert(key.to_string(), value.to_string());
        label("kubernetes.io/hostname", registration.node.as_str());
        label("kubernetes.io/os", "linux");
        label("kubernetes.io/arch", "amd64");
        label("node.kubernetes.io/instance-type", found.instance_type.as_str());
        label("topology.kubernetes.io/region", region(&found.zone));
        label("topology.kubernetes.io/zone", found.zone.as_str());
        for (layer, name) in fabric::path(self.dice, found.hall(), found.host).iter().enumerate() {
            label(&format!("topology.k8s.aws/network-node-layer-{}", layer + 1), name);
        }
        let shape = self.shape(&found.instance_type);
        let join = NodeJoin {
            name: registration.node.clone(),
            instance: Some(id.clone()),
            labels,
            taints: registration.taints.clone(),
            gpus: shape.as_ref().map_or(0, |shape| shape.gpus),
            gpu: shape.as_ref().and_then(|shape| shape.gpu.clone()),
            instance_type: found.instance_type.clone(),
            vcpus: shape.as_ref().and_then(|shape| shape.vcpus).unwrap_or(0),
            memory_gib: shape.as_ref().and_then(|shape| shape.memory_gib).unwrap_or(0),
            efa: shape.as_ref().filter(|_| !registration.without_efa).map_or(0, |shape| shape.efa),
            shows: BTreeMap::new(),
        };
        self.outbox.push(Word::Joins(join));
    }

    /// What a machine of this type has: the catalogue's word, else the fleet's.
    pub(super) fn shape(&self, name: &InstanceType) -> Option<NodeShape> {
        let known = catalogue().types.get(name).map(|known| NodeShape {
            instance_type: name.clone(),
            gpu: known.gpu.clone(),
            gpus: known.gpus,
            nvlink_domain: (known.nvlink_domain != known.gpus.max(1)).then_some(known.nvlink_domain),
            vcpus: known.vcpus,
            memory_gib: known.memory_gib,
            efa: known.network.as_ref().and_then(|network| network.efa).unwrap_or(0),
            on_demand: known.on_demand.as_ref().map(|price| price.usd),
        });
        known.or_else(|| self.shapes.get(name).cloned())
    }

    pub(super) fn terminate(&mut self, now: Timestamp, id: &InstanceId) -> Result<Performed, ProviderError> {
        let found = self.listed(id)?;
        let changed = matches!(found.state, InstanceState::Pending | InstanceState::Running | InstanceState::Stopped);
        if changed {
            self.ends(now, id);
        }
        Ok(Performed { done: Done::Nothing, changed })
    }

    pub(super) fn reboot(&mut self, now: Timestamp, id: &InstanceId) -> Result<Performed, ProviderError> {
        let found = self.listed(id)?;
        if found.state != InstanceState::Running {
            let message =
                format!("IncorrectInstanceState: The instance '{id}' is not in a state from which it can be rebooted.");
            return Err(refused(Class::Other, message));
        }
        let back = after(now, self.dice.between(REBOOTS.0, REBOOTS.1, &["reboot", id.as_str(), &now.to_string()]));
        self.outbox.push(Word::Reboots(id.clone(), back));
        Ok(Performed::changed(Done::Nothing))
    }

    /// It goes down, whoever wanted it; its place stays taken until it is terminated.
    pub fn ends(&mut self, now: Timestamp, id: &InstanceId) {
        let Some(found) = self.instances.get_mut(id) else { return };
        if !matches!(found.state, InstanceState::Pending | InstanceState::Running | InstanceState::Stopped) {
            return;
        }
        (found.state, found.notice) = (InstanceState::ShuttingDown, None);
        self.account.tell_state(now, id, "shutting-down");
        let over = after(now, self.dice.between(ENDS.0, ENDS.1, &["ends", id.as_str()]));
        self.plan_event(over, Event::Terminated(id.clone()));
        self.outbox.push(Word::Gone(id.clone()));
    }

    pub(super) fn terminated(&mut self, at: Timestamp, id: &InstanceId) {
        let Some(found) = self.instances.get_mut(id) else { return };
        (found.state, found.ended) = (InstanceState::Terminated, Some(at));
        let (token, found) = (found.token.clone(), found.clone());
        self.vacate(&found);
        self.plan_event(after(at, LISTED_SECS), Event::Forgotten(id.clone()));
        let asked = self.account.details.get(id).and_then(|details| details.token_key.clone());
        let key = asked.or_else(|| token.map(|token| super::launch::token_key(&found.zone, &token)));
        if let Some(key) = key {
            self.plan_event(after(at, TOKEN_SECS), Event::TokenExpires(key));
        }
        self.account.tell_state(at, id, "terminated");
    }

    /// The cloud says that it will take an instance away.
    pub fn give_notice(&mut self, now: Timestamp, id: &InstanceId, why: NoticeKind, at: Timestamp) -> bool {
        let Some(found) = self.instances.get_mut(id).filter(|found| found.state.serves()) else { return false };
        found.notice = Some(Notice { why, at });
        self.plan_event(at, Event::Taken(id.clone()));
        self.account.tell_notice(now, id, why, at);
        true
    }

    pub(super) fn taken(&mut self, at: Timestamp, id: &InstanceId) {
        let due = |notice: &Notice| notice.at <= at && notice.why != NoticeKind::BlockEnd;
        if self.instances.get(id).and_then(|found| found.notice.as_ref()).is_some_and(due) {
            self.ends(at, id);
        }
    }

    /// Once an hour the spot price is another, and who bid less is told to go.
    pub(super) fn spot_hour(&mut self, at: Timestamp) {
        let outbid: Vec<InstanceId> = self
            .instances
            .iter()
            .filter(|(_, found)| found.market == Market::Spot && found.notice.is_none())
            .filter(|(_, found)| {
                let price = spot_price(self.dice, &found.instance_type, &found.zone, at);
                found.max_price.is_some_and(|max| max < price)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in outbid {
            self.interrupt(at, &id);
        }
        if self.instances.values().any(|found| found.market == Market::Spot && found.state.serves()) {
            self.plan_event(next_hour(at), Event::SpotHour);
        }
    }

    /// The two minutes' notice of a spot instance.
    pub fn interrupt(&mut self, now: Timestamp, id: &InstanceId) -> bool {
        self.give_notice(now, id, NoticeKind::SpotInterruption, after(now, catalogue().notices.spot.as_secs()))
    }

    /// The cloud recommends to move an instance, and says neither whether nor when it takes it.
    pub fn recommend(&mut self, now: Timestamp, id: &InstanceId) -> bool {
        let Some(found) = self.instances.get_mut(id).filter(|found| found.state.serves()) else { return false };
        found.recommended.get_or_insert(now);
        self.account.recommend(now, id);
        true
    }

    /// An instance of somebody else, without our tag: it runs, and is no node of the cluster.
    pub fn add_foreign(&mut self, now: Timestamp, instance_type: &InstanceType, zone: &Zone) -> InstanceId {
        let id: InstanceId = self.new_id("i");
        let hall = Hall { instance_type, zone };
        let host = self.fabric.take(self.dice, hall, 1, &[]).first().copied().unwrap_or(0);
        let instance = Instance {
            tag: None,
            token: None,
            state: InstanceState::Running,
            instance_type: instance_type.clone(),
            zone: zone.clone(),
            market: Market::OnDemand,
            max_price: None,
            reservation: None,
            group: None,
            digest: None,
            launched: now,
            ended: None,
            visible: now,
            notice: None,
            recommended: None,
            host,
            registration: None,
        };
        self.instances.insert(id.clone(), instance);
        id
    }

    fn listed(&self, id: &InstanceId) -> Result<&Instance, ProviderError> {
        self.instances.get(id).ok_or_else(|| {
            refused(Class::NotFound, format!("InvalidInstanceID.NotFound: The instance ID '{id}' does not exist"))
        })
    }

    fn spot_is_watched(&self) -> bool {
        self.agenda.values().flatten().any(|event| *event == Event::SpotHour)
    }
}

fn next_hour(at: Timestamp) -> Timestamp {
    after(at, 3600 - at.as_second().rem_euclid(3600).unsigned_abs())
}

/// The region of a zone: `us-west-2` of `us-west-2a`.
pub(super) fn region(zone: &Zone) -> &str {
    zone.as_str().trim_end_matches(|letter: char| letter.is_ascii_lowercase())
}
