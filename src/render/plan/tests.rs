//! What is on the screen, in a comment, in a file.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::Value;

use super::*;
use crate::effect::{
    Amount, CloudAction, ClusterAction, Counts, Effects, Freeze, LedgerChange, Object, PurchaseRequest, Scope, Thing,
    Verb,
};
use crate::fleet::testing::at;
use crate::ids::SlotId;
use crate::observed::{Gap, ObjectKey, ObjectKind};
use crate::plan::{Disruption, Held, Offer, Reason, WaitingOn};
use crate::render::plan::words::{clean, gpu_hours, length, list, money, quoted, range};
use crate::status::sample::{self, empty_plan, pool, sealed, step, usd};

fn shown<'a>(input: &'a PlanInput, plan: &'a Plan) -> Shown<'a> {
    Shown { input, plan, directory: "clusters/demo", is_now: true }
}

fn plain(input: &PlanInput, plan: &Plan) -> String {
    human(&shown(input, plan), &Look::default())
}

#[test]
fn a_plan_tells_who_is_disturbed_first() {
    let input = sample::input();
    let plan = sample::plan(&input);
    assert_snapshot!(plain(&input, &plan), @"
    Fleet test at Mon 2026-11-02 19:55 -08:00 (America/Los_Angeles), revision 9bd0e1c4d5e6, plan 7c1e2f0a9b3c
    3 changes, 4 held, 1 drifted, 2 scheduled

    Changes, the riskiest first
      -+ replace  pool/train  2 nodes, 16 GPUs  5 pods, 1 gang of nlp and vision, ~80 GPU-h at risk, 1 PDB in the way; 4–19 min
           why    launched from another template than the documents ask for
           what   train/1 (i-train-1) and train/2 (i-train-2), by 2 × p5.48xlarge in cr-0aaa, us-west-2a
           gang   vision/pretrain-7 (team vision, tier research): 3 pods on 3 nodes, 24 GPUs, up to 3 h 20 min of unsaved work
           PDB    nlp/eval-server allows no eviction now
           lost   nlp/scratch: nobody makes it again, or its local data goes with it
           asks   needs an approval
      +  launch   pool/serve  1 node, 8 GPUs    disturbs nobody; +$21.96/h; 2–5 min
           why    the pool is short of nodes
           what   1 × p4d.24xlarge on demand, us-west-2a
           asks   needs an approval
      +  create   cluster     1 object          disturbs nobody; 0–1 s
           what   Topology train

    Held: wanted, and not done now
      x pool/train  replace 1 node
           waits  until Tue 10:00: the update window of pool/train is closed
           done   by Tue 10:25, as it looks now
      x pool/train  launch a node for train/4, and 1 more like it
           waits  the cloud had no p5.48xlarge in us-west-2a; asked again at 20:00
      x pool/serve  re-cut 1 node from whole to halves
           waits  frozen by ana since 18:25: incident 4711
           to do  tidewright thaw pool/serve --dir clusters/demo

    Drift: somebody else moved it
      ClusterQueue vision: guarantee of train 16 GPUs → guarantee of train 24 GPUs by kubectl-edit at 17:55; left as it is

    The tide in the next 24 hours
      WHEN   WHAT          CHANGE                                        DISTURBS, AS IT IS NOW
      20:00  tide/nightly  low until Tue 05:45                           -
             pool/serve    2 nodes lent by serving to vision, cut whole  9 pods of serving

    Released: no longer in the documents, so no longer managed. Nothing is destroyed
      pool/old: 2 nodes, $65.54 an hour

    Good to know
      pool/serve: i-0stray is tagged as ours, and nothing explains it

    Plan: 2 nodes to replace, 1 node to launch, 1 object to create; 4 held.
    Cost: on demand and spot $65.88 → $87.84 an hour; reserved $220.16 an hour, of which idle $0
    Time: 4–19 min
    Digest: 62eb5d9e018a225d472e1584581f424322c1a945ca139c7747d99fdce8095e32
    To carry it out: tidewright apply clusters/demo (asks first)
    ");
}

#[test]
fn every_step_is_told_to_whoever_asks() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let text = human(&shown(&input, &plan), &Look { verbose: true, ..Look::default() });
    let (_, changes) = text.split_once("Changes, the riskiest first\n").unwrap();
    let (changes, _) = changes.split_once("\n\n").unwrap();
    assert_snapshot!(changes, @"
    -+ replace  pool/train  2 nodes, 16 GPUs  5 pods, 1 gang of nlp and vision, ~80 GPU-h at risk, 1 PDB in the way; 4–19 min
         why    launched from another template than the documents ask for
         what   train/1 (i-train-1) and train/2 (i-train-2), by 2 × p5.48xlarge in cr-0aaa, us-west-2a
         gang   vision/pretrain-7 (team vision, tier research): 3 pods on 3 nodes, 24 GPUs, up to 3 h 20 min of unsaved work
         PDB    nlp/eval-server allows no eviction now
         lost   nlp/scratch: nobody makes it again, or its local data goes with it
         asks   needs an approval
         step   cordon train-1 (replace) (1–2 s)
         step   wait until the cordon of train-1 has settled (5–6 s)
         step   suspend workload w-0 (1–2 s)
         step   wait until train-1 is empty (0–5 min)
         step   terminate train/1 (i-train-1) (1–3 min)
         step   launch train/1 (p5.48xlarge, us-west-2a, in cr-0aaa) (3–10 min)
         step   cordon train-2 (replace) (1–2 s)
         step   wait until the cordon of train-2 has settled (5–6 s)
         step   wait until train-2 is empty (0–5 min)
         step   terminate train/2 (i-train-2) (1–3 min)
         step   launch train/2 (p5.48xlarge, us-west-2a, in cr-0aaa) (3–10 min)
    +  launch   pool/serve  1 node, 8 GPUs    disturbs nobody; +$21.96/h; 2–5 min
         why    the pool is short of nodes
         what   1 × p4d.24xlarge on demand, us-west-2a
         asks   needs an approval
         step   launch serve/3 (p4d.24xlarge, us-west-2a, on demand) (2–5 min)
    +  create   cluster     1 object          disturbs nobody; 0–1 s
         what   Topology train
         step   write Topology train (0–1 s)
    ·  record   cluster     1 note
         what   forget pool old
         step   forget pool old
    ");
    assert_eq!(changes.lines().filter(|line| line.contains(" step ")).count(), plan.steps.len());
}

#[test]
fn a_long_patch_is_cut_and_whole_for_whoever_asks() {
    let input = sample::input();
    let mut plan = sample::plan(&input);
    let patch = format!("kubectl patch -p '{}'", "x".repeat(12_000));
    let object = ObjectKey::cluster(ObjectKind::ClusterQueue, "vision");
    plan.held[0].waiting_on = WaitingOn::OtherOwner { object, patch: patch.clone() };
    let text = plain(&input, &plan);
    assert!(text.lines().all(|line| line.chars().count() < 600), "{text}");
    assert!(text.contains("11619 characters more (whole with --verbose, and with --output json)"), "{text}");
    assert!(human(&shown(&input, &plan), &Look { verbose: true, ..Look::default() }).contains(&patch));
}

#[test]
fn colours_add_nothing_but_colour() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let painted = human(&shown(&input, &plan), &Look { colour: true, verbose: false });
    assert!(painted.contains("\u{1b}["));
    assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain(&input, &plan));
}

#[test]
fn that_there_are_no_changes_is_always_said() {
    let input = sample::input();
    assert_snapshot!(plain(&input, &empty_plan()), @"
    Fleet test at Mon 2026-11-02 19:55 -08:00 (America/Los_Angeles), revision 9bd0e1c4d5e6, plan 7c1e2f0a9b3c
    No changes. The fleet is as the documents say.

    Plan: no changes.
    ");
    let held = Plan { held: sample::plan(&input).held, ..empty_plan() };
    let said = plain(&input, &held);
    assert!(said.contains("No changes. Something is wanted, and all of it is held: 4 held.\n"), "{said}");
    assert!(said.contains("Plan: no changes; 4 held."), "{said}");
    assert_eq!((verdict(&empty_plan()), verdict(&held)), (Verdict::NoChanges, Verdict::Blocked));
    for plan in [empty_plan(), held] {
        let text = markdown(&shown(&input, &plan));
        assert!(text.contains("**No changes"), "{text}");
    }
}

#[test]
fn what_is_taken_away_comes_first_and_what_is_new_last() {
    let input = sample::input();
    let slot = |index| SlotId::new(&"serve".into(), index);
    let terminate = |index: u32| {
        let instance = format!("i-serve-{index}").as_str().into();
        crate::effect::Action::Cloud(CloudAction::Terminate { slot: slot(index), instance })
    };
    let object = |name: &str| Object::new(ObjectKey::cluster(ObjectKind::Cohort, name), Value::Null);
    let apply = |name: &str| crate::effect::Action::Cluster(ClusterAction::Apply(object(name)));
    let buy = crate::effect::Action::Cloud(CloudAction::Purchase(PurchaseRequest {
        reservation: "july".into(),
        offering: "cb-1".into(),
        extends: None,
        fee: usd("371002.88"),
    }));
    let price = Amount { count: 1, usd_upfront: usd("371002.88"), ..Amount::default() };
    let cordon = |node: &str| {
        let mark = crate::effect::marks::Mark::new(input.now, "quarantine");
        crate::effect::Action::Cluster(ClusterAction::Cordon { node: node.into(), mark })
    };
    let remember = crate::effect::Action::Record(LedgerChange::Closed { slot: slot(9) });
    let plan = sealed(Plan {
        steps: vec![
            step("record", Thing::Fleet, remember, Reason::Bookkeeping),
            step("new", Thing::Fleet, apply("a"), Reason::Wanted),
            step("launch", pool("serve"), sample::launch("serve", 3, 1, None), Reason::SlotEmpty),
            step("buy", Thing::Reservation("july".into()), buy, Reason::Wanted).effect(Verb::Purchase, price),
            step("cordon", pool("train"), cordon("train-0"), Reason::Quarantined { by: "ana".into() }),
            step("replace", pool("serve"), terminate(1), Reason::Outdated),
            step("remove", pool("serve"), terminate(2), Reason::NotWanted),
        ],
        ..empty_plan()
    });
    let told = plain(&input, &plan);
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    ")).collect();
    assert_snapshot!(lines.join("\n"), @"
    -  remove   pool/serve        1 node, 8 GPUs    disturbs nobody
    !  drain    pool/train        1 node, 8 GPUs    disturbs nobody
    -+ replace  pool/serve        1 node, 8 GPUs    disturbs nobody
    $  buy      reservation/july  1 Capacity Block  disturbs nobody; $371,002.88 upfront
    +  launch   pool/serve        1 node, 8 GPUs    disturbs nobody
    +  create   cluster           1 object          disturbs nobody
    ");
}

#[test]
fn offers_are_shown_with_their_price() {
    let input = sample::input();
    let offer = Offer {
        reservation: "july".into(),
        offering: "cb-0123".into(),
        extends: None,
        zone: "us-west-2a".into(),
        nodes: 32,
        start: at("2027-07-01T11:30Z"),
        end: at("2027-07-15T11:30Z"),
        fee: usd("371002.88"),
        verdict: "needs an approval".into(),
    };
    let plan = Plan { offers: vec![offer], ..empty_plan() };
    let told = plain(&input, &plan);
    let (_, told) = told.split_once("\n\n").unwrap();
    assert_snapshot!(told, @"
    Capacity Blocks on offer
      RESERVATION  OFFER    NODES  ZONE        FROM                         TO                               UPFRONT
      july         cb-0123     32  us-west-2a  Thu 2027-07-01 04:30 -07:00  Thu 2027-07-15 04:30 -07:00  $371,002.88  needs an approval

    Plan: no changes.
    ");
}

#[test]
fn a_comment_tells_the_verdict_first() {
    let input = sample::input();
    let plan = sample::plan(&input);
    assert_snapshot!(markdown(&shown(&input, &plan)), @r#"
    <!-- tidewright:plan fleet=test digest=sha256:62eb5d9e018a225d472e1584581f424322c1a945ca139c7747d99fdce8095e32 head=9bd0e1c4d5e6f708192a3b4c5d6e7f8091a2b3c4 -->
    ### Tidewright: test

    **3 changes, 4 held, 1 drifted, 2 scheduled**

    Plan `7c1e2f0a9b3c`, revision `9bd0e1c4d5e6`, Mon 2026-11-02 19:55 -08:00 (America/Los_Angeles)

    | | change | on | how much | disturbs | cost | takes | |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | `-+` | replace | pool/train | 2 nodes, 16 GPUs | 5 pods, 1 gang of nlp and vision, \~80 GPU-h at risk, 1 PDB in the way |  | 4–19 min | **needs an approval** |
    | `+` | launch | pool/serve | 1 node, 8 GPUs | nobody | +$21.96/h | 2–5 min | **needs an approval** |
    | `+` | create | cluster | 1 object | nobody |  | 0–1 s |  |

    **Held**

    | on | wanted | waits | then disturbs | to do |
    | --- | --- | --- | --- | --- |
    | pool/train | replace 1 node | until Tue 10:00: the update window of pool/train is closed; done by Tue 10:25 |  |  |
    | pool/train | launch a node for train/4, and 1 more like it | the cloud had no p5.48xlarge in us-west-2a; asked again at 20:00 |  |  |
    | pool/serve | re-cut 1 node from whole to halves | frozen by ana since 18:25: incident 4711 |  | `tidewright thaw pool/serve --dir clusters/demo` |

    Plan: 2 nodes to replace, 1 node to launch, 1 object to create; 4 held.  
    Cost: on demand and spot $65.88 → $87.84 an hour; reserved $220.16 an hour, of which idle $0.  
    Takes 4–19 min.  
    Digest `62eb5d9e018a225d472e1584581f424322c1a945ca139c7747d99fdce8095e32`  
    To carry it out: `tidewright apply clusters/demo` (asks first)

    <details><summary>Details</summary>

    - **replace pool/train**, 2 nodes, 16 GPUs
      - launched from another template than the documents ask for
      - train/1 (i-train-1) and train/2 (i-train-2), by 2 × p5.48xlarge in cr-0aaa, us-west-2a
      - gang vision/pretrain-7 (team vision, tier research): 3 pods on 3 nodes, 24 GPUs, up to 3 h 20 min of unsaved work
      - PodDisruptionBudget nlp/eval-server allows no eviction now
      - nlp/scratch is lost: nobody makes it again, or its local data goes with it
      - cordon train-1 (replace)
      - wait until the cordon of train-1 has settled
      - suspend workload w-0
      - wait until train-1 is empty
      - terminate train/1 (i-train-1)
      - launch train/1 (p5.48xlarge, us-west-2a, in cr-0aaa)
      - cordon train-2 (replace)
      - wait until the cordon of train-2 has settled
      - wait until train-2 is empty
      - terminate train/2 (i-train-2)
      - launch train/2 (p5.48xlarge, us-west-2a, in cr-0aaa)
    - **launch pool/serve**, 1 node, 8 GPUs
      - the pool is short of nodes
      - 1 × p4d.24xlarge on demand, us-west-2a
      - launch serve/3 (p4d.24xlarge, us-west-2a, on demand)
    - **create cluster**, 1 object
      - Topology train
      - write Topology train

    </details>

    <details><summary>Drift (1)</summary>

    - ClusterQueue vision: guarantee of train 16 GPUs → guarantee of train 24 GPUs by kubectl-edit at 17:55; left as it is

    </details>

    <details><summary>The tide in the next 24 hours (2)</summary>

    - 20:00: tide/nightly: low until Tue 05:45
    - 20:00: pool/serve: 2 nodes lent by serving to vision, cut whole (disturbs, as it is now: 9 pods of serving)

    </details>

    **Released from management; nothing is destroyed**

    - pool/old: 2 nodes, $65.54 an hour

    **Good to know**

    - pool/serve: i-0stray is tagged as ours, and nothing explains it
    "#);
}

#[test]
fn what_waits_for_a_word_says_whom_it_will_disturb_in_every_format() {
    let input = sample::input();
    let (made, mut plan) = (sample::plan(&input), empty_plan());
    let hit = made.steps.iter().find(|step| !step.disruption.is_none()).unwrap().disruption.clone();
    let why = "this removes 2 of 7 nodes, 29 percent, and limits.desiredShrinkPercent is 10".into();
    let waiting_on = WaitingOn::Approval { digest: "d1".into(), why };
    let (effects, wanted) = (Effects::one(Verb::Terminate, pool("train"), Amount::count(2)), "remove 2 nodes".into());
    let reason = Reason::NotWanted;
    plan.held = vec![Held { what: pool("train"), wanted, reason, effects, disruption: hit, waiting_on, done_by: None }];
    let plan = sealed(plan);
    let shown = shown(&input, &plan);
    let harm = "5 pods, 1 gang of nlp and vision, ~80 GPU-h at risk, 1 PDB in the way";
    let gang =
        "vision/pretrain-7 (team vision, tier research): 3 pods on 3 nodes, 24 GPUs, up to 3 h 20 min of unsaved";
    let text = human(&shown, &Look::default());
    assert!(text.contains(&format!("       then   {harm}\n       gang   {gang}")), "{text}");
    let text = markdown(&shown);
    // A tilde would be markup.
    let harm = harm.replace('~', "\\~");
    assert!(
        text.contains(&format!(
            "desiredShrinkPercent is 10 | {harm} | `tidewright apply clusters/demo --approved d1` |"
        )),
        "{text}"
    );
    assert!(text.contains(&format!("- **held pool/train**: remove 2 nodes\n  - gang {gang}")), "{text}");
    let value: Value = serde_json::from_str(&json(&shown)).unwrap();
    let held = &value["held"][0];
    assert_eq!((&held["waiting_on"], &held["comes_by_itself"]), (&"approval".into(), &false.into()));
    assert_eq!((&held["disruption"]["pods"], &held["disruption"]["gangs"][0]["gpus"]), (&5.into(), &24.into()));
}

/// A plan of many pools, each with names as long as a name may be.
fn huge(pools: usize) -> Plan {
    let name = "x".repeat(253);
    let steps = (0..pools).map(|index| {
        let disruption = Disruption {
            pods: 4000,
            teams: (0..40).map(|team| format!("team-{team}").into()).collect(),
            lost: (0..50).map(|pod| format!("ns/{name}-{pod}").parse().unwrap()).collect(),
            ..Disruption::default()
        };
        let cut = sample::launch(&format!("pool-{index:04}-{name}"), 0, 1, None);
        step(&format!("launch-{index}"), pool(&format!("pool-{index:04}-{name}")), cut, Reason::SlotEmpty)
            .disturbs(disruption)
    });
    let waits = WaitingOn::Person("<b>".repeat(300));
    let held = (0..pools).map(|index| Held {
        what: pool(&format!("held-{index:04}")),
        wanted: name.clone(),
        reason: Reason::Wanted,
        effects: Effects::default(),
        disruption: Disruption::default(),
        waiting_on: waits.clone(),
        done_by: None,
    });
    sealed(Plan { steps: steps.collect(), held: held.collect(), ..empty_plan() })
}

#[test]
fn a_comment_fits_and_never_drops_what_decides() {
    let input = sample::input();
    let mut last = usize::MAX;
    for pools in [1, 20, 60, 200, 2000] {
        let plan = huge(pools);
        let text = markdown(&shown(&input, &plan));
        assert!(text.len() <= 60_000, "{pools} pools make {} bytes", text.len());
        for part in [&format!("{pools} change"), plan.digest.as_str(), "| launch | pool/pool-", "**Held**", "Plan: "] {
            assert!(text.contains(part), "{pools}: {part} is missing");
        }
        let rows = text.lines().filter(|line| line.contains("| launch |")).count();
        assert!(rows >= pools.min(10), "{pools}: {rows} rows");
        assert_eq!(text.contains("\n| | and "), rows < pools, "{pools}: what is cut is counted");
        let folded = text.matches("<details>").count();
        assert!(folded <= last, "more is dropped the larger it is");
        last = folded;
    }
}

#[test]
fn names_from_outside_are_text_and_nothing_else() {
    let input = sample::input();
    let nasty = "a|b <img src=x> @here [x](http://y) `c` **d** -->\n# e \u{1b}[31m \u{202e}";
    let mut plan = sample::plan(&input);
    plan.held[0].wanted = nasty.into();
    plan.drift[0].by = Some(nasty.into());
    plan.released[0].what = nasty.into();
    let text = markdown(&shown(&input, &plan));
    for bad in ["<img", "@here", "[x](", "http://", "**d**", "\u{1b}", "\u{202e}", "\n# e"] {
        assert!(!text.contains(bad), "{bad:?} came through");
    }
    let row = text.lines().find(|line| line.contains("img src")).unwrap();
    assert_eq!(row.replace("\\|", "").matches('|').count(), 6, "{row}");
    let told = plain(&input, &plan);
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told}");
}

#[test]
fn json_is_what_its_schema_says() {
    let schema = jsonschema::draft7::new(&json_schema()).unwrap();
    let input = sample::input();
    for plan in [sample::plan(&input), empty_plan(), huge(2)] {
        let value: Value = serde_json::from_str(&json(&shown(&input, &plan))).unwrap();
        let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
    }
    let plan = sample::plan(&input);
    let value: Value = serde_json::from_str(&json(&shown(&input, &plan))).unwrap();
    assert_eq!((&value["format_version"], &value["verdict"]), (&"1.3".into(), &"changes".into()));
    assert_eq!(value["changes"][0]["actions"], serde_json::json!(["cordon", "suspend", "terminate", "launch"]));
    assert_eq!(value["changes"][0]["needs_approval"], Value::Bool(true));
    assert_eq!(value["held"][0]["until"], "2026-11-03T18:00:00Z");
    assert_eq!(value["effects"]["launch pool/serve"]["usd_per_hour"], "21.96");
    assert!(!schema.is_valid(&serde_json::json!({"format_version": "1.0"})));
}

#[test]
fn a_saved_plan_comes_back_as_it_was() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let text = save(&input, &plan);
    let saved = load_saved(&text).unwrap();
    assert_eq!((&saved.plan, &saved.effects, &saved.digest), (&plan, &plan.effects, &plan.digest));
    assert_eq!(save(&input, &saved.plan), text, "byte for byte");
}

#[test]
fn what_is_no_saved_plan_is_told() {
    let input = sample::input();
    let plan = sample::plan(&input);
    let text = save(&input, &plan);
    let says = |text: &str, part: &str| {
        let said = load_saved(text).unwrap_err();
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    };
    for share in [10, 50, 90] {
        says(&text[..text.len() * share / 100], "cut short");
    }
    says("", "empty");
    says("kind: Fleet\n", "no saved plan");
    says("{\"a\": 1}", "no saved plan");
    says("[1, 2]", "no saved plan");
    says(&json(&shown(&input, &plan)), "the output for programs");
    says(&text.replacen("\"format_version\": \"2.0\"", "\"format_version\": \"3.1\"", 1), "format 3.1");
    says(&text.replacen("\"drift\"", "\"shift\"", 1), "damaged");
    // Somebody allows a little more than was seen.
    says(&text.replacen("\"count\": 1", "\"count\": 100", 1), "changed after it was saved");
    let newer = text.replacen("\"format_version\": \"2.0\"", "\"format_version\": \"2.7\"", 1);
    assert!(load_saved(&newer).is_ok(), "a later minor version can be read");
}

#[test]
fn what_goes_beyond_an_approval_is_told_line_by_line() {
    let input = sample::input();
    let approved = sample::plan(&input).effects;
    let mut wanted = approved.clone();
    let more = Amount {
        count: 2,
        gpus: 16,
        gpu_secs: 7200,
        teams: BTreeSet::from(["nlp".into()]),
        highest: Some(200),
        ..Amount::default()
    };
    wanted.add(&Effects::one(Verb::Drain, pool("serve"), more));
    let hour = Amount { count: 1, usd_hour: usd("21.96"), ..Amount::default() };
    wanted.add(&Effects::one(Verb::Launch, pool("serve"), hour));
    let beyond = wanted.within(&approved).unwrap_err();
    assert_snapshot!(excesses(&beyond).join("\n"), @"
      drain pool/serve: 2, 16 GPUs disturbed, ~2.0 GPU-h at risk, of nlp, up to rank 200; nothing of it was approved
      launch pool/serve: 2, +$43.92/h; approved was 1, +$21.96/h
      ");
}

#[test]
fn whatever_is_waited_on_is_told_with_what_to_do() {
    let input = sample::input();
    let now = input.now;
    let freeze = |by: &str, scope| Freeze { scope, by: by.into(), at: now, reason: "why".into(), all: true };
    let document = crate::plan::frozen_by_document("audit", now);
    let waits = [
        WaitingOn::Budget {
            name: "maxUnavailable of pool/train".into(),
            allowed: 2,
            used: 2,
            by: vec!["train/0 (it moves)".into(), "train/3 (it is sick: Xid 79)".into()],
            remedy: None,
        },
        WaitingOn::Budget {
            name: "maxUnavailable of pool/train".into(),
            allowed: 1,
            used: 1,
            by: vec!["train/0 (it is in quarantine)".into()],
            remedy: Some("tidewright return n-0, or raise maxUnavailable of pool/train".into()),
        },
        WaitingOn::budget("maxUnavailable of pool/train", 2, 7),
        WaitingOn::budget("canary", 1, 0),
        WaitingOn::until(at("2026-11-08T10:00-08:00"), "the window is closed"),
        WaitingOn::Canary {
            pool: "train".into(),
            by: vec![SlotId::new(&"train".into(), 0)],
            since: now,
            until: at("2026-11-08T10:00-08:00"),
        },
        WaitingOn::Capacity { what: "p5.48xlarge in us-west-2a".into(), retry: Some(now) },
        WaitingOn::Capacity { what: "reservation/h100, which comes first".into(), retry: None },
        WaitingOn::Step("terminate:train/1@2".into()),
        WaitingOn::Step("unheard-of".into()),
        WaitingOn::DisruptionBudget("nlp/eval-server".parse().unwrap()),
        WaitingOn::Gang { name: "vision/pretrain-7".into() },
        WaitingOn::Gang { name: "vision/pretrain-7 and vision/tune-2".into() },
        WaitingOn::Unread(Gap { what: "DescribeInstances".into(), why: "RequestLimitExceeded".into() }),
        WaitingOn::Shrunk { seen: Counts { instances: 3, nodes: 4 }, trusted: Counts { instances: 16, nodes: 16 } },
        WaitingOn::Limit { name: "limits.hourlyUsd".into(), allowed: usd("120"), wanted: usd("1164.5") },
        WaitingOn::Limit { name: "the price of spot nodes".into(), allowed: usd("8.01"), wanted: usd("8.9688") },
        WaitingOn::Approval {
            digest: "62eb5d9e018a225d472e1584".into(),
            why: "this removes 8 of 12 nodes, 67 percent, and limits.desiredShrinkPercent is 25".into(),
        },
        WaitingOn::Frozen(freeze("ana", Scope::Fleet)),
        WaitingOn::Frozen(freeze("ana", Scope::Node("train-1".into()))),
        WaitingOn::Frozen(document),
        WaitingOn::HandsOff("train-1".into()),
        WaitingOn::OtherOwner {
            object: ObjectKey::cluster(ObjectKind::ClusterQueue, "vision"),
            patch: "spec:\n  cohort: all".into(),
        },
        WaitingOn::Guard { tide: "nightly".into(), why: "0.72 is not below 0.6".into() },
        WaitingOn::Person("the document names no zone".into()),
    ];
    let plan = sample::plan(&input);
    let shown = shown(&input, &plan);
    let by_person = &waits[1];
    assert!(by_person.is_part_of_it() && !by_person.comes_by_itself(), "it is approved, and a person makes room");
    let told = waits.iter().map(|waits| {
        let wait = shown.words().waiting(waits);
        let remedy = wait.remedy.map_or(String::new(), |remedy| format!("\n  {remedy}"));
        let patch = wait.patch.map_or(String::new(), |patch| format!("\n    {}", patch.replace('\n', "\n    ")));
        format!("{}{remedy}{patch}", wait.on)
    });
    assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"
    maxUnavailable of pool/train: 2 of 2 in use: train/0 (it moves) and train/3 (it is sick: Xid 79)
    maxUnavailable of pool/train: 1 of 1 in use: train/0 (it is in quarantine)
      tidewright return n-0, or raise maxUnavailable of pool/train
    maxUnavailable of pool/train: 7 already, and 2 may be
    the canary goes first: 0 of 1 node
    until Sun 10:00: the window is closed
    canary train/0: since 19:55, until Sun 10:00
      to go on earlier, shorten updates.canary.for of pool/train
    the cloud had no p5.48xlarge in us-west-2a; asked again now
    for reservation/h100, which comes first
    after terminate train/1 (i-train-1)
    after unheard-of
    PodDisruptionBudget nlp/eval-server allows no eviction now
      kubectl -n nlp describe pdb eval-server
    gang vision/pretrain-7 ends by itself: nobody may stop it; done when it ends
    gangs vision/pretrain-7 and vision/tune-2 end by themselves: nobody may stop them; done when they end
    DescribeInstances could not be read: RequestLimitExceeded
    the last look showed 3 of 16 instances and 4 of 16 claimed nodes: too few to be believed, so nothing is removed
      look yourself; if they are really gone: tidewright lost clusters/demo --yes
    limit hourlyUsd is $120, this needs $1,164.50
      raise spec.limits.hourlyUsd in the Fleet document
    the price of spot nodes is $8.97 an hour, $8.01 may be paid
      wait until it is cheaper, or raise maxPricePercent in the pool
    an approval by name: this removes 8 of 12 nodes, 67 percent, and limits.desiredShrinkPercent is 25
      tidewright apply clusters/demo --approved 62eb5d9e018a
    frozen by ana since 19:55, deadlines too: why
      tidewright thaw --dir clusters/demo
    frozen by ana since 19:55, deadlines too: why
      tidewright thaw node/train-1 --dir clusters/demo
    frozen by the Fleet document: audit
      remove spec.frozen from the Fleet document
    node train-1 carries tidewright.dev/hands-off
      kubectl annotate node train-1 tidewright.dev/hands-off-
    ClusterQueue vision belongs to another tool
      make this change there:
        spec:
          cohort: all
    the guard of tide nightly: 0.72 is not below 0.6
    the document names no zone
    ");
}

#[test]
fn numbers_are_said_as_people_say_them() {
    let said = |values: &[&str]| values.iter().map(|text| money(usd(text))).collect::<Vec<_>>().join(" ");
    assert_eq!(
        said(&["0", "120", "43.9", "1234567.891", "999.999", "0.004"]),
        "$0 $120 $43.90 $1,234,567.89 $1,000 $0"
    );
    let lengths: Vec<String> = [45, 60, 89, 3599, 3600, 12_000, 90_000].map(length).into();
    assert_eq!(lengths.join(", "), "45 s, 1 min, 1 min, 60 min, 1 h, 3 h 20 min, 1 d 1 h");
    let ranges: Vec<String> = [(0, 1), (40, 90), (90, 200), (660, 1080), (600, 600), (7000, 9000)].map(range).into();
    assert_eq!(ranges.join(", "), "0–1 s, 40–90 s, 1–4 min, 11–18 min, 10 min, 1–3 h");
    let work: Vec<String> = [100, 3600, 35_999, 36_000, 111_600].map(gpu_hours).into();
    assert_eq!(work.join(", "), "under 0.1 GPU-h, ~1.0 GPU-h, ~9.9 GPU-h, ~10 GPU-h, ~31 GPU-h");
    let names = ["a", "b", "c", "d"].map(String::from);
    assert_eq!((list(&names, 2), list(&names, 4)), ("a, b and 2 more".into(), "a, b, c and d".into()));
    assert_eq!(quoted("it's"), "'it'\\''s'");
    assert_eq!(clean("a\tb\u{7}"), "a b\\u{7}");
}
