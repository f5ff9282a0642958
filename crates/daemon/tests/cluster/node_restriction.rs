//! `daemon.nodeRestriction` of the chart: each daemon writes only what belongs to its own node.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kruise_cri::fake::Pullable;
use kruise_testkit::eventually::{NotYet, eventually, run_test};
use kruise_testkit::features::{Feature, lacks};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::world::{Node, PATIENCE, apply, dynamic, rendered};

const DEADLINE: Duration = Duration::from_mins(2);
const DAEMON: &str = "kruise-daemon";

/// The chart's policy and rights for daemons of this namespace, beside those of other tests.
async fn restrict(client: &Client, namespace: &str) {
    let values = [
        "daemon.nodeRestriction=true".to_owned(),
        format!("installation.namespace={namespace}"),
    ];
    for mut object in rendered(&values) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match object["kind"].as_str().unwrap_or_default() {
            "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {}
            "ServiceAccount" if name == DAEMON => {}
            "ClusterRoleBinding" if name.starts_with(DAEMON) => {
                object["metadata"]["name"] = json!(format!("{name}-{namespace}"));
            }
            _ => continue,
        }
        apply(client, &object).await;
    }
}

/// The token of a daemon's Pod on this node; of none when no node is given.
async fn token(node: &Node, on: Option<&str>) -> String {
    let mut spec = TokenRequestSpec::default();
    if let Some(on) = on {
        let pod = json!({"metadata": {"generateName": "kruise-daemon-"}, "spec": {
            "serviceAccountName": DAEMON, "nodeName": on, "containers": [{"name": "daemon", "image": "i"}],
        }});
        let pod = serde_json::from_value(pod).unwrap();
        let made = node.space.api::<Pod>().create(&PostParams::default(), &pod).await;
        let made = made.unwrap().metadata;
        spec.bound_object_ref = Some(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: made.name,
            uid: made.uid,
        });
    }
    let request = TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = node.space.api();
    let answer = accounts
        .create_token_request(DAEMON, &PostParams::default(), &request)
        .await;
    answer.unwrap().status.unwrap().token.unwrap()
}

fn with_token(kubeconfig: &Path, token: &str) -> Kubeconfig {
    let mut config = Kubeconfig::read_from(kubeconfig).unwrap();
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        });
    }
    config
}

async fn client_of(config: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Writes one thing of each kind that belongs to a node. What was refused comes back with the reason.
async fn write_all(client: &Client, node: &Node) -> Vec<(&'static str, Result<(), String>)> {
    let space = node.space.name();
    let status = |kind: &str, place: Option<&str>| {
        let api_version = if kind == "Pod" { "v1" } else { "apps.kruise.io/v1beta1" };
        dynamic(
            client,
            &json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": place}}),
        )
    };
    let params = PatchParams::default();
    let annotation = json!({"metadata": {"annotations": {"written": "yes"}}});
    let report = json!({"status": {"desired": 0, "succeeded": 0, "failed": 0, "pulling": 0}});
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-", "namespace": space},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": space}, "reason": "R", "source": {"host": node.name},
    });
    let events = dynamic(client, &event);
    let event = serde_json::from_value(event).unwrap();
    let node_images = status("NodeImage", None);
    let pods = status("Pod", Some(space));
    let requests = status("ContainerRecreateRequest", Some(space));
    let phase = json!({"status": {"phase": "Pending"}});
    [
        (
            "NodeImage",
            node_images
                .patch_status(&node.name, &params, &Patch::Merge(report))
                .await,
        ),
        (
            "Pod",
            pods.patch_status("p", &params, &Patch::Strategic(annotation)).await,
        ),
        (
            "ContainerRecreateRequest",
            requests.patch_status("r", &params, &Patch::Merge(phase)).await,
        ),
        ("Event", events.create(&PostParams::default(), &event).await),
    ]
    .into_iter()
    .map(|(kind, result)| (kind, result.map(drop).map_err(|error| error.to_string())))
    .collect()
}

/// A Pod of the node, its NodeImage, and a request for the Pod.
async fn furnish(node: &Node) {
    node.ask_for(&json!({})).await;
    node.pod("p", "apps/v1", &json!([{"name": "main", "image": "i"}])).await;
    let request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "r", "namespace": node.space.name(), "labels": {"crr.apps.kruise.io/node-name": node.name}},
        "spec": {"podName": "p", "containers": [{"name": "main"}]},
    });
    apply(&node.client, &request).await;
}

fn kubeconfig_of(config: &Kubeconfig, node: &Node) -> PathBuf {
    let file = node.folder().join("bound");
    std::fs::write(&file, serde_json::to_string(config).unwrap()).unwrap();
    file
}

#[test]
fn given_daemons_kept_to_their_nodes_then_each_writes_what_is_its_own_and_nothing_else() {
    if lacks(Feature::ValidatingAdmissionPolicy) {
        return;
    }
    run_test(DEADLINE, async {
        let (mut ours, other) = (Node::new("ours").await, Node::new("other").await);
        restrict(&ours.client, ours.space.name()).await;
        furnish(&ours).await;
        furnish(&other).await;
        let kubeconfig = kruise_testkit::cluster::kubeconfig();
        let bound = with_token(&kubeconfig, &token(&ours, Some(&ours.name)).await);
        let daemon = client_of(bound.clone()).await;
        eventually(PATIENCE, "the policy is in force", || async {
            let written = write_all(&daemon, &other).await;
            let open = written.iter().find(|(_, result)| result.is_ok());
            open.map_or(Ok(()), |open| Err(NotYet::new(format!("{open:?}"))))
        })
        .await;
        for (kind, result) in write_all(&daemon, &other).await {
            let why = result.unwrap_err();
            let wanted = format!(
                "of node {} may not write what belongs to node \"{}\"",
                ours.name, other.name
            );
            assert!(why.contains(&wanted), "{kind}: {why}");
        }
        for (kind, result) in write_all(&daemon, &ours).await {
            assert_eq!(result, Ok(()), "{kind}");
        }
        // A token that no Pod of the DaemonSet has.
        let unbound = client_of(with_token(&kubeconfig, &token(&ours, None).await)).await;
        for (kind, result) in write_all(&unbound, &ours).await {
            let why = result.unwrap_err();
            assert!(why.contains("names no node"), "{kind}: {why}");
        }

        // The daemon itself can work with this.
        ours.acts_as(kubeconfig_of(&bound, &ours));
        ours.runtime
            .world()
            .registry
            .insert("nginx:1".to_owned(), Pullable::default());
        ours.ask_for(&asked()).await;
        let running = ours.daemon(&[]).await;
        ours.tag_becomes("nginx", "1", "Succeeded", 0).await;
        ours.event(&ours.name, "PullImageSucceed").await;
        running.stop().await;
    });
}

fn asked() -> Value {
    json!({"nginx": {"tags": [{"tag": "1", "createdAt": "2026-01-01T00:00:00Z", "version": 0,
        "pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 0}, "imagePullPolicy": "Always"}]}})
}
