//! Defaults: what users wrote, and what was stored.

use kruise_core::json_patch::diff;
use kruise_core::{advancedcronjob, broadcastjob, ephemeraljob};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{completed, env};

/// One recorded request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Begins with the version.
    name: String,
    given: Option<Value>,
    stored: Option<Value>,
    patch: Option<Value>,
    then: Value,
}

impl Case {
    fn sent(&self) -> Value {
        self.given.clone().unwrap_or_else(|| {
            let mut object = self.stored.clone().unwrap();
            json_patch::merge(&mut object, self.patch.as_ref().unwrap());
            object
        })
    }

    fn version(&self) -> &str {
        self.name.split('-').next().unwrap()
    }
}

/// The API server empties the metadata of our own templates.
fn pruned(object: &Value) -> Value {
    let mut object = object.clone();
    for template in ["broadcastJobTemplate", "imageListPullJobTemplate"] {
        let path = format!("/spec/template/{template}");
        if let Some(template) = object.pointer_mut(&path).and_then(Value::as_object_mut) {
            template.remove("metadata");
        }
    }
    object
}

fn compare(text: &str, complete: fn(&Value, Option<&Value>, &str) -> Value) {
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let ours = complete(&case.sent(), case.stored.as_ref(), case.version());
        let differences = diff(&pruned(&case.then), pruned(&ours));
        assert!(differences.is_empty(), "{}: {differences:#?}", case.name);
        let again = complete(&case.then, None, case.version());
        assert_eq!(again, case.then, "{}: a second time changes nothing", case.name);
    }
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    let text = include_str!("../../fixtures/jobs/broadcastjob-defaults.json");
    compare(text, |object, old, version| {
        completed::<broadcastjob::Submitted>(object, old, &env(version, old.is_some()))
    });
}

#[test]
fn given_schedules_that_users_wrote_then_the_same_is_stored() {
    let text = include_str!("../../fixtures/jobs/advancedcronjob-defaults.json");
    compare(text, |object, old, version| {
        completed::<advancedcronjob::Submitted>(object, old, &env(version, old.is_some()))
    });
}

#[test]
fn given_ephemeral_jobs_that_users_wrote_then_they_are_stored_as_they_are() {
    let text = include_str!("../../fixtures/jobs/ephemeraljob-defaults.json");
    compare(text, |object, old, version| {
        completed::<ephemeraljob::Submitted>(object, old, &env(version, old.is_some()))
    });
}

#[test]
fn given_no_restart_policy_then_a_broadcast_job_restarts_on_failure() {
    let job = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": []}}}});
    let job = completed::<broadcastjob::Submitted>(&job, None, &env("v1beta1", false));
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "OnFailure");
    let template = json!({"broadcastJobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}});
    let cron = json!({"metadata": {"name": "a"}, "spec": {"schedule": "@daily", "template": template}});
    let cron = completed::<advancedcronjob::Submitted>(&cron, None, &env("v1beta1", false));
    let policy = cron.pointer("/spec/template/broadcastJobTemplate/spec/template/spec/restartPolicy");
    assert_eq!(policy, Some(&json!("OnFailure")));
}
