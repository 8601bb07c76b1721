//! Quotas stay within what the nodes hold, and the order of the tiers within the order of their ranks, at every step of
//! the way.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Found;
use super::case::Case;
use crate::effect::marks::POOL;
use crate::effect::{Action, ClusterAction, Object};
use crate::fleet::target::Purpose;
use crate::ids::{FlavorName, PoolName, ResourceName, TierName};
use crate::observed::{ObjectKey, ObjectKind};

const CAPACITY: &str = "quotas are within what the nodes hold";
const TIERS: &str = "tiers keep the order of their ranks";
const AGREE: &str = "the two classes of a tier say the same";

/// What a queue gives of a flavor, what it may borrow, and what it may lend.
const AMOUNTS: [&str; 3] = ["nominalQuota", "borrowingLimit", "lendingLimit"];

/// Thousandths, so that `500m` is a number.
type Quantity = i128;
type Sums = BTreeMap<(FlavorName, ResourceName), Quantity>;

/// The nominal quotas of a flavor, over queues and cohorts, are no more than the pool's nodes hold beside the spares.
/// Where they already were, they do not grow. A quota that grows waits for the one that shrinks.
pub fn within_capacity(case: &Case<'_>, found: &mut Found) {
    let seen = case.seen().cluster.objects.seen();
    let mut now = Sums::new();
    for (_, object) in seen.iter().filter(|(key, _)| has_quota(key)) {
        add(&mut now, &nominal(&object.body), 1);
    }
    let mut changes: Vec<(usize, Sums)> = Vec::new();
    for (at, step) in case.each() {
        let (key, after) = match &step.action {
            Action::Cluster(ClusterAction::Apply(object)) => (&object.key, nominal(&object.body)),
            Action::Cluster(ClusterAction::Delete(key)) => (key, Sums::new()),
            _ => continue,
        };
        if has_quota(key) {
            let mut change = after;
            add(&mut change, &seen.get(key).map(|there| nominal(&there.body)).unwrap_or_default(), -1);
            change.retain(|_, amount| *amount != 0);
            changes.push((at, change));
        }
    }
    let mut touched: BTreeMap<&(FlavorName, ResourceName), Vec<(usize, Quantity)>> = BTreeMap::new();
    for (at, change) in &changes {
        change.iter().for_each(|(key, amount)| touched.entry(key).or_default().push((*at, *amount)));
    }
    let pools = pools_of_flavors(case);
    for (key, here) in touched {
        let Some(held) = pools.get(&key.0).and_then(|pool| held(case, pool, &key.1)) else { continue };
        let before = now.get(key).copied().unwrap_or(0);
        if let Some((at, most)) = worst(case, before, &here).filter(|(_, most)| *most > held.max(before)) {
            let what = format!("{} {} would be promised in {}, which holds {}", most / 1000, key.1, key.0, held / 1000);
            found.step(CAPACITY, &case.steps[at].id, what);
        }
    }
}

/// The highest sum on the way: each growth alone with what must come before it, and all growths up to each with what
/// must come before them.
fn worst(case: &Case<'_>, before: Quantity, changes: &[(usize, Quantity)]) -> Option<(usize, Quantity)> {
    let shrinking: Vec<usize> = changes.iter().filter(|(_, amount)| *amount < 0).map(|(at, _)| *at).collect();
    let amounts: BTreeMap<usize, Quantity> = changes.iter().copied().collect();
    let mut most: Option<(usize, Quantity)> = None;
    let (mut grown, mut shrunk) = (0, BTreeSet::new());
    for (at, amount) in changes.iter().filter(|(_, amount)| *amount > 0) {
        let earlier = case.dag.before(*at, &shrinking);
        let freed = |steps: &BTreeSet<usize>| steps.iter().map(|step| amounts[step]).sum::<Quantity>();
        grown += amount;
        shrunk.extend(earlier.iter().copied());
        let alone = before + amount + freed(&earlier.into_iter().collect());
        let together = before + grown + freed(&shrunk);
        let here = alone.max(together);
        if most.is_none_or(|(_, most)| here > most) {
            most = Some((*at, here));
        }
    }
    most
}

fn has_quota(key: &ObjectKey) -> bool {
    matches!(key.kind, ObjectKind::ClusterQueue | ObjectKind::Cohort)
}

fn add(sums: &mut Sums, other: &Sums, sign: Quantity) {
    for (key, amount) in other {
        *sums.entry(key.clone()).or_default() += sign * amount;
    }
}

/// What an object promises, by flavor and resource.
fn nominal(body: &Value) -> Sums {
    amounts(AMOUNTS[0], body)
}

/// One kind of amount that an object gives, by flavor and resource.
fn amounts(field: &str, body: &Value) -> Sums {
    fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
        value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    fn name(value: &Value) -> Option<&str> {
        value.get("name").and_then(Value::as_str)
    }
    let mut sums = Sums::new();
    for group in body.get("spec").map(|spec| list(spec, "resourceGroups")).unwrap_or_default() {
        for flavor in list(group, "flavors") {
            for resource in list(flavor, "resources") {
                let quantity = resource.get(field).and_then(quantity);
                if let (Some(flavor), Some(resource), Some(quantity)) = (name(flavor), name(resource), quantity) {
                    *sums.entry((flavor.into(), resource.into())).or_default() += quantity;
                }
            }
        }
    }
    sums
}

/// The pools of which an object that is there would give another amount, or other limits.
pub fn moved<'a>(case: &Case<'a>, object: &Object) -> Vec<&'a PoolName> {
    let Some(there) = case.seen().cluster.objects.seen().get(&object.key).filter(|_| has_quota(&object.key)) else {
        return Vec::new();
    };
    let differs = |flavor: &FlavorName| {
        let of = |body: &Value, field: &str| {
            let mut found = amounts(field, body);
            found.retain(|(known, _), _| known == flavor);
            found
        };
        AMOUNTS.iter().any(|field| of(&there.body, field) != of(&object.body, field))
    };
    pools_of_flavors(case).into_iter().filter(|(flavor, _)| differs(flavor)).map(|(_, pool)| pool).collect()
}

/// The flavors of which an object would give more than the one that is there.
pub fn grown(there: Option<&Value>, body: &Value) -> BTreeSet<FlavorName> {
    let before = there.map(nominal).unwrap_or_default();
    let more = nominal(body).into_iter().filter(|(pair, amount)| *amount > before.get(pair).copied().unwrap_or(0));
    more.map(|((flavor, _), _)| flavor).collect()
}

/// A Kubernetes quantity: `64`, `"64"`, `"500m"`, `"2Ti"`.
fn quantity(value: &Value) -> Option<Quantity> {
    const UNITS: [(&str, Quantity); 12] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("m", 0),
        ("", 1),
    ];
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (number, unit) = UNITS.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))?;
    let number: rust_decimal::Decimal = number.parse().ok()?;
    let thousandths = if unit == 0 { number } else { number * rust_decimal::Decimal::ONE_THOUSAND };
    let whole = rust_decimal::prelude::ToPrimitive::to_i128(&thousandths)?;
    whole.checked_mul(unit.max(1))
}

/// Which pool a flavor stands for, by the label that it selects nodes with.
fn pools_of_flavors<'a>(case: &Case<'a>) -> BTreeMap<FlavorName, &'a PoolName> {
    let wanted = case.input.desired.objects.iter().map(|object| (&object.key, &object.body));
    let seen = case.seen().cluster.objects.seen().iter().map(|(key, object)| (key, &object.body));
    let flavors = seen.chain(wanted).filter(|(key, _)| key.kind == ObjectKind::ResourceFlavor);
    let named = flavors.filter_map(|(key, body)| {
        let pool = body.get("spec")?.get("nodeLabels")?.get(POOL)?.as_str()?;
        Some((FlavorName::from(&*key.name), case.input.target.pools.get_key_value(pool)?.0))
    });
    named.collect()
}

/// What a pool's nodes hold of a resource beside the spares, as they should be cut or as they are; none where no layout
/// of the pool says.
fn held(case: &Case<'_>, pool: &PoolName, resource: &ResourceName) -> Option<Quantity> {
    let layouts = &case.input.desired.pools.get(pool)?.layouts;
    let is_gpu = resource.as_str().starts_with("nvidia.com/");
    if !is_gpu && !layouts.values().any(|layout| layout.allocatable.contains_key(resource)) {
        return None;
    }
    let parts = || case.input.target.pools.get(pool).into_iter().flat_map(|pool| &pool.parts);
    let parts = || parts().filter(|part| part.purpose != Purpose::Spare);
    let each = |layout| layouts.get(layout).and_then(|layout| layout.allocatable.get(resource)).copied().unwrap_or(0);
    let wanted: i64 = parts().map(|part| i64::from(part.nodes) * each(&part.layout)).sum();
    // A node that is not cut as it should be yet holds what it is cut as, and may be promised as that.
    let more = case.seen().cluster.nodes.seen().iter().filter_map(|(name, node)| {
        let slot = case.slot_of_node(name).filter(|slot| slot.pool == *pool)?;
        // By its place and not by its number: one beyond the size may stay for one that goes.
        let part = case.part(slot).filter(|part| part.purpose != Purpose::Spare)?;
        let said = layouts.values().filter(|layout| {
            let mut labels = layout.labels.iter();
            !layout.labels.is_empty() && labels.all(|(key, value)| node.labels.get(key) == Some(value))
        });
        let said = said.filter_map(|layout| layout.allocatable.get(resource)).copied();
        let shown = node.allocatable.get(resource).copied().unwrap_or(0);
        Some((said.fold(shown, i64::max) - each(&part.layout)).max(0))
    });
    Some(Quantity::from(wanted + more.sum::<i64>()) * 1000)
}

/// Of two tiers the one with the higher rank has the higher priority, whichever of the two was written first, unless
/// one waits for the other.
pub fn tier_order(case: &Case<'_>, found: &mut Found) {
    for kind in [ObjectKind::PriorityClass, ObjectKind::WorkloadPriorityClass] {
        let mut tiers: Vec<Class<'_>> = case
            .standing()
            .tiers
            .iter()
            .map(|(name, tier)| Class { rank: tier.rank, name, ..class(case, kind, name) })
            .collect();
        tiers.sort_by_key(|tier| tier.rank);
        for (low, high) in tiers.iter().enumerate().flat_map(|(at, low)| tiers[at + 1..].iter().map(move |h| (low, h)))
        {
            if low.rank < high.rank && (low.step.is_some() || high.step.is_some()) {
                judge_pair(case, low, high, found);
            }
        }
    }
}

/// Pods stand in the order of the one class of a tier, workloads in that of the other: what is written of one is what
/// the other says too, before it or by a step that comes first.
pub fn classes_agree(case: &Case<'_>, found: &mut Found) {
    for name in case.standing().tiers.keys() {
        let (pods, workloads) = (ObjectKind::PriorityClass, ObjectKind::WorkloadPriorityClass);
        let (pods, workloads) = (class(case, pods, name), class(case, workloads, name));
        let Some((at, _)) = workloads.step.or(pods.step) else { continue };
        let after = |class: &Class<'_>| class.step.map(|(_, value)| value).or(class.now);
        let (of_pods, of_workloads) = (after(&pods), after(&workloads));
        let early = matches!((pods.step, workloads.step), (Some((one, _)), Some((other, _))) if !case.dag.is_before(one, other));
        if of_pods.is_some() && of_workloads.is_some() && (of_pods != of_workloads || early) {
            let words = |value: Option<i64>| value.unwrap_or_default();
            let what =
                format!("pods of {name} would have {}, and its workloads {}", words(of_pods), words(of_workloads));
            found.step(AGREE, &case.steps[at].id, what);
        }
    }
}

/// A tier's class: its value now, and the step that writes another.
struct Class<'a> {
    name: &'a TierName,
    rank: i32,
    now: Option<i64>,
    step: Option<(usize, i64)>,
}

fn class<'a>(case: &Case<'a>, kind: ObjectKind, tier: &'a TierName) -> Class<'a> {
    let is = |key: &ObjectKey| {
        let name = key.name.strip_suffix(tier.as_str());
        key.kind == kind && name.is_some_and(|rest| rest.is_empty() || rest == "tidewright-")
    };
    let value = |body: &Value| body.get("value").and_then(Value::as_i64);
    let exact = ObjectKey::cluster(kind, tier.as_str());
    let prefixed = ObjectKey::cluster(kind, &format!("tidewright-{tier}"));
    let seen = case.seen().cluster.objects.seen();
    let now = seen.get(&exact).or_else(|| seen.get(&prefixed)).and_then(|object| value(&object.body));
    let step = case.each().find_map(|(at, step)| match &step.action {
        Action::Cluster(ClusterAction::Apply(object)) if is(&object.key) => Some((at, value(&object.body)?)),
        _ => None,
    });
    Class { name: tier, rank: 0, now, step }
}

fn judge_pair(case: &Case<'_>, low: &Class<'_>, high: &Class<'_>, found: &mut Found) {
    let was_wrong = matches!((low.now, high.now), (Some(low), Some(high)) if low >= high);
    let waits =
        |one: usize, other: Option<(usize, i64)>| other.is_some_and(|(other, _)| case.dag.is_before(other, one));
    let after = |class: &Class<'_>| class.step.map(|(_, value)| value).or(class.now);
    let mut states = vec![(low.step.or(high.step), after(low), after(high))];
    // One is written and the other not yet.
    if let Some((at, value)) = low.step.filter(|(at, _)| !waits(*at, high.step)) {
        states.push((Some((at, value)), Some(value), high.now));
    }
    if let Some((at, value)) = high.step.filter(|(at, _)| !waits(*at, low.step)) {
        states.push((Some((at, value)), low.now, Some(value)));
    }
    let ends_wrong = matches!((after(low), after(high)), (Some(low), Some(high)) if low >= high);
    for (step, a, b) in states {
        if let (Some((at, _)), Some(a), Some(b)) = (step, a, b)
            && a >= b
            && (!was_wrong || ends_wrong)
        {
            let what = format!("{} would have priority {a} and {}, which ranks higher, {b}", low.name, high.name);
            found.step(TIERS, &case.steps[at].id, what);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        let read = |text: &str| quantity(&serde_json::from_str(text).unwrap());
        assert_eq!(read("64"), Some(64_000));
        assert_eq!(read(r#""64""#), Some(64_000));
        assert_eq!(read(r#""500m""#), Some(500));
        assert_eq!(read(r#""2Ki""#), Some(2_048_000));
        assert_eq!(read(r#""3k""#), Some(3_000_000));
        assert_eq!(read(r#""1.5""#), Some(1_500));
        assert_eq!(read(r#""many""#), None);
        assert_eq!(read("{}"), None);
    }
}
