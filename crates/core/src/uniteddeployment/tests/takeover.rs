//! Objects that the original made: at every state at which another manager may take over, no Pod and no workload is written.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kruise_api::kind::Kind as _;
use kruise_api::revision::ControllerRevision;
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;
use serde_json::Value;

use super::super::child::Child;
use super::super::world::read;
use super::super::{Observed, WorkloadKind, plan};
use crate::plan::{Action, Env};

/// One state of the recording.
struct State {
    name: String,
    objects: BTreeMap<String, Value>,
    at: Timestamp,
}

fn states() -> Vec<State> {
    let lines = include_str!("../../../tests/fixtures/takeover/13-uniteddeployment.jsonl");
    let mut states: Vec<State> = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(name) = line.get("state") {
            let mut objects = states.last().map(|last| last.objects.clone()).unwrap_or_default();
            for gone in line["gone"].as_array().unwrap() {
                objects.remove(gone.as_str().unwrap());
            }
            let at: Timestamp = line["at"].as_str().unwrap().parse().unwrap();
            let name = name.as_str().unwrap().to_owned();
            let at = at + SignedDuration::from_secs(60);
            states.push(State { name, objects, at });
        } else {
            let (kind, name) = (
                line["kind"].as_str().unwrap(),
                line["metadata"]["name"].as_str().unwrap(),
            );
            let key = format!("{kind}/{name}");
            states.last_mut().unwrap().objects.insert(key, line);
        }
    }
    states
}

impl State {
    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.values().filter(move |object| object["kind"] == kind)
    }

    fn observed(&self) -> Observed {
        let children = self.of("CloneSet").map(|set| Child {
            kind: WorkloadKind::CloneSet,
            object: read(set),
        });
        let children: Vec<Child> = children.collect();
        let pods_of = |uid: &str| {
            let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == uid;
            self.of("Pod").filter(is_its).map(read).collect()
        };
        let uids = children.iter().map(|child| child.object.metadata.uid.to_string());
        Observed {
            united: read(self.of("UnitedDeployment").next().unwrap()),
            pods: uids.map(|uid| (uid.clone(), pods_of(&uid))).collect(),
            children,
            revisions: self.of("ControllerRevision").map(read).collect(),
            ..Observed::default()
        }
    }
}

#[test]
fn given_objects_of_the_original_then_no_pod_and_no_workload_is_written() {
    let states = states();
    assert_eq!(states.len(), 5);
    for state in &states {
        let plan = plan(&state.observed(), &Env::at(state.at));
        let shown = serde_json::to_string_pretty(&plan).unwrap();
        assert!(
            plan.writes().next().is_none() && plan.events.is_empty(),
            "{}: {shown}",
            state.name
        );
        // While a rollout is under way the condition says so, which the original forgot for CloneSets.
        let is_under_way = matches!(&*state.name, "b-partitioned" | "d-inflight");
        assert_eq!(plan.status.is_some(), is_under_way, "{}: {shown}", state.name);
        if let Some(Action::Patch { patch, .. }) = &plan.status {
            let changed: Vec<&String> = patch.document()["status"].as_object().unwrap().keys().collect();
            assert_eq!(changed, ["conditions"], "{}", state.name);
        }
    }
}

/// The user's next step is the spec of the next state, with the objects of this one.
#[test]
fn given_the_next_step_of_the_user_then_the_plan_goes_where_the_original_went() {
    let states = states();
    for pair in states.windows(2) {
        let [before, after] = pair else { unreachable!() };
        let wanted: UnitedDeployment = (*after.observed().united).clone();
        let mut observed = before.observed();
        std::sync::Arc::make_mut(&mut observed.united).spec = wanted.spec.clone();
        let plan = plan(&observed, &Env::at(before.at));
        let updated = &wanted.status.as_ref().unwrap().updated_revision;
        let known = before
            .observed()
            .united
            .status
            .as_ref()
            .unwrap()
            .updated_revision
            .clone();
        let mut writes: Vec<&Action> = plan.writes().collect();
        if *updated != known {
            let revision = writes.remove(0).object();
            assert_eq!(
                (revision.resource, &revision.name),
                (ControllerRevision::RESOURCE, updated)
            );
        }
        // Each workload becomes what the original made of it.
        for set in after.of("CloneSet") {
            let name = set["metadata"]["name"].as_str().unwrap();
            let mut ours = before.objects[&format!("CloneSet/{name}")].clone();
            let write = writes.iter().find(|write| write.object().name == name);
            if let Some(Action::Patch { patch, .. }) = write {
                kruise_api::merge_patch::merge(&mut ours, patch.document());
            }
            for field in [
                "/metadata/labels",
                "/spec/replicas",
                "/spec/selector",
                "/spec/template/metadata/labels",
                "/spec/template/spec/affinity",
                "/spec/template/spec/containers/0/image",
                "/spec/updateStrategy/type",
                "/spec/updateStrategy/rollingUpdate/partition",
                "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
                "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            ] {
                assert_eq!(ours.pointer(field), set.pointer(field), "{} {name} {field}", after.name);
            }
        }
    }
}
