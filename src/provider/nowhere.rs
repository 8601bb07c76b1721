//! What is not there: the cloud of a fleet whose nodes exist already, and the meter of one that nobody measures.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Class, Clock, Cloud, Done, Meter, ProviderError};
use crate::effect::{CloudAction, Subject};
use crate::fleet::Target;
use crate::observed::{CloudSeen, Read, Sample};
use crate::provider::clock::SystemClock;

/// No cloud: whoever looks sees, wholly, that nothing is there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Nowhere;

impl Nowhere {
    fn nothing(at: Timestamp) -> CloudSeen {
        CloudSeen {
            reservations: Read::new(Default::default(), at),
            offerings: Read::new(Default::default(), at),
            instances: Read::new(Default::default(), at),
            groups: Read::new(Default::default(), at),
            templates: Read::new(Default::default(), at),
            spot_prices: Read::new(Default::default(), at),
            hosts: Default::default(),
            recommended: Default::default(),
            unplaced: None,
        }
    }
}

#[async_trait(?Send)]
impl Cloud for Nowhere {
    async fn observe(&self, _target: &Target) -> CloudSeen {
        Self::nothing(SystemClock.now())
    }

    async fn reread(&self, _what: &[Subject]) -> CloudSeen {
        Self::nothing(SystemClock.now())
    }

    async fn perform(&self, _action: &CloudAction) -> Result<Done, ProviderError> {
        Err(ProviderError::new(Class::Denied, "the fleet has `cloud: {none: {}}`: nothing is launched or bought"))
    }
}

#[async_trait(?Send)]
impl Meter for Nowhere {
    async fn sample(&self, _query: &str) -> Option<Sample> {
        None
    }
}
