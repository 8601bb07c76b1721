//! Known mistakes of this field, each at the one place where the right thing is done, so that a test can see it caught.
//!
//! Only the tests of this crate can make one: in every other build [`is_on`] is `false` at compile time and costs
//! nothing. `scenario/tests/mistakes.rs` makes each of them and shows who catches it.

/// What others have done wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mistake {
    /// A launch that is sent again is another launch.
    LaunchWithoutToken,
    /// A launch in another zone has the same token.
    TokenWithoutZone,
    /// No answer is taken for a no, and the next source is asked.
    FallbackAfterNoAnswer,
    /// A pool whose document is gone is wanted no more.
    DeletedFileDrains,
    /// Nobody looks whether a person froze it.
    EffectAfterFreeze,
    /// The pods of a node are evicted, whatever they belong to.
    DrainByNode,
    /// What the plan saw is believed when it is carried out.
    ListOnce,
    /// What was recorded since the plan was made does not count.
    StalePlan,
    /// Less quota is thought to end what runs on it.
    QuotaThoughtReclaimed,
    /// The same label is written again to a mig-manager that failed.
    LabelRewritten,
    /// What a read does not show is gone.
    DeleteOnEmptyRead,
    /// A pod that two disruption budgets select is evicted like any other.
    TwoBudgets,
    /// The judge lets every plan through: what would catch the others without it?
    JudgeSleeps,
}

#[cfg(not(test))]
pub(crate) const fn is_on(_: Mistake) -> bool {
    false
}

#[cfg(test)]
pub(crate) use made::{is_on, making};

#[cfg(test)]
mod made {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::Mistake;

    thread_local! {
        static ON: RefCell<BTreeSet<Mistake>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(crate) fn is_on(mistake: Mistake) -> bool {
        ON.with_borrow(|on| on.contains(&mistake))
    }

    /// What comes of it with these mistakes made, in this thread and until it ends.
    pub(crate) fn making<T>(mistakes: &[Mistake], act: impl FnOnce() -> T) -> T {
        struct Off;
        impl Drop for Off {
            fn drop(&mut self) {
                ON.with_borrow_mut(BTreeSet::clear);
            }
        }
        let _off = Off;
        ON.with_borrow_mut(|on| on.extend(mistakes));
        act()
    }
}
