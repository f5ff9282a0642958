//! AdvancedCronJobs: no time comes twice, though every job ends at once and is cleared away, so that nothing but the status remembers it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use k8s_openapi::api::batch::v1::Job;
use kruise_testkit::watch::{self, Event};
use kube::ResourceExt as _;
use tokio::task::JoinHandle;

use super::*;

const KIND: &str = "AdvancedCronJob";
/// Times that are waited for.
const TIMES: usize = 4;

#[test]
fn given_a_crash_after_any_write_of_a_schedule_then_no_time_comes_twice() {
    crash_after_any_write(EachTimeOnce);
}

struct EachTimeOnce;

/// The UIDs of all jobs that there ever were, by name.
struct Started {
    seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    task: JoinHandle<()>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Case for EachTimeOnce {
    type Watch = Started;

    const NAME: &'static str = "acj";
    const NODES: usize = 0;
    // The kind of jobs; for three times the job and that it was started; and two jobs that are cleared away.
    const WRITES: u64 = 9;

    async fn prepare(&self, at: &Attempt<'_>) -> Started {
        let jobs: Api<Job> = at.work.api();
        let seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>> = Arc::default();
        let all = seen.clone();
        let task = tokio::spawn(async move {
            let mut events = watch::events(jobs).boxed();
            while let Some(event) = events.next().await {
                if let Ok(Event::InitApply(job) | Event::Apply(job) | Event::Delete(job)) = event {
                    let mut all = all.lock().unwrap();
                    all.entry(job.name_any()).or_default().extend(job.uid());
                }
            }
        });
        Started { seen, task }
    }

    async fn submit(&self, at: &Attempt<'_>) {
        // A Job that wants no Pod is complete at once.
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]});
        let job = json!({"spec": {"completions": 0, "template": {"spec": pod}}});
        let spec = json!({
            "schedule": "@every 2s", "concurrencyPolicy": "Allow", "paused": false, "successfulJobsHistoryLimit": 0,
            "failedJobsHistoryLimit": 0, "template": {"jobTemplate": job},
        });
        at.create("v1beta1", KIND, &spec).await;
    }

    async fn is_done(&self, at: &Attempt<'_>, started: &Started) -> Result<(), NotYet> {
        let status = at.jobs("v1beta1", KIND).get("job").await?.data["status"].clone();
        let times = started.seen.lock().unwrap().len();
        (times >= TIMES)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{times} times, {status:#}")))
    }

    async fn judge(&self, _: &Attempt<'_>, started: Started, crash_after: Option<u64>) {
        let seen = started.seen.lock().unwrap();
        let twice: Vec<_> = seen.iter().filter(|(_, uids)| uids.len() > 1).collect();
        assert!(twice.is_empty(), "{crash_after:?}: {twice:?} of {seen:?}");
    }
}
