//! Who may speak to the API server: the components and the admin by static tokens, everybody else as a service account
//! with exactly the rules that a test gives.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::plane::Controlplane;

/// Each component under its own name, so that the audit log tells them apart.
const COMPONENTS: &[&str] = &["kube-controller-manager", "kube-scheduler", "kueue", "kwok"];

/// Not secret: the server listens on loopback, for the time of a test run.
pub fn token(user: &str) -> String {
    format!("token-of-{user}")
}

pub fn write_tokens(directory: &Path) {
    let line = |user: &str, name: String| format!("{},{name},{user},system:masters\n", token(user));
    let mut lines = line("admin", "admin".to_owned());
    lines.extend(COMPONENTS.iter().map(|user| line(user, format!("system:{user}"))));
    std::fs::write(directory.join("tokens.csv"), lines).unwrap();
}

/// Writes `NAME.kubeconfig`. Without a token it is for those whom nobody knows.
pub fn write_kubeconfig(directory: &Path, name: &str, url: &str, authority: &Path, token: &str) -> PathBuf {
    let user = if token.is_empty() { json!({}) } else { json!({"token": token}) };
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": name}}],
    });
    let path = directory.join(format!("{name}.kubeconfig"));
    std::fs::write(&path, content.to_string()).unwrap();
    path
}

/// The admin's kubeconfig under a component's name.
pub fn component_kubeconfig(directory: &Path, component: &str) -> PathBuf {
    let admin: Value = serde_json::from_slice(&std::fs::read(directory.join("admin.kubeconfig")).unwrap()).unwrap();
    let cluster = &admin["clusters"][0]["cluster"];
    let authority = Path::new(cluster["certificate-authority"].as_str().unwrap());
    write_kubeconfig(directory, component, cluster["server"].as_str().unwrap(), authority, &token(component))
}

impl Controlplane {
    /// The kubeconfig of a service account that may do what the rules of a ClusterRole say, and nothing else. In the
    /// audit log it is `system:serviceaccount:default:NAME`.
    #[track_caller]
    pub fn limited_user(&self, name: &str, rules: &Value) -> PathBuf {
        let api = &self.api;
        api.create(
            &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}),
        )
        .unwrap();
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        api.create(&role).unwrap();
        api.create(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }))
        .unwrap();
        self.service_account("default", name)
    }

    /// The kubeconfig of a service account that is there.
    #[track_caller]
    pub fn service_account(&self, namespace: &str, name: &str) -> PathBuf {
        let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let granted = self.api.post(&path, &wanted).unwrap();
        let token = granted["status"]["token"].as_str().unwrap();
        write_kubeconfig(&self.directory, name, &self.url, &self.certificates.authority, token)
    }

    /// What the API server was asked, oldest first, as audit.k8s.io/v1 Events: those that hold this text, such as a
    /// name. The log of a long run has hundreds of megabytes, and nobody wants to read all of it.
    pub fn audit(&self, text: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.directory.join("audit.log")).unwrap_or_default();
        // The last line may be half written.
        log.lines().filter(|line| line.contains(text)).filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}
