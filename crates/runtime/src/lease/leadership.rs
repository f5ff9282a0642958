//! The right to write, as the rest of the process sees it.
//!
//! Whoever writes asks for a [`Permit`] first. It is refused before the lease is held, after it was lost or given back, and
//! after the renew deadline has passed by our own clock, even if nobody has noticed yet that renewing fails. A permit says until
//! when the call must have ended: the moment at which another replica may take over.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Class, Error};

/// A handle to the right to write. Clones are the same right.
#[derive(Clone, Debug)]
pub struct Leadership(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    term: Mutex<Term>,
    leads: watch::Sender<bool>,
    in_flight: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Term {
    /// No new writes after this; `None` while we do not lead.
    write_until: Option<Instant>,
    /// Another replica may lead after this.
    ours_until: Option<Instant>,
}

/// Allows one write. Hold it until the answer is there.
#[derive(Debug)]
pub struct Permit {
    inner: Option<Arc<Inner>>,
    ends: Option<Instant>,
}

impl Leadership {
    /// The right of a process that needs no lease: the node agent, or a manager without leader election.
    pub fn always() -> Self {
        Self(None)
    }

    /// A right that nobody has given yet.
    pub(crate) fn none_yet() -> Self {
        Self(Some(Arc::new(Inner {
            term: Mutex::default(),
            leads: watch::Sender::new(false),
            in_flight: watch::Sender::new(0),
        })))
    }

    /// Allows one write.
    ///
    /// # Errors
    ///
    /// Fails when this process does not hold the lease, or not for long enough.
    pub fn permit(&self) -> Result<Permit, Error> {
        let Some(inner) = &self.0 else {
            return Ok(Permit {
                inner: None,
                ends: None,
            });
        };
        let term = inner.term.lock();
        let Some(write_until) = term.write_until else {
            return Err(refused("this replica does not lead"));
        };
        if Instant::now() >= write_until {
            return Err(refused("the lease could not be renewed in time"));
        }
        inner.in_flight.send_modify(|count| *count += 1);
        Ok(Permit {
            inner: Some(inner.clone()),
            ends: term.ours_until,
        })
    }

    /// Whether writes are allowed now.
    pub fn leads(&self) -> bool {
        match &self.0 {
            None => true,
            Some(inner) => inner
                .term
                .lock()
                .write_until
                .is_some_and(|until| Instant::now() < until),
        }
    }

    /// Waits until this replica leads.
    pub async fn acquired(&self) {
        if let Some(inner) = &self.0 {
            // The sender is ours: it cannot be gone.
            let _ = inner.leads.subscribe().wait_for(|leads| *leads).await;
        }
    }

    /// The lease was taken or renewed by a request that was sent at `sent`.
    pub(crate) fn renewed(&self, sent: Instant, renew_deadline: Duration, lease_duration: Duration) {
        if let Some(inner) = &self.0 {
            *inner.term.lock() = Term {
                write_until: Some(sent + renew_deadline),
                ours_until: Some(sent + lease_duration),
            };
            inner.leads.send_replace(true);
        }
    }

    /// Refuses all further writes.
    pub(crate) fn end(&self) {
        if let Some(inner) = &self.0 {
            *inner.term.lock() = Term::default();
            inner.leads.send_replace(false);
        }
    }

    /// Waits until no write is in flight; false when that takes longer than `patience`.
    pub(crate) async fn quiet(&self, patience: Duration) -> bool {
        let Some(inner) = &self.0 else {
            return true;
        };
        let mut in_flight = inner.in_flight.subscribe();
        let quiet = in_flight.wait_for(|count| *count == 0);
        tokio::time::timeout(patience, quiet).await.is_ok()
    }
}

fn refused(why: &str) -> Error {
    Error::new(Class::Transient, format!("nothing was written: {why}"))
}

impl Permit {
    /// Returns when the call must have ended.
    pub fn ends(&self) -> Option<Instant> {
        self.ends
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(inner) = &self.inner {
            inner.in_flight.send_modify(|count| *count -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn given_no_lease_yet_then_nothing_may_be_written() {
        let leadership = Leadership::none_yet();
        let error = leadership.permit().expect_err("no lease");
        assert_eq!(error.class(), Class::Transient);
        assert_eq!(error.to_string(), "nothing was written: this replica does not lead");
        assert!(Leadership::always().permit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_lease_that_is_not_renewed_then_writes_end_at_the_renew_deadline() {
        let leadership = Leadership::none_yet();
        let sent = Instant::now();
        leadership.renewed(sent, 10 * SECOND, 15 * SECOND);
        tokio::time::advance(9 * SECOND).await;
        let permit = leadership.permit().expect("in time");
        assert_eq!(permit.ends(), Some(sent + 15 * SECOND));
        tokio::time::advance(SECOND).await;
        assert!(leadership.permit().is_err(), "nobody had to tell");
        assert!(!leadership.leads());
        leadership.renewed(Instant::now(), 10 * SECOND, 15 * SECOND);
        assert!(leadership.permit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn given_the_end_then_writes_in_flight_are_waited_for() {
        let leadership = Leadership::none_yet();
        leadership.renewed(Instant::now(), 10 * SECOND, 15 * SECOND);
        let permit = leadership.permit().expect("leads");
        leadership.end();
        assert!(leadership.permit().is_err());
        assert!(!leadership.quiet(SECOND).await, "one write is in flight");
        drop(permit);
        assert!(leadership.quiet(SECOND).await);
    }

    #[tokio::test(start_paused = true)]
    async fn given_somebody_waits_for_the_lease_then_it_is_told() {
        let leadership = Leadership::none_yet();
        let waiting = tokio::spawn({
            let leadership = leadership.clone();
            async move { leadership.acquired().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        leadership.renewed(Instant::now(), SECOND, SECOND);
        waiting.await.expect("told");
    }
}
