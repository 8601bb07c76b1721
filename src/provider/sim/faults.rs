//! What goes wrong between us and the world: crashes, lost answers, refusals, reads that lie.
//!
//! A fault is either ordered (by a scenario) or drawn (by a campaign, at given rates, from a seed of its own). Each one
//! that strikes is counted: a fault that was switched on and never struck has shown nothing. Nothing here touches the
//! state of the world; the seat does what is said here.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::calls::Deed;
use super::cloud::limit_exceeded;
use super::dice::Stream;
use super::ledger::conflict;
use crate::provider::{Class, ProviderError};
use crate::units::Duration;

/// Where a process dies, seen from a call that would change something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Position {
    /// Nothing was sent.
    BeforeSend,
    /// It was done, and nobody heard of it.
    AfterCommit,
    /// The answer came; whatever would be called next is never called.
    AfterAnswer,
}

impl Position {
    pub const ALL: [Self; 3] = [Self::BeforeSend, Self::AfterCommit, Self::AfterAnswer];
}

/// Something that is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sight {
    Reservations,
    Instances,
    Nodes,
    Pods,
    Workloads,
    /// Cannot be hidden: it answers or fails.
    Ledger,
}

/// A fault that is ordered.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The next launches are refused.
    FailLaunches { times: u32, class: Class },
    /// The process dies at the n-th call from now that would change something; 1 is the next.
    Crash { call: u64, position: Position },
    /// The next calls that would change something get no answer; it was done, or was not.
    Ambiguous { times: u32, done: bool },
    /// The next calls to the cloud are too many.
    Throttle { times: u32 },
    /// The next reads see none of it, and look whole.
    Hide { what: Sight, reads: u32 },
    /// The next reads of it fail.
    Gap { what: Sight, reads: u32 },
    /// The next reads answer as of some time ago, and look fresh. The past that is known begins with the first order
    /// of this kind, and has one world for each time that somebody slept.
    Stale { reads: u32, age: Duration },
    /// The next fresh instances are listed only after a while.
    Lag { launches: u32, by: Duration },
    /// The next machines start, and their nodes never join.
    Stillborn { launches: u32 },
    /// The next writes of the ledger come too late.
    Conflict { times: u32 },
}

/// How often, in a thousand calls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rates {
    pub crash: u32,
    pub ambiguous: u32,
    pub throttle: u32,
    pub no_capacity: u32,
    pub conflict: u32,
    pub hide: u32,
    pub gap: u32,
    pub stale: u32,
    pub lag: u32,
    pub stillborn: u32,
    /// The clock leaps ahead by up to two hours.
    pub leap: u32,
    /// A machine of ours dies, or a spot instance is interrupted.
    pub death: u32,
}

/// What may go wrong, and what did.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Faults {
    launches: (u32, Option<Class>),
    crash: Option<(u64, Position)>,
    ambiguous: (u32, bool),
    throttle: u32,
    conflicts: u32,
    hidden: BTreeMap<Sight, u32>,
    gaps: BTreeMap<Sight, u32>,
    stale: (u32, Duration),
    lag: (u32, Duration),
    stillborn: u32,
    drawn: Option<(Stream, Rates)>,
    struck: BTreeMap<String, u64>,
}

/// What happens to a call that would change something.
#[derive(Clone, PartialEq, Debug)]
pub enum Strike {
    Crash(Position),
    /// There is no answer.
    Lost {
        done: bool,
    },
    Refused(ProviderError),
}

/// What happens to a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blind {
    /// Nothing is there, it says.
    Hidden,
    /// It fails.
    Gap,
}

/// The longest that a fresh instance is not listed, where that is drawn.
const LAG_SECS: u64 = 600;
/// The oldest answer to a read, where that is drawn.
const STALE_SECS: u64 = 60;
/// The longest leap of the clock.
const LEAP_SECS: u64 = 7200;

impl Rates {
    /// Everything goes wrong now and then, and the machines live.
    pub const ROUGH: Self = Self {
        crash: 15,
        ambiguous: 25,
        throttle: 40,
        no_capacity: 40,
        conflict: 15,
        hide: 15,
        gap: 25,
        stale: 40,
        lag: 200,
        stillborn: 0,
        leap: 2,
        death: 0,
    };
}

impl Faults {
    /// Faults that are drawn.
    pub fn random(seed: u64, rates: Rates) -> Self {
        Self { drawn: Some((Stream::new(seed), rates)), ..Self::default() }
    }

    pub fn order(&mut self, fault: Fault) {
        match fault {
            Fault::FailLaunches { times, class } => self.launches = (times, Some(class)),
            Fault::Crash { call, position } => self.crash = Some((call.max(1), position)),
            Fault::Ambiguous { times, done } => self.ambiguous = (times, done),
            Fault::Throttle { times } => self.throttle = times,
            Fault::Hide { what, reads } => drop(self.hidden.insert(what, reads)),
            Fault::Gap { what, reads } => drop(self.gaps.insert(what, reads)),
            Fault::Stale { reads, age } => self.stale = (reads, age),
            Fault::Lag { launches, by } => self.lag = (launches, by),
            Fault::Stillborn { launches } => self.stillborn = launches,
            Fault::Conflict { times } => self.conflicts = times,
        }
    }

    /// Nothing goes wrong any more; what did stays counted.
    pub fn stop(&mut self) {
        *self = Self { struck: std::mem::take(&mut self.struck), ..Self::default() };
    }

    /// How often each kind struck.
    pub fn struck(&self) -> &BTreeMap<String, u64> {
        &self.struck
    }

    /// Whether answers of the past may be wanted.
    pub fn wants_the_past(&self) -> bool {
        self.stale.0 > 0 || self.drawn.as_ref().is_some_and(|(_, rates)| rates.stale > 0)
    }

    pub fn are_drawn(&self) -> bool {
        self.drawn.is_some()
    }

    pub fn kills_machines(&self) -> bool {
        self.drawn.as_ref().is_some_and(|(_, rates)| rates.death > 0)
    }

    pub fn on_change(&mut self, deed: &Deed<'_>) -> Option<Strike> {
        let strike = self.ordered(deed).or_else(|| self.draw_strike(deed))?;
        let name = match &strike {
            Strike::Crash(Position::BeforeSend) => "crash before send".into(),
            Strike::Crash(Position::AfterCommit) => "crash after commit".into(),
            Strike::Crash(Position::AfterAnswer) => "crash after answer".into(),
            Strike::Lost { done: true } => "answer lost, done".into(),
            Strike::Lost { done: false } => "answer lost, not done".into(),
            Strike::Refused(error) => format!("{} refused, {:?}", deed.verb(), error.class),
        };
        self.count(&name);
        Some(strike)
    }

    fn ordered(&mut self, deed: &Deed<'_>) -> Option<Strike> {
        if let Some((call, position)) = &mut self.crash {
            *call -= 1;
            if *call == 0 {
                let position = *position;
                self.crash = None;
                return Some(Strike::Crash(position));
            }
        }
        if let Deed::Ledger { part, .. } = deed
            && spend(&mut self.conflicts)
        {
            return Some(Strike::Refused(conflict(part)));
        }
        if deed.verb() == "launch"
            && let Some(class) = self.launches.1
            && spend(&mut self.launches.0)
        {
            return Some(Strike::Refused(refusal(class)));
        }
        if matches!(deed, Deed::Cloud(_) | Deed::Wire { .. }) && spend(&mut self.throttle) {
            return Some(Strike::Refused(limit_exceeded(Some(1))));
        }
        spend(&mut self.ambiguous.0).then_some(Strike::Lost { done: self.ambiguous.1 })
    }

    fn draw_strike(&mut self, deed: &Deed<'_>) -> Option<Strike> {
        let (stream, rates) = self.drawn.as_mut()?;
        if stream.strikes(rates.crash) {
            let position = Position::ALL[usize::try_from(stream.below(3)).unwrap_or(0)];
            return Some(Strike::Crash(position));
        }
        if stream.strikes(rates.ambiguous) {
            return Some(Strike::Lost { done: stream.below(2) == 0 });
        }
        match deed {
            Deed::Ledger { part, .. } if stream.strikes(rates.conflict) => Some(Strike::Refused(conflict(part))),
            Deed::Cloud(_) | Deed::Wire { .. } if stream.strikes(rates.throttle) => {
                Some(Strike::Refused(limit_exceeded(Some(1))))
            }
            _ if deed.wants_capacity() && stream.strikes(rates.no_capacity) => {
                Some(Strike::Refused(refusal(Class::NoCapacity)))
            }
            _ => None,
        }
    }

    /// `fresh`: the answer is a quorum read, which cannot lie about what is there, and can only fail.
    pub fn on_read(&mut self, what: Sight, fresh: bool) -> Option<Blind> {
        let can_hide = !fresh && what != Sight::Ledger;
        let mut blind = None;
        if can_hide && self.hidden.get_mut(&what).is_some_and(spend) {
            blind = Some(Blind::Hidden);
        } else if self.gaps.get_mut(&what).is_some_and(spend) {
            blind = Some(Blind::Gap);
        } else if let Some((stream, rates)) = &mut self.drawn {
            if can_hide && stream.strikes(rates.hide) {
                blind = Some(Blind::Hidden);
            } else if stream.strikes(rates.gap) {
                blind = Some(Blind::Gap);
            }
        }
        match blind? {
            Blind::Hidden => self.count(&format!("{what:?} hidden").to_lowercase()),
            Blind::Gap => self.count(&format!("{what:?} unread").to_lowercase()),
        }
        blind
    }

    /// How old the answer to a read shall be.
    pub fn on_age(&mut self) -> Option<SignedDuration> {
        let age = if spend(&mut self.stale.0) {
            self.stale.1
        } else {
            let (stream, rates) = self.drawn.as_mut()?;
            stream.strikes(rates.stale).then(|| Duration::secs(1 + stream.below(STALE_SECS)))?
        };
        self.count("stale read");
        Some(age.signed())
    }

    /// How long a fresh instance is not listed, and whether its node never joins.
    pub fn on_launch(&mut self) -> (SignedDuration, bool) {
        let (mut lag, mut stillborn) = (Duration::secs(0), spend(&mut self.stillborn));
        if spend(&mut self.lag.0) {
            lag = self.lag.1;
        } else if let Some((stream, rates)) = &mut self.drawn {
            if stream.strikes(rates.lag) {
                lag = Duration::secs(1 + stream.below(LAG_SECS));
            }
            stillborn |= stream.strikes(rates.stillborn);
        }
        if lag > Duration::secs(0) {
            self.count("instance listed late");
        }
        if stillborn {
            self.count("node never joins");
        }
        (lag.signed(), stillborn)
    }

    /// How far the clock leaps before this call.
    pub fn on_clock(&mut self) -> Option<SignedDuration> {
        let (stream, rates) = self.drawn.as_mut()?;
        let leap = stream.strikes(rates.leap).then(|| Duration::secs(60 + stream.below(LEAP_SECS)))?;
        self.count("clock leaps");
        Some(leap.signed())
    }

    /// Which of so many machines dies before this call.
    pub fn on_machines(&mut self, count: usize) -> Option<usize> {
        let (stream, rates) = self.drawn.as_mut()?;
        if count == 0 || !stream.strikes(rates.death) {
            return None;
        }
        let victim = usize::try_from(stream.below(count as u64)).unwrap_or(0);
        self.count("machine dies");
        Some(victim)
    }

    pub(super) fn count(&mut self, name: &str) {
        *self.struck.entry(name.to_string()).or_default() += 1;
    }
}

fn spend(left: &mut u32) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}

/// What EC2 says to a launch, for each class.
fn refusal(class: Class) -> ProviderError {
    let message = match class {
        Class::NoCapacity => {
            "InsufficientInstanceCapacity: There is no capacity of this type in the Availability Zone you requested."
        }
        Class::Throttled => return limit_exceeded(Some(1)),
        Class::NotFound => "InvalidSubnetID.NotFound: The subnet ID does not exist",
        Class::Conflict => "ConcurrentModification: The resource is being changed by another request.",
        Class::Denied => "UnauthorizedOperation: You are not authorized to perform this operation.",
        Class::Ambiguous => return no_answer(),
        Class::Other => "VcpuLimitExceeded: You have requested more vCPU capacity than your current limit allows.",
    };
    ProviderError::new(class, message)
}

/// Nobody knows whether it was done.
pub fn no_answer() -> ProviderError {
    ProviderError::new(Class::Ambiguous, "RequestTimeout: the connection broke before there was an answer")
}

#[cfg(test)]
mod tests;
