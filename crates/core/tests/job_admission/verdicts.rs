//! Verdicts: the same are allowed and refused, for the same reasons.

use kruise_core::admission::{Admit as _, Lookups};
use kruise_core::{advancedcronjob, broadcastjob, ephemeraljob};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{env, refusal};

/// One recorded request.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    version: String,
    /// The same was recorded of the same object in v1alpha1.
    #[serde(default)]
    both_versions: bool,
    object: Value,
    old: Option<Value>,
    says: Option<String>,
    /// It was refused by what we leave to the API server: the schema, and rules of Pod templates.
    #[serde(default)]
    api_server: bool,
}

/// The field that was wrong and the end of the sentence about it, in our words where values are printed otherwise.
fn essence(says: &str) -> (String, String) {
    let says = says
        .replace("spec.spec.", "spec.")
        .replace("time: invalid location name", "unknown time zone ../etc/passwd")
        .replace(
            "runtime error: slice bounds out of range [:-1]",
            "there is nothing after the time zone",
        );
    // What the API server says of the same field is not said twice.
    let says = says
        .split(", spec.template.spec.restartPolicy: Unsupported")
        .next()
        .unwrap();
    let says = says.trim_matches(['[', ']']);
    let path = says.split(": ").next().unwrap().to_owned();
    let end = says
        .chars()
        .rev()
        .take(20)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    (path, end)
}

/// Recorded requests that are judged otherwise on purpose; `docs/differences.md` has them.
const DIFFERENT: [&str; 1] = ["restart-policy-absent"];

impl Case {
    fn in_v1alpha1(&self) -> Self {
        let older = |object: &Value| {
            let mut object = object.clone();
            object["apiVersion"] = json!("apps.kruise.io/v1alpha1");
            object
        };
        Self {
            version: "v1alpha1".to_owned(),
            object: older(&self.object),
            old: self.old.as_ref().map(older),
            ..self.clone()
        }
    }
}

fn compare(text: &str, judge: fn(&Case) -> Option<String>) -> usize {
    let mut cases: Vec<Case> = serde_json::from_str(text).unwrap();
    let twins: Vec<Case> = cases
        .iter()
        .filter(|case| case.both_versions)
        .map(Case::in_v1alpha1)
        .collect();
    cases.extend(twins);
    for case in &cases {
        let at = format!("{} {}", case.version, case.name);
        let ours = judge(case);
        if DIFFERENT.contains(&&*case.name) {
            assert_eq!(ours, None, "{at}");
            continue;
        }
        match (&case.says, ours) {
            (None, None) => {}
            (None, Some(_)) if case.api_server => {}
            (Some(says), Some(message)) => {
                let (path, end) = essence(says);
                assert!(
                    message.contains(&path) && message.contains(&end),
                    "{at}: {message}\nbut was: {says}"
                );
            }
            (says, ours) => panic!("{at}: {ours:?}\nbut was: {says:?}"),
        }
    }
    cases.len()
}

#[test]
fn given_what_users_sent_then_the_same_is_refused_for_the_same_reason() {
    let text = include_str!("../../fixtures/jobs/broadcastjob-verdicts.json");
    let compared = compare(text, |case| {
        let env = env(&case.version, case.old.is_some());
        refusal::<broadcastjob::Submitted>(&case.object, case.old.as_ref(), &env)
    });
    assert_eq!(compared, 89);
}

#[test]
fn given_schedules_that_users_sent_then_the_same_is_refused_for_the_same_reason() {
    let text = include_str!("../../fixtures/jobs/advancedcronjob-verdicts.json");
    let compared = compare(text, |case| {
        let env = env(&case.version, case.old.is_some());
        refusal::<advancedcronjob::Submitted>(&case.object, case.old.as_ref(), &env)
    });
    assert_eq!(compared, 147);
}

#[test]
fn given_ephemeral_jobs_that_users_sent_then_the_same_is_refused_for_the_same_reason() {
    let text = include_str!("../../fixtures/jobs/ephemeraljob-verdicts.json");
    let compared = compare(text, |case| {
        let env = env(&case.version, case.old.is_some());
        refusal::<ephemeraljob::Submitted>(&case.object, case.old.as_ref(), &env)
    });
    assert_eq!(compared, 41);
}

#[test]
fn given_names_and_schedules_that_lead_nowhere_then_users_are_warned() {
    let env = env("v1beta1", false);
    let warnings = |name: &str, schedule: &str, template: Value| {
        let spec = json!({"schedule": schedule, "template": template});
        let object = json!({"metadata": {"name": name}, "spec": spec}).to_string();
        let read = advancedcronjob::Submitted::read(object.as_bytes(), env.version).unwrap();
        read.warnings(&env, &Lookups::default()).join(", ")
    };
    let job = json!({"jobTemplate": {"spec": {}}});
    let (fits, long) = ("t".repeat(52), "t".repeat(53));
    assert_eq!(warnings(&fits, "@daily", job.clone()), "");
    let told = warnings(&long, "0 0 31 4 *", job.clone());
    assert!(
        told.starts_with("spec.schedule: \"0 0 31 4 *\" names no time"),
        "{told}"
    );
    assert!(told.contains("metadata.name: with more than 52"), "{told}");
    assert_eq!(warnings(&fits, "whenever", job), "", "that is refused");
    let list = json!({"imageListPullJobTemplate": {"spec": {"images": ["a"]}}});
    assert_eq!(warnings(&long, "@daily", list), "");
}
