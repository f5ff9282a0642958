//! Named checks behind one endpoint, answered in the manner of Kubernetes' own health endpoints.
//!
//! - `GET /healthz` runs all checks: 200 `ok`, or 500 with one line per check and its reason.
//! - `?verbose` shows the lines also when all is well; `?exclude=name` leaves a check out.
//! - `GET /healthz/<name>` runs one check: 200 `ok`, 500 with the reason, 404 when there is no such check.

use axum::{
    Router,
    extract::{Path, RawQuery},
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use futures::future::{BoxFuture, FutureExt as _, join_all};
use std::{
    collections::BTreeMap,
    fmt,
    fmt::Write as _,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// A check that takes longer has failed; a kubelet waits one second.
const PATIENCE: Duration = Duration::from_millis(900);

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A list of named checks, in the order of their names.
#[derive(Clone, Default)]
pub struct Checks(BTreeMap<&'static str, Check>);

impl Checks {
    /// Only `ping`, which is well as long as the process answers.
    pub fn ping() -> Self {
        Self::default().with("ping", || async { Ok(()) })
    }

    /// Adds a check.
    #[must_use]
    pub fn with<F>(mut self, name: &'static str, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.0.insert(name, Arc::new(move || check().boxed()));
        self
    }

    /// Adds a check that is well once the latch is set; `reason` is what to say before.
    #[must_use]
    pub fn with_latch(self, name: &'static str, latch: &Latch, reason: &'static str) -> Self {
        let latch = latch.clone();
        self.with(name, move || {
            let result = if latch.is_set() { Ok(()) } else { Err(reason.to_owned()) };
            async move { result }
        })
    }

    /// Runs all checks at once and returns their results by name.
    pub async fn run(&self) -> Vec<(&'static str, Result<(), String>)> {
        join_all(
            self.0
                .iter()
                .map(|(name, check)| async move { (*name, run_one(check).await) }),
        )
        .await
    }

    /// Returns the router of `/<endpoint>` and `/<endpoint>/<check>`.
    pub fn router(self, endpoint: &'static str) -> Router {
        let one = {
            let checks = self.clone();
            move |Path(name): Path<String>| async move {
                match checks.0.get(name.as_str()) {
                    None => answer(StatusCode::NOT_FOUND, format!("there is no check {name}\n")),
                    Some(check) => match run_one(check).await {
                        Ok(()) => answer(StatusCode::OK, "ok".to_owned()),
                        Err(reason) => answer(StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")),
                    },
                }
            }
        };
        let all = {
            let checks = Arc::new(self);
            move |RawQuery(query): RawQuery| async move { checks.report(endpoint, &query.unwrap_or_default()).await }
        };
        Router::new()
            .route(&format!("/{endpoint}"), get(all.clone()))
            .route(&format!("/{endpoint}/"), get(all))
            .route(&format!("/{endpoint}/{{check}}"), get(one))
    }

    async fn report(&self, endpoint: &str, query: &str) -> impl IntoResponse + use<> {
        let excluded: Vec<_> = query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("exclude="))
            .collect();
        let verbose = query
            .split('&')
            .any(|pair| pair == "verbose" || pair.starts_with("verbose="));
        let mut text = String::new();
        let mut well = true;
        for (name, result) in self.run().await {
            let _ = match result {
                _ if excluded.contains(&name) => writeln!(text, "[+]{name} excluded: ok"),
                Ok(()) => writeln!(text, "[+]{name} ok"),
                Err(reason) => {
                    well = false;
                    writeln!(text, "[-]{name} failed: {reason}")
                }
            };
        }
        if !well {
            return answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("{text}{endpoint} check failed\n"),
            );
        }
        if verbose {
            return answer(StatusCode::OK, format!("{text}{endpoint} check passed\n"));
        }
        answer(StatusCode::OK, "ok".to_owned())
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

async fn run_one(check: &Check) -> Result<(), String> {
    match timeout(PATIENCE, check()).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

fn answer(status: StatusCode, text: String) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache, no-store, must-revalidate"),
    ];
    (status, headers, text)
}

/// Something that has not happened yet and then has.
#[derive(Debug, Clone, Default)]
pub struct Latch(Arc<AtomicBool>);

impl Latch {
    /// From now on it has happened.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether it has happened.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
