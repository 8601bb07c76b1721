//! Details of the protocol, with no socket: what boto3 shows from outside is in `tests/python/ec2.py`.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use serde_json::json;

use super::model::model;
use super::{Endpoint, Options, Outcome};
use crate::provider::sim::{Fault, Rates, Sim};
use crate::provider::sim::{Faults, Position};

struct Bench {
    sim: Sim,
    endpoint: Endpoint,
}

impl Bench {
    fn new() -> Self {
        let noon = "2026-11-16T12:00:00Z".parse().unwrap();
        let endpoint = Endpoint::new(Options { throttle: false, ..Options::default() });
        Self { sim: Sim::in_memory(noon, 7), endpoint }
    }

    fn send(&self, action: &str, form: &str) -> Outcome {
        let body = format!("Action={action}&Version=2016-11-15&{form}");
        self.endpoint.answer(&self.sim, &Request::new(Bytes::from(body)))
    }

    fn ask(&self, action: &str, form: &str) -> (StatusCode, String) {
        match self.send(action, form) {
            Outcome::Answer(answer) => told(answer),
            other => panic!("no answer: {other:?}"),
        }
    }

    fn launches(&self) -> u64 {
        self.sim.state().calls.changed("launch")
    }
}

fn told(answer: Response<Bytes>) -> (StatusCode, String) {
    (answer.status(), String::from_utf8(answer.into_body().to_vec()).unwrap())
}

const LAUNCH: &str = "ImageId=ami-12345678&InstanceType=p5.48xlarge&MinCount=1&MaxCount=1&Placement.AvailabilityZone=us-west-2a&ClientToken=t";

#[test]
fn a_form_becomes_json_by_the_names_of_the_model() {
    let form = [("Filter.2.Name", "b"), ("Filter.1.Name", "a"), ("Filter.1.Value.1", "x"), ("MaxResults", "5")];
    let form = form.map(|(key, value)| (key.to_string(), value.to_string()));
    let decoded = model().decode("DescribeInstances", &form).unwrap();
    assert_eq!(decoded, json!({"Filters": [{"Name": "a", "Values": ["x"]}, {"Name": "b"}], "MaxResults": 5}));
}

#[test]
fn what_the_model_does_not_know_is_refused_on_the_way_in_and_told_on_the_way_out() {
    let wrong = |key: &str, value: &str| {
        let form = [(key.to_string(), value.to_string())];
        model().decode("DescribeInstances", &form).unwrap_err().message
    };
    assert!(wrong("Colour", "red").starts_with("UnknownParameter: The parameter Colour "));
    assert!(wrong("Filter.0.Name", "a").starts_with("UnknownParameter: "));
    assert!(wrong("Filter.99999999.Name", "a").starts_with("UnknownParameter: "));
    assert!(wrong("MaxResults", "many").starts_with("InvalidParameterValue: "));
    let stray = json!({"Reservations": [{"Instances": [{"Colour": "red"}]}]});
    let why = model().encode("DescribeInstances", "id", &stray).unwrap_err();
    assert_eq!(why, "DescribeInstances.Reservations.Instances has no member Colour");
    assert!(model().encode("DescribeInstances", "id", &json!({"NextToken": []})).is_err());
}

#[test]
fn text_is_escaped_as_xml_wants_it() {
    let tags = json!({"Tags": [{"Key": "<&>\"\r\u{1}", "Value": "ü"}]});
    let text = model().encode("DescribeTags", "id", &tags).unwrap();
    assert!(text.contains("<key>&lt;&amp;&gt;&quot;&#xD;?</key><value>ü</value>"), "{text}");
}

#[test]
fn an_error_has_its_code_its_status_and_the_id_of_the_request() {
    let bench = Bench::new();
    let (status, text) = bench.ask("DescribeInstances", "InstanceId.1=i-12345678");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("<Code>InvalidInstanceID.NotFound</Code>"), "{text}");
    assert!(text.contains("<RequestID>7d9e0000-0000-4000-8000-000000000001</RequestID>"), "{text}");
    let zone = "us-west-2a".into();
    bench.sim.set_capacity(&"p5.48xlarge".into(), &zone, crate::observed::Market::OnDemand, Some(0));
    assert_eq!(bench.ask("RunInstances", LAUNCH).0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn a_parameter_that_is_not_understood_is_refused_before_anything_is_done() {
    let bench = Bench::new();
    let (status, text) = bench.ask("RunInstances", &format!("{LAUNCH}&HibernationOptions.Configured=true"));
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("UnsupportedParameter") && text.contains("HibernationOptions.Configured"), "{text}");
    assert_eq!(bench.launches(), 0);
}

#[test]
fn a_cut_connection_says_nothing_of_what_was_done() {
    let bench = Bench::new();
    for (order, done) in [("cut-before", 0), ("cut-after", 1), ("cut-after", 1)] {
        bench.endpoint.inject(format!("{order} RunInstances").parse().unwrap());
        assert!(matches!(bench.send("RunInstances", LAUNCH), Outcome::Cut));
        assert_eq!(bench.launches(), done, "{order}");
    }
    assert_eq!(bench.ask("RunInstances", LAUNCH).0, StatusCode::OK);
    assert_eq!(bench.launches(), 1);
}

#[test]
fn the_simulators_own_faults_show_on_the_wire() {
    let bench = Bench::new();
    bench.sim.inject(Fault::Ambiguous { times: 1, done: true });
    assert!(matches!(bench.send("RunInstances", LAUNCH), Outcome::Cut));
    assert_eq!(bench.launches(), 1);
    bench.sim.inject(Fault::Crash { call: 1, position: Position::BeforeSend });
    assert!(matches!(bench.send("TerminateInstances", "InstanceId.1=i-12345678"), Outcome::Cut));
    assert!(!bench.sim.crashed(), "whoever called is on another side of a wire");
    bench.sim.inject(Fault::Throttle { times: 1 });
    assert_eq!(bench.ask("RunInstances", LAUNCH).0, StatusCode::SERVICE_UNAVAILABLE);
    // A token that was heard is answered, whatever capacity is left.
    bench.sim.inject(Fault::FailLaunches { times: 1, class: crate::provider::Class::NoCapacity });
    assert_eq!(bench.ask("RunInstances", LAUNCH).0, StatusCode::OK);
    assert_eq!(bench.launches(), 1);
}

#[test]
fn a_thousand_faulty_launches_by_twenty_tokens_make_twenty_instances() {
    let bench = Bench::new();
    let rates = Rates { ambiguous: 300, throttle: 100, no_capacity: 100, lag: 300, ..Rates::default() };
    bench.sim.set_faults(Faults::random(3, rates));
    let mut cut = 0;
    for call in 0..1000 {
        let form = format!("{LAUNCH}{}", call % 20);
        cut += u32::from(matches!(bench.send("RunInstances", &form), Outcome::Cut));
    }
    assert!(cut > 200, "{cut}");
    assert_eq!((bench.launches(), bench.sim.state().cloud.instances.len()), (20, 20));
}

#[test]
fn the_buckets_of_ec2_hold_behind_the_wire() {
    let bench = Bench { endpoint: Endpoint::new(Options::default()), ..Bench::new() };
    let passed = (0..10).filter(|_| bench.ask("RunInstances", LAUNCH).0 == StatusCode::OK).count();
    assert_eq!(passed, 5);
    let passed = (0..60).filter(|_| bench.ask("DescribeInstances", "").0 == StatusCode::OK).count();
    assert_eq!(passed, 50, "all there is, unfiltered, is a smaller bucket");
    assert_eq!(bench.ask("DescribeInstances", "MaxResults=5").0, StatusCode::OK);
}

#[test]
fn another_version_of_the_api_is_refused() {
    let bench = Bench::new();
    let request = Request::new(Bytes::from("Action=DescribeInstances&Version=2006-01-01"));
    let Outcome::Answer(answer) = bench.endpoint.answer(&bench.sim, &request) else { panic!("no answer") };
    assert!(told(answer).1.contains("<Code>NoSuchVersion</Code>"));
}
