//! A budget over a CloneSet, as the original was recorded: what the user did once more, who was answered how, which places were granted in which order, and what was left.
//!
//! Which Pod is meant is chance, and is said by what it has: `$placed` holds a place, `$one` does not, and `$other` is another one without. Between the steps of the
//! recording places ran out; here that is waited for.

use futures::{StreamExt as _, pin_mut};
use kruise_api::podunavailablebudget::v1beta1::{PodUnavailableBudget, PodUnavailableBudgetStatus};
use kruise_testkit::{
    eventually::{NotYet, eventually},
    watch::{self, Event},
};
use kube::Api;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

use super::super::podunavailablebudget::budgets;
use crate::cluster::scenario::{
    PATIENCE, Scenario, Stage,
    recorded::{Call, filled},
    scenarios,
};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![given_the_steps_of_the_recording_then_the_same_is_granted_and_refused]
}

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    requests: Vec<Call>,
    /// Places in the order in which they were granted.
    granted: Vec<String>,
    /// Pods of the latest revision in the end.
    updated: i64,
    /// The status in the end, but for the places themselves.
    end: Value,
}

async fn given_the_steps_of_the_recording_then_the_same_is_granted_and_refused(stage: Arc<Stage>) {
    let steps: Vec<Step> =
        serde_json::from_str(include_str!("../../fixtures/recordings/11-podunavailablebudget.json")).unwrap();
    let history = History::begin(budgets(&stage));
    for step in steps {
        let begin = history.len();
        let meant = meant(&stage, &history).await;
        for call in &step.requests {
            let refusal = call.send(&stage, &meant).await;
            let is_ours = refusal.is_none_or(|refusal| refusal.contains("pub unavailable allowed is negative"));
            assert!(is_ours, "{}", call.path);
        }
        eventually(PATIENCE, &step.name, || async {
            let seen = history.since(begin);
            let end = history.latest().map(|status| json!(status)).unwrap_or_default();
            let fields = step.end.as_object().unwrap();
            let is_reached = fields.iter().all(|(field, value)| end[field] == *value);
            let granted = granted(&seen);
            let set = stage.subjects.get("app").await?;
            let updated = set.data["status"]["updatedReplicas"].as_i64().unwrap_or_default();
            if is_reached && granted == step.granted && updated == step.updated {
                Ok(())
            } else {
                Err(NotYet::new(format!("granted {granted:?}, updated {updated}, {end:#}")))
            }
        })
        .await;
        for status in history
            .since(begin)
            .iter()
            .filter(|status| status.unavailable_allowed > 0)
        {
            assert!(
                status.current_available > status.desired_available,
                "{}: {status:?}",
                step.name
            );
        }
        if let Some(refused) = step.requests.iter().find(|call| call.code == 403) {
            let name = filled(&refused.path, &meant);
            let name = name.split('/').nth(6).unwrap();
            stage
                .event(name, "PubPreventPodDeletion", "openkruise pub prevents pod deletion")
                .await;
        }
    }
    history.end().await;
}

/// What the words in a request mean now.
async fn meant(stage: &Stage, history: &History) -> Vec<(&'static str, String)> {
    let status = history.latest().unwrap_or_default();
    let has_place =
        |name: &String| status.disrupted_pods.contains_key(name) || status.unavailable_pods.contains_key(name);
    let (placed, free): (Vec<_>, Vec<_>) = stage.pods("pub").await.into_keys().partition(has_place);
    let words = [
        ("$ns", Some(stage.namespace().to_owned())),
        ("$placed", placed.first().cloned()),
        ("$one", free.first().cloned()),
        ("$other", free.last().cloned()),
    ];
    words
        .into_iter()
        .filter_map(|(word, name)| Some((word, name?)))
        .collect()
}

/// Places that were not there before, in their order.
fn granted(statuses: &[PodUnavailableBudgetStatus]) -> Vec<String> {
    let mut granted = Vec::new();
    for pair in statuses.windows(2) {
        let [before, after] = pair else { continue };
        let had =
            |name: &String| before.disrupted_pods.contains_key(name) || before.unavailable_pods.contains_key(name);
        let deletions = after
            .disrupted_pods
            .keys()
            .filter(|name| !had(name))
            .map(|_| "deletion");
        let updates = after
            .unavailable_pods
            .keys()
            .filter(|name| !had(name))
            .map(|_| "update");
        granted.extend(deletions.chain(updates).map(str::to_owned));
    }
    granted
}

/// Every status that a budget had.
struct History {
    states: Arc<Mutex<Vec<PodUnavailableBudgetStatus>>>,
    task: JoinHandle<()>,
}

impl History {
    fn begin(budgets: Api<PodUnavailableBudget>) -> Self {
        let states: Arc<Mutex<Vec<_>>> = Arc::default();
        let seen = states.clone();
        let task = tokio::spawn(async move {
            let events = watch::events(budgets);
            pin_mut!(events);
            while let Some(event) = events.next().await {
                if let Ok(Event::InitApply(budget) | Event::Apply(budget)) = event {
                    seen.lock().unwrap().push(budget.status.unwrap_or_default());
                }
            }
        });
        Self { states, task }
    }

    fn len(&self) -> usize {
        self.states.lock().unwrap().len()
    }

    fn latest(&self) -> Option<PodUnavailableBudgetStatus> {
        self.states.lock().unwrap().last().cloned()
    }

    /// The states since there were so many, and the one before.
    fn since(&self, begin: usize) -> Vec<PodUnavailableBudgetStatus> {
        self.states.lock().unwrap()[begin.saturating_sub(1)..].to_vec()
    }

    async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}
