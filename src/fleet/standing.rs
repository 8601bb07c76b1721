//! What a fleet says that does not depend on the hour: plain data without places, for `compile` and the planner.
//!
//! A [`Standing`] is part of every [`Target`](super::Target). Defaults are filled in, hardware is resolved, and it can
//! be written and read back, so that a plan can be replayed. Not here: what a tide changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::{Cloud, Kubernetes, Limits};
use super::launch::{Launch, Taint};
use super::layout::{Cut, Layout};
use super::policy::{Admit, Gang, Rule, Score};
use super::pool::{Size, Source};
use super::quota::{Amount, Supply};
use super::reservation::{Approval, BlockWindow, End, Extend, Manage, Match, StartBetween, Terms};
use super::tide::{Guard, ReclaimOrder};
use super::tier::{Checkpoint, Preempts};
use super::updates::Updates;
use super::{Fleet, Parts};
use crate::diag::At;
use crate::hardware::catalogue;
use crate::ids::{
    FleetName, GpuModel, InstanceType, LayoutName, LevelName, MigProfile, PolicyName, PoolName, ProfileName, QuotaName,
    ReservationName, TideName, TierName, Zone,
};
use crate::units::{Duration, Percent, Usd, ZoneName};

/// The part of a fleet that is the same at every hour.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Standing {
    pub fleet: FleetName,
    pub time_zone: ZoneName,
    pub cloud: Cloud,
    pub kubernetes: Kubernetes,
    /// Why everything is stopped, where the Fleet document says so.
    pub frozen: Option<String>,
    pub limits: Limits,
    /// Coarse to fine.
    pub levels: Vec<Level>,
    /// The path of each node from the top, where it is declared.
    pub declared: Option<BTreeMap<String, Vec<String>>>,
    pub reservations: BTreeMap<ReservationName, ReservationSpec>,
    pub pools: BTreeMap<PoolName, PoolSpec>,
    pub layouts: BTreeMap<LayoutName, LayoutSpec>,
    pub tiers: BTreeMap<TierName, TierSpec>,
    pub quotas: BTreeMap<QuotaName, QuotaSpec>,
    pub tides: BTreeMap<TideName, TideSpec>,
    /// Those of them that are remembered to lend, and since when: a node that is cut for a loan is one of theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lent_since: BTreeMap<TideName, Timestamp>,
    /// So many nodes tides give pools while they are low.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub low_sizes: BTreeMap<PoolName, BTreeMap<TideName, u32>>,
    pub schedulers: BTreeMap<ProfileName, SchedulerSpec>,
    pub health: BTreeMap<PolicyName, HealthSpec>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    pub name: LevelName,
    pub node_label: Option<String>,
}

/// The label of a single node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// What stands before the name of a level of a declared fabric that names no label.
const OUR_LEVELS: &str = "fabric.tidewright.dev/";

impl Level {
    /// The label that a declared place on this level is written to.
    pub fn declared_label(&self) -> String {
        self.node_label.clone().unwrap_or_else(|| format!("{OUR_LEVELS}{}", self.name))
    }
}

/// What one node is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeShape {
    pub instance_type: InstanceType,
    pub gpu: Option<GpuModel>,
    pub gpus: u32,
    /// How many GPUs reach each other over their own link, where that is not just those of one node: more across nodes, or
    /// fewer, which leaves PCIe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_domain: Option<u32>,
    pub vcpus: Option<u32>,
    pub memory_gib: Option<u32>,
    pub efa: u32,
    /// US dollars an hour on demand.
    pub on_demand: Option<Usd>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReservationSpec {
    /// Adopted by this id.
    pub id: Option<String>,
    pub manage: Manage,
    pub renamed_from: Option<ReservationName>,
    pub shape: NodeShape,
    pub zone: Option<Zone>,
    pub nodes: u32,
    pub terms: TermsSpec,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum TermsSpec {
    OnDemand { end: Option<Timestamp>, matching: Match, cancel: bool },
    Block(BlockSpec),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BlockSpec {
    pub duration: Duration,
    pub start: Option<StartBetween>,
    pub window: Option<BlockWindow>,
    pub max_upfront: Usd,
    pub approval: Option<Approval>,
    pub extend: Option<Extend>,
    /// How long before the end its nodes begin to be taken away.
    pub kill: Duration,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PoolSpec {
    pub shape: NodeShape,
    /// How many nodes the document says; none: as many as its reservations hold.
    pub size: Option<u32>,
    /// In the order in which it is filled.
    pub capacity: Vec<Source>,
    pub spares: u32,
    pub placement: Option<PlacementSpec>,
    pub layout: LayoutName,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub launch: Option<Launch>,
    /// The text of own user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    pub updates: Updates,
    pub scheduler: Option<ProfileName>,
    pub health: Option<PolicyName>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlacementSpec {
    pub together: Option<LevelName>,
    pub required: bool,
    pub apart_from: Vec<PoolName>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LayoutSpec {
    pub cut: CutSpec,
    /// Slices that stay up while a pool is re-cut.
    pub keep_ready: BTreeMap<MigProfile, u32>,
    pub retire: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CutSpec {
    Mig(Vec<MigPartSpec>),
    Mps { clients: u32 },
    TimeSlicing { replicas: u32 },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MigPartSpec {
    /// Empty: all GPUs of the node.
    pub gpus: Vec<u32>,
    pub slices: BTreeMap<MigProfile, u32>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TierSpec {
    pub rank: i32,
    pub preempts: Preempts,
    pub minimum_runtime: Duration,
    pub checkpoint: Option<Checkpoint>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QuotaSpec {
    pub cluster_queue: String,
    /// Namespace and LocalQueue.
    pub namespaces: Vec<(String, String)>,
    /// From the top: `research/vision`.
    pub cohort: Option<String>,
    /// The first is what simulated work has that names none.
    pub tiers: Vec<TierName>,
    /// The pools of its shares as they are written: a queue prefers the first.
    pub pools: Vec<PoolName>,
    pub total: Option<Amount>,
    pub weight: u32,
    pub retire: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TideSpec {
    pub loans: Vec<LoanSpec>,
    /// The pools that it makes larger or smaller.
    #[serde(default)]
    pub resizes: Vec<PoolName>,
    pub guard: Option<Guard>,
    pub order: ReclaimOrder,
    pub lead: Duration,
    pub hard_at: Duration,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoanSpec {
    pub pool: PoolName,
    pub nodes: u32,
    pub from: QuotaName,
    pub to: QuotaName,
    /// The borrower's ClusterQueue: what runs in it is asked back even if its document goes.
    #[serde(default)]
    pub queue: String,
    pub layout: LayoutName,
    /// When the document was seen first that lends it no more, or so much less: from then on it is asked back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SchedulerSpec {
    pub score: Score,
    pub gang: Option<Gang>,
    pub prefer: Option<LevelName>,
    pub pools: Vec<PoolName>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HealthSpec {
    pub rules: Vec<Rule>,
    pub limit: Percent,
    pub admit: Vec<Admit>,
}

impl HealthSpec {
    /// What holds where no policy watches a pool: nodes that never join, or whose cut never ends, are replaced there
    /// too, and a broken image must not replace a whole pool over and over.
    pub const LIMIT_WITHOUT_POLICY: Percent = Percent(10);
}

impl Standing {
    /// Whether some tide gives a pool another size.
    pub fn is_resized(&self, pool: &PoolName) -> bool {
        self.tides.values().any(|tide| tide.resizes.contains(pool))
    }

    /// The labels that say where a node hangs, coarse to fine. Where the fabric is declared, every level has one.
    pub fn level_labels(&self) -> Vec<String> {
        let label = |level: &Level| match &self.declared {
            Some(_) => Some(level.declared_label()),
            None => level.node_label.clone(),
        };
        self.levels.iter().filter_map(label).collect()
    }

    /// What a node carries because the declared fabric says where it hangs. A host is labelled by its kubelet.
    pub fn declared_labels(&self, node: &str) -> BTreeMap<String, String> {
        let path = self.declared.as_ref().and_then(|declared| declared.get(node));
        let places = self.levels.iter().zip(path.into_iter().flatten());
        let labels = places.map(|(level, place)| (level.declared_label(), place.clone()));
        labels.filter(|(key, _)| key != HOSTNAME).collect()
    }

    /// What one node of a pool holds under a layout.
    pub fn per_node(&self, pool: &PoolSpec, layout: &LayoutName) -> Supply {
        let gpus = pool.shape.gpus;
        let mut supply = Supply { nodes: 1, gpus, slices: BTreeMap::new() };
        if let Some(LayoutSpec { cut: CutSpec::Mig(parts), .. }) = self.layouts.get(layout) {
            for part in parts {
                let cut = if part.gpus.is_empty() { gpus } else { u32::try_from(part.gpus.len()).unwrap_or(gpus) };
                supply.gpus = supply.gpus.saturating_sub(cut);
                for (profile, count) in &part.slices {
                    let sum = supply.slices.entry(profile.clone()).or_insert(0);
                    *sum = sum.saturating_add(count.saturating_mul(cut));
                }
            }
        }
        supply
    }

    /// The zones that a pool's nodes may be in, most wanted first; empty where nothing says.
    pub fn zones(&self, pool: &PoolSpec) -> Vec<Zone> {
        let subnets = pool.launch.as_ref().map(|launch| launch.subnets.zones.clone()).unwrap_or_default();
        let held = pool.capacity.iter().filter_map(|source| match source {
            Source::Reservation(name) => self.reservations.get(name).and_then(|held| held.zone.clone()),
            _ => None,
        });
        let mut zones: Vec<Zone> = Vec::new();
        for zone in subnets.into_iter().chain(held) {
            if !zones.contains(&zone) {
                zones.push(zone);
            }
        }
        zones
    }
}

impl Fleet {
    /// The part of the fleet that is the same at every hour.
    pub fn standing(&self) -> Standing {
        let value = |name: &At<String>| name.value.clone();
        Standing {
            fleet: self.name.value.clone(),
            time_zone: self.time_zone.clone(),
            cloud: self.cloud.value.clone(),
            kubernetes: self.kubernetes.clone(),
            frozen: self.frozen.as_ref().map(|frozen| frozen.reason.clone()),
            limits: self.limits.value.clone(),
            levels: self.fabric.iter().flat_map(|fabric| &fabric.levels).map(level).collect(),
            declared: self.fabric.as_ref().and_then(|fabric| fabric.declared.clone()),
            reservations: self.reservations.keys().filter_map(|name| self.reservation_spec(name)).collect(),
            pools: self.pools.keys().filter_map(|name| self.pool_spec(name)).collect(),
            layouts: self.layouts.iter().map(|(name, layout)| (name.clone(), layout_spec(layout))).collect(),
            tiers: self.tiers.iter().map(|(name, tier)| (name.clone(), tier_spec(tier))).collect(),
            quotas: self
                .quotas
                .iter()
                .map(|(name, quota)| {
                    let spec = QuotaSpec {
                        cluster_queue: value(&quota.cluster_queue),
                        namespaces: quota
                            .namespaces
                            .iter()
                            .map(|one| (one.value.name.clone(), one.value.local_queue.clone()))
                            .collect(),
                        cohort: quota.cohort.as_ref().map(value),
                        tiers: quota.tiers.iter().map(|tier| tier.value.clone()).collect(),
                        pools: quota.shares.iter().map(|share| share.pool.value.clone()).collect(),
                        total: quota.total.as_ref().map(|total| total.value.clone()),
                        weight: quota.weight,
                        retire: quota.retire,
                    };
                    (name.clone(), spec)
                })
                .collect(),
            tides: self.tides.keys().filter_map(|name| self.tide_spec(name)).collect(),
            lent_since: BTreeMap::new(),
            low_sizes: self.low_sizes(),
            schedulers: self
                .schedulers
                .iter()
                .map(|(name, profile)| {
                    let pools = profile.pools.iter().map(|pool| pool.value.clone()).collect();
                    let prefer = profile.prefer.as_ref().map(|level| level.value.clone());
                    (name.clone(), SchedulerSpec { score: profile.score, gang: profile.gang.clone(), prefer, pools })
                })
                .collect(),
            health: self
                .health
                .iter()
                .map(|(name, policy)| {
                    let rules = policy.rules.iter().map(|rule| rule.value.clone()).collect();
                    (name.clone(), HealthSpec { rules, limit: policy.limit, admit: policy.admit.clone() })
                })
                .collect(),
        }
    }
}

impl Parts {
    fn shape(&self, name: &InstanceType) -> NodeShape {
        let hardware = self.hardware(name);
        let known = catalogue().types.get(name);
        NodeShape {
            instance_type: name.clone(),
            gpu: hardware.and_then(|hardware| hardware.gpu).map(|gpu| gpu.model.clone()),
            gpus: hardware.map_or(0, |hardware| hardware.gpus),
            nvlink_domain: hardware.filter(|of| of.nvlink_domain != of.gpus.max(1)).map(|of| of.nvlink_domain),
            vcpus: known.and_then(|known| known.vcpus),
            memory_gib: known.and_then(|known| known.memory_gib),
            efa: known.and_then(|known| known.network.as_ref()).and_then(|network| network.efa).unwrap_or(0),
            on_demand: hardware.and_then(|hardware| hardware.on_demand),
        }
    }

    fn reservation_spec(&self, name: &ReservationName) -> Option<(ReservationName, ReservationSpec)> {
        let reservation = self.reservations.get(name)?;
        let terms = match &reservation.terms {
            Terms::OnDemand { end, matching, cancel } => TermsSpec::OnDemand {
                end: match end.value {
                    End::Never => None,
                    End::At(end) => Some(end.0),
                },
                matching: *matching,
                cancel: cancel.as_ref().is_some_and(|cancel| cancel.value),
            },
            Terms::Block(block) => TermsSpec::Block(BlockSpec {
                duration: block.duration.value,
                start: block.start.as_ref().map(|start| start.value.clone()),
                window: block.window.as_ref().map(|window| window.value.clone()),
                max_upfront: block.max_upfront.value,
                approval: block.approval.as_ref().map(|approval| approval.value.clone()),
                extend: block.extend.as_ref().map(|extend| extend.value.clone()),
                kill: self.kill(reservation),
            }),
        };
        let renamed = self
            .origins
            .iter()
            .find(|(object, _)| object.kind == super::Kind::Reservation && object.name == name.as_str());
        let renamed_from = renamed.and_then(|(_, origin)| origin.renamed_from.as_ref());
        let spec = ReservationSpec {
            id: reservation.id.as_ref().map(|id| id.value.clone()),
            manage: reservation.manage,
            renamed_from: renamed_from.map(|old| old.value.as_str().into()),
            shape: self.shape(&reservation.instance_type.value),
            zone: reservation.zone.as_ref().map(|zone| zone.value.clone()),
            nodes: reservation.nodes.value,
            terms,
        };
        Some((name.clone(), spec))
    }

    fn pool_spec(&self, name: &PoolName) -> Option<(PoolName, PoolSpec)> {
        let pool = self.pools.get(name)?;
        let names = |pools: &[At<PoolName>]| pools.iter().any(|pool| pool.value == *name);
        let named = self.health.iter().find(|(_, policy)| names(&policy.pools));
        let health = named.or_else(|| self.health.iter().find(|(_, policy)| policy.pools.is_empty()));
        let spec = PoolSpec {
            shape: self.shape(&pool.instance_type.value),
            size: match pool.size.value {
                Size::Nodes(nodes) => Some(nodes),
                Size::Fill => None,
            },
            capacity: pool.capacity.iter().map(|source| source.value.clone()).collect(),
            spares: pool.spares.value,
            placement: pool.placement.as_ref().map(|placement| PlacementSpec {
                together: placement.together.as_ref().map(|level| level.value.clone()),
                required: placement.required,
                apart_from: placement.apart_from.iter().map(|pool| pool.value.clone()).collect(),
            }),
            layout: pool.layout.value.clone(),
            labels: pool.labels.iter().map(|(key, label)| (key.clone(), label.value.clone())).collect(),
            taints: pool.taints.iter().map(|taint| taint.value.clone()).collect(),
            launch: pool.launch.as_ref().map(|launch| launch.value.clone()),
            user_data: pool.user_data.clone(),
            updates: pool.updates.value.clone(),
            scheduler: self.schedulers.iter().find(|(_, one)| names(&one.pools)).map(|(name, _)| name.clone()),
            health: health.map(|(name, _)| name.clone()),
        };
        Some((name.clone(), spec))
    }

    fn low_sizes(&self) -> BTreeMap<PoolName, BTreeMap<TideName, u32>> {
        let mut sizes: BTreeMap<PoolName, BTreeMap<TideName, u32>> = BTreeMap::new();
        for (name, tide) in &self.tides {
            for resize in &tide.resizes {
                sizes.entry(resize.pool.value.clone()).or_default().insert(name.clone(), resize.nodes.value);
            }
        }
        sizes
    }

    fn tide_spec(&self, name: &TideName) -> Option<(TideName, TideSpec)> {
        let tide = self.tides.get(name)?;
        let loans = tide.loans.iter().filter_map(|loan| {
            let own = &self.pools.get(&loan.pool.value)?.layout.value;
            Some(LoanSpec {
                pool: loan.pool.value.clone(),
                nodes: loan.nodes.value,
                from: loan.from.value.clone(),
                to: loan.to.value.clone(),
                queue: self
                    .quotas
                    .get(&loan.to.value)
                    .map(|quota| quota.cluster_queue.value.clone())
                    .unwrap_or_default(),
                layout: loan.layout.as_ref().map_or_else(|| own.clone(), |layout| layout.value.clone()),
                ended: None,
            })
        });
        let (guard, order) = (tide.guard.clone(), tide.order);
        let (lead, hard_at) = (tide.lead.value, tide.hard_at.value);
        let resizes = tide.resizes.iter().map(|resize| resize.pool.value.clone()).collect();
        let spec = TideSpec { loans: loans.collect(), resizes, guard, order, lead, hard_at };
        Some((name.clone(), spec))
    }
}

fn level(level: &super::FabricLevel) -> Level {
    Level { name: level.name.value.clone(), node_label: level.node_label.as_ref().map(|label| label.value.clone()) }
}

fn layout_spec(layout: &Layout) -> LayoutSpec {
    let cut = match &layout.cut {
        Cut::Mig(parts) => CutSpec::Mig(
            parts
                .iter()
                .map(|part| MigPartSpec {
                    gpus: part.gpus.iter().map(|gpu| gpu.value).collect(),
                    slices: part.counts(),
                })
                .collect(),
        ),
        Cut::Mps(mps) => CutSpec::Mps { clients: mps.value.clients },
        Cut::TimeSlicing(slicing) => CutSpec::TimeSlicing { replicas: slicing.value.replicas },
    };
    let keep_ready = layout.keep_ready.iter().map(|(profile, count)| (profile.value.clone(), count.value)).collect();
    LayoutSpec { cut, keep_ready, retire: layout.retire }
}

fn tier_spec(tier: &super::tier::Tier) -> TierSpec {
    TierSpec {
        rank: tier.rank.value,
        preempts: tier.preempts.value,
        minimum_runtime: tier.minimum_runtime.as_ref().map_or(Duration::secs(0), |least| least.value),
        checkpoint: tier.checkpoint.as_ref().map(|checkpoint| checkpoint.value.clone()),
    }
}
