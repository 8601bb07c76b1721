//! A way to AWS that is no socket: what the SDK sends is handed to whoever answers in this process, at their time.
//!
//! The SDK wants its transport to be of every thread, and a simulated world is of one. So a [`Line`] only holds what was
//! asked and what was answered; [`Line::carry`] polls a task of the provider, and between two polls lets [`Far`] answer, or
//! time pass. No runtime is needed and nothing waits. Used by campaigns and benchmarks, never against AWS itself.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ec2::config::{AsyncSleep, Sleep};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};

use crate::provider::Clock;

/// Who is on the other side, and whose time it is.
pub trait Far {
    fn now(&self) -> Timestamp;
    /// Lets time pass until then.
    fn pass_until(&self, at: Timestamp);
    /// Whether others go first this time.
    fn gives_way(&self) -> bool {
        false
    }
    /// None: whoever asks is dead, and is never heard of again.
    fn answer(&self, request: &Request<Bytes>) -> Option<Told>;
}

/// What comes back, and when.
#[derive(Debug)]
pub struct Told {
    pub after: Duration,
    /// None: the connection is cut.
    pub said: Option<Response<Bytes>>,
}

/// The line itself; whoever clones it has the same one.
#[derive(Clone, Default, Debug)]
pub struct Line(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    now: Timestamp,
    asked: Vec<Asked>,
    /// When somebody wants to be woken, since the last poll.
    wishes: Vec<Timestamp>,
}

#[derive(Debug)]
struct Asked {
    request: Request<Bytes>,
    reply: Reply,
}

/// An answer, and from when on it is there.
type Reply = Arc<Mutex<Option<(Timestamp, Option<Response<Bytes>>)>>>;

impl Default for Held {
    fn default() -> Self {
        Self { now: Timestamp::UNIX_EPOCH, asked: Vec::new(), wishes: Vec::new() }
    }
}

impl Line {
    /// Carries a task of the provider to its end. Where whoever asks dies, that never comes.
    pub async fn carry<T>(&self, far: &dyn Far, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        let mut waiting = VecDeque::new();
        let (mut waited, mut dead) = (false, false);
        poll_fn(|context| {
            while !dead {
                self.begin(far.now());
                if let Poll::Ready(done) = task.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
                let wakes = self.take(&mut waiting);
                if waiting.is_empty() {
                    match wakes {
                        Some(at) => far.pass_until(at),
                        None => return Poll::Pending,
                    }
                } else if !waited && far.gives_way() {
                    waited = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                } else {
                    waited = false;
                    dead = !answered(far, waiting.pop_front());
                }
            }
            Poll::Pending
        })
        .await
    }

    fn begin(&self, now: Timestamp) {
        let mut held = locked(&self.0);
        held.now = now;
        held.wishes.clear();
    }

    /// What was asked since, and when the first who sleeps wants to be woken.
    fn take(&self, waiting: &mut VecDeque<Asked>) -> Option<Timestamp> {
        let mut held = locked(&self.0);
        waiting.extend(held.asked.drain(..));
        held.wishes.iter().min().copied()
    }

    fn nap(&self, until: Timestamp) -> Nap {
        Nap { line: self.clone(), until }
    }

    async fn ask(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let reply = Reply::default();
        locked(&self.0).asked.push(Asked { request, reply: reply.clone() });
        let at = poll_fn(|_| match &*locked(&reply) {
            Some((at, _)) => Poll::Ready(*at),
            None => Poll::Pending,
        })
        .await;
        self.nap(at).await;
        locked(&reply).take().and_then(|(_, said)| said)
    }
}

/// Has one question answered; false where whoever asked is dead.
fn answered(far: &dyn Far, asked: Option<Asked>) -> bool {
    let Some(asked) = asked else { return true };
    let Some(told) = far.answer(&asked.request) else { return false };
    let after = SignedDuration::try_from(told.after).unwrap_or(SignedDuration::MAX);
    let at = far.now().checked_add(after).unwrap_or(Timestamp::MAX);
    *locked(&asked.reply) = Some((at, told.said));
    true
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for an instant of the line's time.
struct Nap {
    line: Line,
    until: Timestamp,
}

impl Future for Nap {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut held = locked(&self.line.0);
        if held.now >= self.until {
            return Poll::Ready(());
        }
        held.wishes.push(self.until);
        Poll::Pending
    }
}

#[async_trait(?Send)]
impl Clock for Line {
    fn now(&self) -> Timestamp {
        locked(&self.0).now
    }

    async fn sleep_until(&self, at: Timestamp) {
        self.nap(at).await;
    }
}

impl AsyncSleep for Line {
    fn sleep(&self, duration: Duration) -> Sleep {
        let length = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let until = self.now().checked_add(length).unwrap_or(Timestamp::MAX);
        Sleep::new(self.nap(until))
    }
}

impl HttpClient for Line {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Line {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let line = self.clone();
        HttpConnectorFuture::new(async move {
            let asked = asked(&request).map_err(|why| ConnectorError::user(why.into()))?;
            match line.ask(asked).await {
                Some(said) => heard(&said).map_err(|why| ConnectorError::io(why.into())),
                None => Err(ConnectorError::io("the connection was closed before the answer".into())),
            }
        })
    }
}

fn asked(request: &HttpRequest) -> Result<Request<Bytes>, String> {
    let body = request.body().bytes().ok_or("a request is a stream")?;
    let mut asked = Request::builder().method(request.method()).uri(request.uri());
    for (name, value) in request.headers() {
        asked = asked.header(name, value);
    }
    asked.body(Bytes::copy_from_slice(body)).map_err(|error| error.to_string())
}

fn heard(said: &Response<Bytes>) -> Result<HttpResponse, String> {
    let status = StatusCode::try_from(said.status().as_u16()).map_err(|error| error.to_string())?;
    let mut heard = HttpResponse::new(status, SdkBody::from(said.body().to_vec()));
    for (name, value) in said.headers() {
        if let Ok(value) = value.to_str() {
            heard.headers_mut().insert(name.as_str().to_string(), value.to_string());
        }
    }
    Ok(heard)
}

impl fmt::Debug for Nap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nap until {}", self.until)
    }
}
