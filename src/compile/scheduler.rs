//! SchedulerProfiles become the configuration of a second scheduler: managed control planes do not let anybody change
//! the first one.
//!
//! Gangs and levels are not in it: kube-scheduler has no stable gangs, and a pod that Kueue placed by topology names
//! its node already. Both are kept by the queues; what is left to the scheduler is how it fills nodes.

use serde_json::{Value, json};

use super::OUR_NAMESPACE;
use crate::effect::Object;
use crate::fleet::Target;
use crate::fleet::policy::Score;
use crate::fleet::standing::SchedulerSpec;
use crate::ids::ProfileName;
use crate::observed::{ObjectKey, ObjectKind};

const API: &str = "kubescheduler.config.k8s.io/v1";
/// Above the other scores together, which by default prefer to spread: they sum to 12.
const FIT_WEIGHT: u32 = 20;

/// One file for all profiles: pods choose by `schedulerName`, which is the profile's.
pub fn config_map(target: &Target) -> Option<Object> {
    let profiles: Vec<Value> = target.standing.schedulers.iter().map(|(name, spec)| profile(name, spec)).collect();
    if profiles.is_empty() {
        return None;
    }
    let file = json!({"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": profiles});
    let key = ObjectKey::namespaced(ObjectKind::ConfigMap, OUR_NAMESPACE, "tidewright-scheduler");
    Some(Object::new(key, json!({"data": {"config.yaml": crate::effect::canonical(&file).to_string()}})))
}

fn profile(name: &ProfileName, spec: &SchedulerSpec) -> Value {
    let resources = json!([{"name": "nvidia.com/gpu", "weight": 100}, {"name": "cpu", "weight": 1}]);
    let strategy = match spec.score {
        Score::Pack => json!({"type": "MostAllocated", "resources": resources}),
        Score::Spread => json!({"type": "LeastAllocated", "resources": resources}),
    };
    json!({
        "schedulerName": name,
        "plugins": {"score": {
            "enabled": [{"name": "NodeResourcesFit", "weight": FIT_WEIGHT}],
            "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
        }},
        "pluginConfig": [{
            "name": "NodeResourcesFit",
            "args": {"apiVersion": API, "kind": "NodeResourcesFitArgs", "scoringStrategy": strategy},
        }],
    })
}
