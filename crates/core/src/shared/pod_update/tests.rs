use std::sync::Arc;

use kruise_api::gates::Gates;
use kruise_api::raw::PodTemplate;
use kruise_api::shared::lifecycle::Lifecycle;
use serde_json::{Value, json};

use super::*;
use crate::plan::IdSource;
use crate::shared::fixture::{Fixture as _, PodBuilder, a_revision, at, running_pod};
use crate::shared::owner::Owner;
use crate::shared::revision::{History, Workload};

struct Rules(Option<Lifecycle>);

impl PodRules for Rules {
    fn lifecycle(&self) -> Option<&Lifecycle> {
        self.0.as_ref()
    }
}

fn template(image: &str, port: i32) -> Value {
    let container = json!({"name": "a", "image": image, "ports": [{"containerPort": port}]});
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}})
}

/// What becomes of a Pod at the revision `x-old`, with image `a:1` and port 80, when this template is rolled out.
fn begun(pod: &PodBuilder, policy: &str, to: &Value, rules: &Rules) -> (PodUpdate, Plan) {
    let owner = Owner {
        api_version: "v".to_owned(),
        kind: "K".to_owned(),
        name: "x".to_owned(),
        uid: "u".to_owned(),
    };
    let to: PodTemplate = serde_json::from_str(&to.to_string()).unwrap();
    let workload = Workload {
        owner: &owner,
        namespace: "ns",
        annotations: None,
        template: &to,
        claims: None,
    };
    let seen = [Arc::new(a_revision("x-old", &template("a:1", 80)))];
    let history = History {
        seen: &seen,
        selector: &serde_json::from_value(json!({})).unwrap(),
        current: "x-old",
        collisions: 0,
    };
    let revisions = Revisions::of(&workload, &history).unwrap();
    let target = UpdateTarget {
        revisions: &revisions,
        revision: &revisions.update,
        labels: &BTreeMap::new(),
        policy: serde_json::from_value(json!(policy)).unwrap(),
        grace_seconds: 0,
    };
    let env = Env {
        ids: IdSource::seeded(1),
        gates: Gates::default(),
        ..Env::at(at("10:00:00"))
    };
    let mut plan = Plan::default();
    let update = PodUpdater::new(target, rules, &env).begin(&pod.typed(), &mut plan);
    (update, plan)
}

fn old() -> PodBuilder {
    running_pod("p").at("x-old").running("a", "a:1").ready()
}

#[test]
fn the_policy_says_what_becomes_of_running_pod() {
    let (image, port) = (template("a:2", 80), template("a:2", 81));
    let gone = running_pod("p").at("x-gone").running("a", "a:1").ready();
    let unknown = old().state("Dancing");
    for (policy, pod, to, expected) in [
        ("ReCreate", old(), &image, "recreate"),
        ("ReCreate", unknown.clone(), &image, "recreate"),
        ("InPlaceIfPossible", old(), &image, "in place"),
        ("InPlaceIfPossible", old(), &port, "recreate because"),
        ("InPlaceIfPossible", gone.clone(), &image, "recreate because"),
        ("InPlaceIfPossible", unknown.clone(), &image, "skip"),
        ("InPlaceOnly", old(), &image, "in place"),
        ("InPlaceOnly", old(), &port, "stop"),
        ("InPlaceOnly", gone, &image, "stop"),
        ("InPlaceOnly", unknown, &image, "skip"),
    ] {
        let (update, plan) = begun(&pod, policy, to, &Rules(None));
        let found = match &update {
            PodUpdate::InPlace(chain) if !chain.writes.is_empty() => "in place",
            PodUpdate::InPlace(_) => "waits",
            PodUpdate::Recreate(None) => "recreate",
            PodUpdate::Recreate(Some(_)) => "recreate because",
            PodUpdate::Skip(_) => "skip",
            PodUpdate::Stop(_) => "stop",
        };
        assert_eq!(found, expected, "{policy}: {update:?}");
        assert_eq!(
            plan.why.len(),
            usize::from(matches!(found, "skip" | "stop")),
            "{policy}: {:?}",
            plan.why
        );
    }
}

#[test]
fn a_hook_comes_before_an_update_in_place() {
    let hook = json!({"inPlaceUpdate": {"labelsHandler": {"hook": "on"}}});
    let rules = Rules(Some(serde_json::from_value(hook).unwrap()));
    let pod = old().state("Normal").label("hook", "on");
    let (update, _) = begun(&pod, "InPlaceIfPossible", &template("a:2", 80), &rules);
    let PodUpdate::InPlace(chain) = update else {
        panic!("{update:?}")
    };
    let text = format!("{chain:?}");
    assert!(text.contains("PreparingUpdate") && !text.contains("a:2"), "{text}");
}
