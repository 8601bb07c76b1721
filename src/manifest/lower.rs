//! Manifests to a Fleet: spec types become what they mean, every value that a rule may blame with its place.
//!
//! What is here is only translation and the rules about documents as such (one Fleet, no name twice); every other rule
//! is in `fleet`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Step::{Field, Item, Key};
use super::pool::Capacity;
use super::{Body, Manifest, RENAMED_FROM, Spec, Step, csv, fleet as head, layout, pool, quota, reservation, tide};
use crate::diag::{At, Diagnostic, Sources, codes};
use crate::fleet::build::Unread;
use crate::fleet::config::{Cloud, Kubernetes, Limits, Nothing};
use crate::fleet::layout::{Cut, Layout, MigPart};
use crate::fleet::policy::{HealthPolicy, SchedulerProfile};
use crate::fleet::pool::{Placement, Pool, Size, Source};
use crate::fleet::quota::{Namespace, Quota, Share};
use crate::fleet::reservation::{Block, Reservation, Terms};
use crate::fleet::tide::{Loan, Resize, Tide};
use crate::fleet::tier::Tier;
use crate::fleet::{Fabric, FabricLevel, Fleet, Kind, ObjectRef, Origin, Parts, Shape};
use crate::units::ZoneName;

/// What all documents say together. A fleet comes back only if nothing is wrong with any of them. `now` is where the
/// next two weeks begin, in which every sum is checked.
pub fn lower(all: &[Manifest], sources: &Sources, now: Timestamp) -> (Option<Fleet>, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let all = in_order(all, sources);
    let (unique, broken) = unique(&all, &mut found);
    let (fleets, others): (Vec<_>, Vec<_>) = unique.iter().partition(|manifest| manifest.kind == Some(Kind::Fleet));
    let mut unread = Unread { blind: all.iter().any(|m| m.kind.is_none() || m.name.is_none()), ..Unread::default() };
    unread.broken = broken;
    one_fleet(&fleets, &unread, all.first().copied(), &mut found);
    if fleets.len() > 1 {
        // Several fleets in one directory: whatever else is wrong with them together comes of that.
        found.retain(|diagnostic| diagnostic.code == codes::ONE_FLEET);
        return (None, found);
    }
    let sound = |manifest: &&&Manifest| !object(manifest).is_some_and(|object| unread.broken.contains(&object));
    // Of two Fleets nobody knows which is meant.
    let mut parts = match fleets.as_slice() {
        [manifest @ Manifest { body: Some(Body { spec: Spec::Fleet(spec), .. }), .. }] => {
            lower_head(manifest, spec, sources, &mut found)
        }
        _ => {
            unread.headless = true;
            nameless(all.first().copied())
        }
    };
    for manifest in unique.iter().filter(sound) {
        origin(manifest, &mut parts);
    }
    for manifest in others.into_iter().filter(sound) {
        if let Some(Body { spec, .. }) = &manifest.body {
            lower_one(manifest, spec, sources, &mut parts, &mut found);
        }
    }
    let (fleet, mut more) = Fleet::build(parts, &unread, now);
    found.append(&mut more);
    let valid = !found.iter().any(Diagnostic::is_error);
    (fleet.filter(|_| valid), found)
}

/// By path and place, so that the order of loading does not show in what is blamed for being second.
fn in_order<'a>(all: &'a [Manifest], sources: &Sources) -> Vec<&'a Manifest> {
    let mut all: Vec<&Manifest> = all.iter().collect();
    all.sort_by_key(|manifest| (sources.file(manifest.tree.span.file).path.clone(), manifest.tree.span.start));
    all
}

fn object(manifest: &Manifest) -> Option<ObjectRef> {
    Some(ObjectRef { kind: manifest.kind?, name: manifest.name.clone()? })
}

/// One manifest for each object, and the objects that cannot be used: their document is wrong, or there are two.
fn unique<'a>(all: &[&'a Manifest], found: &mut Vec<Diagnostic>) -> (Vec<&'a Manifest>, BTreeSet<ObjectRef>) {
    let mut first: BTreeMap<(Kind, &str), &Manifest> = BTreeMap::new();
    let (mut unique, mut broken) = (Vec::new(), BTreeSet::new());
    for manifest in all {
        let (Some(kind), Some(name)) = (manifest.kind, &manifest.name) else { continue };
        if manifest.body.is_none() {
            broken.extend(object(manifest));
        }
        // A second Fleet is one too many whatever its name is.
        if kind == Kind::Fleet {
            unique.push(*manifest);
        } else if let Some(earlier) = first.get(&(kind, name.as_str())) {
            found.push(
                Diagnostic::error(codes::DUPLICATE_NAME, format!("there are two {}s named `{name}`", kind.name()))
                    .at(manifest.name_at(), "the second")
                    .at(earlier.name_at(), "the first")
                    .hint("rename one of them, or remove it"),
            );
            // Which of the two is meant nobody knows, so neither is held against the others.
            broken.extend(object(manifest));
        } else {
            first.insert((kind, name), manifest);
            unique.push(*manifest);
        }
    }
    (unique, broken)
}

fn one_fleet(fleets: &[&&Manifest], unread: &Unread, any: Option<&Manifest>, found: &mut Vec<Diagnostic>) {
    if let [first, others @ ..] = fleets {
        found.extend(others.iter().map(|other| {
            Diagnostic::error(codes::ONE_FLEET, "a fleet's directory holds exactly one Fleet, and this is another")
                .at(other.name_at(), "another")
                .at(first.name_at(), "the first")
                .hint("keep one; another cluster is another directory")
        }));
    } else if let (false, Some(any)) = (unread.blind, any) {
        found.push(
            Diagnostic::error(codes::ONE_FLEET, "there is no Fleet document, so nothing says where this fleet lives")
                .at(any.name_at(), "documents without a Fleet")
                .hint("add one: `tidewright init` shows how it looks"),
        );
    }
}

/// Made up so that the other documents can be looked at. No fleet comes of it.
fn nameless(any: Option<&Manifest>) -> Parts {
    let at = any.map_or(crate::diag::Span { file: 0, start: 0, end: 0 }, |manifest| manifest.tree.span);
    Parts {
        name: At::new("".into(), at),
        time_zone: ZoneName::utc(),
        cloud: At::new(Cloud::Sim(Nothing {}), at),
        kubernetes: Kubernetes::Sim(Nothing {}),
        frozen: None,
        limits: At::new(Limits::default(), at),
        prices: BTreeMap::new(),
        hardware: Vec::new(),
        fabric: None,
        reservations: BTreeMap::new(),
        pools: BTreeMap::new(),
        layouts: BTreeMap::new(),
        tiers: BTreeMap::new(),
        quotas: BTreeMap::new(),
        tides: BTreeMap::new(),
        schedulers: BTreeMap::new(),
        health: BTreeMap::new(),
        origins: BTreeMap::new(),
    }
}

fn origin(manifest: &Manifest, parts: &mut Parts) {
    let (Some(kind), Some(body)) = (manifest.kind, &manifest.body) else { return };
    let annotations = manifest.tree.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let at = match annotations.and_then(|annotations| annotations.get(RENAMED_FROM)) {
        Some(annotation) if body.metadata.renamed_from.is_none() => annotation.span,
        _ => manifest.at_metadata("renamedFrom"),
    };
    let renamed_from = body.metadata.renamed_from().map(|old| At::new(old.to_string(), at));
    let object = ObjectRef { kind, name: body.metadata.name.clone() };
    parts.origins.insert(object, Origin { span: manifest.name_at(), renamed_from });
}

/// A value with its place.
fn at<T>(manifest: &Manifest, path: &[Step<'_>], value: T) -> At<T> {
    At::new(value, manifest.at(path))
}

fn lower_head(m: &Manifest, spec: &head::FleetSpec, sources: &Sources, found: &mut Vec<Diagnostic>) -> Parts {
    let hardware = spec.hardware.iter().enumerate().map(|(i, shape)| {
        let path = |field| [Field("hardware"), Item(i), Field(field)];
        Shape {
            name: at(m, &path("name"), shape.name.clone()),
            gpu: shape.gpu.clone().map(|gpu| at(m, &path("gpu"), gpu)),
            gpus: at(m, &path("gpus"), shape.gpus),
            nvlink_domain: shape.nvlink_domain,
            usd_per_hour: shape.usd_per_hour,
        }
    });
    let fabric = spec.fabric.as_ref().map(|fabric| {
        let levels = fabric.levels.iter().enumerate().map(|(i, level)| {
            let path = |field| [Field("fabric"), Field("levels"), Item(i), Field(field)];
            FabricLevel {
                name: at(m, &path("name"), level.name.clone()),
                node_label: level.node_label.clone().map(|label| at(m, &path("nodeLabel"), label)),
            }
        });
        let levels: Vec<FabricLevel> = levels.collect();
        let names: Vec<&str> = levels.iter().map(|level| level.name.value.as_str()).collect();
        let declared = fabric.declared.as_ref().map(|declared| {
            let file = at(m, &[Field("fabric"), Field("declared"), Field("file")], declared.file.as_str());
            csv::fabric(sources, m, &file, &names, found).unwrap_or_default()
        });
        Fabric { levels, declared }
    });
    Parts {
        name: At::new(m.name.as_deref().unwrap_or_default().into(), m.name_at()),
        time_zone: spec.time_zone.clone(),
        cloud: at(m, &[Field("cloud")], spec.cloud.clone()),
        kubernetes: spec.kubernetes.clone(),
        frozen: spec.frozen.clone(),
        limits: at(m, &[Field("limits"), Field("hourlyUsd")], spec.limits.clone()),
        prices: spec
            .prices
            .iter()
            .map(|(name, price)| (name.clone(), at(m, &[Field("prices"), Key(name.as_str())], price.on_demand_usd)))
            .collect(),
        hardware: hardware.collect(),
        fabric,
        ..nameless(Some(m))
    }
}

fn lower_one(m: &Manifest, spec: &Spec, sources: &Sources, parts: &mut Parts, found: &mut Vec<Diagnostic>) {
    let name = m.name.as_deref().unwrap_or_default();
    match spec {
        Spec::Fleet(_) => {}
        Spec::Reservation(spec) => drop(parts.reservations.insert(name.into(), lower_reservation(m, name, spec))),
        Spec::NodePool(spec) => {
            let user_data = csv::user_data(sources, m, spec, found);
            parts.pools.insert(name.into(), Pool { user_data, ..lower_pool(m, name, spec) });
        }
        Spec::GpuLayout(spec) => drop(parts.layouts.insert(name.into(), lower_layout(m, name, spec))),
        Spec::PreemptionTier(spec) => {
            let tier = Tier {
                name: At::new(name.into(), m.name_at()),
                rank: at(m, &[Field("rank")], spec.rank),
                preempts: at(m, &[Field("preempts")], spec.preempts),
                minimum_runtime: spec.minimum_runtime.map(|d| at(m, &[Field("minimumRuntime")], d)),
                checkpoint: spec.checkpoint.clone().map(|c| at(m, &[Field("checkpoint"), Field("deadline")], c)),
            };
            parts.tiers.insert(name.into(), tier);
        }
        Spec::Quota(spec) => drop(parts.quotas.insert(name.into(), lower_quota(m, name, spec))),
        Spec::TideSchedule(spec) => {
            let tide = lower_tide(m, name, spec, &parts.time_zone);
            parts.tides.insert(name.into(), tide);
        }
        Spec::SchedulerProfile(spec) => {
            let profile = SchedulerProfile {
                name: At::new(name.into(), m.name_at()),
                score: spec.score,
                gang: spec.gang.clone(),
                prefer: spec.topology.as_ref().map(|t| at(m, &[Field("topology"), Field("prefer")], t.prefer.clone())),
                pools: items(m, &["pools"], &spec.pools),
            };
            parts.schedulers.insert(name.into(), profile);
        }
        Spec::HealthPolicy(spec) => {
            let policy = HealthPolicy {
                name: At::new(name.into(), m.name_at()),
                pools: items(m, &["pools"], &spec.pools),
                rules: spec
                    .rules
                    .iter()
                    .enumerate()
                    .map(|(i, rule)| at(m, &[Field("rules"), Item(i), Field("then")], rule.clone()))
                    .collect(),
                limit: spec.limit,
                admit: spec.admit.clone(),
            };
            parts.health.insert(name.into(), policy);
        }
    }
}

/// Each entry of a list with its place.
fn items<T: Clone>(m: &Manifest, list: &[&str], values: &[T]) -> Vec<At<T>> {
    let path: Vec<Step<'_>> = list.iter().map(|name| Field(name)).collect();
    values
        .iter()
        .enumerate()
        .map(|(i, value)| {
            let mut path = path.clone();
            path.push(Item(i));
            at(m, &path, value.clone())
        })
        .collect()
}

fn lower_reservation(m: &Manifest, name: &str, spec: &reservation::ReservationSpec) -> Reservation {
    let terms = match (&spec.on_demand, &spec.capacity_block) {
        (_, Some(block)) => {
            let path = |field| [Field("capacityBlock"), Field(field)];
            Terms::Block(Block {
                duration: at(m, &path("duration"), block.duration),
                start: block.start_between.clone().map(|start| at(m, &path("startBetween"), start)),
                window: block.window.clone().map(|window| at(m, &path("window"), window)),
                max_upfront: at(m, &path("maxUpfrontUsd"), block.max_upfront_usd),
                approval: block.approval.clone().map(|approval| at(m, &path("approval"), approval)),
                extend: block.extend.clone().map(|extend| at(m, &path("extend"), extend)),
            })
        }
        (on_demand, None) => {
            let path = |field| [Field("onDemand"), Field(field)];
            let cancel = on_demand.as_ref().is_some_and(|terms| terms.cancel);
            Terms::OnDemand {
                end: at(m, &path("end"), on_demand.as_ref().map(|terms| terms.end).unwrap_or_default()),
                matching: on_demand.as_ref().map(|terms| terms.r#match).unwrap_or_default(),
                cancel: cancel.then(|| at(m, &path("cancel"), true)),
            }
        }
    };
    Reservation {
        name: At::new(name.into(), m.name_at()),
        id: spec.id.clone().map(|id| at(m, &[Field("id")], id)),
        manage: spec.manage,
        instance_type: at(m, &[Field("instanceType")], spec.instance_type.clone()),
        zone: spec.zone.clone().map(|zone| at(m, &[Field("zone")], zone)),
        nodes: at(m, &[Field("nodes")], spec.nodes),
        terms,
    }
}

fn lower_pool(m: &Manifest, name: &str, spec: &pool::NodePoolSpec) -> Pool {
    let capacity = spec.capacity.iter().enumerate().map(|(i, capacity)| {
        let source = match capacity {
            Capacity::Reservation(name) => Source::Reservation(name.clone()),
            Capacity::OnDemand(on_demand) => Source::OnDemand { max: on_demand.max },
            Capacity::Spot(spot) => Source::Spot { max: spot.max, max_price_percent: spot.max_price_percent },
            Capacity::Existing(existing) => Source::Existing { labels: existing.labels.clone() },
        };
        match capacity {
            Capacity::Reservation(_) => at(m, &[Field("capacity"), Item(i), Field("reservation")], source),
            _ => at(m, &[Field("capacity"), Item(i)], source),
        }
    });
    let placement = spec.placement.as_ref().map(|placement| Placement {
        together: placement.together.clone().map(|level| at(m, &[Field("placement"), Field("together")], level)),
        required: placement.required,
        apart_from: items(m, &["placement", "apartFrom"], &placement.apart_from),
    });
    let renamed_from = m.body.as_ref().and_then(|body| body.metadata.renamed_from()).map(Into::into);
    Pool {
        name: At::new(name.into(), m.name_at()),
        renamed_from,
        instance_type: at(m, &[Field("instanceType")], spec.instance_type.clone()),
        size: match spec.nodes {
            Some(nodes) => at(m, &[Field("nodes")], Size::Nodes(nodes)),
            None => at(m, &[Field("fill")], Size::Fill),
        },
        capacity: capacity.collect(),
        spares: at(m, &[Field("spares")], spec.spares),
        placement,
        layout: at(m, &[Field("layout")], spec.layout.clone()),
        labels: spec
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), at(m, &[Field("labels"), Key(key)], value.clone())))
            .collect(),
        taints: spec
            .taints
            .iter()
            .enumerate()
            .map(|(i, taint)| at(m, &[Field("taints"), Item(i), Field("key")], taint.clone()))
            .collect(),
        launch: spec.launch.clone().map(|launch| at(m, &[Field("launch"), Field("bootstrap")], launch)),
        user_data: None,
        updates: at(m, &[Field("updates")], spec.updates.clone()),
    }
}

fn lower_layout(m: &Manifest, name: &str, spec: &layout::GpuLayoutSpec) -> Layout {
    let cut = match (&spec.mig, &spec.mps, &spec.time_slicing) {
        (None, Some(mps), _) => Cut::Mps(at(m, &[Field("mps"), Field("clients")], mps.clone())),
        (None, None, Some(slicing)) => Cut::TimeSlicing(at(m, &[Field("timeSlicing")], slicing.clone())),
        (mig, _, _) => {
            let parts = mig.iter().flatten().enumerate().map(|(i, part)| MigPart {
                at: at(m, &[Field("mig"), Item(i), Field("slices")], ()),
                gpus: part
                    .gpus
                    .iter()
                    .enumerate()
                    .map(|(n, gpu)| at(m, &[Field("mig"), Item(i), Field("gpus"), Item(n)], *gpu))
                    .collect(),
                slices: part
                    .slices
                    .iter()
                    .map(|(profile, count)| {
                        let path = [Field("mig"), Item(i), Field("slices"), Key(profile.as_str())];
                        (profile.clone(), at(m, &path, count.0))
                    })
                    .collect(),
            });
            Cut::Mig(parts.collect())
        }
    };
    let ready = |(profile, count): (&crate::ids::MigProfile, &u32)| {
        let key = at(m, &[Field("keepReady"), Key(profile.as_str())], profile.clone());
        (key, at(m, &[Field("keepReady"), Field(profile.as_str())], *count))
    };
    Layout {
        name: At::new(name.into(), m.name_at()),
        cut,
        keep_ready: spec.keep_ready.iter().map(ready).collect(),
        retire: spec.retire,
    }
}

fn lower_quota(m: &Manifest, name: &str, spec: &quota::QuotaSpec) -> Quota {
    let shares = spec.shares.iter().enumerate().map(|(i, share)| {
        let path = |field| [Field("shares"), Item(i), Field(field)];
        Share {
            pool: at(m, &path("pool"), share.pool.clone()),
            guarantee: at(m, &path("guarantee"), share.guarantee.clone()),
            borrow: share.borrow.clone().map(|amount| at(m, &path("borrow"), amount)),
            lend: share.lend.clone().map(|amount| at(m, &path("lend"), amount)),
        }
    });
    Quota {
        name: At::new(name.into(), m.name_at()),
        cluster_queue: match &spec.cluster_queue {
            Some(queue) => at(m, &[Field("clusterQueue")], queue.clone()),
            None => At::new(name.into(), m.name_at()),
        },
        namespaces: spec
            .namespaces
            .iter()
            .enumerate()
            .map(|(i, namespace)| {
                let (name, local_queue) = (namespace.name.clone(), namespace.local_queue.clone());
                at(m, &[Field("namespaces"), Item(i)], Namespace { name, local_queue })
            })
            .collect(),
        cohort: spec.cohort.clone().map(|cohort| at(m, &[Field("cohort")], cohort)),
        tiers: items(m, &["tiers"], &spec.tiers),
        shares: shares.collect(),
        total: spec.total.clone().map(|total| at(m, &[Field("total")], total)),
        weight: spec.weight,
        retire: spec.retire,
    }
}

fn lower_tide(m: &Manifest, name: &str, spec: &tide::TideScheduleSpec, zone: &ZoneName) -> Tide {
    let loans = spec.lend.iter().enumerate().map(|(i, lend)| {
        let path = |field| [Field("lend"), Item(i), Field(field)];
        let loan = Loan {
            pool: at(m, &path("pool"), lend.pool.clone()),
            nodes: at(m, &path("nodes"), lend.nodes),
            from: at(m, &path("from"), lend.from.clone()),
            to: at(m, &path("to"), lend.to.clone()),
            layout: lend.layout.clone().map(|layout| at(m, &path("layout"), layout)),
        };
        at(m, &[Field("lend"), Item(i)], loan)
    });
    let resizes = spec.resize.iter().enumerate().map(|(i, resize)| {
        let path = |field| [Field("resize"), Item(i), Field(field)];
        let resized =
            Resize { pool: at(m, &path("pool"), resize.pool.clone()), nodes: at(m, &path("nodes"), resize.nodes) };
        at(m, &[Field("resize"), Item(i)], resized)
    });
    Tide {
        name: At::new(name.into(), m.name_at()),
        zone: at(m, &[Field("timeZone")], spec.time_zone.clone().unwrap_or_else(|| zone.clone())),
        windows: items(m, &["lowTide"], &spec.low_tide),
        exceptions: items(m, &["exceptions"], &spec.exceptions),
        loans: loans.collect(),
        resizes: resizes.collect(),
        guard: spec.guard.clone(),
        lead: at(m, &[Field("reclaim"), Field("lead")], spec.reclaim.lead),
        hard_at: at(m, &[Field("reclaim"), Field("hardAt")], spec.reclaim.hard_at),
        order: spec.reclaim.order,
        precedence: at(m, &[Field("precedence")], spec.precedence),
    }
}
