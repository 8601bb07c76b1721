//! SchedulerProfiles become the configuration of a second scheduler: managed control planes do not let anybody change
//! the first one.
//!
//! Gangs and levels are not in it: kube-scheduler has no stable gangs, and a pod that Kueue placed by topology names
//! its node already. Both are kept by the queues ([`others`](super::others), [`placed`](super::placed)); what is left to
//! the scheduler is how it fills nodes.
//!
//! It is a whole file: started with it and nothing else, in a pod, the scheduler works. So it elects with a lease of its
//! own. By default that would be the lease of the cluster's own scheduler, which is taken for ever.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{OUR_NAMESPACE, gpus, holds};
use crate::effect::Object;
use crate::fleet::Target;
use crate::fleet::policy::Score;
use crate::fleet::standing::{SchedulerSpec, Standing};
use crate::ids::{ProfileName, ResourceName};
use crate::observed::{ObjectKey, ObjectKind};

const API: &str = "kubescheduler.config.k8s.io/v1";
/// What everything of the second scheduler is called, as in `deploy/scheduler.yaml`.
const NAME: &str = "tidewright-scheduler";
/// Above the other scores together, which by default prefer to spread: they sum to 12.
const FIT_WEIGHT: u32 = 20;

/// One file for all profiles: pods choose by `schedulerName`, which is the profile's.
pub fn config_map(target: &Target) -> Option<Object> {
    let standing = &target.standing;
    let profiles: Vec<Value> = standing.schedulers.iter().map(|(name, spec)| profile(standing, name, spec)).collect();
    if profiles.is_empty() {
        return None;
    }
    let election = json!({"leaderElect": true, "resourceName": NAME, "resourceNamespace": OUR_NAMESPACE});
    let file = json!({
        "apiVersion": API,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": election,
        "profiles": profiles,
    });
    let key = ObjectKey::namespaced(ObjectKind::ConfigMap, OUR_NAMESPACE, NAME);
    Some(Object::new(key, json!({"data": {"config.yaml": crate::effect::canonical(&file).to_string()}})))
}

fn profile(standing: &Standing, name: &ProfileName, spec: &SchedulerSpec) -> Value {
    let resources = resources(standing, spec);
    let strategy = match spec.score {
        Score::Pack => json!({"type": "MostAllocated", "resources": resources}),
        Score::Spread => json!({"type": "LeastAllocated", "resources": resources}),
    };
    let mut plugins = vec![args("NodeResourcesFit", json!({"scoringStrategy": strategy}))];
    if spec.score == Score::Pack {
        // By default pods of one Service or ReplicaSet are spread over hosts and zones, and the less of a node one takes
        // the more that weighs. What a pod itself asks for is still heard.
        let none = json!({"defaultingType": "List", "defaultConstraints": []});
        plugins.push(args("PodTopologySpread", none));
    }
    json!({
        "schedulerName": name,
        "plugins": {"score": {
            "enabled": [{"name": "NodeResourcesFit", "weight": FIT_WEIGHT}],
            "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
        }},
        "pluginConfig": plugins,
    })
}

fn args(plugin: &str, mut args: Value) -> Value {
    args["apiVersion"] = API.into();
    args["kind"] = format!("{plugin}Args").into();
    json!({"name": plugin, "args": args})
}

/// What nodes are filled by: whatever their GPUs are given out as under any layout of the pools. What a pod does not ask
/// for, or a node does not have, does not count.
fn resources(standing: &Standing, spec: &SchedulerSpec) -> Value {
    let pools = spec.pools.iter().filter_map(|name| Some((name, standing.pools.get(name)?)));
    let named = pools.flat_map(|(name, pool)| {
        let layouts = gpus::layouts(standing, name, pool).into_iter();
        layouts.flat_map(move |layout| holds::accelerators(standing, pool, &layout).into_keys())
    });
    let named: BTreeSet<ResourceName> = named.collect();
    let named = named.iter().map(|resource| json!({"name": resource, "weight": 100}));
    named.chain([json!({"name": "cpu", "weight": 1})]).collect()
}
