//! A day of two teams, three tiers and a tide on two hundred nodes, with real Jobs in a real Kueue.
//!
//! Where work is evicted, the model of Kueue was asked first, and must have named the same jobs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::controlplane::eventually;
use super::recorded::JobName;
use super::teams::{DAY, Documents, Scene, Tide};

fn only(job: &JobName) -> BTreeSet<JobName> {
    [job.clone()].into()
}

fn nobody() -> BTreeSet<JobName> {
    BTreeSet::new()
}

#[test]
fn two_teams_borrow_reclaim_and_preempt_as_the_model_says() {
    let Some(scene) = Scene::start("teams") else { return };
    // Admission: on nodes of the pool, within the guarantee.
    let (base, gone) = scene.foresee("vision", "base", "research", 50);
    assert_eq!(gone, nobody());
    assert!(scene.nodes_of(&base).iter().all(|node| node.starts_with("teams-train-")), "{:?}", scene.nodes_of(&base));
    // Borrowing: what language does not use.
    let (first, gone) = scene.foresee("vision", "first", "spare", 10);
    assert_eq!(gone, nobody());
    std::thread::sleep(Duration::from_millis(1100));
    let (second, _) = scene.foresee("vision", "second", "spare", 10);
    let too_much = scene.submit("vision", "too-much", "research", 60);
    assert!(scene.waits(&too_much).contains("insufficient"), "{}", scene.waits(&too_much));
    scene.end(&[&too_much]);
    // Reclaim: language takes back what it needs, the newest first, and no more.
    let (own, gone) = scene.foresee("language", "own", "research", 40);
    assert_eq!(gone, only(&second));
    assert!(scene.recorded()[&second].preempted.as_deref().unwrap().starts_with("InCohortReclamation"));
    let (cheap, gone) = scene.foresee("language", "cheap", "spare", 10);
    assert_eq!(gone, only(&first));
    // Preemption by tier: in its own queue, the lower tier.
    let (urgent, gone) = scene.foresee("language", "urgent", "research", 10);
    assert_eq!(gone, only(&cheap));
    assert!(scene.recorded()[&cheap].preempted.as_deref().unwrap().starts_with("InClusterQueue"));
    assert_eq!([&base, &own, &urgent].map(|job| scene.nodes_of(job).len()), [50, 40, 10]);
    a_quota_is_edited_and_put_back(&scene, &[&base, &own, &urgent]);
}

/// The plan names whom a new quota will cost, Kueue sends exactly those away, and `git revert` brings the old one back.
fn a_quota_is_edited_and_put_back(scene: &Scene, running: &[&JobName]) {
    git(scene, &["init", "-q", "-b", "main"]);
    commit(scene, "as it was");
    let queue = |team: &str| -> Value {
        let path = format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/teams-{team}");
        scene.plane.api.get(&path).unwrap()["spec"]["resourceGroups"].take()
    };
    let before = ["vision", "language"].map(queue);
    let wish = scene.submit("vision", "wish", "research", 20);
    scene.waits(&wish);
    scene.write(Documents { vision: 600, ..DAY });
    commit(scene, "vision has more");
    let (_, planned) = scene.planned();
    let gone = scene.evicted_by(|| {
        scene.converge();
        scene.runs(&wish, 20);
    });
    assert_eq!(planned, gone, "what the plan said, and what Kueue did");
    assert!(!gone.is_empty() && gone.iter().all(|job| running.contains(&job)), "{gone:?}");
    assert_ne!(["vision", "language"].map(queue), before);
    git(scene, &["revert", "--no-edit", "HEAD"]);
    let (_, planned) = scene.planned();
    let gone = scene.evicted_by(|| scene.converge());
    assert_eq!(planned, gone);
    assert_eq!(["vision", "language"].map(queue), before);
    assert_eq!(scene.tidewright(&["plan"]).0, 0);
}

fn git(scene: &Scene, arguments: &[&str]) {
    let who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"];
    let done = std::process::Command::new("git").current_dir(scene.path()).args(who).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn commit(scene: &Scene, message: &str) {
    git(scene, &["add", "fleet.yaml"]);
    git(scene, &["commit", "-q", "-m", message]);
}

#[test]
fn a_night_of_lending_ends_with_the_lenders_nodes_back_before_the_window_does() {
    let Some(scene) = Scene::start("night") else { return };
    let generation = |kind: &str, name: &str| {
        let path = format!("/apis/kueue.x-k8s.io/v1beta2/{kind}/{name}");
        scene.plane.api.get(&path).unwrap()["metadata"]["generation"].as_u64().unwrap()
    };
    let queues = || ["night-serving", "night-batch"].map(|name| generation("clusterqueues", name));
    let day = queues();
    let (chat, _) = scene.foresee("serving", "chat", "production", 40);
    let mut jobs = Vec::new();
    for number in 1..=5 {
        jobs.push(scene.submit("batch", &format!("batch-{number}"), "spare", 20));
        std::thread::sleep(Duration::from_millis(1100));
    }
    assert!(scene.waits(&jobs[0]).contains("maximum capacity (0)"), "by day nothing is lent");
    assert!(jobs.iter().all(|job| !scene.recorded()[job].admitted));
    // The tide is low: three of the five fit into what is lent.
    scene.write(Documents { tide: Tide::Low, ..DAY });
    scene.converge();
    jobs[..3].iter().for_each(|job| scene.runs(job, 20));
    assert!(jobs[3..].iter().all(|job| !scene.recorded()[job].admitted));
    // The lender keeps its quota, so it takes back what it needs at any hour, and no more than that.
    let (burst, gone) = scene.foresee("serving", "burst", "production", 20);
    assert!(gone.len() == 1 && gone.iter().all(|job| jobs[..3].contains(job)), "{gone:?}");
    scene.end(&[&burst]);
    gone.iter().for_each(|job| scene.runs(job, 20));
    asked_back(&scene, &jobs, &chat);
    // The next night: those who were sent away kept their places before those that never ran.
    scene.write(Documents { tide: Tide::Low, ..DAY });
    scene.converge();
    jobs[1..4].iter().for_each(|job| scene.runs(job, 20));
    assert!(!scene.recorded()[&jobs[4]].admitted);
    assert_eq!(queues(), day, "no queue was ever written: the tide owns one object, and moves that alone");
}

fn asked_back(scene: &Scene, jobs: &[JobName], chat: &JobName) {
    // Young work has its time as long as the tide is not hard, but nothing new starts on what was lent.
    scene.write(Documents { tide: Tide::Reclaiming, ..DAY });
    let (_, said) = scene.tidewright(&["apply", "--yes"]);
    assert_eq!(scene.tidewright(&["plan"]).0, 3, "what is left waits for its time: {said}");
    assert!(jobs[..3].iter().all(|job| scene.nodes_of(job).len() == 20));
    scene.end(&[&jobs[0]]);
    std::thread::sleep(Duration::from_secs(3));
    assert!(jobs[3..].iter().all(|job| !scene.recorded()[job].admitted));
    // Hard: lowering a limit evicted nobody, so we do.
    scene.write(Documents { tide: Tide::Hard, ..DAY });
    let began = Instant::now();
    let (_, planned) = scene.planned();
    assert_eq!(planned, jobs[1..3].iter().cloned().collect());
    let gone = scene.evicted_by(|| scene.converge());
    assert_eq!(planned, gone);
    for job in &jobs[1..3] {
        eventually("the pods are gone", 60, || (scene.pods_there(job) == 0).then_some(()));
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", job.0, job.1);
        assert_eq!(scene.plane.api.get(&path).unwrap()["spec"]["suspend"], true);
    }
    assert!(began.elapsed() < Duration::from_secs(300), "the window ends six minutes after it was written");
    // All of it is the lender's, at once and without anybody in the way.
    let (peak, gone) = scene.foresee("serving", "peak", "production", 60);
    assert_eq!(gone, nobody());
    scene.end(&[&peak]);
    assert_eq!(scene.nodes_of(chat).len(), 40, "it never noticed");
}
