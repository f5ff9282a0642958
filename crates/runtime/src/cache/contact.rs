//! When the API server was last heard of, kind by kind.
//!
//! Everything counts that it says, also a refusal: that is repaired where rights and load are, not by starting anew. A watch is ended and opened again every
//! two minutes, so that a kind of which nothing is heard for longer has lost its connection.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// When a kind was last heard of.
#[derive(Clone, Debug)]
pub(super) struct LastHeard(Arc<Mutex<Instant>>);

impl LastHeard {
    pub(super) fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(super) fn again(&self) {
        *self.0.lock() = Instant::now();
    }
}

/// Longest time without a word. Attempts that fail come every half minute or so.
const LONGEST_SILENCE: Duration = Duration::from_mins(5);

/// When each kind of a cache was last heard of.
#[derive(Clone, Debug, Default)]
pub struct Contact(Vec<(String, LastHeard)>);

impl Contact {
    pub(super) fn add(&mut self, kind: String, heard: LastHeard) {
        self.0.push((kind, heard));
    }

    /// Fails when some kind has not been heard of for minutes, and names it.
    pub fn check(&self) -> Result<(), String> {
        let is_silent = |heard: &LastHeard| heard.0.lock().elapsed() > LONGEST_SILENCE;
        let silent = self.0.iter().filter(|(_, heard)| is_silent(heard));
        let mut kinds: Vec<_> = silent.map(|(kind, _)| kind.as_str()).collect();
        if kinds.is_empty() {
            return Ok(());
        }
        kinds.sort_unstable();
        Err(format!(
            "the API server has not been heard of for {LONGEST_SILENCE:?}: {}",
            kinds.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use prometheus::Registry;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::cache::{Cache, CacheOptions, Kind};

    #[tokio::test(start_paused = true)]
    async fn given_a_server_that_never_answers_then_that_is_noticed() {
        // Connections are made by the kernel, and nobody reads them.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", silent.local_addr().expect("an address"));
        let config = kube::Config::new(address.parse().expect("an address"));
        let client = kube::Client::try_from(config).expect("a client");
        let mut cache = Cache::new(client, CacheOptions::default(), &Registry::new()).expect("metrics");
        let _maps = cache.watch(Kind::<ConfigMap>::of());
        let contact = cache.contact();
        let stop = CancellationToken::new();
        let _stopped = stop.clone().drop_guard();
        tokio::spawn(cache.run(stop));
        tokio::time::sleep(LONGEST_SILENCE).await;
        assert_eq!(contact.check(), Ok(()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let reason = contact.check().expect_err("nobody answers");
        assert!(reason.ends_with(": configmaps"), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn given_kinds_then_those_that_are_silent_for_too_long_are_named() {
        let (loud, silent) = (LastHeard::now(), LastHeard::now());
        let mut contact = Contact::default();
        contact.add("pods".to_owned(), loud.clone());
        contact.add("nodes".to_owned(), silent);
        tokio::time::advance(LONGEST_SILENCE).await;
        assert_eq!(contact.check(), Ok(()));
        loud.again();
        tokio::time::advance(Duration::from_secs(1)).await;
        let reason = contact.check().expect_err("one is silent");
        assert!(reason.ends_with(": nodes"), "{reason}");
    }
}
