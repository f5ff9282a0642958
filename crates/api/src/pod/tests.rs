use serde_json::{Value, json};

use super::status::{ContainerState, Holds, PodPhase};
use super::*;
use crate::read;

const POD: &str = include_str!("../../tests/fixtures/pod.json");

fn pod() -> Pod {
    read::from_slice(POD.as_bytes()).unwrap()
}

#[test]
fn what_controllers_read_is_there() {
    let pod = pod();

    let meta = &pod.metadata;
    assert_eq!(
        (&*meta.name, &*meta.namespace, meta.resource_version, meta.generation),
        ("web-7kx2m", "shop", 184_467, 2)
    );
    assert_eq!(meta.uid.to_string(), "5f0c3c0e-7b7c-4b58-8a62-6a4a6d6fb0b1");
    assert_eq!((meta.label("tier"), meta.label("none")), (Some("front"), None));
    assert_eq!(
        meta.annotation("lifecycle.apps.kruise.io/timestamp"),
        Some("2024-03-01T10:00:05Z")
    );
    assert!(meta.is_deleting() && meta.creation_timestamp.is_some());
    assert_eq!(meta.deletion_grace_period_seconds, Some(30));
    assert_eq!(&*meta.finalizers, [Text::from("shop.example/unregister")]);
    let controller = meta.controller().unwrap();
    assert_eq!((&*controller.kind, &*controller.name), ("CloneSet", "web"));
    assert!(controller.block_owner_deletion);

    let spec = &pod.spec;
    assert_eq!(&*spec.node_name, "node-1");
    assert_eq!(
        (&*spec.claims[0].volume, &*spec.claims[0].name),
        ("data", "data-web-7kx2m")
    );
    assert_eq!((spec.claims.len(), spec.required_nodes.0.len()), (1, 1));
    let template = &spec.template;
    assert_eq!(
        &*template.readiness_gates,
        [Text::from("InPlaceUpdateReady"), Text::from("KruisePodReady")]
    );
    assert_eq!(
        (&*template.restart_policy, template.termination_grace_period_seconds),
        ("Always", Some(30))
    );
    assert_eq!(template.node_selector.get("pool"), Some("blue"));
    assert_eq!(
        (template.tolerations.len(), template.tolerations[0].toleration_seconds),
        (2, Some(300))
    );
    let main = template.container("main").unwrap();
    assert_eq!(
        (&*main.image, main.resources.limits.get("cpu")),
        ("nginx:1.25", Some("500m"))
    );
    assert_eq!(main.resources.requests.get("memory"), Some("128Mi"));
    let ports: Vec<_> = main
        .named_ports
        .iter()
        .map(|port| (&*port.name, port.container_port))
        .collect();
    assert_eq!(ports, [("http", 8080)]);
    assert_eq!(&*main.env("PLAIN").unwrap().value, "x");
    assert_eq!(&*main.env("POD_NAME").unwrap().field_path, "metadata.name");
    assert_eq!(&*main.env("KRUISE_CONTAINER_BARRIER").unwrap().config_map_key, "p_10");
    assert_eq!(&*template.container("init").unwrap().restart_policy, "Always");

    let status = &pod.status;
    assert_eq!((&status.phase, &*status.pod_ip), (&PodPhase::Running, "10.1.2.3"));
    assert!(status.is_true("Ready") && !status.is_true("KruisePodReady") && !status.is_true("None"));
    let held = status.condition("KruisePodReady").unwrap();
    assert_eq!((&held.status, held.message.is_empty()), (&Holds::False, false));
    let main = status.container("main").unwrap();
    assert!(main.ready && main.started && matches!(main.state, ContainerState::Running { started_at: Some(_) }));
    assert!(main.image_id.contains("sha256:") && main.container_id.to_string().starts_with("containerd://111"));
    let side = status.container("side").unwrap();
    assert_eq!(
        (side.restart_count, &side.state),
        (
            3,
            &ContainerState::Waiting {
                reason: "CrashLoopBackOff".into()
            }
        )
    );
    let init = status.container("init").unwrap();
    assert!(matches!(&init.state, ContainerState::Terminated { exit_code: 0, reason, .. } if *reason == "Completed"));
}

#[test]
fn pods_of_one_template_share_it() {
    let mut other: Value = serde_json::from_str(POD).unwrap();
    other["metadata"]["name"] = json!("web-9zzzz");
    other["spec"]["nodeName"] = json!("node-2");
    other["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!("data-web-9zzzz");
    let one = pod();
    let two: Pod = read::from_value(&other).unwrap();
    assert!(one.spec.template.is_same(&two.spec.template));
    assert!(one.metadata.owner_references.is_same(&two.metadata.owner_references));
    other["spec"]["containers"][0]["image"] = json!("nginx:1.26");
    let three: Pod = read::from_value(&other).unwrap();
    assert_ne!(one.spec.template, three.spec.template);
}

#[test]
fn a_pod_may_lack_everything() {
    assert_eq!(read::from_slice::<Pod>(b"{}").unwrap(), Pod::default());
    let nulls = br#"{"metadata":{"labels":null,"ownerReferences":null,"resourceVersion":null},"spec":{"containers":null},"status":null}"#;
    assert_eq!(read::from_slice::<Pod>(nulls).unwrap(), Pod::default());
}

#[test]
fn what_cannot_be_read_is_named() {
    let table = [
        (r#"{"metadata":{"labels":{"a":1}}}"#, "metadata.labels.a"),
        (r#"{"metadata":{"resourceVersion":7}}"#, "metadata.resourceVersion"),
        (
            r#"{"spec":{"containers":[{},{"env":[{"value":{}}]}]}}"#,
            "spec.containers: [1].env[0].value",
        ),
        (
            r#"{"status":{"conditions":[{"lastTransitionTime":"now"}]}}"#,
            "status.conditions[0].lastTransitionTime",
        ),
        (
            r#"{"status":{"containerStatuses":[{"state":{"terminated":{"exitCode":"1"}}}]}}"#,
            "status.containerStatuses[0].state.terminated.exitCode",
        ),
    ];
    for (json, path) in table {
        let error = read::from_slice::<Pod>(json.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
}

#[test]
fn whole_containers_are_kept_only_while_a_pod_is_updated_in_place() {
    let pod = |labels: Value, condition: &str| -> Pod {
        let json = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a:1", "imagePullPolicy": "Always"}]},
            "status": {"conditions": [{"type": "InPlaceUpdateReady", "status": condition}]},
        });
        read::from_slice(json.to_string().as_bytes()).unwrap()
    };
    let state = |state: &str| json!({"lifecycle.apps.kruise.io/state": state});
    for (pod, kept) in [
        (pod(state("Normal"), "True"), false),
        (pod(json!({}), "True"), false),
        (pod(state("Updating"), "True"), true),
        (pod(json!({}), "False"), true),
    ] {
        let whole = pod.spec.whole_containers.value();
        assert_eq!(whole.pointer("/0/imagePullPolicy").is_some(), kept, "{pod:?}");
        assert_eq!(pod.spec.template.containers[0].image, "a:1");
    }
}

#[test]
fn given_annotations_then_those_that_are_read_and_those_that_feed_variables_are_kept() {
    let from = |path: &str| json!({"name": path, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let pod = |path: &str| -> Pod {
        let annotations = json!({"apps.kruise.io/x": "1", "example.com/fed": "2", "example.com/other": "3"});
        let json = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main", "env": [from(path)]}]}});
        serde_json::from_value(json).unwrap()
    };
    let kept = |pod: &Pod| {
        pod.metadata
            .annotations
            .iter()
            .map(|(_, value)| value.to_string())
            .collect::<String>()
    };
    assert_eq!(kept(&pod("metadata.annotations['example.com/fed']")), "12");
    assert_eq!(kept(&pod("metadata.annotations")), "123");
    assert_eq!(kept(&pod("metadata.name")), "1");
}

#[test]
fn given_ephemeral_containers_then_their_names_states_and_jobs_are_there() {
    let marked = json!([{"name": "A", "value": "1"}, {"name": "KRUISE_EJOB_ID", "value": "u-job"}]);
    let containers = json!([{"name": "debug", "image": "busybox:1", "env": marked}, {"name": "by-hand", "env": null}]);
    let statuses = json!([{"name": "debug", "state": {"terminated": {"exitCode": 3}}}]);
    let json = json!({"spec": {"ephemeralContainers": containers}, "status": {"ephemeralContainerStatuses": statuses}});
    let pod: Pod = serde_json::from_value(json.clone()).unwrap();
    let found = pod.spec.ephemeral_containers.0.iter();
    let found: Vec<_> = found.map(|container| (&*container.name, &*container.job)).collect();
    assert_eq!(found, [("debug", "u-job"), ("by-hand", "")]);
    let [status] = &pod.status.ephemeral_container_statuses[..] else {
        panic!("{:?}", pod.status)
    };
    assert!(matches!(status.state, ContainerState::Terminated { exit_code: 3, .. }));
    let other: Pod = serde_json::from_value(json).unwrap();
    assert!(pod.spec.ephemeral_containers.is_same(&other.spec.ephemeral_containers));
}

#[test]
fn given_a_pod_then_its_json_reads_as_the_same_pod() {
    for other in [pod(), Pod::default()] {
        let again: Pod = read::from_slice(other.to_json().to_string().as_bytes()).unwrap();
        let whole = Pod {
            spec: PodSpec {
                whole_containers: AnyJson::default(),
                ..again.spec
            },
            ..again
        };
        let expected = Pod {
            spec: PodSpec {
                whole_containers: AnyJson::default(),
                ..other.spec
            },
            ..other
        };
        assert_eq!(whole, expected);
    }
}
