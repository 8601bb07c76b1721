//! What happens on a real cluster, from watches: told in the words that the simulator uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use serde_json::Value;
use tidewright::ids::NamespacedName;
use tidewright::scenario::events::{Happened, History};
use tokio::task::JoinSet;

use super::super::super::controlplane::Controlplane;
use super::super::super::controlplane::api::runtime;

/// Some nodes and namespaces, watched until this is dropped.
pub struct Watched {
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

struct State {
    nodes: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    gangs: BTreeMap<NamespacedName, Gang>,
    told: BTreeSet<String>,
    closed: BTreeSet<String>,
    /// What mig-manager last said, by node.
    cuts: BTreeMap<String, String>,
    history: History,
    /// When something last happened.
    last: Instant,
}

#[derive(Default)]
struct Gang {
    runs: bool,
    finished: bool,
}

impl Watched {
    pub fn start(plane: &Controlplane, nodes: &BTreeSet<String>) -> Watched {
        let state = Arc::new(Mutex::new(State {
            nodes: nodes.clone(),
            namespaces: BTreeSet::new(),
            gangs: BTreeMap::new(),
            told: BTreeSet::new(),
            closed: BTreeSet::new(),
            cuts: BTreeMap::new(),
            history: History::default(),
            last: Instant::now(),
        }));
        let mut tasks = JoinSet::new();
        let kinds: [(&str, &str, &str, See); 3] = [
            ("kueue.x-k8s.io", "v1beta2", "Workload", State::workload),
            ("", "v1", "Node", State::node),
            ("", "v1", "Pod", State::pod),
        ];
        for (group, version, kind, see) in kinds {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api = kube::Api::all_with(plane.api.client.clone(), &resource);
            tasks.spawn_on(follow(api, Arc::clone(&state), see), runtime().handle());
        }
        Watched { state, _tasks: tasks }
    }

    /// Work in these counts, too.
    pub fn namespaces<'a>(&self, names: impl Iterator<Item = &'a str>) {
        self.state().namespaces.extend(names.map(str::to_owned));
    }

    /// Waits until this is what happened, or a minute: what is missing then is told by whoever compares.
    pub fn comes(&self, lines: &[String]) {
        let began = Instant::now();
        while self.lines() != lines && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until nothing has happened for so long.
    #[track_caller]
    pub fn quiet(&self, long: Duration) {
        let began = Instant::now();
        while self.state().last.max(began).elapsed() < long {
            assert!(began.elapsed() < Duration::from_secs(360), "it never ends: {:#?}", self.lines());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn has_namespace(&self, name: &str) -> bool {
        self.state().namespaces.contains(name)
    }

    pub fn runs(&self, gang: &str) -> bool {
        self.state().gangs.iter().any(|(name, found)| &*name.name == gang && found.runs)
    }

    pub fn has_finished(&self, gang: &str) -> bool {
        self.state().gangs.iter().any(|(name, found)| &*name.name == gang && found.finished)
    }

    pub fn lines(&self) -> Vec<String> {
        self.state().history.lines()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

type See = fn(&mut State, &DynamicObject);

async fn follow(api: kube::Api<DynamicObject>, state: Arc<Mutex<State>>, see: See) {
    loop {
        if let Ok(stream) = api.watch(&WatchParams::default(), "0").await {
            let mut stream = stream.boxed();
            while let Ok(Some(event)) = stream.try_next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                    see(&mut state.lock().unwrap(), &object);
                }
            }
        }
        // An old watch was closed.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl State {
    fn happened(&mut self, happened: &Happened<'_>) {
        self.history.add(happened);
        self.last = Instant::now();
    }

    fn workload(&mut self, object: &DynamicObject) {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let Some(owner) = object.metadata.owner_references.iter().flatten().next() else { return };
        if !self.namespaces.contains(namespace) {
            return;
        }
        let name = NamespacedName::new(namespace, &owner.name);
        let status = |kind: &str| condition(&object.data, kind).map(|found| found["status"] == "True");
        let gang = self.gangs.entry(name.clone()).or_default();
        let (ran, was_finished) = (gang.runs, gang.finished);
        gang.finished = status("Finished") == Some(true);
        // Told to go, and its quota still its own: the simulator says nothing yet, either.
        gang.runs = !gang.finished
            && if ran { status("QuotaReserved") != Some(false) } else { status("Admitted") == Some(true) };
        let (runs, finished) = (gang.runs, gang.finished);
        match (ran, runs) {
            _ if finished && !was_finished => self.happened(&Happened::Finished(&name)),
            (false, true) => self.happened(&Happened::Admitted(&name)),
            (true, false) if !finished => {
                let evicted = condition(&object.data, "Evicted");
                let why = evicted.and_then(|found| found["reason"].as_str()).unwrap_or("nobody says why");
                let why = if why.ends_with("QueueStopped") { "QueueStopped" } else { why };
                self.happened(&Happened::Stopped(&name, why));
            }
            _ => {}
        }
    }

    fn node(&mut self, object: &DynamicObject) {
        let name = object.metadata.name.clone().unwrap_or_default();
        if !self.nodes.contains(&name) {
            return;
        }
        let at = name.as_str().into();
        let closed = object.data["spec"]["unschedulable"] == true;
        if closed && self.closed.insert(name.clone()) {
            self.happened(&Happened::Closed(&at));
        } else if !closed && self.closed.remove(&name) {
            self.happened(&Happened::Opened(&at));
        }
        let labels = object.metadata.labels.as_ref();
        let cut = labels.and_then(|labels| labels.get("nvidia.com/mig.config.state")).cloned().unwrap_or_default();
        let before = self.cuts.insert(name, cut.clone()).unwrap_or_default();
        if cut == "pending" && before != "pending" {
            self.happened(&Happened::Cut(&at));
        }
    }

    fn pod(&mut self, object: &DynamicObject) {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let target = condition(&object.data, "DisruptionTarget");
        let evicted = target.is_some_and(|found| found["reason"] == "EvictionByEvictionAPI");
        let uid = object.metadata.uid.clone().unwrap_or_default();
        if self.namespaces.contains(namespace) && evicted && self.told.insert(uid) {
            let pod = NamespacedName::new(namespace, object.metadata.name.as_deref().unwrap_or_default());
            self.happened(&Happened::Evicted { pod: &pod, forced: false });
        }
    }
}

fn condition<'a>(data: &'a Value, kind: &str) -> Option<&'a Value> {
    data["status"]["conditions"].as_array()?.iter().find(|found| found["type"] == kind)
}
