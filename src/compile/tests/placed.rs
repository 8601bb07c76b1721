//! What work is told of its place: the level that its pool's profile prefers, where every pool that it may go to has it.

use super::*;
use crate::compile::currency::Covered;
use crate::compile::placed;
use crate::fleet::Target;
use crate::fleet::testing::fleet_of;
use crate::observed::{ObjectSeen, Read};
use crate::plan::testing::nothing;

const FLEET: &str = "kind: NodePool
metadata: {name: train}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: p5.48xlarge, nodes: 2}
---
kind: NodePool
metadata: {name: spare}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: p5.48xlarge, nodes: 2}
---
kind: NodePool
metadata: {name: small}
spec: {capacity: [{onDemand: {max: 4}}], instanceType: g6.12xlarge, nodes: 2}
---
kind: PreemptionTier
metadata: {name: any}
spec: {rank: 1}
---
kind: Quota
metadata: {name: vision}
spec: {namespaces: [{name: vision}, {name: lab, localQueue: side}], tiers: [any], shares: [{pool: train, guarantee: {gpus: 4}}, {pool: spare, guarantee: {gpus: 4}}]}
---
kind: Quota
metadata: {name: speech}
spec: {namespaces: [{name: speech}], tiers: [any], shares: [{pool: spare, guarantee: {gpus: 4}}]}
---
kind: SchedulerProfile
metadata: {name: close}
spec: {score: pack, topology: {prefer: leaf}, pools: [train]}
";

fn target(documents: &str) -> Target {
    target_on("{name: block, nodeLabel: example.com/block}, {name: leaf, nodeLabel: example.com/leaf}", documents)
}

fn target_on(levels: &str, documents: &str) -> Target {
    let head = format!(
        "kind: Fleet\nmetadata: {{name: test}}\nspec:\n  timeZone: UTC\n  cloud: {{sim: {{}}}}\n  \
         kubernetes: {{sim: {{}}}}\n  limits: {{hourlyUsd: 10000}}\n  fabric: {{levels: [{levels}]}}\n---\n"
    );
    fleet_of("2026-06-08T12:00Z", &format!("{head}{documents}")).target_at(at("2026-06-08T12:00Z"))
}

fn policies(target: &Target, covered: &Covered) -> Vec<String> {
    let all = placed::policies(target, covered);
    let all = all.iter().filter(|object| object.key.kind == ObjectKind::MutatingAdmissionPolicy);
    let word = |text: &str| {
        let said = text.split_once("/topologyRequest/").unwrap().1.split_once(",").unwrap();
        let value = said.1.split_once('}').unwrap().0;
        format!("{}{value}", said.0)
    };
    all.map(|object| {
        let text = object.body["spec"]["mutations"][0]["jsonPatch"]["expression"].as_str().unwrap();
        format!("{}: {}", object.key.name, word(text))
    })
    .collect()
}

#[test]
fn work_is_told_the_level_that_its_pool_prefers() {
    let target = target(FLEET);
    let said = "tidewright-placed-vision: preferred' value: 'example.com/leaf'";
    assert_eq!(policies(&target, &Covered::default()), [said], "nobody prefers anything for speech");
    let desired = compile(&target);
    let text = body(&desired, "MutatingAdmissionPolicy/tidewright-placed-vision").to_string();
    assert!(text.contains("in ['vision/default', 'lab/side']"), "{text}");
    assert!(text.contains("podset-preferred-topology"), "its pods too: {text}");
    assert!(placed::unheard(&target.standing).is_empty());
}

#[test]
fn a_level_that_another_pool_of_the_quota_lacks_is_not_said_and_that_is_told() {
    // Kueue would never let work that asks for it go there.
    let other = |pool: &str| format!("{{pool: train, guarantee: {{gpus: 4}}}}, {{pool: {pool}, ");
    let lacks = target(&FLEET.replace(&other("spare"), &other("small")));
    assert_eq!(policies(&lacks, &Covered::default()), [""; 0]);
    let told = placed::unheard(&lacks.standing);
    assert_eq!((told.len(), told[0].0.as_str()), (1, "vision"));
    assert!(told[0].1.contains("may go to small too"), "{}", told[0].1);
    // Of two levels the first pool's.
    let more = "---\nkind: SchedulerProfile\nmetadata: {name: near}\nspec: {score: pack, topology: {prefer: block}, pools: [spare]}\n";
    let two = target(&format!("{FLEET}{more}"));
    assert_eq!(
        policies(&two, &Covered::default()),
        [
            "tidewright-placed-speech: preferred' value: 'example.com/block'",
            "tidewright-placed-vision: preferred' value: 'example.com/leaf'"
        ]
    );
    let told = placed::unheard(&two.standing);
    assert!(told.len() == 1 && told[0].1.contains("and not by block as on spare"), "{told:?}");
}

#[test]
fn what_is_preferred_no_more_is_said_no_more() {
    let desired = compile(&target(FLEET));
    let mut cluster = nothing(at("2026-06-08T12:00Z")).cluster;
    let seen = desired.objects.iter().map(|object| {
        let written = Some(object.digest.clone());
        (object.key.clone(), ObjectSeen { body: object.body.clone(), written, moved_by: None, deleting: false })
    });
    cluster.objects = Read::new(seen.collect(), at("2026-06-08T12:00Z"));
    let after = target(&FLEET.replace(" topology: {prefer: leaf},", ""));
    let said = "tidewright-placed-vision: unconstrained' value: true";
    assert_eq!(policies(&after, &Covered::of(&cluster)), [said], "what Kueue would do anyhow");
    assert_eq!(policies(&after, &Covered::default()), [""; 0]);
}

#[test]
fn of_more_levels_than_kueue_takes_one_that_is_preferred_stays() {
    let levels: Vec<String> = (0..16).map(|at| format!("{{name: v{at}, nodeLabel: example.com/v{at}}}")).collect();
    let target = target_on(&levels.join(", "), &FLEET.replace("prefer: leaf", "prefer: v0"));
    assert_eq!(
        policies(&target, &Covered::default()),
        ["tidewright-placed-vision: preferred' value: 'example.com/v0'"]
    );
}
