//! An object as a line of the table.
//!
//! Workloads, jobs, budgets and image pulls are told as on the live page; Kubernetes' own workloads by their status, and everything else by what it says of itself.

use crate::{
    kinds::Kind,
    object,
    server::{Object, read_as},
    table::age,
};
use jiff::Timestamp;
use kruise_api::{
    advancedcronjob, broadcastjob, cloneset, daemonset, ephemeraljob, imagepulljob, podunavailablebudget, sidecarset,
    statefulset, uniteddeployment,
};
use kruise_core::view::{BudgetView, PullJobView, State, Tone, WorkloadView};
use serde_json::Value;

pub(super) const STATE: &str = "STATE";

/// The heads of the columns.
pub(super) fn head(with_namespace: bool, is_wide: bool) -> Vec<&'static str> {
    let mut head = Vec::new();
    if with_namespace {
        head.push("NAMESPACE");
    }
    head.extend(["NAME", "WANTED", "UPDATED", "READY", "AGE", STATE]);
    if is_wide {
        head.extend(["AVAILABLE", "REVISION", "IMAGES"]);
    }
    head.push("WAITS FOR");
    head
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    namespace: String,
    name: String,
    age: String,
    counts: Counts,
    state: String,
    pub(super) tone: Tone,
    note: String,
    revision: String,
    images: String,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    wanted: Option<i64>,
    updated: Option<i64>,
    ready: Option<i64>,
    available: Option<i64>,
}

/// What a kind tells of its object.
struct Standing {
    counts: Counts,
    state: String,
    tone: Tone,
    note: String,
    revision: String,
    images: String,
}

impl Row {
    pub(super) fn of(object: &Object, now: Timestamp) -> Self {
        let value = object.newest();
        let made = value["metadata"]["creationTimestamp"].as_str();
        let made = made.and_then(|time| time.parse::<Timestamp>().ok());
        let standing = workload(object.kind, &value)
            .map(Standing::from)
            .or_else(|| budget(object.kind, &value))
            .or_else(|| pull_job(object.kind, &value))
            .unwrap_or_else(|| Standing::of_any(object.kind, &value));
        Self {
            namespace: object.namespace().to_owned(),
            name: format!("{}/{}", object.kind.word(), object.name()),
            age: made.map_or("<unknown>".to_owned(), |made| age(now.as_second() - made.as_second())),
            counts: standing.counts,
            state: standing.state,
            tone: standing.tone,
            note: standing.note,
            revision: standing.revision,
            images: standing.images,
        }
    }

    pub(super) fn cells(&self, with_namespace: bool, is_wide: bool) -> Vec<String> {
        let mut cells = Vec::new();
        if with_namespace {
            cells.push(or_dash(&self.namespace));
        }
        let count = |count: Option<i64>| count.map_or("-".to_owned(), |count| count.to_string());
        let Counts {
            wanted,
            updated,
            ready,
            available,
        } = self.counts;
        cells.extend([
            self.name.clone(),
            count(wanted),
            count(updated),
            count(ready),
            self.age.clone(),
            or_dash(&self.state),
        ]);
        if is_wide {
            cells.extend([count(available), or_dash(&self.revision), or_dash(&self.images)]);
        }
        cells.push(self.note.clone());
        cells
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

/// A workload or a job as the live page shows it; nothing when it is neither, or cannot be read.
pub(crate) fn workload(kind: Kind, value: &Value) -> Option<WorkloadView> {
    macro_rules! view {
        ($($module:ident :: $version:ident :: $type:ident),*) => {
            $(if kind.is(&$module::KIND) {
                let object: $module::$version::$type = read_as(value).ok()?;
                return Some(WorkloadView::from(&object));
            })*
        };
    }
    view!(
        cloneset::v1beta1::CloneSet,
        statefulset::v1beta1::StatefulSet,
        daemonset::v1beta1::DaemonSet,
        sidecarset::v1beta1::SidecarSet,
        uniteddeployment::v1beta1::UnitedDeployment,
        broadcastjob::v1beta1::BroadcastJob,
        ephemeraljob::v1alpha1::EphemeralJob,
        advancedcronjob::v1beta1::AdvancedCronJob
    );
    None
}

impl From<WorkloadView> for Standing {
    fn from(view: WorkloadView) -> Self {
        // Of a schedule there is nothing to count.
        let count = |count: i32| (view.unit != "jobs").then_some(i64::from(count));
        let images: Vec<&str> = view.details.images.iter().map(|image| &*image.image).collect();
        Self {
            counts: Counts {
                wanted: count(view.wanted),
                updated: count(view.updated),
                ready: count(view.ready),
                available: count(view.available),
            },
            images: images.join(","),
            state: view.state.label,
            tone: view.state.tone,
            note: view.state.note,
            revision: view.details.update_revision,
        }
    }
}

fn standing(state: State, note: String, counts: Counts) -> Standing {
    Standing {
        counts,
        state: state.label().to_owned(),
        tone: state.tone(),
        note,
        revision: String::new(),
        images: String::new(),
    }
}

fn budget(kind: Kind, value: &Value) -> Option<Standing> {
    if !kind.is(&podunavailablebudget::KIND) {
        return None;
    }
    let budget: podunavailablebudget::v1beta1::PodUnavailableBudget = read_as(value).ok()?;
    let view = BudgetView::from(&budget);
    let state = match view.tone {
        Tone::Good | Tone::Quiet => State::Ready,
        Tone::Busy => State::Unseen,
        Tone::Held => State::Held,
        Tone::Bad => State::NotReady,
    };
    let counts = Counts {
        wanted: Some(view.desired.into()),
        ready: Some(view.available.into()),
        ..Counts::default()
    };
    Some(standing(state, view.note, counts))
}

fn pull_job(kind: Kind, value: &Value) -> Option<Standing> {
    if !kind.is(&imagepulljob::KIND) {
        return None;
    }
    let job: imagepulljob::v1beta1::ImagePullJob = read_as(value).ok()?;
    let view = PullJobView::from(&job);
    let counts = Counts {
        wanted: Some(view.desired.into()),
        updated: Some(view.succeeded.into()),
        ..Counts::default()
    };
    Some(Standing {
        counts,
        state: view.state.label,
        tone: view.state.tone,
        note: view.state.note,
        revision: String::new(),
        images: view.image,
    })
}

impl Standing {
    /// Of an object that has no view of its own.
    fn of_any(kind: Kind, value: &Value) -> Self {
        let first = |paths: &[&str]| {
            let mut found = paths.iter().filter_map(|path| value.pointer(path));
            found.find_map(Value::as_i64)
        };
        let counts = Counts {
            wanted: first(&["/spec/replicas", "/status/desiredNumberScheduled", "/status/desired"]),
            updated: first(&[
                "/status/updatedReplicas",
                "/status/updatedNumberScheduled",
                "/status/succeeded",
            ]),
            ready: first(&["/status/readyReplicas", "/status/numberReady"]),
            available: first(&["/status/availableReplicas", "/status/numberAvailable"]),
        };
        let note = match kind.ours.and_then(object::explained) {
            Some(explained) => explained.summary(value),
            None => text(value, "/status/message").to_owned(),
        };
        let observed = value.pointer("/status/observedGeneration").and_then(Value::as_i64);
        let is_old = observed.is_some_and(|observed| observed < first(&["/metadata/generation"]).unwrap_or_default());
        let phase = text(value, "/status/phase");
        let images = value
            .pointer("/spec/template/spec/containers")
            .and_then(Value::as_array);
        let images = images.into_iter().flatten().map(|container| text(container, "/image"));
        let images = images.collect::<Vec<_>>().join(",");
        let full = Self {
            images,
            revision: text(value, "/status/updateRevision").to_owned(),
            ..standing(State::Running, note, counts.clone())
        };
        let state = if value.pointer("/metadata/deletionTimestamp").is_some() {
            Some(State::Deleting)
        } else if is_old {
            Some(State::Unseen)
        } else if !phase.is_empty() {
            return Self {
                state: phase.to_owned(),
                tone: tone(phase),
                ..full
            };
        } else {
            native_state(&counts)
        };
        match state {
            Some(state) => Self {
                state: state.label().to_owned(),
                tone: state.tone(),
                ..full
            },
            None => Self {
                state: String::new(),
                tone: Tone::Quiet,
                ..full
            },
        }
    }
}

/// What follows from the numbers of a workload; a status leaves out what is 0.
fn native_state(counts: &Counts) -> Option<State> {
    let wanted = counts.wanted?;
    counts.ready.or(counts.updated)?;
    Some(if counts.updated.unwrap_or_default() < wanted {
        State::Updating
    } else if counts.ready.is_some_and(|ready| ready < wanted) {
        State::NotReady
    } else {
        State::Ready
    })
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn tone(phase: &str) -> Tone {
    match phase {
        "Completed" | "Succeeded" => Tone::Good,
        "Failed" => Tone::Bad,
        _ => Tone::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use serde_json::json;

    fn cells(word: &str, version: &'static str, mut value: Value, is_wide: bool) -> Vec<String> {
        let (kind, _) = kinds::resolve(word).unwrap();
        value["apiVersion"] = json!(format!("{}/{version}", kind.group));
        value["kind"] = json!(kind.kind);
        let object = Object { kind, version, value };
        let now = "2026-01-01T00:01:30Z".parse().unwrap();
        Row::of(&object, now).cells(false, is_wide)
    }

    fn meta(name: &str) -> Value {
        json!({"name": name, "namespace": "shop", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"})
    }

    fn cloneset(version: &'static str, strategy: &Value) -> Vec<String> {
        let status = json!({"observedGeneration": 1, "replicas": 5, "readyReplicas": 5, "availableReplicas": 5, "updatedReplicas": 2,
            "updatedReadyReplicas": 2, "expectedUpdatedReplicas": 2, "updateRevision": "web-7d9"});
        let template =
            json!({"spec": {"containers": [{"name": "a", "image": "nginx:1"}, {"name": "b", "image": "log:2"}]}});
        let spec = json!({"replicas": 5, "selector": {}, "template": template, "updateStrategy": strategy});
        let value = json!({"metadata": meta("web"), "spec": spec, "status": status});
        cells("clone", version, value, true)
    }

    #[test]
    fn given_a_workload_in_either_version_then_it_is_told_as_on_the_live_page() {
        let new = cloneset(
            "v1beta1",
            &json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}),
        );
        let old = cloneset("v1alpha1", &json!({"type": "InPlaceIfPossible", "partition": 3}));
        assert_eq!(new, old);
        assert_eq!(
            new[..9],
            [
                "cloneset/web",
                "5",
                "2",
                "5",
                "90s",
                "Held",
                "5",
                "web-7d9",
                "nginx:1,log:2"
            ]
        );
        assert!(new[9].contains("partition"), "{new:?}");
    }

    #[test]
    fn given_other_kinds_then_a_line_says_what_they_say_of_themselves() {
        let marker = json!({"metadata": meta("game"), "spec": {"probes": [{}]}, "status": {"matchedPods": 3}});
        let told = cells("podprobemarker", "v1alpha1", marker, false);
        assert_eq!(
            told,
            ["podprobemarker/game", "-", "-", "-", "90s", "-", "1 probes for 3 Pods"]
        );
        let request = json!({"metadata": meta("r"), "spec": {}, "status": {"phase": "Recreating"}});
        let told = cells("crr", "v1beta1", request, false);
        assert_eq!(
            (told[0].as_str(), told[5].as_str()),
            ("containerrecreaterequest/r", "Recreating")
        );
        let empty = cells("pub", "v1beta1", json!({"metadata": meta("b"), "spec": {}}), false);
        assert_eq!(empty[5], "Not seen yet");
    }

    #[test]
    fn given_native_workloads_then_their_status_is_told() {
        let status = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3});
        let value = json!({"metadata": meta("db"), "spec": {"replicas": 3}, "status": status});
        let told = cells("sts", "v1", value, false);
        assert_eq!(told[..6], ["statefulset/db", "3", "1", "3", "90s", "Updating"]);
        let none = json!({"metadata": meta("db"), "spec": {"replicas": 3}});
        assert_eq!(cells("sts", "v1", none, false)[5], "-");
    }

    #[test]
    fn given_what_cannot_be_read_then_there_is_a_line_all_the_same() {
        let odd =
            json!({"metadata": {"name": "odd", "creationTimestamp": 3}, "spec": {"replicas": "many"}, "status": []});
        let told = cells("clone", "v1beta1", odd, false);
        assert_eq!((told[0].as_str(), told[4].as_str()), ("cloneset/odd", "<unknown>"));
        assert_eq!(cells("asts", "v1beta1", json!({}), true)[0], "asts/");
    }
}
