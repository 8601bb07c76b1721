//! What happened to each thing of a cluster, in the order in which it happened, in words that hold no time, no UID and
//! no drawn name: the simulated cluster and a real one that did the same say the same.

use std::collections::BTreeMap;

use crate::ids::{NamespacedName, NodeName};
use crate::provider::sim::cluster::{ClusterState, Entry};

/// What happened, by what it happened to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct History(BTreeMap<String, Vec<String>>);

/// One thing that happened, as far as two worlds can agree on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened<'a> {
    Admitted(&'a NamespacedName),
    /// A gang lost its quota: Kueue's reason.
    Stopped(&'a NamespacedName, &'a str),
    Finished(&'a NamespacedName),
    /// A gang goes on with fewer pods.
    Shrunk(&'a NamespacedName, u32),
    /// A pod was told to go, through the eviction API or without asking it.
    Evicted {
        pod: &'a NamespacedName,
        forced: bool,
    },
    Closed(&'a NodeName),
    Opened(&'a NodeName),
    Cut(&'a NodeName),
}

impl History {
    pub fn add(&mut self, happened: &Happened<'_>) {
        let (what, word) = match happened {
            Happened::Admitted(gang) => (format!("gang {gang}"), "admitted".into()),
            Happened::Stopped(gang, why) => (format!("gang {gang}"), format!("stopped ({why})")),
            Happened::Finished(gang) => (format!("gang {gang}"), "finished".into()),
            Happened::Shrunk(gang, pods) => (format!("gang {gang}"), format!("shrunk to {pods}")),
            Happened::Evicted { pod, forced: false } => (format!("pods {}", maker(pod)), "evicted".into()),
            Happened::Evicted { pod, forced: true } => (format!("pods {}", maker(pod)), "deleted".into()),
            Happened::Closed(node) => (format!("node {node}"), "closed".into()),
            Happened::Opened(node) => (format!("node {node}"), "opened".into()),
            Happened::Cut(node) => (format!("node {node}"), "cut".into()),
        };
        self.0.entry(what).or_default().push(word);
    }

    /// One line for each thing.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(what, words)| format!("{what}: {}", words.join(", "))).collect()
    }
}

/// Of the simulated cluster, as far back as it remembers.
pub fn of(cluster: &ClusterState) -> History {
    let mut history = History::default();
    for (_, entry) in cluster.log() {
        let happened = match entry {
            Entry::Admitted { gang } => Happened::Admitted(gang),
            Entry::Stopped { gang, why } => Happened::Stopped(gang, why),
            Entry::Finished { gang } => Happened::Finished(gang),
            Entry::Shrunk { gang, pods } => Happened::Shrunk(gang, *pods),
            Entry::Evicted { pod, forced } => Happened::Evicted { pod, forced: *forced },
            Entry::Closed { node } => Happened::Closed(node),
            Entry::Opened { node } => Happened::Opened(node),
            Entry::Cut { node, .. } => Happened::Cut(node),
            Entry::Joined { .. } | Entry::Left { .. } | Entry::Killed { .. } | Entry::Violated(_) => continue,
        };
        history.add(&happened);
    }
    history
}

/// Who made a pod: its name without what was drawn for it.
fn maker(pod: &NamespacedName) -> String {
    let name = pod.name.rsplit_once('-').map_or(&*pod.name, |(maker, _)| maker);
    format!("{}/{name}", pod.namespace)
}
