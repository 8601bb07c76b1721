//! The way to the cluster: a context of the kubeconfig, or the service account of the pod that we run in.
//!
//! What is wrong with it is told before anything else is done, with what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use http::{Request, Uri};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::wire::Wire;
use crate::fleet::config::Kubernetes;

/// Longer than that nobody waits for a connection that will not come.
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no way, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}\n{fix}")]
pub struct NoWay {
    pub what: String,
    pub fix: String,
}

/// What a pod is given to speak to the cluster that it runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceAccount {
    pub host: String,
    pub port: String,
    /// Holds `token`, which is read again as it is renewed, and `ca.crt`.
    pub folder: PathBuf,
}

/// Where the kubelet mounts it.
const MOUNTED: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl ServiceAccount {
    /// As the kubelet tells it to every pod.
    fn of_this_pod() -> Result<Self, NoWay> {
        let told = |name: &str| std::env::var(name).map_err(|_| no_cluster(&format!("{name} is not set")));
        let (host, port) = (told("KUBERNETES_SERVICE_HOST")?, told("KUBERNETES_SERVICE_PORT")?);
        Ok(Self { host, port, folder: MOUNTED.into() })
    }

    pub async fn config(&self) -> Result<Config, NoWay> {
        let [token, authority] = ["token", "ca.crt"].map(|name| self.folder.join(name));
        // Without a token the server would take us for nobody, and say no to each request by itself.
        if let Err(error) = std::fs::metadata(&token) {
            return Err(no_cluster(&format!("{}: {error}", token.display())));
        }
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let file = json!({
            "current-context": "pod",
            "contexts": [{"name": "pod", "context": {"cluster": "own", "user": "own"}}],
            "clusters": [{"name": "own", "cluster": {
                "server": format!("https://{host}:{}", self.port), "certificate-authority": authority}}],
            "users": [{"name": "own", "user": {"tokenFile": token}}],
        });
        let file: Kubeconfig = serde_json::from_value(file).map_err(|error| no_cluster(&error.to_string()))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| no_cluster(&error.to_string()))?;
        config.root_cert_file = Some(authority);
        Ok(config)
    }
}

fn no_cluster(why: &str) -> NoWay {
    NoWay {
        what: format!(
            "`kubernetes: {{inCluster: {{}}}}` means the cluster that this runs in, and there is no way to one: {why}"
        ),
        fix: "outside of a cluster write `kubernetes: {kubeconfig: {context: NAME}}`; inside, let the pod have its \
              service account's token (`automountServiceAccountToken`)"
            .into(),
    }
}

/// Opens the way; nothing is asked yet.
pub async fn connect(kubernetes: &Kubernetes) -> Result<Wire, NoWay> {
    let config = match kubernetes {
        Kubernetes::Kubeconfig(named) => of_kubeconfig(&named.context).await?,
        Kubernetes::InCluster(_) => ServiceAccount::of_this_pod()?.config().await?,
        Kubernetes::Sim(_) => {
            return Err(NoWay {
                what: "the simulated cluster is not reached over a network".into(),
                fix: "write `kubernetes: {kubeconfig: {context: NAME}}`".into(),
            });
        }
    };
    client(config).map(Wire::new)
}

/// A client that does exactly what it is asked, once.
pub fn client(mut config: Config) -> Result<Client, NoWay> {
    config.connect_timeout = Some(CONNECT);
    // On by default, and it would repeat refused evictions and requests whose answer was lost.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| NoWay {
        what: format!("the cluster cannot be spoken to: {error}"),
        fix: "look at the user and the certificates of this context in the kubeconfig".into(),
    })
}

/// The current context of a file that somebody names.
pub async fn of_file(path: &std::path::Path) -> Result<Wire, NoWay> {
    let shown = path.display();
    let fix = format!("`kubectl --kubeconfig {shown} get nodes` must work first");
    let read = Kubeconfig::read_from(path).map_err(|error| NoWay {
        what: format!("`{shown}` cannot be read as a kubeconfig: {error}"),
        fix: fix.clone(),
    })?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| NoWay { what: format!("`{shown}` cannot be used: {error}"), fix })?;
    client(config).map(Wire::new)
}

async fn of_kubeconfig(context: &str) -> Result<Config, NoWay> {
    let read = Kubeconfig::read().map_err(|error| unreadable(&error))?;
    let known: Vec<&str> = read.contexts.iter().map(|one| one.name.as_str()).collect();
    if !known.contains(&context) {
        let known = if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) };
        return Err(NoWay {
            what: format!("the kubeconfig has no context `{context}`: {known}"),
            fix: "correct `kubernetes.kubeconfig.context` of the Fleet, or point KUBECONFIG at the file that has it"
                .into(),
        });
    }
    let options = KubeConfigOptions { context: Some(context.into()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(read, &options).await;
    config.map_err(|error| NoWay {
        what: format!("the context `{context}` of the kubeconfig cannot be used: {error}"),
        fix: format!("`kubectl --context {context} get nodes` must work first"),
    })
}

fn unreadable(error: &KubeconfigError) -> NoWay {
    let fix = match error {
        KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath => {
            "make one with your cluster's tool, such as `aws eks update-kubeconfig`, or point KUBECONFIG at it"
        }
        _ => "look at the file: it is not a kubeconfig",
    };
    NoWay { what: format!("there is no kubeconfig to read: {error}"), fix: fix.into() }
}

/// What any other server of the cluster answers to a plain question, if it answers in JSON and in time.
pub async fn answer(address: Uri, path: &str, patience: Duration) -> Option<Value> {
    // Who is spoken to in the open shows no certificate, and an image may have none to judge it by.
    let is_open = address.scheme_str() == Some("http");
    let mut config = Config::new(address);
    config.root_cert = is_open.then(Vec::new);
    config.connect_timeout = Some(patience);
    config.read_timeout = Some(patience);
    config.default_retry = false;
    let client = Client::try_from(config).ok()?;
    let request = Request::get(path).body(Vec::new()).ok()?;
    tokio::time::timeout(patience, client.request(request)).await.ok()?.ok()
}
