//! How calls in EC2's own words reach the world: the same faults, the same notes and the same file as those of the
//! provider's traits.
//!
//! A call is answered at once and never crashes its caller, who sits on another side of a wire: where a process would die
//! or an answer is lost, the answer is [`Heard::Nothing`]. Called by `endpoint`. A caller in this process is an
//! [`Operator`]: it says what its call is for, and dies where a fault says so.

use jiff::{SignedDuration, Timestamp};

use super::cloud::{Circumstances, CloudState};
use super::faults::{Blind, Position, Sight, Strike};
use super::{Deed, Sim, State};
use crate::effect::CloudAction;
use crate::provider::{Class, Clock, ProviderError};

/// What came back.
#[derive(Clone, PartialEq, Debug)]
pub enum Heard<T> {
    Answer(Result<T, ProviderError>),
    /// The connection broke. Whether it was done is not known.
    Nothing,
}

/// Whoever calls over a wire from this process.
pub trait Operator: Clock {
    /// Says something, and hears what the world answers. False: whoever spoke is dead, and heard nothing.
    fn speak(&self, meant: Option<&CloudAction>, say: &mut dyn FnMut(&Sim)) -> bool;
    /// Whether others go first this time.
    fn gives_way(&self) -> bool;
    /// Sleeps, and is awake at once.
    fn pass_until(&self, at: Timestamp);
}

impl Sim {
    /// A call that would change something. `known`: whether it was heard before, and is answered whatever capacity is left.
    pub fn change_by_wire<T>(
        &self,
        (verb, subject): (&'static str, &str),
        known: impl Fn(&CloudState) -> bool,
        effect: impl FnOnce(&mut State) -> Result<(T, bool), ProviderError>,
    ) -> Heard<T> {
        self.stir();
        if let Err(error) = self.store.check() {
            return Heard::Answer(Err(ProviderError::new(Class::Denied, format!("UnauthorizedOperation: {error}"))));
        }
        let meant = self.meant.borrow().clone();
        let meant = meant.as_ref().map(Deed::Cloud).filter(|deed| deed.verb() == verb);
        let deed = meant.unwrap_or(Deed::Wire { verb, subject });
        let strike = self.faults.borrow_mut().on_change(&deed);
        if let Some(Strike::Crash(position)) = &strike {
            self.died.set(Some(*position));
        }
        match strike {
            Some(Strike::Refused(error))
                if !(error.class == Class::NoCapacity && known(&self.state.borrow().cloud)) =>
            {
                Heard::Answer(self.commit(&deed, |_| Err(error)))
            }
            None | Some(Strike::Refused(_) | Strike::Crash(Position::AfterAnswer)) => {
                Heard::Answer(self.commit(&deed, effect))
            }
            Some(Strike::Lost { done: true } | Strike::Crash(Position::AfterCommit)) => {
                let _lost = self.commit(&deed, effect);
                Heard::Nothing
            }
            Some(Strike::Lost { done: false } | Strike::Crash(Position::BeforeSend)) => Heard::Nothing,
        }
    }

    /// A call that only looks. `what` may be hidden, fail, or be shown as it was some time ago.
    pub fn look_by_wire<T>(
        &self,
        what: Option<Sight>,
        look: impl Fn(&CloudState) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        self.stir();
        let blind = what.and_then(|what| self.faults.borrow_mut().on_read(what, false));
        match (blind, what) {
            (Some(Blind::Gap), _) => {
                Err(ProviderError::new(Class::Other, "InternalError: An internal error has occurred"))
            }
            (Some(Blind::Hidden), what) => {
                let mut nothing = self.state.borrow().cloud.clone();
                match what {
                    Some(Sight::Reservations) => nothing.reservations.clear(),
                    _ => nothing.instances.clear(),
                }
                look(&nothing)
            }
            (None, Some(_)) => {
                let late = self.with_late(|cloud, _| look(cloud));
                late.unwrap_or_else(|| look(&self.state.borrow().cloud))
            }
            (None, None) => look(&self.state.borrow().cloud),
        }
    }

    /// What is remembered beside all calls: buckets, offers that were shown, messages that were received.
    pub fn aside<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.change(change)
    }

    /// How the world stands to the next launch.
    pub fn launch_weather(&self, least_lag: SignedDuration) -> Circumstances<'static> {
        let (lag, stillborn) = self.faults.borrow_mut().on_launch();
        Circumstances { fleet: None, lag: lag.max(least_lag), stillborn }
    }
}
