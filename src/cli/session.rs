//! What the verbs that look at the world share: the fleet of a directory, and the world that it lives in.
//!
//! The verbs name the planner, the judge, `apply` and the providers only through here. A fleet lives in the simulator, or
//! in a real cluster, whose nodes exist already or are launched in EC2; one that lives elsewhere gets an error that says
//! so.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::{ERROR, fail, talk};
use crate::apply::StopSignal;
use crate::audit::{Audited, audit};
use crate::effect::{self, Head, Ledger, LedgerChange, Part};
use crate::fleet::config::{AwsCloud, Cloud, Kubernetes};
use crate::fleet::{Fleet, Kind};
use crate::ids::FleetUid;
use crate::load::{self, Loaded};
use crate::plan::{Plan, PlanInput, plan};
use crate::provider::clock::SystemClock;
use crate::provider::k8s::K8s;
use crate::provider::metrics::Prometheus;
use crate::provider::nowhere::Nowhere;
use crate::provider::sim::{Sim, SimError};
use crate::provider::{Class, Clock, Cluster as _, PartValue, ProviderError, World};
use crate::render::diagnostics;
use crate::round::{self, Options};
use crate::units::Duration;

/// A fleet and the world that it lives in.
#[derive(Debug)]
pub struct Session {
    pub fleet: Fleet,
    /// The other documents are wrong, and the fleet is only what the Fleet document says.
    pub is_head_alone: bool,
    pub uid: FleetUid,
    /// It was opened for looking: what is planned is shown.
    looks: bool,
    place: Place,
    /// Somebody else has the world: what is to be remembered is written down for them, beside this file.
    notes: Option<PathBuf>,
    /// How the directory was written.
    pub directory: String,
    pub revision: Option<String>,
}

#[derive(Debug)]
enum Place {
    Simulated(Box<Sim>),
    /// A real cluster, where its nodes come from, and who measures.
    Cluster(Box<K8s>, Box<dyn Nodes>, Prometheus),
}

/// A cloud that can be looked at by whoever searches for mistakes.
trait Nodes: crate::provider::Cloud + std::fmt::Debug {}
impl<T: crate::provider::Cloud + std::fmt::Debug> Nodes for T {}

/// What somebody wants to do with the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Nobody is kept out, and nothing is written.
    Look,
    /// Ours alone until it is dropped.
    Change,
    /// Only what we remember is changed, also while somebody else is at work.
    Note,
    /// The same, also where nothing but the Fleet document is right: who stops a fleet need not mend it first.
    Stop,
}

/// Where the simulator's state lives. The loader passes over hidden directories.
pub fn state_file(directory: &Path) -> PathBuf {
    directory.join(".tidewright").join("sim.json")
}

/// What time it is in the simulator that a fleet lives in, once it has begun; a world that cannot be read is said.
pub fn simulated_now(directory: &Path, loaded: &Loaded) -> Result<Option<Timestamp>, u8> {
    let state = state_file(directory);
    let is_simulated = loaded.kubernetes().is_some_and(|cluster| matches!(cluster, Kubernetes::Sim(_)));
    let begun = is_simulated && state.is_file();
    let now = begun.then(|| Sim::peek(&state, Timestamp::UNIX_EPOCH).map(|sim| sim.now())).transpose();
    now.map_err(|error| fail(&error.to_string()))
}

impl Session {
    /// Reads the fleet and opens its world; what is wrong is said. A world that is not there yet begins now.
    pub fn open(directory: &Path, access: Access) -> Result<Self, u8> {
        Self::open_at(directory, access, whole_seconds(Timestamp::now()))
    }

    /// A new world that begins at an instant.
    pub fn begin(directory: &Path, at: Timestamp) -> Result<Self, u8> {
        let before = at.checked_sub(SignedDuration::from_secs(1)).unwrap_or(at);
        let session = Self::open_at(directory, Access::Change, before)?;
        // A world in which nothing happened is not written down.
        session.sim()?.advance(Duration::secs(1));
        Ok(session)
    }

    fn open_at(directory: &Path, access: Access, begin: Timestamp) -> Result<Self, u8> {
        let state = state_file(directory);
        // The simulator has its own time, in which the documents are judged; looking makes no file.
        let loaded = load::load(directory);
        let now = Sim::peek(&state, begin).map(|sim| sim.now()).unwrap_or(begin);
        let is_real = loaded.kubernetes().is_some_and(|cluster| !matches!(cluster, Kubernetes::Sim(_)));
        // A real cluster has the time that everybody has.
        let now = if is_real { SystemClock.now() } else { now };
        let alone = || if access == Access::Stop { head_alone(directory, now) } else { None };
        let (fleet, is_head_alone) = match checked(loaded, now) {
            Ok(fleet) => (fleet, false),
            Err(code) => (alone().ok_or(code)?, true),
        };
        supported(&fleet).map_err(|why| fail(&why))?;
        let looks = access == Access::Look;
        if is_real {
            let cluster = block_on(K8s::connect(&fleet.kubernetes, &fleet.name.value));
            let cluster = cluster.map_err(|error| fail(&error.to_string()))?;
            let uid = identity(&fleet, &cluster)?;
            let cloud = cloud_of(&fleet, &uid)?;
            let meter = meter(&fleet);
            let session = Self::new(fleet, Place::Cluster(Box::new(cluster), cloud, meter), None, directory);
            return Ok(Self { is_head_alone, uid, looks, ..session });
        }
        if access != Access::Look {
            prepare(&state).map_err(|error| fail(&format!("cannot make `{}`: {error}", state.display())))?;
        }
        let opened = match access {
            Access::Look => Sim::peek(&state, begin),
            Access::Change | Access::Note | Access::Stop => Sim::open(&state, begin),
        };
        let (sim, notes) = match opened {
            Err(SimError::Held { .. }) if matches!(access, Access::Note | Access::Stop) => {
                (Sim::peek(&state, begin), Some(state))
            }
            opened => (opened, None),
        };
        let sim = sim.map_err(|error| fail(&error.to_string()))?;
        let furnished = sim.furnish(&fleet.target_at(sim.now()));
        furnished.map_err(|error| fail(&format!("the simulator cannot hold what the fleet adopts: {error}")))?;
        sim.furnish_nodes(&fleet.target_at(sim.now()));
        Ok(Self { is_head_alone, looks, ..Self::new(fleet, Place::Simulated(Box::new(sim)), notes, directory) })
    }

    fn new(fleet: Fleet, place: Place, notes: Option<PathBuf>, directory: &Path) -> Self {
        // A simulated world holds one fleet: its name is enough.
        let uid = FleetUid::from(fleet.name.value.as_str());
        let (is_head_alone, looks, revision) = (false, true, revision(directory));
        Self { fleet, is_head_alone, uid, looks, place, notes, directory: directory.display().to_string(), revision }
    }

    pub fn world(&self) -> World<'_> {
        match &self.place {
            Place::Simulated(sim) => sim.world(),
            Place::Cluster(cluster, cloud, meter) => {
                World { cloud: &**cloud, cluster: &**cluster, meter, clock: &SystemClock }
            }
        }
    }

    pub fn now(&self) -> Timestamp {
        self.world().clock.now()
    }

    /// The simulated world, for those who move it by hand.
    pub fn sim(&self) -> Result<&Sim, u8> {
        match &self.place {
            Place::Simulated(sim) => Ok(sim),
            Place::Cluster(..) => {
                Err(fail(&format!("fleet {} lives in a real cluster, which nobody simulates", self.fleet.name.value)))
            }
        }
    }

    /// Writes down what the simulator did; a real cluster keeps itself.
    pub fn save(&self) -> Result<(), u8> {
        match &self.place {
            Place::Simulated(sim) => sim.save().map_err(|error| fail(&error.to_string())),
            Place::Cluster(..) => Ok(()),
        }
    }

    /// Everything that a plan of this moment depends on.
    pub fn input(&self, options: &Options) -> Result<PlanInput, u8> {
        let options = self.revised(options);
        let input = block_on(round::input(&self.fleet, &self.uid, self.world(), &options));
        self.ours(input.map_err(|error| fail(&format!("the ledger cannot be read: {error}")))?)
    }

    /// The same; none if a person wants it to end now.
    pub fn input_unless(&self, options: &Options, stop: &StopSignal) -> Result<Option<PlanInput>, u8> {
        let options = self.revised(options);
        let input = stop.unless_urgent(round::input(&self.fleet, &self.uid, self.world(), &options));
        let input = block_on(input).transpose();
        let input = input.map_err(|error| fail(&format!("the ledger cannot be read: {error}")))?;
        input.map(|input| self.ours(input)).transpose()
    }

    /// What this process launches carries the identity that it found when it began. Somebody who began the same fleet under
    /// another one since then is not worked against.
    fn ours(&self, input: PlanInput) -> Result<PlanInput, u8> {
        match &self.place {
            Place::Cluster(..) if input.fleet != self.uid => Err(fail(&format!(
                "the ledger belongs to {} now, and this began as {}: somebody else was faster, so run it again",
                input.fleet, self.uid
            ))),
            _ => Ok(input),
        }
    }

    fn revised(&self, options: &Options) -> Options {
        let revision = options.revision.clone().or_else(|| self.revision.clone());
        Options { revision, preview: self.looks, ..options.clone() }
    }

    /// Writes down what somebody decided.
    pub fn remember(&self, change: &LedgerChange) -> Result<(), u8> {
        if let Some(state) = &self.notes {
            Sim::note(state, change).map_err(|error| fail(&error.to_string()))?;
            talk("Somebody is at work on this fleet: it is told before its next step.");
            return Ok(());
        }
        let done = block_on(remember(self.world(), change));
        done.map_err(|error| fail(&format!("the ledger cannot be written: {error}")))?;
        self.save()
    }

    pub fn head(&self) -> Result<Head, u8> {
        self.ledger().map(|ledger| ledger.head)
    }

    pub fn ledger(&self) -> Result<Ledger, u8> {
        let read = block_on(self.world().cluster.ledger());
        read.map(|(ledger, _)| ledger).map_err(|error| fail(&format!("the ledger cannot be read: {error}")))
    }
}

/// The fleet that the documents say; what is wrong with them is said.
fn checked(loaded: Loaded, now: Timestamp) -> Result<Fleet, u8> {
    let checked = loaded.check(now);
    checked.fleet.ok_or_else(|| {
        talk(diagnostics::human(&checked.sources, &checked.diagnostics, true).trim_end());
        ERROR
    })
}

/// The fleet that the Fleet document alone says: its name, and where it lives.
fn head_alone(directory: &Path, now: Timestamp) -> Option<Fleet> {
    let mut head = load::load(directory);
    head.manifests.retain(|manifest| manifest.kind == Some(Kind::Fleet));
    head.diagnostics.clear();
    let fleet = head.check(now).fleet?;
    talk("The documents are wrong, and this is done all the same: it needs only the Fleet document.");
    Some(fleet)
}

/// Plans and judges. A plan that breaks a law is our mistake, and is never shown as if it were one to follow.
pub fn judged(input: &PlanInput) -> Result<(Plan, Audited), u8> {
    let plan = plan(input);
    match audit(input, plan.clone()) {
        Ok(audited) => Ok((plan, audited)),
        Err(violations) => {
            let mut lines: String = violations.iter().take(10).map(|violation| format!("\n  {violation}")).collect();
            if violations.len() > 10 {
                lines += &format!("\n  and {} more", violations.len() - 10);
            }
            Err(fail(&format!(
                "this plan breaks a law of its own, which is a mistake of tidewright, so nothing is done:{lines}\n\
                 please report it with the file that `tidewright plan --save-input FILE` writes"
            )))
        }
    }
}

/// How often a change of the ledger is tried when somebody else is faster.
const TRIES: u32 = 16;

/// Changes the part of the ledger that a change touches, unless it says so already.
async fn remember(world: World<'_>, change: &LedgerChange) -> Result<(), ProviderError> {
    let mut last = ProviderError::new(Class::Conflict, "the ledger changes all the time");
    let part = change.parts().into_iter().next().unwrap_or(Part::Head);
    for _ in 0..TRIES {
        let (value, version) = world.cluster.ledger_part(&part).await?;
        let mut ledger = Ledger::default();
        match (&part, &value) {
            (Part::Pool(pool), PartValue::Pool(Some(known))) => drop(ledger.pools.insert(pool.clone(), known.clone())),
            (_, PartValue::Head(head)) => ledger.head = *head.clone(),
            _ => {}
        }
        ledger.change(change);
        let next = match &part {
            Part::Head => PartValue::Head(Box::new(ledger.head)),
            Part::Pool(pool) => PartValue::Pool(ledger.pools.remove(pool)),
        };
        if next == value {
            return Ok(());
        }
        match world.cluster.swap_ledger(&part, &version, &next).await {
            Ok(_) => return Ok(()),
            Err(error) if error.class == Class::Conflict => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Who the fleet is, whatever it is called by now. The ledger says it, and what was launched carries it. Before there is
/// one, every process must find the same: the name, with what tells this cluster from others, because two clusters may
/// each have a fleet of that name in one account.
fn identity(fleet: &Fleet, cluster: &K8s) -> Result<FleetUid, u8> {
    let read = block_on(cluster.ledger());
    let (ledger, _) = read.map_err(|error| fail(&format!("the ledger cannot be read: {error}")))?;
    if let Some(uid) = ledger.head.fleet {
        return Ok(uid);
    }
    let uid =
        block_on(cluster.uid()).map_err(|error| fail(&format!("the cluster cannot be told from others: {error}")))?;
    Ok(effect::identity(&fleet.name.value, &uid))
}

/// Where a fleet's nodes come from.
fn cloud_of(fleet: &Fleet, uid: &FleetUid) -> Result<Box<dyn Nodes>, u8> {
    match &fleet.cloud.value {
        Cloud::Aws(aws) => ec2(aws, fleet, uid),
        Cloud::Sim(_) | Cloud::None(_) => Ok(Box::new(Nowhere)),
    }
}

#[cfg(feature = "aws")]
fn ec2(aws: &AwsCloud, _: &Fleet, uid: &FleetUid) -> Result<Box<dyn Nodes>, u8> {
    Ok(Box::new(block_on(crate::provider::aws::Aws::connect(aws, uid))))
}

#[cfg(not(feature = "aws"))]
fn ec2(_: &AwsCloud, fleet: &Fleet, _: &FleetUid) -> Result<Box<dyn Nodes>, u8> {
    let name = &fleet.name.value;
    Err(fail(&format!("fleet {name} has `cloud: {{aws: …}}`, and this program was built without: `--features aws`")))
}

/// Who is asked for what guards measure. Where nobody can be, it is said once and everything else goes on: whoever
/// freezes a fleet needs no number for it.
fn meter(fleet: &Fleet) -> Prometheus {
    let guarded = fleet.tides.iter().filter(|(_, tide)| tide.guard.is_some()).map(|(name, _)| name.to_string());
    let guarded: Vec<String> = guarded.collect();
    if guarded.is_empty() {
        return Prometheus::default();
    }
    let address = std::env::var(PROMETHEUS).unwrap_or_default();
    let found = match address.trim() {
        "" => Err("it is not set: write the address of the Prometheus into it, as http://HOST:PORT".into()),
        address => Prometheus::at(address),
    };
    found.unwrap_or_else(|why| {
        let tides = guarded.join(", ");
        super::talk(&format!(
            "{PROMETHEUS}: {why}\nuntil then nobody answers the guard of {tides}, and nothing is lent"
        ));
        Prometheus::default()
    })
}

/// Where the address of the Prometheus stands that answers the queries of guards.
const PROMETHEUS: &str = "TIDEWRIGHT_PROMETHEUS";

fn supported(fleet: &Fleet) -> Result<(), String> {
    let name = &fleet.name.value;
    match (&fleet.cloud.value, &fleet.kubernetes) {
        (Cloud::Aws(_), Kubernetes::Sim(_)) => Err(format!(
            "fleet {name} has `cloud: {{aws: …}}` and a simulated cluster: a machine of EC2 joins no simulated cluster\n\
             write `kubernetes: {{kubeconfig: {{context: …}}}}`, or `cloud: {{sim: {{}}}}` to simulate both"
        )),
        (Cloud::Aws(_) | Cloud::None(_), _) | (Cloud::Sim(_), Kubernetes::Sim(_)) => Ok(()),
        (Cloud::Sim(_), _) => Err(format!(
            "fleet {name} has a simulated cloud and a real cluster: a simulated machine joins no real cluster\n\
             write `kubernetes: {{sim: {{}}}}`, or `cloud: {{none: {{}}}}` for nodes that exist already"
        )),
    }
}

/// The directory of the state, kept out of git.
pub fn prepare(state: &Path) -> std::io::Result<()> {
    let Some(directory) = state.parent() else { return Ok(()) };
    fs::create_dir_all(directory)?;
    let ignore = directory.join(".gitignore");
    if ignore.exists() { Ok(()) } else { fs::write(ignore, "sim.json*\n") }
}

/// The commit that is checked out, where the directory is in a git repository.
fn revision(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    let git = directory.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    let git = if git.is_file() {
        let text = fs::read_to_string(&git).ok()?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    } else {
        git
    };
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return Some(head.trim().to_string()) };
    // The references of a worktree are those of the repository that it belongs to.
    let common = fs::read_to_string(git.join("commondir")).map(|path| git.join(path.trim())).unwrap_or(git);
    if let Ok(commit) = fs::read_to_string(common.join(name)) {
        return Some(commit.trim().to_string());
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| Some(line.strip_suffix(name)?.trim().to_string()))
}

/// Who sits here, for the record.
pub fn who() -> String {
    let names = ["TIDEWRIGHT_USER", "GITHUB_ACTOR", "GITLAB_USER_LOGIN", "USER", "LOGNAME", "USERNAME"];
    let found = names.iter().filter_map(|name| std::env::var(name).ok()).find(|name| !name.trim().is_empty());
    found.or_else(owner).unwrap_or_else(|| "somebody".into())
}

/// Whom this process runs as, where the system tells: nothing says so in a container, or under cron.
fn owner() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let id = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1))?;
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|parts| parts.get(2) == Some(&id));
    named.and_then(|parts| parts.first().map(ToString::to_string)).or_else(|| Some(format!("uid {id}")))
}

/// Nothing here is finer.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

thread_local! {
    /// One for as long as the program runs: connections live in it between two calls.
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system gives a program its timers and sockets");
}

/// Runs to the end on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}
