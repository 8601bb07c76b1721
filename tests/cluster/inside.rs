//! `kubernetes: {inCluster: {}}`: the way that a pod has, with the files that the kubelet mounts, as whoever its service
//! account is and nobody else.

use assert_cmd::Command;
use serde_json::{Value, json};
use tidewright::provider::Cluster;
use tidewright::provider::k8s::K8s;
use tidewright::provider::k8s::client::{self, ServiceAccount};

use super::super::controlplane::block;
use super::{node, server, target};

const POOL: &str = "kind: NodePool
metadata: {name: inside}
spec: {instanceType: p5.48xlarge, nodes: 1, capacity: [{existing: {labels: {rack: inside}}}]}
";

#[test]
fn a_pod_speaks_to_its_own_cluster_as_its_service_account() {
    let Some(plane) = server() else { return };
    plane.api.create(&node("inside")).unwrap();
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]);
    let kubeconfig: Value =
        serde_json::from_str(&std::fs::read_to_string(plane.limited_user("podling", &rules)).unwrap()).unwrap();
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let url: http::Uri = cluster["server"].as_str().unwrap().parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mount = |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
    let account = ServiceAccount {
        host: url.host().unwrap().into(),
        port: url.port().unwrap().to_string(),
        folder: folder.path().into(),
    };
    let missing = block(account.config()).unwrap_err();
    assert!(missing.what.contains("token") && missing.fix.contains("kubeconfig"), "{missing}");

    mount("token", kubeconfig["users"][0]["user"]["token"].as_str().unwrap().as_bytes());
    mount("ca.crt", &std::fs::read(cluster["certificate-authority"].as_str().unwrap()).unwrap());
    let look = || {
        block(async {
            let client = client::client(account.config().await.unwrap()).unwrap();
            K8s::with(client, &"inside".into()).observe(&target("inside", POOL)).await
        })
    };
    let seen = look();
    assert!(seen.nodes.whole().expect("nodes may be listed").contains_key("inside"));
    let gap = seen.pods.gap().expect("pods may not");
    assert!(gap.why.contains("system:serviceaccount:default:podling"), "{gap:?}");

    // Somebody else's certificate is not believed.
    mount("ca.crt", rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap().cert.pem().as_bytes());
    assert!(look().nodes.gap().is_some());
}

#[test]
fn outside_of_a_cluster_it_is_said_what_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let fleet = "apiVersion: tidewright.dev/v1alpha1\nkind: Fleet\nmetadata: {name: inside}\nspec: {timeZone: UTC, \
        cloud: {none: {}}, kubernetes: {inCluster: {}}}\n---\n";
    let pool = POOL.replace("kind: ", "apiVersion: tidewright.dev/v1alpha1\nkind: ");
    std::fs::write(directory.path().join("fleet.yaml"), format!("{fleet}{pool}")).unwrap();
    let mut command = Command::cargo_bin("tidewright").unwrap();
    command.env_remove("KUBERNETES_SERVICE_HOST").current_dir(directory.path()).arg("plan");
    let said = command.assert().code(1);
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(said.contains("KUBERNETES_SERVICE_HOST is not set") && said.contains("kubeconfig"), "{said}");
}
