//! How long a key waits after a failure, by the class of the error.
//!
//! 1. *Conflict*, *gone*: the queue's back-off. The decision was made from an old picture; another look gives another one.
//! 2. *Transient*: the queue's back-off.
//! 3. *Denied*: the queue's back-off, ten seconds at most: nobody tells us when a quota, a right or a policy has changed.
//! 4. *Permanent*: only a change helps. One late retry, in case the change was not ours to see.
//!
//! Of several errors the first by this list decides: a single bad object never keeps the others waiting. A reconcile that failed in part keeps its
//! timers, but "at once" is not before a second has passed.

use std::time::Duration;

use crate::error::{Class, Error};

/// Soonest look at a key that failed, but for its back-off.
pub(super) const AT_ONCE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Longest pause after a refusal.
pub(super) const RETRY_DENIED: Duration = Duration::from_secs(10);
/// Pause after a request that is wrong in itself.
pub(super) const RETRY_PERMANENT: Duration = Duration::from_mins(15);

/// When a key is tried again. What goes first is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Retry {
    /// After the back-off; nothing is wrong.
    LookAgain,
    /// After the back-off.
    BackOff,
    /// After the back-off, but not later than this.
    BackOffWithin(Duration),
    /// After this time.
    Late(Duration),
}

impl Retry {
    pub(super) fn after(class: Class) -> Self {
        match class {
            Class::Conflict | Class::Gone => Self::LookAgain,
            Class::Transient => Self::BackOff,
            Class::Denied => Self::BackOffWithin(RETRY_DENIED),
            Class::Permanent => Self::Late(RETRY_PERMANENT),
        }
    }
}

/// The error that decides when the key is tried again.
pub(super) fn deciding(errors: impl IntoIterator<Item = Error>) -> Option<Error> {
    errors.into_iter().min_by_key(|error| Retry::after(error.class()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_several_errors_then_the_one_that_passes_first_decides() {
        let order = [Class::Permanent, Class::Denied, Class::Transient, Class::Gone];
        for (number, class) in order.into_iter().enumerate() {
            let errors = order.into_iter().take(number + 1);
            let errors = errors.map(|class| Error::new(class, class.as_str()));
            assert_eq!(deciding(errors).expect("an error").class(), class);
        }
        assert_eq!(deciding([]), None);
    }
}
