//! Launches that something goes wrong with, a million of them, through the provider of EC2 and the endpoint of the simulated
//! one, at virtual time and with no socket. Run with `cargo bench --bench launches`; `-- 20000` for fewer.
//!
//! A launch is sent as `apply` sends it. What is wanted is decided once, and stays decided when the process dies (the
//! ledger's intent). Only a definite answer ends it: an instance, or that there is none to be had in a zone, and then the
//! next zone is asked. Whatever else comes back leads to the same request again. In the end every slot has one instance,
//! and those beyond are counted. The same with a new token in every request shows what the token is for.
//!
//! Worlds are small and many: a cloud that holds a million instances would measure itself.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cpu_time::ProcessTime;
use http::{Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use tidewright::compile::compile;
use tidewright::effect::{CloudAction, LaunchRequest, Template, token};
use tidewright::endpoint::{Endpoint, Fault as Wrong, Kind, Options};
use tidewright::fleet::Target;
use tidewright::fleet::config::{AwsCloud, Cloud as Place};
use tidewright::ids::{FleetUid, SlotId};
use tidewright::load::{self, Loaded};
use tidewright::observed::Market;
use tidewright::provider::aws::Aws;
use tidewright::provider::aws::actions::Api;
use tidewright::provider::aws::line::{Far, Line, Told};
use tidewright::provider::sim::{Fault, Sim};
use tidewright::provider::{Class, Cloud, Done, ProviderError};

/// Where nobody says how many.
const LAUNCHES: u64 = 1_000_000;
/// Launched as fast as EC2 lets, and how much longer than that it may take.
const PACED: u64 = 10_000;
const MOST_OVER: f64 = 1.05;
/// In one world: over before its first instance is listed.
const A_WORLD: u64 = 100;
/// The most that goes wrong with one launch.
const MOST_TROUBLE: u64 = 3;
/// How far it is is told after so many: a million takes its time.
const TOLD_EVERY: u64 = 50_000;
/// After so many requests something else is wrong.
const MOST_REQUESTS: usize = 40;
/// New instances are listed so late: nothing is found by looking for it.
const LAG: SignedDuration = SignedDuration::from_mins(10);
const BEGIN: &str = "2026-03-02T08:00:00Z";
const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];

const DOCUMENTS: &str = r#"
apiVersion: tidewright.dev/v1alpha1
kind: Fleet
metadata: {name: ml}
spec:
  timeZone: UTC
  cloud: {aws: {region: us-west-2, accountId: "123456789012", endpointUrl: "http://localhost", eks: {clusterName: ml}}}
  kubernetes: {kubeconfig: {context: ml}}
  limits: {hourlyUsd: 1000, nodesRemovedPerHour: 4}
---
apiVersion: tidewright.dev/v1alpha1
kind: NodePool
metadata: {name: train}
spec:
  instanceType: g6e.12xlarge
  nodes: 1
  capacity: [{onDemand: {max: 1}}]
  launch:
    image: {ami: {id: ami-0123456789abcdef0}}
    bootstrap: {nodeadm: {}}
    subnets: {tags: {role: gpu}, zones: [us-west-2a, us-west-2b, us-west-2c]}
    securityGroups: {tags: {role: gpu}}
    role: gpu-node
    efa: none
"#;

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// On the wire, at the launch itself or at whatever is asked next.
    Wire {
        kind: Kind,
        any: bool,
    },
    /// The cloud loses its answer, after it was done or before.
    Lost {
        done: bool,
    },
    Refused(Class),
    /// The process dies of it, before it is sent or before the answer is heard.
    Dies {
        sent: bool,
    },
    /// Another process, with the same decision before it, sends it too.
    Twice,
}

/// What can go wrong, and what it is called.
const TROUBLES: [(&str, Trouble); 16] = [
    ("cut before", Trouble::Wire { kind: Kind::CutBefore, any: false }),
    ("cut after", Trouble::Wire { kind: Kind::CutAfter, any: false }),
    ("500", Trouble::Wire { kind: Kind::Fails(StatusCode::INTERNAL_SERVER_ERROR), any: false }),
    ("500 after", Trouble::Wire { kind: Kind::FailsAfter(StatusCode::INTERNAL_SERVER_ERROR), any: false }),
    ("503", Trouble::Wire { kind: Kind::Fails(StatusCode::SERVICE_UNAVAILABLE), any: false }),
    ("slow", Trouble::Wire { kind: Kind::Slow(Duration::from_secs(40)), any: false }),
    ("truncated", Trouble::Wire { kind: Kind::Truncated, any: false }),
    ("garbage", Trouble::Wire { kind: Kind::Garbage, any: false }),
    ("a reading fails", Trouble::Wire { kind: Kind::Fails(StatusCode::SERVICE_UNAVAILABLE), any: true }),
    ("answer lost, done", Trouble::Lost { done: true }),
    ("answer lost, not done", Trouble::Lost { done: false }),
    ("no capacity in this zone", Trouble::Refused(Class::NoCapacity)),
    ("throttled", Trouble::Refused(Class::Throttled)),
    ("dies before it is sent", Trouble::Dies { sent: false }),
    ("dies before the answer", Trouble::Dies { sent: true }),
    ("two at once", Trouble::Twice),
];

/// What came of launches.
#[derive(Default, Debug)]
struct Came {
    launches: u64,
    requests: u64,
    /// Beyond one for a slot.
    extra: u64,
    /// Slots with none.
    missing: u64,
    lasted: SignedDuration,
    struck: BTreeMap<&'static str, u64>,
}

fn main() -> ExitCode {
    let named = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok());
    let by_name = std::env::var("LAUNCHES").ok().and_then(|text| text.parse().ok());
    let launches = named.or(by_name).unwrap_or(LAUNCHES).max(1);
    let with = told("the token of the slot", launches, true);
    for (name, count) in &with.struck {
        println!("{count:>12}  {name}");
    }
    let without = told("a new token each time", launches, false);
    println!("{:>12}  extra instances with the token", with.extra);
    println!("{:>12}  extra instances without", without.extra);
    let (throttled, over) = paced(launches.min(PACED));
    println!("{throttled:>12}  launches throttled");
    println!("{over:>12.4}  times as long as EC2's bucket takes");
    let unfinished = with.missing + without.missing;
    if with.extra == 0 && without.extra > 0 && unfinished == 0 && throttled == 0 && over <= MOST_OVER {
        return ExitCode::SUCCESS;
    }
    eprintln!("with the token none may be extra, without it some must, and no slot may be empty: {unfinished} are");
    eprintln!("none may be throttled, and they may take {MOST_OVER} times as long as EC2's bucket takes");
    ExitCode::FAILURE
}

/// One process that launches as fast as it may, with nothing that goes wrong: how many EC2 throttled, and how long it took
/// beside what EC2's own bucket allows.
fn paced(launches: u64) -> (u64, f64) {
    let target = target();
    let world = World::new(&target, 0, true);
    let process = world.process();
    let ensured = world.ask(&process, CloudAction::EnsureTemplate(world.template.clone()));
    assert_eq!(ensured, Some(Ok(Done::Nothing)));
    let (began, mut throttled) = (world.sim.now(), 0);
    for index in 0..launches {
        let slot = SlotId::new(&"train".into(), u32::try_from(index).expect("a world is small"));
        match world.ask(&process, world.request(&slot, 0)) {
            Some(Ok(Done::Instance(_))) => {}
            Some(Err(ProviderError { class: Class::Throttled, .. })) => throttled += 1,
            other => panic!("{slot}: {other:?}"),
        }
    }
    let size = Api::RunInstances.bucket();
    let allowed = launches.saturating_sub(size.holds) as f64 * 1000.0 / size.refill as f64;
    (throttled, world.sim.now().duration_since(began).as_secs_f64() / allowed.max(1.0))
}

fn told(what: &str, launches: u64, by_token: bool) -> Came {
    let (began, cpu) = (Instant::now(), ProcessTime::now());
    let came = all(launches, by_token);
    let (took, worked) = (began.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let troubles: u64 = came.struck.values().sum();
    println!(
        "{} launches with {what}: {troubles} things went wrong, {} requests, {:.1} days of the world's time, {took:.0} s \
         ({:.0} microseconds of processor time a launch)",
        came.launches,
        came.requests,
        came.lasted.as_secs_f64() / 86_400.0,
        worked * 1e6 / came.launches as f64
    );
    came
}

/// Worlds on all cores; each has a number, which is its seed, so that it is the same on every machine.
fn all(launches: u64, by_token: bool) -> Came {
    let worlds = launches.div_ceil(A_WORLD);
    let (next, done, extra) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let (target, mut came) = (target(), Came::default());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= worlds {
                return came;
            }
            let many = A_WORLD.min(launches - number * A_WORLD);
            let world = World::new(&target, number, by_token).run(many);
            let so_far = extra.fetch_add(world.extra, Ordering::Relaxed) + world.extra;
            let launched = done.fetch_add(many, Ordering::Relaxed) + many;
            if launched / TOLD_EVERY > (launched - many) / TOLD_EVERY {
                eprintln!("{launched} launched, {so_far} extra");
            }
            came.add(world);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut whole = Came::default();
        workers.into_iter().for_each(|worker| whole.add(worker.join().expect("a world did not end")));
        whole
    })
}

impl Came {
    fn add(&mut self, other: Self) {
        self.launches += other.launches;
        self.requests += other.requests;
        self.extra += other.extra;
        self.missing += other.missing;
        self.lasted += other.lasted;
        other.struck.into_iter().for_each(|(name, count)| *self.struck.entry(name).or_default() += count);
    }
}

/// A small cloud, and whoever launches in it.
struct World<'a> {
    target: &'a Target,
    template: Template,
    fleet: FleetUid,
    cloud: &'a AwsCloud,
    sim: Sim,
    endpoint: Endpoint,
    by_token: bool,
    drawn: u64,
    sent: RefCell<u64>,
    /// Whether the process dies at its next launch, and whether that is sent before.
    dies: Cell<Option<bool>>,
}

/// One process, with what it has learned.
struct Process {
    aws: Aws,
    line: Line,
}

impl<'a> World<'a> {
    fn new(target: &'a Target, number: u64, by_token: bool) -> Self {
        // The SDK draws its pauses from it.
        fastrand::seed(number);
        let Place::Aws(cloud) = &target.standing.cloud else { unreachable!("the documents say so") };
        let sim = Sim::in_memory(BEGIN.parse().expect("an instant"), number);
        // It is about launches: no node joins.
        sim.inject(Fault::Stillborn { launches: u32::MAX });
        sim.aside(|state| {
            state.cloud.account.be(Some(cloud.account_id.clone()), Some(cloud.region.clone()));
            let tags = BTreeMap::from([("role".to_string(), "gpu".to_string())]);
            let group = state.cloud.fixed_id("sg", &["nodes"]);
            let subnets: Vec<String> = ZONES.iter().map(|zone| state.cloud.subnet_of(&(*zone).into())).collect();
            let tagged = subnets.iter().chain([&group]);
            tagged.for_each(|id| state.cloud.account.tag(id, tags.clone()));
        });
        Self {
            target,
            template: compile(target).pools["train"].template.clone(),
            fleet: "ml".into(),
            cloud,
            sim,
            endpoint: Endpoint::new(Options { lag: LAG, ..Options::default() }),
            by_token,
            drawn: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6c61_756e,
            sent: RefCell::new(0),
            dies: Cell::new(None),
        }
    }

    /// Numbers that look unrelated, always the same for a world.
    fn below(&mut self, most: u64) -> u64 {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.drawn >> 33) % most
    }

    fn run(mut self, launches: u64) -> Came {
        let mut came = Came { launches, ..Came::default() };
        let mut process = self.process();
        let ensured = self.ask(&process, CloudAction::EnsureTemplate(self.template.clone()));
        assert_eq!(ensured, Some(Ok(Done::Nothing)));
        for index in 0..launches {
            let slot = SlotId::new(&"train".into(), u32::try_from(index).expect("a world is small"));
            // Drawn before, so that the same goes wrong with and without the token.
            let many = 1 + self.below(MOST_TROUBLE);
            let troubles: Vec<_> = (0..many).map(|_| TROUBLES[self.below(TROUBLES.len() as u64) as usize]).collect();
            self.launch(&mut process, &slot, &troubles, &mut came);
        }
        came.requests = *self.sent.borrow();
        came.lasted = self.sim.now().duration_since(BEGIN.parse().expect("an instant"));
        let state = self.sim.state();
        let mut made: BTreeMap<&SlotId, u64> = BTreeMap::new();
        for tag in state.cloud.instances.values().filter_map(|found| found.tag.as_ref()) {
            *made.entry(&tag.slot).or_default() += 1;
        }
        came.extra = made.values().map(|count| count - 1).sum();
        came.missing = launches - made.len() as u64;
        drop(state);
        came
    }

    /// Until there is an instance, or it is known that one was made.
    fn launch(&self, process: &mut Process, slot: &SlotId, troubles: &[(&'static str, Trouble)], came: &mut Came) {
        let (mut zone, mut left) = (0, troubles.iter());
        for _ in 0..MOST_REQUESTS {
            let trouble = left.next();
            if let Some((name, trouble)) = trouble {
                *came.struck.entry(name).or_default() += 1;
                self.order(*trouble);
            }
            if matches!(trouble, Some((_, Trouble::Twice))) {
                let other = self.process();
                let _unheard = self.ask(&other, self.request(slot, zone));
            }
            match self.ask(process, self.request(slot, zone)) {
                Some(Ok(Done::Instance(_))) => return,
                Some(Err(ProviderError { class: Class::NoCapacity, .. })) => zone += 1,
                Some(Err(ProviderError { class: Class::Ambiguous | Class::Throttled, .. })) => {}
                Some(other) => panic!("{slot} after {troubles:?}: {other:?}"),
                None => *process = self.process(),
            }
        }
        panic!("{slot} has none after {MOST_REQUESTS} requests: {troubles:?}");
    }

    fn order(&self, trouble: Trouble) {
        match trouble {
            Trouble::Wire { kind, any } => {
                let action = (!any).then(|| "RunInstances".to_string());
                self.endpoint.inject(Wrong { kind, action, times: 1, after: 0 });
            }
            Trouble::Lost { done } => self.sim.inject(Fault::Ambiguous { times: 1, done }),
            Trouble::Refused(class) => self.sim.inject(Fault::FailLaunches { times: 1, class }),
            Trouble::Dies { sent } => self.dies.set(Some(sent)),
            Trouble::Twice => {}
        }
    }

    /// What was decided; without the token the cloud cannot tell that it is the same.
    fn request(&self, slot: &SlotId, zone: usize) -> CloudAction {
        let zone = ZONES[zone % ZONES.len()].into();
        let same = token(&self.fleet, slot, 1, &zone);
        CloudAction::Launch(LaunchRequest {
            token: if self.by_token { same } else { format!("new-{}", self.sent.borrow()).as_str().into() },
            slot: slot.clone(),
            generation: 1,
            instance_type: self.template.instance_type.clone(),
            zone,
            market: Market::OnDemand,
            reservation: None,
            max_price: None,
            template: self.template.name.clone(),
            template_digest: self.template.digest.clone(),
            group: None,
            source: 0,
            host: None,
        })
    }

    /// A process that begins. It goes by what was decided and looks at no list: none would show it a new instance.
    fn process(&self) -> Process {
        let line = Line::default();
        let process = Process { aws: Aws::connect_by(&line, self.cloud, &self.fleet), line };
        process.aws.heed(self.target);
        process
    }

    /// None: the process is dead.
    fn ask(&self, process: &Process, action: CloudAction) -> Option<Result<Done, ProviderError>> {
        polled(process.line.carry(self, process.aws.perform(&action)))
    }
}

impl Far for World<'_> {
    fn now(&self) -> Timestamp {
        self.sim.now()
    }

    fn pass_until(&self, at: Timestamp) {
        self.sim.advance_to(at);
    }

    fn answer(&self, request: &Request<Bytes>) -> Option<Told> {
        let is_launch = request.body().starts_with(b"Action=RunInstances&");
        *self.sent.borrow_mut() += u64::from(is_launch);
        let dies = if is_launch { self.dies.take() } else { None };
        if dies == Some(false) {
            return None;
        }
        let (after, said) = self.endpoint.answer(&self.sim, request).heard();
        dies.is_none().then_some(Told { after, said })
    }
}

/// A line never waits for anybody else, so a task that is not done after one poll never will be.
fn polled<T>(task: impl Future<Output = T>) -> Option<T> {
    match pin!(task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn target() -> Target {
    let mut loaded = Loaded::default();
    load::add_bytes(&mut loaded, "fleet.yaml", DOCUMENTS.as_bytes());
    let now = BEGIN.parse().expect("an instant");
    let checked = loaded.check(now);
    let fleet = checked.fleet.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
    fleet.target_at(now)
}
