//! Work as a script submits it, as real Jobs, ReplicaSets and budgets.

use serde_json::{Value, json};
use tidewright::ids::NamespacedName;
use tidewright::provider::sim::cluster::{Bound, BudgetSpec};
use tidewright::scenario::Item;
use tidewright::scenario::command::{GangWish, ServiceWish, Size, Work};

use super::super::super::controlplane::eventually;
use super::super::super::controlplane::objects::{gang, namespace};
use super::{Stage, unknown};

/// Of the nodes that scripts for both worlds have.
const GPUS_PER_NODE: u32 = 8;

impl Stage {
    pub fn work(&self, item: &Item, work: &Work) {
        match work {
            Work::Gang(wish) => self.gang(item, wish),
            Work::Service(wish) => self.service(wish),
            Work::Finish(name) => self.finish(name),
            _ => unknown(item),
        }
    }

    /// In the quota's first namespace and queue, as the simulator does.
    fn gang(&self, item: &Item, wish: &GangWish) {
        let (Some(name), Size::Gpus(gpus)) = (&wish.name, &wish.size) else { unknown(item) };
        let target = self.target();
        let quota = &target.standing.quotas[&wish.quota];
        let (namespace, queue) = quota.namespaces.first().unwrap();
        let (pods, each) = (gpus.div_ceil(GPUS_PER_NODE), (*gpus).min(GPUS_PER_NODE));
        let mut job = gang(namespace, name, queue, pods.into(), each.into());
        let tier = wish.tier.as_ref().or(quota.tiers.first()).unwrap();
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(tier.as_str());
        if let Some(level) = &wish.level {
            let known = target.standing.levels.iter().find(|known| known.name.as_str() == level).unwrap();
            let label = known.node_label.as_ref().unwrap();
            job["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] =
                json!(label);
        }
        self.plane.api.create(&job).unwrap();
    }

    /// Its pods end by themselves, and the Job with them.
    fn finish(&self, name: &str) {
        let pods = self.plane.api.list(&format!("/api/v1/pods?labelSelector=job-name={name}"));
        let ours = |pod: &&Value| self.watched.has_namespace(pod["metadata"]["namespace"].as_str().unwrap());
        for pod in pods.iter().filter(ours) {
            let meta = &pod["metadata"];
            let [namespace, pod] = [&meta["namespace"], &meta["name"]].map(|word| word.as_str().unwrap());
            let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
            let ends = json!({"metadata": {"annotations": {"bench.test/ends-after": "1ms"}}});
            self.plane.api.merge(&path, &ends).unwrap();
        }
        eventually(&format!("{name} has finished"), 60, || self.watched.has_finished(name).then_some(()));
    }

    fn service(&self, wish: &ServiceWish) {
        let NamespacedName { namespace: home, name } = &wish.name;
        let (home, name) = (home.as_str(), &**name);
        let _ = self.plane.api.create(&namespace(home));
        self.watched.namespaces([home].into_iter());
        let asked = json!({wish.resource.as_str(): wish.amount.to_string()});
        let pool = wish.pool.as_ref().map(|pool| json!({"tidewright.dev/pool": pool.as_str()}));
        let container = json!({"name": "main", "image": "serve", "resources": {"requests": asked, "limits": asked}});
        let toleration = match wish.anywhere {
            true => json!({"operator": "Exists"}),
            false => json!({"key": "nvidia.com/gpu", "operator": "Exists"}),
        };
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {
            "nodeSelector": pool, "tolerations": [toleration],
            "containers": [container]}});
        let selector = json!({"matchLabels": {"app": name}});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": home},
            "spec": {"replicas": wish.replicas, "selector": selector, "template": template}});
        self.plane.api.create(&set).unwrap();
        if let Some(budget) = &wish.budget {
            let mut spec = bound(budget);
            spec["selector"] = selector;
            let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": home}, "spec": spec});
            self.plane.api.create(&budget).unwrap();
        }
        eventually(&format!("{home}/{name} runs"), 60, || {
            let all = super::super::whole::pods(&self.plane, home);
            (all.len() == wish.replicas as usize).then_some(())
        });
    }
}

fn bound(budget: &BudgetSpec) -> Value {
    match budget.bound {
        Bound::MinAvailable(pods) => json!({"minAvailable": pods}),
        Bound::MinAvailablePercent(share) => json!({"minAvailable": format!("{share}%")}),
        Bound::MaxUnavailable(pods) => json!({"maxUnavailable": pods}),
        Bound::MaxUnavailablePercent(share) => json!({"maxUnavailable": format!("{share}%")}),
    }
}
