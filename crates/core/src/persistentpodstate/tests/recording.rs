//! A set and its annotations as the original was recorded: what was made, remembered, injected and forgotten.

use serde::Deserialize;

use super::*;

/// What there was after a step, as far as it had changed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    /// Of the set.
    annotations: Value,
    replicas: i32,
    spec: Option<Value>,
    pod_states: Option<Value>,
    /// A Pod that was made again.
    pod: Option<Injected>,
    gone: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Injected {
    name: String,
    node_selector: Value,
    affinity: Value,
    /// By which PersistentPodState.
    #[serde(rename = "injected")]
    by: String,
}

fn settle(world: &mut World) {
    for _ in 0..4 {
        if world.round().is_idle() {
            return;
        }
    }
    panic!("no end: {:#?}", world.plan());
}

#[test]
fn given_the_steps_of_a_recording_then_the_same_is_remembered_and_injected() {
    let steps: Vec<Step> =
        serde_json::from_str(include_str!("../../../fixtures/persistentpodstate/recording.json")).unwrap();
    assert_eq!(steps.len(), 5);
    let mut world = World::new();
    let labels = json!({"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "node1", "kubernetes.io/os": "linux"});
    let node = json!({"metadata": {"name": "node1", "labels": labels}});
    world.cluster.put(Node::RESOURCE, node);
    for ordinal in 0..2 {
        let mark = [("example.com/mark".to_owned(), "m1".to_owned())].into();
        world.read.insert(format!("web-{ordinal}"), mark);
    }
    let mut before: Option<Value> = None;
    for step in steps {
        (world.annotations, world.replicas) = (step.annotations, step.replicas);
        if let Some(expected) = step.pod {
            let state: PersistentPodState = serde_json::from_value(world.state().clone()).unwrap();
            let mut pod = json!({"metadata": {"name": expected.name}, "spec": {"containers": []}});
            let record = inject::record_of(&state, &expected.name).unwrap();
            inject::inject(pod.as_object_mut().unwrap(), &state, record);
            assert_eq!(pod["spec"]["nodeSelector"], expected.node_selector, "{}", step.name);
            assert_eq!(pod["spec"]["affinity"], expected.affinity, "{}", step.name);
            let injected = &pod["metadata"]["annotations"][annotation::INJECTED_PERSISTENT_POD_STATE];
            assert_eq!(*injected, expected.by, "{}", step.name);
        }
        for ordinal in 0..2 {
            world.remove(ordinal);
        }
        for ordinal in 0..world.replicas {
            world.pod(ordinal, "node1", true);
        }
        settle(&mut world);
        if !step.gone.is_empty() {
            assert!(world.cluster.get(PersistentPodState::RESOURCE, "web").is_none());
            continue;
        }
        let state = world.state().clone();
        if let (Some(spec), Some(states)) = (step.spec, step.pod_states) {
            assert_eq!(state["spec"], spec, "{}", step.name);
            assert_eq!(state["status"]["podStates"], states, "{}", step.name);
        } else {
            assert_eq!(
                Some(&state["status"]),
                before.as_ref(),
                "{}: nothing was written",
                step.name
            );
        }
        before = Some(state["status"].clone());
    }
}
