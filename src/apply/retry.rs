//! When to come back. Only the class of an error is looked at.

use jiff::SignedDuration;

use super::turn::{Memory, Turn};
use super::walk::Walk;
use crate::effect::digest;
use crate::ids::StepId;
use crate::plan::Step;
use crate::provider::{Class, ProviderError};
use crate::status::EventKind;

/// How often a step is tried again after an error: with the pauses below about two minutes.
const RETRIES: u32 = 8;
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// Between two evictions of one pod: what `kubectl drain` keeps.
pub(super) const EVICTION_PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// What an error means for a step: too many requests and somebody who was faster are tried again, a bounded number of
/// times; everything else ends it.
pub(super) fn after(walk: &Walk<'_>, step: &Step, memory: &mut Memory, error: &ProviderError) -> Turn {
    let again = matches!(error.class, Class::Throttled | Class::Conflict) && memory.retries < RETRIES;
    if !again {
        return failed(error);
    }
    memory.retries += 1;
    let told = error.retry_after_secs.and_then(|secs| i64::try_from(secs).ok()).map(SignedDuration::from_secs);
    let pause = pause(&step.id, memory.retries).max(told.unwrap_or_default());
    Turn::Again { at: walk.now_plus(pause), why: error.message.clone() }
}

pub(super) fn failed(error: &ProviderError) -> Turn {
    Turn::End(EventKind::Failed { class: name(error.class).into(), why: error.message.clone() })
}

/// Twice as long each time, and up to half as long again: many steps that were refused together do not come back
/// together. The spread is drawn from the step and the try, so that a run can be repeated.
fn pause(step: &StepId, retry: u32) -> SignedDuration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << retry.saturating_sub(1).min(16));
    let pause = doubled.min(LONGEST_PAUSE);
    let drawn = digest(format!("{step}#{retry}").as_bytes());
    let spread = drawn.as_str().get(..4).and_then(|hex| i32::from_str_radix(hex, 16).ok()).unwrap_or_default();
    pause + pause.saturating_mul(spread) / (2 * 0x1_0000)
}

pub(super) const fn name(class: Class) -> &'static str {
    match class {
        Class::Throttled => "throttled",
        Class::NoCapacity => "noCapacity",
        Class::NotFound => "notFound",
        Class::Conflict => "conflict",
        Class::Denied => "denied",
        Class::Ambiguous => "ambiguous",
        Class::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_are_bounded_and_spread() {
        let step = StepId::from("launch:train/0@1");
        for retry in 1..=RETRIES {
            let (plain, spread) =
                (FIRST_PAUSE.saturating_mul(1 << (retry - 1)).min(LONGEST_PAUSE), pause(&step, retry));
            assert!(plain <= spread && spread <= plain + plain / 2, "{retry}: {spread}");
            assert_eq!(spread, pause(&step, retry));
        }
        assert_ne!(pause(&step, 1), pause(&"launch:train/1@1".into(), 1));
    }

    #[test]
    fn classes_are_named_as_they_are_written() {
        let all = [
            Class::Throttled,
            Class::NoCapacity,
            Class::NotFound,
            Class::Conflict,
            Class::Denied,
            Class::Ambiguous,
            Class::Other,
        ];
        for class in all {
            assert_eq!(serde_json::to_value(class).unwrap(), name(class));
        }
    }
}
