//! Defaults: what users wrote, and what was stored.

use kruise_core::broadcastjob;
use kruise_core::json_patch::diff;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{completed, env};

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

fn compare(text: &str, complete: fn(&Value, Option<&Value>, &str) -> Value) {
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let ours = complete(&case.sent(), case.stored.as_ref(), case.version());
        let differences = diff(&case.then, &ours);
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
fn given_no_restart_policy_then_a_broadcast_job_restarts_on_failure() {
    let job = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": []}}}});
    let job = completed::<broadcastjob::Submitted>(&job, None, &env("v1beta1", false));
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "OnFailure");
}
