//! The life of a NodeImage, with the clock in the test's hand.

use super::*;
use crate::plan::harness::Cluster;
use kruise_api::kind::Kind as _;
use kruise_api::nodeimage::v1beta1::NodeImage;
use serde_json::Value;

struct World {
    cluster: Cluster,
    node: Option<Value>,
    jobs: BTreeMap<(String, String), Option<String>>,
    gone_secrets: BTreeSet<(String, String)>,
}

fn node(labels: &Value, ready: &str) -> Value {
    json!({"metadata": {"name": "a", "labels": labels}, "status": {"conditions": [
        {"type": "Ready", "status": ready, "lastTransitionTime": "2026-05-01T10:00:00Z"},
    ]}})
}

impl World {
    fn new(node: Option<Value>, images: Option<Value>) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        if let Some(images) = images {
            cluster.put(NodeImage::RESOURCE, images);
        }
        Self {
            cluster,
            node,
            jobs: BTreeMap::new(),
            gone_secrets: BTreeSet::new(),
        }
    }

    fn round(&mut self) -> Plan {
        let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        let images = self.cluster.get(NodeImage::RESOURCE, "a");
        let observed = Observed {
            name: "a".to_owned(),
            node: self
                .node
                .as_ref()
                .map(|node| Arc::new(serde_json::from_value(node.clone()).unwrap())),
            images: images.map(|images| Arc::new(read(images))),
            jobs: self.jobs.clone(),
            gone_secrets: self.gone_secrets.clone(),
            creation_delay: Duration::from_secs(30),
        };
        let plan = plan(&observed, &Env::at(self.cluster.now));
        assert_eq!(self.cluster.apply(&plan, usize::MAX).failures, [], "{plan:#?}");
        plan
    }

    fn images(&self) -> Value {
        self.cluster.get(NodeImage::RESOURCE, "a").cloned().unwrap_or_default()
    }
}

#[test]
fn given_a_node_then_its_images_come_half_a_minute_after_it_is_ready_and_go_with_it() {
    let mut world = World::new(Some(node(&json!({"zone": "a"}), "False")), None);
    assert_eq!(world.round(), Plan::default());
    world.node = Some(node(&json!({"zone": "a"}), "True"));
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(30)));
    world.cluster.pass(30);
    world.round();
    assert_eq!(world.images()["metadata"]["labels"], json!({"zone": "a"}));
    assert!(world.round().is_idle());

    world.node = Some(node(&json!({"zone": "b", "new": "x"}), "True"));
    world.round();
    assert_eq!(world.images()["metadata"]["labels"], json!({"zone": "b", "new": "x"}));
    world.node = None;
    world.round();
    assert!(world.images().is_null());
}

#[test]
fn given_a_virtual_node_or_a_label_for_tests_then_the_rules_are_others() {
    let mut world = World::new(Some(node(&json!({"type": "virtual-kubelet"}), "True")), None);
    world.cluster.pass(60);
    assert_eq!(world.round(), Plan::default());
    let fake = json!({"metadata": {"name": "a", "labels": {"apps.kruise.io/fake-nodeimage": "true"}}, "spec": {}});
    let mut world = World::new(None, Some(fake));
    assert!(world.round().is_idle());
    let mut deleting = node(&json!({}), "True");
    deleting["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
    let mut world = World::new(Some(deleting), Some(json!({"metadata": {"name": "a"}, "spec": {}})));
    world.round();
    assert!(world.images().is_null());
}

/// A NodeImage with one tag of `nginx`.
fn with_tag(tag: &Value) -> Value {
    let mut full =
        json!({"tag": "1", "createdAt": "2026-05-01T10:00:00Z", "pullPolicy": {"ttlSecondsAfterFinished": 60}});
    full.as_object_mut().unwrap().extend(tag.as_object().unwrap().clone());
    json!({"metadata": {"name": "a"}, "spec": {"images": {"nginx": {"tags": [full]}}}})
}

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "namespace": "n", "name": name, "uid": uid})
}

fn answered(images: &mut Value, answer: &Value) {
    images["status"] = json!({"desired": 1, "imageStatuses": {"nginx": {"tags": [answer]}}});
}

#[test]
fn given_jobs_that_are_gone_then_their_tags_go_and_those_of_others_stay() {
    let foreign = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "p"});
    for (owners, jobs, kept) in [
        (json!([owner("x", "1")]), vec![("x", None)], None),
        (json!([owner("x", "1")]), vec![("x", Some("2"))], None),
        (json!([owner("x", "1")]), vec![("x", Some("1"))], Some(1)),
        (
            json!([owner("x", "1"), owner("y", "2")]),
            vec![("x", None), ("y", Some("2"))],
            Some(1),
        ),
        (json!([owner("x", "1"), foreign]), vec![("x", None)], Some(1)),
        (json!([]), vec![], Some(0)),
    ] {
        let mut world = World::new(
            Some(node(&json!({}), "True")),
            Some(with_tag(&json!({"ownerReferences": owners}))),
        );
        world.jobs = jobs
            .into_iter()
            .map(|(name, uid)| (("n".to_owned(), name.to_owned()), uid.map(str::to_owned)))
            .collect();
        world.round();
        let tag = &world.images()["spec"]["images"]["nginx"]["tags"][0];
        let left = tag
            .is_object()
            .then(|| tag["ownerReferences"].as_array().map_or(0, Vec::len));
        assert_eq!(left, kept, "{owners}");
    }
}

#[test]
fn given_an_answer_then_the_tag_goes_when_its_time_is_over_but_not_for_an_older_pull() {
    let answer = json!({"tag": "1", "phase": "Succeeded", "completionTime": "2026-05-01T10:00:00Z"});
    let mut images = with_tag(&json!({}));
    answered(&mut images, &answer);
    let mut world = World::new(Some(node(&json!({}), "True")), Some(images));
    assert_eq!(world.round().wake_after, Some(Duration::from_mins(1)));
    world.cluster.pass(60);
    world.round();
    assert_eq!(world.images()["spec"]["images"], json!({}));

    let mut images = with_tag(&json!({"version": 1, "createdAt": "2026-05-01T11:00:00Z"}));
    answered(&mut images, &answer);
    let mut world = World::new(Some(node(&json!({}), "True")), Some(images));
    world.cluster.pass(3600);
    assert!(world.round().is_idle(), "asked for again");
}

#[test]
fn given_a_silent_daemon_then_the_pull_has_failed_after_ten_minutes_and_everybody_is_told() {
    let mut world = World::new(
        Some(node(&json!({}), "True")),
        Some(with_tag(&json!({"version": 2, "ownerReferences": [owner("x", "1")]}))),
    );
    world
        .jobs
        .insert(("n".to_owned(), "x".to_owned()), Some("1".to_owned()));
    assert_eq!(world.round().wake_after, Some(Duration::from_mins(10)));
    world.cluster.pass(600);
    let plan = world.round();
    let status = world.images()["status"].clone();
    assert_eq!((&status["desired"], &status["failed"]), (&json!(1), &json!(1)));
    assert_eq!(
        status["imageStatuses"]["nginx"]["tags"],
        json!([{
            "tag": "1", "phase": "Failed", "version": 2, "completionTime": "2026-05-01T10:10:00Z",
            "message": "node has not responded for a long time",
        }])
    );
    let names: Vec<Option<&str>> = plan
        .events
        .iter()
        .map(|event| event.about.as_ref().map(|about| about.name.as_str()))
        .collect();
    assert_eq!(names, [None, Some("x")]);
    let text = "Failed to pull image nginx:1 on node a for node has not responded for a long time";
    assert!(
        plan.events
            .iter()
            .all(|event| event.message == text && event.reason == "PullImageFailed")
    );
    assert!(world.round().is_idle(), "told once");
}

#[test]
fn given_a_pull_that_exceeds_its_deadline_then_it_has_failed_ten_minutes_later() {
    let policy = json!({"ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 100});
    let mut images = with_tag(&json!({"pullPolicy": policy}));
    answered(
        &mut images,
        &json!({"tag": "1", "phase": "Pulling", "startTime": "2026-05-01T10:00:01Z"}),
    );
    let mut world = World::new(Some(node(&json!({}), "True")), Some(images));
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(700)));
    world.cluster.pass(700);
    world.round();
    let tag = world.images()["status"]["imageStatuses"]["nginx"]["tags"][0].clone();
    assert_eq!(
        (&tag["phase"], &tag["message"]),
        (&json!("Failed"), &json!("pulling exceeds the activeDeadlineSeconds"))
    );
    assert_eq!(tag["startTime"], "2026-05-01T10:00:01Z");
}

#[test]
fn given_secrets_that_are_gone_then_only_shared_copies_stay_listed() {
    let mut images = with_tag(&json!({}));
    images["spec"]["images"]["nginx"]["pullSecrets"] = json!([
        {"namespace": "c", "name": "old"}, {"namespace": "c", "name": "there"}, {"namespace": "c", "name": "shared", "mode": "batch"},
    ]);
    let mut world = World::new(Some(node(&json!({}), "True")), Some(images));
    for name in ["old", "shared"] {
        world.gone_secrets.insert(("c".to_owned(), name.to_owned()));
    }
    world.round();
    assert_eq!(
        world.images()["spec"]["images"]["nginx"]["pullSecrets"],
        json!([
            {"namespace": "c", "name": "there"}, {"namespace": "c", "name": "shared", "mode": "batch"},
        ])
    );
}

#[test]
fn given_a_change_then_only_the_jobs_that_own_what_changed_are_concerned() {
    let two = json!({"metadata": {"name": "a"}, "spec": {"images": {
        "nginx": {"tags": [
            {"tag": "1", "createdAt": "2026-05-01T10:00:00Z", "ownerReferences": [owner("one", "1")]},
            {"tag": "2", "createdAt": "2026-05-01T10:00:00Z", "ownerReferences": [owner("two", "2")]},
        ]},
        "busybox": {"tags": [{"tag": "1", "createdAt": "2026-05-01T10:00:00Z", "ownerReferences": [owner("three", "3")]}]},
    }}});
    let concerned = |change: &dyn Fn(&mut Value)| {
        let mut new = two.clone();
        change(&mut new);
        let read = |value: &Value| serde_json::from_value::<CachedNodeImage>(value.clone()).unwrap();
        let jobs = jobs_concerned(&read(&two), &read(&new));
        jobs.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert!(concerned(&|_| {}).is_empty());
    assert_eq!(
        concerned(&|new| answered(new, &json!({"tag": "1", "phase": "Pulling"}))),
        ["one"]
    );
    assert_eq!(
        concerned(&|new| new["spec"]["images"]["nginx"]["tags"][1]["version"] = json!(3)),
        ["two"]
    );
    assert_eq!(
        concerned(&|new| new["spec"]["images"]["nginx"]["pullSecrets"] = json!([{"namespace": "c", "name": "s"}])),
        ["one", "two"]
    );
    assert_eq!(
        concerned(&|new| drop(new["spec"]["images"].as_object_mut().unwrap().remove("busybox"))),
        ["three"]
    );
}
