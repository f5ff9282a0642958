//! `/debug/plan/<kind>/<namespace>/<name>`: what would be done with an object now, and why not more.
//!
//! - Each controller that can say so adds itself under the kind that it looks after. The answer has one entry per controller.
//! - Kinds may be written as in a manifest or in lower case. Objects of the cluster have no namespace in the path.
//! - Nothing is written: a plan is made from the cache and thrown away. A replica that does not lead answers as well.
//! - Only who is on the same machine gets an answer, wherever the address listens: a plan shows what users wrote. `kubectl port-forward` is.
//! - `/debug/plan` lists the kinds. An unknown kind or an object that the cache does not have is 404.

use super::listener::Peer;
use crate::resource::ObjectKey;
use axum::{
    Router,
    extract::{ConnectInfo, Path, Request},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::get,
};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Says what would be done with an object; nothing when there is no such object.
pub type Explain = Arc<dyn Fn(&ObjectKey) -> Option<Value> + Send + Sync>;

/// Who can say what would be done. Clones share the list.
#[derive(Clone, Default)]
pub struct Plans(Arc<RwLock<BTreeMap<String, Vec<Known>>>>);

/// A controller by its name.
type Known = (&'static str, Explain);

impl Plans {
    /// Adds a controller under the kind that it looks after.
    pub fn add(&self, kind: &str, controller: &'static str, explain: Explain) {
        let mut plans = self.0.write();
        plans
            .entry(kind.to_lowercase())
            .or_default()
            .push((controller, explain));
    }

    /// What each controller would do, by its name.
    fn about(&self, kind: &str, key: &ObjectKey) -> Answer {
        let known = self.0.read().get(&kind.to_lowercase()).cloned();
        let Some(known) = known else {
            return Answer::Unknown(format!("no controller here looks after {kind}; see /debug/plan"));
        };
        let mut plans = Map::new();
        for (controller, explain) in known {
            match catch_unwind(AssertUnwindSafe(|| explain(key))) {
                Ok(Some(plan)) => {
                    plans.insert(controller.to_owned(), plan);
                }
                Ok(None) => {}
                Err(_) => return Answer::Failed(format!("{controller} panicked, see the log")),
            }
        }
        if plans.is_empty() {
            return Answer::Unknown(format!("the cache has no {kind} {key}"));
        }
        Answer::Plans(plans)
    }

    fn kinds(&self) -> Value {
        let plans = self.0.read();
        let controllers = |known: &Vec<Known>| known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        plans
            .iter()
            .map(|(kind, known)| (kind.clone(), json!(controllers(known))))
            .collect()
    }
}

enum Answer {
    Plans(Map<String, Value>),
    Unknown(String),
    Failed(String),
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        match self {
            Self::Plans(plans) => pretty(&Value::Object(plans)),
            Self::Unknown(why) => (StatusCode::NOT_FOUND, why + "\n").into_response(),
            Self::Failed(why) => (StatusCode::INTERNAL_SERVER_ERROR, why + "\n").into_response(),
        }
    }
}

fn pretty(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

/// Returns the router of this endpoint.
pub fn router(plans: Plans) -> Router {
    let (list, of_cluster) = (plans.clone(), plans.clone());
    Router::new()
        .route("/debug/plan", get(move || async move { pretty(&list.kinds()) }))
        .route(
            "/debug/plan/{kind}/{name}",
            get(move |Path((kind, name)): Path<(String, String)>| async move {
                of_cluster.about(&kind, &ObjectKey::new("", &name))
            }),
        )
        .route(
            "/debug/plan/{kind}/{namespace}/{name}",
            get(
                move |Path((kind, namespace, name)): Path<(String, String, String)>| async move {
                    plans.about(&kind, &ObjectKey::new(&namespace, &name))
                },
            ),
        )
        .route_layer(from_fn(only_local))
}

/// Refuses whoever asks from elsewhere.
async fn only_local(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    if peer.is_some_and(|peer| peer.0.is_local()) {
        next.run(request).await
    } else {
        let why =
            "plans are shown on the loopback interface only: use kubectl port-forward or kubectl kruise explain\n";
        (StatusCode::FORBIDDEN, why).into_response()
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plans({})", self.kinds())
    }
}
