//! What the daemon's own token opens, and above all what it does not: whoever takes over a node must not get further than that.

use std::time::Duration;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::{Pod, Secret},
};
use kruise_testkit::{cluster, eventually::run_test};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::world::{Node, SYSTEM, kubectl};

/// A client that is the daemon.
async fn as_daemon() -> Client {
    let token = kubectl(&["create", "token", "kruise-daemon", "-n", SYSTEM]);
    let mut config = kube::config::Kubeconfig::read_from(cluster::nodes_kubeconfig()).unwrap();
    for user in &mut config.auth_infos {
        user.auth_info = Some(kube::config::AuthInfo {
            token: Some(token.trim().to_owned().into()),
            ..kube::config::AuthInfo::default()
        });
    }
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

async fn may(client: &Client, verb: &str, namespace: &str, resource: &str) -> bool {
    let (path, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (resource, sub) = path.split_once('/').unwrap_or((path, ""));
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                namespace: Some(namespace.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some(sub.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.unwrap();
    answer.status.is_some_and(|status| status.allowed)
}

fn refused<T: std::fmt::Debug>(what: &str, result: kube::Result<T>) {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn given_the_token_of_the_daemon_then_it_opens_what_is_needed_and_nothing_else() {
    run_test(Duration::from_mins(6), async {
        let node = Node::new("node1").await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "node1", "containers": [{"name": "main", "image": "busybox:1.36"}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pods: Api<Pod> = node.space.api();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let daemon = as_daemon().await;
        let (ours, config) = (node.space.name(), "kruise-daemon-config");
        for (verb, namespace, resource) in [
            ("get", config, "secrets"),
            ("list", "", "pods"),
            ("patch", "", "pods/status"),
            ("patch", "", "nodeimages/status.apps.kruise.io"),
            ("patch", "", "containerrecreaterequests/status.apps.kruise.io"),
            ("create", "", "events"),
        ] {
            assert!(
                may(&daemon, verb, namespace, resource).await,
                "{verb} {resource} in {namespace:?}"
            );
        }
        for (verb, namespace, resource) in [
            ("list", config, "secrets"),
            ("watch", config, "secrets"),
            ("update", config, "secrets"),
            ("get", ours, "secrets"),
            ("get", SYSTEM, "secrets"),
            ("get", "kube-system", "secrets"),
            ("list", "", "secrets"),
            ("create", ours, "serviceaccounts/token"),
            ("get", ours, "configmaps"),
            ("get", "", "nodes"),
            ("patch", "", "nodes"),
            ("create", ours, "pods"),
            ("patch", ours, "pods"),
            ("update", ours, "pods"),
            ("delete", ours, "pods"),
            ("create", ours, "pods/exec"),
            ("create", ours, "pods/eviction"),
            ("update", "", "nodeimages.apps.kruise.io"),
            ("patch", "", "nodeimages.apps.kruise.io"),
            ("delete", "", "nodeimages.apps.kruise.io"),
            ("create", ours, "containerrecreaterequests.apps.kruise.io"),
            ("patch", ours, "containerrecreaterequests.apps.kruise.io"),
            ("create", ours, "imagepulljobs.apps.kruise.io"),
            ("get", ours, "clonesets.apps.kruise.io"),
            (
                "patch",
                "",
                "validatingwebhookconfigurations.admissionregistration.k8s.io",
            ),
            ("bind", "", "clusterroles.rbac.authorization.k8s.io"),
        ] {
            assert!(
                !may(&daemon, verb, namespace, resource).await,
                "{verb} {resource} in {namespace:?}"
            );
        }

        // The API server does as it says.
        let theirs: Api<Pod> = Api::namespaced(daemon.clone(), ours);
        theirs.get("p").await.unwrap();
        let image = json!({"spec": {"containers": [{"name": "main", "image": "busybox:1.35"}]}});
        let params = PatchParams::default();
        refused(
            "another image",
            theirs.patch("p", &params, &Patch::Strategic(&image)).await,
        );
        refused("a deletion", theirs.delete("p", &DeleteParams::default()).await);
        // A spec that rides along with a status is left out by the API server.
        let sneaked = theirs
            .patch_status("p", &params, &Patch::Strategic(&image))
            .await
            .unwrap();
        assert_eq!(
            sneaked.spec.unwrap().containers[0].image.as_deref(),
            Some("busybox:1.36")
        );
        let secrets: Api<Secret> = Api::namespaced(daemon.clone(), config);
        refused("a list of Secrets", secrets.list(&ListParams::default()).await);
        let secrets: Api<Secret> = Api::namespaced(daemon, SYSTEM);
        refused("a Secret of the manager", secrets.get("kruise-webhook-certs").await);
    });
}
