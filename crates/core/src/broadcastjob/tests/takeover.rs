//! Jobs and schedules that the original left behind: nothing is written to them, whatever they were at.

use serde::Deserialize;

use super::*;

/// What stood in the cluster at one time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    #[serde(rename = "state")]
    at: String,
    jobs: Vec<Value>,
    /// For another kind.
    #[expect(dead_code, reason = "the fixture is shared with AdvancedCronJobs")]
    crons: Vec<Value>,
    pods: Vec<Value>,
}

#[test]
fn given_jobs_of_the_original_then_nothing_is_written() {
    let states: Vec<State> = serde_json::from_str(include_str!("../../../fixtures/jobs/takeover.json")).unwrap();
    let node = |name: &str| -> Arc<Node> {
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "110", "cpu": "4"}}});
        Arc::new(serde_json::from_value(node).unwrap())
    };
    let mut compared = 0;
    for state in states {
        for job in &state.jobs {
            let read: BroadcastJob = serde_json::from_value(job.clone()).unwrap();
            let uid = &job["metadata"]["uid"];
            let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == *uid;
            let pods = state.pods.iter().filter(is_its);
            let observed = Observed {
                pods: pods
                    .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
                    .collect(),
                nodes: ["node1", "node2", "node3"].map(node).to_vec(),
                is_scheduled: true,
                job: Arc::new(read),
                ..Observed::default()
            };
            let start = observed.job.status.as_ref().unwrap().start_time.as_ref().unwrap().0;
            let plan = plan(&observed, &Env::at(time_to_live::after(start, 10)));
            assert!(
                plan.is_idle() && plan.events.is_empty(),
                "{} {}: {plan:#?}",
                state.at,
                job["metadata"]["name"]
            );
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}
