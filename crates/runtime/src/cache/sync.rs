//! Waiting for the first lists.

use std::time::Duration;

use tokio::sync::watch;

/// Where a kind stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncState {
    /// The first list is not complete.
    Pending,
    /// The API server does not serve the kind: there are no objects until its CRD comes.
    Missing,
    /// The first list is complete.
    Synced,
}

/// The states of all kinds of a cache.
#[derive(Clone, Debug, Default)]
pub struct Syncing(Vec<(String, watch::Receiver<SyncState>)>);

/// Some kinds were not listed in time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not listed within {within:?}: {}; check that the API server answers and that the ClusterRole allows list and watch",
    kinds.join(", ")
)]
pub struct NotSynced {
    pub kinds: Vec<String>,
    /// The deadline.
    pub within: Duration,
}

impl Syncing {
    pub(super) fn add(&mut self, kind: String, state: watch::Receiver<SyncState>) {
        self.0.push((kind, state));
    }

    /// Waits until every kind is listed or known to be missing.
    ///
    /// # Errors
    ///
    /// Fails after that time, and names the kinds that are still waited for.
    pub async fn within(&self, deadline: Duration) -> Result<(), NotSynced> {
        let settled = |state: &SyncState| *state != SyncState::Pending;
        let all = async {
            for (_, state) in &self.0 {
                // The sender lives in the store; when it is gone nobody can read the store either.
                let _ = state.clone().wait_for(settled).await;
            }
        };
        if tokio::time::timeout(deadline, all).await.is_ok() {
            return Ok(());
        }
        let late = self.0.iter().filter(|(_, state)| !settled(&state.borrow()));
        let mut kinds: Vec<_> = late.map(|(kind, _)| kind.clone()).collect();
        kinds.sort_unstable();
        Err(NotSynced {
            kinds,
            within: deadline,
        })
    }

    /// Returns the kinds that the API server does not serve, by name.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.0.iter().filter(|(_, state)| *state.borrow() == SyncState::Missing);
        let mut kinds: Vec<_> = missing.map(|(kind, _)| kind.clone()).collect();
        kinds.sort_unstable();
        kinds
    }
}
