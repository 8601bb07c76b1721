//! The API server as a test speaks to it: paths and JSON, one call after the other.
//!
//! Not the product's client: what judges it must not share its mistakes.

use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Posts this many objects at once: 200 nodes take one and a half seconds so, fourteen one by one.
const AT_ONCE: usize = 8;

#[derive(Clone)]
pub struct Api {
    pub client: kube::Client,
}

/// The server's no, or that there was no answer (status 0).
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    pub status: u16,
    pub message: String,
}

/// The runtime that all control planes of this process share: clients and stand-ins live as long as it.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

pub fn block<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

/// A time that is ample on an idle machine may be short on one that others use too. Waiting longer costs only whoever
/// fails anyway.
const PATIENCE: u64 = 3;

/// Asks again and again until there is an answer, and fails after `secs` on an idle machine.
#[track_caller]
pub fn eventually<T>(what: &str, secs: u64, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    let secs = secs * PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(secs), "after {secs} s still not: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Api {
    pub fn new(kubeconfig: &Path) -> Api {
        block(async {
            let file = Kubeconfig::read_from(kubeconfig).unwrap();
            let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
            // A test that waits for a server that is down wants to know now.
            config.default_retry = false;
            config.connect_timeout = Some(Duration::from_secs(5));
            Api { client: kube::Client::try_from(config).unwrap() }
        })
    }

    pub fn get(&self, path: &str) -> Result<Value, Refused> {
        block(self.send("GET", path, "application/json", None))
    }

    /// The items of a list, or of none.
    #[track_caller]
    pub fn list(&self, path: &str) -> Vec<Value> {
        match self.get(path).unwrap()["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path} is no list: {other}"),
        }
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        block(self.send("POST", path, "application/json", Some(body)))
    }

    pub fn merge(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        block(self.send("PATCH", path, "application/merge-patch+json", Some(body)))
    }

    /// Creates the object where its apiVersion, kind and namespace say.
    pub fn create(&self, object: &Value) -> Result<Value, Refused> {
        self.post(&collection(object), object)
    }

    /// Creates them all, some at a time.
    #[track_caller]
    pub fn create_all(&self, objects: &[Value]) {
        let refused: Vec<Refused> =
            block(
                futures_util::stream::iter(objects)
                    .map(|object| async move {
                        self.send("POST", &collection(object), "application/json", Some(object)).await
                    })
                    .buffer_unordered(AT_ONCE)
                    .filter_map(|answer| async { answer.err() })
                    .collect(),
            );
        assert_eq!(refused, []);
    }

    /// Merges each body into what is at its path, some at a time.
    #[track_caller]
    pub fn merge_all(&self, changes: &[(String, Value)]) {
        let merge = |(path, body): &(String, Value)| {
            let (path, body) = (path.clone(), body.clone());
            async move { self.send("PATCH", &path, "application/merge-patch+json", Some(&body)).await }
        };
        let answers = futures_util::stream::iter(changes).map(merge).buffer_unordered(AT_ONCE);
        let refused: Vec<Refused> = block(answers.filter_map(|answer| async { answer.err() }).collect());
        assert_eq!(refused, []);
    }

    /// Deletes what is there, one object or a whole collection.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        block(self.send("DELETE", path, "application/json", None)).unwrap();
    }

    pub async fn send(&self, verb: &str, path: &str, kind: &str, body: Option<&Value>) -> Result<Value, Refused> {
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let request = kube::client::Body::from(body);
        let request =
            http::Request::builder().method(verb).uri(path).header("content-type", kind).body(request).unwrap();
        let no_answer = |error: kube::Error| Refused { status: 0, message: error.to_string() };
        let answer = self.client.send(request).await.map_err(no_answer)?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await.map_err(no_answer)?;
        let read = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        if status < 300 {
            return Ok(read);
        }
        let message = read["message"].as_str().map_or_else(|| read.to_string(), str::to_owned);
        Err(Refused { status, message })
    }
}

/// The path of the collection that an object belongs to.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{version}/{plural}"),
    }
}
