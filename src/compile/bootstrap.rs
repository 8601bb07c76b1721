//! What a new node is told as it starts, so that it joins the cluster as it should. Pure.
//!
//! For images of EKS that bring nodeadm: a NodeConfig with the cluster to join and what to register with. Taints are
//! there from the first moment: one that comes after the join is a race.

use std::collections::BTreeMap;

use serde_json::json;

use crate::fleet::launch::Taint;

/// The cluster that a node joins, as EKS tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    pub name: String,
    /// The address of its API server.
    pub endpoint: String,
    /// Its certificate, in base64.
    pub ca: String,
    /// Its service network.
    pub cidr: String,
}

/// User data for nodeadm: MIME with one part, a NodeConfig. JSON is YAML, and quotes everything that has to be.
pub fn nodeadm(join: &Join, labels: &BTreeMap<String, String>, taints: &[Taint]) -> String {
    let mut flags = Vec::new();
    let labels: Vec<String> =
        labels.iter().filter(|(key, _)| may_register(key)).map(|(key, value)| format!("{key}={value}")).collect();
    if !labels.is_empty() {
        flags.push(format!("--node-labels={}", labels.join(",")));
    }
    let taints: Vec<String> = taints.iter().map(taint).collect();
    if !taints.is_empty() {
        flags.push(format!("--register-with-taints={}", taints.join(",")));
    }
    let config = json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": join.name,
                "apiServerEndpoint": join.endpoint,
                "certificateAuthority": join.ca,
                "cidr": join.cidr,
            },
            "kubelet": {"flags": flags},
        },
    });
    let config = serde_json::to_string_pretty(&config).expect("plain data always serialises");
    format!(
        "MIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=\"//\"\n\
         \n\
         --//\n\
         Content-Type: application/node.eks.aws\n\
         \n\
         {config}\n\
         --//--\n"
    )
}

fn taint(taint: &Taint) -> String {
    let value = taint.value.as_deref().unwrap_or_default();
    format!("{}={value}:{:?}", taint.key, taint.effect)
}

/// Whether a kubelet may give itself this label. It does not start with one that it may not; those come after the join.
fn may_register(key: &str) -> bool {
    const ALLOWED: [&str; 9] = [
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ];
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let is_below = |of: &str| prefix == of || prefix.ends_with(&format!(".{of}"));
    let reserved = is_below("kubernetes.io") || is_below("k8s.io");
    let open = is_below("kubelet.kubernetes.io") || is_below("node.kubernetes.io");
    !reserved || open || ALLOWED.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::launch::TaintEffect;

    #[test]
    fn a_node_is_told_which_cluster_and_what_to_register_with() {
        let join = Join {
            name: "ml-prod".into(),
            endpoint: "https://ABC.gr7.us-east-2.eks.amazonaws.com".into(),
            ca: "Q0E=".into(),
            cidr: "172.20.0.0/16".into(),
        };
        let labels = [("tidewright.dev/pool", "train"), ("node-role.kubernetes.io/gpu", "yes"), ("team", "vision")];
        let labels = labels.map(|(key, value)| (key.to_string(), value.to_string())).into();
        let taints = [
            Taint { key: "nvidia.com/gpu".into(), value: Some("present".into()), effect: TaintEffect::NoSchedule },
            Taint { key: "tidewright.dev/starting".into(), value: None, effect: TaintEffect::NoSchedule },
        ];
        insta::assert_snapshot!(nodeadm(&join, &labels, &taints), @r#"
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="//"

        --//
        Content-Type: application/node.eks.aws

        {
          "apiVersion": "node.eks.aws/v1alpha1",
          "kind": "NodeConfig",
          "spec": {
            "cluster": {
              "name": "ml-prod",
              "apiServerEndpoint": "https://ABC.gr7.us-east-2.eks.amazonaws.com",
              "certificateAuthority": "Q0E=",
              "cidr": "172.20.0.0/16"
            },
            "kubelet": {
              "flags": [
                "--node-labels=team=vision,tidewright.dev/pool=train",
                "--register-with-taints=nvidia.com/gpu=present:NoSchedule,tidewright.dev/starting=:NoSchedule"
              ]
            }
          }
        }
        --//--
        "#);
    }

    #[test]
    fn a_kubelet_is_not_asked_for_labels_that_it_refuses_to_start_with() {
        let may = ["team", "nvidia.com/gpu.present", "node.kubernetes.io/pool", "topology.kubernetes.io/zone"];
        assert!(may.iter().all(|key| may_register(key)));
        let may_not = ["node-role.kubernetes.io/gpu", "kubernetes.io/team", "x.k8s.io/y", "a.kubernetes.io/b"];
        assert!(may_not.iter().all(|key| !may_register(key)));
    }
}
