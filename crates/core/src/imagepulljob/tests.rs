//! Jobs in a model of a cluster whose nodes answer when they are told to.

mod secrets;

use super::secrets::{Secrets, key, source, users};
use super::*;
use crate::plan::harness::Cluster;
use crate::plan::why::{self, Why};
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::nodeimage::v1beta1::NodeImage;
use kruise_api::secret::Secret;
use serde_json::Value;
use std::collections::BTreeMap;

const IMAGE: &str = "nginx";

/// One job, its nodes and its Secrets.
struct World {
    cluster: Cluster,
    last_written: Option<Timestamp>,
    has_place: bool,
    /// Highest number of nodes that had an unanswered entry at the same time.
    most: usize,
}

impl World {
    fn new(nodes: usize, spec: &Value) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        for number in 0..nodes {
            let labels = json!({"zone": if number % 2 == 0 { "a" } else { "b" }});
            cluster.put(
                NodeImage::RESOURCE,
                json!({"metadata": {"name": format!("node-{number:04}"), "labels": labels}, "spec": {}}),
            );
        }
        let mut spec = spec.clone();
        let mut job =
            json!({"image": "nginx:1.25", "completionPolicy": {"type": "Always"}, "imagePullPolicy": "IfNotPresent"});
        job.as_object_mut().unwrap().append(spec.as_object_mut().unwrap());
        cluster.put(
            ImagePullJob::RESOURCE,
            json!({"metadata": {"name": "job", "namespace": "shop"}, "spec": job}),
        );
        Self {
            cluster,
            last_written: None,
            has_place: true,
            most: 0,
        }
    }

    fn observed(&self) -> Observed {
        let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        let job: ImagePullJob = read(self.cluster.get(ImagePullJob::RESOURCE, "job").unwrap());
        let nodes: Vec<Arc<CachedNodeImage>> = self
            .cluster
            .all(NodeImage::RESOURCE)
            .map(|node| Arc::new(read_known(node)))
            .collect();
        let all: Vec<Arc<Secret>> = self
            .cluster
            .all(Secret::RESOURCE)
            .map(|secret| Arc::new(serde_json::from_value(secret.clone()).unwrap()))
            .collect();
        let us = key("shop", "job");
        let (copies, own): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|secret| &*secret.metadata.namespace == "config");
        let named = |secret: &Arc<Secret>| job.spec.pull_secrets.iter().any(|name| **name == *secret.metadata.name);
        let sources: BTreeMap<String, Arc<Secret>> = own
            .into_iter()
            .filter(named)
            .map(|secret| (secret.metadata.name.to_string(), secret))
            .collect();
        let is_ours = |copy: &Arc<Secret>| {
            users(copy).contains(us.as_str())
                || source(copy).is_some_and(|from| sources.keys().any(|name| from == key("shop", name)))
        };
        Observed {
            nodes: if is_active(&job) {
                nodes
                    .into_iter()
                    .filter(|node| select::chooses(&job.spec, node))
                    .collect()
            } else {
                Vec::new()
            },
            secrets: Secrets {
                place: "config".to_owned(),
                has_place: self.has_place,
                copies: copies.into_iter().filter(is_ours).collect(),
                sources,
            },
            job: Arc::new(job),
            last_written: self.last_written,
            tag_ttl_seconds: 300,
        }
    }

    fn env(&self) -> Env {
        Env::at(self.cluster.now)
    }

    /// One round. Returns the plan.
    fn round(&mut self) -> Plan {
        if self.cluster.get(ImagePullJob::RESOURCE, "job").is_none() {
            return Plan::default();
        }
        let plan = plan(&self.observed(), &self.env());
        let outcome = self.cluster.apply(&plan, usize::MAX);
        assert_eq!(outcome.failures, [], "{plan:#?}");
        if plan.status.is_some() {
            self.last_written = Some(self.cluster.now);
        }
        let open = self
            .cluster
            .all(NodeImage::RESOURCE)
            .filter(|node| !unanswered(&read_known(node)).is_empty())
            .count();
        self.most = self.most.max(open);
        plan
    }

    /// Nodes answer all that they are asked: as wanted, by name.
    fn answer(&mut self, phase: impl Fn(&str) -> Option<&'static str>) {
        let names: Vec<String> = self
            .cluster
            .all(NodeImage::RESOURCE)
            .map(crate::plan::harness::name_of)
            .collect();
        for name in names {
            if let Some(phase) = phase(&name) {
                self.answer_of(&name, phase);
            }
        }
    }

    fn answer_of(&mut self, node: &str, phase: &str) {
        let now = self.cluster.now.to_string();
        self.cluster.edit(NodeImage::RESOURCE, node, |node| {
            for (tag, version) in unanswered(&read_known(node)) {
                let answer = json!({"tag": tag, "phase": phase, "version": version, "completionTime": now});
                node["status"]["imageStatuses"][IMAGE] = json!({"tags": [answer]});
            }
        });
    }

    fn status(&self) -> Value {
        self.cluster.get(ImagePullJob::RESOURCE, "job").unwrap()["status"].clone()
    }

    fn tag(&self, node: usize) -> Value {
        let node = self
            .cluster
            .get(NodeImage::RESOURCE, &format!("node-{node:04}"))
            .unwrap();
        node["spec"]["images"][IMAGE]["tags"][0].clone()
    }
}

fn read_known(node: &Value) -> CachedNodeImage {
    serde_json::from_value(node.clone()).unwrap()
}

/// Tags and versions that wait for an answer.
fn unanswered(node: &CachedNodeImage) -> Vec<(String, i64)> {
    let tags = node
        .spec
        .images
        .get(IMAGE)
        .map(|image| image.tags.clone())
        .unwrap_or_default();
    let open = tags.iter().filter(|tag| node.answer(IMAGE, tag).is_none());
    open.map(|tag| (tag.tag.clone(), tag.version)).collect()
}

#[test]
fn given_three_nodes_and_one_at_a_time_then_each_gets_its_turn_and_the_job_is_done() {
    let mut world = World::new(3, &json!({}));
    for done in 0..3 {
        world.round();
        assert_eq!(
            world.status()["message"],
            format!("job is running, progress {:.1}%", f64::from(done) * 100.0 / 3.0)
        );
        world.cluster.pass(1);
        world.round();
        assert_eq!(world.status()["active"], 1, "{done}");
        assert!(world.round().is_idle(), "nothing to do until the node answers");
        world.cluster.pass(1);
        world.answer(|_| Some("Succeeded"));
    }
    world.round();
    let status = world.status();
    assert_eq!(
        (&status["desired"], &status["succeeded"], &status["active"]),
        (&json!(3), &json!(3), &json!(0))
    );
    assert_eq!(
        (&status["message"], &status["completionTime"]),
        (&json!("job has completed"), &json!("2026-05-01T10:00:06Z"))
    );
    assert_eq!(world.most, 1);
    world.round();
    let job = world.cluster.get(ImagePullJob::RESOURCE, "job").unwrap();
    assert_eq!(job["metadata"]["finalizers"], json!([]), "let go of when it is done");
    assert!(world.round().is_idle());
}

#[test]
fn given_an_entry_then_it_says_what_the_original_says() {
    let mut world = World::new(
        1,
        &json!({"pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 1}, "sandboxConfig": {"labels": {"a": "b"}}}),
    );
    world.round();
    let uid = world.cluster.get(ImagePullJob::RESOURCE, "job").unwrap()["metadata"]["uid"].clone();
    let mut tag = world.tag(0);
    let ttl = tag["pullPolicy"]["ttlSecondsAfterFinished"].take().as_i64().unwrap();
    assert!((310..610).contains(&ttl), "{ttl}");
    assert_eq!(
        tag,
        json!({
            "tag": "1.25", "createdAt": "2026-05-01T10:00:00Z", "imagePullPolicy": "IfNotPresent",
            "pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 1, "ttlSecondsAfterFinished": null},
            "ownerReferences": [
                {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "namespace": "shop", "name": "job", "uid": uid},
            ],
        })
    );
    let node = world.cluster.get(NodeImage::RESOURCE, "node-0000").unwrap();
    assert_eq!(
        node["spec"]["images"][IMAGE]["sandboxConfig"],
        json!({"labels": {"a": "b"}})
    );
}

#[test]
fn given_policies_then_tags_stay_and_pulls_may_last_accordingly() {
    for (completion, ttl, deadline) in [
        (
            json!({"type": "Always", "ttlSecondsAfterFinished": 300}),
            600..900,
            Value::Null,
        ),
        (
            json!({"type": "Always", "activeDeadlineSeconds": 1200}),
            1500..1800,
            json!(1200),
        ),
        (json!({"type": "Always"}), 2100..2400, Value::Null),
        (json!({"type": "Never"}), 85_800..87_000, json!(1800)),
    ] {
        let mut world = World::new(1, &json!({"completionPolicy": completion}));
        world.round();
        let policy = world.tag(0)["pullPolicy"].clone();
        assert!(
            ttl.contains(&policy["ttlSecondsAfterFinished"].as_i64().unwrap()),
            "{completion}: {policy}"
        );
        assert_eq!(policy["activeDeadlineSeconds"], deadline, "{completion}");
    }
}

#[test]
fn given_nodes_that_give_up_then_their_names_are_told_in_order() {
    let mut world = World::new(3, &json!({"parallelism": "3"}));
    world.round();
    world.answer(|name| {
        if name == "node-0001" {
            Some("Succeeded")
        } else {
            Some("Failed")
        }
    });
    world.round();
    let status = world.status();
    assert_eq!((&status["failed"], &status["succeeded"]), (&json!(2), &json!(1)));
    assert_eq!(status["failedNodes"], json!(["node-0000", "node-0002"]));
    assert_eq!(status["message"], "job has completed");
}

#[test]
fn given_a_deadline_and_dead_daemons_then_the_job_ends_and_names_every_node() {
    let mut world = World::new(
        3,
        &json!({"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 600}}),
    );
    assert_eq!(world.round().wake_after, Some(Duration::from_mins(10)));
    world.cluster.pass(599);
    world.round();
    assert!(world.round().is_idle());
    world.cluster.pass(1);
    world.round();
    let status = world.status();
    assert_eq!((&status["failed"], &status["active"]), (&json!(3), &json!(0)));
    assert_eq!(status["message"], "job exceeds activeDeadlineSeconds");
    assert_eq!(status["failedNodes"], json!(["node-0000", "node-0001", "node-0002"]));
    assert_eq!(world.tag(1), Value::Null, "nobody else is asked");
}

#[test]
fn given_no_nodes_then_the_job_is_done_at_once_unless_it_never_ends() {
    let mut world = World::new(0, &json!({}));
    world.round();
    assert_eq!(world.status()["message"], "job has completed");
    let mut world = World::new(0, &json!({"completionPolicy": {"type": "Never"}}));
    world.round();
    assert_eq!(world.status()["message"], "job is running, no progress");
    assert!(world.status()["completionTime"].is_null());
}

#[test]
fn given_a_job_that_never_ends_then_a_node_that_joins_is_served_and_an_answer_of_yesterday_is_asked_for_again() {
    let mut world = World::new(1, &json!({"completionPolicy": {"type": "Never"}}));
    world.round();
    world.answer(|_| Some("Succeeded"));
    world.cluster.pass(2);
    world.round();
    assert_eq!(world.status()["message"], "job is running, progress 100.0%");
    world.cluster.put(
        NodeImage::RESOURCE,
        json!({"metadata": {"name": "node-0001"}, "spec": {}}),
    );
    world.round();
    assert_eq!(world.tag(1)["tag"], "1.25");
    // The tag's time was over.
    world
        .cluster
        .edit(NodeImage::RESOURCE, "node-0000", |node| node["spec"] = json!({}));
    world.answer(|_| Some("Succeeded"));
    world.cluster.pass(2);
    world.round();
    assert_eq!(world.tag(0)["version"], 1, "goes on from what was answered");
}

#[test]
fn given_parallelism_zero_then_nobody_is_asked() {
    let mut world = World::new(2, &json!({"parallelism": 0}));
    let plan = world.round();
    assert_eq!(world.tag(0), Value::Null);
    assert_eq!(
        plan.why,
        [Why::Images(why::Images::Pulling {
            active: 0,
            waiting: 2,
            parallelism: 0
        })]
    );
}

#[test]
fn given_another_job_asked_before_then_the_node_is_asked_again_and_both_own_the_tag() {
    let mut world = World::new(1, &json!({"imagePullPolicy": "Always"}));
    let other = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "namespace": "n", "name": "o", "uid": "other"});
    let tag = json!({"tag": "1.25", "createdAt": "2026-01-01T00:00:00Z", "ownerReferences": [other], "pullPolicy": {"timeoutSeconds": 1}});
    world.cluster.edit(NodeImage::RESOURCE, "node-0000", |node| {
        node["spec"]["images"][IMAGE] = json!({"tags": [tag], "sandboxConfig": {"labels": {"x": "y"}}});
    });
    world.answer(|_| Some("Succeeded"));
    world.round();
    let tag = world.tag(0);
    assert_eq!(tag["version"], 1);
    assert_eq!(tag["ownerReferences"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&tag["imagePullPolicy"], &tag["pullPolicy"]["timeoutSeconds"]),
        (&json!("Always"), &json!(1))
    );
    let node = world.cluster.get(NodeImage::RESOURCE, "node-0000").unwrap();
    assert!(
        node["spec"]["images"][IMAGE]["sandboxConfig"].is_null(),
        "the last job counts"
    );
    world.cluster.pass(1);
    world.round();
    assert_eq!(world.status()["active"], 1, "the old answer is not one to this job");
}

#[test]
fn given_nodes_that_could_not_be_asked_then_they_are_not_active() {
    let mut world = World::new(2, &json!({"parallelism": 2}));
    let plan = plan(&world.observed(), &world.env());
    // Somebody else writes one of them meanwhile.
    world.cluster.edit(NodeImage::RESOURCE, "node-0000", |node| {
        node["metadata"]["labels"] = json!({"zone": "c"});
    });
    assert_eq!(world.cluster.apply(&plan, usize::MAX).failures.len(), 1);
    assert_eq!((world.tag(0), &world.tag(1)["tag"]), (Value::Null, &json!("1.25")));
    assert_eq!(world.status()["active"], 0, "nobody knows yet who was asked");
    let plan = super::plan(&world.observed(), &world.env());
    assert!(plan.why.contains(&Why::Images(why::Images::Pulling {
        active: 1,
        waiting: 1,
        parallelism: 2
    })));
    world.round();
    world.cluster.pass(1);
    world.round();
    assert_eq!(world.status()["active"], 2);
}

#[test]
fn given_a_time_to_live_then_the_job_goes_when_it_is_over() {
    let mut world = World::new(
        1,
        &json!({"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 5}}),
    );
    world.round();
    world.answer(|_| Some("Succeeded"));
    world.round();
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(5)));
    world.cluster.pass(5);
    world.round();
    assert!(world.cluster.get(ImagePullJob::RESOURCE, "job").is_none());
}

#[test]
fn given_many_nodes_then_the_job_costs_little_more_than_a_write_each() {
    let mut world = World::new(200, &json!({"parallelism": 25}));
    let (mut rounds, mut open) = (0, std::collections::VecDeque::new());
    while world.status()["completionTime"].is_null() {
        // Ten rounds in a second, and one node after the other answers.
        let plan = world.round();
        let asked = plan
            .writes()
            .filter(|action| action.object().resource == NodeImage::RESOURCE);
        open.extend(asked.map(|action| action.object().name.clone()));
        for name in open.drain(..open.len().min(2)).collect::<Vec<String>>() {
            world.answer_of(&name, "Succeeded");
        }
        rounds += 1;
        if rounds % 10 == 0 {
            world.cluster.pass(1);
        }
        assert!(rounds < 400, "{}", world.status());
    }
    assert_eq!(world.status()["succeeded"], 200);
    assert!(world.most <= 25, "{}", world.most);
    assert!(
        world.cluster.writes <= 220,
        "{} writes in {rounds} rounds",
        world.cluster.writes
    );
}

#[test]
fn given_selectors_then_the_nodes_are_those_that_are_meant() {
    for (selector, count) in [
        (json!({"names": ["node-0000", "missing"]}), 1),
        (json!({"matchLabels": {"zone": "a"}}), 2),
        (
            json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
            2,
        ),
        (json!({}), 4),
    ] {
        let mut world = World::new(4, &json!({"selector": selector}));
        world.round();
        assert_eq!(world.status()["desired"], count, "{selector}");
    }
}

#[test]
fn given_an_image_nobody_can_read_then_it_is_said_and_nothing_is_done() {
    let mut world = World::new(1, &json!({"image": "NGINX"}));
    let plan = world.round();
    assert!(plan.is_idle());
    assert!(matches!(&plan.why[..], [Why::General(why::General::Invalid { .. })]));
}
