//! Secrets and their copies.

use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::nodeimage::v1beta1::NodeImage;
use kruise_api::secret::Secret;

use super::*;
use crate::plan::why::{self, Why};

const DOCKER: &str = "kubernetes.io/dockerconfigjson";

#[test]
fn given_secrets_then_one_copy_is_shared_kept_up_to_date_and_goes_with_the_last_job() {
    let mut world = World::new(1, &json!({"pullSecrets": ["login", "missing", "login"]}));
    world.cluster.put(
        Secret::RESOURCE,
        json!({"metadata": {"name": "login", "namespace": "shop"}, "type": DOCKER, "data": {"a": "MQ=="}}),
    );
    let plan = world.round();
    assert!(plan.why.contains(&Why::Images(why::Images::SecretMissing {
        secret: "missing".to_owned()
    })));
    let copy = |world: &World| {
        let copies: Vec<Value> = world
            .cluster
            .all(Secret::RESOURCE)
            .filter(|secret| secret["metadata"]["namespace"] == "config")
            .cloned()
            .collect();
        assert!(copies.len() <= 1);
        copies.into_iter().next().unwrap_or_default()
    };
    let made = copy(&world);
    let name = made["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("login-") && name.len() == "login-".len() + 6, "{name}");
    assert_eq!(
        made["metadata"]["annotations"],
        json!({
            "imagepulljobs.kruise.io/source-key": "shop/login", "imagepulljobs.kruise.io/references": "shop/job",
            "imagepulljobs.kruise.io/mode": "batch",
        })
    );
    assert_eq!(made["data"], json!({"a": "MQ=="}));
    let node = world.cluster.get(NodeImage::RESOURCE, "node-0000").unwrap();
    assert_eq!(
        node["spec"]["images"][IMAGE]["pullSecrets"],
        json!([{"namespace": "config", "name": name, "mode": "batch"}])
    );

    world.cluster.edit(Secret::RESOURCE, "login", |secret| {
        secret["data"] = json!({"a": "Mg=="});
    });
    world.round();
    assert_eq!(copy(&world)["data"], json!({"a": "Mg=="}));
    world.cluster.edit(Secret::RESOURCE, &name, |copy| {
        copy["metadata"]["annotations"]["imagepulljobs.kruise.io/references"] = json!("shop/job,shop/other");
    });
    assert!(world.round().is_idle());
    world.answer(|_| Some("Succeeded"));
    world.cluster.pass(2);
    world.round();
    world.round();
    assert_eq!(
        copy(&world)["metadata"]["annotations"]["imagepulljobs.kruise.io/references"],
        "shop/other"
    );

    let mut alone = World::new(1, &json!({"pullSecrets": ["login"]}));
    alone.cluster.put(
        Secret::RESOURCE,
        json!({"metadata": {"name": "login", "namespace": "shop"}, "type": DOCKER, "data": {}}),
    );
    alone.round();
    alone.cluster.edit(ImagePullJob::RESOURCE, "job", |job| {
        job["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
    });
    alone.round();
    assert!(copy(&alone).is_null());
    let job = alone.cluster.get(ImagePullJob::RESOURCE, "job").unwrap();
    assert_eq!(job["metadata"]["finalizers"], json!([]));
}

#[test]
fn given_a_secret_that_comes_later_then_nodes_get_it_without_another_pull() {
    let mut world = World::new(1, &json!({"pullSecrets": ["login"]}));
    world.round();
    assert!(world.tag(0)["tag"].is_string());
    world.cluster.put(
        Secret::RESOURCE,
        json!({"metadata": {"name": "login", "namespace": "shop"}, "type": DOCKER, "data": {"a": "MQ=="}}),
    );
    world.round();
    let node = world.cluster.get(NodeImage::RESOURCE, "node-0000").unwrap();
    assert_eq!(
        node["spec"]["images"][IMAGE]["pullSecrets"].as_array().unwrap().len(),
        1
    );
    assert!(world.tag(0)["version"].is_null());
    assert!(world.round().is_idle());
}

#[test]
fn given_secrets_that_are_not_for_a_registry_then_they_are_never_copied() {
    let names = ["opaque", "tls", "untyped", "new", "old"];
    let mut world = World::new(1, &json!({"pullSecrets": names}));
    for (name, type_) in names
        .iter()
        .zip(["Opaque", "kubernetes.io/tls", "", DOCKER, "kubernetes.io/dockercfg"])
    {
        world.cluster.put(
            Secret::RESOURCE,
            json!({"metadata": {"name": name, "namespace": "shop"}, "type": type_, "data": {"a": "MQ=="}}),
        );
    }
    let plan = world.round();
    let copies = world
        .cluster
        .all(Secret::RESOURCE)
        .filter(|secret| secret["metadata"]["namespace"] == "config");
    let sources: Vec<&Value> = copies
        .map(|copy| &copy["metadata"]["annotations"]["imagepulljobs.kruise.io/source-key"])
        .collect();
    assert_eq!(sources, ["shop/new", "shop/old"]);
    for secret in ["opaque", "tls", "untyped"] {
        let secret = secret.to_owned();
        assert!(
            plan.why
                .contains(&Why::Images(why::Images::SecretNotForRegistry { secret }))
        );
    }
    assert!(world.tag(0)["tag"].is_string(), "the job goes on without them");
}

#[test]
fn given_no_namespace_for_copies_then_no_node_is_asked_an_event_says_so_and_the_job_looks_again() {
    let mut world = World::new(1, &json!({"pullSecrets": ["login"]}));
    world.cluster.put(
        Secret::RESOURCE,
        json!({"metadata": {"name": "login", "namespace": "shop"}, "type": DOCKER, "data": {}}),
    );
    world.has_place = false;
    let plan = world.round();
    assert_eq!(world.tag(0), Value::Null);
    assert_eq!(world.cluster.all(Secret::RESOURCE).count(), 1);
    assert_eq!(
        (&world.status()["desired"], &world.status()["active"]),
        (&json!(1), &json!(0))
    );
    let reasons: Vec<&str> = plan.events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["FailedSyncPullSecrets"]);
    assert_eq!(plan.wake_after, Some(Duration::from_secs(10)));
    world.has_place = true;
    assert!(world.round().events.is_empty());
    assert!(world.tag(0)["tag"].is_string());
}
