//! The normal flows of a fleet, step by step: all of them pass.

use std::collections::BTreeSet;

use super::bench::*;
use crate::effect::marks::Mark;
use crate::effect::*;
use crate::ids::*;
use crate::observed::*;
use crate::plan::*;

pub fn cloud(action: CloudAction) -> Action {
    Action::Cloud(action)
}

pub fn cluster(action: ClusterAction) -> Action {
    Action::Cluster(action)
}

/// The next request for a slot, into the reservation or on demand.
pub fn request(bench: &Bench, pool: &str, index: u32) -> LaunchRequest {
    let spec = &bench.input.target.standing.pools[pool];
    let template = &bench.input.desired.pools[pool].template;
    let (slot, zone) = (slot(pool, index), Zone::from("us-west-2a"));
    let generation = bench.input.ledger.slot(&slot).map_or(0, |slot| slot.generation) + 1;
    let reserved = pool != "burst";
    LaunchRequest {
        token: token(&uid(), &slot, generation, &zone),
        slot,
        generation,
        instance_type: spec.shape.instance_type.clone(),
        zone,
        market: if reserved { Market::Reserved } else { Market::OnDemand },
        reservation: reserved.then(|| "cr-1".into()),
        max_price: None,
        template: template.name.clone(),
        template_digest: template.digest.clone(),
        group: None,
        source: 0,
        host: None,
    }
}

impl Bench {
    pub fn launch(&mut self, pool: &str, index: u32, reason: Reason, after: &[&str]) -> &mut Step {
        let action = cloud(CloudAction::Launch(request(self, pool, index)));
        let step = self.step(&format!("launch {pool}/{index}"), action, reason, after);
        step.effects = one(Verb::Launch, pool);
        step
    }

    /// Cordon, wait, suspend these gangs, wait until the node is empty. The last step is `empty POOL/INDEX`.
    pub fn drain(&mut self, pool: &str, index: u32, why: &str, reason: &Reason, gangs: &[&str]) {
        let (name, at) = (node(pool, index), format!("{pool}/{index}"));
        let mark = Mark::new(self.input.now, why);
        let cordon = cluster(ClusterAction::Cordon { node: name.clone(), mark: mark.clone() });
        self.step(&format!("cordon {at}"), cordon, reason.clone(), &[]);
        let settle = format!("settle {at}");
        self.step(&settle, Action::Await(Fact::Settled(name.clone())), reason.clone(), &[&format!("cordon {at}")]);
        let on = self.input.observed.cluster.pods.seen().iter().filter(|pod| pod.node.as_ref() == Some(&name));
        let pods: BTreeSet<Uid> = on.map(|pod| pod.uid.clone()).collect();
        let mut last = vec![settle.clone()];
        for gang in gangs {
            let id = format!("suspend {gang}");
            if !self.plan.steps.iter().any(|step| step.id.as_str() == id) {
                let workload = self.input.observed.cluster.workloads.seen()[*gang].clone();
                let suspend = ClusterAction::Suspend { workload: (*gang).into(), mark: mark.clone() };
                let rank = self.input.target.standing.tiers[workload.tier.as_ref().unwrap()].rank;
                self.step(&id, cluster(suspend), reason.clone(), &[]).effects =
                    disturbs(pool, workload.queue.as_str(), rank);
            }
            let step = self.find(&id);
            step.after.push(settle.as_str().into());
            step.requires.push(Fact::HoldsOnly { node: name.clone(), pods: pods.clone() });
            last.push(id);
        }
        let last: Vec<&str> = last.iter().map(String::as_str).collect();
        self.step(&format!("empty {at}"), Action::Await(Fact::Empty(name)), reason.clone(), &last);
    }

    /// Ends an instance that was drained. The last step is `gone POOL/INDEX`.
    pub fn terminate(&mut self, pool: &str, index: u32, reason: &Reason) {
        let (id, at) = (instance(pool, index), format!("{pool}/{index}"));
        let action = cloud(CloudAction::Terminate { slot: slot(pool, index), instance: id.clone() });
        let step = self.step(&format!("terminate {at}"), action, reason.clone(), &[&format!("empty {at}")]);
        step.effects = one(Verb::Terminate, pool);
        step.requires = vec![Fact::Empty(node(pool, index)), Fact::Live(id.clone())];
        let gone = Action::Await(Fact::Gone(id));
        self.step(&format!("gone {at}"), gone, reason.clone(), &[&format!("terminate {at}")]);
    }

    /// Cuts a node that was drained, and gives it back. The last step is `uncordon POOL/INDEX`.
    pub fn cut(&mut self, pool: &str, index: u32, layout: &str, reason: &Reason) {
        let (name, at) = (node(pool, index), format!("{pool}/{index}"));
        let laid_out = self.input.desired.pools[pool].layouts[layout].clone();
        let action = ClusterAction::Cut {
            node: name.clone(),
            laid_out: laid_out.clone(),
            flip: false,
            over: Default::default(),
        };
        let step = self.step(&format!("cut {at}"), cluster(action), reason.clone(), &[&format!("empty {at}")]);
        step.effects = one(Verb::Cut, pool);
        let laid_out = Action::Await(Fact::LaidOut { node: name.clone(), laid_out });
        self.step(&format!("laid out {at}"), laid_out, reason.clone(), &[&format!("cut {at}")]);
        let uncordon = cluster(ClusterAction::Uncordon { node: name });
        self.step(&format!("uncordon {at}"), uncordon, reason.clone(), &[&format!("laid out {at}")]);
    }

    pub fn resume(&mut self, gang: &str, reason: &Reason, after: &[&str]) {
        let released = Action::Await(Fact::Released(gang.into()));
        let (id, suspend) = (format!("released {gang}"), format!("suspend {gang}"));
        self.step(&id, released, reason.clone(), &[&suspend]);
        let after: Vec<&str> = after.iter().copied().chain([id.as_str()]).collect();
        let action = cluster(ClusterAction::Resume { workload: gang.into() });
        self.step(&format!("resume {gang}"), action, reason.clone(), &after);
    }
}

/// A node in a full reservation is replaced: its gang of two nodes goes, and comes back.
pub fn replace() -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.gang("bert", "vision", "research", &[("train", 3), ("train", 4)]);
    bench.drain("train", 3, "replace", &Reason::Outdated, &["bert"]);
    bench.terminate("train", 3, &Reason::Outdated);
    bench.launch("train", 3, Reason::Outdated, &["gone train/3"]);
    bench.resume("bert", &Reason::Outdated, &["empty train/3"]);
    bench
}

/// The nodes of a loan that the tide lends or takes back.
fn tide(now: &str, reason: &Reason, gangs: &[&str], layout: &str, before: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = Bench::settled(now);
    before(&mut bench);
    bench.drain("serve", 0, "cut", reason, gangs);
    bench.cut("serve", 0, layout, reason);
    bench.plan.steps.iter_mut().for_each(|step| step.consent = Consent::Standing);
    bench
}

pub fn lend() -> Bench {
    let reason = Reason::Lent { tide: "nightly".into(), to: "night".into() };
    tide(NIGHT, &reason, &["chat"], "whole", |bench| bench.gang("chat", "serving", "production", &[("serve", 0)]))
}

pub fn returning(now: &str) -> Bench {
    let reason = Reason::Returning { tide: "nightly".into(), due: crate::fleet::testing::at("2026-06-09T06:30-07:00") };
    tide(now, &reason, &["sweep"], "halves", |bench| {
        bench.gang("sweep", "night", "batch", &[("serve", 0), ("serve", 1)])
    })
}

/// The last node of a pool is not wanted any more.
pub fn remove() -> Bench {
    let mut bench = Bench::settled(NOON);
    bench.input.target.pools.get_mut("train").unwrap().nodes = 9;
    bench.input.target.pools.get_mut("train").unwrap().parts[0].nodes = 9;
    bench.drain("train", 9, "remove", &Reason::NotWanted, &[]);
    bench.terminate("train", 9, &Reason::NotWanted);
    let closed = Action::Record(LedgerChange::Closed { slot: slot("train", 9) });
    bench.step("close train/9", closed, Reason::Bookkeeping, &["gone train/9"]);
    bench
}

#[test]
fn a_plan_that_does_nothing_in_a_settled_fleet_passes() {
    Bench::settled(NOON).passes();
}

#[test]
fn launching_every_slot_of_an_empty_fleet_passes() {
    let mut bench = Bench::empty(NOON);
    bench.input.ledger.head.fleet = None;
    edit(&mut bench.input.observed.cluster.objects, |objects| objects.clear());
    let is_flavor = |object: &Object| object.key.kind == ObjectKind::ResourceFlavor;
    let mut objects = bench.input.desired.objects.clone();
    objects.sort_by_key(|object| !is_flavor(object));
    let first: Vec<String> =
        objects.iter().filter(|one| is_flavor(one)).map(|one| format!("apply {}", one.key)).collect();
    for object in objects {
        let id = format!("apply {}", object.key);
        let is_queue = object.key.kind == ObjectKind::ClusterQueue;
        let after: Vec<&str> = first.iter().filter(|_| is_queue).map(String::as_str).collect();
        bench.step(&id, cluster(ClusterAction::Apply(object)), Reason::Wanted, &after);
    }
    bench.step("begin", Action::Record(LedgerChange::Begin { fleet: uid(), began: None }), Reason::Bookkeeping, &[]);
    for (pool, nodes) in [("train", 10), ("serve", 6), ("burst", 4)] {
        (0..nodes).for_each(|index| {
            bench.launch(pool, index, Reason::SlotEmpty, &["begin"]);
        });
    }
    bench.plan.held.push(held(pool("own")));
    bench.passes();
}

pub fn held(what: Thing) -> Held {
    Held {
        what,
        wanted: "nodes".into(),
        reason: Reason::SlotEmpty,
        effects: Effects::default(),
        disruption: Disruption::default(),
        waiting_on: WaitingOn::Capacity { what: "existing nodes".into(), retry: None },
        done_by: None,
    }
}

#[test]
fn replacing_a_node_in_a_full_reservation_passes() {
    replace().passes();
}

#[test]
fn lending_and_taking_back_pass() {
    lend().passes();
    returning(RECLAIM).passes();
    returning(HARD).passes();
}

#[test]
fn removing_a_node_passes() {
    remove().passes();
}

#[test]
fn cutting_a_pool_anew_passes() {
    let mut bench = Bench::settled(NOON);
    bench.gang("chat", "serving", "production", &[("serve", 4)]);
    let reason = Reason::Layout { from: None, to: "halves".into() };
    bench.drain("serve", 4, "cut", &reason, &["chat"]);
    bench.cut("serve", 4, "halves", &reason);
    bench.resume("chat", &reason, &["uncordon serve/4"]);
    bench.passes();
}

#[test]
fn forgetting_a_pool_passes_and_leaves_its_nodes() {
    let mut bench = Bench::settled(NOON);
    bench.input.target.pools.remove("train");
    bench.standing().pools.remove("train");
    bench.cordoned("train", 2, "replace");
    bench.input.desired.objects.retain(|object| &*object.key.name != "train" && &*object.key.name != "vision");
    let forget = Action::Record(LedgerChange::Forgotten { pool: "train".into() });
    bench.step("forget train", forget, Reason::Bookkeeping, &[]);
    let uncordon = cluster(ClusterAction::Uncordon { node: node("train", 2) });
    bench.step("uncordon train/2", uncordon, Reason::LeftOver, &[]);
    let flavor = ObjectKey::cluster(ObjectKind::ResourceFlavor, "train");
    bench.step("disown train", cluster(ClusterAction::Disown(flavor)), Reason::LeftOver, &[]);
    bench.passes();
}

#[test]
fn the_second_half_of_a_drain_passes_when_the_first_was_done_before() {
    let mut bench = Bench::settled(NOON);
    bench.gang("bert", "vision", "research", &[("train", 3), ("train", 4)]);
    bench.cordoned("train", 3, "replace");
    bench.workload("bert", |workload| {
        workload.active = false;
        workload.marks.insert(crate::effect::marks::SUSPENDED.into(), Mark::new(workload.created, "replace").text());
    });
    let empty = Action::Await(Fact::Empty(node("train", 3)));
    bench.step("empty train/3", empty, Reason::Outdated, &[]);
    bench.terminate("train", 3, &Reason::Outdated);
    bench.launch("train", 3, Reason::Outdated, &["gone train/3"]);
    let resume = cluster(ClusterAction::Resume { workload: "bert".into() });
    bench.step("resume bert", resume, Reason::Outdated, &["empty train/3"]);
    bench.passes();
}

#[test]
fn claiming_and_releasing_an_existing_node_pass() {
    let mut bench = Bench::settled(NOON);
    bench.input.ledger.pools.get_mut("own").unwrap().slots.remove(&1);
    let claim = Action::Record(LedgerChange::Claimed { slot: slot("own", 1), node: node("own", 1) });
    bench.step("claim own/1", claim, Reason::SlotEmpty, &[]).effects = one(Verb::Claim, "own");
    let dress = ClusterAction::Dress {
        node: node("own", 1),
        labels: [(crate::effect::marks::POOL.to_string(), Some("own".to_string()))].into(),
        taints: Vec::new(),
        remove_taints: Vec::new(),
        notes: [].into(),
    };
    bench.step("dress own/1", cluster(dress), Reason::SlotEmpty, &["claim own/1"]);
    bench.passes();

    let mut bench = Bench::settled(NOON);
    bench.input.target.pools.get_mut("own").unwrap().nodes = 1;
    bench.drain("own", 1, "release", &Reason::NotWanted, &[]);
    let free = Action::Record(LedgerChange::Unclaimed { slot: slot("own", 1) });
    bench.step("release own/1", free, Reason::NotWanted, &["empty own/1"]).effects = one(Verb::Release, "own");
    let uncordon = cluster(ClusterAction::Uncordon { node: node("own", 1) });
    bench.step("uncordon own/1", uncordon, Reason::NotWanted, &["release own/1"]);
    bench.passes();
}

#[test]
fn a_request_without_an_answer_is_sent_again_whatever_changed_meanwhile() {
    let mut bench = Bench::settled(NOON);
    let intent = Intent { request: request(&bench, "train", 9), plan: "p".into(), at: bench.input.now };
    *bench.slot("train", 9) =
        Slot { generation: intent.request.generation, intent: Some(intent.clone()), ..Slot::default() };
    edit(&mut bench.input.observed.cloud.instances, |all| all.remove(&instance("train", 9)));
    edit(&mut bench.input.observed.cluster.nodes, |all| all.remove(&node("train", 9)));
    bench.reservation(|seen| seen.available += 1);
    bench.input.desired.pools.get_mut("train").unwrap().template.digest = digest(b"newer");
    bench.input.target.pools.get_mut("train").unwrap().nodes = 9;
    let launch = cloud(CloudAction::Launch(intent.request));
    bench.step("launch train/9", launch, Reason::Unanswered, &[]).effects = one(Verb::Launch, "train");
    bench.passes();
}

#[test]
fn a_sick_node_is_booted_and_a_spot_node_leaves_at_its_notice() {
    let mut bench = Bench::settled(NOON);
    let sick = Reason::Sick { remedy: crate::fleet::policy::Remedy::Reboot, symptom: "Xid 79".into() };
    bench.gang("bert", "vision", "research", &[("train", 3)]);
    bench.drain("train", 3, "reboot", &sick, &["bert"]);
    let reboot = cloud(CloudAction::Reboot { slot: slot("train", 3), instance: instance("train", 3) });
    bench.step("reboot train/3", reboot, sick.clone(), &["empty train/3"]).effects = one(Verb::Reboot, "train");
    bench.step("ready train/3", Action::Await(Fact::Ready(node("train", 3))), sick.clone(), &["reboot train/3"]);
    let uncordon = cluster(ClusterAction::Uncordon { node: node("train", 3) });
    bench.step("uncordon train/3", uncordon, sick, &["ready train/3"]);
    bench.plan.steps.iter_mut().for_each(|step| step.consent = Consent::Standing);
    bench.passes();

    let mut bench = Bench::settled(NOON);
    let at = bench.input.now;
    bench.instance("burst", 1, |seen| seen.notice = Some(Notice { why: NoticeKind::SpotInterruption, at }));
    bench.cordoned("burst", 1, "notice");
    bench.pod("web", ("burst", 1));
    let reason = Reason::Notice { why: NoticeKind::SpotInterruption, at };
    let terminate = cloud(CloudAction::Terminate { slot: slot("burst", 1), instance: instance("burst", 1) });
    bench.step("terminate burst/1", terminate, reason, &[]).effects = one(Verb::Terminate, "burst");
    bench.passes();
}
