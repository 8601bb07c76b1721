//! What it costs to read and check a fleet, as a ratio to the bare parse of the same bytes into untyped values, and
//! how that grows. Run with `cargo bench`. Nothing here is a limit on a clock: only ratios of one run are judged.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::fmt::Write as _;
use std::time::Duration;

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;
use tidewright::diag::{SourceFile, Sources};
use tidewright::manifest::{lower, parse};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The promise: reading and checking costs at most this many times the bare parse.
const MOST: f64 = 3.0;
/// Ten times the documents may cost this many times as much: a little over ten is linear with a few logarithms.
const GROWTH: f64 = 14.0;

fn main() {
    println!(
        "{:>9} {:>9} {:>11} {:>11} {:>7} {:>12} {:>11}",
        "documents", "MiB", "bare parse", "checked", "ratio", "us/document", "peak MiB"
    );
    let now = "2026-11-16T12:00:00Z".parse().expect("an instant");
    let mut last: Option<(usize, Duration)> = None;
    let mut kept = true;
    for size in [100, 1_000, 10_000, 100_000] {
        let sources = fleet(size);
        let bytes: usize = sources.iter().map(|(_, file)| file.text.len()).sum();
        let rounds = (20_000 / size).clamp(2, 20);
        let bare = best(rounds, || {
            for (_, file) in sources.iter() {
                let values: Vec<serde_json::Value> = serde_saphyr::from_multiple(&file.text).expect("YAML");
                std::hint::black_box(values);
            }
        });
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage_as_mb();
        let checked = best(rounds, || {
            let (manifests, mut found) = parse(&sources);
            let (fleet, mut more) = lower(&manifests, &sources, now);
            found.append(&mut more);
            assert!(fleet.is_some(), "the generated fleet is valid: {:?}", found.iter().find(|d| d.is_error()));
            assert_eq!(fleet.map(|fleet| fleet.origins.len()), Some(size));
        });
        let peak = MEMORY.peak_usage_as_mb() - before;
        let ratio = checked.as_secs_f64() / bare.as_secs_f64();
        println!(
            "{size:>9} {:>9.2} {:>9.1}ms {:>9.1}ms {ratio:>7.2} {:>12.1} {peak:>11.1}",
            bytes as f64 / 1048576.0,
            bare.as_secs_f64() * 1e3,
            checked.as_secs_f64() * 1e3,
            checked.as_secs_f64() * 1e6 / size as f64,
        );
        kept &= ratio <= MOST;
        if let Some((smaller, before)) = last.filter(|(smaller, _)| *smaller >= 1_000) {
            let growth = checked.as_secs_f64() / before.as_secs_f64();
            println!("          {smaller} -> {size} documents: {growth:.1} times the time");
            kept &= growth <= GROWTH;
        }
        last = Some((size, checked));
    }
    if !kept {
        println!("over the promise of {MOST} times the bare parse, or growing faster than the documents");
        std::process::exit(1);
    }
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

/// A fleet of this many documents as people write them: of every ten, two reservations, three pools, a layout, two
/// quotas and a tide, with a few tiers for all.
fn fleet(documents: usize) -> Sources {
    let mut text = Vec::new();
    let mut add = |kind: &str, name: &str, spec: &str| {
        text.push(format!(
            "apiVersion: tidewright.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n{spec}"
        ));
    };
    add(
        "Fleet",
        "bench",
        "  timeZone: America/Los_Angeles\n  cloud: {sim: {}}\n  kubernetes: {sim: {}}\n  limits: {hourlyUsd: 900000000, nodesRemovedPerHour: 4}\n",
    );
    add("PreemptionTier", "production", "  rank: 1000\n  preempts: lowerTiers\n");
    add("PreemptionTier", "batch", "  rank: 100\n  checkpoint: {deadline: 10m, signal: annotation}\n");
    let mut group = 0;
    loop {
        let g = group;
        let specs: [(&str, String, String); 9] = [
            ("Reservation", format!("base-{g}"), "  instanceType: p5.48xlarge\n  zone: us-west-2a\n  nodes: 16\n  onDemand: {end: never, match: targeted}\n".into()),
            ("NodePool", format!("train-{g}"), format!("  instanceType: p5.48xlarge\n  nodes: 16   # the whole reservation\n  capacity:\n    - {{reservation: base-{g}}}\n    - {{onDemand: {{max: 4}}}}\n  spares: 1\n  labels: {{workload: training}}\n  taints: [{{key: nvidia.com/gpu, effect: NoSchedule}}]\n  updates: {{when: idle, maxUnavailable: 2}}\n")),
            ("Reservation", format!("held-{g}"), "  instanceType: p4d.24xlarge\n  zone: us-west-2b\n  nodes: 12\n  onDemand: {end: never, match: targeted}\n".into()),
            ("GpuLayout", format!("slices-{g}"), "  mig:\n    - {gpus: [0, 1, 2, 3], slices: {3g.20gb: 2}}\n    - {gpus: [4, 5, 6, 7], slices: {1g.5gb: 7}}\n".into()),
            ("NodePool", format!("serve-{g}"), format!("  instanceType: p4d.24xlarge\n  nodes: 12\n  capacity:\n    - reservation: held-{g}\n  layout: slices-{g}\n")),
            ("Quota", format!("research-{g}"), format!("  namespaces: [{{name: research-{g}}}]\n  cohort: all-{g}\n  tiers: [batch]\n  shares:\n    - {{pool: train-{g}, guarantee: {{gpus: 64}}, borrow: {{gpus: 32}}, lend: {{gpus: 64}}}}\n")),
            ("Quota", format!("serving-{g}"), format!("  namespaces: [{{name: serving-{g}}}]\n  cohort: all-{g}\n  tiers: [production]\n  shares:\n    - {{pool: serve-{g}, guarantee: {{slices: {{3g.20gb: 96, 1g.5gb: 336}}}}}}\n    - {{pool: train-{g}, guarantee: {{gpus: 32}}, lend: {{gpus: 32}}}}\n")),
            ("TideSchedule", format!("nightly-{g}"), format!("  lowTide:\n    - {{days: [Mon-Fri], from: \"20:00\", to: \"06:30\"}}\n    - {{days: [Sat, Sun], from: \"06:30\", to: \"06:30\"}}\n  lend:\n    - {{pool: serve-{g}, nodes: 6, from: serving-{g}, to: research-{g}, layout: whole}}\n  reclaim: {{lead: 45m, order: cheapestFirst, hardAt: 10m}}\n")),
            ("NodePool", format!("head-{g}"), "  instanceType: g5.xlarge\n  nodes: 2\n  capacity: [{onDemand: {max: 2}}]\n".into()),
        ];
        for (kind, name, spec) in specs {
            add(kind, &name, &spec);
        }
        group += 1;
        if 3 + group * 9 >= documents {
            break;
        }
    }
    text.truncate(documents);
    let mut sources = Sources::default();
    for (index, file) in text.chunks(200).enumerate() {
        let mut joined = String::new();
        for document in file {
            let _ = write!(joined, "---\n{document}");
        }
        sources.add(SourceFile { path: format!("{index:05}.yaml").into(), text: joined.into(), revision: None });
    }
    sources
}
