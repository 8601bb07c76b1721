//! Launches over a wire on which much goes wrong: how many machines are made too many, with the token of the slot and
//! without. Run with `cargo bench --bench launches`; `LAUNCHES=10000` makes fewer.
//!
//! Every slot is asked for by RunInstances, as the provider asks, in the words of EC2 and answered by the endpoint of the
//! simulated one, at its virtual time. An answer that does not say what happened is followed by the same request, as
//! `apply` does with an intent that is open; so is a process that died, which is the same thing seen from outside. The
//! second campaign is the same with another token for each try: whoever lets the SDK fill one in has that.
//!
//! Beside it: how long 10,000 launches take at the pace of our own buckets, and how many of them EC2's refuse.
//!
//! It ends with an error where one machine too many was made with tokens, where none was without (then nothing was
//! tried), or where a promise about the pace is broken.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use tidewright::effect::{hash, tags, token};
use tidewright::endpoint::{Endpoint, Fault, Kind, Options, Outcome};
use tidewright::ids::{FleetUid, SlotId, Zone};
use tidewright::observed::SlotTag;
use tidewright::provider::aws::actions::Api;
use tidewright::provider::aws::buckets::Buckets;
use tidewright::provider::sim::{self, Sim};

/// Launches where nobody says otherwise.
const LAUNCHES: u64 = 1_000_000;
/// In one world; then another one begins, so that no state grows without end.
const WORLD: u64 = 1_000;
/// Calls in a hundred that something happens to.
const FAULTY: u64 = 30;
const ZONE: &str = "us-west-2a";
/// The most that 10,000 launches may take of what EC2's own buckets allow.
const PACE: f64 = 1.05;

/// What may happen to a call.
const KINDS: [Kind; 8] = [
    Kind::CutBefore,
    Kind::CutAfter,
    Kind::Fails(StatusCode::INTERNAL_SERVER_ERROR),
    Kind::Fails(StatusCode::SERVICE_UNAVAILABLE),
    Kind::FailsAfter(StatusCode::INTERNAL_SERVER_ERROR),
    Kind::Slow(Duration::from_secs(40)),
    Kind::Truncated,
    Kind::Garbage,
];

/// What a campaign came to.
#[derive(Default)]
struct Count {
    launches: AtomicU64,
    requests: AtomicU64,
    faults: AtomicU64,
    made: AtomicU64,
    throttled: AtomicU64,
}

/// Numbers that look unrelated, always the same for a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// What an answer says about a launch.
enum Said {
    Done,
    /// Too many requests: nothing was done.
    Throttled,
    /// Nobody knows.
    Nothing,
}

/// A simulated account, and how fast it is asked.
struct World {
    sim: Sim,
    endpoint: Endpoint,
    buckets: Buckets,
}

impl World {
    fn new(seed: u64) -> Self {
        let begin = Timestamp::from_second(1_772_438_400).expect("an instant");
        let sim = Sim::in_memory(begin, seed);
        sim.aside(|state| state.cloud.account.be(Some("123456789012".into()), Some("us-west-2".into())));
        // What becomes of a machine afterwards is not asked here.
        sim.inject(sim::Fault::Stillborn { launches: u32::MAX });
        Self { sim, endpoint: Endpoint::new(Options::default()), buckets: Buckets::default() }
    }

    /// Waits for its turn and asks once.
    fn ask(&mut self, body: &str) -> Said {
        let wait = self.buckets.take(Api::RunInstances, self.sim.now());
        self.sim.advance_to(self.sim.now().checked_add(wait).expect("an instant"));
        let request = Request::new(Bytes::copy_from_slice(body.as_bytes()));
        said(self.endpoint.answer(&self.sim, &request), &self.sim)
    }

    fn made(&self) -> u64 {
        self.sim.state().calls.changed("launch")
    }
}

/// As the provider classifies it: only a whole answer of EC2's own that names an instance says that it was done.
fn said(outcome: Outcome, sim: &Sim) -> Said {
    match outcome {
        Outcome::Answer(answer) => {
            let text = String::from_utf8_lossy(answer.body());
            if answer.status() == StatusCode::OK && text.contains("<instanceId>i-") {
                Said::Done
            } else if text.contains("<Code>RequestLimitExceeded</Code>") {
                Said::Throttled
            } else {
                Said::Nothing
            }
        }
        Outcome::Cut | Outcome::Truncated(_) => Said::Nothing,
        // Longer than anybody waits for an answer.
        Outcome::Slow(by, _) => {
            sim.advance_to(sim.now() + SignedDuration::try_from(by).expect("a length"));
            Said::Nothing
        }
    }
}

/// RunInstances for one slot.
fn form(slot: &SlotId, token: &str) -> String {
    let tag = SlotTag { fleet: "bench".into(), slot: slot.clone(), generation: 1 };
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Action", "RunInstances").append_pair("Version", "2016-11-15");
    form.append_pair("ImageId", "ami-0123456789abcdef0").append_pair("InstanceType", "p5.48xlarge");
    form.append_pair("MinCount", "1").append_pair("MaxCount", "1").append_pair("ClientToken", token);
    form.append_pair("Placement.AvailabilityZone", ZONE);
    form.append_pair("TagSpecification.1.ResourceType", "instance");
    for (at, (key, value)) in tags::of_slot(&tag, &"d1".into()).iter().enumerate() {
        form.append_pair(&format!("TagSpecification.1.Tag.{}.Key", at + 1), key);
        form.append_pair(&format!("TagSpecification.1.Tag.{}.Value", at + 1), value);
    }
    form.finish()
}

/// One world's launches.
fn world(number: u64, launches: u64, keeps_token: bool, count: &Count) {
    let (mut world, mut dice) = (World::new(number), Dice(number ^ 0x6c61_756e));
    let (fleet, zone) = (FleetUid::from("bench"), Zone::from(ZONE));
    for index in 0..u32::try_from(launches).expect("few in a world") {
        let slot = SlotId::new(&"train".into(), index);
        for attempt in 0.. {
            let token = match keeps_token {
                true => token(&fleet, &slot, 1, &zone),
                false => hash::named_token(&["other", &slot.to_string(), &u32::to_string(&attempt)]),
            };
            if dice.below(100) < FAULTY {
                let kind = KINDS[usize::try_from(dice.below(8)).expect("small")];
                world.endpoint.inject(Fault { kind, action: None, times: 1, after: 0 });
                count.faults.fetch_add(1, Relaxed);
            }
            count.requests.fetch_add(1, Relaxed);
            match world.ask(&form(&slot, token.as_str())) {
                Said::Done => break,
                Said::Throttled => drop(count.throttled.fetch_add(1, Relaxed)),
                Said::Nothing => {}
            }
        }
    }
    count.launches.fetch_add(launches, Relaxed);
    count.made.fetch_add(world.made(), Relaxed);
}

/// So many launches in as many worlds as that takes, on all cores.
fn campaign(launches: u64, keeps_token: bool) -> Count {
    let (count, next) = (Count::default(), AtomicU64::new(0));
    let work = || loop {
        let number = next.fetch_add(1, Relaxed);
        let done = number * WORLD;
        if done >= launches {
            return;
        }
        world(number, WORLD.min(launches - done), keeps_token, &count);
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    count
}

/// Runs a campaign and says what came of it: machines that were made too many.
fn told(launches: u64, keeps_token: bool) -> u64 {
    let begun = Instant::now();
    let count = campaign(launches, keeps_token);
    let [launches, requests, faults, made, throttled] =
        [&count.launches, &count.requests, &count.faults, &count.made, &count.throttled].map(|one| one.load(Relaxed));
    let extra = made - launches;
    let word = if keeps_token { "with the slot's token" } else { "with another token each time" };
    println!(
        "{word}: {launches} launches, {requests} requests, {faults} faults, {throttled} throttled: {made} instances, \
         {extra} too many ({:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    extra
}

/// How long 10,000 launches take with nothing going wrong, of what EC2's bucket allows; and how many it refuses.
fn pace() -> (f64, u64) {
    const MANY: u32 = 10_000;
    let (mut world, mut throttled) = (World::new(1), 0);
    let begun = world.sim.now();
    for index in 0..MANY {
        let slot = SlotId::new(&"train".into(), index);
        while !matches!(world.ask(&form(&slot, &format!("pace-{index}"))), Said::Done) {
            throttled += 1;
        }
    }
    let size = Api::RunInstances.bucket();
    let bound = (u64::from(MANY) - size.holds) as f64 * 1000.0 / size.refill as f64;
    (world.sim.now().duration_since(begun).as_secs_f64() / bound, throttled)
}

fn main() {
    let launches = std::env::var("LAUNCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(LAUNCHES);
    let (pace, throttled) = pace();
    println!("10,000 launches: {pace:.4} of the time that EC2's bucket allows, {throttled} throttled");
    let (with, without) = (told(launches, true), told(launches, false));
    assert_eq!(with, 0, "a token did not hold");
    assert!(without > launches / 100, "without tokens only {without} too many: nothing was tried");
    assert!(pace <= PACE && throttled == 0, "too slow or too fast: {pace}, {throttled} throttled");
}
