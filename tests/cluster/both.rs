//! Scripts of `tests/scenarios/` carried out on a real cluster: what happened to every gang, node and service must be
//! what the simulator says, which is what stands in the script under `show events`.
//!
//! Only what a cluster of existing nodes knows: documents, nodes, work, people and rounds. `advance` waits until
//! nothing happens any more, and from then on the documents say every time of day so much earlier: the cluster's clock is
//! the real one. `approve` is the `--yes` of the next round, and everything else that a command prints is the simulator's.

mod watched;
mod work;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidewright::provider::sim::cluster::MigFault;
use tidewright::scenario::command::{Act, Command, Expect, From, Order, Place, Run};
use tidewright::scenario::documents::Documents;
use tidewright::scenario::{self, Item};

use super::super::controlplane::mig::{Fault, Maps, Operands, Timing};
use super::super::controlplane::objects::namespace;
use super::super::controlplane::{Controlplane, GpuNodes, Settings, eventually, shared};
use super::teams::tidewright;
use watched::Watched;

/// Nothing happened for so long: Kueue and the controllers are done.
const QUIET: Duration = Duration::from_secs(3);

/// A script in the middle of being carried out.
struct Stage {
    plane: Box<dyn Deref<Target = Controlplane>>,
    directory: tempfile::TempDir,
    documents: Documents,
    watched: Watched,
    /// How much later it is here than in the script.
    later: SignedDuration,
    /// NVIDIA's parts on the script's nodes, where it cuts them.
    operands: Option<Operands>,
}

fn check(name: &str) {
    let Some(plane) = shared() else { return };
    carry_out(name, Box::new(plane), false);
}

/// On a cluster of its own, whose nodes are cut: it has one file of cuts.
fn check_with_cuts(name: &str) {
    let Some(plane) = Controlplane::start(Settings::default()) else { return };
    plane.api.create(&namespace("gpu-operator")).unwrap();
    carry_out(name, Box::new(plane), true);
}

fn carry_out(name: &str, plane: Box<dyn Deref<Target = Controlplane>>, cuts: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/scenarios/{name}.tw"));
    let (script, commands) = scenario::parsed(&std::fs::read_to_string(path).unwrap()).unwrap();
    let watched = Watched::start(&plane, &nodes(&commands));
    let maps = Maps {
        namespace: "gpu-operator".into(),
        mig: "tidewright-mig-parted".into(),
        device_plugin: "tidewright-device-plugin".into(),
    };
    let operands = cuts.then(|| Operands::start(&plane, "", maps, Timing::default()));
    let (directory, documents) = (tempfile::tempdir().unwrap(), Documents::default());
    let mut stage = Stage { plane, directory, documents, watched, later: SignedDuration::ZERO, operands };
    for (item, command) in script.items.iter().zip(&commands) {
        stage.step(item, command);
    }
}

fn nodes(commands: &[Command]) -> BTreeSet<String> {
    let names = commands.iter().filter_map(|command| match command {
        Command::Act(Act::Existing { node, .. }) => Some(node.clone()),
        _ => None,
    });
    names.collect()
}

impl Stage {
    fn step(&mut self, item: &Item, command: &Command) {
        match command {
            Command::Start { at, .. } => self.later = Timestamp::now().duration_since(*at),
            Command::Fleet(_) | Command::Edit(_) | Command::Delete { .. } | Command::Add(_) => {
                self.change_documents(command);
            }
            Command::Act(act) => self.act(item, act),
            Command::Work(work) => self.work(item, work),
            Command::Order(order) => self.order(item, order),
            Command::Run(run) => self.run(item, run),
            Command::Expect(expect) => self.expect(item, expect),
            _ => unknown(item),
        }
    }

    fn change_documents(&mut self, command: &Command) {
        match command {
            Command::Fleet(From::Text(text)) => self.documents = Documents::new(text),
            Command::Edit(edits) => edits.iter().for_each(|(from, to)| self.documents.edit(from, to).unwrap()),
            Command::Delete { kind, name } => self.documents.remove(*kind, name).unwrap(),
            Command::Add(text) => self.documents.add(text),
            _ => panic!("documents stand in the script"),
        }
        self.write();
        let target = self.target();
        let namespaces = target.standing.quotas.values().flat_map(|quota| &quota.namespaces);
        self.watched.namespaces(namespaces.map(|(name, _)| name.as_str()));
    }

    /// The documents, with the times of day at which it is now here what it is then in the script.
    fn write(&self) {
        let text = self.documents.text().replace("kubernetes: {sim: {}}", "kubernetes: {kubeconfig: {context: bench}}");
        let later = |word: &str| {
            let time = (word.len() == 5).then(|| jiff::civil::Time::strptime("%H:%M", word).ok()).flatten()?;
            Some(time.wrapping_add(self.later).strftime("%H:%M").to_string())
        };
        let words: Vec<String> = text.split('"').map(|word| later(word).unwrap_or_else(|| word.to_owned())).collect();
        std::fs::write(self.directory.path().join("fleet.yaml"), words.join("\"")).unwrap();
    }

    fn target(&self) -> tidewright::fleet::Target {
        let now = jiff::Timestamp::now();
        self.documents.fleet(now).unwrap().target_at(now)
    }

    fn tidewright(&self, arguments: &[&str], codes: &[i32]) {
        let (code, said) = tidewright(&self.plane, self.directory.path(), arguments);
        assert!(codes.contains(&code), "{arguments:?} ended with {code}: {said}");
    }

    fn act(&self, item: &Item, act: &Act) {
        match act {
            Act::Existing { node, kind, labels, .. } => {
                assert_eq!(kind.as_str(), "p5.48xlarge", "other types are not known here");
                let mut nodes = GpuNodes::named(node);
                nodes.labels.extend(labels.iter().cloned());
                self.plane.add_nodes(&nodes);
            }
            Act::Cordon { place, on } => self.node(place, json!({"spec": {"unschedulable": on}})),
            Act::Label { place, key, value, .. } => self.node(place, json!({"metadata": {"labels": {key: value}}})),
            Act::Mig { fault: MigFault::Fail, place } => {
                self.operands.as_ref().unwrap_or_else(|| unknown(item)).inject(&place.0, Fault::CannotDivide);
            }
            _ => unknown(item),
        }
    }

    fn node(&self, place: &Place, patch: Value) {
        self.plane.api.merge(&format!("/api/v1/nodes/{}", place.0), &patch).unwrap();
    }

    fn order(&self, item: &Item, order: &Order) {
        match order {
            Order::Quarantine { place, reason } => self.tidewright(&["quarantine", &place.0, "--reason", reason], &[0]),
            Order::Return(place) => self.tidewright(&["return", &place.0], &[0]),
            // A person's drain carries itself out, as far as it goes at once; the simulator's is carried out by the rounds
            // that follow.
            Order::Drain { place, reason, force: false } => {
                self.tidewright(&["drain", &place.0, "--yes", "--wait", "0s", "--reason", reason], &[0, 3]);
            }
            Order::Undrain(place) => self.tidewright(&["undrain", &place.0], &[0]),
            _ => unknown(item),
        }
    }

    fn run(&mut self, item: &Item, run: &Run) {
        match run {
            Run::Converge { .. } => self.tidewright(&["apply", "--until-converged", "--yes"], &[0, 3]),
            Run::Approve => {}
            Run::Advance(long) => {
                self.watched.quiet(QUIET);
                self.later -= long.signed();
                self.write();
            }
            Run::Events => {
                // A machine with much to do takes its time; and when it is all there, nothing more may come.
                self.watched.comes(&item.expected);
                self.watched.quiet(QUIET);
                assert_eq!(self.watched.lines(), item.expected, "line {}: {}", item.line, item.text);
            }
            _ => unknown(item),
        }
    }

    fn expect(&self, item: &Item, expect: &Expect) {
        eventually(&format!("line {}: {}", item.line, item.text), 60, || {
            let is_so = match expect {
                Expect::Running { gang, yes } => self.watched.runs(gang) == *yes,
                Expect::Cordoned { place, yes } => (self.plane.node(&place.0)["spec"]["unschedulable"] == true) == *yes,
                Expect::Shows { place, resource, amount } => self.shows(place, resource) == amount.to_string(),
                _ => unknown(item),
            };
            is_so.then_some(())
        });
    }
}

impl Stage {
    /// How much of a resource the node of a slot has.
    fn shows(&self, place: &Place, resource: &str) -> String {
        let (pool, slot) = place.0.split_once('/').unwrap();
        let selector = format!("tidewright.dev/pool={pool},tidewright.dev/slot={slot}");
        let nodes = self.plane.api.list(&format!("/api/v1/nodes?labelSelector={selector}"));
        let [node] = &nodes[..] else { panic!("{place:?} has {} nodes", nodes.len()) };
        node["status"]["allocatable"][resource].as_str().unwrap_or("0").to_owned()
    }
}

fn unknown(item: &Item) -> ! {
    panic!("line {}: on a real cluster there is no: {}", item.line, item.text)
}

/// A script's name is the name of its file, and no sentence.
macro_rules! scripts {
    ($check:ident: $($name:ident)*) => { $(#[test] fn $name() { $check(stringify!($name)); })* };
}

scripts! {
    check:
    budget_is_kept_in_a_drain
    budget_that_blocks_holds_a_drain
    closed_by_somebody_stays_closed
    emptied_node_is_opened_by_its_person
    fabric_change_disturbs_nobody
    gang_waits_for_a_whole_leaf
    higher_tier_takes_a_place
    loan_of_a_night_ends_before_morning
    owner_takes_back_what_it_lent
    quarantined_node_moves_its_gang
    raised_quota_takes_from_who_borrows
    taint_shuts_nobody_out
    whoever_comes_back_is_not_sent_again
}

scripts! {
    check_with_cuts:
    cut_that_fails_is_ordered_again
}
