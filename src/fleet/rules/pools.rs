//! Pools on their own and against the reservations, tiers and cloud that they name.

use std::collections::BTreeMap;

use crate::diag::{At, Diagnostic, Span, codes};
use crate::fleet::build::Problems;
use crate::fleet::config::Cloud;
use crate::fleet::launch::Bootstrap;
use crate::fleet::pool::{Pool, Size, Source};
use crate::fleet::quota::Quota;
use crate::fleet::reservation::{Match, Reservation, Terms};
use crate::fleet::tide::Resize;
use crate::fleet::updates::When;
use crate::fleet::{Kind, Parts};
use crate::hardware::catalogue;
use crate::ids::{InstanceType, PoolName, ReservationName};

pub fn check(p: &mut Problems<'_>) {
    let others = Others::of(p.parts);
    for pool in p.parts.pools.values() {
        size(p, pool, &others);
        for source in &pool.capacity {
            if let Source::Reservation(name) = &source.value
                && let Some(reservation) = p.parts.reservations.get(name)
            {
                names(p, pool, &At::new(name, source.at), reservation);
            }
        }
        if !p.unread.headless {
            cloud(p, pool);
            price(p, pool);
        }
        placement(p, pool);
        updates(p, pool);
        open_reservations(p, pool, &others);
        notice(p, pool, &others);
    }
}

/// What other objects say about pools, found once for all of them.
#[derive(Default)]
struct Others<'a> {
    resizes: BTreeMap<&'a PoolName, Vec<&'a Resize>>,
    /// Whose work runs in a pool: who has a share of it, and who is lent its nodes.
    users: BTreeMap<&'a PoolName, Vec<(&'a Quota, Span)>>,
    /// Reservations that anything of their type uses, and that hold more than the pools ask for that name them.
    open: BTreeMap<&'a InstanceType, Vec<&'a Reservation>>,
}

impl<'a> Others<'a> {
    fn of(parts: &'a Parts) -> Self {
        let mut others = Self::default();
        for quota in parts.quotas.values() {
            for share in &quota.shares {
                others.users.entry(&share.pool.value).or_default().push((quota, share.pool.at));
            }
        }
        for tide in parts.tides.values() {
            for resize in &tide.resizes {
                others.resizes.entry(&resize.pool.value).or_default().push(resize);
            }
            for loan in &tide.loans {
                if let Some(quota) = parts.quotas.get(&loan.to.value) {
                    others.users.entry(&loan.pool.value).or_default().push((quota, loan.to.at));
                }
            }
        }
        let mut asked: BTreeMap<&ReservationName, u32> = BTreeMap::new();
        for pool in parts.pools.values() {
            let nodes = match pool.size.value {
                Size::Nodes(nodes) => nodes,
                Size::Fill => u32::MAX,
            };
            for name in pool.reservations() {
                let sum = asked.entry(name.value).or_default();
                *sum = sum.saturating_add(nodes);
            }
        }
        let is_open = |reservation: &&Reservation| {
            matches!(&reservation.terms, Terms::OnDemand { matching: Match::Open, cancel: None, .. })
                && asked.get(&reservation.name.value).is_none_or(|asked| *asked < reservation.nodes.value)
        };
        for reservation in parts.reservations.values().filter(is_open) {
            others.open.entry(&reservation.instance_type.value).or_default().push(reservation);
        }
        others
    }
}

fn size(p: &mut Problems<'_>, pool: &Pool, others: &Others<'_>) {
    let name = pool.name.value.as_str();
    if pool.size.value == Size::Fill && pool.reservations().next().is_none() {
        let said = Diagnostic::error(codes::FILL, format!("pool `{name}` fills reservations, and names none"))
            .at(pool.size.at, "");
        p.blame(Kind::NodePool, name, said.hint("add `- {reservation: …}` to `capacity`, or write `nodes`"));
        return;
    }
    let largest = match pool.size.value {
        Size::Nodes(nodes) => Some(nodes),
        // A reservation that is not there has been reported.
        Size::Fill => pool
            .reservations()
            .try_fold(0u32, |sum, name| Some(sum.saturating_add(p.parts.reservations.get(*name)?.nodes.value))),
    };
    let resizes = others.resizes.get(&pool.name.value).into_iter().flatten();
    let sizes = largest.map(|nodes| (nodes, pool.size.at, "of these")).into_iter();
    let mut sizes = sizes.chain(resizes.map(|resize| (resize.nodes.value, resize.nodes.at, "of these, at low tide")));
    if let Some((nodes, at, label)) = sizes.find(|(nodes, ..)| (1..=pool.spares.value).contains(nodes)) {
        let count = if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") };
        let spares = if pool.spares.value == 1 { "1 as a spare".into() } else { format!("{} as spares", *pool.spares) };
        let message = format!("pool `{name}` has {count} and keeps {spares}: nothing is left to use");
        let said = Diagnostic::error(codes::SPARES, message).at(pool.spares.at, "").at(at, label);
        p.blame(Kind::NodePool, name, said.hint("keep fewer spares than there are nodes"));
    }
}

fn names(p: &mut Problems<'_>, pool: &Pool, name: &At<&ReservationName>, reservation: &Reservation) {
    let owner = pool.name.value.as_str();
    let are_known = [&reservation.instance_type, &pool.instance_type].iter().all(|t| p.parts.hardware(t).is_some());
    if reservation.instance_type.value != pool.instance_type.value && are_known {
        let message = format!(
            "`{}` holds {}, and pool `{owner}` has {}",
            name.value, reservation.instance_type.value, pool.instance_type.value
        );
        let said = Diagnostic::error(codes::OTHER_INSTANCE_TYPE, message)
            .at(name.at, "")
            .at(reservation.instance_type.at, "holds this")
            .at(pool.instance_type.at, "has this");
        p.blame(Kind::NodePool, owner, said.hint("name a reservation of the pool's instance type"));
    }
    let zones = pool.launch.iter().flat_map(|launch| &launch.subnets.zones);
    if p.is_sound(Kind::Reservation, name.value.as_str())
        && let Some(zone) = &reservation.zone
        && zones.clone().next().is_some()
        && !zones.clone().any(|there| *there == zone.value)
    {
        let there = zones.map(|zone| zone.as_str()).collect::<Vec<_>>().join(", ");
        let message =
            format!("`{}` is in {}, and the subnets of pool `{owner}` are in {there}", name.value, zone.value);
        let said = Diagnostic::error(codes::OTHER_ZONE, message).at(name.at, "").at(zone.at, "in this zone");
        p.blame(
            Kind::NodePool,
            owner,
            said.hint(format!("add {} to `launch.subnets.zones`, or name another reservation", zone.value)),
        );
    }
    if let Terms::OnDemand { cancel: Some(cancel), .. } = &reservation.terms
        && pool.size.value != Size::Nodes(0)
    {
        let message = format!("`{}` is given back, and pool `{owner}` still names it", name.value);
        let said = Diagnostic::error(codes::GIVEN_BACK, message).at(name.at, "").at(cancel.at, "given back here");
        p.blame(
            Kind::NodePool,
            owner,
            said.hint("remove it from `capacity` first: its nodes would go on at the on-demand price"),
        );
    }
}

fn cloud(p: &mut Problems<'_>, pool: &Pool) {
    let owner = pool.name.value.as_str();
    match &p.parts.cloud.value {
        Cloud::None(_) => {
            // Reservations have been reported themselves.
            let launched = pool
                .capacity
                .iter()
                .find(|source| matches!(source.value, Source::OnDemand { .. } | Source::Spot { .. }));
            if let Some(source) = launched {
                let message = format!("pool `{owner}` has nodes launched, in a fleet whose cloud is `none`");
                let said = Diagnostic::error(codes::CAPACITY_WITHOUT_CLOUD, message)
                    .at(source.at, "")
                    .at(p.parts.cloud.at, "no cloud");
                p.blame(Kind::NodePool, owner, said.hint("claim nodes that are there: `- {existing: {labels: {…}}}`"));
            }
        }
        Cloud::Aws(aws) if pool.launches() => match &pool.launch {
            None => {
                let message = format!("nodes of pool `{owner}` are launched in AWS, and nothing says how");
                let said = Diagnostic::error(codes::LAUNCH, message).at(pool.name.at, "");
                p.blame(
                    Kind::NodePool,
                    owner,
                    said.hint("add `launch` with an image, a bootstrap, subnets, security groups and a role"),
                );
            }
            Some(launch) if matches!(launch.bootstrap, Bootstrap::Nodeadm(_)) && aws.eks.is_none() => {
                let message = "nodeadm joins an EKS cluster, and the Fleet names none";
                let said =
                    Diagnostic::error(codes::LAUNCH, message).at(launch.at, "").at(p.parts.cloud.at, "no `eks` here");
                p.blame(
                    Kind::NodePool,
                    owner,
                    said.hint("add `eks: {clusterName: …}` to `cloud.aws`, or bring own `userData`"),
                );
            }
            Some(_) => {}
        },
        Cloud::Aws(_) | Cloud::Sim(_) => {}
    }
}

fn price(p: &mut Problems<'_>, pool: &Pool) {
    let Some(hardware) = p.parts.hardware(&pool.instance_type) else { return };
    if let Some(source) =
        pool.capacity.iter().find(|s| matches!(s.value, Source::OnDemand { .. } | Source::Spot { .. }))
        && hardware.on_demand.is_none()
    {
        let message = format!("nobody knows what a {} costs an hour on demand", pool.instance_type.value);
        let said = Diagnostic::error(codes::NO_PRICE, message).at(source.at, "").at(pool.instance_type.at, "this type");
        let own = p.parts.hardware.iter().find(|shape| shape.name.value == pool.instance_type.value);
        let (said, hint) = match own {
            Some(shape) => (said.at(shape.name.at, "described here"), "add `usdPerHour: …` to its description".into()),
            None => (said, format!("add `prices: {{{}: {{onDemandUsd: …}}}}` to the Fleet", pool.instance_type.value)),
        };
        p.blame(Kind::NodePool, pool.name.value.as_str(), said.hint(hint));
    }
}

/// What is required, and what others stay away from, is a level.
fn placement(p: &mut Problems<'_>, pool: &Pool) {
    let Some(placement) = pool.placement.as_ref().filter(|placement| placement.together.is_none()) else { return };
    let at = placement.apart_from.first().map_or(pool.name.at, |other| other.at);
    if placement.required || !placement.apart_from.is_empty() {
        let message = format!("the placement of pool `{}` names no level", pool.name.value);
        let said = Diagnostic::error(codes::MISSING_FIELD, message).at(at, "");
        p.say(said.hint("add `together: leaf`, or another level of the fabric"));
    }
}

fn updates(p: &mut Problems<'_>, pool: &Pool) {
    let updates = &pool.updates;
    if updates.when == When::Drain && updates.max_unavailable == 0 {
        let said = Diagnostic::error(
            codes::UPDATE_BUDGET,
            format!("`when: drain` with `maxUnavailable: 0` never moves a node of pool `{}`", pool.name.value),
        )
        .at(updates.at, "");
        p.say(said.hint("allow at least one node, or write `when: idle`"));
    }
    if let (Some(canary), Size::Nodes(nodes)) = (&updates.canary, pool.size.value)
        && nodes > 0
        && canary.nodes >= nodes
    {
        let message = format!(
            "a canary of {} in pool `{}` of {nodes} leaves no node to follow it",
            canary.nodes, pool.name.value
        );
        p.say(
            Diagnostic::error(codes::UPDATE_BUDGET, message)
                .at(updates.at, "")
                .at(pool.size.at, "of these")
                .hint("watch fewer nodes first, or remove `canary`"),
        );
    }
}

/// A launch on demand opts out of open reservations, so that it never eats somebody else's. Where it could have used
/// one, that is money left lying.
fn open_reservations(p: &mut Problems<'_>, pool: &Pool, others: &Others<'_>) {
    let Some(source) = pool.capacity.iter().find(|source| matches!(source.value, Source::OnDemand { .. })) else {
        return;
    };
    if !p.is_sound(Kind::NodePool, pool.name.value.as_str()) {
        return;
    }
    for reservation in others.open.get(&pool.instance_type.value).into_iter().flatten() {
        let name = &reservation.name.value;
        let named = pool.reservations().any(|named| named.value == name);
        let zones = pool.launch.as_ref().map_or(&[][..], |launch| &launch.subnets.zones);
        let reachable = reservation.zone.as_ref().is_none_or(|zone| zones.is_empty() || zones.contains(&zone.value));
        if !named && reachable {
            let message = format!(
                "pool `{}` launches on demand beside the open reservation `{name}`, and does not use it",
                pool.name.value
            );
            p.say(
                Diagnostic::warning(codes::OPEN_RESERVATION_UNUSED, message)
                    .at(source.at, "launched at the full price")
                    .at(reservation.name.at, "paid for anyway")
                    .hint(format!("put `- {{reservation: {name}}}` above it")),
            );
        }
    }
}

/// Work on spot nodes has two minutes to save itself.
fn notice(p: &mut Problems<'_>, pool: &Pool, others: &Others<'_>) {
    let Some(spot) = pool.capacity.iter().find(|source| matches!(source.value, Source::Spot { .. })) else { return };
    let notice = catalogue().notices.spot;
    let users = others.users.get(&pool.name.value).map_or(&[][..], Vec::as_slice);
    for tier in p.parts.tiers.values() {
        let Some(checkpoint) = tier.checkpoint.as_ref().filter(|checkpoint| checkpoint.deadline > notice) else {
            continue;
        };
        let allowed = |quota: &Quota| quota.tiers.iter().any(|allowed| allowed.value == tier.name.value);
        if let Some((_, used)) = users.iter().find(|(quota, _)| allowed(quota)) {
            let message = format!(
                "work of tier `{}` may take {} to save itself, and a spot node of pool `{}` gives {notice}",
                tier.name.value, checkpoint.deadline, pool.name.value
            );
            let said = Diagnostic::error(codes::NOTICE_TOO_SHORT, message).at(checkpoint.at, "");
            let said =
                said.at(spot.at, format!("taken away {notice} after the notice")).at(*used, "its work runs there");
            p.say(said.hint(format!("save within {notice}, or keep this tier off the pool")));
        }
    }
}
