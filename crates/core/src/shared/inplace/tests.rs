use super::*;
use crate::shared::fixture::{Fixture as _, PodBuilder, PodFixture as _, a_revision, at, running_pod};
use crate::shared::lifecycle::State as Stage;
use crate::shared::pod_change::PodPatch;
use crate::shared::revision;
use kruise_api::gates::Gate;
use kruise_api::names::annotation::{IN_PLACE_GRACE, IN_PLACE_STATE};
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::resource::Subresource;
use kruise_api::shared::lifecycle::Lifecycle;
use serde_json::{Value, json};
use std::collections::BTreeMap;

mod deciding;
mod records;
mod resizing;
mod starting;
mod updating;

fn gates() -> Gates {
    Gates::default()
}

fn env(time: &str) -> Env {
    Env {
        now: at(time),
        gates: gates(),
        has_resize: true,
    }
}

fn options() -> Options {
    Options {
        gates: gates(),
        ignore_claims: false,
        grace_seconds: 0,
    }
}

fn containers(containers: &Value) -> Value {
    json!({"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": containers}})
}

/// The change between two templates.
fn change(old: &Value, new: &Value) -> ChangeSet {
    decide(&a_revision("demo-old", old), &a_revision("demo-new", new), &options()).unwrap()
}

/// Two containers get new images.
fn two_images() -> ChangeSet {
    change(
        &containers(&json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])),
        &containers(&json!([{"name": "a", "image": "a:2"}, {"name": "b", "image": "b:2"}])),
    )
}

fn one_image() -> ChangeSet {
    change(
        &containers(&json!([{"name": "a", "image": "a:1"}])),
        &containers(&json!([{"name": "a", "image": "a:2"}])),
    )
}

fn begin(pod: &PodBuilder, change: &ChangeSet, env: &Env) -> Started {
    let what = Start {
        change,
        labels: &BTreeMap::from([
            (label::REVISION.to_owned(), change.revision.clone()),
            (
                label::POD_TEMPLATE_HASH.to_owned(),
                revision::short(&change.revision).to_owned(),
            ),
        ]),
        state: Some(&Stage::Updating),
    };
    start(&pod.typed(), &what, env)
}

/// Rules with everything that a kind may ask for.
#[derive(Clone, Copy, Default)]
struct Rules<'a> {
    lifecycle: Option<&'a Lifecycle>,
}

impl PodRules for Rules<'_> {
    fn lifecycle(&self) -> Option<&Lifecycle> {
        self.lifecycle
    }

    fn waits_for_node(&self, pod: &Pod) -> bool {
        pod.spec.node_name.is_empty()
    }

    fn missing_label<'p>(&self, pod: &'p Pod) -> Option<(&'static str, &'p str)> {
        let is_missing = pod.metadata.label(label::POD_TEMPLATE_HASH).is_none() && !revision::of_pod(pod).is_empty();
        is_missing.then(|| (label::POD_TEMPLATE_HASH, revision::short(revision::of_pod(pod))))
    }
}

/// Rules of a kind that asks for nothing.
struct NoRules;

impl PodRules for NoRules {
    fn lifecycle(&self) -> Option<&Lifecycle> {
        None
    }
}

fn workload() -> Rules<'static> {
    Rules::default()
}

fn advanced(pod: &PodBuilder, time: &str) -> Advanced {
    advance(&pod.typed(), true, &workload(), &env(time))
}

fn annotation_of(pod: &PodBuilder, key: &str) -> Option<String> {
    pod.typed::<Pod>().metadata.annotation(key).map(str::to_owned)
}

fn parts(requests: &[PodPatch]) -> Vec<Option<Subresource>> {
    requests.iter().map(|request| request.subresource).collect()
}

#[test]
fn the_resize_endpoint_came_with_1_32() {
    for (version, expected) in [
        ("v1.32.0", true),
        ("v1.34.4+k3s1", true),
        ("1.32.0-alpha.1", true),
        ("v2.0.0", true),
        ("v1.31.9", false),
        ("v1.32", false),
        ("", false),
        ("vx.y.z", false),
        ("v1.32+.5", true),
    ] {
        assert_eq!(has_resize(version), expected, "{version}");
    }
}
