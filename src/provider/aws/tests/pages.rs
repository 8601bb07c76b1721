//! Lists that come in pages: all of them are read, and where one fails the whole is a gap that nothing is concluded from.

use super::bench;
use super::sim::{IMAGE, served};
use crate::effect::CloudAction;
use crate::endpoint::Options;
use crate::ids::InstanceId;
use crate::provider::{Cloud, Done};

/// More than two pages hold.
const MANY: usize = 2_100;

#[test]
fn all_pages_are_read_and_one_that_fails_makes_the_whole_a_gap() {
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, served| {
        let target = bench::target(url, IMAGE);
        let aws = bench::connect(&target, "ml").await;
        bench::furnish_for(&aws, &target).await;
        aws.observe(&target).await;
        let template = bench::template(&target, &[]);
        aws.perform(&CloudAction::EnsureTemplate(template.clone())).await.unwrap();
        let request = CloudAction::Launch(bench::request(&template, 0));
        let Done::Instance(first) = aws.perform(&request).await.unwrap() else { panic!() };
        // As many more of the same.
        served.sim.aside(|state| {
            let found = state.cloud.instances[&first].clone();
            let tags = state.cloud.account.tags[first.as_str()].clone();
            for number in 1..MANY {
                let id = InstanceId::from(format!("i-{number:017x}"));
                state.cloud.account.tag(id.as_str(), tags.clone());
                state.cloud.instances.insert(id, found.clone());
            }
        });
        let seen = aws.observe(&target).await;
        assert_eq!((seen.instances.gap(), seen.instances.seen().len()), (None, MANY));
        // The second page fails, as often as it is asked for.
        served.endpoint.inject("500 DescribeInstances 9 after 1".parse().unwrap());
        let seen = aws.observe(&target).await;
        assert!(seen.instances.gap().is_some(), "{:?}", seen.instances.seen().len());
        assert!(seen.instances.whole().is_none());
    });
}
