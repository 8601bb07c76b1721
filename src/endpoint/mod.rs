//! The simulated cloud as EC2 is spoken to: over HTTP, in EC2's own words, for clients that nobody here wrote.
//!
//! [`Endpoint::answer`] takes a request and gives what happens on the wire; it is a function of the simulator's state, the
//! request and the orders for faults, so a test may call it with no socket at all. `serve` puts it behind a port. All
//! state is the simulator's: here are only the words. Beside EC2 there is as much of STS, SSM, SQS and EKS as a fleet needs,
//! and orders for whoever plays the weather (`orders`). Called by the command line and by tests of the provider.

mod actions;
pub mod ask;
mod denied;
mod faults;
mod json;
mod list;
pub mod model;
mod orders;
pub mod serve;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use jiff::SignedDuration;
use serde_json::Value;

use actions::Handler;
use ask::Ask;
pub use faults::{Fault, Faults, Kind};
use model::{escape, model};

use crate::provider::sim::cloud::Circumstances;
use crate::provider::sim::{CloudState, Heard, Sim};
use crate::provider::{Class, ProviderError};

/// How the endpoint behaves, beside what the world does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// A new instance is listed only after this long.
    pub lag: SignedDuration,
    /// Whether requests are counted against EC2's buckets.
    pub throttle: bool,
}

/// The endpoint of one simulated account.
#[derive(Debug)]
pub struct Endpoint {
    options: Options,
    faults: RefCell<Faults>,
    /// How many requests were answered; their ids are made of it.
    served: Cell<u64>,
}

/// What happens on the wire.
#[derive(Debug)]
pub enum Outcome {
    Answer(Response<Bytes>),
    /// The connection is closed with no answer.
    Cut,
    /// Some of the answer, and then nothing.
    Truncated(Response<Bytes>),
    /// The same, later.
    Slow(Duration, Box<Outcome>),
}

impl Outcome {
    /// What whoever asked hears, and how much later; none where the connection is cut.
    pub fn heard(self) -> (Duration, Option<Response<Bytes>>) {
        match self {
            Self::Answer(said) => (Duration::ZERO, Some(said)),
            Self::Cut => (Duration::ZERO, None),
            Self::Truncated(said) => {
                let half = said.body().slice(..said.body().len() / 2);
                let (head, _) = said.into_parts();
                (Duration::ZERO, Some(Response::from_parts(head, half)))
            }
            Self::Slow(by, outcome) => (by, outcome.heard().1),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { lag: SignedDuration::ZERO, throttle: true }
    }
}

impl Endpoint {
    pub fn new(options: Options) -> Self {
        Self { options, faults: RefCell::default(), served: Cell::new(0) }
    }

    /// Something will go wrong on the wire.
    pub fn inject(&self, fault: Fault) {
        self.faults.borrow_mut().order(fault);
    }

    /// Answers one request.
    pub fn answer(&self, sim: &Sim, request: &Request<Bytes>) -> Outcome {
        self.served.set(self.served.get() + 1);
        if let Some(order) = request.uri().path().strip_prefix(orders::PATH) {
            return Outcome::Answer(self.order(sim, order, request.body()));
        }
        let form = form_of(request);
        let name = action_name(request, &form);
        let kind = self.faults.borrow_mut().strike(name, value(&form, "DryRun") == Some("true"));
        match kind {
            None => self.reply(sim, request, &form),
            Some(Kind::CutBefore) => Outcome::Cut,
            Some(Kind::CutAfter) => {
                self.reply(sim, request, &form);
                Outcome::Cut
            }
            Some(Kind::Fails(status)) => Outcome::Answer(self.broken(status)),
            Some(Kind::FailsAfter(status)) => {
                self.reply(sim, request, &form);
                Outcome::Answer(self.broken(status))
            }
            Some(Kind::Slow(by)) => Outcome::Slow(by, Box::new(self.reply(sim, request, &form))),
            Some(Kind::Truncated) => match self.reply(sim, request, &form) {
                Outcome::Answer(answer) => Outcome::Truncated(answer),
                other => other,
            },
            Some(Kind::Denied(needed)) => {
                let text = denied::message(sim, name, needed);
                Outcome::Answer(self.error(&refuse("UnauthorizedOperation", text)))
            }
            Some(Kind::Garbage) => {
                self.reply(sim, request, &form);
                let page = "<html><body><h1>It works!</h1></body></html>";
                Outcome::Answer(response(StatusCode::OK, "text/html", page.into()))
            }
        }
    }

    fn reply(&self, sim: &Sim, request: &Request<Bytes>, form: &[(String, String)]) -> Outcome {
        let elsewhere = elsewhere(sim, request);
        if let Some(target) = header(request, "x-amz-target") {
            let id = self.request_id();
            return match elsewhere {
                Some(error) => Outcome::Answer(json::refusal("InvalidSignatureException", code_of(&error).1, &id)),
                None => json::answer(sim, target, request.body(), &id),
            };
        }
        if service(request) == Some("eks") || request.uri().path().starts_with("/clusters") {
            let refused = elsewhere.map(|error| ("InvalidSignatureException", code_of(&error).1.to_string()));
            return Outcome::Answer(json::cluster(sim, request, refused));
        }
        let action = value(form, "Action").unwrap_or_default();
        let is_sts = service(request) == Some("sts");
        if let Some(error) = elsewhere {
            return Outcome::Answer(if is_sts { self.error_of_sts(&error) } else { self.error(&error) });
        }
        if is_sts || (service(request).is_none() && json::STS.contains(&action)) {
            return Outcome::Answer(match json::identity(sim, action, form, &self.request_id()) {
                Ok(body) => response(StatusCode::OK, "text/xml", body),
                Err(error) => self.error_of_sts(&error),
            });
        }
        let Some(action) = model().action(action) else {
            let text = format!("The action {action} is not valid for this web service.");
            return Outcome::Answer(self.error(&refuse("InvalidAction", text)));
        };
        if value(form, "Version") != Some(model::VERSION) {
            let text = format!("The version must be {}", model::VERSION);
            return Outcome::Answer(self.error(&refuse("NoSuchVersion", text)));
        }
        match self.act(sim, action, form) {
            Heard::Nothing => Outcome::Cut,
            Heard::Answer(Ok(answer)) => Outcome::Answer(self.written(action, &answer)),
            Heard::Answer(Err(error)) => Outcome::Answer(self.error(&error)),
        }
    }

    fn act(&self, sim: &Sim, action: &'static str, form: &[(String, String)]) -> Heard<Value> {
        let decoded = model().decode(action, form);
        let bucket = decoded.as_ref().map_or_else(|_| action.to_string(), |value| bucket(action, value));
        if self.options.throttle
            && let Err(error) = sim.aside(|state| state.cloud.charge(state.now, &bucket, 1))
        {
            return Heard::Answer(Err(error));
        }
        let Some(handler) = actions::handler(action) else {
            return Heard::Answer(Err(refuse("UnsupportedOperation", format!("{action} is not simulated"))));
        };
        let value = match decoded {
            Ok(value) => value,
            Err(error) => return Heard::Answer(Err(error)),
        };
        // Nothing goes wrong with a request that does nothing.
        let is_dry = value["DryRun"] == true;
        let weather = if action == "RunInstances" && !is_dry { sim.launch_weather(self.options.lag) } else { fair() };
        let ask = Ask::new(action, sim.now(), weather, value);
        match handler {
            Handler::Look(what, look) => Heard::Answer(sim.look_by_wire(what, |cloud| look(cloud, &ask))),
            Handler::Aside(aside) => Heard::Answer(sim.aside(|state| aside(&mut state.cloud, &ask))),
            Handler::Change(_, change) if is_dry => {
                Heard::Answer(sim.aside(|state| change(state, &ask)).map(|(answer, _)| answer))
            }
            Handler::Change(verb, change) => {
                let known = |cloud: &CloudState| actions::is_known(cloud, &ask);
                sim.change_by_wire((verb, action), known, |state| change(state, &ask))
            }
        }
    }

    fn written(&self, action: &str, answer: &Value) -> Response<Bytes> {
        match model().encode(action, &self.request_id(), answer) {
            Ok(body) => response(StatusCode::OK, "text/xml;charset=UTF-8", body),
            Err(why) => self.error(&refuse("InternalError", format!("the simulator's answer is not EC2's: {why}"))),
        }
    }

    fn error(&self, error: &ProviderError) -> Response<Bytes> {
        let (code, text) = code_of(error);
        let mut body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>".to_string();
        escape(&mut body, code);
        body += "</Code><Message>";
        escape(&mut body, text);
        body += &format!("</Message></Error></Errors><RequestID>{}</RequestID></Response>", self.request_id());
        response(status_of(code), "text/xml;charset=UTF-8", body)
    }

    /// STS puts an error into other words than EC2 does.
    fn error_of_sts(&self, error: &ProviderError) -> Response<Bytes> {
        let (code, text) = code_of(error);
        let mut body =
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type><Code>"
                .into();
        escape(&mut body, code);
        body += "</Code><Message>";
        escape(&mut body, text);
        body += &format!("</Message></Error><RequestId>{}</RequestId></ErrorResponse>", self.request_id());
        response(status_of(code), "text/xml", body)
    }

    /// What a server in trouble says.
    fn broken(&self, status: StatusCode) -> Response<Bytes> {
        let code = if status == StatusCode::SERVICE_UNAVAILABLE { "Unavailable" } else { "InternalError" };
        let mut answer = self.error(&refuse(code, "The server is in trouble. Try again."));
        *answer.status_mut() = status;
        answer
    }

    fn request_id(&self) -> String {
        format!("7d9e0000-0000-4000-8000-{:012x}", self.served.get())
    }
}

/// Nothing is late and nothing fails.
fn fair() -> Circumstances<'static> {
    Circumstances { fleet: None, lag: SignedDuration::ZERO, stillborn: false }
}

/// A definite no, by EC2's code.
pub(crate) fn refuse(code: &str, text: impl Into<String>) -> ProviderError {
    ProviderError::new(Class::Other, format!("{code}: {}", text.into()))
}

/// The code and the text of what the simulator refuses with.
fn code_of(error: &ProviderError) -> (&str, &str) {
    let is_code = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    match error.message.split_once(": ") {
        Some((code, text)) if is_code(code) => (code, text),
        _ => ("InternalError", error.message.as_str()),
    }
}

fn status_of(code: &str) -> StatusCode {
    match code {
        "RequestLimitExceeded" | "Unavailable" | "ServiceUnavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "InsufficientInstanceCapacity" | "InternalError" => StatusCode::INTERNAL_SERVER_ERROR,
        "DryRunOperation" => StatusCode::PRECONDITION_FAILED,
        "UnauthorizedOperation" => StatusCode::FORBIDDEN,
        "AuthFailure" => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Which bucket a request is taken from: some have a smaller one for whoever asks for all there is.
fn bucket(action: &str, value: &Value) -> String {
    let narrowed = ["InstanceIds", "GroupIds", "GroupNames", "Filters", "MaxResults"].iter();
    let all = narrowed.into_iter().all(|name| value.get(name).is_none());
    let costly = matches!(action, "DescribeInstances" | "DescribeInstanceStatus" | "DescribeSecurityGroups");
    if all && costly { format!("{action} of all") } else { action.to_string() }
}

fn form_of(request: &Request<Bytes>) -> Vec<(String, String)> {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let pairs = form_urlencoded::parse(query).chain(form_urlencoded::parse(request.body()));
    pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

fn value<'a>(form: &'a [(String, String)], name: &str) -> Option<&'a str> {
    form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// What is asked, whichever way it is written: the word that faults go by.
fn action_name<'a>(request: &'a Request<Bytes>, form: &'a [(String, String)]) -> &'a str {
    match header(request, "x-amz-target") {
        Some(target) => target.rsplit('.').next().unwrap_or_default(),
        None => value(form, "Action").unwrap_or_default(),
    }
}

/// The service that a request is signed for. Signatures themselves are not checked: there are no secrets here.
fn service(request: &Request<Bytes>) -> Option<&str> {
    scope(request)?.nth(1)
}

/// The region that a request is signed for, and then the service.
fn scope(request: &Request<Bytes>) -> Option<impl Iterator<Item = &str>> {
    let text = header(request, AUTHORIZATION.as_str())?;
    let scope = text.split("Credential=").nth(1)?.split(',').next()?;
    Some(scope.split('/').skip(2))
}

/// What is signed for another region is for another endpoint.
fn elsewhere(sim: &Sim, request: &Request<Bytes>) -> Option<ProviderError> {
    let state = sim.state();
    let (signed, here) = (scope(request)?.next()?, state.cloud.account.region());
    let text = || format!("Credential should be scoped to a valid region, not '{signed}': this is {here}.");
    (signed != here).then(|| refuse("AuthFailure", text()))
}

fn header<'a>(request: &'a Request<Bytes>, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

fn response(status: StatusCode, kind: &str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}
