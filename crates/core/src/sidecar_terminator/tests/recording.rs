//! Pods of Jobs as the original saw them, state by state: the same is written, at the same state, and told in the same words.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    /// The Pod without its status.
    pod: Value,
    states: Vec<State>,
    /// Version of the Pod at which everything was written.
    after: String,
    writes: Vec<String>,
    request: Value,
    events: Vec<String>,
}

#[derive(Deserialize)]
struct State {
    version: String,
    status: Value,
}

#[test]
fn given_recorded_jobs_then_their_sidecars_are_ended_as_the_original_did() {
    let mut steps = 0;
    for line in include_str!("../../../fixtures/sidecar_terminator/recording.jsonl").lines() {
        let step: Step = serde_json::from_str(line).unwrap();
        let mut is_requested = false;
        for State { version, status } in &step.states {
            let mut pod = step.pod.clone();
            pod["metadata"]["resourceVersion"] = json!(version);
            pod["status"] = status.clone();
            let node = json!({"metadata": {"name": "node2"}});
            let observed = Observed {
                pod: Arc::new(serde_json::from_value(pod).unwrap()),
                node: Some(Arc::new(serde_json::from_value(node).unwrap())),
                is_requested,
            };
            let plan = observed.plan(&Env::at(at("10:00:00")));
            let at = format!("{} at version {version}", step.name);
            if *version != step.after {
                assert!(plan.is_idle(), "{at}: {plan:#?}");
                continue;
            }
            let mut writes = Vec::new();
            for action in plan.writes() {
                writes.push(match action {
                    Action::Create { body, .. } => {
                        is_requested = true;
                        let body = body.json();
                        let metadata = &body["metadata"];
                        let request = json!({"name": metadata["name"],
                            "ownerReferences": metadata["ownerReferences"], "spec": body["spec"]});
                        assert_eq!(request, step.request, "{at}");
                        "request".to_owned()
                    }
                    Action::Patch { patch, .. } => {
                        format!("phase {}", patch.document()["status"]["phase"].as_str().unwrap())
                    }
                    other => panic!("{at}: {other:?}"),
                });
            }
            assert_eq!(writes, step.writes, "{at}");
            let chains = plan.actions.iter().flat_map(|step| &step.chains);
            let told = chains
                .flat_map(|chain| &chain.writes)
                .flat_map(|write| &write.succeeded);
            let told: Vec<&str> = told.map(|event| &*event.message).collect();
            assert_eq!(told, step.events, "{at}");
        }
        assert!(is_requested, "{}", step.name);
        steps += 1;
    }
    assert_eq!(steps, 5);
}
