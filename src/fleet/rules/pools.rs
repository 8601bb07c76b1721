//! Pools on their own and against the reservations, tiers and cloud that they name.

use crate::diag::{At, Diagnostic, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::config::Cloud;
use crate::fleet::launch::Bootstrap;
use crate::fleet::pool::{Pool, Size, Source};
use crate::fleet::reservation::{Match, Reservation, Terms};
use crate::fleet::updates::When;
use crate::hardware::catalogue;

pub fn check(p: &mut Problems<'_>) {
    for pool in p.parts.pools.values() {
        size(p, pool);
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
        updates(p, pool);
        open_reservations(p, pool);
        notice(p, pool);
    }
}

fn size(p: &mut Problems<'_>, pool: &Pool) {
    let name = pool.name.value.as_str();
    match pool.size.value {
        Size::Nodes(nodes) if nodes > 0 && pool.spares.value >= nodes => {
            let message = format!("{} spares of {nodes} nodes leave nothing to use", pool.spares.value);
            let said = Diagnostic::error(codes::SPARES, message).at(pool.spares.at, "").at(pool.size.at, "of these");
            p.blame(Kind::NodePool, name, said.hint("keep fewer spares than there are nodes"));
        }
        Size::Fill if pool.reservations().next().is_none() => {
            let said =
                Diagnostic::error(codes::FILL, "`fill: reservations` in a pool that names none").at(pool.size.at, "");
            p.blame(Kind::NodePool, name, said.hint("add `- {reservation: …}` to `capacity`, or write `nodes`"));
        }
        Size::Nodes(_) | Size::Fill => {}
    }
}

fn names(p: &mut Problems<'_>, pool: &Pool, name: &At<&crate::ids::ReservationName>, reservation: &Reservation) {
    let owner = pool.name.value.as_str();
    if reservation.instance_type.value != pool.instance_type.value {
        let message = format!(
            "`{}` holds {}, the pool has {}",
            name.value, reservation.instance_type.value, pool.instance_type.value
        );
        let said = Diagnostic::error(codes::OTHER_INSTANCE_TYPE, message)
            .at(name.at, "")
            .at(reservation.instance_type.at, "holds this")
            .at(pool.instance_type.at, "has this");
        p.blame(Kind::NodePool, owner, said.hint("name a reservation of the pool's instance type"));
    }
    let zones = pool.launch.iter().flat_map(|launch| &launch.subnets.zones);
    if let Some(zone) = &reservation.zone
        && zones.clone().next().is_some()
        && !zones.clone().any(|there| *there == zone.value)
    {
        let there = zones.map(|zone| zone.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("`{}` is in {}, the pool's subnets are in {there}", name.value, zone.value);
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
        let message = format!("`{}` is given back, and this pool still names it", name.value);
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
            let launched = pool.capacity.iter().find(|source| !matches!(source.value, Source::Existing { .. }));
            if let Some(source) = launched {
                let message = "capacity that has to be launched, in a fleet whose cloud is `none`";
                let said = Diagnostic::error(codes::CAPACITY_WITHOUT_CLOUD, message)
                    .at(source.at, "")
                    .at(p.parts.cloud.at, "no cloud");
                p.blame(Kind::NodePool, owner, said.hint("claim nodes that are there: `- {existing: {labels: {…}}}`"));
            }
        }
        Cloud::Aws(aws) if pool.launches() => match &pool.launch {
            None => {
                let message = "nodes are launched in AWS, and nothing says how";
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
        let hint = format!("add `prices: {{{}: {{onDemandUsd: …}}}}` to the Fleet", pool.instance_type.value);
        p.blame(Kind::NodePool, pool.name.value.as_str(), said.hint(hint));
    }
}

fn updates(p: &mut Problems<'_>, pool: &Pool) {
    let updates = &pool.updates;
    if updates.when == When::Drain && updates.max_unavailable == 0 {
        let said = Diagnostic::error(codes::UPDATE_BUDGET, "`when: drain` with `maxUnavailable: 0` never moves a node")
            .at(updates.at, "");
        p.say(said.hint("allow at least one node, or write `when: idle`"));
    }
    if let (Some(canary), Size::Nodes(nodes)) = (&updates.canary, pool.size.value)
        && nodes > 0
        && canary.nodes >= nodes
    {
        let message = format!("a canary of {} in a pool of {nodes} is the whole pool", canary.nodes);
        p.say(
            Diagnostic::error(codes::UPDATE_BUDGET, message)
                .at(updates.at, "")
                .at(pool.size.at, "of these")
                .hint("watch fewer nodes first"),
        );
    }
}

/// A launch on demand opts out of open reservations, so that it never eats somebody else's. Where it could have used
/// one, that is money left lying.
fn open_reservations(p: &mut Problems<'_>, pool: &Pool) {
    let Some(source) = pool.capacity.iter().find(|source| matches!(source.value, Source::OnDemand { .. })) else {
        return;
    };
    for (name, reservation) in &p.parts.reservations {
        let open = matches!(&reservation.terms, Terms::OnDemand { matching: Match::Open, cancel: None, .. });
        let named = pool.reservations().any(|named| named.value == name);
        let zones = pool.launch.as_ref().map_or(&[][..], |launch| &launch.subnets.zones);
        let reachable = reservation.zone.as_ref().is_none_or(|zone| zones.is_empty() || zones.contains(&zone.value));
        if open && !named && reachable && reservation.instance_type.value == pool.instance_type.value {
            let message =
                format!("the pool launches on demand beside the open reservation `{name}`, and does not use it");
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
fn notice(p: &mut Problems<'_>, pool: &Pool) {
    let Some(spot) = pool.capacity.iter().find(|source| matches!(source.value, Source::Spot { .. })) else { return };
    let notice = catalogue().notices.spot;
    let parts = p.parts;
    for tier in parts.tiers.values() {
        let Some(checkpoint) = tier.checkpoint.as_ref().filter(|checkpoint| checkpoint.deadline > notice) else {
            continue;
        };
        let runs_here = parts.quotas.values().find_map(|quota| {
            let allowed = quota.tiers.iter().any(|allowed| allowed.value == tier.name.value);
            quota.share(&pool.name.value).filter(|_| allowed)
        });
        if let Some(share) = runs_here {
            let message = format!(
                "work of tier `{}` may take {} to save itself, and a spot node of pool `{}` gives {notice}",
                tier.name.value, checkpoint.deadline, pool.name.value
            );
            let said = Diagnostic::error(codes::NOTICE_TOO_SHORT, message).at(checkpoint.at, "");
            let said = said.at(spot.at, "taken away with two minutes' notice").at(share.pool.at, "its work runs there");
            p.say(said.hint(format!("save within {notice}, or keep this tier off the pool")));
        }
    }
}
