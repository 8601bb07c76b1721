//! The real EC2, behind the trait that the simulated one has too. The only place that names the AWS SDK.
//!
//! `actions` is the table of everything that is asked, `buckets` how fast, `wire` how, `errors` what a no means and `grants` what to do
//! about it.
//! Reading: `observe`, with `seen` for what EC2's words mean and `notices` for what it will take away. Writing:
//! `perform`, with `launch`, `reserve` and `template` for the requests, and `rehearse` for whether they are allowed. Nothing here decides, and nothing that
//! changes something is sent twice.
//!
//! The table and the buckets are there without the SDK too (`--no-default-features`).

pub mod actions;
pub mod buckets;
#[cfg(feature = "aws")]
mod errors;
#[cfg(feature = "aws")]
mod grants;
#[cfg(feature = "aws")]
mod launch;
#[cfg(feature = "aws")]
pub mod line;
#[cfg(feature = "aws")]
mod notices;
#[cfg(feature = "aws")]
mod observe;
#[cfg(feature = "aws")]
mod offers;
#[cfg(feature = "aws")]
mod perform;
#[cfg(feature = "aws")]
mod rehearse;
#[cfg(feature = "aws")]
mod reserve;
#[cfg(feature = "aws")]
mod seen;
#[cfg(feature = "aws")]
mod template;
#[cfg(feature = "aws")]
mod wire;

#[cfg(feature = "aws")]
#[cfg(test)]
mod tests;

#[cfg(feature = "aws")]
pub use real::Aws;

#[cfg(feature = "aws")]
mod real {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use async_trait::async_trait;
    use jiff::Timestamp;

    use super::actions::Api;
    use super::errors::Failure;
    use super::launch::Version;
    use super::line::Line;
    use super::notices::Told;
    use super::wire::Wire;
    use super::{observe, perform, rehearse};
    use crate::compile::bootstrap::Join;
    use crate::effect::{CloudAction, Subject};
    use crate::fleet::Target;
    use crate::fleet::config::AwsCloud;
    use crate::fleet::launch::Launch;
    use crate::ids::{Digest, FleetUid, InstanceId, OfferingId, PoolName, TemplateName};
    use crate::observed::{CloudSeen, Denials, Notice};
    use crate::provider::{Class, Cloud, Done, ProviderError};
    use crate::units::Usd;

    /// EC2 in one account and region, as one fleet sees it.
    #[derive(Debug)]
    pub struct Aws {
        pub(super) wire: Wire,
        pub(super) cloud: AwsCloud,
        /// Whose things are ours.
        pub(super) fleet: FleetUid,
        pub(super) known: RefCell<Known>,
    }

    /// What was learned on the way.
    #[derive(Default, Debug)]
    pub(super) struct Known {
        /// Who asks; once the account was seen to be the fleet's.
        pub caller: Option<String>,
        /// How the nodes of each pool are launched, as the target said last.
        pub pools: BTreeMap<PoolName, Launch>,
        /// Where instances stand: that does not change while they run.
        pub networks: BTreeMap<InstanceId, Vec<String>>,
        pub notices: BTreeMap<InstanceId, Notice>,
        /// What the queue said a moment ago, and when.
        pub told: Vec<(Timestamp, Told)>,
        /// What was asked for each offer that somebody was shown.
        pub fees: BTreeMap<OfferingId, Usd>,
        pub versions: BTreeMap<(TemplateName, Digest), Version>,
        pub join: Option<Join>,
        /// What we were told that we may do or not, and when.
        pub rehearsed: BTreeMap<&'static str, (Timestamp, Option<String>)>,
    }

    impl Aws {
        /// The cloud that the fleet names, with credentials as the SDK's chain finds them. No request is made yet.
        pub async fn connect(cloud: &AwsCloud, fleet: &FleetUid) -> Self {
            Self::over(Wire::connect(cloud, None).await, cloud, fleet)
        }

        /// The same with these keys: for an endpoint that is not AWS.
        pub async fn connect_as(cloud: &AwsCloud, fleet: &FleetUid, id: &str, secret: &str) -> Self {
            Self::over(Wire::connect(cloud, Some((id, secret))).await, cloud, fleet)
        }

        /// The same over a line of this process: nothing leaves it, and time is told by whoever answers.
        pub fn connect_by(line: &Line, cloud: &AwsCloud, fleet: &FleetUid) -> Self {
            Self::over(Wire::over(cloud, line), cloud, fleet)
        }

        fn over(wire: Wire, cloud: &AwsCloud, fleet: &FleetUid) -> Self {
            Self { wire, cloud: cloud.clone(), fleet: fleet.clone(), known: RefCell::default() }
        }

        /// Keeps how the target launches its pools, which no launch says by itself. Whoever observes has done so.
        pub fn heed(&self, target: &Target) {
            let launches = target.standing.pools.iter();
            let launches = launches.filter_map(|(name, pool)| Some((name.clone(), pool.launch.clone()?)));
            self.known.borrow_mut().pools = launches.collect();
        }

        /// Whether the credentials are those of the fleet's account. Another account would look like a fleet that lost
        /// everything, so nothing is read or written before.
        pub(super) async fn is_ours(&self) -> Result<(), Failure> {
            if self.known.borrow().caller.is_some() {
                return Ok(());
            }
            let api = Api::GetCallerIdentity;
            let answer = self.wire.call(api, self.wire.sts.get_caller_identity().send()).await?;
            let (account, arn) = (answer.account.unwrap_or_default(), answer.arn.unwrap_or_default());
            if account != self.cloud.account_id {
                let wanted = &self.cloud.account_id;
                let said = format!(
                    "these credentials ({arn}) are of account {account}, and the fleet's `cloud.aws.accountId` is \
                     {wanted}: choose the profile or the role of that account"
                );
                return Err(Failure::new(api, Class::Denied, said));
            }
            self.known.borrow_mut().caller = Some(arn);
            Ok(())
        }
    }

    #[async_trait(?Send)]
    impl Cloud for Aws {
        async fn observe(&self, target: &Target) -> CloudSeen {
            observe::observe(self, target).await
        }

        async fn reread(&self, what: &[Subject]) -> CloudSeen {
            observe::reread(self, what).await
        }

        async fn perform(&self, action: &CloudAction) -> Result<Done, ProviderError> {
            perform::perform(self, action).await.map_err(ProviderError::from)
        }

        fn rehearses(&self) -> bool {
            true
        }

        async fn rehearse(&self, wanted: &[&CloudAction]) -> Denials {
            rehearse::rehearse(self, wanted).await
        }
    }
}
