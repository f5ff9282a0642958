//! The live page: workloads and their rollouts for people who look, on an address of its own.
//!
//! - It is read-only: there is no way to change anything through it.
//! - Readers bring a token of the cluster and see what its owner may list, see [`access`]; of that only named fields, see [`kruise_core::view`].
//! - What is shown comes from the cache that controllers read, and moves when the cache does: nothing asks the API server for objects. Every replica serves it.
//! - Changes are encoded once for all readers, see [`hub`].

mod access;
mod answers;
mod frames;
mod hub;
mod reasons;
mod site;
mod sources;
mod stream;

use crate::platform::Platform;
use access::{Access, ApiReviews};
use answers::Answers;
use axum::Router;
use hub::Hub;
use kruise_admission::explain::Inquiry;
use kruise_runtime::{lease::Leadership, shutdown::CancellationToken};
use prometheus::Registry;
use reasons::Asked;
use sources::Around;
use std::{convert::Infallible, fmt, sync::Arc};

/// Connections at the same time: the readers', and some that ask for files and reasons.
pub(crate) const CONNECTIONS: usize = 2 * hub::MOST_READERS;

/// The page, before it is served.
pub(crate) struct LivePage {
    hub: Arc<Hub>,
    answers: Answers,
}

impl LivePage {
    /// Asks for the stores of all that is shown.
    pub(crate) fn new(
        platform: &mut Platform,
        inquiry: Inquiry,
        leadership: Leadership,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let sources = sources::watch(platform);
        let around = Around {
            pods: platform.store(),
            revisions: platform.store(),
            budgets: platform.store(),
        };
        let hub = Hub::new(sources, around, registry)?;
        let answers = Answers {
            hub: hub.clone(),
            access: Arc::new(Access::new(ApiReviews(platform.client().clone()))),
            asked: Some(Asked::new(inquiry)),
            leadership,
        };
        Ok(Self { hub, answers })
    }

    /// Returns what answers, and what has to be run for readers to see changes.
    pub(crate) fn serve(
        self,
        stop: CancellationToken,
    ) -> (Router, impl Future<Output = Result<(), Infallible>> + use<>) {
        (answers::router(self.answers), self.hub.run(stop))
    }
}

impl fmt::Debug for LivePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LivePage").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
