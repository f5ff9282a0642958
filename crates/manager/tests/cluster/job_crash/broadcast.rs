//! BroadcastJobs: never more Pods than allowed, never two on a node; and a job that fails leaves none that runs, also when nobody was there at its deadline.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::sim::SET_LABEL;
use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};

use super::{super::pod_history::PodHistory, *};

const KIND: &str = "BroadcastJob";
const NODES: usize = 3;

#[test]
fn given_a_crash_after_any_write_of_a_broadcast_job_then_every_node_has_its_pod_once() {
    crash_after_any_write(Completes);
}

#[test]
fn given_a_crash_after_any_write_of_a_failing_job_then_no_pod_of_it_runs_on() {
    crash_after_any_write(FailsFast);
}

#[test]
fn given_a_crash_after_any_write_before_a_deadline_then_the_job_fails_all_the_same() {
    crash_after_any_write(IsLate);
}

struct Completes;
struct FailsFast;
struct IsLate;

async fn submit(at: &Attempt<'_>, script: &Value, more: &Value) {
    let mut spec = json!({
        "completionPolicy": {"type": "Always"}, "failurePolicy": {"type": "FailFast"},
        "template": {
            "metadata": {"labels": {"app": "job"}, "annotations": script},
            "spec": {
                "restartPolicy": "Never", "nodeSelector": {(SET_LABEL): at.set}, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "busybox:1"}],
            },
        },
    });
    kruise_api::merge_patch::merge(&mut spec, more);
    at.create("v1beta1", KIND, &spec).await;
}

/// The status is as said, and so many Pods are left.
async fn has_ended(at: &Attempt<'_>, expected: &Value, pods: usize) -> Result<(), NotYet> {
    let status = at.jobs("v1beta1", KIND).get("job").await?.data["status"].clone();
    let left = at.work.api::<Pod>().list(&ListParams::default()).await?.items.len();
    let mut fields = expected.as_object().unwrap().iter();
    let is_done = fields.all(|(field, value)| status[field] == *value) && left == pods;
    is_done
        .then_some(())
        .ok_or_else(|| NotYet::new(format!("{left} Pods, {status:#}")))
}

fn has_ended_itself(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// At no time were there more Pods than allowed, or two for a node.
async fn within_limits(history: PodHistory, limit: usize, crash_after: Option<u64>) {
    for pods in history.end().await {
        let active = pods.values().filter(|pod| !has_ended_itself(pod)).count();
        assert!(active <= limit, "{crash_after:?}: {active} are active");
        let node = |pod: &Pod| {
            let spec = json!(pod.spec);
            let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].to_string()
        };
        let nodes: BTreeSet<String> = pods.values().map(node).collect();
        assert_eq!(nodes.len(), pods.len(), "{crash_after:?}: {:?}", pods.keys());
    }
}

impl Case for Completes {
    type Watch = PodHistory;

    const NAME: &'static str = "bcj";
    const NODES: usize = NODES;
    // Two Pods, that they run, a third one, and the end.
    const WRITES: u64 = 5;

    async fn prepare(&self, at: &Attempt<'_>) -> PodHistory {
        PodHistory::begin(at.work.api(), "job").await
    }

    async fn submit(&self, at: &Attempt<'_>) {
        let script = json!({"sim.kruise.test/exit-after": "1s"});
        submit(at, &script, &json!({"parallelism": 2})).await;
    }

    async fn is_done(&self, at: &Attempt<'_>, _: &PodHistory) -> Result<(), NotYet> {
        has_ended(
            at,
            &json!({"phase": "completed", "succeeded": NODES, "failed": 0}),
            NODES,
        )
        .await
    }

    async fn judge(&self, _: &Attempt<'_>, history: PodHistory, crash_after: Option<u64>) {
        within_limits(history, 2, crash_after).await;
    }
}

impl Case for FailsFast {
    type Watch = PodHistory;

    const NAME: &'static str = "bcj-fails";
    const NODES: usize = NODES;
    // Three Pods, that they run, the failure, and two deletions.
    const WRITES: u64 = 7;

    async fn prepare(&self, at: &Attempt<'_>) -> PodHistory {
        PodHistory::begin(at.work.api(), "job").await
    }

    async fn submit(&self, at: &Attempt<'_>) {
        submit(at, &json!({}), &json!({})).await;
    }

    /// Lets one Pod fail when all run and the status says so.
    async fn act(&self, at: &Attempt<'_>) {
        let running = json!({"active": NODES});
        eventually(PATIENCE, "all Pods run", || has_ended(at, &running, NODES)).await;
        let pods: Api<Pod> = at.work.api();
        let all = pods.list(&ListParams::default()).await.unwrap();
        let first = all.items.first().unwrap().name_any();
        let script = json!({"sim.kruise.test/exit-code": "1", "sim.kruise.test/exit-after": "0s"});
        let patch = Patch::Merge(json!({"metadata": {"annotations": script}}));
        pods.patch(&first, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn is_done(&self, at: &Attempt<'_>, _: &PodHistory) -> Result<(), NotYet> {
        has_ended(at, &json!({"phase": "failed", "active": 0, "failed": NODES}), 1).await
    }

    async fn judge(&self, _: &Attempt<'_>, history: PodHistory, crash_after: Option<u64>) {
        within_limits(history, NODES, crash_after).await;
    }
}

impl Case for IsLate {
    type Watch = PodHistory;

    const NAME: &'static str = "bcj-late";
    const NODES: usize = NODES;
    // Three Pods, that they run, the failure, and three deletions.
    const WRITES: u64 = 8;

    async fn prepare(&self, at: &Attempt<'_>) -> PodHistory {
        PodHistory::begin(at.work.api(), "job").await
    }

    async fn submit(&self, at: &Attempt<'_>) {
        let late = json!({"completionPolicy": {"activeDeadlineSeconds": 6}});
        submit(at, &json!({}), &late).await;
    }

    async fn is_done(&self, at: &Attempt<'_>, _: &PodHistory) -> Result<(), NotYet> {
        has_ended(at, &json!({"phase": "failed", "active": 0}), 0).await
    }

    async fn judge(&self, at: &Attempt<'_>, history: PodHistory, crash_after: Option<u64>) {
        within_limits(history, NODES, crash_after).await;
        let job = at.jobs("v1beta1", KIND).get("job").await.unwrap();
        let message = job.data["status"]["conditions"][0]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(message.ends_with("longer than specified deadline"), "{message}");
    }
}
