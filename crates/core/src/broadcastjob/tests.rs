//! Jobs in a model of a cluster.

mod properties;
mod takeover;

use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::kind::Kind as _;
use kruise_api::names::label;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use serde_json::{Value, json};

use super::*;
use crate::plan::harness::{Cluster, name_of};
use crate::plan::{Action, Env};

/// A job `job`, and nodes with as much room as needed.
#[derive(Clone)]
struct World {
    cluster: Cluster,
    is_scheduled: bool,
    last_written: Option<Timestamp>,
    last: Outcome,
}

fn spec() -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]});
    json!({
        "parallelism": i32::MAX, "completionPolicy": {"type": "Always"}, "failurePolicy": {"type": "FailFast"},
        "template": {"metadata": {"labels": {"app": "job"}}, "spec": pod},
    })
}

fn spec_with(changes: &Value) -> Value {
    let mut spec = spec();
    kruise_api::merge_patch::merge(&mut spec, changes);
    spec
}

impl World {
    fn new(nodes: usize, changes: &Value) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        let job = json!({"metadata": {"name": "job", "namespace": "shop", "uid": "u-job"}, "spec": spec_with(changes)});
        cluster.put(BroadcastJob::RESOURCE, job);
        let mut world = Self {
            cluster,
            is_scheduled: true,
            last_written: None,
            last: Outcome::default(),
        };
        for number in 0..nodes {
            world.join(&format!("n{number}"));
        }
        world
    }

    fn join(&mut self, name: &str) {
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "10", "cpu": "4"}}});
        self.cluster.put(Node::RESOURCE, node);
    }

    fn observe(&self) -> Observed {
        let read = |object: &Value| serde_json::from_value(object.clone()).unwrap();
        let pods = self.cluster.all(Pod::RESOURCE);
        let nodes = self.cluster.all(Node::RESOURCE);
        Observed {
            job: Arc::new(
                serde_json::from_value(self.cluster.get(BroadcastJob::RESOURCE, "job").unwrap().clone()).unwrap(),
            ),
            pods: pods
                .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
                .collect(),
            nodes: nodes.map(|node| Arc::new(read(node))).collect(),
            is_scheduled: self.is_scheduled,
            last_written: self.last_written,
            last: self.last.clone(),
            ..Observed::default()
        }
    }

    /// Plans, and applies at most so many writes.
    fn round_of(&mut self, writes: usize) -> Plan {
        let plan = plan(&self.observe(), &Env::at(self.cluster.now));
        self.last = self.cluster.apply(&plan, writes);
        plan
    }

    fn round(&mut self) -> Plan {
        let plan = self.round_of(usize::MAX);
        assert_eq!(self.last.failures, [], "{plan:#?}");
        plan
    }

    fn run(&mut self) {
        for _ in 0..30 {
            if self.cluster.get(BroadcastJob::RESOURCE, "job").is_none() || self.round_of(usize::MAX).is_idle() {
                return;
            }
        }
        panic!("there is no end: {:#?}", self.round());
    }

    fn pods(&self) -> Vec<Value> {
        self.cluster.all(Pod::RESOURCE).cloned().collect()
    }

    fn pod_on(&self, node: &str) -> Option<String> {
        let pods = self.observe().pods;
        let found = pods.iter().find(|pod| counts::node_of(pod) == node)?;
        Some(found.metadata.name.to_string())
    }

    /// Lets the Pod of a node come to this phase.
    fn set(&mut self, node: &str, phase: &str) {
        let name = self.pod_on(node).unwrap();
        let node = node.to_owned();
        self.cluster.edit(Pod::RESOURCE, &name, |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"]["phase"] = json!(phase);
        });
    }

    fn set_all(&mut self, phase: &str) {
        for pod in self.observe().pods {
            self.set(counts::node_of(&pod), phase);
        }
    }

    /// Pods that are on their way out are gone.
    fn remove_terminating(&mut self) {
        let leaving = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_some();
        let names: Vec<String> = self.cluster.all(Pod::RESOURCE).filter(leaving).map(name_of).collect();
        for name in names {
            self.cluster.objects.remove(&(Pod::RESOURCE, name));
        }
    }

    fn edit(&mut self, changes: &Value) {
        self.cluster.edit(BroadcastJob::RESOURCE, "job", |job| {
            kruise_api::merge_patch::merge(&mut job["spec"], changes);
        });
    }

    fn edit_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(Node::RESOURCE, name, change);
    }

    fn status(&self) -> Value {
        self.cluster.get(BroadcastJob::RESOURCE, "job").unwrap()["status"].clone()
    }

    /// `desired active succeeded failed phase`.
    fn brief(&self) -> String {
        let status = self.status();
        format!(
            "{} {} {} {} {}",
            status["desired"],
            status["active"],
            status["succeeded"],
            status["failed"],
            status["phase"].as_str().unwrap()
        )
    }
}

fn events(plan: &Plan) -> Vec<&'static str> {
    let writes = plan.actions.iter().flat_map(|step| &step.chains);
    let writes = writes
        .flat_map(|chain| &chain.writes)
        .flat_map(|write| &write.succeeded);
    writes.chain(&plan.events).map(|event| event.reason).collect()
}

fn reasons(plan: &Plan) -> Vec<String> {
    let name = |why: &crate::plan::Why| json!(why)["reason"].as_str().unwrap().to_owned();
    plan.why.iter().map(name).collect()
}

#[test]
fn given_a_pod_that_cannot_be_read_then_no_other_is_made_and_the_job_looks_again() {
    let mut world = World::new(2, &json!({}));
    let mut seen = world.observe();
    let head = json!({"metadata": {"name": "job-x", "namespace": "shop"}});
    seen.unreadable = vec![Arc::new(serde_json::from_value(head).unwrap())];
    let plan = plan(&seen, &Env::at(world.cluster.now));
    assert_eq!(plan.writes().next(), None);
    assert!(
        plan.wake_after.is_some(),
        "nobody tells the job that such a Pod is gone"
    );
    world.run();
    assert_eq!(world.pods().len(), 2);
}

#[test]
fn given_three_nodes_then_each_runs_a_pod_and_the_job_is_complete() {
    let mut world = World::new(3, &json!({}));
    let plan = world.round();
    assert_eq!(events(&plan), ["SuccessfulCreate"; 3]);
    assert_eq!(world.brief(), "3 0 0 0 running");
    let pods = world.pods();
    let pod = &pods[0];
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "job", (label::BROADCAST_JOB_NAME): "job", (label::BROADCAST_JOB_UID): "u-job"})
    );
    assert_eq!(pod["metadata"]["generateName"], "job-");
    let node = world.observe().pods[0].clone();
    let node = counts::node_of(&node);
    assert_eq!(
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]})
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["uid"], &owner["blockOwnerDeletion"]),
        (&json!("apps.kruise.io/v1beta1"), &json!("u-job"), &json!(true))
    );

    world.round();
    assert_eq!(world.brief(), "3 3 0 0 running");
    world.set_all("Succeeded");
    let plan = world.round();
    assert_eq!(events(&plan), ["JobComplete"]);
    assert_eq!(
        plan.events[0].message,
        "Job shop/job is completed, 3 pods succeeded, 0 pods failed"
    );
    assert_eq!(world.brief(), "3 0 3 0 completed");
    let now = "2026-05-01T10:00:00Z";
    assert_eq!(
        world.status()["conditions"],
        json!([{"type": "Complete", "status": "True", "reason": "Complete", "lastProbeTime": now,
            "lastTransitionTime": now, "message": "Job completed, 3 pods succeeded, 0 pods failed"}])
    );
    world.join("n9");
    world.set("n0", "Failed");
    assert!(world.round().is_idle(), "what is complete stays as it is");
}

#[test]
fn given_no_scheduler_then_pods_name_their_node_and_keep_their_affinity() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}]}}});
    let mut world = World::new(1, &json!({"template": {"spec": {"affinity": affinity}}}));
    world.is_scheduled = false;
    world.round();
    let pod = &world.pods()[0];
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["spec"]["affinity"]),
        (&json!("n0"), &affinity)
    );
}

#[test]
fn given_parallelism_then_so_many_run_and_the_next_follows() {
    for (parallelism, most) in [(json!(1), 1), (json!("34%"), 2), (json!("34"), 2), (json!(0), 0)] {
        let mut world = World::new(3, &json!({"parallelism": parallelism}));
        world.round();
        assert_eq!(world.pods().len(), most, "{parallelism}");
        let plan = world.round();
        assert_eq!(world.pods().len(), most, "{parallelism}");
        assert!(reasons(&plan).contains(&"jobRunning".to_owned()));
        if most > 0 {
            world.set("n0", "Succeeded");
            world.round();
            assert_eq!(world.pods().len(), most + 1);
        }
    }
    let mut world = World::new(1, &json!({"parallelism": "many"}));
    assert_eq!(reasons(&world.round()), ["invalid"]);
    assert_eq!(world.pods().len(), 0);
}

#[test]
fn given_less_parallelism_than_before_then_people_are_told_and_nobody_is_deleted() {
    let mut world = World::new(3, &json!({}));
    world.round();
    world.edit(&json!({"parallelism": 1}));
    assert_eq!(events(&world.round()), ["TooManyActivePods"]);
    assert_eq!(world.pods().len(), 3);
}

#[test]
fn given_nodes_that_do_not_fit_then_they_are_left_out_until_they_do() {
    let mut world = World::new(
        4,
        &json!({"template": {"spec": {"containers": [
        {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "2"}}}]}}}),
    );
    world.edit_node("n0", |node| node["spec"] = json!({"unschedulable": true}));
    world.edit_node("n1", |node| {
        node["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    });
    world.edit_node("n2", |node| node["status"]["allocatable"]["cpu"] = json!("1"));
    let plan = world.round();
    assert_eq!(world.brief(), "1 0 0 0 running");
    let unfit: Vec<String> = plan.why.iter().map(ToString::to_string).collect();
    for cause in [
        "they are cordoned: n0",
        "k:NoSchedule is not tolerated: n1",
        "too little cpu: n2",
    ] {
        assert!(unfit.iter().any(|why| why.contains(cause)), "{unfit:?}");
    }
    world.edit_node("n1", |node| node["spec"] = json!({}));
    world.round();
    assert_eq!(world.pods().len(), 2);
    assert_eq!(world.brief(), "2 1 0 0 running");
}

#[test]
fn given_a_node_that_stops_fitting_then_its_pod_goes_ended_or_not() {
    let mut world = World::new(3, &json!({"template": {"spec": {"nodeSelector": {"zone": "a"}}}}));
    for node in ["n0", "n1", "n2"] {
        world.edit_node(node, |node| node["metadata"]["labels"] = json!({"zone": "a"}));
    }
    world.round();
    world.set("n0", "Succeeded");
    for node in ["n0", "n1"] {
        world.edit_node(node, |node| node["metadata"]["labels"] = json!({"zone": "b"}));
    }
    assert_eq!(events(&world.round()), ["SuccessfulDelete"; 2]);
    world.remove_terminating();
    world.set("n2", "Succeeded");
    world.round();
    assert_eq!(world.brief(), "1 0 1 0 completed");
}

#[test]
fn given_a_broken_required_affinity_then_pods_that_are_there_stay() {
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}]);
    let mut world = World::new(
        1,
        &json!({"template": {"spec": {"affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}}),
    );
    world.round();
    world.set("n0", "Running");
    world.edit_node("n0", |node| node["metadata"]["labels"] = json!({"zone": "a"}));
    world.round();
    assert_eq!(world.brief(), "1 1 0 0 running");
}

#[test]
fn given_fail_fast_then_a_failed_pod_ends_the_job_and_the_others() {
    let mut world = World::new(3, &json!({}));
    world.round();
    world.set("n0", "Failed");
    world.set("n1", "Running");
    let plan = world.round();
    assert_eq!(
        events(&plan),
        ["failed pod is found", "SuccessfulDelete", "SuccessfulDelete"]
    );
    assert_eq!(world.brief(), "3 0 0 3 failed");
    let condition = &world.status()["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"]),
        (
            &json!("Failed"),
            &json!("Failed"),
            &json!("failure policy is FailurePolicyTypeFailFast and failed pod is found")
        )
    );
    world.remove_terminating();
    assert!(world.round().is_idle());
    assert_eq!(world.pods().len(), 1);
}

#[test]
fn given_a_crash_after_the_word_then_the_pods_of_a_failed_job_go_all_the_same() {
    let mut world = World::new(3, &json!({}));
    world.round();
    world.set("n0", "Failed");
    world.round_of(1);
    assert_eq!(world.brief(), "3 0 0 3 failed");
    assert_eq!(events(&world.round()), ["SuccessfulDelete"; 2]);
    world.remove_terminating();
    assert!(world.round().is_idle());
}

#[test]
fn given_continue_then_the_job_completes_with_failures() {
    let mut world = World::new(2, &json!({"failurePolicy": {"type": "Continue"}}));
    world.round();
    world.set("n0", "Failed");
    world.round();
    assert_eq!(world.brief(), "2 1 0 1 running");
    world.set("n1", "Succeeded");
    world.round();
    assert_eq!(world.brief(), "2 0 1 1 completed");
}

#[test]
fn given_pause_then_no_pods_are_made_until_the_failed_one_is_gone() {
    let mut world = World::new(2, &json!({"failurePolicy": {"type": "Pause"}, "parallelism": 1}));
    world.round();
    world.set("n0", "Failed");
    let plan = world.round();
    assert_eq!(
        (events(&plan), reasons(&plan)),
        (vec!["Paused"], vec!["pausedByFailure".to_owned()])
    );
    assert_eq!(world.brief(), "2 0 0 1 paused");
    let plan = world.round();
    assert!(plan.is_idle() && plan.events.is_empty(), "it is said once");
    let name = world.pod_on("n0").unwrap();
    world.cluster.delete(Pod::RESOURCE, &name);
    world.remove_terminating();
    assert_eq!(events(&world.round()), ["SuccessfulCreate", "Continue"]);
    assert_eq!(world.pods().len(), 1);
    assert_eq!(world.brief(), "2 0 0 0 running");
}

#[test]
fn given_restarts_then_a_pod_fails_above_the_limit_and_runs_on() {
    let mut world = World::new(
        1,
        &json!({
            "failurePolicy": {"type": "Continue", "restartLimit": 2}, "template": {"spec": {"restartPolicy": "OnFailure"}},
            "completionPolicy": {"activeDeadlineSeconds": 20},
        }),
    );
    world.round();
    let name = world.pod_on("n0").unwrap();
    for (main, init, brief) in [(1, 1, "1 1 0 0 running"), (2, 1, "1 0 0 1 running")] {
        world.cluster.edit(Pod::RESOURCE, &name, |pod| {
            pod["status"]["containerStatuses"] = json!([{"name": "main", "restartCount": main}]);
            pod["status"]["initContainerStatuses"] = json!([{"name": "init", "restartCount": init}]);
        });
        world.round();
        assert_eq!(world.brief(), brief);
    }
    assert!(reasons(&world.round()).contains(&"failedNotEnded".to_owned()));
    world.cluster.pass(20);
    world.round();
    assert_eq!(world.brief(), "1 0 0 1 failed");
    assert!(world.round().is_idle());
    assert!(
        world.pods()[0]["metadata"].get("deletionTimestamp").is_none(),
        "as recorded"
    );
}

#[test]
fn given_a_deadline_then_it_is_waited_for_in_every_round_and_not_while_paused() {
    let mut world = World::new(1, &json!({"completionPolicy": {"activeDeadlineSeconds": 5}}));
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(5)));
    world.cluster.pass(2);
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(3)));
    world.edit(&json!({"paused": true}));
    world.cluster.pass(10);
    world.round();
    assert_eq!(world.brief(), "1 1 0 0 paused");
    world.edit(&json!({"paused": false}));
    let plan = world.round();
    assert_eq!(events(&plan), ["DeadlineExceeded", "SuccessfulDelete"]);
    assert_eq!(world.brief(), "1 0 0 1 failed");
    assert_eq!(
        world.status()["conditions"][0]["message"],
        "Job shop/job was active longer than specified deadline"
    );
}

#[test]
fn given_a_paused_job_then_nothing_is_made_until_it_goes_on() {
    let mut world = World::new(2, &json!({"paused": true}));
    assert_eq!(reasons(&world.round()), ["jobPaused"]);
    assert_eq!((world.brief(), world.pods().len()), ("2 0 0 0 paused".to_owned(), 0));
    assert!(world.round().is_idle());
    world.edit(&json!({"paused": false}));
    assert_eq!(
        events(&world.round()),
        ["SuccessfulCreate", "SuccessfulCreate", "Continue"]
    );
}

#[test]
fn given_never_then_new_nodes_are_served_and_there_is_no_end() {
    let mut world = World::new(1, &json!({"completionPolicy": {"type": "Never"}}));
    world.round();
    world.set_all("Succeeded");
    world.round();
    assert_eq!(world.brief(), "1 0 1 0 running");
    assert!(world.round().is_idle());
    world.join("n1");
    world.round();
    assert_eq!(world.pods().len(), 2);
    world.set("n1", "Failed");
    world.round();
    assert_eq!(world.brief(), "2 0 1 1 failed");
    world.join("n2");
    world.run();
    assert_eq!(world.pods().len(), 2, "a failed job makes no Pods");
    assert_eq!(world.brief(), "3 0 1 1 failed");
}

#[test]
fn given_no_node_then_the_job_is_not_complete() {
    let mut world = World::new(0, &json!({}));
    assert_eq!(reasons(&world.round()), ["noNodeFits"]);
    assert_eq!(world.brief(), "0 0 0 0 running");
}

#[test]
fn given_an_end_then_the_job_goes_after_its_time() {
    let mut world = World::new(1, &json!({"completionPolicy": {"ttlSecondsAfterFinished": 15}}));
    world.round();
    world.set_all("Succeeded");
    world.round();
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(15)));
    world.cluster.pass(15);
    world.round();
    assert!(world.cluster.get(BroadcastJob::RESOURCE, "job").is_none());
}

#[test]
fn given_a_node_that_goes_away_in_mid_run_then_it_is_no_longer_desired() {
    let mut world = World::new(2, &json!({}));
    world.round();
    world.set("n0", "Succeeded");
    world.set("n1", "Running");
    world.cluster.objects.remove(&(Node::RESOURCE, "n1".to_owned()));
    let plan = world.round();
    assert_eq!(events(&plan), ["JobComplete"], "the Pod itself is collected by others");
    assert_eq!(
        world.brief(),
        "1 1 1 0 completed",
        "its Pod is counted until it is collected"
    );
}

#[test]
fn given_a_node_that_goes_before_its_pod_is_there_then_the_pod_gives_its_place_away() {
    let mut world = World::new(2, &json!({"parallelism": 1}));
    world.round();
    assert!(world.pod_on("n0").is_some());
    world.cluster.objects.remove(&(Node::RESOURCE, "n0".to_owned()));
    assert_eq!(events(&world.round()), ["SuccessfulDelete"]);
    world.remove_terminating();
    world.run();
    assert_eq!(world.brief(), "1 1 0 0 running");
    assert!(world.pod_on("n1").is_some());
}

#[test]
fn given_refused_pods_then_a_condition_says_why_and_goes_when_they_can_be_made() {
    let mut world = World::new(2, &json!({}));
    world.cluster.refuses = Some(|_, action| matches!(action, Action::Create { .. }));
    let plan = world.round_of(usize::MAX);
    let chain = &plan.actions[0].chains[0];
    assert_eq!(chain.writes[0].failed.as_ref().unwrap().message, "Error creating");
    let plan = world.round_of(usize::MAX);
    let condition = &world.status()["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("FailedCreate"), &json!("FailedCreate"))
    );
    assert!(condition["message"].as_str().unwrap().contains("forbidden"));
    assert!(reasons(&plan).contains(&"failed".to_owned()));
    assert_eq!(world.brief(), "2 0 0 0 running", "what was refused is not active");
    world.cluster.refuses = None;
    world.round();
    world.round();
    assert_eq!(world.pods().len(), 2);
    assert!(world.status()["conditions"].as_array().is_none_or(Vec::is_empty));
}

#[test]
fn given_two_pods_for_one_node_then_people_are_told() {
    let mut world = World::new(1, &json!({}));
    world.round();
    let mut second = world.pods()[0].clone();
    second["metadata"]["name"] = json!("job-second");
    world.cluster.put(Pod::RESOURCE, second);
    assert_eq!(events(&world.round()), ["DuplicatePodCreatedOnSameNode"]);
    assert_eq!(world.brief(), "1 2 0 0 running");
}

#[test]
fn given_progress_then_it_is_written_once_a_second_and_what_matters_at_once() {
    let mut world = World::new(3, &json!({}));
    world.round();
    world.last_written = Some(world.cluster.now);
    let plan = world.round();
    assert!(plan.is_idle());
    assert_eq!(plan.wake_after, Some(Duration::from_secs(1)));
    world.set("n0", "Failed");
    world.round();
    assert_eq!(world.brief(), "3 0 0 3 failed");
}

#[test]
fn given_a_template_that_cannot_be_read_then_the_plan_says_so() {
    let mut world = World::new(1, &json!({"template": {"spec": {"containers": 3}}}));
    assert_eq!(reasons(&world.round()), ["invalid"]);
    assert!(world.pods().is_empty());
}
