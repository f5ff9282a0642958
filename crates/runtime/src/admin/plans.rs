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

/// Says what an object would come to if it were as proposed: another object of that name, with all that a write does not change.
pub type Rehearse = Arc<dyn Fn(&ObjectKey, &Value) -> Result<Value, String> + Send + Sync>;

/// Who can say what would be done. Clones share the list.
#[derive(Clone, Default)]
pub struct Plans {
    known: Arc<RwLock<BTreeMap<String, Vec<Known>>>>,
    rehearsals: Arc<RwLock<BTreeMap<String, Rehearse>>>,
}

/// A controller by its name.
type Known = (&'static str, Explain);

impl Plans {
    /// Adds a controller under the kind that it looks after.
    pub fn add(&self, kind: &str, controller: &'static str, explain: Explain) {
        let mut plans = self.known.write();
        plans
            .entry(kind.to_lowercase())
            .or_default()
            .push((controller, explain));
    }

    /// Returns what each controller would do with an object, by its name.
    ///
    /// # Errors
    ///
    /// Fails when no controller knows the kind or the object, or when one of them panics.
    pub fn of(&self, kind: &str, key: &ObjectKey) -> Result<Map<String, Value>, NoPlan> {
        let known = self.known.read().get(&kind.to_lowercase()).cloned();
        let Some(known) = known else {
            return Err(NoPlan::Unknown(format!("no controller here looks after {kind}")));
        };
        let mut plans = Map::new();
        for (controller, explain) in known {
            match catch_unwind(AssertUnwindSafe(|| explain(key))) {
                Ok(Some(plan)) => {
                    plans.insert(controller.to_owned(), plan);
                }
                Ok(None) => {}
                Err(_) => return Err(NoPlan::Failed(format!("{controller} panicked, see the log"))),
            }
        }
        if plans.is_empty() {
            return Err(NoPlan::Unknown(format!("the cache has no {kind} {key}")));
        }
        Ok(plans)
    }

    /// Adds who can play through what becomes of objects of a kind.
    pub fn add_rehearsal(&self, kind: &str, rehearse: Rehearse) {
        self.rehearsals.write().insert(kind.to_lowercase(), rehearse);
    }

    /// Returns what an object would come to if it were as proposed.
    ///
    /// # Errors
    ///
    /// Fails when nobody can say so for this kind, or when the proposal cannot be read.
    pub fn rehearse(&self, kind: &str, key: &ObjectKey, proposed: &Value) -> Result<Value, NoPlan> {
        let rehearse = self.rehearsals.read().get(&kind.to_lowercase()).cloned();
        let Some(rehearse) = rehearse else {
            return Err(NoPlan::Unknown(format!(
                "what becomes of a {kind} cannot be played through yet"
            )));
        };
        rehearse(key, proposed).map_err(NoPlan::Failed)
    }

    fn kinds(&self) -> Value {
        let plans = self.known.read();
        let controllers = |known: &Vec<Known>| known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        plans
            .iter()
            .map(|(kind, known)| (kind.clone(), json!(controllers(known))))
            .collect()
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Nobody looks after the kind, or the cache does not have the object.
    #[error("{0}")]
    Unknown(String),
    /// A controller failed to make one.
    #[error("{0}")]
    Failed(String),
}

fn answer(plans: Result<Map<String, Value>, NoPlan>) -> Response {
    match plans {
        Ok(plans) => pretty(&Value::Object(plans)),
        Err(NoPlan::Unknown(why)) => (StatusCode::NOT_FOUND, why + "\n").into_response(),
        Err(NoPlan::Failed(why)) => (StatusCode::INTERNAL_SERVER_ERROR, why + "\n").into_response(),
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
                answer(of_cluster.of(&kind, &ObjectKey::new("", &name)))
            }),
        )
        .route(
            "/debug/plan/{kind}/{namespace}/{name}",
            get(
                move |Path((kind, namespace, name)): Path<(String, String, String)>| async move {
                    answer(plans.of(&kind, &ObjectKey::new(&namespace, &name)))
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

/// Returns what a plan writes and why it waits, without the contents of what is written.
pub fn outline(plan: &Value) -> Value {
    let write = |write: &Value| {
        let mut action = json!({});
        for field in ["verb", "kind", "group", "namespace", "name", "part"] {
            if let Some(value) = write["action"].get(field) {
                action[field] = value.clone();
            }
        }
        json!({"action": action})
    };
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let chain = |chain: &Value| json!({"writes": items(&chain["writes"]).iter().map(write).collect::<Vec<_>>()});
    let step = |step: &Value| {
        let chains: Vec<Value> = items(&step["chains"]).iter().map(chain).collect();
        json!({"phase": step["phase"], "chains": chains})
    };
    let mut outline = json!({
        "actions": items(&plan["actions"]).iter().map(step).collect::<Vec<_>>(),
        "why": plan.get("why").cloned().unwrap_or_else(|| json!([])),
    });
    if plan["status"].is_object() {
        outline["status"] = write(&json!({"action": plan["status"]}))["action"].clone();
    }
    if let Some(wake) = plan.get("wakeAfter") {
        outline["wakeAfter"] = wake.clone();
    }
    outline
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plans({})", self.kinds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_plan_then_its_outline_has_no_contents() {
        let plan = json!({
            "actions": [{"phase": "scale", "pace": "slowStart", "onFailure": "stop", "chains": [{"writes": [
                {"action": {"verb": "create", "kind": "Pod", "namespace": "shop", "name": "web-1", "body": {"secret": "s"}},
                 "succeeded": [{"message": "m"}]},
            ]}]}],
            "status": {"verb": "patch", "kind": "CloneSet", "group": "apps.kruise.io", "name": "web", "part": "status", "merge": {"a": 1}},
            "events": [{"message": "secret"}],
            "wakeAfter": "5s", "why": [{"reason": "deleting"}],
        });
        assert_eq!(
            outline(&plan),
            json!({
                "actions": [{"phase": "scale", "chains": [{"writes": [
                    {"action": {"verb": "create", "kind": "Pod", "namespace": "shop", "name": "web-1"}},
                ]}]}],
                "status": {"verb": "patch", "kind": "CloneSet", "group": "apps.kruise.io", "name": "web", "part": "status"},
                "wakeAfter": "5s", "why": [{"reason": "deleting"}],
            })
        );
        assert_eq!(outline(&json!({})), json!({"actions": [], "why": []}));
    }
}
