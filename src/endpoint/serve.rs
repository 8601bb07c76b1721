//! The endpoint behind a port: HTTP by hyper, one task for all connections, time as somebody says.
//!
//! The world's clock runs with the real one, so many times as fast; at speed 0 it stands, and moves when it is told to
//! (`orders`). What time brings is looked at before every request, and at least once a second.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpListener;

use super::{Endpoint, Outcome};
use crate::provider::sim::Sim;

/// How the world's clock runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed(pub f64);

/// An endpoint, the world behind it, and when both began.
#[derive(Debug)]
pub struct Served {
    pub sim: Sim,
    pub endpoint: Endpoint,
    speed: Speed,
    /// Until when the world has heard of the time that passes outside.
    heard: Cell<Instant>,
}

/// The longest body that is read.
const LONGEST: usize = 1 << 20;

impl Served {
    pub fn new(sim: Sim, endpoint: Endpoint, speed: Speed) -> Self {
        // Whoever serves may be asked for notices; they are kept from now on.
        sim.aside(|state| {
            state.cloud.account.queue.get_or_insert_default();
        });
        Self { sim, endpoint, speed, heard: Cell::new(Instant::now()) }
    }

    /// Lets pass in the world what passed outside since this was called last.
    pub fn catch_up(&self) {
        let secs = self.heard.replace(Instant::now()).elapsed().as_secs_f64() * self.speed.0;
        let passed = SignedDuration::try_from_secs_f64(secs).unwrap_or(SignedDuration::MAX);
        self.sim.advance_to(self.sim.now().checked_add(passed).unwrap_or(Timestamp::MAX));
    }

    fn answer(&self, request: &Request<Bytes>) -> Outcome {
        self.catch_up();
        self.endpoint.answer(&self.sim, request)
    }
}

/// Answers until somebody stops. Runs in a `LocalSet`: the world belongs to one thread.
pub async fn serve(listener: TcpListener, served: Rc<Served>, stop: impl Future<Output = ()>) -> io::Result<()> {
    let doors = tokio::task::spawn_local(doors(listener, served.clone()));
    let pulse = tokio::task::spawn_local(pulse(served.clone()));
    stop.await;
    doors.abort();
    pulse.abort();
    served.sim.save().map_err(|error| io::Error::other(error.to_string()))
}

async fn doors(listener: TcpListener, served: Rc<Served>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::task::spawn_local(connection(stream, served.clone()))),
            // One connection less is no reason to stop.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Once a second the world hears of the time, whether anybody asks or not.
async fn pulse(served: Rc<Served>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        served.catch_up();
    }
}

async fn connection(stream: tokio::net::TcpStream, served: Rc<Served>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let served = served.clone();
        async move { exchange(&served, request).await }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new());
    // A broken connection is the client's to notice.
    let _broken = http.serve_connection(TokioIo::new(stream), service).await;
}

/// The connection is to be closed with nothing said.
#[derive(Debug)]
struct CutNow;

impl std::fmt::Display for CutNow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for CutNow {}

async fn exchange(served: &Served, request: Request<Incoming>) -> Result<Response<Answer>, CutNow> {
    let (head, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, LONGEST).collect().await.map_err(|_| CutNow)?.to_bytes();
    let mut outcome = served.answer(&Request::from_parts(head, body));
    loop {
        match outcome {
            Outcome::Cut => return Err(CutNow),
            Outcome::Answer(answer) => return Ok(answer.map(Answer::whole)),
            Outcome::Truncated(mut answer) => {
                answer.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("close"));
                return Ok(answer.map(Answer::half));
            }
            Outcome::Slow(by, later) => {
                tokio::time::sleep(by).await;
                outcome = *later;
            }
        }
    }
}

/// A body that may end before its length.
#[derive(Debug)]
struct Answer {
    rest: Option<Bytes>,
    promised: u64,
    broken: bool,
}

impl Answer {
    fn whole(body: Bytes) -> Self {
        Self { promised: body.len() as u64, rest: Some(body), broken: false }
    }

    fn half(body: Bytes) -> Self {
        Self { promised: body.len() as u64, rest: Some(body.slice(..body.len() / 2)), broken: true }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = CutNow;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutNow>>> {
        match self.rest.take().filter(|rest| !rest.is_empty()) {
            Some(rest) => Poll::Ready(Some(Ok(Frame::data(rest)))),
            None if self.broken => Poll::Ready(Some(Err(CutNow))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.broken && self.rest.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.promised)
    }
}
