//! The clock of the world that we live in.

use async_trait::async_trait;
use jiff::Timestamp;

use super::Clock;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SystemClock;

#[async_trait(?Send)]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep_until(&self, at: Timestamp) {
        // In slices: a machine that slept meanwhile, or whose clock was set, finds that it is late.
        const SLICE: std::time::Duration = std::time::Duration::from_secs(30);
        while let Ok(left) = std::time::Duration::try_from(at.duration_since(self.now())) {
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left.min(SLICE)).await;
        }
    }
}
