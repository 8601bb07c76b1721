//! Rounds of the program inside the test, on a clock that runs many times as fast as the real one: whoever waits a
//! quarter of an hour for mig-manager, or two minutes for a spot instance to go, is not waited for by the test.
//!
//! Planner, judge, `apply` and the provider are the program's own, and the cluster is real; only the clock is not. What
//! the controllers write has the real time, so a deadline of ours may look later than it is, and never earlier.

use std::cell::{Cell, RefCell};
use std::time::{Duration as Real, Instant};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tidewright::apply::{self, Patience, StopSignal};
use tidewright::audit::audit;
use tidewright::effect::LedgerChange;
use tidewright::fleet::Fleet;
use tidewright::ids::{FleetUid, InstanceId};
use tidewright::load::{self, Loaded};
use tidewright::plan::{Consent, Plan, PlanInput, WaitingOn, plan};
use tidewright::provider::k8s::K8s;
use tidewright::provider::nowhere::Nowhere;
use tidewright::provider::sim::Sim;
use tidewright::provider::{Clock, World};
use tidewright::round::{self, Options};
use tidewright::units::Duration;

use super::super::controlplane::{Controlplane, block};

/// The simulated cloud's clock is late by so much: what it takes away at an instant is there for a while yet.
const CLOUD_IS_LATE: SignedDuration = SignedDuration::from_mins(10);

/// A clock that runs so many times as fast as the real one, and a simulated cloud that follows it.
struct Fast {
    began: Instant,
    at: Cell<Timestamp>,
    times: u32,
    cloud: Option<Sim>,
}

impl Fast {
    fn read(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed() * self.times).unwrap();
        self.at.get() + passed
    }
}

#[async_trait(?Send)]
impl Clock for Fast {
    fn now(&self) -> Timestamp {
        let now = self.read();
        if let Some(cloud) = &self.cloud {
            cloud.advance_to(now - CLOUD_IS_LATE);
        }
        now
    }

    async fn sleep_until(&self, at: Timestamp) {
        while let Ok(left) = Real::try_from(at.duration_since(self.now())) {
            if left.is_zero() {
                break;
            }
            tokio::time::sleep((left / self.times).min(Real::from_millis(100))).await;
        }
    }
}

/// A fleet on a real cluster, in a hurry.
pub struct Hurried {
    clock: Fast,
    cluster: K8s,
    uid: FleetUid,
    text: RefCell<String>,
}

impl Hurried {
    /// The documents of a fleet of existing nodes.
    pub fn new(plane: &Controlplane, fleet: &str, times: u32, documents: &str) -> Hurried {
        Hurried::with(plane, fleet, times, None, documents)
    }

    /// With machines that a simulated cloud starts and takes away.
    pub fn in_the_cloud(plane: &Controlplane, fleet: &str, times: u32, documents: &str) -> Hurried {
        let sim = Sim::in_memory(Timestamp::now() - CLOUD_IS_LATE, 7);
        // What it starts is tagged with the fleet of its own ledger.
        sim.remember(&LedgerChange::Begin { fleet: fleet.into(), began: None });
        Hurried::with(plane, fleet, times, Some(sim), documents)
    }

    fn with(plane: &Controlplane, fleet: &str, times: u32, cloud: Option<Sim>, documents: &str) -> Hurried {
        Hurried {
            clock: Fast { began: Instant::now(), at: Cell::new(Timestamp::now()), times, cloud },
            cluster: super::cluster(plane, fleet),
            uid: fleet.into(),
            text: RefCell::new(documents.replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ")),
        }
    }

    /// Another revision: the text occurs once, and is replaced.
    #[track_caller]
    pub fn edit(&self, from: &str, to: &str) {
        let mut text = self.text.borrow_mut();
        assert_eq!(text.matches(from).count(), 1, "{from}");
        *text = text.replace(from, to);
    }

    fn cloud(&self) -> &Sim {
        self.clock.cloud.as_ref().expect("there is a cloud")
    }

    /// How often the cloud did this: `launch`, `reboot`, `terminate`.
    pub fn done(&self, verb: &str) -> u64 {
        self.cloud().state().calls.changed(verb)
    }

    pub fn world(&self) -> World<'_> {
        let (cluster, clock) = (&self.cluster, &self.clock);
        match &self.clock.cloud {
            Some(sim) => World { cluster, clock, ..sim.world() },
            None => World { cloud: &Nowhere, cluster, meter: &Nowhere, clock },
        }
    }

    /// The cloud will take this machine away in so many minutes from now, and is late by [`CLOUD_IS_LATE`].
    pub fn takes_away(&self, machine: &InstanceId, minutes: u64) {
        let late = u64::try_from(CLOUD_IS_LATE.as_mins()).unwrap();
        assert!(self.cloud().give_maintenance_notice(machine, Duration::minutes(minutes + late)));
    }

    /// So much time passes at once.
    pub fn pass(&self, minutes: i64) {
        self.clock.at.set(self.clock.at.get() + SignedDuration::from_mins(minutes));
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn fleet(&self) -> Fleet {
        let mut loaded = Loaded::default();
        load::add_bytes(&mut loaded, "fleet.yaml", self.text.borrow().as_bytes());
        let checked = loaded.check(self.clock.now());
        assert!(checked.fleet.is_some(), "{:#?}", checked.diagnostics);
        checked.fleet.unwrap()
    }

    /// What the program would do now, and what it was told by.
    pub fn planned(&self) -> (PlanInput, Plan) {
        let input = block(round::input(&self.fleet(), &self.uid, self.world(), &Options::default()));
        let input = input.expect("the ledger is read");
        let made = plan(&input);
        (input, made)
    }

    /// Plans, says yes and applies once; what was planned. Waits for nothing longer than `per_wait`.
    #[track_caller]
    pub fn round(&self, per_wait: Duration) -> Plan {
        let (input, made) = self.planned();
        let audited = audit(&input, made.clone()).unwrap_or_else(|broken| panic!("{broken:#?}"));
        let asks = made.steps.iter().any(|step| step.consent == Consent::Asked) && !made.effects.is_empty();
        let digest = asks.then(|| made.id.as_str().into());
        block(async {
            if let Some(digest) = &digest {
                let effects = made.effects_but_for_approval();
                apply::open_approval(self.world(), digest, &effects, std::collections::BTreeMap::new(), "bench")
                    .await
                    .unwrap();
            }
            let stop = StopSignal::default();
            let patience = Patience { per_wait, total: None, poll: Duration::secs(5), concurrency: 8, stop: &stop };
            let report = apply::apply(&audited, &input, digest.as_ref(), self.world(), &patience, &mut |_| {}).await;
            let report = report.unwrap();
            for ended in report.failed.iter().chain(&report.waiting).chain(&report.skipped) {
                println!("{} {}: {}", self.clock.now(), ended.step, ended.why);
            }
        });
        made
    }

    /// Rounds until nothing is left, or all that is left is held; what that is. `between` is what the world does
    /// meanwhile.
    #[track_caller]
    pub fn converge(&self, mut between: impl FnMut()) -> Plan {
        for _ in 0..60 {
            between();
            let made = self.round(Duration::minutes(2));
            if !made.steps.is_empty() {
                continue;
            }
            let now = self.clock.now();
            let until = made.held.iter().filter_map(|held| match held.waiting_on {
                WaitingOn::Until { at, .. } | WaitingOn::Capacity { retry: Some(at), .. } => Some(at),
                _ => None,
            });
            match until.filter(|at| *at > now && at.duration_since(now) < SignedDuration::from_mins(30)).min() {
                Some(at) => block(self.clock.sleep_until(at)),
                None => return made,
            }
        }
        let (_, left) = self.planned();
        panic!("it does not converge: {:#?} {:#?}", left.steps, left.held);
    }
}
