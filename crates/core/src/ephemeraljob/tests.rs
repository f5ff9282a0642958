//! Jobs in a model of a cluster.

mod admission;
mod properties;

use kruise_api::ephemeraljob::v1alpha1::EphemeralJob;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use serde_json::{Value, json};

use super::*;
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Env, FailureClass, Outcome, Why};

/// A job `job` and Pods `p0`, `p1`, … that its selector matches.
#[derive(Clone)]
struct World {
    cluster: Cluster,
    last_written: Option<Timestamp>,
    last: Outcome,
}

fn container(name: &str) -> Value {
    let fields = json!({"image": "busybox:1", "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"});
    let mut container = fields;
    container["name"] = json!(name);
    container
}

fn spec_with(changes: &Value) -> Value {
    let template = json!({"ephemeralContainers": [container("debug")]});
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    kruise_api::merge_patch::merge(&mut spec, changes);
    spec
}

impl World {
    /// The job has its finalizer already.
    fn new(pods: usize, changes: &Value) -> Self {
        let mut world = Self::fresh(pods, changes);
        world.round();
        world
    }

    fn fresh(pods: usize, changes: &Value) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        let job = json!({"metadata": {"name": "job", "namespace": "shop", "uid": "u-job"}, "spec": spec_with(changes)});
        cluster.put(EphemeralJob::RESOURCE, job);
        let mut world = Self {
            cluster,
            last_written: None,
            last: Outcome::default(),
        };
        for number in 0..pods {
            world.join(&format!("p{number}"));
        }
        world
    }

    fn join(&mut self, name: &str) {
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1"}]},
            "status": {"phase": "Running"},
        });
        self.cluster.put(Pod::RESOURCE, pod);
    }

    fn observe(&self) -> Observed {
        let job = self.cluster.get(EphemeralJob::RESOURCE, "job").unwrap();
        let job: EphemeralJob = serde_json::from_value(job.clone()).unwrap();
        let pods = self.cluster.all(Pod::RESOURCE);
        let pods = pods.map(|pod| Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        Observed {
            pods: pods
                .filter(|pod| select::matches(&job, |key| pod.metadata.label(key)))
                .collect(),
            job: Arc::new(job),
            last_written: self.last_written,
            last: self.last.clone(),
            ..Observed::default()
        }
    }

    fn is_there(&self) -> bool {
        self.cluster.get(EphemeralJob::RESOURCE, "job").is_some()
    }

    /// Plans, and applies at most so many writes.
    fn round_of(&mut self, writes: usize) -> Plan {
        let plan = plan(&self.observe(), &Env::at(self.cluster.now));
        let outcome = self.cluster.apply(&plan, writes);
        self.last = outcome.after(&self.last, self.cluster.now);
        plan
    }

    fn round(&mut self) -> Plan {
        let plan = self.round_of(usize::MAX);
        assert_eq!(self.last.failures, [], "{plan:#?}");
        plan
    }

    fn run(&mut self) {
        for _ in 0..30 {
            if !self.is_there() || self.round_of(usize::MAX).is_idle() {
                return;
            }
        }
        panic!("there is no end: {:#?}", self.round());
    }

    /// Pods that have containers of the job.
    fn injected(&self) -> Vec<String> {
        let has = |pod: &&Value| pod["spec"]["ephemeralContainers"].is_array();
        self.cluster.all(Pod::RESOURCE).filter(has).map(name_of).collect()
    }

    /// Lets a container of a Pod come to this state.
    fn set_one(&mut self, pod: &str, name: &str, state: &Value) {
        self.cluster.edit(Pod::RESOURCE, pod, |pod| {
            let list = &mut pod["status"]["ephemeralContainerStatuses"];
            if !list.is_array() {
                *list = json!([]);
            }
            let list = list.as_array_mut().unwrap();
            list.retain(|known| known["name"] != name);
            list.push(json!({"name": name, "state": state}));
        });
    }

    fn set(&mut self, pod: &str, state: &Value) {
        self.set_one(pod, "debug", state);
    }

    fn edit(&mut self, changes: &Value) {
        self.cluster.edit(EphemeralJob::RESOURCE, "job", |job| {
            kruise_api::merge_patch::merge(&mut job["spec"], changes);
        });
    }

    fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(Pod::RESOURCE, name, change);
    }

    fn job(&self) -> Value {
        self.cluster.get(EphemeralJob::RESOURCE, "job").unwrap().clone()
    }

    /// `phase match running succeeded waiting failed`.
    fn brief(&self) -> String {
        let status = &self.job()["status"];
        let number = |name: &str| status[name].clone();
        format!(
            "{} {} {} {} {} {}",
            status["phase"].as_str().unwrap(),
            number("match"),
            number("running"),
            number("succeeded"),
            number("waiting"),
            number("failed")
        )
    }

    /// The types of the conditions with their reasons.
    fn conditions(&self) -> Vec<String> {
        let conditions = self.job()["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        conditions
            .iter()
            .map(|condition| format!("{} {}", text(&condition["type"]), text(&condition["reason"])))
            .collect()
    }
}

fn running() -> Value {
    json!({"running": {"startedAt": "2026-05-01T10:00:00Z"}})
}

fn ended(code: i32) -> Value {
    json!({"terminated": {"exitCode": code, "finishedAt": "2026-05-01T10:00:05Z"}})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

#[test]
fn given_a_new_job_then_its_finalizer_is_written_first_and_then_a_pod() {
    let mut world = World::fresh(1, &json!({}));
    let plan = world.round();
    assert_eq!(plan.writes().count(), 1);
    assert!(plan.status.is_none() && world.injected().is_empty());
    assert_eq!(world.job()["metadata"]["finalizers"], json!([finalizer::EPHEMERAL_JOB]));
    world.round();
    assert_eq!(world.injected(), ["p0"]);
    assert_eq!(world.conditions(), ["Initialized Initialized"]);
    let pod = world.cluster.get(Pod::RESOURCE, "p0").unwrap();
    let mut expected = container("debug");
    expected["env"] = json!([{"name": "KRUISE_EJOB_ID", "value": "u-job"}]);
    assert_eq!(pod["spec"]["ephemeralContainers"], json!([expected]));
}

#[test]
fn given_three_pods_and_no_parallelism_then_one_after_the_other() {
    let mut world = World::new(3, &json!({}));
    for pod in ["p0", "p1", "p2"] {
        world.run();
        assert_eq!(world.injected().last().unwrap(), pod);
        let count = world.injected().len();
        for state in [waiting("ContainerCreating"), running()] {
            world.set(pod, &state);
            world.run();
            assert_eq!(world.injected().len(), count, "{state}");
        }
        assert!(world.brief().starts_with("Running 3 1"), "{}", world.brief());
        world.set(pod, &ended(0));
    }
    world.run();
    assert_eq!(world.brief(), "Succeeded 3 0 3 0 0");
    assert_eq!(
        world.conditions(),
        ["Initialized Initialized", "JobSucceeded JobSucceeded"]
    );
    assert!(is_finished(&world.observe().job));
}

#[test]
fn given_the_last_pods_then_they_are_not_forgotten() {
    let mut world = World::new(7, &json!({"parallelism": 5}));
    world.run();
    assert_eq!(world.injected().len(), 5);
    for pod in ["p0", "p1"] {
        world.set(pod, &ended(0));
    }
    for pod in ["p2", "p3", "p4"] {
        world.set(pod, &running());
    }
    world.run();
    assert_eq!(world.injected().len(), 7, "three run, so two more may");
}

#[test]
fn given_two_containers_then_a_pod_counts_by_both() {
    let both = json!({"template": {"ephemeralContainers": [container("a"), container("b")]}});
    let mut world = World::new(1, &both);
    world.run();
    for (a, b, expected) in [
        (waiting("ContainerCreating"), running(), "Running 1 1 0 0 0"),
        (ended(0), running(), "Running 1 1 0 0 0"),
        (ended(0), waiting("ErrImagePull"), "Waiting 1 0 0 1 0"),
    ] {
        world.set_one("p0", "a", &a);
        world.set_one("p0", "b", &b);
        world.run();
        assert_eq!(world.brief(), expected);
    }
    let mut failing = world.clone();
    failing.set_one("p0", "b", &ended(1));
    failing.run();
    assert_eq!(failing.brief(), "Failed 1 0 0 0 1");
    world.set_one("p0", "b", &ended(0));
    world.run();
    assert_eq!(world.brief(), "Succeeded 1 0 1 0 0");
}

#[test]
fn given_replicas_then_the_oldest_pods_are_chosen_and_too_few_never_succeed() {
    let mut world = World::new(3, &json!({"replicas": 2, "parallelism": 9}));
    world.run();
    assert_eq!(world.injected(), ["p0", "p1"]);
    world.edit(&json!({"replicas": 4}));
    for pod in ["p0", "p1", "p2"] {
        world.run();
        world.set(pod, &ended(0));
    }
    world.run();
    assert_eq!(world.brief(), "Unknown 3 0 3 0 0");
    assert!(world.round().why.contains(&Why::Jobs(why::Jobs::TooFewPods {
        matched: 3,
        replicas: 4
    })));
    world.edit(&json!({"replicas": 3}));
    world.run();
    assert_eq!(world.brief(), "Succeeded 3 0 3 0 0");
}

#[test]
fn given_a_name_from_elsewhere_then_that_pod_is_left_out() {
    let mut world = World::new(4, &json!({"parallelism": 9}));
    world.edit_pod("p0", |pod| {
        pod["spec"]["ephemeralContainers"] = json!([container("debug")]);
    });
    world.edit_pod("p1", |pod| pod["spec"]["containers"][0]["name"] = json!("debug"));
    world.edit_pod("p2", |pod| {
        pod["spec"]["ephemeralContainers"] = json!([container("other")]);
    });
    let plan = world.round();
    world.run();
    assert_eq!(world.injected(), ["p0", "p2", "p3"]);
    assert!(world.brief().starts_with("Unknown 2 "), "{}", world.brief());
    let pods = ["p0", "p1"].into_iter().collect();
    let left_out = why::Jobs::NameTaken {
        containers: vec!["debug".to_owned()],
        pods,
    };
    assert!(plan.why.contains(&Why::Jobs(left_out)), "{:?}", plan.why);
}

#[test]
fn given_pods_that_have_ended_or_go_then_they_are_not_chosen() {
    let mut world = World::new(3, &json!({"parallelism": 9}));
    world.edit_pod("p0", |pod| pod["status"]["phase"] = json!("Succeeded"));
    world.cluster.delete(Pod::RESOURCE, "p1");
    world.run();
    assert_eq!(world.injected(), ["p2"]);
}

#[test]
fn given_an_image_that_does_not_exist_then_the_others_are_not_held_up() {
    let mut world = World::new(2, &json!({}));
    world.run();
    world.set("p0", &waiting("ErrImagePull"));
    world.run();
    assert_eq!(world.injected(), ["p0", "p1"]);
    world.set("p1", &waiting("ImagePullBackOff"));
    world.run();
    assert_eq!(world.brief(), "Waiting 2 0 0 2 0");
    let why = world.round().why;
    let stuck = |cause: &str, pod: &str| {
        Why::Jobs(why::Jobs::CannotStart {
            cause: cause.to_owned(),
            pods: [pod].into_iter().collect(),
        })
    };
    assert!(
        why.contains(&stuck("ErrImagePull", "p0")) && why.contains(&stuck("ImagePullBackOff", "p1")),
        "{why:?}"
    );
}

#[test]
fn given_containers_that_cannot_be_run_then_the_job_fails_when_all_have_failed() {
    let mut world = World::new(2, &json!({"parallelism": 2}));
    world.run();
    world.set("p0", &waiting("RunContainerError"));
    world.run();
    assert_eq!(world.brief(), "Unknown 2 0 0 0 1");
    assert!(!is_finished(&world.observe().job));
    world.set("p1", &ended(3));
    world.run();
    assert_eq!(world.brief(), "Failed 2 0 0 0 2");
    assert_eq!(
        world.conditions(),
        ["Initialized Initialized", "JobFailed CreateFailed"]
    );
    assert!(is_finished(&world.observe().job));
}

#[test]
fn given_some_that_failed_then_the_deadline_ends_the_job_and_only_while_it_is_not_paused() {
    let mut world = World::new(2, &json!({"parallelism": 2, "activeDeadlineSeconds": 60}));
    world.run();
    world.set("p0", &ended(0));
    world.set("p1", &ended(1));
    world.run();
    assert_eq!(world.brief(), "Unknown 2 0 1 0 1");
    assert_eq!(world.round().wake_after, Some(Duration::from_mins(1)));
    world.edit(&json!({"paused": true}));
    world.cluster.pass(61);
    world.run();
    assert_eq!(world.brief(), "Paused 2 0 1 0 1");
    world.edit(&json!({"paused": false}));
    world.run();
    assert_eq!(world.brief(), "Failed 2 0 1 0 1");
    assert_eq!(
        world.conditions(),
        ["Initialized Initialized", "JobFailed DeadlineExceeded"]
    );
}

#[test]
fn given_a_pause_then_no_pod_gets_containers_and_what_runs_may_end_the_job() {
    let mut world = World::new(2, &json!({"paused": true}));
    world.run();
    assert!(world.injected().is_empty());
    assert_eq!(world.brief(), "Paused 2 0 0 0 0");
    world.edit(&json!({"paused": false, "replicas": 1}));
    world.run();
    assert_eq!(world.injected(), ["p0"]);
    world.edit(&json!({"paused": true}));
    world.set("p0", &ended(0));
    world.run();
    assert_eq!(world.brief(), "Paused 1 0 1 0 0");
    assert!(is_finished(&world.observe().job));
}

#[test]
fn given_no_pod_then_the_job_waits_and_writes_once() {
    let mut world = World::new(0, &json!({}));
    world.run();
    assert_eq!(world.brief(), "Waiting 0 0 0 0 0");
    assert_eq!(
        world.conditions(),
        ["Initialized Initialized", "MatchedEmpty MatchEmpty"]
    );
    for _ in 0..3 {
        world.cluster.pass(10);
        assert!(world.round().is_idle());
    }
    world.join("p0");
    world.run();
    assert_eq!(world.injected(), ["p0"]);
    let mut none = World::new(2, &json!({"selector": null}));
    none.run();
    assert_eq!(none.brief(), "Waiting 0 0 0 0 0");
    let mut all = World::new(2, &json!({"selector": {"matchLabels": null}}));
    all.run();
    assert_eq!(all.brief(), "Unknown 2 0 0 0 0");
}

#[test]
fn given_a_job_that_cannot_be_worked_on_then_it_says_what_is_wrong() {
    for (changes, says) in [
        (
            json!({"template": {"ephemeralContainers": []}}),
            "spec.template.ephemeralContainers: there are no containers",
        ),
        (
            json!({"template": {"ephemeralContainers": "debug"}}),
            "spec.template.ephemeralContainers: it is no list of containers",
        ),
        (
            json!({"template": {"ephemeralContainers": [{}]}}),
            "spec.template.ephemeralContainers[0]: it is no container with a name",
        ),
        (
            json!({"template": {"ephemeralContainers": [7]}}),
            "spec.template.ephemeralContainers[0]: it is no container with a name",
        ),
        (
            json!({"template": {"ephemeralContainers": [container("a"), container("a")]}}),
            "spec.template.ephemeralContainers[1]: there is another one of its name",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.selector: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
    ] {
        let mut world = World::new(1, &changes);
        world.run();
        assert_eq!(world.brief(), "Error 0 0 0 0 0", "{changes}");
        assert_eq!(world.conditions(), ["Initialized Initialized", "JobError JobError"]);
        assert_eq!(world.job()["status"]["conditions"][1]["message"], says);
        assert!(world.injected().is_empty());
        world.edit(
            &json!({"selector": {"matchExpressions": null}, "template": {"ephemeralContainers": [container("debug")]}}),
        );
        world.run();
        assert_eq!(world.injected(), ["p0"], "once it is mended it goes on");
    }
}

#[test]
fn given_a_pod_that_refuses_then_it_is_left_alone_and_others_have_their_turn() {
    let mut world = World::new(2, &json!({}));
    world.cluster.refuses = Some(|_, action| action.object().name == "p0");
    let plan = world.round_of(usize::MAX);
    let failure = world.last.failures.first().unwrap();
    assert_eq!(failure.class, FailureClass::Denied);
    let event = plan.actions[0].chains[0].writes[0].failed.as_ref().unwrap();
    assert_eq!(event.reason, "CreateFailed");
    let plan = world.round_of(usize::MAX);
    assert_eq!(world.injected(), ["p1"]);
    assert!(plan.wake_after.is_some());
    world.set("p1", &ended(0));
    world.run();
    assert_eq!(world.brief(), "Unknown 2 0 1 0 0");
    let refusal = |world: &World| {
        let job = world.job();
        let conditions = job["status"]["conditions"].as_array().unwrap().iter();
        let mut refusals = conditions.filter(|known| known["type"] == "FailedCreate");
        refusals
            .next()
            .map(|refusal| refusal["message"].as_str().unwrap().to_owned())
    };
    assert!(refusal(&world).is_some_and(|message| !message.is_empty()));
    assert!(
        world.round_of(usize::MAX).is_idle(),
        "it stays while the pod is left alone"
    );
    world.cluster.refuses = None;
    world.cluster.pass(2);
    world.run();
    assert_eq!((world.injected().len(), refusal(&world)), (2, None));
}

#[test]
fn given_a_user_who_sets_the_marker_then_the_job_sets_it() {
    let mut debug = container("debug");
    debug["env"] = json!([{"name": "KRUISE_EJOB_ID", "value": "other"}, {"name": "A", "value": "1"}]);
    let mut world = World::new(1, &json!({"template": {"ephemeralContainers": [debug]}}));
    world.run();
    let pod = world.cluster.get(Pod::RESOURCE, "p0").unwrap();
    let env = json!([{"name": "A", "value": "1"}, {"name": "KRUISE_EJOB_ID", "value": "u-job"}]);
    assert_eq!(pod["spec"]["ephemeralContainers"][0]["env"], env);
}

#[test]
fn given_an_ended_job_then_nothing_is_written_until_its_time_to_live_is_over() {
    for (ttl, seconds) in [(json!(5), 5), (json!(null), 1800), (json!(0), 0), (json!(-1), 0)] {
        let mut world = World::new(1, &json!({"ttlSecondsAfterFinished": ttl}));
        world.run();
        world.set("p0", &ended(0));
        world.round();
        assert!(is_finished(&world.observe().job));
        world.join("p1");
        world.edit(&json!({"parallelism": 9}));
        if seconds > 0 {
            let plan = world.round();
            assert!(plan.is_idle());
            assert_eq!(plan.wake_after, Some(Duration::from_secs(seconds)));
            world.cluster.pass(i64::try_from(seconds).unwrap());
        }
        world.round();
        assert!(!world.is_there(), "{ttl}");
        assert_eq!(world.injected(), ["p0"]);
    }
}

#[test]
fn given_a_deletion_then_the_finalizer_goes_and_pods_are_left_alone() {
    let mut world = World::new(2, &json!({}));
    world.run();
    world.cluster.edit(EphemeralJob::RESOURCE, "job", |job| {
        job["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
        job["metadata"]["finalizers"] = json!(["other.io/a", finalizer::EPHEMERAL_JOB]);
    });
    let plan = world.round();
    assert_eq!(plan.writes().count(), 1);
    assert_eq!(world.job()["metadata"]["finalizers"], json!(["other.io/a"]));
    assert!(world.round().is_idle());
}

#[test]
fn given_progress_that_was_written_just_now_then_only_counts_wait() {
    let mut world = World::new(3, &json!({"parallelism": 3}));
    world.run();
    world.set("p0", &running());
    world.run();
    world.last_written = Some(world.cluster.now);
    world.set("p1", &running());
    let plan = world.round();
    assert!(plan.status.is_none());
    assert_eq!(plan.wake_after, Some(Duration::from_secs(1)));
    for pod in ["p0", "p1", "p2"] {
        world.set(pod, &ended(0));
    }
    assert!(world.round().status.is_some(), "the end does not wait");
}

#[test]
fn given_a_job_that_the_original_left_behind_then_nothing_is_written() {
    // As it was recorded, with the empty resources that the original writes into containers.
    let seen = "2026-11-15T08:12:34Z";
    let condition = |type_: &str, reason: &str| json!({"type": type_, "reason": reason, "status": "True", "lastProbeTime": seen, "lastTransitionTime": seen});
    let mut empty = condition("MatchedEmpty", "MatchEmpty");
    empty["message"] = json!("job match no pods");
    let mut debug = container("debug");
    debug["resources"] = json!({});
    let job = json!({
        "metadata": {"name": "job", "namespace": "shop", "uid": "u-job", "finalizers": [finalizer::EPHEMERAL_JOB]},
        "spec": spec_with(&json!({"template": {"ephemeralContainers": [debug]}})),
        "status": {
            "conditions": [condition("Initialized", "Initialized"), empty], "phase": "Waiting", "startTime": seen,
            "match": 0, "running": 0, "succeeded": 0, "waiting": 0, "failed": 0,
        },
    });
    let mut world = World::fresh(0, &json!({}));
    world.cluster.put(EphemeralJob::RESOURCE, job.clone());
    assert!(world.round().is_idle());
    let mut ended = job;
    ended["status"]["phase"] = json!("Failed");
    ended["status"]["completionTime"] = json!("2026-05-01T10:00:00Z");
    world.cluster.put(EphemeralJob::RESOURCE, ended);
    world.join("p0");
    assert!(world.round().is_idle());
}
