//! Requests to the API server, and its answers: bytes or a [`Failure`].
//!
//! The bytes of an answer are decoded where they are wanted and never copied on the way, so that a list of large objects
//! costs a page at a time. Nothing is tried again here: `kube`'s own retries are switched off, or a refused eviction would be
//! repeated behind our back.

use std::error::Error as _;
use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use super::proto;
use crate::provider::{Class, ProviderError};

/// Whoever does not answer by then is as good as gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// Objects in a page of a list: what `kubectl` asks for.
const PAGE: u32 = 500;
/// How often a list is begun again whose rest has expired on the server.
const RESTARTS: u32 = 3;
/// Who we are in an object's managed fields.
pub const MANAGER: &str = "tidewright";

/// What came instead of an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    /// The server said no, or could not.
    Api(Box<Refused>),
    /// The server could not be reached: nothing was done.
    Unsent(String),
    /// It was sent, and nobody knows what became of it.
    Lost(String),
    /// We have no right to ask, or no way to say who we are.
    Auth(String),
    /// The answer makes no sense.
    Unreadable(String),
}

/// The server's `Status`.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Refused {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// What the no is about, such as `poddisruptionbudget`.
    pub kind: String,
    pub causes: Vec<Cause>,
    pub retry_after_secs: Option<u64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Cause {
    pub reason: String,
    pub message: String,
}

/// A page of a list: what is in it, and how to go on.
pub type Page<T> = (Vec<T>, Option<String>);

/// The format of what is sent and of what is asked for.
#[derive(Clone, Copy)]
struct Content {
    sent: Option<&'static str>,
    accept: &'static str,
}

impl Default for Content {
    fn default() -> Self {
        Self { sent: None, accept: "application/json" }
    }
}

impl Content {
    fn sent(kind: &'static str) -> Self {
        Self { sent: Some(kind), ..Self::default() }
    }
}

#[derive(Clone)]
pub struct Wire {
    client: Client,
}

impl Wire {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    pub async fn get(&self, path: &str) -> Result<Bytes, Failure> {
        self.send(Method::GET, path, None, Content::default()).await
    }

    /// One object, or none.
    pub async fn find(&self, path: &str) -> Result<Option<Bytes>, Failure> {
        match self.get(path).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failure) if failure.code() == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Bytes, Failure> {
        self.send(Method::POST, &by_us(path), Some(body), Content::sent("application/json")).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Bytes, Failure> {
        self.send(Method::PUT, &by_us(path), Some(body), Content::sent("application/json")).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Bytes, Failure> {
        self.send(Method::DELETE, path, Some(options), Content::sent("application/json")).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Bytes, Failure> {
        self.send(Method::PATCH, &by_us(path), Some(patch), Content::sent("application/merge-patch+json")).await
    }

    /// Server-side apply; a dry run goes through admission and changes nothing.
    pub async fn apply(&self, path: &str, body: &Value, force: bool, dry_run: bool) -> Result<Bytes, Failure> {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = format!("{}&force={force}&fieldValidation=Strict{dry_run}", by_us(path));
        self.send(Method::PATCH, &path, Some(body), Content::sent("application/apply-patch+yaml")).await
    }

    /// A whole list, page by page. `decode` turns the bytes of a page into what is kept of it.
    pub async fn list<T>(
        &self,
        path: &str,
        query: &str,
        decode: impl Fn(&[u8]) -> Result<Page<T>, serde_json::Error>,
    ) -> Result<Vec<T>, Failure> {
        self.list_as(Content::default().accept, path, query, decode).await
    }

    /// The same in the format that is asked for, where the server has it.
    pub async fn list_as<T, E: Display>(
        &self,
        accept: &'static str,
        path: &str,
        query: &str,
        decode: impl Fn(&[u8]) -> Result<Page<T>, E>,
    ) -> Result<Vec<T>, Failure> {
        let content = Content { accept, ..Content::default() };
        let mut restarts = 0;
        let (mut all, mut next): (Vec<T>, Option<String>) = (Vec::new(), None);
        loop {
            let rest = next.as_ref().map(|next| format!("&continue={}", escaped(next))).unwrap_or_default();
            let query = if query.is_empty() { String::new() } else { format!("&{query}") };
            match self.send(Method::GET, &format!("{path}?limit={PAGE}{query}{rest}"), None, content).await {
                Ok(bytes) => {
                    let (mut items, following) =
                        decode(&bytes).map_err(|error| Failure::Unreadable(error.to_string()))?;
                    all.append(&mut items);
                    match following.filter(|next| !next.is_empty()) {
                        Some(following) => next = Some(following),
                        None => return Ok(all),
                    }
                }
                // The server forgot the rest. What came so far may be of another time: it begins anew.
                Err(failure) if failure.code() == Some(410) && next.is_some() && restarts < RESTARTS => {
                    restarts += 1;
                    (all, next) = (Vec::new(), None);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>, content: Content) -> Result<Bytes, Failure> {
        let is_read = method == Method::GET;
        let mut request = Request::builder().method(method).uri(path).header("accept", content.accept);
        if let Some(content) = content.sent {
            request = request.header("content-type", content);
        }
        let body = Body::from(body.map(|body| body.to_string().into_bytes()).unwrap_or_default());
        let request = request.body(body).map_err(|error| Failure::Unreadable(format!("{path}: {error}")))?;
        let answered = tokio::time::timeout(PATIENCE, async {
            let answer = self.client.send(request).await.map_err(|error| failure(&error))?;
            let status = answer.status();
            let bytes = answer.into_body().collect_bytes().await.map_err(|error| Failure::Lost(chain(&error)))?;
            if status.is_client_error() || status.is_server_error() { Err(refusal(status, &bytes)) } else { Ok(bytes) }
        });
        match answered.await {
            Ok(answer) => answer,
            Err(_) if is_read => Err(Failure::Unsent(format!("no answer within {} s", PATIENCE.as_secs()))),
            Err(_) => Err(Failure::Lost(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

fn by_us(path: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}fieldManager={MANAGER}")
}

/// A text as it may stand in a query.
pub fn escaped(text: &str) -> String {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|c| if plain(c) { char::from(c).to_string() } else { format!("%{c:02X}") }).collect()
}

/// The server's no. What stands before it may answer in plain text: then that is the message.
fn refusal(code: StatusCode, bytes: &[u8]) -> Failure {
    if let Some(Ok((message, reason, _))) = proto::unwrapped(bytes).map(|said| said.and_then(proto::status)) {
        let code = code.as_u16();
        return Failure::Api(Box::new(Refused { code, reason, message, ..Refused::default() }));
    }
    let said = || String::from_utf8_lossy(bytes).trim().to_owned();
    let status = serde_json::from_slice(bytes);
    refused(&status.unwrap_or_else(|_| Status::failure(&said(), "").with_code(code.as_u16())))
}

fn refused(status: &Status) -> Failure {
    let details = status.details.as_ref();
    let causes = details.into_iter().flat_map(|details| &details.causes);
    let causes = causes.map(|cause| Cause { reason: cause.reason.clone(), message: cause.message.clone() });
    Failure::Api(Box::new(Refused {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        kind: details.map(|details| details.kind.clone()).unwrap_or_default(),
        causes: causes.collect(),
        retry_after_secs: details.map(|details| u64::from(details.retry_after_seconds)).filter(|secs| *secs > 0),
    }))
}

/// Why there was no answer.
fn failure(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => refused(status),
        kube::Error::Auth(error) => Failure::Auth(error.to_string()),
        other => {
            let text = chain(other);
            // Refused, no route, no such host, a certificate that nobody knows: the request never left.
            let unsent = ["(Connect)", "onnection refused", "dns error", "invalid peer certificate", "tcp connect"];
            if unsent.iter().any(|word| text.contains(word)) { Failure::Unsent(text) } else { Failure::Lost(text) }
        }
    }
}

/// An error with what is below it, each said once.
fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let word = error.to_string();
        if !text.contains(&word) {
            text = format!("{text}: {word}");
        }
        below = error.source();
    }
    text
}

impl Failure {
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api(refused) => Some(refused.code),
            _ => None,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Self::Api(refused) => refused.message.clone(),
            Self::Unsent(why) => format!("the API server cannot be reached: {why}"),
            Self::Lost(why) => format!("the API server did not answer: {why}"),
            Self::Auth(why) => format!("the API server cannot be told who we are: {why}"),
            Self::Unreadable(why) => format!("the API server's answer cannot be read: {why}"),
        }
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> Self {
        let class = match &failure {
            Failure::Api(refused) => refused.class(),
            // Definitely not done, and worth another try: a server that starts again refuses for a few seconds.
            Failure::Unsent(_) => Class::Throttled,
            Failure::Lost(_) => Class::Ambiguous,
            Failure::Auth(_) => Class::Denied,
            Failure::Unreadable(_) => Class::Other,
        };
        let retry_after_secs = match &failure {
            Failure::Api(refused) => refused.retry_after_secs,
            _ => None,
        };
        Self { class, message: failure.text(), retry_after_secs }
    }
}

impl Refused {
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|cause| cause.reason == reason)
    }

    fn class(&self) -> Class {
        match self.code {
            404 => Class::NotFound,
            409 => Class::Conflict,
            401 | 403 => Class::Denied,
            429 | 503 => Class::Throttled,
            // Kueue that starts again answers no webhook: nothing was written.
            500 if self.message.contains("failed calling webhook") => Class::Throttled,
            500.. => Class::Ambiguous,
            _ => Class::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16, message: &str) -> Class {
        let refused = Refused { code, message: message.into(), ..Refused::default() };
        ProviderError::from(Failure::Api(Box::new(refused))).class
    }

    #[test]
    fn answers_of_the_server_have_a_class_at_the_border() {
        assert_eq!(said(404, "nodes \"a\" not found"), Class::NotFound);
        assert_eq!(said(409, "the object has been modified"), Class::Conflict);
        assert_eq!(said(401, "Unauthorized"), Class::Denied);
        assert_eq!(said(403, "nodes is forbidden"), Class::Denied);
        assert_eq!(said(422, "spec.levels: field is immutable"), Class::Other);
        assert_eq!(said(429, "too many requests"), Class::Throttled);
        assert_eq!(said(503, "the server is currently unable to handle the request"), Class::Throttled);
        assert_eq!(said(500, "Internal error occurred: failed calling webhook \"m\": refused"), Class::Throttled);
        assert_eq!(said(500, "etcdserver: request timed out"), Class::Ambiguous);
        assert_eq!(said(504, "timeout"), Class::Ambiguous);
        assert_eq!(ProviderError::from(Failure::Lost("cut".into())).class, Class::Ambiguous);
        assert_eq!(ProviderError::from(Failure::Unsent("refused".into())).class, Class::Throttled);
    }

    #[test]
    fn a_no_is_the_servers_own_or_the_words_of_what_stands_before_it() {
        let status = br#"{"kind": "Status", "status": "Failure", "message": "not now", "reason": "TooManyRequests",
            "code": 429, "details": {"kind": "poddisruptionbudget", "retryAfterSeconds": 10,
            "causes": [{"reason": "DisruptionBudget", "message": "needs 1 healthy pods"}]}}"#;
        let Failure::Api(said) = refusal(StatusCode::TOO_MANY_REQUESTS, status) else { panic!("an answer") };
        assert_eq!((said.code, said.retry_after_secs, said.kind.as_str()), (429, Some(10), "poddisruptionbudget"));
        assert!(said.has_cause("DisruptionBudget") && said.message == "not now", "{said:?}");
        let Failure::Api(said) = refusal(StatusCode::BAD_GATEWAY, b" no upstream\n") else { panic!("an answer") };
        assert_eq!((said.code, said.message.as_str()), (502, "no upstream"));
    }

    #[test]
    fn a_query_holds_any_text() {
        assert_eq!(escaped("spec.nodeName=gpu-1,a b/+"), "spec.nodeName%3Dgpu-1%2Ca%20b%2F%2B");
    }
}
