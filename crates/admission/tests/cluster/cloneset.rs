//! CloneSets get the verdicts that the original gave, from a real API server with our webhooks in place.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kruise_admission::{Cluster, Freshness, LookUp as _};
use kruise_api::gates::{Gate, Gates};
use kruise_api::merge_patch::merge;
use kruise_core::admission::{NamedPod, Needs};
use kruise_runtime::cache::Stores;
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::{eventually, run_test},
    faults::Faults,
    features::{Feature, lacks},
    namespace,
};
use kube::{
    Api, Error, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::installation::{Installation, PATIENCE};

const RECORDED: [(&str, &str); 2] = [
    (
        "v1alpha1",
        include_str!("../../../core/fixtures/cloneset/verdicts-v1alpha1.json"),
    ),
    (
        "v1beta1",
        include_str!("../../../core/fixtures/cloneset/verdicts-v1beta1.json"),
    ),
];

/// The objects of one version, and what was recorded of it.
struct Round {
    api: Api<DynamicObject>,
    pods: Api<Pod>,
    recorded: Value,
}

/// A status code and a message; code 200 when it is allowed.
type Verdict = (u16, String, Vec<String>);

fn verdict<T>(answer: kube::Result<T>) -> Verdict {
    match answer {
        Ok(_) => (200, String::new(), Vec::new()),
        Err(Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let fields = causes
                .map(|cause| cause.field.trim_start_matches('.').to_owned())
                .collect();
            (status.code, status.message.clone(), fields)
        }
        Err(error) => panic!("no answer: {error}"),
    }
}

fn parsed(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn merged(value: &Value, change: &Value) -> Value {
    let mut merged = value.clone();
    merge(&mut merged, change);
    merged
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

const DRY: PostParams = PostParams {
    dry_run: true,
    field_manager: None,
};

impl Round {
    /// Does what a case says, as a dry run.
    async fn ask(&self, case: &Value) -> Verdict {
        let change = &case["change"];
        match case["operation"].as_str().unwrap() {
            "create" => verdict(
                self.api
                    .create(&DRY, &parsed(&merged(&self.recorded["object"], change)))
                    .await,
            ),
            "update" => {
                let stored = &self.recorded["stored"][case["stored"].as_str().unwrap()];
                let name = stored["metadata"]["name"].as_str().unwrap();
                let live = self.api.get(name).await.unwrap();
                let mut new = parsed(&merged(stored, change));
                new.metadata.uid = live.uid();
                new.metadata.resource_version = live.resource_version();
                verdict(self.api.replace(name, &DRY, &new).await)
            }
            "delete" => {
                let object = merged(&self.recorded["object"], change);
                let name = object["metadata"]["name"].as_str().unwrap();
                self.api.create(&PostParams::default(), &parsed(&object)).await.unwrap();
                let dry = DeleteParams {
                    dry_run: true,
                    ..DeleteParams::default()
                };
                let answer = verdict(self.api.delete(name, &dry).await);
                let unprotected = Patch::Merge(json!({"metadata": {"labels": null}}));
                self.api
                    .patch(name, &PatchParams::default(), &unprotected)
                    .await
                    .unwrap();
                self.api.delete(name, &DeleteParams::default()).await.unwrap();
                answer
            }
            other => panic!("{other}"),
        }
    }

    /// What updates start from, and the Pods that they name.
    async fn prepare(&self) {
        for stored in self.recorded["stored"].as_object().unwrap().values() {
            let mut object = parsed(stored);
            object.metadata.uid = None;
            let object = self.api.create(&PostParams::default(), &object).await.unwrap();
            if object.name_any() == "web" {
                let own = pod("web-jl924")
                    .image("nginx")
                    .owned_by(&serde_json::to_value(&object).unwrap())
                    .build();
                self.pods.create(&PostParams::default(), &own).await.unwrap();
            }
        }
    }

    async fn clear(&self) {
        for name in self.recorded["stored"].as_object().unwrap().keys() {
            self.api.delete(name, &DeleteParams::default()).await.unwrap();
        }
        let now = DeleteParams::default().grace_period(0);
        let _ = self.pods.delete("web-jl924", &now).await;
    }
}

/// What of an answer is not the recorded one.
fn difference(case: &Value, (code, message, fields): &Verdict) -> Option<String> {
    let expected = if case.get("allowedHere").is_some() {
        None
    } else {
        case["code"].as_u64()
    };
    if u64::from(*code) != expected.unwrap_or(200) {
        return Some(format!("{code} {message}"));
    }
    if let Some(recorded) = case.get("apiServer") {
        return (texts(recorded) != *fields).then(|| format!("{fields:?}"));
    }
    let errors = texts(&case["errors"]);
    let said = match (expected, errors.as_slice()) {
        (Some(403), _) => case["says"].as_str().unwrap().to_owned(),
        (Some(422), [one]) => one.clone(),
        (Some(422), several) => format!("[{}]", several.join(", ")),
        // The original's reader has words of its own.
        _ => return None,
    };
    let said = format!("admission webhook \"vcloneset.kb.io\" denied the request: {said}");
    (said != *message).then(|| message.clone())
}

#[test]
fn given_every_recorded_request_then_the_api_server_gives_the_same_verdict() {
    run_test(Duration::from_mins(4), async {
        let installation = Installation::new("verdicts").await;
        let gates = Gates::default().with(Gate::ResourcesDeletionProtection, true);
        let manager = installation.start_with(installation.settings(), gates).await.unwrap();
        let pods: Api<Pod> = installation.namespace.api();
        let two = pod("two").image("nginx").build();
        pods.create(&PostParams::default(), &two).await.unwrap();
        for (version, recorded) in RECORDED {
            let round = Round {
                api: installation.objects(version, "CloneSet", "clonesets"),
                pods: pods.clone(),
                recorded: serde_json::from_str(recorded).unwrap(),
            };
            // The API server learns of webhooks and conversion a moment after they are there.
            let bad = merged(
                &round.recorded["object"],
                &json!({"spec": {"selector": {"matchLabels": {"app": "no"}}}}),
            );
            eventually(PATIENCE, "the webhooks answer", || async {
                let (code, message, _) = verdict(round.api.create(&DRY, &parsed(&bad)).await);
                (code == 422 && message.contains("vcloneset.kb.io"))
                    .then_some(())
                    .ok_or_else(|| kruise_testkit::eventually::NotYet::new(message))
            })
            .await;
            round.prepare().await;
            let mut wrong = Vec::new();
            let cases = round.recorded["cases"].as_array().unwrap();
            for case in cases {
                let answer = round.ask(case).await;
                if let Some(difference) = difference(case, &answer) {
                    wrong.push(format!("{case}\n  => {difference}"));
                }
            }
            assert!(wrong.is_empty(), "{version}: {}\n{}", wrong.len(), wrong.join("\n"));
            println!("{version}: {} requests", cases.len());
            round.clear().await;
        }
        manager.stop().await;
    });
}

#[test]
fn given_what_users_write_then_what_the_api_server_stores_is_complete_and_stays_as_it_is() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("completed").await;
        let manager = installation.start().await;
        let api = installation.objects("v1beta1", "CloneSet", "clonesets");
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../../../core/fixtures/cloneset/defaults.json")).unwrap();
        let mut compared = 0;
        // What each release of Kubernetes adds to a template by itself is nothing that we write: the CRD does not know templates.
        for case in cases
            .iter()
            .filter(|case| case["version"] == "v1beta1" && case["given"].is_object())
        {
            let name = case["name"].as_str().unwrap();
            if matches!(name, "hostnetwork" | "limits-only-resources") {
                // One was recorded with another gate, the other loses fields with the original.
                continue;
            }
            if name == "rich" && lacks(Feature::SidecarContainers) {
                continue;
            }
            let stored = eventually(PATIENCE, "it is created", || async {
                Ok(api.create(&DRY, &parsed(&case["given"])).await?)
            })
            .await;
            assert_eq!(stored.data["spec"], case["then"]["spec"], "{name}");
            compared += 1;
        }
        assert!(compared > 12, "{compared}");
        manager.stop().await;
    });
}

#[test]
fn given_many_named_pods_then_they_are_looked_up_in_one_list() {
    run_test(Duration::from_mins(2), async {
        let faults = Faults::new(1);
        let client = faults.client().await;
        let namespace = namespace::fresh(&client, "named").await.unwrap();
        let pods: Api<Pod> = namespace.api();
        for name in ["a", "b"] {
            pods.create(&PostParams::default(), &pod(name).build()).await.unwrap();
        }
        let cluster = Cluster::new(client, Stores::default());
        let unowned = NamedPod::Found {
            controller: None,
            is_being_deleted: false,
        };
        let names: Vec<String> = (0..1000).map(|number| format!("missing-{number}")).collect();
        for (missing, gets, lists) in [(10, 12, 0), (1000, 0, 1)] {
            let all = ["a", "b", "No-Name"].into_iter();
            let all: BTreeSet<&str> = all.chain(names.iter().take(missing).map(String::as_str)).collect();
            let before = (faults.count("get", "pods"), faults.count("list", "pods"));
            let needs = Needs {
                pods: all.iter().map(|name| (*name).to_owned()).collect(),
                ..Needs::default()
            };
            let found = cluster
                .look_up(namespace.name(), needs, Freshness::Cached)
                .await
                .lookups
                .pods;
            assert_eq!(found.keys().map(String::as_str).collect::<BTreeSet<_>>(), all);
            for (name, pod) in found {
                let expected = if name.len() == 1 { &unowned } else { &NamedPod::Missing };
                assert_eq!(pod, *expected, "{name}");
            }
            let asked = (
                faults.count("get", "pods") - before.0,
                faults.count("list", "pods") - before.1,
            );
            assert_eq!(asked, (gets, lists));
        }
    });
}
