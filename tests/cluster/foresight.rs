//! Foresight: whom the model of Kueue sends away, and whom Kueue sends away, in random cases.
//!
//! All cases of a mode are played at once, in step, each in cohorts and a namespace of its own:
//!
//! 1. Work is let into wide queues, some of it seconds later than the rest. Then the queues are narrowed to the case's
//!    quotas, limits and policies; that evicts nobody.
//! 2. Work comes: it waits behind a held LocalQueue, the model is asked about what the provider sees, and it is let in.
//! 3. A quota is edited: the model is asked about the new objects over what the provider sees, as a plan asks, and then
//!    they are written.

mod cases;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidewright::fleet::Target;
use tidewright::observed::{ClusterSeen, ObjectKey, ObjectKind};
use tidewright::queue::mode::mode;
use tidewright::queue::parse::requeued;
use tidewright::queue::{Mode, PreemptReason, QueueState, WorkloadUid, apply, settle};

use super::super::controlplane::{Controlplane, eventually, kueue, shared};
use super::recorded::{JobName, Recorded, evicted, foretold, recorded, seen, state};
use cases::{CLASSES, Case, Dice, FLAVOR};

/// Cases of each mode; each is asked about twice.
const CASES: u64 = 60;
/// At least so many of a hundred answers are exact.
const EXACT_OF_HUNDRED: usize = 95;
/// Nobody leaves, and nothing has happened for so long: Kueue is done.
const QUIET: Duration = Duration::from_secs(4);

#[test]
fn the_model_names_whom_kueue_evicts_in_classical_mode() {
    let Some(plane) = shared() else { return };
    play(&plane, "fc", false);
}

#[test]
fn the_model_names_whom_kueue_evicts_under_fair_sharing() {
    let Some(plane) = shared() else { return };
    let fair = Fair::start(&plane);
    play(fair.0, "ff", true);
}

/// The shared control plane while its Kueue shares fairly, which whoever comes next does not expect.
struct Fair<'a>(&'a Controlplane);

/// Where Kueue's release keeps the file that it is started with.
const CONFIGURATION: &str = "/api/v1/namespaces/kueue-system/configmaps";

impl Fair<'_> {
    fn start(plane: &Controlplane) -> Fair<'_> {
        plane.restart_kueue(&kueue::fair_sharing());
        let file = std::fs::read_to_string(plane.directory.join("kueue.yaml")).unwrap();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
            "data": {"controller_manager_config.yaml": file},
        });
        plane.api.create(&map).unwrap();
        Fair(plane)
    }
}

impl Drop for Fair<'_> {
    fn drop(&mut self) {
        let back = || {
            self.0.api.delete(&format!("{CONFIGURATION}/kueue-manager-config"));
            self.0.restart_kueue(&json!({}));
        };
        // A test that failed fails by its own words.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(back));
        assert!(done.is_ok() || std::thread::panicking(), "Kueue is not back as it was");
    }
}

/// One question, and the answers of both.
struct Answer<'a> {
    case: &'a Case,
    what: &'static str,
    foretold: BTreeMap<String, Option<PreemptReason>>,
    /// With Kueue's reason, where it was not let in again meanwhile.
    happened: BTreeMap<String, Option<String>>,
    waits: BTreeMap<String, String>,
    times: BTreeMap<String, u64>,
    /// Why it is no hit, where something explains it.
    because: Option<String>,
}

struct Stage<'a> {
    plane: &'a Controlplane,
    fair: bool,
    target: Target,
    namespaces: BTreeSet<String>,
    cases: &'a [Case],
}

fn play(plane: &Controlplane, prefix: &str, fair: bool) {
    // Another seed, or more cases, for whoever changes the model.
    let seed = std::env::var("FORESIGHT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_116);
    let cases = std::env::var("FORESIGHT_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut dice = Dice(seed);
    let cases: Vec<Case> = (0..cases).map(|at| cases::random(&format!("{prefix}{at:03}"), &mut dice, fair)).collect();
    let began = Instant::now();
    let stage = Stage {
        plane,
        fair,
        target: super::target(prefix, "kind: PreemptionTier\nmetadata: {name: foresight}\nspec: {rank: 1}\n"),
        namespaces: cases.iter().map(|case| case.name.clone()).collect(),
        cases: &cases,
    };
    stage.set();
    let mut answers = stage.work_comes();
    answers.extend(stage.quotas_are_edited());
    report(&answers, seed, began);
    plane.end_jobs(&stage.namespaces);
}

impl Stage<'_> {
    fn set(&self) {
        let mut common = vec![json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": FLAVOR},
            "spec": {"nodeLabels": {"pool": FLAVOR}},
        })];
        common.extend(CLASSES.map(|(name, value)| {
            json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value, "description": ""})
        }));
        let holds = json!({"cpu": "10k", "memory": "10Ti", "pods": "9999", "nvidia.com/gpu": "99999"});
        common.push(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "foresight", "labels": {"pool": FLAVOR}},
            "status": {"capacity": holds, "allocatable": holds},
        }));
        let api = &self.plane.api;
        for object in &common {
            // The other mode may have been here before.
            assert!(!matches!(api.create(object), Err(refused) if refused.status != 409), "{object}");
        }
        api.create_all(&self.cases.iter().flat_map(Case::objects).collect::<Vec<_>>());
        api.create_all(&self.cases.iter().flat_map(Case::local_queues).collect::<Vec<_>>());
        // What is admitted in one second has no order but that of its UIDs.
        for wave in 0..3 {
            let jobs = self.cases.iter().flat_map(|case| {
                let of_wave = case.running.iter().skip(wave * case.running.len() / 3);
                let of_wave = of_wave.take((wave + 1) * case.running.len() / 3 - wave * case.running.len() / 3);
                of_wave.map(|work| case.job(work, &work.queue))
            });
            api.create_all(&jobs.collect::<Vec<_>>());
            std::thread::sleep(Duration::from_millis(1500));
        }
        let running: usize = self.cases.iter().map(|case| case.running.len()).sum();
        eventually("all of it is let in", 180, || {
            let all = recorded(self.plane, &self.namespaces);
            (all.values().filter(|one| one.admitted).count() == running).then_some(())
        });
        api.merge_all(&self.cases.iter().flat_map(Case::narrowed).map(|queue| change(&queue)).collect::<Vec<_>>());
    }

    fn work_comes(&self) -> Vec<Answer<'_>> {
        let jobs = self.cases.iter().flat_map(|case| case.coming.iter().map(|work| case.job(work, "late")));
        let jobs: Vec<Value> = jobs.collect();
        let running: usize = self.cases.iter().map(|case| case.running.len()).sum();
        self.plane.api.create_all(&jobs);
        eventually("all that comes is known to Kueue", 60, || {
            (recorded(self.plane, &self.namespaces).len() == running + jobs.len()).then_some(())
        });
        std::thread::sleep(Duration::from_secs(1));
        let seen = seen(self.plane, &self.target);
        let states: Vec<QueueState> = self.cases.iter().map(|case| self.state_of(case, &seen)).collect();
        self.asked("work comes", &states, |case| {
            let path = format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/localqueues/late", case.name);
            (path, json!({"spec": {"stopPolicy": "None"}}))
        })
    }

    fn quotas_are_edited(&self) -> Vec<Answer<'_>> {
        let seen = seen(self.plane, &self.target);
        let states = self.cases.iter().map(|case| {
            let queue = case.edited();
            let edited = ObjectKey::cluster(ObjectKind::ClusterQueue, queue["metadata"]["name"].as_str().unwrap());
            let body = json!({"spec": queue["spec"]});
            let objects = seen.objects.seen().iter().filter(|(key, _)| is_of(case, key));
            let mut objects: BTreeMap<&ObjectKey, &Value> = objects.map(|(key, seen)| (key, &seen.body)).collect();
            objects.insert(&edited, &body);
            requeued(self.state_of(case, &seen), &objects)
        });
        let states: Vec<QueueState> = states.collect();
        self.asked("a quota is edited", &states, |case| change(&case.edited()))
    }

    fn state_of(&self, case: &Case, seen: &ClusterSeen) -> QueueState {
        let mode = mode(seen.others.kueue.seen().as_ref());
        assert_eq!(mode != Mode::Classical, self.fair, "the mode is read from Kueue's own configuration");
        state(seen, mode, &[case.name.clone()].into(), |key| is_of(case, key))
    }

    /// Asks the model, does it in all cases, waits until Kueue is done, and looks what it did.
    fn asked(
        &self,
        what: &'static str,
        states: &[QueueState],
        act: impl Fn(&Case) -> (String, Value),
    ) -> Vec<Answer<'_>> {
        let before = recorded(self.plane, &self.namespaces);
        let told: Vec<BTreeMap<WorkloadUid, Option<PreemptReason>>> = states.iter().map(foretold).collect();
        self.plane.api.merge_all(&self.cases.iter().map(act).collect::<Vec<_>>());
        let after = self.settled();
        let gone = evicted(&before, &after);
        let answers = self.cases.iter().zip(told).zip(states).map(|((case, told), state)| {
            let ours = |all: &BTreeMap<JobName, Recorded>| -> BTreeMap<String, Recorded> {
                let ours = all.iter().filter(|((namespace, _), _)| *namespace == case.name);
                ours.map(|((_, job), one)| (job.clone(), one.clone())).collect()
            };
            let (before, after) = (ours(&before), ours(&after));
            let name = |uid: &WorkloadUid| {
                let ran = before.iter().find(|(_, one)| one.uid == uid.as_str() && one.admitted);
                ran.map(|(job, _)| job.clone())
            };
            let foretold = told.iter().filter_map(|(uid, reason)| Some((name(uid)?, *reason))).collect();
            let of_case = gone.iter().filter(|(namespace, _)| *namespace == case.name);
            let why =
                |job: &String| after[job].preempted.as_ref().and_then(|why| Some(why.split_once(':')?.0.to_owned()));
            let happened = of_case.map(|(_, job)| (job.clone(), why(job))).collect();
            let waits = after.iter().filter_map(|(job, one)| Some((job.clone(), one.waits.clone()?))).collect();
            let times =
                after.iter().map(|(job, one)| (job.clone(), one.times())).filter(|(_, times)| *times > 0).collect();
            let mut answer = Answer { case, what, foretold, happened, waits, times, because: None };
            if !answer.is_exact() {
                answer.because = self.explained(&answer, state, &before).or_else(|| goes_round(&after));
            }
            answer
        });
        answers.collect()
    }

    /// Jobs that are let in by one write are looked at one after the other, in the order in which Kueue hears of them.
    /// Whether it did what the model says if one of them had come first.
    fn explained(
        &self,
        answer: &Answer<'_>,
        state: &QueueState,
        before: &BTreeMap<String, Recorded>,
    ) -> Option<String> {
        let uid = |job: &str| before.get(job).map(|one| WorkloadUid::from(one.uid.as_str()));
        let waiting: Vec<&String> = before.keys().filter(|job| !before[*job].admitted).collect();
        let victims = |first: &str| -> Option<BTreeSet<String>> {
            let mut world = state.clone();
            let others: Vec<WorkloadUid> =
                waiting.iter().filter(|job| **job != first).filter_map(|job| uid(job)).collect();
            let mut gone = BTreeSet::new();
            for active in [false, true] {
                for other in &others {
                    world.workloads.get_mut(other)?.active = active;
                }
                world.parked.clear();
                gone.extend(foretold(&world).into_keys());
                for decision in settle(&world) {
                    apply(&mut world, &decision);
                }
            }
            let named = before.iter().filter(|(_, one)| one.admitted && gone.iter().any(|uid| uid.as_str() == one.uid));
            Some(named.map(|(job, _)| job.clone()).collect())
        };
        let happened: BTreeSet<String> = answer.happened.keys().cloned().collect();
        let first = waiting.iter().find(|first| victims(first).as_ref() == Some(&happened))?;
        Some(format!("several waited, and Kueue heard of {first} first: so the model says the same"))
    }

    /// What there is when Kueue is done; cases in which it goes round are not waited for.
    fn settled(&self) -> BTreeMap<JobName, Recorded> {
        let began = Instant::now();
        let (mut last, mut since) = (recorded(self.plane, &self.namespaces), Instant::now());
        while since.elapsed() < QUIET && began.elapsed() < Duration::from_secs(360) {
            std::thread::sleep(Duration::from_millis(500));
            let now = recorded(self.plane, &self.namespaces);
            let round: BTreeSet<&String> =
                now.iter().filter(|(_, one)| one.times() > 4).map(|((namespace, _), _)| namespace).collect();
            let moves = |(job, one): (&JobName, &Recorded)| {
                !round.contains(&job.0) && (one.leaves || last.get(job) != Some(one))
            };
            if now.iter().any(moves) {
                since = Instant::now();
            }
            last = now;
        }
        last
    }
}

/// A queue as it is to be written.
fn change(queue: &Value) -> (String, Value) {
    let name = queue["metadata"]["name"].as_str().unwrap();
    (format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}"), json!({"spec": queue["spec"]}))
}

/// Kueue has configurations in which two send each other away for ever: there is nothing to foretell.
fn goes_round(all: &BTreeMap<String, Recorded>) -> Option<String> {
    let (job, times) = all.iter().map(|(job, one)| (job, one.times())).max_by_key(|(_, times)| *times)?;
    (times > 2).then(|| format!("Kueue goes round in circles: {job} was evicted {times} times"))
}

fn is_of(case: &Case, key: &ObjectKey) -> bool {
    let starts = key.name.starts_with(&format!("{}-", case.name));
    starts && matches!(key.kind, ObjectKind::Cohort | ObjectKind::ClusterQueue)
}

impl Answer<'_> {
    fn is_exact(&self) -> bool {
        let reason = |job| self.foretold[job].map(|reason| format!("{reason:?}"));
        self.foretold.keys().eq(self.happened.keys())
            && self.happened.iter().all(|(job, why)| why.is_none() || *why == reason(job))
    }

    fn told(&self) -> String {
        let times = self.times.iter().map(|(job, times)| format!("\n    {job} was evicted {times} times in all"));
        let waits =
            self.waits.iter().map(|(job, why)| format!("\n    {job} waits: {why}")).chain(times).collect::<String>();
        let because = self.because.as_deref().unwrap_or("nothing known explains it: the model is wrong here");
        format!(
            "{}, {}: {because}: foretold {:?}, Kueue evicted {:?}\n{}{waits}",
            self.case.name,
            self.what,
            self.foretold,
            self.happened,
            self.case.words()
        )
    }
}

/// To the standard error itself: what a test prints is kept from whoever runs it, and the rate is for everybody.
fn tell(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("the standard error takes a line");
}

fn report(answers: &[Answer<'_>], seed: u64, began: Instant) {
    let exact = |of: &dyn Fn(&Answer<'_>) -> bool| {
        let all: Vec<bool> = answers.iter().filter(|one| of(one)).map(Answer::is_exact).collect();
        (all.iter().filter(|exact| **exact).count(), all.len())
    };
    for (name, of) in [
        ("all", &(|_: &Answer<'_>| true) as &dyn Fn(&Answer<'_>) -> bool),
        ("with victims", &|one| !one.happened.is_empty() || !one.foretold.is_empty()),
        ("nested cohorts", &|one| one.case.is_nested()),
        ("limits", &|one| one.case.has_limits()),
    ] {
        let (hits, of) = exact(of);
        tell(&format!("foresight, seed {seed}: {name}: {hits} of {of} exact"));
    }
    tell(&format!("foresight: {} s", began.elapsed().as_secs()));
    let missed = || answers.iter().filter(|one| !one.is_exact());
    missed().for_each(|miss| tell(&format!("MISS {}", miss.told())));
    let unexplained = missed().filter(|miss| miss.because.is_none()).count();
    tell(&format!("foresight: {} misses, {unexplained} of them that nothing known explains", missed().count()));
    let (hits, all) = exact(&|_| true);
    assert!(all >= 100, "{all} answers are too few to speak of a rate");
    assert!(hits * 100 >= all * EXACT_OF_HUNDRED, "{hits} of {all} exact");
    let (hits, all) = exact(&|one| !one.happened.is_empty() || !one.foretold.is_empty());
    assert!(hits * 100 >= all * EXACT_OF_HUNDRED, "{hits} of {all} with victims exact");
}
