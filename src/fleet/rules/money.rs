//! What on-demand and spot nodes cost by the hour, against the fleet's limit, at every instant.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rust_decimal::Decimal;

use crate::diag::{At, Diagnostic, codes};
use crate::fleet::build::Problems;
use crate::fleet::config::Cloud;
use crate::fleet::pool::{Pool, Source};
use crate::ids::PoolName;

/// What one pool costs by the hour from an instant on.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    pub at: Timestamp,
    pub pool: &'a Pool,
    /// Nodes that cost by the hour.
    pub nodes: u32,
    pub usd: Decimal,
}

/// The cost of a pool of some size, filled in the order of its capacity. `reserved` is what it gets from each
/// reservation that it names.
pub fn line<'a>(p: &Problems<'_>, at: Timestamp, pool: &'a Pool, size: u32, reserved: &[u32]) -> Line<'a> {
    let hardware = p.parts.hardware(&pool.instance_type);
    let price = hardware.and_then(|hardware| hardware.on_demand).map_or(Decimal::ZERO, |usd| usd.0);
    let mut line = Line { at, pool, nodes: 0, usd: Decimal::ZERO };
    let mut reserved = reserved.iter();
    let mut rest = size;
    for source in &pool.capacity {
        let (max, rate) = match &source.value {
            Source::Reservation(_) => (reserved.next().copied().unwrap_or(0), None),
            Source::Existing { .. } => (u32::MAX, None),
            Source::OnDemand { max } => (*max, Some(price)),
            Source::Spot { max, max_price_percent } => {
                (*max, Some(price * Decimal::from(*max_price_percent) / Decimal::ONE_HUNDRED))
            }
        };
        let taken = rest.min(max);
        rest -= taken;
        if let Some(rate) = rate {
            line.nodes += taken;
            line.usd += rate * Decimal::from(taken);
        }
    }
    line
}

/// The first source of a pool that costs by the hour.
fn paid_by_the_hour(pool: &Pool) -> Option<&At<Source>> {
    pool.capacity.iter().find(|source| matches!(source.value, Source::OnDemand { .. } | Source::Spot { .. }))
}

/// Holds the sum of all pools against the limit, from each instant on.
pub fn hourly_limit(p: &mut Problems<'_>, mut bill: Vec<Line<'_>>) {
    let Some(limit) = p.parts.limits.hourly_usd else { return no_limit(p) };
    bill.sort_by_key(|line| line.at);
    let mut now: BTreeMap<&PoolName, &Line<'_>> = BTreeMap::new();
    let mut total = Decimal::ZERO;
    let mut rest = bill.iter().peekable();
    while let Some(line) = rest.next() {
        total += line.usd - now.insert(&line.pool.name.value, line).map_or(Decimal::ZERO, |before| before.usd);
        if rest.peek().is_some_and(|next| next.at == line.at) || total <= limit.0 {
            continue;
        }
        let moment = if line.at <= p.now {
            String::new()
        } else {
            format!(" from {} on", line.at.to_zoned(p.parts.time_zone.zone()).strftime("%a %Y-%m-%d %H:%M (%Q)"))
        };
        let message = format!(
            "on-demand and spot nodes cost up to {} an hour{moment}, over the limit of {}",
            usd(total),
            usd(limit.0)
        );
        let mut said = Diagnostic::error(codes::HOURLY_LIMIT, message).at(p.parts.limits.at, "");
        for line in now.values().filter(|line| line.nodes > 0) {
            if let Some(source) = paid_by_the_hour(line.pool) {
                let label = format!("{} nodes of pool `{}`: {}", line.nodes, line.pool.name.value, usd(line.usd));
                said = said.at(source.at, label);
            }
        }
        p.say(said.hint("raise `limits.hourlyUsd`, reserve more, or ask for fewer nodes"));
        return;
    }
}

/// As prices are written: whole, or with two decimals.
pub fn usd(amount: Decimal) -> String {
    let rounded = amount.round_dp(2);
    if rounded.is_integer() { format!("${}", rounded.normalize()) } else { format!("${rounded:.2}") }
}

fn no_limit(p: &mut Problems<'_>) {
    let mut paying = p.parts.pools.values().filter_map(paid_by_the_hour);
    let (Some(first), false) = (paying.next(), matches!(p.parts.cloud.value, Cloud::None(_))) else { return };
    let message = "on-demand or spot nodes, and no limit on what they may cost: none would be launched";
    let mut said = Diagnostic::error(codes::HOURLY_LIMIT, message).at(first.at, "");
    for source in paying {
        said = said.at(source.at, "these too");
    }
    p.say(said.hint("add `limits: {hourlyUsd: …}` to the Fleet"));
}
