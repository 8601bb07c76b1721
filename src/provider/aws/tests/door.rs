//! The simulated world, with the provider of EC2 between it and the operator: the SDK speaks to the endpoint over a line
//! of this process, at the world's time, and what goes wrong on the wire is drawn from a seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode};
use jiff::Timestamp;

use super::bench;
use crate::effect::{CloudAction, Subject};
use crate::endpoint::{Endpoint, Fault, Kind, Options};
use crate::fleet::Target;
use crate::fleet::config::{AwsCloud, Eks, Endpoints};
use crate::ids::FleetUid;
use crate::observed::CloudSeen;
use crate::provider::aws::Aws;
use crate::provider::aws::line::{Far, Line, Told};
use crate::provider::sim::{Operator, Sim};
use crate::provider::{Cloud, Done, ProviderError};
use crate::scenario::bench::Door;

/// Calls in a thousand that something happens to on the wire, while there is weather.
const ROUGH: u64 = 25;
/// What may happen to one, and how it is counted.
const KINDS: [(&str, Kind); 8] = [
    ("wire cut before", Kind::CutBefore),
    ("wire cut after", Kind::CutAfter),
    ("wire 500", Kind::Fails(StatusCode::INTERNAL_SERVER_ERROR)),
    ("wire 503", Kind::Fails(StatusCode::SERVICE_UNAVAILABLE)),
    ("wire 500 after", Kind::FailsAfter(StatusCode::INTERNAL_SERVER_ERROR)),
    ("wire slow", Kind::Slow(Duration::from_secs(40))),
    ("wire truncated", Kind::Truncated),
    ("wire garbage", Kind::Garbage),
];

/// The way in.
pub struct Wired {
    endpoint: Endpoint,
    cloud: AwsCloud,
    fleet: RefCell<FleetUid>,
    /// Whoever spoke last, and is alive.
    spoke: RefCell<Option<(Rc<Aws>, Line)>>,
    drawn: RefCell<u64>,
    struck: RefCell<BTreeMap<String, u64>>,
}

impl Wired {
    /// Whoever makes it runs the world, on the same thread: what the SDK draws is of the seed too.
    pub fn new(seed: u64) -> Self {
        fastrand::seed(seed);
        let account = "http://localhost/123456789012";
        let cloud = AwsCloud {
            region: "us-west-2".into(),
            account_id: bench::ACCOUNT.into(),
            endpoint_url: Some("http://localhost".into()),
            endpoint_urls: Endpoints::default(),
            eks: Some(Eks { cluster_name: "ml".into() }),
            // Some fleets are told by a queue, and the others ask.
            queue_url: seed.is_multiple_of(8).then(|| format!("{account}/notices")),
        };
        Self {
            endpoint: Endpoint::new(Options::default()),
            cloud,
            fleet: RefCell::new("demo-0001".into()),
            spoke: RefCell::default(),
            drawn: RefCell::new(seed ^ 0x7769_7265),
            struck: RefCell::default(),
        }
    }

    /// A fault of the wire at one call.
    pub fn order(&self, order: &str) {
        self.endpoint.inject(order.parse().unwrap());
    }

    fn connect(&self) -> (Rc<Aws>, Line) {
        let line = Line::default();
        (Rc::new(Aws::connect_by(&line, &self.cloud, &self.fleet.borrow())), line)
    }

    /// Numbers that look unrelated, always the same for a seed.
    fn below(&self, most: u64) -> u64 {
        let mut drawn = self.drawn.borrow_mut();
        *drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*drawn >> 33) % most
    }

    fn weather(&self, sim: &Sim) {
        if sim.is_stormy() && self.below(1000) < ROUGH {
            let (name, kind) = KINDS[usize::try_from(self.below(8)).unwrap()];
            self.endpoint.inject(Fault { kind, action: None, times: 1, after: 0 });
            *self.struck.borrow_mut().entry(name.into()).or_default() += 1;
        }
    }
}

impl std::fmt::Debug for Wired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wired")
    }
}

impl Door for Wired {
    fn word(&self, document: &str) -> String {
        let account = serde_json::to_string(&serde_json::json!({"aws": self.cloud})).unwrap();
        let text = document.replace("cloud: {sim: {}}", &format!("cloud: {account}")).replace("/images/gpu", IMAGE);
        let launched = text.contains("kind: NodePool") && !text.contains("launch:") && !text.contains("existing:");
        if launched {
            let launch = LAUNCH.replace("/images/gpu", IMAGE);
            text.replacen("\nspec:\n", &format!("\nspec:\n{launch}"), 1)
        } else {
            text
        }
    }

    fn furnish(&self, sim: &Sim, target: &Target) {
        sim.aside(|state| {
            state.cloud.account.be(Some(bench::ACCOUNT.into()), Some("us-west-2".into()));
            if self.cloud.queue_url.is_some() {
                state.cloud.account.queue.get_or_insert_default();
            }
        });
        for launch in target.standing.pools.values().filter_map(|pool| pool.launch.as_ref()) {
            sim.aside(|state| {
                let zones = state.cloud.account.zones();
                let subnets: Vec<String> = zones.iter().map(|zone| state.cloud.subnet_of(zone)).collect();
                let group = state.cloud.fixed_id("sg", &["nodes"]);
                subnets.iter().for_each(|subnet| state.cloud.account.tag(subnet, launch.subnets.tags.clone()));
                state.cloud.account.tag(&group, launch.security_groups.tags.clone());
            });
        }
    }

    fn cloud<'a>(&'a self, who: &'a dyn Operator, alone: bool) -> Box<dyn Cloud + 'a> {
        let (aws, line) = match alone {
            true => self.connect(),
            false => self.spoke.borrow_mut().get_or_insert_with(|| self.connect()).clone(),
        };
        Box::new(Reached { who, wired: self, aws, line })
    }

    fn forget(&self) {
        self.spoke.take();
    }

    fn be(&self, fleet: &FleetUid) {
        *self.fleet.borrow_mut() = fleet.clone();
        self.forget();
    }

    fn struck(&self) -> Vec<(String, u64)> {
        self.struck.borrow().clone().into_iter().collect()
    }
}

/// A parameter of AWS's own, which the endpoint knows.
const IMAGE: &str = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id";
/// As pools of stories are launched that say nothing of it.
const LAUNCH: &str = "  launch:
    image: {ssmParameter: {name: /images/gpu, version: 1000}}
    bootstrap: {nodeadm: {}}
    subnets: {tags: {team: ml}}
    securityGroups: {tags: {team: ml}}
    role: node
";

/// The cloud as one operator reaches it.
struct Reached<'a> {
    who: &'a dyn Operator,
    wired: &'a Wired,
    aws: Rc<Aws>,
    line: Line,
}

/// One thing that is asked over the wire, in as many calls as it takes.
struct Asking<'a> {
    reached: &'a Reached<'a>,
    meant: Option<&'a CloudAction>,
}

impl Far for Asking<'_> {
    fn now(&self) -> Timestamp {
        self.reached.who.now()
    }

    fn pass_until(&self, at: Timestamp) {
        self.reached.who.pass_until(at);
    }

    fn gives_way(&self) -> bool {
        self.reached.who.gives_way()
    }

    fn answer(&self, request: &Request<Bytes>) -> Option<Told> {
        let (wired, mut outcome) = (self.reached.wired, None);
        let alive = self.reached.who.speak(self.meant, &mut |sim| {
            wired.weather(sim);
            outcome = Some(wired.endpoint.answer(sim, request));
        });
        let (after, said) = outcome.filter(|_| alive)?.heard();
        Some(Told { after, said })
    }
}

#[async_trait(?Send)]
impl Cloud for Reached<'_> {
    async fn observe(&self, target: &Target) -> CloudSeen {
        let asking = Asking { reached: self, meant: None };
        self.line.carry(&asking, self.aws.observe(target)).await
    }

    async fn reread(&self, what: &[Subject]) -> CloudSeen {
        let asking = Asking { reached: self, meant: None };
        self.line.carry(&asking, self.aws.reread(what)).await
    }

    async fn perform(&self, action: &CloudAction) -> Result<Done, ProviderError> {
        let asking = Asking { reached: self, meant: Some(action) };
        self.line.carry(&asking, self.aws.perform(action)).await
    }
}
