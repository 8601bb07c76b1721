//! A fleet from nothing to what its documents say, on the simulator.

use std::path::Path;

use futures_util::FutureExt;
use tidewright::apply::{Patience, StopSignal, apply, open_approval};
use tidewright::audit::audit;
use tidewright::plan::plan;
use tidewright::provider::sim::Sim;
use tidewright::round::{Options, input};
use tidewright::units::Duration;

#[test]
fn the_demo_converges_from_nothing() {
    let start = "2026-11-16T12:00:00-08:00".parse().unwrap();
    let checked = tidewright::load::check(Path::new("clusters/demo"), start);
    let fleet = checked.fleet.unwrap();
    let sim = Sim::in_memory(start, 1);
    let stop = StopSignal::default();
    let patience =
        Patience { per_wait: Duration::minutes(30), total: None, poll: Duration::secs(5), concurrency: 8, stop: &stop };
    let uid = "demo-uid".into();
    for round in 0..12 {
        let world = sim.world();
        let input = input(&fleet, &uid, world, &Options::default()).now_or_never().unwrap().unwrap();
        let plan = plan(&input);
        println!("== round {round} at {} steps {} held {}", input.now, plan.steps.len(), plan.held.len());
        for step in plan.steps.iter() {
            println!("   {}", step.id);
        }
        for held in &plan.held {
            println!("   held {} on {:?}", held.wanted, held.waiting_on);
        }
        let audited = match audit(&input, plan.clone()) {
            Ok(audited) => audited,
            Err(violations) => panic!("{}", violations.iter().map(|v| format!("{v}\n")).collect::<String>()),
        };
        if plan.is_empty() {
            return;
        }
        let opened =
            open_approval(world, &plan.id.as_str().into(), &plan.effects, std::collections::BTreeMap::new(), "test")
                .now_or_never()
                .unwrap();
        println!("   approval {opened:?}");
        let mut tell = |event: tidewright::status::Event| match event.kind {
            tidewright::status::EventKind::Started | tidewright::status::EventKind::Succeeded => {}
            other => println!("   {} {} {other:?}", event.at, event.step),
        };
        let report = apply(&audited, &input, Some(&plan.id.as_str().into()), world, &patience, &mut tell)
            .now_or_never()
            .unwrap()
            .unwrap();
        println!("   {report:?}");
    }
    panic!("not converged");
}
