//! Work that may be smaller, on the real Kueue: when a tide turns it gives back what it can and goes on with what its
//! team owns, and only then a gang goes as a whole.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidewright::provider::Cluster;

use super::super::controlplane::{Controlplane, GpuNodes, block, eventually, gang, shared};
use super::recorded::{evicted, recorded};
use super::teams::tidewright;
use super::whole::pods;
use super::{cluster, target};

/// The fleet with a tide that ends in so many minutes: reclaim begins 45 minutes before, and is hard ten before.
fn write(directory: &Path, ends_in: i64) {
    let clock = |minutes: i64| (Timestamp::now() + SignedDuration::from_mins(minutes)).strftime("%H:%M").to_string();
    let (from, to) = (clock(ends_in - 240), clock(ends_in));
    let text = format!(
        "kind: Fleet
metadata: {{name: elastic}}
spec: {{timeZone: UTC, cloud: {{none: {{}}}}, kubernetes: {{kubeconfig: {{context: bench}}}}}}
---
kind: NodePool
metadata: {{name: elastic}}
spec: {{instanceType: p5.48xlarge, nodes: 6, capacity: [{{existing: {{labels: {{rack: elastic}}}}}}]}}
---
kind: PreemptionTier
metadata: {{name: elastic}}
spec: {{rank: 100}}
---
kind: Quota
metadata: {{name: elastic-serving}}
spec:
  namespaces: [{{name: elastic-serving, localQueue: main}}]
  tiers: [elastic]
  shares: [{{pool: elastic, guarantee: {{gpus: 40}}}}]
---
kind: Quota
metadata: {{name: elastic-batch}}
spec:
  namespaces: [{{name: elastic-batch, localQueue: main}}]
  tiers: [elastic]
  shares: [{{pool: elastic, guarantee: {{gpus: 8}}}}]
---
kind: TideSchedule
metadata: {{name: elastic}}
spec:
  lowTide: [{{days: [Mon-Sun], from: \"{from}\", to: \"{to}\"}}]
  lend: [{{pool: elastic, nodes: 4, from: elastic-serving, to: elastic-batch}}]
  reclaim: {{lead: 45m, hardAt: 10m}}
"
    );
    let text = text.replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ");
    std::fs::write(directory.join("fleet.yaml"), text).unwrap();
}

fn submit(plane: &Controlplane, team: &str, name: &str, nodes: u64, is_elastic: bool) {
    let mut job = gang(team, name, "main", nodes, 8);
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("elastic");
    if is_elastic {
        job["metadata"]["annotations"] = json!({"kueue.x-k8s.io/elastic-job": "true"});
        job["spec"]["template"]["metadata"]["annotations"] = json!({"tidewright.dev/fewest-pods": "1"});
    }
    plane.api.create(&job).unwrap();
}

fn running(plane: &Controlplane, team: &str, job: &str) -> usize {
    pods(plane, team).iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == job).count()
}

fn job(plane: &Controlplane, team: &str, name: &str) -> Value {
    plane.api.get(&format!("/apis/batch/v1/namespaces/{team}/jobs/{name}")).unwrap()
}

#[test]
fn work_that_may_be_smaller_gives_back_first_and_goes_on_with_the_rest() {
    let Some(plane) = shared() else { return };
    let (serving, batch) = ("elastic-serving", "elastic-batch");
    plane.add_nodes(&GpuNodes::new("elastic", 6).label("rack", "elastic"));
    let directory = tempfile::tempdir().unwrap();
    let converge = || {
        let (code, said) = tidewright(&plane, directory.path(), &["apply", "--until-converged", "--yes"]);
        assert_eq!(code, 0, "{said}");
        said
    };
    write(directory.path(), 120);
    converge();
    submit(&plane, batch, "flex", 3, true);
    submit(&plane, batch, "fixed", 2, false);
    for (name, pods) in [("flex", 3), ("fixed", 2)] {
        eventually(&format!("{name} runs"), 120, || (running(&plane, batch, name) == pods).then_some(()));
    }

    // What Kueue does with a job that somebody makes smaller: its quota is free at once, and its places are kept.
    let smaller = json!({"spec": {"parallelism": 2, "completions": 2}});
    plane.api.merge("/apis/batch/v1/namespaces/elastic-batch/jobs/flex", &smaller).unwrap();
    let documents = "kind: PreemptionTier\nmetadata: {name: elastic}\nspec: {rank: 100}\n";
    let seen = eventually("Kueue follows", 60, || {
        let seen = block(cluster(&plane, "elastic").observe(&target("elastic", documents)));
        let all = seen.workloads.whole().expect("all workloads were read").clone();
        all.into_values().find(|one| one.fewest.is_some() && one.pods == 2)
    });
    assert_eq!((seen.requests["nvidia.com/gpu"], seen.nodes.values().sum::<u32>()), (16, 3), "{seen:#?}");

    // Four of the six nodes are asked back, and one of them nobody uses: one more is the elastic job's to give, and for the
    // other two a gang goes.
    write(directory.path(), 30);
    let (_, planned) = tidewright(&plane, directory.path(), &["plan", "--verbose"]);
    assert!(planned.contains("shrink workload elastic-batch/") && planned.contains("to 1 pod"), "{planned}");
    converge();
    let flex = job(&plane, batch, "flex");
    assert_eq!((&flex["spec"]["parallelism"], &flex["spec"]["completions"]), (&json!(1), &json!(1)));
    assert_eq!(flex["metadata"]["annotations"]["tidewright.dev/shrunk-from"], "2");
    eventually("what is left of it runs", 120, || (running(&plane, batch, "flex") == 1).then_some(()));
    assert_eq!(job(&plane, batch, "fixed")["spec"]["suspend"], true);

    // All that was lent is the lender's: in quota and in places, with nobody in its way.
    let namespaces = [batch.to_owned()].into();
    let before = recorded(&plane, &namespaces);
    submit(&plane, serving, "peak", 5, false);
    eventually("the lender has its nodes", 120, || (running(&plane, serving, "peak") == 5).then_some(()));
    assert_eq!(evicted(&before, &recorded(&plane, &namespaces)), [].into());
    assert_eq!(running(&plane, batch, "flex"), 1, "it goes on with what its team owns");
    assert_eq!(tidewright(&plane, directory.path(), &["plan"]).0, 0);
    plane.end_jobs(&[serving.to_owned(), batch.to_owned()].into());
}
