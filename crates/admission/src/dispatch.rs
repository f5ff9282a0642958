//! From a path and a body to an answer.
//!
//! 1. The body has to be an AdmissionReview; anything else is answered 400.
//! 2. A namespace that cannot be one is refused, whatever the request is about: handlers make addresses of the API server from it.
//! 3. A kind that is not built yet is allowed as it is.
//! 4. A kind whose feature gate is off is refused. Only the release of an object that is being deleted passes: an update that changes
//!    nothing but its metadata.
//! 5. The kind's handler decides. It may not panic; if it does, the request is refused with 500 and counted, and the server goes on.

use crate::{
    Context, Request, Verdict,
    descriptor::{Descriptor, Handler, Hook},
    metrics::{Metrics, PathMetrics},
    review,
};
use futures::FutureExt as _;
use kruise_core::shared::validate::label::subdomain_faults;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Instant,
};
use tokio::time::timeout_at;
use tracing::{debug, error};

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Route {
    path: &'static str,
    descriptor: &'static Descriptor,
    hook: &'static Hook,
    metrics: OnceLock<PathMetrics>,
}

/// All paths.
#[derive(Debug)]
pub(crate) struct Dispatch {
    routes: HashMap<&'static str, Arc<Route>>,
    context: Context,
    metrics: Metrics,
}

/// An answer over HTTP.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: &'static str,
}

impl Answer {
    pub(crate) fn json(body: Vec<u8>) -> Self {
        Self {
            code: 200,
            body,
            content_type: "application/json",
        }
    }

    pub(crate) fn text(code: u16, text: impl Into<String>) -> Self {
        Self {
            code,
            body: text.into().into_bytes(),
            content_type: "text/plain; charset=utf-8",
        }
    }
}

impl Dispatch {
    pub(crate) fn new(
        descriptors: impl IntoIterator<Item = &'static Descriptor>,
        context: Context,
        metrics: Metrics,
    ) -> Self {
        let mut routes = HashMap::new();
        for descriptor in descriptors {
            for hook in descriptor.mutate.iter().chain(&descriptor.validate) {
                let route = Arc::new(Route {
                    path: hook.path,
                    descriptor,
                    hook,
                    metrics: OnceLock::new(),
                });
                for path in std::iter::once(hook.path).chain(hook.alias) {
                    routes.insert(path, route.clone());
                }
            }
        }
        Self {
            routes,
            context,
            metrics,
        }
    }

    /// What this path leads to.
    pub(crate) fn route(&self, path: &str) -> Option<&Arc<Route>> {
        self.routes.get(path)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Answers a request and counts it.
    pub(crate) async fn answer(&self, route: &Route, body: &[u8], deadline: Instant) -> Answer {
        let metrics = route.metrics.get_or_init(|| self.metrics.of_path(route.path));
        let started = Instant::now();
        metrics.in_flight.inc();
        let answer = self.respond(route, body, deadline).await;
        metrics.in_flight.dec();
        metrics.latency.observe(started.elapsed().as_secs_f64());
        metrics.count(answer.code);
        answer
    }

    /// Counts a request that was answered without looking at it.
    pub(crate) fn count(&self, route: &Route, code: u16) {
        let metrics = route.metrics.get_or_init(|| self.metrics.of_path(route.path));
        metrics.count(code);
    }

    async fn respond(&self, route: &Route, body: &[u8], deadline: Instant) -> Answer {
        let (version, request) = match review::read(body) {
            Ok(read) => read,
            Err(bad) => return Answer::text(400, bad.to_string()),
        };
        let verdict = self.decide(route, &request, deadline).await;
        if !verdict.allowed {
            debug!(
                path = route.path,
                operation = %request.operation,
                namespace = %request.namespace,
                name = %request.name,
                code = verdict.code,
                "refused: {}",
                verdict.message
            );
        }
        match review::answer(version, &request.uid, &verdict) {
            Ok(body) => Answer::json(body),
            Err(error) => Answer::text(500, error.to_string()),
        }
    }

    async fn decide(&self, route: &Route, request: &Request<'_>, deadline: Instant) -> Verdict {
        // Objects without a namespace have an empty one.
        if !request.namespace.is_empty() && !is_namespace(&request.namespace) {
            let value = serde_json::Value::from(request.namespace.as_ref());
            let message = format!("request.namespace: Invalid value: {value}: must be the name of a namespace");
            return Verdict::refuse(400, message);
        }
        let handler = &route.hook.handler;
        if !matches!(handler, Handler::NotBuilt)
            && let Some((code, message)) = route.descriptor.gates.missing(self.context.gates)
            && !is_release(request)
        {
            return Verdict::refuse(code, message);
        }
        let decided = match handler {
            Handler::NotBuilt => Ok(Verdict::allow()),
            Handler::Now(decide) => catch_unwind(AssertUnwindSafe(|| decide(request, &self.context))),
            Handler::Later(decide) => {
                // The call itself may panic before there is a future.
                let decision = async { decide(request, &self.context, route.descriptor).await };
                match timeout_at(deadline.into(), AssertUnwindSafe(decision).catch_unwind()).await {
                    Ok(decided) => decided,
                    Err(_) => Ok(Verdict::refuse(504, "no decision within the time the API server gives")),
                }
            }
        };
        decided.unwrap_or_else(|_| {
            self.metrics.panics.inc();
            error!(path = route.path, "the handler panicked");
            Verdict::refuse(500, "internal error: the handler panicked, see the log of the manager")
        })
    }
}

/// Whether this is a DNS label, as names of namespaces are.
fn is_namespace(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && subdomain_faults(name).is_empty()
}

/// Whether an object that is being deleted is changed in its metadata only, as its finalizers are.
pub(crate) fn is_release(request: &Request<'_>) -> bool {
    let (Some(new), Some(old)) = (request.object, request.old_object) else {
        // Nobody is kept from deleting.
        return request.operation == "DELETE";
    };
    // Most are not being deleted, and need not be read as a whole.
    if !is_being_deleted(new) {
        return false;
    }
    match (rest(new), rest(old)) {
        (Some(new), Some(old)) => new == old,
        _ => false,
    }
}

fn is_being_deleted(object: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Partial<'a> {
        #[serde(borrow, default)]
        metadata: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        deletion_timestamp: Value,
    }
    let metadata = serde_json::from_str::<Partial<'_>>(object.get()).ok();
    let metadata = metadata.and_then(|object| object.metadata);
    let metadata = metadata.and_then(|metadata| serde_json::from_str::<Metadata>(metadata.get()).ok());
    metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_string())
}

/// Everything but the metadata.
fn rest(object: &RawValue) -> Option<Map<String, Value>> {
    let mut object: Map<String, Value> = serde_json::from_str(object.get()).ok()?;
    object.remove("metadata");
    Some(object)
}

#[cfg(test)]
mod tests;
