//! A world that answers at once, and remembers what it was asked.

use std::cell::RefCell;

use async_trait::async_trait;
use futures_util::FutureExt;

use super::*;
use crate::effect::{CloudAction, ClusterAction, LedgerChange, Part, Recall, Subject};
use crate::fleet::Target;
use crate::fleet::testing::{at, fleet_in};
use crate::fleet::tide::Phase;
use crate::observed::{CloudSeen, ClusterSeen, Denials, Read};
use crate::provider::{Class, Clock, Cloud, Cluster, Done, PartValue, Version};

const NOON: &str = "2026-06-08T12:00-07:00";
const NIGHT: &str = "2026-06-08T22:00-07:00";

const FLEET: &str = r#"
kind: PreemptionTier
metadata: {name: any}
spec: {rank: 1}
---
kind: NodePool
metadata: {name: serve}
spec: {instanceType: p5.48xlarge, nodes: 4, capacity: [{onDemand: {max: 8}}]}
---
kind: Quota
metadata: {name: serving}
spec: {namespaces: [{name: serving}], tiers: [any], shares: [{pool: serve, guarantee: {nodes: 4}}]}
---
kind: Quota
metadata: {name: batch}
spec: {namespaces: [{name: batch}], tiers: [any]}
---
kind: TideSchedule
metadata: {name: nightly}
spec:
  lowTide: [{days: [Mon-Fri], from: "20:00", to: "06:30"}]
  lend: [{pool: serve, nodes: 2, from: serving, to: batch}]
  guard: {prometheus: "traffic", below: 0.6, staleAfter: 10m}
  reclaim: {lead: 45m, hardAt: 10m}
"#;

/// Everything outside, at one instant.
struct Still {
    now: Timestamp,
    ledger: Result<Ledger, ProviderError>,
    asked: RefCell<Vec<Target>>,
    /// What it says to the question of what we may do.
    says: Denials,
}

impl Still {
    fn at(now: &str, ledger: Ledger) -> Self {
        Self { now: at(now), ledger: Ok(ledger), asked: RefCell::default(), says: Denials::default() }
    }

    fn input(&self, options: &Options) -> Result<PlanInput, ProviderError> {
        let fleet = fleet_in("America/Los_Angeles", NOON, FLEET);
        let world = World { cloud: self, cluster: self, meter: self, clock: self };
        input(&fleet, &"new".into(), world, options).now_or_never().expect("nobody waits here")
    }
}

#[async_trait(?Send)]
impl Cloud for Still {
    async fn observe(&self, target: &Target) -> CloudSeen {
        self.asked.borrow_mut().push(target.clone());
        CloudSeen { instances: Read::new(BTreeMap::new(), self.now), ..CloudSeen::default() }
    }
    async fn reread(&self, _: &[Subject]) -> CloudSeen {
        unreachable!("a round reads once")
    }
    async fn perform(&self, _: &CloudAction) -> Result<Done, ProviderError> {
        unreachable!("a round changes nothing")
    }
    fn rehearses(&self) -> bool {
        true
    }
    async fn rehearse(&self, _: &[&CloudAction]) -> Denials {
        self.says.clone()
    }
}

#[async_trait(?Send)]
impl Cluster for Still {
    async fn observe(&self, target: &Target) -> ClusterSeen {
        self.asked.borrow_mut().push(target.clone());
        ClusterSeen { nodes: Read::new(BTreeMap::new(), self.now), ..ClusterSeen::default() }
    }
    async fn reread(&self, _: &[Subject]) -> ClusterSeen {
        unreachable!("a round reads once")
    }
    async fn perform(&self, _: &ClusterAction) -> Result<Done, ProviderError> {
        unreachable!("a round changes nothing")
    }
    async fn ledger(&self) -> Result<(Ledger, Vec<(Part, Version)>), ProviderError> {
        self.ledger.clone().map(|ledger| (ledger, Vec::new()))
    }
    async fn ledger_part(&self, _: &Part) -> Result<(PartValue, Version), ProviderError> {
        unreachable!("a round reads the whole ledger")
    }
    async fn swap_ledger(&self, _: &Part, _: &Version, _: &PartValue) -> Result<Version, ProviderError> {
        unreachable!("a round changes nothing")
    }
}

#[async_trait(?Send)]
impl Meter for Still {
    async fn sample(&self, query: &str) -> Option<Sample> {
        (query == "traffic").then(|| Sample { value: "0.4".parse().unwrap(), at: self.now })
    }
}

#[async_trait(?Send)]
impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.now
    }
    async fn sleep_until(&self, _: Timestamp) {
        unreachable!("a round does not wait")
    }
}

/// What the target means, with nothing beside it in the cluster, in the name of the fleet's identity.
fn compiled(input: &PlanInput) -> Desired {
    let owner = Some(input.fleet.clone());
    compile_beside(&input.target, &Beside { owner, ..Beside::of(&input.target, &input.observed.cluster, 0) })
}

#[test]
fn a_round_is_of_the_clocks_instant_and_looks_a_day_ahead() {
    let still = Still::at(NIGHT, Ledger::default());
    let input = still.input(&Options::default()).unwrap();
    assert_eq!((input.now, input.fleet.as_str()), (at(NIGHT), "new"));
    assert!(matches!(input.target.tides["nightly"], Phase::Low { .. }));
    assert_eq!(input.desired, compiled(&input));
    assert_eq!(*still.asked.borrow(), [input.target.clone(), input.target.clone()]);
    let instants: Vec<String> = input.upcoming.iter().map(|(at, _)| at.to_string()).collect();
    assert_eq!(
        instants,
        ["2026-06-09T12:45:00Z", "2026-06-09T13:20:00Z", "2026-06-09T13:30:00Z", "2026-06-10T03:00:00Z"]
    );
    assert_eq!(input.observed.guards["nightly"].as_ref().map(|sample| sample.at), Some(at(NIGHT)));
    assert!(input.observed.cloud.instances.whole().is_some() && input.observed.cluster.nodes.whole().is_some());
}

#[test]
fn another_instant_changes_what_is_wanted_and_not_what_is_seen() {
    let options = Options {
        at: Some(at(NIGHT)),
        only: vec![Thing::Fleet],
        revision: Some("abc".into()),
        only_node: None,
        ..Options::default()
    };
    let input = Still::at(NOON, Ledger::default()).input(&options).unwrap();
    assert_eq!(input.now, at(NIGHT));
    assert!(matches!(input.target.tides["nightly"], Phase::Low { .. }));
    assert_eq!(input.desired, compiled(&input));
    assert_eq!(input.upcoming.first().map(|(at, _)| *at), Some(at("2026-06-09T05:45-07:00")));
    assert_eq!(input.observed.cloud.instances.at(), at(NOON));
    assert_eq!((input.only, input.revision.as_deref()), (vec![Thing::Fleet], Some("abc")));
}

#[test]
fn what_the_ledger_says_of_the_fleet_and_its_tides_holds() {
    let mut ledger = Ledger::default();
    ledger.change(&LedgerChange::Begin { fleet: "known".into(), began: None });
    let recall = Recall { at: at("2026-06-08T21:00-07:00"), by: "ann".into() };
    ledger.change(&LedgerChange::Recall { tide: "nightly".into(), recall });
    let input = Still::at("2026-06-08T21:10-07:00", ledger.clone()).input(&Options::default()).unwrap();
    assert_eq!(input.fleet.as_str(), "known");
    let due = at("2026-06-08T21:45-07:00");
    assert_eq!(
        input.target.tides["nightly"],
        Phase::Reclaiming { hard_at: at("2026-06-08T21:35-07:00"), due },
        "turned by hand"
    );
    assert_eq!(input.upcoming.iter().map(|(at, _)| *at).nth(1), Some(due));
    assert_eq!(input.ledger, ledger);
}

#[test]
fn without_the_ledger_there_is_no_round() {
    let denied = ProviderError::new(Class::Denied, "forbidden");
    let still = Still { ledger: Err(denied.clone()), ..Still::at(NOON, Ledger::default()) };
    assert_eq!(still.input(&Options::default()), Err(denied));
    assert!(still.asked.borrow().is_empty());
}

#[test]
fn a_plan_that_is_only_shown_is_not_held_for_credentials_that_only_look() {
    let denied = BTreeMap::from([("launch".to_string(), "not allowed".to_string())]);
    let looked = |preview, looks_only: Option<&str>| {
        let says = Denials { denied: denied.clone(), looks_only: looks_only.map(str::to_string) };
        let still = Still { says, ..Still::at(NOON, Ledger::default()) };
        let input = still.input(&Options { preview, ..Options::default() }).unwrap();
        let notes = plan(&input).notes.iter().filter(|note| note.text == "these look").count();
        (input.observed.denied, notes)
    };
    assert_eq!(looked(true, Some("these look")), (BTreeMap::new(), 1));
    // Whoever wants to carry it out, or may do a part of it, is told what is missing.
    assert_eq!(looked(false, Some("these look")), (denied.clone(), 0));
    assert_eq!(looked(true, None), (denied.clone(), 0));
}
