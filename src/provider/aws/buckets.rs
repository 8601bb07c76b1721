//! How fast we may ask: a bucket of requests for each action, a little smaller than EC2's own.
//!
//! EC2 throttles each action of an account in a region by a bucket of its own. A request that is throttled is a request
//! that was wasted, so each one first takes its turn here. Requests arrive with different delays, so that two which left
//! apart may come together: a bucket here holds fewer than EC2's, and is filled a little slower. Pure: time comes in, and
//! how long to wait comes out.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::actions::Api;

/// The size of EC2's bucket, and how many thousandths of a request come back each second: "Request throttling for the
/// Amazon EC2 API".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub holds: u64,
    pub refill: u64,
}

/// Of what EC2 gives back, in thousandths.
const SHARE: u64 = 970;
/// Waits are spread by up to this share of one turn, in thousandths, so that several of us do not ask in step.
const JITTER: u64 = 20;
const MICROS: u64 = 1_000_000;

/// One bucket: when its next request may leave if nothing were left in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bucket {
    /// The instant at which the bucket will be full again, in microseconds.
    full_at: i64,
}

/// The buckets of one process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Buckets {
    taken: BTreeMap<&'static str, Bucket>,
    drawn: u64,
}

impl Buckets {
    /// Takes a turn, and says how long to wait for it. Whoever asks later waits longer.
    pub fn take(&mut self, api: Api, now: Timestamp) -> SignedDuration {
        self.take_of(api.name(), api.bucket(), now)
    }

    fn take_of(&mut self, name: &'static str, size: Size, now: Timestamp) -> SignedDuration {
        let now = now.as_microsecond();
        let turn = turn(size);
        let bucket = self.taken.entry(name).or_insert(Bucket { full_at: now });
        bucket.full_at = bucket.full_at.max(now) + turn;
        // What it holds may leave at once: that many turns ahead of the instant at which it is full.
        let ahead = i64::try_from(held(size)).unwrap_or(1) * turn;
        let wait = (bucket.full_at - ahead - now).max(0);
        if wait == 0 {
            return SignedDuration::ZERO;
        }
        self.drawn += 1;
        SignedDuration::from_micros(wait + self.jitter(turn))
    }

    /// A throttled answer: somebody else asks too. The bucket is empty, whatever we thought.
    pub fn empty(&mut self, api: Api, now: Timestamp) {
        let (now, size) = (now.as_microsecond(), api.bucket());
        let emptied = now + i64::try_from(held(size)).unwrap_or(1) * turn(size);
        let bucket = self.taken.entry(api.name()).or_insert(Bucket { full_at: now });
        bucket.full_at = bucket.full_at.max(emptied);
    }

    /// From nothing to a small share of one turn; drawn from a count, because nothing here is random.
    fn jitter(&self, turn: i64) -> i64 {
        let spread = self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
        let most = u64::try_from(turn).unwrap_or(0) * JITTER / 1000;
        i64::try_from((spread * most) >> 20).unwrap_or(0)
    }
}

/// What a bucket of ours holds: about half, and at least one.
fn held(size: Size) -> u64 {
    (size.holds * 3 / 5).max(1)
}

/// How long one request takes to come back, in microseconds.
fn turn(size: Size) -> i64 {
    let refill = size.refill * SHARE / 1000;
    i64::try_from((1000 * MICROS).div_ceil(refill.max(1))).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EC2's own bucket, at the instants at which requests arrive.
    struct Ec2 {
        left: f64,
        at: f64,
    }

    impl Ec2 {
        fn takes(&mut self, size: Size, at: f64) -> bool {
            self.left = (self.left + (at - self.at) * size.refill as f64 / 1000.0).min(size.holds as f64);
            self.at = at;
            self.left -= 1.0;
            self.left >= 0.0
        }
    }

    /// When each of some requests leaves, all wanted at once, in seconds.
    fn departures(api: Api, count: usize) -> Vec<f64> {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        (0..count).map(|_| buckets.take(api, now).as_secs_f64()).collect()
    }

    /// The same at the far end, each with a delay of its own between 10 and 400 ms.
    fn arrivals(departures: &[f64]) -> Vec<f64> {
        let mut seed = 7u64;
        let mut delay = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            0.010 + (seed >> 40) as f64 / (1u64 << 24) as f64 * 0.390
        };
        let mut arrivals: Vec<f64> = departures.iter().map(|at| at + delay()).collect();
        arrivals.sort_by(f64::total_cmp);
        arrivals
    }

    #[test]
    fn ten_thousand_launches_are_never_throttled_and_lose_less_than_a_twentieth() {
        let size = Api::RunInstances.bucket();
        let departures = departures(Api::RunInstances, 10_000);
        let arrivals = arrivals(&departures);
        let mut ec2 = Ec2 { left: size.holds as f64, at: 0.0 };
        let throttled = arrivals.iter().filter(|at| !ec2.takes(size, **at)).count();
        assert_eq!(throttled, 0);
        // What EC2 itself would allow: what its bucket holds at once, and then as fast as it is filled.
        let bound = (10_000.0 - size.holds as f64) * 1000.0 / size.refill as f64;
        let took = arrivals.last().unwrap();
        assert!(took / bound <= 1.05, "{took:.1} s for {bound:.1} s: {:.4}", took / bound);
    }

    #[test]
    fn without_the_margin_the_same_launches_are_throttled() {
        // The same requests, sent as fast as EC2's own bucket is filled: delays bring some of them together.
        let size = Api::RunInstances.bucket();
        let eager: Vec<f64> =
            (0..10_000u64).map(|i| i.saturating_sub(size.holds - 1) as f64 * 1000.0 / size.refill as f64).collect();
        let mut ec2 = Ec2 { left: size.holds as f64, at: 0.0 };
        assert!(arrivals(&eager).iter().filter(|at| !ec2.takes(size, **at)).count() > 100);
    }

    #[test]
    fn every_bucket_is_kept_whatever_its_size() {
        for api in Api::ALL {
            let size = api.bucket();
            let mut ec2 = Ec2 { left: size.holds as f64, at: 0.0 };
            let arrivals = arrivals(&departures(*api, 500));
            // A bucket of one cannot absorb delays at all: there only the rate is held.
            if size.holds > 1 {
                assert_eq!(arrivals.iter().filter(|at| !ec2.takes(size, **at)).count(), 0, "{}", api.name());
            }
        }
    }

    #[test]
    fn a_bucket_that_rested_is_full_again_and_no_fuller() {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        let at_once =
            |buckets: &mut Buckets, now| (0..20).filter(|_| buckets.take(Api::RunInstances, now).is_zero()).count();
        assert_eq!(at_once(&mut buckets, now), 3);
        assert_eq!(at_once(&mut buckets, now + SignedDuration::from_hours(1)), 3);
    }

    #[test]
    fn actions_do_not_share_a_bucket_and_a_throttled_one_is_empty() {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        while buckets.take(Api::RunInstances, now).is_zero() {}
        assert!(buckets.take(Api::TerminateInstances, now).is_zero());
        buckets.empty(Api::TerminateInstances, now);
        assert!(!buckets.take(Api::TerminateInstances, now).is_zero());
    }
}
