//! How long `apply` waits, how much it does at once, and how it is told to stop.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Poll, Waker};

use futures_util::task::AtomicWaker;
use jiff::Timestamp;

use crate::provider::Clock;
use crate::units::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// How long one step may wait, for a fact or for pods that will not go, before its branch ends. The next plan takes
    /// it up where it is.
    pub per_wait: Duration,
    /// How long the whole may take before nothing more is begun.
    pub total: Option<Duration>,
    /// How often what is waited for is looked at.
    pub poll: Duration,
    /// How many effects may be in flight at once.
    pub concurrency: usize,
    pub stop: &'a StopSignal,
}

/// A person's wish to stop, from anywhere: a signal, another task, a test.
///
/// Pressed once, nothing more is begun, what is in flight is finished, and waiting ends. Pressed twice, `apply` returns
/// at once and leaves what is in flight: as after a crash, the next plan understands it.
#[derive(Default, Debug)]
pub struct StopSignal {
    presses: AtomicU8,
    waker: AtomicWaker,
}

impl StopSignal {
    pub fn press(&self) {
        let more = |presses: u8| Some(presses.saturating_add(1));
        // The closure never answers `None`, so there is nothing to look at.
        let _ = self.presses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        self.waker.wake();
    }

    /// Begin nothing more.
    pub fn is_asked(&self) -> bool {
        self.presses.load(Ordering::SeqCst) >= 1
    }

    /// Return at once.
    pub fn is_urgent(&self) -> bool {
        self.presses.load(Ordering::SeqCst) >= 2
    }

    /// Sleeps until then, or until a person says stop.
    pub async fn sleep(&self, clock: &dyn Clock, at: Timestamp) {
        let mut slept = clock.sleep_until(at);
        poll_fn(|cx| {
            self.listen(cx.waker());
            if self.is_asked() { Poll::Ready(()) } else { slept.as_mut().poll(cx) }
        })
        .await;
    }

    /// What comes of this; none if a person wants it to end now.
    pub async fn unless_urgent<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.listen(cx.waker());
            if self.is_urgent() { Poll::Ready(None) } else { work.as_mut().poll(cx).map(Some) }
        })
        .await
    }

    /// Who is woken when it is pressed.
    pub(super) fn listen(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}
