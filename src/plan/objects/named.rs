//! What rests on something that is not as it should be waits with it: an object that names another one, a queue that
//! preempts as its tiers do, a queue that is left for another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::judge::{self, Change, Judged};
use super::{Stuck, bodies, thing_of};
use crate::compile::renamed::{is_meant, place_of};
use crate::effect::Object;
use crate::observed::{ObjectKey, ObjectKind, ObjectSeen};
use crate::plan::draft::{Course, Draft};
use crate::plan::steps::held;
use crate::plan::types::{PlanInput, WaitingOn};

/// Holds what rests on what is held.
pub fn hold<'a>(input: &'a PlanInput, changes: &mut Vec<Change<'a>>, stuck: &mut Stuck<'a>, draft: &mut Draft) {
    loop {
        let written: BTreeSet<&ObjectKey> = changes.iter().map(|change| &change.wanted.key).collect();
        let rests = |change: &Change<'a>| {
            let on = names(input, change, &written).or_else(|| preempts(input, change, &written));
            on.or_else(|| leaves(input, change, &written))
        };
        let waits: Vec<Option<&ObjectKey>> = changes.iter().map(rests).collect();
        if waits.iter().all(Option::is_none) {
            return;
        }
        let all = std::mem::take(changes);
        for (change, on) in all.into_iter().zip(waits) {
            let Some(on) = on else {
                changes.push(change);
                continue;
            };
            let waits = waiting_on(input, stuck, on);
            let key = &change.wanted.key;
            let wanted = format!("{}, once {} is as it should be", change.sentence(), on.words());
            stuck.insert(key, waits.clone());
            draft.held.push(held(&thing_of(input, key), wanted, change.reason.clone(), waits));
        }
    }
}

/// What an object that is held waits for.
pub fn waiting_on(input: &PlanInput, stuck: &Stuck<'_>, key: &ObjectKey) -> WaitingOn {
    let wanted = input.desired.objects.iter().find(|one| one.key == *key);
    let judged = || match judge::judge(input, wanted?) {
        Judged::Unread(gap) => Some(WaitingOn::Unread(gap.clone())),
        Judged::Held(held) => Some(held.waiting_on),
        Judged::Same | Judged::Change(_) => None,
    };
    let nobody = || WaitingOn::Person(format!("{} is not as it should be", key.words()));
    stuck.get(key).cloned().or_else(judged).unwrap_or_else(nobody)
}

/// Something that it names anew, or gives more of, and that is neither there as wanted nor written with it.
fn names<'a>(input: &'a PlanInput, change: &Change<'a>, written: &BTreeSet<&ObjectKey>) -> Option<&'a ObjectKey> {
    let key = &change.wanted.key;
    let known: Vec<ObjectKey> = change.seen.map_or_else(Vec::new, |seen| {
        let own = key.namespace.iter().map(|namespace| ObjectKey::cluster(ObjectKind::Namespace, namespace));
        judge::named_in(key.kind, &seen.body).into_iter().chain(own).collect()
    });
    let gives_more = |named: &ObjectKey| {
        let of = |flavor: &str| named.kind == ObjectKind::ResourceFlavor && *named.name == *flavor;
        change.shift.raises.iter().any(|(flavor, _)| of(flavor.as_str()))
    };
    let is_new = |named: &ObjectKey| !known.contains(named) || gives_more(named);
    let rests = judge::names(change.wanted).into_iter().filter(|named| is_new(named) && !written.contains(named));
    rests.filter_map(|named| wanted(input, &named)).find(|one| !is_in_place(input, one)).map(|one| &one.key)
}

fn wanted<'a>(input: &'a PlanInput, key: &ObjectKey) -> Option<&'a Object> {
    input.desired.objects.iter().find(|one| one.key == *key)
}

/// Whether an object is there and means what is wanted of it: whoever names it is served by it.
fn is_in_place(input: &PlanInput, wanted: &Object) -> bool {
    let seen = input.observed.cluster.objects.seen().get(&wanted.key);
    seen.is_some_and(|seen| !seen.deleting && means_it(wanted, seen))
}

fn means_it(wanted: &Object, seen: &ObjectSeen) -> bool {
    let kind = wanted.key.kind;
    let at = |field: &str| seen.body["spec"][field] == wanted.body["spec"][field];
    let same = match kind {
        ObjectKind::ResourceFlavor => at("nodeLabels") && at("topologyName"),
        ObjectKind::Topology => at("levels"),
        ObjectKind::Cohort => at("parentName"),
        _ => true,
    };
    // A namespace is its team's.
    kind == ObjectKind::Namespace || (seen.written.is_some() && same) || bodies::covers(&seen.body, &wanted.body)
}

/// The classes of pods of the tiers of a queue that would preempt in another way than now.
pub fn classes<'a>(input: &'a PlanInput, change: &Change<'_>) -> Vec<&'a Object> {
    let key = &change.wanted.key;
    let within = |body: &Value| body["spec"]["preemption"]["withinClusterQueue"].clone();
    let differs = |seen: &ObjectSeen| within(&seen.body) != within(&change.wanted.body);
    if key.kind != ObjectKind::ClusterQueue || !change.seen.is_some_and(differs) {
        return Vec::new();
    }
    let quotas = input.target.standing.quotas.values().filter(|quota| *quota.cluster_queue == *key.name);
    let keys = quotas.flat_map(|quota| &quota.tiers);
    let keys = keys.map(|tier| ObjectKey::cluster(ObjectKind::PriorityClass, tier.as_str()));
    keys.filter_map(|key| wanted(input, &key)).collect()
}

/// A class that cannot be changed now: pods would preempt in one way and workloads in another.
fn preempts<'a>(input: &'a PlanInput, change: &Change<'a>, written: &BTreeSet<&ObjectKey>) -> Option<&'a ObjectKey> {
    let seen = input.observed.cluster.objects.seen();
    let is_so = |class: &&Object| {
        let there = seen.get(&class.key);
        there.is_some_and(|there| judge::preempts(&there.body) == judge::preempts(&class.body))
    };
    let classes = classes(input, change).into_iter().filter(|class| !written.contains(&class.key));
    classes.map(|class| (is_so(&class), class)).find(|(is_so, _)| !is_so).map(|(_, class)| &class.key)
}

/// A queue gives nothing up while the one in its place cannot be made, or a LocalQueue cannot lead there.
fn leaves<'a>(input: &'a PlanInput, change: &Change<'a>, written: &BTreeSet<&ObjectKey>) -> Option<&'a ObjectKey> {
    let heir = heir(input, change.wanted)?;
    if !written.contains(&heir.key) && !is_in_place(input, heir) {
        return Some(&heir.key);
    }
    let mut leading = leading(input, &change.wanted.key);
    leading.find(|one| !written.contains(&one.key)).map(|one| &one.key)
}

/// The queue in whose favour one is left.
pub fn heir<'a>(input: &'a PlanInput, left: &Object) -> Option<&'a Object> {
    let said = place_of(&left.body).filter(|_| left.key.kind == ObjectKind::ClusterQueue)?;
    let mut queues = input.desired.objects.iter().filter(|one| one.key.kind == ObjectKind::ClusterQueue);
    queues.find(|one| is_meant(&one.key.name, said))
}

/// The queue that is wanted in the place of one that is left, of which only the key is known.
pub fn in_place_of<'a>(input: &'a PlanInput, left: &ObjectKey) -> Option<&'a ObjectKey> {
    let seen = input.observed.cluster.objects.seen().get(left).map(|seen| &seen.body);
    let said = wanted(input, left).map(|one| &one.body).or(seen).and_then(place_of)?;
    let mut queues =
        input.desired.objects.iter().map(|one| &one.key).filter(|key| key.kind == ObjectKind::ClusterQueue);
    queues.find(|key| is_meant(&key.name, said))
}

/// Whether a queue says itself that it was left for another.
pub fn is_left(key: &ObjectKey, body: &Value) -> bool {
    key.kind == ObjectKind::ClusterQueue && place_of(body).is_some()
}

/// What belongs to one move of a queue is one course: it begins as a whole, or not.
pub fn coupled(input: &PlanInput, changes: &[Change<'_>], courses: Vec<Course>) -> Vec<Course> {
    let mut belongs: BTreeMap<&ObjectKey, &ObjectKey> = BTreeMap::new();
    for change in changes {
        if let Some(heir) = heir(input, change.wanted) {
            belongs.insert(&change.wanted.key, &heir.key);
            belongs.insert(&heir.key, &heir.key);
            belongs.extend(leading(input, &change.wanted.key).map(|one| (&one.key, &heir.key)));
        }
    }
    let mut made: Vec<Course> = Vec::new();
    let mut places: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
    for (change, course) in changes.iter().zip(courses) {
        let group = belongs.get(&change.wanted.key).copied();
        match group.and_then(|group| places.get(group)) {
            Some(place) => {
                let first = &mut made[*place];
                first.wanted = format!("{}, {}", first.wanted, course.wanted);
                first.steps.extend(course.steps);
            }
            None => {
                places.extend(group.map(|group| (group, made.len())));
                made.push(course);
            }
        }
    }
    made
}

/// The LocalQueues that lead to a queue and are to lead elsewhere.
pub fn leading<'a>(input: &'a PlanInput, queue: &ObjectKey) -> impl Iterator<Item = &'a Object> {
    let seen = input.observed.cluster.objects.seen();
    let leads = |body: &Value| body["spec"]["clusterQueue"].as_str() == Some(&*queue.name);
    input.desired.objects.iter().filter(move |one| {
        let there = seen.get(&one.key).filter(|_| one.key.kind == ObjectKind::LocalQueue);
        there.is_some_and(|there| leads(&there.body)) && !leads(&one.body)
    })
}

/// What a queue that is left and that nothing runs in waits for; none where nobody can say.
pub fn still_led_to(
    input: &PlanInput,
    changes: &[Change<'_>],
    stuck: &Stuck<'_>,
    queue: &ObjectKey,
) -> Option<WaitingOn> {
    if queue.kind != ObjectKind::ClusterQueue {
        return None;
    }
    if let Some(one) = leading(input, queue).next() {
        let written = changes.iter().find(|change| change.wanted.key == one.key);
        return Some(written.map_or_else(|| waiting_on(input, stuck, &one.key), |change| WaitingOn::Step(change.id())));
    }
    let leads = |(key, seen): &(&ObjectKey, &ObjectSeen)| {
        key.kind == ObjectKind::LocalQueue && seen.body["spec"]["clusterQueue"] == *queue.name
    };
    let (other, _) = input.observed.cluster.objects.seen().iter().find(leads)?;
    Some(WaitingOn::Person(format!("{}, which no document names, leads to it", other.words())))
}
