//! Images from real registries: the cluster's own, one that asks for a password, one that never answers.
//!
//! Both odd registries are a Pod on the node: containerd speaks plainly to whatever is called `localhost`.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use kruise_testkit::{
    eventually::{NotYet, eventually, run_test},
    image::{Image, LayerBuilder, stand_ins},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::world::{DAEMONS, Node, PATIENCE};

const DEADLINE: Duration = Duration::from_mins(8);
const SECRETS: &str = "kruise-daemon-config";
const PRIVATE: &str = "localhost:15055";
const SILENT: &str = "localhost:15056";
/// A tag whose ending tells the web server what a manifest is.
const TAG: &str = "1.manifest";
/// The daemon may take this much.
const MEMORY: u64 = 20_000_000;

fn tag(tag: &str, timeout: i32) -> Value {
    // The manager gives up nodes that say nothing of an old tag.
    let now = Timestamp::from_second(Timestamp::now().as_second())
        .unwrap()
        .to_string();
    json!({
        "tag": tag, "version": 0, "createdAt": now, "imagePullPolicy": "Always",
        "pullPolicy": {"timeoutSeconds": timeout, "backoffLimit": 0, "ttlSecondsAfterFinished": 3600},
    })
}

/// A web server that has one image under several names, all behind a password, and a port where nobody answers.
async fn registries(node: &Node, names: &[&str]) {
    let layer = LayerBuilder::default().file("/hello", 0o644, b"hello").unwrap();
    let image = Image::new(vec![layer.build().unwrap()], &json!({"Cmd": ["/hello"]}));
    let (mut data, mut items) = (json!({}), Vec::new());
    let manifest = image.manifest();
    data["manifest"] = json!(STANDARD.encode(&manifest.bytes));
    for name in names {
        for reference in [TAG, &manifest.digest] {
            items.push(json!({"key": "manifest", "path": format!("v2/{name}/manifests/{reference}")}));
        }
    }
    for (number, blob) in image.parts().enumerate() {
        data[format!("blob{number}")] = json!(STANDARD.encode(&blob.bytes));
        for name in names {
            items.push(json!({"key": format!("blob{number}"), "path": format!("v2/{name}/blobs/{}", blob.digest)}));
        }
    }
    let settings = "/v2:user:right\n.manifest:application/vnd.oci.image.manifest.v1+json\n";
    node.config_map(&json!({
        "metadata": {"name": "registry"}, "binaryData": data, "data": {"httpd.conf": settings},
    }))
    .await;
    let mounts = json!([{"name": "www", "mountPath": "/www"}, {"name": "conf", "mountPath": "/conf"}]);
    node.runs(&json!({
        "metadata": {"name": "registries"},
        "spec": {
            "hostNetwork": true, "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "private", "image": "busybox:1.36", "volumeMounts": mounts,
                    "command": ["httpd", "-f", "-p", "127.0.0.1:15055", "-h", "/www", "-c", "/conf/httpd.conf"]},
                {"name": "silent", "image": "busybox:1.36", "command": ["nc", "-ll", "-p", "15056", "-e", "sleep", "3600"]},
            ],
            "volumes": [
                {"name": "www", "configMap": {"name": "registry", "items": items}},
                {"name": "conf", "configMap": {"name": "registry", "items": [{"key": "httpd.conf", "path": "httpd.conf"}]}},
            ],
        },
    }))
    .await;
}

async fn secret(node: &Node, name: &str, password: &str) {
    let content = json!({"auths": {PRIVATE: {"username": "user", "password": password}}}).to_string();
    let object = json!({
        "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": content},
    });
    let api: Api<Secret> = Api::namespaced(node.client.clone(), SECRETS);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[test]
fn given_registries_of_all_kinds_then_images_are_pulled_or_say_why_not_and_a_killed_daemon_goes_on() {
    run_test(DEADLINE, async {
        let _kills = DAEMONS.read().await;
        let node = Node::new("node1").await;
        registries(&node, &["right", "wrong", "missing"]).await;
        let secrets = ["right", "wrong", "missing"].map(|name| format!("{name}-{}", std::process::id()));
        secret(&node, &secrets[0], "right").await;
        secret(&node, &secrets[1], "wrong").await;
        let private =
            |secret: &str| json!({"pullSecrets": [{"namespace": SECRETS, "name": secret}], "tags": [tag(TAG, 60)]});
        let digest = stand_ins()
            .unwrap()
            .into_iter()
            .find(|(name, tag, _)| (*name, *tag) == ("library/nginx", "1.20"))
            .map(|(_, _, image)| image.digest().to_owned())
            .unwrap();
        let name = |name: &str| format!("{PRIVATE}/{name}");
        let slow = format!("{SILENT}/slow");
        node.ask_for(&json!({
            "nginx": {"tags": [tag("1.21", 60), tag(&digest, 60), tag("no-such-tag", 60)]},
            name("right"): private(&secrets[0]),
            name("wrong"): private(&secrets[1]),
            name("missing"): private(&secrets[2]),
            slow.clone(): {"tags": [tag("quick-to-give-up", 2), tag("patient", 600)]},
        }))
        .await;

        let pulled = node.tag_becomes("nginx", "1.21", "Succeeded").await;
        assert!(
            pulled["imageID"].as_str().unwrap().starts_with("nginx@sha256:"),
            "{pulled}"
        );
        node.tag_becomes("nginx", &digest, "Succeeded").await;
        let failed = node.tag_becomes("nginx", "no-such-tag", "Failed").await;
        let message = failed["message"].as_str().unwrap();
        assert!(
            message.contains("Failed to pull image reference \"nginx:no-such-tag\": rpc error: code ="),
            "{message}"
        );
        node.tag_becomes(&name("right"), TAG, "Succeeded").await;
        for refused in ["wrong", "missing"] {
            let failed = node.tag_becomes(&name(refused), TAG, "Failed").await;
            let message = failed["message"].as_str().unwrap();
            assert!(
                message.contains("401 Unauthorized") || message.contains("authorization failed"),
                "{message}"
            );
        }
        let given_up = node.tag_becomes(&slow, "quick-to-give-up", "Failed").await;
        assert_eq!(
            given_up["message"],
            format!("pulling image {slow}:quick-to-give-up is canceled")
        );
        let memory = node.daemon_memory().await;
        assert!(memory < MEMORY, "the daemon takes {memory} bytes");

        // Killed while it pulls, the daemon begins that pull again, and no other.
        let before = node.tag_becomes(&slow, "patient", "Pulling").await;
        node.kill_daemon().await;
        eventually(PATIENCE, "the pull is begun again", || async {
            let now = node.tag(&slow, "patient").await?;
            let again = now["phase"] == "Pulling" && now["startTime"] != before["startTime"];
            again.then_some(()).ok_or_else(|| NotYet::from(now))
        })
        .await;
        assert_eq!(
            node.tag("nginx", "1.21").await.unwrap(),
            pulled,
            "what was done stays done"
        );

        node.ask_for(&json!({
            "nginx": null, name("right"): null, name("wrong"): null, name("missing"): null, slow.clone(): null,
        }))
        .await;
        eventually(PATIENCE, "nothing is left", || async {
            let image = node.images().get(node.name).await?;
            let left = image.data["status"]["imageStatuses"].as_object().cloned();
            let left = left.into_iter().flatten().map(|(name, _)| name);
            let left: Vec<String> = left
                .filter(|name| name == "nginx" || name.starts_with(PRIVATE) || name.starts_with(SILENT))
                .collect();
            left.is_empty()
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{left:?}")))
        })
        .await;
        let api: Api<Secret> = Api::namespaced(node.client.clone(), SECRETS);
        for secret in &secrets[..2] {
            api.delete(secret, &DeleteParams::default()).await.unwrap();
        }
    });
}
