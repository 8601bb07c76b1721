//! The way to AWS: clients over one connection, and the one place that every call goes through.
//!
//! A call takes its turn in the bucket of its action, is sent, and what comes back is classified. Calls that change
//! something are sent once: the SDK's own retries are off for them, because `apply` owns the decision to ask again.
//! Readings may be repeated by the SDK, twice.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::retry::RetryPartition;
use aws_sdk_ec2::config::{Credentials, SharedCredentialsProvider, StalledStreamProtectionConfig};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use serde_json::Value;

use super::actions::Api;
use super::buckets::Buckets;
use super::errors::Failure;
use super::line::Line;
use crate::fleet::config::{AwsCloud, Endpoints};
use crate::provider::clock::SystemClock;
use crate::provider::{Class, Clock};

/// Longer than that nobody waits for a connection that will not come.
const CONNECT: Duration = Duration::from_secs(5);
/// For one try. EC2 answers a launch within seconds; one that takes longer is lost.
const ATTEMPT: Duration = Duration::from_secs(30);
/// For all tries of a reading together.
const OPERATION: Duration = Duration::from_secs(100);
/// Of a reading.
const ATTEMPTS: u32 = 3;

/// Clients of the services that we ask.
pub struct Wire {
    /// For readings.
    pub ec2: aws_sdk_ec2::Client,
    /// For what changes something: sent once.
    pub ec2_once: aws_sdk_ec2::Client,
    pub ssm: aws_sdk_ssm::Client,
    pub eks: aws_sdk_eks::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub sts: aws_sdk_sts::Client,
    buckets: RefCell<Buckets>,
    pub clock: Rc<dyn Clock>,
}

impl Wire {
    /// With credentials as the SDK's chain finds them, or with these. No request is made yet.
    pub async fn connect(cloud: &AwsCloud, keys: Option<(&str, &str)>) -> Self {
        let http =
            aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::new(cloud.region.clone()))
            .http_client(http)
            .timeout_config(timeouts())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS));
        if let Some(endpoint) = &cloud.endpoint_url {
            loader = loader.endpoint_url(endpoint);
        }
        if let Some((id, secret)) = keys {
            loader = loader.credentials_provider(Credentials::new(id, secret, None, None, "given"));
        }
        Self::with(&loader.load().await, &cloud.endpoint_urls, None, Rc::new(SystemClock))
    }

    /// Over a line of this process, at its time. Keys are of no use there.
    pub fn over(cloud: &AwsCloud, line: &Line) -> Self {
        let keys = Credentials::new("AKIDLINE", "nobody asks", None, None, "given");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(cloud.region.clone()))
            .endpoint_url(cloud.endpoint_url.clone().unwrap_or_else(|| "http://localhost".into()))
            .credentials_provider(SharedCredentialsProvider::new(keys))
            .http_client(line.clone())
            .sleep_impl(line.clone())
            .timeout_config(timeouts())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .build();
        // How often readings may be repeated is counted for all clients of a process together, and many worlds are in one.
        let counted = RetryPartition::custom("line").build();
        Self::with(&config, &cloud.endpoint_urls, Some(counted), Rc::new(line.clone()))
    }

    fn with(config: &SdkConfig, urls: &Endpoints, counted: Option<RetryPartition>, clock: Rc<dyn Clock>) -> Self {
        macro_rules! builder {
            ($service:ident, $url:ident) => {{
                let mut builder = $service::config::Builder::from(config);
                // Without one it stays as it was found: the fleet's for all services, or what the SDK knows.
                if let Some(url) = &urls.$url {
                    builder.set_endpoint_url(Some(url.clone()));
                }
                builder
            }};
        }
        macro_rules! client {
            ($service:ident, $url:ident) => {{
                let mut builder = builder!($service, $url);
                builder.set_retry_partition(counted.clone());
                $service::Client::from_conf(builder.build())
            }};
        }
        let once = builder!(aws_sdk_ec2, ec2).retry_config(RetryConfig::disabled()).build();
        Self {
            ec2: client!(aws_sdk_ec2, ec2),
            ec2_once: aws_sdk_ec2::Client::from_conf(once),
            ssm: client!(aws_sdk_ssm, ssm),
            eks: client!(aws_sdk_eks, eks),
            sqs: client!(aws_sdk_sqs, sqs),
            sts: client!(aws_sdk_sts, sts),
            buckets: RefCell::default(),
            clock,
        }
    }

    /// Takes the call's turn, sends it, and says what came back.
    pub async fn call<T, E>(
        &self,
        api: Api,
        sent: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, Failure>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let now = self.clock.now();
        let wait = self.buckets.borrow_mut().take(api, now);
        if !wait.is_zero() {
            self.clock.sleep_until(now.checked_add(wait).unwrap_or(now)).await;
        }
        let answer = sent.await;
        let failure = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => Failure::of(api, &error),
        };
        if failure.class == Class::Throttled {
            self.buckets.borrow_mut().empty(api, self.clock.now());
        }
        Err(self.explained(failure).await)
    }

    /// A denial of EC2 is written for AWS alone; whoever may ask is told what it says.
    async fn explained(&self, failure: Failure) -> Failure {
        let Some(encoded) = failure.encoded() else { return failure };
        let decoded = self.sts.decode_authorization_message().encoded_message(encoded).send().await;
        let text = decoded.ok().and_then(|answer| answer.decoded_message);
        let told: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
        let Some(context) = told.as_ref().map(|told| &told["context"]) else { return failure };
        match (context["action"].as_str(), context["resource"].as_str()) {
            (Some(action), Some(resource)) => failure.explained(action, resource),
            _ => failure,
        }
    }
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(OPERATION)
        .build()
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

/// All pages of a call, each with its turn. A page that fails fails the whole: half a list is no list.
macro_rules! pages {
    ($wire:expr, $api:expr, $request:expr, $items:ident) => {
        async {
            let request = $request;
            let mut found = Vec::new();
            let mut next: Option<String> = None;
            loop {
                let answer = $wire.call($api, request.clone().set_next_token(next.take()).send()).await?;
                found.extend(answer.$items.unwrap_or_default());
                next = answer.next_token.filter(|token| !token.is_empty());
                if next.is_none() {
                    return Ok::<_, crate::provider::aws::errors::Failure>(found);
                }
            }
        }
    };
}
pub(super) use pages;
