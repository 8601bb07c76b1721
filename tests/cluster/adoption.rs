//! A cluster that has Kueue in use already: a queue that a Quota names is taken over as it stands, with the work in it,
//! and what no document names is not touched at all.

use serde_json::{Value, json};

use super::super::controlplane::objects::{cluster_queue, flavor, local_queue, namespace};
use super::super::controlplane::{Controlplane, GpuNodes, eventually, gang, is_true, shared};
use super::recorded::recorded;
use super::whole::{fleet, pods, tidewright};

const NAME: &str = "adopts";
/// The queue that was there, under a name of its own.
const OLD: &str = "adopts-old-queue";

fn queue(plane: &Controlplane, name: &str) -> Value {
    plane.api.get(&format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}")).unwrap()
}

/// Everything that a write would change: the object without what Kueue itself says about it.
fn as_written(plane: &Controlplane, path: &str) -> Value {
    let mut object = plane.api.get(path).unwrap();
    object.as_object_mut().unwrap().remove("status");
    let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut who: Vec<&str> = managers.iter().filter_map(|one| one["manager"].as_str()).collect();
    who.sort_unstable();
    let who = json!(who);
    let meta = object["metadata"].as_object_mut().unwrap();
    meta.remove("resourceVersion");
    meta.insert("managedFields".into(), who);
    object
}

/// A team of somebody else's, with work, and the queue that ours will take over, with work too.
fn was_there(plane: &Controlplane) {
    plane.add_nodes(&GpuNodes::new(NAME, 3).label("rack", NAME).label("pool", "adopts-by-hand"));
    plane.api.create(&flavor("adopts-by-hand")).unwrap();
    for (home, name) in [(NAME, OLD), ("adopts-others", "adopts-theirs")] {
        plane.api.create(&namespace(home)).unwrap();
        let mut queue = cluster_queue(name, "adopts-by-hand", "adopts-by-hand", 8);
        queue["spec"]["queueingStrategy"] = json!("StrictFIFO");
        plane.api.create(&queue).unwrap();
        let mut local = local_queue(home, name);
        local["metadata"]["name"] = json!("main");
        plane.api.create(&local).unwrap();
        plane.api.create(&gang(home, "before", "main", 1, 8)).unwrap();
        eventually("it runs", 120, || (pods(plane, home).len() == 1).then_some(()));
    }
}

#[test]
fn a_queue_is_adopted_by_name_with_its_work_and_others_setups_are_left_alone() {
    let Some(plane) = shared() else { return };
    was_there(&plane);
    let kueue = "/apis/kueue.x-k8s.io/v1beta2";
    let theirs = [
        format!("{kueue}/clusterqueues/adopts-theirs"),
        format!("{kueue}/resourceflavors/adopts-by-hand"),
        format!("{kueue}/namespaces/adopts-others/localqueues/main"),
        "/api/v1/namespaces/adopts-others".to_owned(),
    ];
    let look = || theirs.each_ref().map(|path| as_written(&plane, path));
    let (before, old) = (look(), queue(&plane, OLD));

    let directory = fleet(NAME, 3, 24);
    let path = directory.path().join("fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("  cohort: adopts\n", &format!("  cohort: adopts\n  clusterQueue: {OLD}\n"));
    std::fs::write(&path, text).unwrap();
    let planned = tidewright(&plane, directory.path(), &["plan"]);
    let planned = String::from_utf8_lossy(&planned.get_output().stdout).into_owned();
    assert!(planned.contains("was somebody else's: the Quota takes it over"), "{planned}");
    tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]);
    // The old flavor has no topology and ours has one: what that means for new work is said, with the way out.
    let waits = tidewright(&plane, directory.path(), &["plan"]);
    let waits = String::from_utf8_lossy(&waits.get_output().stdout).into_owned();
    assert!(waits.contains("kueue.x-k8s.io/podset-unconstrained-topology"), "{waits}");

    let new = queue(&plane, OLD);
    assert_eq!(new["metadata"]["uid"], old["metadata"]["uid"], "taken over, not made anew");
    assert!(new["metadata"]["annotations"]["tidewright.dev/written"].is_string(), "it is ours now: {new:#}");
    assert!(is_true(&new, "Active").is_some(), "{new:#}");
    // What runs on the old flavor is still in the books, with nothing of that flavor to give.
    let flavors = new["spec"]["resourceGroups"][0]["flavors"].as_array().unwrap().clone();
    assert!(flavors.iter().any(|one| one["name"] == NAME), "{flavors:#?}");
    let kept = flavors.iter().find(|one| one["name"] == "adopts-by-hand").expect("it is listed while work is on it");
    assert!(kept["resources"].as_array().unwrap().iter().all(|one| one["nominalQuota"] == "0"), "{kept:#}");
    assert_eq!(pods(&plane, NAME).len(), 1, "its work went on");
    assert_eq!(look(), before, "what no document names is as it was");
    assert_eq!(pods(&plane, "adopts-others").len(), 1);

    // New work is let in by what the documents say: at once where it asks to be placed, else when the old one has ended.
    let job = |name: &str| {
        let mut job = gang(NAME, name, "main", 1, 8);
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(NAME);
        job
    };
    let mut placed = job("placed");
    placed["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/podset-unconstrained-topology"] =
        json!("true");
    plane.api.create(&placed).unwrap();
    eventually("both run", 120, || (pods(&plane, NAME).len() == 2).then_some(()));
    plane.api.create(&job("plain")).unwrap();
    let said = eventually("the other one is told why it waits", 60, || {
        recorded(&plane, &[NAME.to_owned()].into()).get(&(NAME.to_owned(), "plain".to_owned()))?.waits.clone()
    });
    assert!(said.contains("supports only TopologyAwareScheduling"), "{said}");
    let old_job = format!("/apis/batch/v1/namespaces/{NAME}/jobs/before?propagationPolicy=Background");
    plane.api.delete(&old_job);
    eventually("the old one is gone", 60, || (pods(&plane, NAME).len() == 1).then_some(()));
    // Kueue forgets what ended a moment after its pods did.
    eventually("the queue is as the documents say", 120, || {
        let ended = tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]);
        (ended.get_output().status.code() == Some(0)).then_some(())
    });
    let mut last = queue(&plane, OLD);
    assert_eq!((&last["spec"]["cohortName"], &last["metadata"]["uid"]), (&json!(NAME), &old["metadata"]["uid"]));
    let flavors = last["spec"]["resourceGroups"][0]["flavors"].take();
    assert_eq!(flavors.as_array().unwrap().iter().map(|one| &one["name"]).collect::<Vec<_>>(), [NAME]);
    eventually("the one that waited runs", 120, || (pods(&plane, NAME).len() == 2).then_some(()));
    assert_eq!(look(), before);
    plane.end_jobs(&[NAME.to_owned(), "adopts-others".to_owned()].into());
}
