//! Images are pulled and containers restarted as the original did when it was recorded: webhooks, manager, daemons, runtimes and kubelets together.
//!
//! The user's steps are done once more. After each, everything that was seen since the beginning has to be what the recording has up to there.
//!
//! # What is compared
//!
//! - of ImagePullJobs, ImageListPullJobs and ContainerRecreateRequests: all states in their order, with labels, annotations, finalizers, owners, generation,
//!   spec and status, to the end of the object; and that there are no others;
//! - of NodeImages: for each node and image what is asked of the node and what the node answers, in order;
//! - of the Pod that requests are about: the states of its condition `KruisePodReady`, how often each container was restarted in a step, and the hashes that
//!   the daemon tells of its containers;
//! - events of manager and daemons, with their counts;
//! - refusals.
//!
//! # What is not, and why
//!
//! | what | why | how |
//! |---|---|---|
//! | times, uids, names made by the API server, digests | chance | any will do, but a reference has to lead to the right object |
//! | ids of containers | chance | `b+1` is the container that came after the one that `b` had when the request was made; counts of restarts are told in the same way |
//! | progress of a job between its first and its last state | two nodes may end at the same moment | may be left out, but nothing else may be there |
//! | that a node says `Waiting` or `Pulling` | depends on how long a pull takes | left out |
//! | which nodes have failed while others still pull | chance | only how many |
//! | counts of a NodeImage | other tests use the same nodes | left out |
//! | a container that ends as soon as it has started: how often it was restarted, and whether it was seen to be ready | depends on the kubelet | left out |
//! | the Pod as such, and the set that owns it | has recordings of its own | left out |
//!
//! # What is done in another way
//!
//! The recording takes four minutes, most of it waiting: for deadlines, and for kubelets, which wait longer with each restart of a container. So some seconds are
//! shorter ([`fixture::SHORTER`]), a request whose time to live is over may go in an earlier step, and steps that do not need each other are done at the same time, in namespaces of their own ([`LANES`]).
//! Images come from a registry of this test. It holds those of the list until all its jobs have begun: our daemons report a short pull at once, so that the jobs would
//! not meet. What differs on purpose is in [`differences`].

mod differences;
mod fixture;
mod live;

use std::{collections::BTreeMap, time::Duration};

use http::{Request, header::CONTENT_TYPE};
use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};
use kruise_testkit::eventually::{NotYet, eventually, run_test};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use self::{
    fixture::{Asked, Recorded, Step, alike, steps},
    live::{Recording, items, text},
};
use super::{
    registry::Registry,
    world::{DAEMONS, Node, kubectl},
};

/// Longer than the longest step, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const PORT: u16 = 15066;

/// Steps that follow each other, by their numbers in the recording.
///
/// The first is about images. The second restarts `b` so often that its kubelet begins to wait, as the recording needs it. The third restarts `a` and then both.
/// Their Pods are on the third node, as then: other tests kill the daemons of the first two. The first lane needs all three, so it does not run at the same time as these tests.
const LANES: [(&str, &[&str]); 3] = [
    ("node1", &["01", "02", "03", "04", "05"]),
    ("node3", &["06", "07", "10", "11", "12", "13", "14", "15"]),
    ("node3", &["06", "08", "09"]),
];

/// Before this step `b` ends by itself. The kubelet then waits ten seconds before it starts it again, and twenty after the end that the step is about: enough for
/// all that has to happen meanwhile, on a busy machine too.
const TWICE: &str = "10";

#[test]
fn given_the_steps_of_the_recording_then_images_and_restarts_go_the_same_way() {
    run_test(Duration::from_mins(6), async {
        let registry = Registry::start(PORT);
        let [images, others @ ..] = LANES.map(|(node, numbers)| replay(&registry, node, numbers));
        let images = async {
            let _counts = DAEMONS.write().await;
            images.await;
        };
        tokio::join!(images, futures::future::join_all(others));
    });
}

async fn replay(registry: &Registry, node: &'static str, numbers: &[&str]) {
    let node = Node::new(node).await;
    let space = node.space.name();
    let mut lane = Lane {
        recording: Recording::start(&node.client, space).await,
        images: ["open", "held", "absent"].map(|kind| registry.image(&format!("{kind}/{space}"))),
        registry,
        recorded: Recorded::default(),
        node,
    };
    let steps = steps();
    for number in numbers {
        if *number == TWICE {
            lane.ends_by_itself("b").await;
        }
        let step = steps.iter().find(|step| step.name.starts_with(number)).unwrap();
        lane.step(step).await;
    }
}

struct Lane<'a> {
    node: Node,
    recording: Recording,
    registry: &'a Registry,
    /// Where images are that can be pulled, that can be pulled when all have been asked for, and where none is.
    images: [String; 3],
    /// All that was recorded up to here.
    recorded: Recorded,
}

impl Lane<'_> {
    async fn step(&mut self, step: &Step) {
        // A request counts what starts in the second in which it is made, also right before it.
        eventually(PATIENCE, "the second of the last start is over", || async {
            let start = self.recording.seen().last_start();
            let is_over = start.is_none_or(|start| start.as_second() < Timestamp::now().as_second());
            is_over.then_some(()).ok_or_else(|| NotYet::new(format!("{start:?}")))
        })
        .await;
        let began = std::time::Instant::now();
        let before = self.recording.seen().restarts();
        self.recorded.take(step);
        for request in &step.requests {
            let mut request = self.named(request);
            if let Some(template) = request
                .body
                .as_mut()
                .and_then(|body| body.pointer_mut("/spec/template/spec"))
            {
                template["nodeSelector"] = json!({"kubernetes.io/hostname": self.node.name});
            }
            self.request(&request).await;
        }
        if json!(step.requests).to_string().contains("$HELD") {
            eventually(PATIENCE, "all jobs of the list have begun", || async {
                let objects = self.recording.seen().objects();
                let list = objects.get("ImageListPullJob/list").and_then(|states| states.last());
                same(
                    "active jobs",
                    &json!(2),
                    &list.unwrap_or(&Value::Null)["status"]["active"],
                )
            })
            .await;
            self.registry.release();
        }
        let what = format!("{}: {}", step.name, step.what);
        eventually(PATIENCE, &what, || async {
            self.compare()?;
            self.compare_pod(step, &before)?;
            self.compare_events().await
        })
        .await;
        tracing::info!(step = step.name, took = ?began.elapsed(), "as recorded");
    }

    /// Ends a container from inside, and waits until the kubelet has started it again.
    async fn ends_by_itself(&self, container: &str) {
        let restarts = || self.recording.seen().restarts()[container];
        let before = restarts();
        let pod = self.named(&"$POD".to_owned());
        kubectl(&[
            "exec",
            "-n",
            self.node.space.name(),
            &pod,
            "-c",
            container,
            "--",
            "kill",
            "1",
        ]);
        eventually(PATIENCE, "the container is back", || async {
            (restarts() > before)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{before} restarts")))
        })
        .await;
    }

    /// What was recorded, with the names that things have here.
    fn named<T: serde::Serialize + serde::de::DeserializeOwned>(&self, recorded: &T) -> T {
        let seen = self.recording.seen();
        let (pod, hash) = (seen.pod().last(), seen.list_hash());
        let words = [
            ("$NS", Some(self.node.space.name())),
            ("$OPEN", Some(&self.images[0])),
            ("$HELD", Some(&self.images[1])),
            ("$ABSENT", Some(&self.images[2])),
            ("$POD", pod.map(|pod| text(&pod["metadata"]["name"]))),
            ("$UID", pod.map(|pod| text(&pod["metadata"]["uid"]))),
            ("$NODE", pod.map(|pod| text(&pod["spec"]["nodeName"]))),
            ("$HASH", hash.as_deref()),
        ];
        let mut named = json!(recorded).to_string();
        for (word, name) in words {
            named = name.map_or(named.clone(), |name| named.replace(word, name));
        }
        serde_json::from_str(&named).unwrap()
    }

    async fn request(&self, asked: &Asked) {
        let group = if asked.path.starts_with("pods") {
            "/api/v1"
        } else {
            "/apis/apps.kruise.io/v1beta1"
        };
        let body = asked
            .body
            .as_ref()
            .map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let call = Request::builder()
            .method(asked.verb.as_str())
            .uri(format!("{group}/namespaces/{}/{}", self.node.space.name(), asked.path))
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap();
        let answer = self.node.client.request::<Value>(call).await;
        match (answer, &asked.refused) {
            (Ok(_), None) => {}
            (Err(kube::Error::Api(status)), Some(refused)) => {
                assert_eq!(status.code, refused.code, "{status:?}");
                assert!(
                    status.message.contains("denied the request") && status.message.contains(&refused.sentence),
                    "{status:?}"
                );
            }
            (answer, refused) => panic!("{} {}: {refused:?}, {answer:?}", asked.verb, asked.path),
        }
    }

    /// Objects and images.
    fn compare(&self) -> Result<(), NotYet> {
        same_fates(&self.named(&self.recorded.objects), &self.recording.seen().objects())?;
        same_fates(
            &self.named(&self.recorded.tags),
            &self.recording.seen().tags(&self.images),
        )
    }

    fn compare_pod(&self, step: &Step, before: &BTreeMap<String, i64>) -> Result<(), NotYet> {
        let recorded = self.named(&self.recorded.ready);
        let seen = self.recording.seen();
        same("KruisePodReady", &recorded, &seen.ready())?;
        let now = seen.restarts();
        for (container, times) in &step.pod.restarts {
            let seen = now.get(container).map(|now| now - before.get(container).unwrap_or(&0));
            same(&format!("restarts of {container}"), &json!(times), &json!(seen))?;
        }
        let Some(hashes) = &step.pod.hashes else { return Ok(()) };
        let meta = seen.containers_meta();
        same(
            "hashes",
            hashes,
            &meta
                .iter()
                .map(|(name, container)| (name.clone(), container["hashes"].clone()))
                .collect(),
        )?;
        for status in seen
            .pod()
            .last()
            .map(|pod| items(&pod["status"]["containerStatuses"]))
            .unwrap_or_default()
        {
            let container = &meta[text(&status["name"])];
            for field in ["containerID", "restartCount"] {
                same(field, &status[field], &container[field])?;
            }
        }
        Ok(())
    }

    async fn compare_events(&self) -> Result<(), NotYet> {
        let events: Api<Event> = self.node.space.api();
        let mut lines = Vec::new();
        for event in events.list(&ListParams::default()).await?.items {
            let event = json!(event);
            let about = &event["involvedObject"];
            let component = text(&event["reportingComponent"]);
            if ["kubelet", "default-scheduler"].contains(&component) {
                continue;
            }
            same("source", &json!(component), &event["source"]["component"])?;
            lines.push(format!(
                "{}/{}{} {} {} {} {component}: {}",
                text(&about["kind"]),
                text(&about["name"]),
                text(&about["fieldPath"]).trim_start_matches("spec.containers"),
                text(&event["type"]),
                text(&event["reason"]),
                event["count"],
                text(&event["message"]),
            ));
        }
        lines.sort();
        let mut recorded = self.named(&self.recorded.events);
        recorded.sort();
        same("events", &json!(recorded), &json!(lines))
    }
}

/// What became of objects, by their names.
fn same_fates(recorded: &BTreeMap<String, Vec<Value>>, seen: &BTreeMap<String, Vec<Value>>) -> Result<(), NotYet> {
    let names = |fates: &BTreeMap<String, Vec<Value>>| fates.keys().map(|name| json!(name)).collect();
    same("objects", &names(recorded), &names(seen))?;
    for (name, recorded) in recorded {
        if !differences::same_way(recorded, &seen[name]) {
            let lines = |states: &[Value]| states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            return Err(NotYet::new(format!(
                "{name} was\n{}\nand is\n{}",
                lines(recorded),
                lines(&seen[name])
            )));
        }
    }
    Ok(())
}

fn same(what: &str, recorded: &Value, seen: &Value) -> Result<(), NotYet> {
    if alike(recorded, seen) {
        return Ok(());
    }
    Err(NotYet::new(format!("{what} were\n{recorded}\nand are\n{seen}")))
}
