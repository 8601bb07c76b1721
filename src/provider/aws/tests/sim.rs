//! The same stories and those that only the simulated EC2 can tell: tokens, reservations, blocks, want of capacity, lost
//! answers. Its endpoint runs beside the provider, on a port of loopback.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpListener;

use super::bench;
use crate::apply::{Patience, StopSignal, apply, open_approval};
use crate::audit::{Audited, audit};
use crate::effect::{Action, CloudAction, LaunchRequest, PurchaseRequest, ReserveRequest, Subject};
use crate::endpoint::serve::{Served, Speed, serve};
use crate::endpoint::{Endpoint, Options};
use crate::fleet::Target;
use crate::fleet::config::{AwsCloud, Cloud as Place, Endpoints};
use crate::fleet::reservation::Match;
use crate::ids::{Digest, FleetUid};
use crate::load;
use crate::observed::{Market, ReservationState};
use crate::plan::{Plan, Step, WaitingOn, plan};
use crate::provider::aws::Aws;
use crate::provider::aws::actions::Api;
use crate::provider::nowhere::Nowhere;
use crate::provider::sim::Sim;
use crate::provider::{Class, Clock, Cloud, Done, World};
use crate::round;
use crate::units::{Duration, Usd};

pub const IMAGE: &str = "ami-0123456789abcdef0";

/// The simulated EC2 behind a port, for as long as the story takes.
pub fn served(options: Options, speed: f64, tell: impl AsyncFnOnce(&str, Rc<Served>)) {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let sim = Sim::in_memory(now, 1);
    sim.aside(|state| state.cloud.account.be(Some(bench::ACCOUNT.into()), Some("us-west-2".into())));
    let served = Rc::new(Served::new(sim, Endpoint::new(options), Speed(speed)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let door = tokio::task::spawn_local(serve(listener, served.clone(), std::future::pending()));
        tell(&url, served).await;
        door.abort();
    });
}

/// A story of the fleet that the bench describes, with nobody counting requests.
fn story(tell: impl AsyncFnOnce(&Aws, &Target, &Served)) {
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, served| {
        let target = bench::target(url, IMAGE);
        let aws = bench::connect(&target, "ml").await;
        bench::furnish_for(&aws, &target).await;
        tell(&aws, &target, &served).await;
    });
}

/// A story in which the template and the group are there.
fn launching(tell: impl AsyncFnOnce(&Aws, &Target, &Served, LaunchRequest)) {
    story(async |aws, target, served| {
        aws.observe(target).await;
        let template = bench::template(target, &[]);
        aws.perform(&CloudAction::EnsureTemplate(template.clone())).await.unwrap();
        tell(aws, target, served, bench::request(&template, 0)).await;
    });
}

fn changed(served: &Served, call: &str) -> u64 {
    served.sim.state().calls.changed.get(call).copied().unwrap_or_default()
}

async fn launch(aws: &Aws, request: &LaunchRequest) -> Result<Done, crate::provider::ProviderError> {
    aws.perform(&CloudAction::Launch(request.clone())).await
}

fn fault(served: &Served, order: &str) {
    served.endpoint.inject(order.parse().unwrap());
}

#[test]
fn templates_are_written_when_they_differ() {
    story(async |aws, target, _| bench::templates_are_written_when_they_differ(aws, target).await);
}

#[test]
fn a_group_is_made_once() {
    story(async |aws, target, _| bench::a_group_is_made_once(aws, target).await);
}

#[test]
fn an_instance_lives_and_ends() {
    story(async |aws, target, _| {
        aws.perform(&CloudAction::EnsureGroup { group: bench::GROUP.into() }).await.unwrap();
        bench::an_instance_lives_and_ends(aws, target, Some(bench::GROUP.into())).await;
    });
}

#[test]
fn an_instance_is_protected_until_we_end_it() {
    launching(async |aws, _, served, request| {
        let Done::Instance(id) = launch(aws, &request).await.unwrap() else { panic!() };
        let past_us = aws.wire.ec2_once.terminate_instances().instance_ids(id.as_str()).send().await;
        assert!(past_us.is_err());
        let (slot, instance) = (request.slot.clone(), id.clone());
        assert_eq!(aws.perform(&CloudAction::Terminate { slot, instance }).await, Ok(Done::Nothing));
        assert!(!served.sim.state().cloud.instances[&id].state.serves());
    });
}

#[test]
fn another_account_is_a_gap_and_is_never_written_to() {
    story(async |_, target, _| bench::another_account_is_a_gap_and_is_never_written_to(target).await);
}

/// An endpoint of another region, by mistake: what is there is not the fleet's.
#[test]
fn another_region_is_a_gap_and_is_never_written_to() {
    story(async |_, target, served| {
        let Place::Aws(cloud) = &target.standing.cloud else { panic!() };
        let elsewhere = AwsCloud { region: "eu-west-1".into(), ..(**cloud).clone() };
        let aws = Aws::connect_as(&elsewhere, &"ml".into(), "AKIDTEST", "secret").await;
        let before = served.sim.state().calls.changed.clone();
        let seen = aws.observe(target).await;
        let gap = seen.instances.gap().unwrap();
        assert!(gap.why.contains("not 'eu-west-1': this is us-west-2"), "{gap:?}");
        let refused = aws.perform(&CloudAction::EnsureGroup { group: "g".into() }).await.unwrap_err();
        assert_eq!(refused.class, Class::Denied);
        assert_eq!(served.sim.state().calls.changed, before);
    });
}

#[test]
fn everything_can_be_read() {
    story(async |aws, target, _| {
        let seen = aws.observe(target).await;
        let gaps = [
            seen.reservations.gap(),
            seen.offerings.gap(),
            seen.instances.gap(),
            seen.groups.gap(),
            seen.templates.gap(),
            seen.spot_prices.gap(),
        ];
        assert_eq!(gaps, [None; 6]);
    });
}

#[test]
fn a_launch_that_is_repeated_is_the_same_launch_whatever_changed_meanwhile() {
    launching(async |aws, target, served, request| {
        let first = launch(aws, &request).await.unwrap();
        assert_eq!(launch(aws, &request).await.unwrap(), first);
        // Labels made another version with the same digest: the request is another one, and the token knows better.
        let relabelled = bench::template(target, &[("a", "b")]);
        aws.perform(&CloudAction::EnsureTemplate(relabelled)).await.unwrap();
        assert_eq!(launch(aws, &request).await.unwrap(), first);
        assert_eq!(served.sim.state().cloud.instances.len(), 1);
    });
}

#[test]
fn a_lost_answer_is_ambiguous_and_its_repetition_finds_what_was_made() {
    for order in ["cut-after RunInstances", "truncate RunInstances", "garbage RunInstances", "500-after RunInstances"] {
        launching(async |aws, _, served, request| {
            fault(served, order);
            let lost = launch(aws, &request).await.unwrap_err();
            assert_eq!(lost.class, Class::Ambiguous, "{order}: {lost}");
            assert!(matches!(launch(aws, &request).await, Ok(Done::Instance(_))), "{order}");
            assert_eq!(served.sim.state().cloud.instances.len(), 1, "{order}");
        });
    }
}

#[test]
fn want_of_capacity_is_definite_and_asked_for_once() {
    launching(async |aws, _, served, request| {
        let (kind, zone) = (request.instance_type.clone(), request.zone.clone());
        served.sim.aside(|state| state.cloud.set_room(&kind, &zone, Market::OnDemand, Some(0)));
        let before = served.sim.state().calls.asked.get("launch").copied().unwrap_or_default();
        let refused = launch(aws, &request).await.unwrap_err();
        assert_eq!(refused.class, Class::NoCapacity, "{refused}");
        assert!(refused.message.contains("InsufficientInstanceCapacity"), "{refused}");
        let after = served.sim.state().calls.asked.get("launch").copied().unwrap_or_default();
        assert_eq!(after - before, 1);
        assert_eq!(changed(served, "launch"), 0);
    });
}

#[test]
fn a_reservation_is_made_once_changed_filled_and_given_back() {
    launching(async |aws, target, served, request| {
        let wanted = ReserveRequest {
            reservation: "h100".into(),
            generation: 1,
            token: "RESERVE".into(),
            instance_type: request.instance_type.clone(),
            zone: request.zone.clone(),
            nodes: 2,
            end: None,
            matching: Match::Targeted,
        };
        let reserve = async |wanted: &ReserveRequest| aws.perform(&CloudAction::Reserve(wanted.clone())).await.unwrap();
        let Done::Reservation(id) = reserve(&wanted).await else { panic!() };
        assert_eq!(reserve(&wanted).await, Done::Reservation(id.clone()));
        // The same token for something else: what the first made is found by its tag.
        assert_eq!(reserve(&ReserveRequest { nodes: 3, ..wanted.clone() }).await, Done::Reservation(id.clone()));

        let end = Timestamp::from_second(Timestamp::now().as_second() + 86_400).unwrap();
        let modify = |nodes, end| CloudAction::Modify {
            reservation: "h100".into(),
            id: id.clone(),
            nodes,
            end,
            matching: Match::Targeted,
        };
        for _ in 0..2 {
            assert_eq!(aws.perform(&modify(1, Some(end))).await, Ok(Done::Nothing));
        }
        assert_eq!(changed(served, "modify"), 1);
        let seen = aws.observe(target).await;
        let held = &seen.reservations.seen()[&id];
        assert_eq!((held.total, held.end, held.block), (1, Some(end), false));
        assert_eq!(held.tag.as_ref().map(|tag| tag.reservation.as_str()), Some("h100"));

        let into = LaunchRequest { market: Market::Reserved, reservation: Some(id.clone()), ..request };
        let Done::Instance(instance) = launch(aws, &into).await.unwrap() else { panic!() };
        let other = LaunchRequest { token: "SECOND".into(), ..into };
        assert_eq!(launch(aws, &other).await.unwrap_err().class, Class::NoCapacity);
        let seen = aws.observe(target).await;
        assert_eq!(seen.instances.seen()[&instance].market, Market::Reserved);
        assert_eq!(seen.reservations.seen()[&id].available, 0);

        let named = |id: &str| Subject::Reservation(id.into());
        let both = aws.reread(&[named(id.as_str()), named("cr-0123456789abcdef0")]).await;
        assert_eq!((both.reservations.seen().len(), both.reservations.gap()), (1, None));

        let cancel = CloudAction::Cancel { reservation: "h100".into(), id: id.clone() };
        for _ in 0..2 {
            assert_eq!(aws.perform(&cancel).await, Ok(Done::Nothing));
        }
        let seen = aws.observe(target).await;
        assert_eq!(seen.reservations.seen()[&id].state, ReservationState::Ended);
        let missing = CloudAction::Cancel { reservation: "h100".into(), id: "cr-0123456789abcdef0".into() };
        assert_eq!(aws.perform(&missing).await.unwrap_err().class, Class::NotFound);
    });
}

#[test]
fn a_block_is_offered_bought_for_its_fee_and_found_by_its_offer() {
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, served| {
        let day = |ahead: i64| {
            let at = Timestamp::now() + SignedDuration::from_hours(24 * ahead);
            at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
        };
        let (from, to) = (day(2), day(9));
        let block = format!(
            "---\nkind: Reservation\nmetadata: {{name: burst}}\nspec:\n  instanceType: p5.48xlarge\n  nodes: 2\n  \
             capacityBlock: {{duration: 1d, startBetween: {{from: {from}, to: {to}}}, maxUpfrontUsd: 100000}}\n"
        );
        let target = bench::target_with(url, IMAGE, &block);
        let aws = bench::connect(&target, "ml").await;
        let seen = aws.observe(&target).await;
        assert_eq!(seen.offerings.gap(), None);
        let offer = seen.offerings.seen()["burst"][0].clone();
        let request = |fee| {
            let (reservation, offering) = ("burst".into(), offer.id.clone());
            CloudAction::Purchase(PurchaseRequest { reservation, offering, extends: None, fee })
        };
        let dearer = Usd(offer.fee.0 + rust_decimal::Decimal::ONE);
        assert_eq!(aws.perform(&request(dearer)).await.unwrap_err().class, Class::Other);
        assert_eq!(changed(&served, "purchase"), 0);
        // The answer is lost: it is sent once, and the block is found by what it carries.
        fault(&served, "cut-after PurchaseCapacityBlock");
        assert_eq!(aws.perform(&request(offer.fee)).await.unwrap_err().class, Class::Ambiguous);
        assert_eq!(changed(&served, "purchase"), 1);
        let seen = aws.observe(&target).await;
        let (_, bought) = seen.reservations.seen().iter().next().unwrap();
        assert_eq!((bought.block, bought.offering.as_ref(), bought.start), (true, Some(&offer.id), Some(offer.start)));
        assert_eq!(seen.offerings.seen().get("burst"), None);
    });
}

#[test]
fn a_burst_of_launches_waits_for_its_turn_and_none_is_throttled() {
    served(Options::default(), 1.0, async |url, served| {
        let target = bench::target(url, IMAGE);
        let aws = bench::connect(&target, "ml").await;
        bench::furnish_for(&aws, &target).await;
        aws.observe(&target).await;
        let template = bench::template(&target, &[]);
        aws.perform(&CloudAction::EnsureTemplate(template.clone())).await.unwrap();
        let requests: Vec<LaunchRequest> = (0..12).map(|index| bench::request(&template, index)).collect();
        let sent = requests.iter().map(|request| launch(&aws, request));
        let made = futures_util::future::join_all(sent).await;
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        assert_eq!(served.sim.state().cloud.instances.len(), 12);
    });
}

#[test]
fn the_wrong_port_is_a_gap_that_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = bench::target("http://127.0.0.1:1", IMAGE);
        let aws = bench::connect(&target, "ml").await;
        let seen = aws.observe(&target).await;
        assert!(seen.instances.gap().is_some_and(|gap| gap.why.contains("cannot be reached")), "{:?}", seen.instances);
    });
}

#[test]
fn each_service_is_asked_at_its_own_endpoint() {
    let wrong = "http://127.0.0.1:1";
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, served| {
        let fleet = demo(wrong);
        tag_network(&served.sim, &fleet);
        let now = Timestamp::now();
        let target = fleet.target_at(now);
        let template = crate::compile::compile(&target).pools["train"].template.clone();
        let Place::Aws(cloud) = &fleet.cloud.value else { panic!() };
        let at = |url: &str| Some(url.to_string());
        let queue_url = Some(format!("{url}/123456789012/notices"));
        let (ec2, eks, sqs, ssm, sts) = (at(url), at(url), at(url), at(url), at(url));
        let endpoint_urls = Endpoints { ec2, eks, sqs, ssm, sts };
        let cloud = AwsCloud { endpoint_urls, queue_url, ..(**cloud).clone() };
        let ask = async |cloud: &AwsCloud| {
            // A template that is there is not made again, and nobody is asked for what it needs.
            served.sim.aside(|state| {
                state.cloud.account.templates.clear();
                state.cloud.account.made.clear();
            });
            let aws = Aws::connect_as(cloud, &"aws-demo".into(), "AKIDTEST", "secret").await;
            let seen = aws.observe(&target).await;
            let ensured = aws.perform(&CloudAction::EnsureTemplate(template.clone())).await;
            (seen.instances.gap().map(|gap| gap.what.clone()), ensured.map_err(|error| error.message))
        };
        type Lose = fn(&mut Endpoints);
        let each: [(Lose, Option<&str>); 5] = [
            (|urls| urls.sts = None, Some("GetCallerIdentity")),
            (|urls| urls.ec2 = None, Some("DescribeInstances")),
            (|urls| urls.sqs = None, Some("ReceiveMessage")),
            (|urls| urls.ssm = None, None),
            (|urls| urls.eks = None, None),
        ];
        for (at, (lose, gap)) in each.into_iter().enumerate() {
            let mut lost = cloud.clone();
            lose(&mut lost.endpoint_urls);
            let (seen, ensured) = ask(&lost).await;
            assert_eq!(seen.as_deref().is_some(), gap.is_some(), "{at}: {seen:?}");
            // A queue is no part of a template; without any other it cannot be made.
            assert_eq!(ensured.is_err(), gap != Some("ReceiveMessage"), "{at}: {ensured:?}");
            assert!(ensured.err().is_none_or(|why| why.contains("cannot be reached")), "{at}");
        }
        assert_eq!(ask(&cloud).await, (None, Ok(Done::Nothing)));
    });
}

/// The simulated world's clock, beside calls that really go over a wire.
struct Wind<'a>(&'a Sim);

#[async_trait::async_trait(?Send)]
impl Clock for Wind<'_> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn sleep_until(&self, at: Timestamp) {
        while self.0.now() < at {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            let next = self.0.now() + SignedDuration::from_secs(1);
            self.0.advance_to(next.min(at));
        }
    }
}

/// Subnets and security groups carry the tags that the fleet finds them by; some are EKS's own, which nobody can write.
fn tag_network(sim: &Sim, fleet: &crate::fleet::Fleet) {
    for launch in fleet.standing().pools.values().filter_map(|pool| pool.launch.as_ref()) {
        sim.aside(|state| {
            let zones = state.cloud.account.zones();
            let subnets: Vec<String> = zones.iter().map(|zone| state.cloud.subnet_of(zone)).collect();
            let group = state.cloud.fixed_id("sg", &["nodes"]);
            subnets.iter().for_each(|subnet| state.cloud.account.tag(subnet, launch.subnets.tags.clone()));
            state.cloud.account.tag(&group, launch.security_groups.tags.clone());
        });
    }
}

/// The documents of `clusters/aws-demo`, with this endpoint.
fn demo(url: &str) -> crate::fleet::Fleet {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/aws-demo");
    let mut loaded = load::Loaded::default();
    for name in ["fleet.yaml", "serving.yaml", "teams.yaml", "training.yaml"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap().replace("http://127.0.0.1:8520", url);
        load::add_bytes(&mut loaded, name, text.as_bytes());
    }
    let checked = loaded.check(Timestamp::now());
    assert!(checked.fleet.is_some(), "{:#?}", checked.diagnostics);
    checked.fleet.unwrap()
}

#[test]
fn the_demo_converges_over_the_wire_and_then_nothing_more_is_asked_for() {
    served(Options { throttle: false, ..Options::default() }, 0.0, async |url, served| {
        let fleet = demo(url);
        let Place::Aws(cloud) = &fleet.cloud.value else { panic!() };
        let uid = FleetUid::from("aws-demo");
        let aws = Aws::connect_as(cloud, &uid, "AKIDTEST", "secret").await;
        tag_network(&served.sim, &fleet);
        let wind = Wind(&served.sim);
        let world = World { cloud: &aws, cluster: served.sim.world().cluster, meter: &Nowhere, clock: &wind };
        let mut rounds = 0;
        loop {
            let input = round::input(&fleet, &uid, world, &round::Options::default()).await.unwrap();
            assert!(input.observed.gaps().is_empty(), "{:?}", input.observed.gaps());
            let made = plan(&input);
            if made.steps.is_empty() && made.held.is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 12, "{:#?}", made.held);
            let audited = audit(&input, made).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            let approval = Digest::from(audited.id.as_str());
            open_approval(world, &approval, &audited.effects, BTreeMap::new(), "a person").await.unwrap();
            let stop = StopSignal::default();
            let patience = Patience {
                per_wait: Duration::minutes(20),
                total: None,
                poll: Duration::secs(15),
                concurrency: 8,
                stop: &stop,
            };
            let mut told = Vec::new();
            apply(&audited, &input, Some(&approval), world, &patience, &mut |event| told.push(event)).await.unwrap();
            served.sim.advance(Duration::minutes(1));
        }
        let state = served.sim.state();
        assert_eq!(state.cloud.instances.values().filter(|found| found.state.is_live()).count(), 7);
        assert_eq!(state.calls.changed.get("launch"), Some(&7));
        assert_eq!(state.cloud.reservations.len(), 1);
    });
}

fn launches(plan: &Plan) -> usize {
    let is_launch = |step: &&Step| matches!(&step.action, Action::Cloud(CloudAction::Launch(_)));
    plan.steps.iter().filter(is_launch).count()
}

/// The plan of the demo, made to be shown or to be carried out.
async fn demo_plan(url: &str, served: &Served, preview: bool) -> Audited {
    let fleet = demo(url);
    let Place::Aws(cloud) = &fleet.cloud.value else { panic!() };
    let uid = FleetUid::from("aws-demo");
    tag_network(&served.sim, &fleet);
    let wind = Wind(&served.sim);
    let aws = Aws::connect_as(cloud, &uid, "AKIDTEST", "secret").await;
    let world = World { cloud: &aws, cluster: served.sim.world().cluster, meter: &Nowhere, clock: &wind };
    let options = round::Options { preview, ..round::Options::default() };
    let input = round::input(&fleet, &uid, world, &options).await.unwrap();
    let made = plan(&input);
    audit(&input, made).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn waits_for_a_person(plan: &Plan) -> usize {
    plan.held.iter().filter(|held| matches!(held.waiting_on, WaitingOn::Person(_))).count()
}

#[test]
fn whoever_may_only_look_is_shown_the_whole_plan_and_can_carry_nothing_out() {
    served(Options { throttle: false, ..Options::default() }, 0.0, async |url, served| {
        let allowed = demo_plan(url, &served, true).await;
        assert_eq!(allowed.notes.iter().filter(|note| note.text.contains("may look")).count(), 0);
        for api in Api::ALL.iter().filter(|api| api.changes()) {
            fault(&served, &format!("deny {} 99", api.name()));
        }
        let shown = demo_plan(url, &served, true).await;
        assert_eq!((&shown.digest, launches(&shown)), (&allowed.digest, 2));
        assert_eq!((&shown.steps, waits_for_a_person(&shown)), (&allowed.steps, waits_for_a_person(&allowed)));
        let notes: Vec<&str> =
            shown.notes.iter().map(|note| note.text.as_str()).filter(|text| text.contains("may look")).collect();
        assert!(matches!(notes[..], [note] if note.contains("deploy/aws/iam-policy.json")), "{notes:?}");
        // The same credentials, where somebody wants to carry it out.
        let held = demo_plan(url, &served, false).await;
        assert_eq!(launches(&held), 0);
        assert!(waits_for_a_person(&held) > waits_for_a_person(&allowed), "{:?}", held.held);
    });
}

#[test]
fn one_thing_that_is_allowed_is_enough_to_hold_what_is_not() {
    served(Options { throttle: false, ..Options::default() }, 0.0, async |url, served| {
        for api in Api::ALL.iter().filter(|api| api.changes() && **api != Api::CreatePlacementGroup) {
            fault(&served, &format!("deny {} 99", api.name()));
        }
        let made = demo_plan(url, &served, true).await;
        assert_eq!(launches(&made), 0);
        assert!(made.notes.iter().all(|note| !note.text.contains("may look")), "{:?}", made.notes);
    });
}

#[test]
fn a_missing_permission_is_found_at_plan_time_with_the_statement_to_add() {
    served(Options { throttle: false, ..Options::default() }, 0.0, async |url, served| {
        let allowed = demo_plan(url, &served, true).await;
        assert_eq!(launches(&allowed), 2);
        fault(&served, "deny RunInstances 9");
        let made = demo_plan(url, &served, true).await;
        assert_eq!(launches(&made), 0);
        let why = made.held.iter().find_map(|held| match &held.waiting_on {
            WaitingOn::Person(why) => Some(why.clone()),
            _ => None,
        });
        let why = why.unwrap_or_else(|| panic!("{:?}", made.held));
        for word in ["`ec2:RunInstances`", "statement `Launch` of deploy/aws/iam-policy.json", r#"{"Sid":"Launch""#] {
            assert!(why.contains(word), "{word} is not in: {why}");
        }
        // The reservation is allowed, and goes on.
        assert!(made.steps.iter().any(|step| matches!(&step.action, Action::Cloud(CloudAction::Reserve(_)))));
        // Nothing was asked for but in question.
        assert_eq!(served.sim.state().calls.asked.get("launch"), None);
    });
}

/// What a held launch waits for, in words.
fn person(plan: &Plan) -> String {
    let why = plan.held.iter().find_map(|held| match &held.waiting_on {
        WaitingOn::Person(why) if why.contains("Grant") => Some(why.clone()),
        _ => None,
    });
    why.unwrap_or_else(|| panic!("{:?}", plan.held))
}

#[test]
fn the_statement_to_add_is_the_one_that_grants_what_was_denied() {
    let cases = [
        ("role", "Grant `iam:PassRole` to", "GiveNodesTheirRole"),
        ("tags", "Grant `ec2:CreateTags` to", "TagWhatIsMade"),
        ("launch-template", "Grant `ec2:RunInstances` to", "LaunchFromOwnTemplates"),
        ("subnet", "Grant `ec2:RunInstances` to", "LaunchWith"),
    ];
    for (needed, grant, sid) in cases {
        served(Options { throttle: false, ..Options::default() }, 0.0, async |url, served| {
            fault(&served, &format!("deny={needed} RunInstances 9"));
            let made = demo_plan(url, &served, true).await;
            let why = person(&made);
            assert!(why.contains(grant) && why.contains(&format!(r#"{{"Sid":"{sid}""#)), "{needed}: {why}");
        });
    }
}

/// With a fabric, a denial of either call is told; a region that has no such call is no gap.
#[test]
fn where_things_stand_is_a_gap_when_nobody_may_ask() {
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, served| {
        let target = bench::target_with_levels(url, IMAGE);
        let aws = bench::connect(&target, "ml").await;
        bench::furnish_for(&aws, &target).await;
        let wanted = ReserveRequest {
            reservation: "h100".into(),
            generation: 1,
            token: "RESERVE".into(),
            instance_type: "p5.48xlarge".into(),
            zone: bench::ZONE.into(),
            nodes: 2,
            end: None,
            matching: Match::Targeted,
        };
        aws.perform(&CloudAction::Reserve(wanted)).await.unwrap();
        let seen = aws.observe(&target).await;
        assert_eq!(seen.unplaced, None);
        assert!(seen.reservations.seen().values().all(|held| !held.network.is_empty()), "{seen:?}");
        fault(&served, "deny DescribeCapacityReservationTopology");
        let seen = aws.observe(&target).await;
        let gap = seen.unplaced.unwrap();
        assert_eq!(gap.what, "DescribeCapacityReservationTopology");
        assert!(gap.why.contains("Grant `ec2:DescribeCapacityReservationTopology`"), "{}", gap.why);
        assert_eq!(seen.reservations.gap(), None, "what is there is known all the same");
        assert_eq!(aws.observe(&target).await.unplaced, None);
    });
}
