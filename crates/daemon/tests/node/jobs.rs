//! Jobs that pull images, from the user's object over manager, NodeImage and daemon to the registry and back.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Event, Secret};
use kruise_api::{
    imagelistpulljob::v1beta1::ImageListPullJob,
    imagepulljob::{ImagePullJobStatus, v1beta1::ImagePullJob},
};
use kruise_testkit::eventually::{NotYet, consistently, eventually, run_test};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    registry::Registry,
    world::{Node, PATIENCE, becomes},
};

const DEADLINE: Duration = Duration::from_mins(6);
const SECRETS: &str = "kruise-daemon-config";

pub(super) async fn pull(node: &Node, name: &str, image: &str, more: &Value) -> Api<ImagePullJob> {
    let api: Api<ImagePullJob> = node.space.api();
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"image": image, "imagePullPolicy": "Always", "pullPolicy": {"timeoutSeconds": 60, "backoffLimit": 0}},
    });
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    api
}

pub(super) async fn done(api: &Api<ImagePullJob>, name: &str) -> ImagePullJobStatus {
    let job = becomes(api, name, &format!("the job {name} is done"), |job| {
        job.status
            .as_ref()
            .is_some_and(|status| status.completion_time.is_some())
    })
    .await;
    job.status.unwrap()
}

/// Nodes wanted, with the image, without it, and the names of the latter.
fn counts(status: &ImagePullJobStatus) -> (i32, i32, i32, Vec<&str>) {
    let failed = status.failed_nodes.iter().map(String::as_str).collect();
    (status.desired, status.succeeded, status.failed, failed)
}

fn on(nodes: &[&str]) -> Value {
    json!({"selector": {"names": nodes}})
}

#[test]
fn given_jobs_then_the_nodes_they_choose_have_the_images_or_are_named_as_failed() {
    run_test(DEADLINE, async {
        let node = Node::new("node1").await;
        let registry = Registry::start(15061);
        let image = |name: &str| registry.image(name);
        let api = pull(&node, "all", &image("open/all:1"), &json!({"parallelism": 3})).await;
        pull(
            &node,
            "some",
            &image("open/some:1"),
            &on(&["node1", "node3", "no-such-node"]),
        )
        .await;
        let labels = json!({"selector": {"matchLabels": {"kubernetes.io/hostname": "node2"}}});
        pull(&node, "labels", &image("open/labels:1"), &labels).await;
        let mut two = on(&["node2", "node1"]);
        two["parallelism"] = json!(2);
        pull(&node, "absent", &image("absent/absent:1"), &two).await;
        let mut hasty = on(&["node2"]);
        hasty["pullPolicy"] = json!({"timeoutSeconds": 1, "backoffLimit": 1});
        pull(&node, "slow", &image("held/slow:1"), &hasty).await;
        let lists: Api<ImageListPullJob> = node.space.api();
        for (name, images) in [
            ("list", [image("open/first:1"), image("open/second:1")]),
            ("half", [image("absent/first:1"), image("open/third:1")]),
        ] {
            let list = json!({
                "metadata": {"name": name},
                "spec": {"images": images, "parallelism": 3, "pullPolicy": {"timeoutSeconds": 60, "backoffLimit": 0}, "completionPolicy": {"type": "Always"}},
            });
            let list = serde_json::from_value(list).unwrap();
            lists.create(&PostParams::default(), &list).await.unwrap();
        }

        let all = done(&api, "all").await;
        assert_eq!(counts(&all), (3, 3, 0, vec![]));
        assert_eq!(all.message, "job has completed");
        assert_eq!(registry.asked("open/all:1"), ["node1", "node2", "node3"]);
        assert_eq!(counts(&done(&api, "some").await), (2, 2, 0, vec![]));
        assert_eq!(registry.asked("open/some:1"), ["node1", "node3"]);
        assert_eq!(counts(&done(&api, "labels").await), (1, 1, 0, vec![]));
        assert_eq!(registry.asked("open/labels:1"), ["node2"]);

        let absent = done(&api, "absent").await;
        assert_eq!(counts(&absent), (2, 0, 2, vec!["node1", "node2"]));
        let events: Api<Event> = node.space.api();
        let of_the_job = ListParams::default().fields("involvedObject.name=absent,reason=PullImageFailed");
        eventually(PATIENCE, "an event says why", || async {
            let found = events.list(&of_the_job).await?.items;
            let messages = found.iter().filter_map(|event| event.message.as_deref());
            let messages: Vec<&str> = messages.collect();
            if messages.iter().any(|message| message.contains("not found")) {
                Ok(())
            } else {
                Err(NotYet::new(format!("{messages:?}")))
            }
        })
        .await;
        assert_eq!(counts(&done(&api, "slow").await), (1, 0, 1, vec!["node2"]));
        let slow = image("held/slow");
        let failed = node.other("node2").tag_becomes(&slow, "1", "Failed").await;
        assert_eq!(failed["message"], format!("pulling image {slow}:1 is canceled"));

        let list_done = |name: &'static str| {
            becomes(&lists, name, "the list is done", |list| {
                list.status
                    .as_ref()
                    .is_some_and(|status| status.completion_time.is_some())
            })
        };
        let status = list_done("list").await.status.unwrap();
        assert_eq!((status.desired, status.completed, status.succeeded), (2, 2, 2));
        let status = list_done("half").await.status.unwrap();
        assert_eq!((status.desired, status.completed, status.succeeded), (2, 2, 1));
        assert_eq!(status.failed_image_statuses[0].name, image("absent/first:1"));
    });
}

#[test]
fn given_a_private_registry_then_the_right_secret_opens_it_and_no_copy_is_left() {
    run_test(DEADLINE, async {
        let node = Node::new("node2").await;
        let registry = Registry::start(15062);
        let secrets: Api<Secret> = node.space.api();
        for password in ["right", "wrong"] {
            let content = json!({"auths": {registry.host(): {"username": "user", "password": password}}}).to_string();
            let object = json!({
                "metadata": {"name": password}, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": content},
            });
            let object = serde_json::from_value(object).unwrap();
            secrets.create(&PostParams::default(), &object).await.unwrap();
        }
        let mut jobs = BTreeMap::new();
        for name in ["right", "wrong", "missing"] {
            let mut more = on(&["node2"]);
            more["pullSecrets"] = json!([name]);
            let image = registry.image(&format!("private/{name}"));
            jobs.insert(name, pull(&node, name, &format!("{image}:1"), &more).await);
        }
        assert_eq!(counts(&done(&jobs["right"], "right").await), (1, 1, 0, vec![]));
        for name in ["wrong", "missing"] {
            assert_eq!(counts(&done(&jobs[name], name).await), (1, 0, 1, vec!["node2"]));
            let image = registry.image(&format!("private/{name}"));
            let failed = node.tag_becomes(&image, "1", "Failed").await;
            let message = failed["message"].as_str().unwrap();
            assert!(
                message.contains("401 Unauthorized") || message.contains("authorization failed"),
                "{message}"
            );
            assert!(!message.contains("wrong\""), "{message}");
        }
        let copies: Api<Secret> = Api::namespaced(node.client.clone(), SECRETS);
        eventually(PATIENCE, "no copy is left", || async {
            let left = copies.list(&ListParams::default()).await?.items;
            let of_ours = left.iter().filter(|secret| {
                let source = secret.metadata.annotations.as_ref();
                let source = source.and_then(|all| all.get("imagepulljobs.kruise.io/source-key"));
                source.is_some_and(|key| key.starts_with(node.space.name()))
            });
            let names: Vec<_> = of_ours.map(|secret| secret.metadata.name.clone()).collect();
            if names.is_empty() {
                Ok(())
            } else {
                Err(NotYet::new(format!("{names:?}")))
            }
        })
        .await;
    });
}

#[test]
fn given_parallelism_then_no_more_nodes_ask_the_registry_at_once() {
    run_test(DEADLINE, async {
        let node = Node::new("node3").await;
        let registry = Registry::start(15063);
        let api = pull(&node, "two", &registry.image("held/two:1"), &json!({"parallelism": 2})).await;
        let two_wait = || async {
            match registry.waiting() {
                2 => Ok(()),
                other => Err(NotYet::new(format!("{other} nodes wait"))),
            }
        };
        eventually(PATIENCE, "two nodes pull", two_wait).await;
        consistently(Duration::from_secs(2), "two nodes pull", two_wait).await;
        becomes(&api, "two", "the job says so", |job| {
            job.status
                .as_ref()
                .is_some_and(|status| (status.active, status.succeeded) == (2, 0))
        })
        .await;
        registry.release();
        assert_eq!(counts(&done(&api, "two").await), (3, 3, 0, vec![]));
        assert_eq!(registry.most(), 2);
    });
}
