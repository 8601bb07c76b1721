//! EC2's request throttling: a bucket of tokens for each action, filled again as time passes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::provider::{Class, ProviderError};

/// The buckets of one account in one region. One that was never used is full.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Buckets(BTreeMap<String, Bucket>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Bucket {
    /// Thousandths of a request.
    left: u64,
    at: Timestamp,
}

/// How many requests a bucket holds, and how many thousandths of one come back each second: "Request throttling for
/// the Amazon EC2 API". A few actions also take from a bucket of what they make, or from a smaller one where they ask for
/// all there is, unfiltered and unpaged.
fn size(action: &str) -> (u64, u64) {
    match action {
        "RunInstances" => (5, 2_000),
        "RunInstances instances" => (1000, 2_000),
        "TerminateInstances instances" => (1000, 20_000),
        "TerminateInstances" | "CreateLaunchTemplateVersion" => (100, 5_000),
        "CreateTags" => (100, 10_000),
        "DescribeInstanceTopology" => (1, 1_000),
        "DescribeCapacityBlockOfferings"
        | "DescribeCapacityBlockExtensionOfferings"
        | "PurchaseCapacityBlock"
        | "PurchaseCapacityBlockExtension" => (10, 150),
        _ if action.ends_with(" of all") => (50, 10_000),
        _ if action.starts_with("Describe") => (100, 20_000),
        _ => (50, 5_000),
    }
}

impl Buckets {
    /// Takes one request of an action, or says when there will be one.
    pub fn take(&mut self, action: &str, now: Timestamp) -> Result<(), ProviderError> {
        self.take_many(action, 1, now)
    }

    /// Takes several at once, or none.
    pub fn take_many(&mut self, action: &str, many: u64, now: Timestamp) -> Result<(), ProviderError> {
        let (holds, refill) = size(action);
        let bucket = self.0.entry(action.to_string()).or_insert(Bucket { left: holds * 1000, at: now });
        let passed = u64::try_from(now.duration_since(bucket.at).as_millis()).unwrap_or(0);
        bucket.left = (passed.saturating_mul(refill) / 1000).saturating_add(bucket.left).min(holds * 1000);
        bucket.at = now;
        if bucket.left >= many * 1000 {
            bucket.left -= many * 1000;
            return Ok(());
        }
        let wait = (many * 1000 - bucket.left).div_ceil(refill);
        Err(limit_exceeded(Some(wait)))
    }
}

/// What EC2 says to whoever asks too often.
pub fn limit_exceeded(retry_after_secs: Option<u64>) -> ProviderError {
    let message = "RequestLimitExceeded: Request limit exceeded.".to_string();
    ProviderError { class: Class::Throttled, message, retry_after_secs }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn five_launches_pass_at_once_and_then_two_a_second() {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        let mut passes = |at| (0..10).filter(|_| buckets.take("RunInstances", at).is_ok()).count();
        assert_eq!(passes(now), 5);
        assert_eq!(passes(now), 0);
        assert_eq!(passes(now + SignedDuration::from_secs(1)), 2);
        assert_eq!(passes(now + SignedDuration::from_secs(3600)), 5);
    }

    #[test]
    fn a_refusal_says_when_to_come_back_and_that_is_true() {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        while buckets.take("PurchaseCapacityBlock", now).is_ok() {}
        let refused = buckets.take("PurchaseCapacityBlock", now).unwrap_err();
        assert_eq!((refused.class, refused.retry_after_secs), (Class::Throttled, Some(7)));
        assert!(buckets.take("PurchaseCapacityBlock", now + SignedDuration::from_secs(6)).is_err());
        assert!(buckets.take("PurchaseCapacityBlock", now + SignedDuration::from_secs(7)).is_ok());
    }

    #[test]
    fn actions_do_not_share_a_bucket() {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        while buckets.take("RunInstances", now).is_ok() {}
        assert!(buckets.take("TerminateInstances", now).is_ok());
    }
}
