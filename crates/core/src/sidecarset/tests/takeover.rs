//! Objects of the original, at every state at which our manager may take over: nothing is written.

use std::collections::BTreeMap;

use super::super::world::read;
use super::super::{Observed, plan};
use super::*;
use crate::plan::Env;

const RECORDINGS: [&str; 2] = [
    include_str!("../../../fixtures/sidecarset/takeover-11.jsonl"),
    include_str!("../../../fixtures/sidecarset/takeover-12.jsonl"),
];

/// The objects of each state, by kind and name.
fn states(recording: &str) -> Vec<(String, BTreeMap<String, Value>)> {
    let mut states: Vec<(String, BTreeMap<String, Value>)> = Vec::new();
    for line in recording.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(state) = line["state"].as_str() {
            let mut objects = states.last().map(|(_, objects)| objects.clone()).unwrap_or_default();
            for gone in line["gone"].as_array().unwrap() {
                objects.remove(gone.as_str().unwrap());
            }
            states.push((state.to_owned(), objects));
        } else {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let key = format!("{}/{}", text(&line["kind"]), text(&line["metadata"]["name"]));
            states.last_mut().unwrap().1.insert(key, line);
        }
    }
    states
}

#[test]
fn given_objects_of_the_original_then_nothing_is_written() {
    let mut seen = 0;
    for recording in RECORDINGS {
        for (state, objects) in states(recording) {
            let of = |kind: &str| {
                let prefix = format!("{kind}/");
                let found = objects.iter().filter(move |(key, _)| key.starts_with(&prefix));
                found.map(|(_, object)| object.clone()).collect::<Vec<_>>()
            };
            let pods: Vec<std::sync::Arc<Pod>> = of("Pod").iter().map(read).collect();
            let [set] = &of("SidecarSet")[..] else {
                panic!("{state}: one set")
            };
            let observed = Observed {
                set: read(set),
                maybe_missing: pods.clone(),
                pods,
                revisions: of("ControllerRevision").iter().map(read).collect(),
                system: "kruise-system".to_owned(),
                ..Observed::default()
            };
            assert_eq!(
                (observed.pods.len(), set["status"]["matchedPods"].as_u64()),
                (4, Some(4)),
                "{state}"
            );
            let plan = plan(&observed, &Env::at("2026-11-15T09:00:00Z".parse().unwrap()));
            assert!(plan.is_idle(), "{state}: {plan:#?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 10);
}
