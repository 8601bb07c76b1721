//! A Kubernetes cluster as plain data: nodes, pods, controllers, Kueue, mig-manager and the device plugin.
//!
//! Nothing here runs by itself. Time comes in as `now`; whatever would happen on its own stands in the [`Agenda`] and
//! happens, in order of time, when [`ClusterState::tick`] gets there. The same calls give the same cluster, and the
//! whole of it can be written down and read back. Delays are those of the real ones (kueue-observed, cluster and
//! safety facts), rounded to what a planner can notice.
//!
//! Not here: machines and money (the simulated cloud), and what anybody wants (`plan`). Called by the simulated
//! provider and by scenario scripts.

mod agenda;
mod budgets;
mod evict;
mod gangs;
mod judge;
mod keepers;
mod kueue;
mod mig;
mod node;
mod objects;
mod perform;
mod pods;
mod quantity;
mod scheduler;
mod script;
mod seen;
mod server;
mod swap;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use budgets::{Bound, BudgetSpec, BudgetTrouble, Unhealthy};
pub use evict::Answer;
pub use gangs::GangSpec;
pub use judge::{Counts, Entry};
pub use keepers::ServiceSpec;
pub use mig::{DEVICE_PLUGIN, MIG_PARTED, MIG_PARTED_KEY, MigFault, NAMESPACE as GPU_NAMESPACE};
pub use node::{Acceptance, NodeJoin};
pub use pods::{PodTemplate, Tolerates};

use agenda::{Agenda, Happening, NodeRef, PodRef};
use budgets::Budget;
use gangs::Gang;
use judge::Records;
use keepers::{Daemon, Service};
use node::Node;
use objects::Stored;
use pods::Pods;

use crate::ids::{NamespacedName, NodeName, Uid, WorkloadUid};
use crate::observed::ObjectKey;

/// Everything there is in the cluster, and what will happen in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClusterState {
    seed: u64,
    /// How many UIDs were given out.
    serial: u64,
    /// Up to when everything has happened.
    now: Timestamp,
    agenda: Agenda,
    nodes: BTreeMap<NodeName, Node>,
    pods: Pods,
    gangs: BTreeMap<WorkloadUid, Gang>,
    services: BTreeMap<NamespacedName, Service>,
    daemons: BTreeMap<NamespacedName, Daemon>,
    budgets: BTreeMap<NamespacedName, Budget>,
    objects: BTreeMap<ObjectKey, Stored>,
    /// Config maps as the files that pods have mounted show them: a minute behind.
    mounted: BTreeMap<ObjectKey, Value>,
    knobs: Knobs,
    records: Records,
}

/// What a script has set about the world.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
struct Knobs {
    acceptance: Acceptance,
    /// What goes wrong at the next cuts: on one node, or on whichever is next.
    mig: Vec<(Option<NodeName>, MigFault)>,
    /// Apps whose evictions an admission webhook denies.
    denied: Vec<NamespacedName>,
    /// Kueue looks again, the scheduler looks again: each is in the agenda at most once.
    cycle_at: Option<Timestamp>,
    schedule_at: Option<Timestamp>,
}

/// Kueue answers a change of quotas or nodes after about this long.
const CYCLE: SignedDuration = SignedDuration::from_secs(1);
/// Kueue and the scheduler answer freed room within this.
const PROMPT: SignedDuration = SignedDuration::from_millis(100);

impl ClusterState {
    /// An empty cluster with the namespaces that its add-ons bring. The seed decides only UIDs, and with them who goes
    /// first where Kubernetes leaves it to chance.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            serial: 0,
            now: Timestamp::UNIX_EPOCH,
            agenda: Agenda::default(),
            nodes: BTreeMap::new(),
            pods: Pods::default(),
            gangs: BTreeMap::new(),
            services: BTreeMap::new(),
            daemons: BTreeMap::new(),
            budgets: BTreeMap::new(),
            objects: objects::brought_along(),
            mounted: BTreeMap::new(),
            knobs: Knobs::default(),
            records: Records::default(),
        }
    }

    /// Everything that happens in the cluster up to now, in order of time. Time never goes back.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some((at, happening)) = self.agenda.take_due(now) {
            self.now = self.now.max(at);
            self.happen(happening);
        }
        self.now = self.now.max(now);
    }

    /// When something would happen by itself next.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.agenda.next()
    }

    /// What a correct operator never causes, each in a sentence.
    pub fn violations(&self) -> &[String] {
        &self.records.violations
    }

    pub fn counts(&self) -> &Counts {
        &self.records.counts
    }

    /// The last things that happened, the newest last.
    pub fn log(&self) -> impl Iterator<Item = &(Timestamp, Entry)> {
        self.records.log.iter()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::NodeReady(node) => self.node_ready(&node),
            Happening::NodeMissed(node) => self.node_missed(&node),
            Happening::NodeBooted(node) => self.node_booted(&node),
            Happening::NodeAccepted(node) => self.node_accepted(&node),
            Happening::NodeRemoved(node) => self.node_removed(&node),
            Happening::NodeAbandoned(node, since) => self.node_abandoned(&node, since),
            Happening::Daemons(node) => self.place_daemons(&node),
            Happening::PluginUp { node, run } => self.plugin_up(&node, run),
            Happening::MigActs(node) => self.mig_acts(&node),
            Happening::MigDone { node, run } => self.mig_done(&node, run),
            Happening::Mounted(key) => self.mount(&key),
            Happening::PodStarts(pod) => self.pod_starts(&pod),
            Happening::PodGone(pod) => self.pod_gone(&pod),
            Happening::Replenish(service) => self.replenish(&service),
            Happening::Schedule => self.schedule(),
            Happening::Cycle => self.kueue_cycle(),
            Happening::Deactivated(gang) => self.gang_deactivated(&gang),
            Happening::Released { gang, epoch } => self.gang_released(&gang, epoch),
            Happening::FillGang(gang) => self.fill_gang(&gang),
            Happening::RankLost(gang) => self.rank_lost(&gang),
            Happening::Saved(gang) => self.gang_saved(&gang),
            Happening::ServiceSaved(name) => self.service_saved(&name),
            Happening::Finishes(gang) => self.gang_finishes(&gang),
            Happening::Unready { gang, since } => self.gang_unready(&gang, since),
            Happening::BackOffOver => self.poke_kueue(PROMPT),
            Happening::Forgotten(gang) => self.forget_gang(&gang),
        }
    }

    fn soon(&mut self, after: SignedDuration, happening: Happening) {
        self.agenda.add(later(self.now, after), happening);
    }

    /// Kueue looks again, at the latest after this long.
    fn poke_kueue(&mut self, after: SignedDuration) {
        let at = later(self.now, after);
        if self.knobs.cycle_at.is_none_or(|planned| at < planned) {
            self.knobs.cycle_at = Some(at);
            self.agenda.add(at, Happening::Cycle);
        }
    }

    fn poke_scheduler(&mut self) {
        if self.knobs.schedule_at.is_none() {
            let at = later(self.now, PROMPT);
            self.knobs.schedule_at = Some(at);
            self.agenda.add(at, Happening::Schedule);
        }
    }

    /// Nodes or pods changed: whoever waits for room is tried again.
    fn poke_both(&mut self) {
        self.poke_kueue(CYCLE);
        self.poke_scheduler();
    }

    /// A UID that looks like one of the API server's.
    fn uid(&mut self) -> String {
        self.serial += 1;
        let (high, low) = (scatter(self.seed ^ scatter(self.serial)), scatter(self.seed.wrapping_add(self.serial)));
        let word = |shift: u32| high >> shift & 0xffff;
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            word(16),
            word(0) & 0xfff,
            low >> 52,
            low << 16 >> 16
        )
    }

    fn node_ref(&self, name: &NodeName) -> Option<NodeRef> {
        self.nodes.get(name).map(|node| NodeRef { name: name.clone(), uid: node.uid.clone() })
    }

    /// The node, if it is still the same one.
    fn same_node(&mut self, node: &NodeRef) -> Option<&mut Node> {
        self.nodes.get_mut(&node.name).filter(|found| found.uid == node.uid)
    }
}

impl PodRef {
    fn new(name: &NamespacedName, uid: &Uid) -> Self {
        Self { name: name.clone(), uid: uid.clone() }
    }
}

/// An instant after another; the end of time is the end.
fn later(at: Timestamp, after: SignedDuration) -> Timestamp {
    at.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// The finaliser of splitmix64: numbers in a row look unrelated.
fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
