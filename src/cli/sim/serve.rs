//! `tidewright sim serve`: the simulated cloud behind a port, for clients of EC2.
//!
//! The world is the directory's own, and this process has it alone until it ends. A fleet in the directory says whose
//! account in which region it is, and what exists before anybody comes: the reservations that it adopts, the tags that it
//! finds its network by. A directory with no fleet is served as an account with nothing in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use jiff::Timestamp;

use crate::cli::session::{block_on, prepare, state_file, whole_seconds};
use crate::cli::{DONE, fail, stop, talk};
use crate::endpoint::serve::{Served, Speed, serve};
use crate::endpoint::{Endpoint, Fault, Options};
use crate::fleet::Fleet;
use crate::fleet::config::Cloud;
use crate::ids::NodeName;
use crate::load;
use crate::observed::NodeSeen;
use crate::provider::k8s::join::{Machine, Registrar};
use crate::provider::sim::Sim;
use crate::units::Duration;

pub const EXAMPLES: &str = "\
Examples:
  tidewright sim serve --ec2 127.0.0.1:8520              this directory's world
  tidewright sim serve fleet --ec2 127.0.0.1:0           another's, on any free port
  tidewright sim serve --ec2 127.0.0.1:8520 --speed 60   an hour a minute
  tidewright sim serve --ec2 127.0.0.1:8520 --fault 'cut-after RunInstances 2'
  tidewright sim serve --ec2 127.0.0.1:8520 --join ~/.kube/kwok

Then, with any credentials:
  AWS_ENDPOINT_URL=http://127.0.0.1:8520 aws ec2 describe-instance-types

What else can be ordered while it serves is told to whoever orders nonsense:
  curl -d '' http://127.0.0.1:8520/_tidewright/help";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The directory whose world is served; it may hold a fleet
    // Named apart from `--dir`, which every verb of `sim` has: clap takes two arguments of one name for one.
    #[arg(value_name = "DIR")]
    served: Option<PathBuf>,
    /// Where to listen for EC2, STS, SSM and SQS: 127.0.0.1:8520; port 0 takes one that is free
    #[arg(long, value_name = "ADDRESS")]
    ec2: SocketAddr,
    /// Register a Node in this cluster for every instance that boots, and remove it when the instance is gone; KWOK
    /// there keeps it alive
    #[arg(long, value_name = "KUBECONFIG")]
    join: Option<PathBuf>,
    /// How fast time passes there: 1 as everywhere, 60 an hour a minute, 0 only when it is told to
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = speed)]
    speed: Speed,
    /// How long a new instance is not listed yet
    #[arg(long, value_name = "LENGTH", default_value = "0s", value_parser = super::length)]
    lag: Duration,
    /// Answer every request, however many come
    #[arg(long)]
    no_throttle: bool,
    /// Keep nothing: an account that ends with the process
    #[arg(long)]
    in_memory: bool,
    #[arg(help = "What goes wrong on the wire: KIND [ACTION] [TIMES] [after CALLS]; may be given again")]
    #[arg(long, value_name = "FAULT", value_parser = fault)]
    fault: Vec<Fault>,
}

pub fn run(arguments: &Arguments, directory: &Path) -> Result<u8, u8> {
    let directory = arguments.served.as_deref().unwrap_or(directory);
    let sim = open(arguments, directory)?;
    // An account that is kept nowhere belongs to no directory, unless one is named.
    if !arguments.in_memory || arguments.served.is_some() {
        furnish(&sim, directory)?;
    }
    let options = Options { lag: arguments.lag.signed(), throttle: !arguments.no_throttle };
    let endpoint = Endpoint::new(options);
    arguments.fault.iter().for_each(|fault| endpoint.inject(fault.clone()));
    let served = Rc::new(Served::new(sim, endpoint, arguments.speed));
    block_on(tokio::task::LocalSet::new().run_until(listen(arguments, served)))
}

async fn listen(arguments: &Arguments, served: Rc<Served>) -> Result<u8, u8> {
    let address = arguments.ec2;
    if let Some(kubeconfig) = &arguments.join {
        let registrar = Registrar::connect(kubeconfig).await.map_err(|error| fail(&error.to_string()))?;
        tokio::task::spawn_local(join(registrar, served.clone()));
    }
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.map_err(|error| fail(&format!("cannot listen on {address}: {error}")))?;
    let bound = listener.local_addr().map_err(|error| fail(&error.to_string()))?;
    let (owner, region) = {
        let state = served.sim.state();
        (state.cloud.account.owner().to_string(), state.cloud.account.region().to_string())
    };
    // Whoever started it waits for this line, so it comes only now.
    talk(&format!("EC2 of account {owner} in {region}: http://{bound}\nCtrl-C ends it."));
    serve(listener, served, stop::asked()).await.map_err(|error| fail(&error.to_string()))?;
    Ok(DONE)
}

/// Once a second the cluster hears which machines are nodes. What cannot be said is said again, and told once.
async fn join(registrar: Registrar, served: Rc<Served>) {
    let mut told = String::new();
    loop {
        let (machines, now) = (machines(&served.sim), served.sim.now());
        match registrar.keep(&machines, now).await {
            Ok(()) => told.clear(),
            Err(error) if error.message != told => {
                talk(&format!("nodes cannot be registered: {error}"));
                told = error.message;
            }
            Err(_) => {}
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// The machines that have joined and are ready.
fn machines(sim: &Sim) -> BTreeMap<NodeName, Machine> {
    let state = sim.state();
    let seen = state.cluster.observe(state.now);
    let machine = |node: &NodeSeen| {
        let instance = node.instance.clone()?;
        let zone = state.cloud.instances.get(&instance).filter(|found| found.state.serves())?.zone.clone();
        let (labels, taints, allocatable) = (node.labels.clone(), node.taints.clone(), node.allocatable.clone());
        node.ready.then_some(Machine { instance, zone, labels, taints, allocatable })
    };
    seen.nodes.seen().iter().filter_map(|(name, node)| Some((name.clone(), machine(node)?))).collect()
}

fn open(arguments: &Arguments, directory: &Path) -> Result<Sim, u8> {
    let now = whole_seconds(Timestamp::now());
    if arguments.in_memory {
        return Ok(Sim::in_memory(now, 1));
    }
    if !directory.is_dir() {
        return Err(fail(&format!("`{}` is no directory", directory.display())));
    }
    let state = state_file(directory);
    prepare(&state).map_err(|error| fail(&format!("cannot make `{}`: {error}", state.display())))?;
    Sim::open(&state, now).map_err(|error| fail(&error.to_string()))
}

/// What is there before anybody comes.
fn furnish(sim: &Sim, directory: &Path) -> Result<(), u8> {
    let loaded = load::load(directory);
    if loaded.manifests.is_empty() {
        return Ok(());
    }
    let Some(fleet) = loaded.check(sim.now()).fleet else {
        talk(&format!(
            "The fleet in `{}` has mistakes, so nothing of it is here yet: see `tidewright validate`.",
            directory.display()
        ));
        return Ok(());
    };
    if let Cloud::Aws(aws) = &fleet.cloud.value {
        sim.aside(|state| state.cloud.account.be(Some(aws.account_id.clone()), Some(aws.region.clone())));
    }
    let target = fleet.target_at(sim.now());
    sim.furnish(&target).map_err(|error| fail(&format!("the simulator cannot hold what the fleet adopts: {error}")))?;
    tag_network(sim, &fleet);
    Ok(())
}

/// Subnets and security groups are found by their tags: here they carry those that the fleet asks for.
fn tag_network(sim: &Sim, fleet: &Fleet) {
    let standing = fleet.standing();
    for launch in standing.pools.values().filter_map(|pool| pool.launch.as_ref()) {
        sim.aside(|state| {
            let subnets: Vec<String> =
                state.cloud.account.zones().iter().map(|zone| state.cloud.subnet_of(zone)).collect();
            let group = state.cloud.fixed_id("sg", &["nodes"]);
            for subnet in subnets {
                state.cloud.account.tag(&subnet, launch.subnets.tags.clone());
            }
            state.cloud.account.tag(&group, launch.security_groups.tags.clone());
        });
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && times >= 0.0 => Ok(Speed(times)),
        _ => Err("expected a number such as 1, 60 or 0".into()),
    }
}

fn fault(text: &str) -> Result<Fault, String> {
    text.parse().map_err(|wrong: crate::units::Malformed| wrong.0)
}
