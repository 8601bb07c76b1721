//! What it costs to plan and to judge a plan, and how that grows with the fleet. Run with `cargo bench --bench plan`.
//!
//! Processor time, not a clock, and the fastest of several rounds: a machine with other work on it gives nearly the
//! same numbers. Every allocation is counted, which makes all of it a little slower than it is without. The yardstick
//! beside the limits is the digest of the same input: whoever reads every pod once costs about that.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "plan/world.rs"]
mod world;

use std::hint::black_box;
use std::time::Duration;

use allocation_counter::measure;
use cpu_time::ProcessTime;
use tidewright::audit::audit;
use tidewright::compile::compile;
use tidewright::effect::digest_of;
use tidewright::plan::{Plan, PlanInput, plan};
use world::{Edit, PODS_A_NODE};

/// The promise: what 5,000 nodes with 150,000 pods may take.
const PROMISED: usize = 5_000;
const MOST_SECS: f64 = 1.0;
const MOST_MIB: f64 = 512.0;
/// How many times as much one node may cost, planned and judged, in the largest fleet as in one of `SMALL` nodes. Work
/// that grows with the square would make it twenty; caches and pages that are too small for 600,000 pods make it two.
const GROWTH: f64 = 3.0;
/// Allocations can be counted: here only logarithms may show.
const MORE_ALLOCATIONS: f64 = 1.2;
/// Below this many nodes a plan takes microseconds, and says nothing about growth.
const SMALL: usize = 1_000;
/// A plan of nothing reads what a full one reads, and differs from it by less than two rounds of the same do.
const NOISE: f64 = 1.05;

/// What was measured of one plan.
struct Cost {
    nodes: usize,
    case: &'static str,
    steps: usize,
    held: usize,
    plan: Duration,
    audit: Duration,
    allocations: u64,
    peak_mib: f64,
}

fn main() {
    let mut broken: Vec<String> = Vec::new();
    let mut known: Vec<Vec<Cost>> = Vec::new();
    for nodes in [100, SMALL, PROMISED, 20_000] {
        let costs = fleet(nodes, &mut broken);
        if let Some(before) = known.last() {
            growth(before, &costs);
        }
        known.push(costs);
        println!();
    }
    is_linear(&known[1], &known[3], &mut broken);
    if !broken.is_empty() {
        broken.iter().for_each(|one| println!("over the promise: {one}"));
        std::process::exit(1);
    }
}

/// All cases of one size.
fn fleet(nodes: usize, broken: &mut Vec<String>) -> Vec<Cost> {
    let rounds = (20_000 / nodes).clamp(2, 10);
    let documents = world::fleet(nodes, Edit::Nothing);
    let mut there = None;
    let size = measure(|| there = Some(world::all_there(world::nothing_there(&documents))));
    let there = there.expect("just made");
    assert_eq!(there.observed.cluster.nodes.seen().len(), nodes);
    assert_eq!(there.observed.cluster.pods.seen().len(), nodes * PODS_A_NODE);
    let input_mib = mib(size.bytes_current.unsigned_abs());
    let target = best(rounds, || drop(black_box(documents.target_at(there.now))));
    let compiled = best(rounds, || drop(black_box(compile(&there.target))));
    let digest = best(rounds, || drop(black_box(digest_of(&there))));
    println!(
        "{nodes} nodes, {} pods, {} workloads, {} objects: input {input_mib:.1} MiB, target {}, compile {}, digest {}",
        nodes * PODS_A_NODE,
        there.observed.cluster.workloads.seen().len(),
        there.desired.objects.len(),
        ms(target),
        ms(compiled),
        ms(digest),
    );
    println!(
        "  {:<16} {:>7} {:>7} {:>10} {:>9} {:>8} {:>10} {:>12} {:>9}",
        "case", "steps", "held", "plan", "us/node", "/digest", "audit", "allocations", "peak MiB"
    );
    let costs = cases(&documents, there, nodes, rounds);
    // Before anything larger was in memory.
    let process_mib = process_peak_mib();
    for cost in &costs {
        println!(
            "  {:<16} {:>7} {:>7} {:>10} {:>9.1} {:>8.2} {:>10} {:>12} {:>9.1}",
            cost.case,
            cost.steps,
            cost.held,
            ms(cost.plan),
            cost.plan.as_secs_f64() * 1e6 / nodes as f64,
            cost.plan.as_secs_f64() / digest.as_secs_f64(),
            ms(cost.audit),
            cost.allocations,
            cost.peak_mib,
        );
        if nodes == PROMISED && cost.plan.as_secs_f64() >= MOST_SECS {
            broken.push(format!("{}: {} for {nodes} nodes", cost.case, ms(cost.plan)));
        }
        if nodes == PROMISED && input_mib + cost.peak_mib >= MOST_MIB {
            broken.push(format!("{}: {:.1} MiB with its input", cost.case, input_mib + cost.peak_mib));
        }
    }
    if let Some(peak) = process_mib {
        println!("  the whole process took {peak:.1} MiB at most");
        if nodes == PROMISED && peak >= MOST_MIB {
            broken.push(format!("{peak:.1} MiB for the whole process"));
        }
    }
    idle_is_cheap(nodes, &costs, broken);
    costs
}

fn cases(documents: &tidewright::fleet::Fleet, there: PlanInput, nodes: usize, rounds: usize) -> Vec<Cost> {
    let mut costs = Vec::new();
    let mut case = |name: &'static str, input: &PlanInput, is: fn(&Plan) -> bool| {
        costs.push(Cost { nodes, ..cost(name, input, rounds, is) });
    };
    let nothing = world::nothing_there(documents);
    case("nothing there", &nothing, |plan| !plan.steps.is_empty());
    case("only reserved", &world::only_reserved(nothing), |plan| plan.steps.len() > plan.held.len());
    case("as wanted", &there, |plan| plan.steps.is_empty() && plan.held.is_empty());
    let mut there = there;
    let edits = [("a new image", Edit::Image), ("another layout", Edit::Layout), ("a tenth more", Edit::Size)];
    for (name, edit) in edits.into_iter().chain([("all new images", Edit::EveryImage)]) {
        there = world::under(&world::fleet(nodes, edit), there);
        case(name, &there, |plan| !plan.steps.is_empty());
    }
    costs
}

/// A plan, what it takes to make it and to judge it. The judge finds nothing.
fn cost(case: &'static str, input: &PlanInput, rounds: usize, is: fn(&Plan) -> bool) -> Cost {
    let mut made = None;
    let memory = measure(|| made = Some(plan(input)));
    let made = made.expect("just made");
    assert!(is(&made), "{case}: {} steps, {} held\n{}", made.steps.len(), made.held.len(), first(&made));
    let plan = best(rounds, || drop(black_box(plan(input))));
    let mut judged = Vec::new();
    for _ in 0..rounds {
        let copy = made.clone();
        let start = ProcessTime::now();
        let verdict = audit(input, copy);
        judged.push(start.elapsed());
        if let Err(found) = verdict {
            panic!("{case}: the audit finds {}, first {}", found.len(), found[0]);
        }
    }
    Cost {
        nodes: 0,
        case,
        steps: made.steps.len(),
        held: made.held.len(),
        plan,
        audit: judged.into_iter().min().expect("at least one round"),
        allocations: memory.count_total,
        peak_mib: mib(memory.bytes_max),
    }
}

/// What a plan that is not as it should be begins with.
fn first(plan: &Plan) -> String {
    let steps = plan.steps.iter().take(3).map(|step| format!("{}: {:?}\n", step.id, step.reason));
    let held = plan.held.iter().take(3).map(|held| format!("{}: {:?}\n", held.wanted, held.waiting_on));
    steps.chain(held).chain(plan.notes.iter().take(3).map(|note| note.text.clone())).collect()
}

/// A plan that has nothing to do costs no more than one that has to move every node of the same snapshot.
fn idle_is_cheap(nodes: usize, costs: &[Cost], broken: &mut Vec<String>) {
    let of = |name: &str| costs.iter().find(|cost| cost.case == name).expect("it was measured").plan.as_secs_f64();
    let (idle, full) = (of("as wanted"), of("all new images"));
    println!("  a plan of nothing costs {:.2} of a full one", idle / full);
    if nodes >= SMALL && idle > full * NOISE {
        broken.push(format!("a plan of nothing costs {:.2} of a full one, for {nodes} nodes", idle / full));
    }
}

/// How many times as much one node costs in the next larger fleet.
fn growth(before: &[Cost], after: &[Cost]) {
    println!("  {} -> {} nodes, times as much for each node:", before[0].nodes, after[0].nodes);
    for (one, other) in before.iter().zip(after) {
        let plan = ratio(one, other, |cost| cost.plan.as_secs_f64());
        let audit = ratio(one, other, |cost| cost.audit.as_secs_f64());
        let allocations = ratio(one, other, |cost| cost.allocations as f64);
        println!("  {:<16} plan {plan:>5.2}, audit {audit:>5.2}, allocations {allocations:>5.2}", other.case);
    }
}

fn is_linear(small: &[Cost], large: &[Cost], broken: &mut Vec<String>) {
    println!("{} -> {} nodes, times as much for each node:", small[0].nodes, large[0].nodes);
    for (one, other) in small.iter().zip(large) {
        let time = ratio(one, other, |cost| cost.plan.as_secs_f64() + cost.audit.as_secs_f64());
        let allocations = ratio(one, other, |cost| cost.allocations as f64);
        println!("  {:<16} plan and audit {time:>5.2}, allocations {allocations:>5.2}", other.case);
        if time > GROWTH || allocations > MORE_ALLOCATIONS {
            broken.push(format!(
                "{}: a node costs {time:.2} times the time, {allocations:.2} times the allocations",
                other.case
            ));
        }
    }
}

/// How many times as much of something one node costs in the one as in the other.
fn ratio(small: &Cost, large: &Cost, of: impl Fn(&Cost) -> f64) -> f64 {
    (of(large) / large.nodes as f64) / (of(small) / small.nodes as f64)
}

/// The most that the process ever had in memory, where the system says.
fn process_peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// The processor time of the fastest of several rounds: the one that was disturbed least.
fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let times = (0..rounds).map(|_| {
        let start = ProcessTime::now();
        work();
        start.elapsed()
    });
    times.min().expect("at least one round")
}

fn ms(time: Duration) -> String {
    format!("{:.2}ms", time.as_secs_f64() * 1e3)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
