//! Templates are checked by the API server itself.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplate;
use kruise_admission::{TemplateCheck, Templates, Unchecked};
use kruise_api::gates::{Gate, Gates};
use kruise_core::{
    field_error::Path,
    json_patch::{Operation, diff},
    shared::tree::Object,
};
use kruise_testkit::{
    cluster,
    eventually::run_test,
    features::{Feature, lacks},
    namespace,
};
use kube::{
    Api, Client,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use prometheus::{IntCounterVec, Opts};
use serde_json::{Value, json};

fn templates(client: Client, allow_privileged: bool) -> (Templates, IntCounterVec) {
    let checks = IntCounterVec::new(Opts::new("checks", "checks"), &["result"]).unwrap();
    let gates = Gates::default().with(Gate::DefaultHostNetworkHostPortsInPodTemplates, true);
    (Templates::new(client, gates, allow_privileged, checks.clone()), checks)
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

fn template(spec: &Value) -> Object {
    object(json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}))
}

fn at() -> Path {
    Path::new("spec").child("template")
}

#[test]
fn given_templates_then_what_is_wrong_is_told_at_their_place() {
    run_test(Duration::from_mins(2), async {
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, "templates").await.unwrap();
        let (service, checks) = templates(client, true);
        let count = |result: &str| checks.with_label_values(&[result]).get();

        let good = template(&json!({"containers": [{"name": "a", "image": "nginx", "novelField": 1}]}));
        for _ in 0..3 {
            assert_eq!(
                service.check_pod(namespace.name(), &good, &at()).await,
                TemplateCheck::Good
            );
        }
        assert_eq!((count("asked"), count("memory")), (1, 2));

        let bad = template(&json!({"containers": [
            {"name": "a"}, {"name": "a", "image": "x", "livenessProbe": {}}, {"name": "B_", "image": "x"},
        ]}));
        for _ in 0..2 {
            let TemplateCheck::Invalid(errors) = service.check_pod(namespace.name(), &bad, &at()).await else {
                panic!("accepted");
            };
            let told = errors.to_string();
            for expected in [
                "spec.template.spec.containers[0].image: Required value",
                "spec.template.spec.containers[1].name: Duplicate value: \"a\"",
                "spec.template.spec.containers[1].livenessProbe: Required value: must specify a handler type",
                "spec.template.spec.containers[2].name: Invalid value: \"B_\"",
            ] {
                assert!(told.contains(expected), "{expected} is not in {told}");
            }
        }
        assert_eq!((count("asked"), count("memory")), (2, 3));

        let wrong_type = template(&json!({"containers": "none"}));
        let checked = service.check_pod(namespace.name(), &wrong_type, &at()).await;
        assert!(matches!(checked, TemplateCheck::Malformed(_)), "{checked:?}");

        let nowhere = template(&json!({"containers": [{"name": "a", "image": "b"}]}));
        let checked = service.check_pod("no-such-namespace", &nowhere, &at()).await;
        assert_eq!(checked, TemplateCheck::Unchecked(Unchecked::NoAnswer));
    });
}

#[test]
fn given_claims_then_what_is_wrong_is_told_at_their_place() {
    run_test(Duration::from_mins(2), async {
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, "claims").await.unwrap();
        let (service, _) = templates(client, true);
        let place = Path::new("spec").child("volumeClaimTemplates").index(1);
        let good = object(json!({"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}));
        assert_eq!(
            service.check_claim(namespace.name(), &good, &place).await,
            TemplateCheck::Good
        );
        let bad = object(json!({"metadata": {"name": "data"}, "spec": {"resources": {}}}));
        let TemplateCheck::Invalid(errors) = service.check_claim(namespace.name(), &bad, &place).await else {
            panic!("accepted");
        };
        let told = errors.to_string();
        for expected in [
            "spec.volumeClaimTemplates[1].spec.accessModes: Required value",
            "spec.volumeClaimTemplates[1].spec.resources[storage]: Required value",
        ] {
            assert!(told.contains(expected), "{expected} is not in {told}");
        }
    });
}

#[test]
fn given_privileged_containers_are_not_allowed_then_they_are_told_as_well() {
    run_test(Duration::from_mins(2), async {
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, "privileged").await.unwrap();
        let privileged = template(&json!({"containers": [
            {"name": "a", "image": "b", "securityContext": {"privileged": true}},
        ]}));
        let (strict, _) = templates(client.clone(), false);
        let TemplateCheck::Invalid(errors) = strict.check_pod(namespace.name(), &privileged, &at()).await else {
            panic!("accepted");
        };
        assert_eq!(
            errors.to_string(),
            "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
        );
        let (lenient, _) = templates(client, true);
        assert_eq!(
            lenient.check_pod(namespace.name(), &privileged, &at()).await,
            TemplateCheck::Good
        );
    });
}

#[test]
fn given_no_right_to_ask_then_templates_pass_unchecked() {
    run_test(Duration::from_mins(2), async {
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, "no-right").await.unwrap();
        let mut config = Kubeconfig::read_from(cluster::kubeconfig()).unwrap();
        for user in &mut config.auth_infos {
            if let Some(user) = &mut user.auth_info {
                user.impersonate = Some("nobody-in-particular".to_owned());
            }
        }
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
            .await
            .unwrap();
        let (service, checks) = templates(Client::try_from(config).unwrap(), true);
        let bad = template(&json!({"containers": []}));
        for _ in 0..2 {
            let checked = service.check_pod(namespace.name(), &bad, &at()).await;
            assert_eq!(checked, TemplateCheck::Unchecked(Unchecked::NoRight));
        }
        assert_eq!(
            checks.with_label_values(&["memory"]).get(),
            1,
            "it is not asked for nothing again and again"
        );
    });
}

/// Defaults that are known to differ from those of Kubernetes, or not to come from there.
fn is_our_own(path: &str) -> bool {
    let is_container_policy = path.starts_with("/spec/containers/") && path.ends_with("/imagePullPolicy");
    is_container_policy || path.ends_with("/hostPort")
}

#[test]
fn given_our_defaults_then_they_are_those_of_kubernetes_but_for_what_we_know_of() {
    run_test(Duration::from_mins(2), async {
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, "defaults").await.unwrap();
        let (service, _) = templates(client, true);
        let api: Api<PodTemplate> = namespace.api();
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        for (name, recorded) in [
            ("rich", include_str!("../../../core/fixtures/pod_template/rich.json")),
            (
                "host-network",
                include_str!("../../../core/fixtures/pod_template/host-network.json"),
            ),
            ("job", include_str!("../../../core/fixtures/pod_template/job.json")),
        ] {
            if name == "rich" && lacks(Feature::SidecarContainers) {
                continue;
            }
            let recorded: Value = serde_json::from_str(recorded).unwrap();
            let given = object(recorded["given"].clone());
            let mut ours = given.clone();
            assert!(service.default_pod(&mut ours));
            let asked = json!({"metadata": {"generateName": "x-"}, "template": given});
            let answer = api
                .create(&dry_run, &serde_json::from_value(asked).unwrap())
                .await
                .unwrap();
            let theirs = serde_json::to_value(answer.template).unwrap();
            let mut compared = 0;
            for change in diff(&Value::Object(given), Value::Object(ours)) {
                let (Operation::Add { path, value } | Operation::Replace { path, value }) = change else {
                    panic!("{name}: a default takes nothing away: {change:?}");
                };
                if !is_our_own(&path) {
                    compared += 1;
                    assert_eq!(theirs.pointer(&path), Some(&value), "{name}: {path}");
                }
            }
            assert!(compared > 5, "{name}");
        }
    });
}
