//! The way to the cluster: a context of the kubeconfig, or the service account of the pod that we run in.
//!
//! What is wrong with it is told before anything else is done, with what to do about it.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

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

/// Opens the way; nothing is asked yet.
pub async fn connect(kubernetes: &Kubernetes) -> Result<Wire, NoWay> {
    let config = match kubernetes {
        Kubernetes::Kubeconfig(named) => of_kubeconfig(&named.context).await?,
        Kubernetes::InCluster(_) => Config::incluster().map_err(|error| NoWay {
            what: format!(
                "`kubernetes: {{inCluster: {{}}}}` means the cluster that this runs in, and it runs in none: {error}"
            ),
            fix: "outside of a cluster write `kubernetes: {kubeconfig: {context: NAME}}`".into(),
        })?,
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
