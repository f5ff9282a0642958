//! Which object is meant, and what it says of itself.
//!
//! What all kinds have is told the same way for all: that an object is being deleted, that its status is old or missing, its conditions. A kind adds what its
//! own numbers mean ([`workloads`], [`jobs`], [`placement`], [`probes`], [`spreads`]).

mod jobs;
mod placement;
mod probes;
mod spreads;
mod workloads;

use crate::{kinds, select::checked};
use anyhow::{Result, bail};
use kruise_api::{
    advancedcronjob, broadcastjob, cloneset, daemonset, ephemeraljob, nodepodprobe, persistentpodstate, podprobemarker,
    registry::KindInfo, resourcedistribution, sidecarset, statefulset, uniteddeployment, workloadspread,
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// A kind whose objects can be explained.
#[derive(Debug)]
pub(crate) struct ExplainedKind {
    pub(crate) info: &'static KindInfo,
    /// How far an object with a status is, in one line.
    summary: fn(&Value) -> String,
    /// What the numbers of an object with a status mean, a sentence each.
    describe: fn(&Value) -> Vec<String>,
}

const KINDS: &[ExplainedKind] = &[
    ExplainedKind {
        info: &cloneset::KIND,
        summary: workloads::summary,
        describe: workloads::cloneset,
    },
    ExplainedKind {
        info: &statefulset::KIND,
        summary: workloads::summary,
        describe: workloads::statefulset,
    },
    ExplainedKind {
        info: &daemonset::KIND,
        summary: workloads::daemonset_summary,
        describe: workloads::daemonset,
    },
    ExplainedKind {
        info: &sidecarset::KIND,
        summary: workloads::sidecarset_summary,
        describe: workloads::sidecarset,
    },
    ExplainedKind {
        info: &broadcastjob::KIND,
        summary: jobs::broadcastjob_summary,
        describe: jobs::broadcastjob,
    },
    ExplainedKind {
        info: &advancedcronjob::KIND,
        summary: jobs::advancedcronjob_summary,
        describe: jobs::advancedcronjob,
    },
    ExplainedKind {
        info: &resourcedistribution::KIND,
        summary: placement::resourcedistribution_summary,
        describe: placement::resourcedistribution,
    },
    ExplainedKind {
        info: &persistentpodstate::KIND,
        summary: placement::persistentpodstate_summary,
        describe: |_| Vec::new(),
    },
    ExplainedKind {
        info: &podprobemarker::KIND,
        summary: probes::summary,
        describe: probes::describe,
    },
    ExplainedKind {
        info: &nodepodprobe::KIND,
        summary: probes::node_summary,
        describe: probes::node_describe,
    },
    ExplainedKind {
        info: &ephemeraljob::KIND,
        summary: jobs::ephemeraljob_summary,
        describe: jobs::ephemeraljob,
    },
    ExplainedKind {
        info: &uniteddeployment::KIND,
        summary: workloads::united_summary,
        describe: workloads::united,
    },
    ExplainedKind {
        info: &workloadspread::KIND,
        summary: spreads::summary,
        describe: spreads::describe,
    },
];

impl ExplainedKind {
    /// Returns how its objects are read: in the version that is stored.
    pub(crate) fn resource(&self) -> ApiResource {
        let version = self.info.versions.last().map_or("v1beta1", |version| version.name);
        let kind = GroupVersionKind::gvk(self.info.group, version, self.info.kind);
        ApiResource::from_gvk_with_plural(&kind, self.info.plural)
    }

    /// Returns how far an object is, in one line.
    pub(crate) fn summary(&self, object: &Value) -> String {
        if has_status(object) {
            (self.summary)(object)
        } else {
            "no status yet".to_owned()
        }
    }

    /// Returns what the status and the spec say, a sentence each.
    pub(crate) fn describe(&self, object: &Value) -> Vec<String> {
        let mut sentences = Vec::new();
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            sentences.push("It is being deleted.".to_owned());
        }
        if !has_status(object) {
            sentences.push("It has no status: no manager has looked at it yet.".to_owned());
            return sentences;
        }
        let seen = number(object, "/metadata/generation");
        if let Some(observed) = object.pointer("/status/observedGeneration").and_then(Value::as_i64)
            && observed < seen
        {
            sentences.push(format!(
                "The status is about generation {observed} of the spec, which is at {seen}: the last change was not looked at yet."
            ));
        }
        sentences.extend((self.describe)(object));
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        sentences.extend(conditions.into_iter().flatten().map(condition));
        sentences
    }
}

/// Returns how a kind is explained; nothing when it cannot be.
pub(crate) fn explained(info: &KindInfo) -> Option<&'static ExplainedKind> {
    let is_same = |known: &&ExplainedKind| (known.info.group, known.info.kind) == (info.group, info.kind);
    KINDS.iter().find(is_same)
}

fn has_status(object: &Value) -> bool {
    object
        .get("status")
        .and_then(Value::as_object)
        .is_some_and(|status| !status.is_empty())
}

fn condition(condition: &Value) -> String {
    let text = |name: &str| condition[name].as_str().unwrap_or_default();
    let reason = match text("reason") {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    let message = match text("message") {
        "" => String::new(),
        message => format!(": {message}"),
    };
    format!("Condition {} is {}{reason}{message}", text("type"), text("status"))
}

/// A number of an object; 0 where there is none.
fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a field is true.
fn is_set(object: &Value, path: &str) -> bool {
    object.pointer(path).and_then(Value::as_bool).unwrap_or_default()
}

/// A kind and a name, in one word or two.
pub(crate) fn read(words: &[String]) -> Result<(&'static ExplainedKind, &str)> {
    let (kind, name) = match words {
        [one] => match one.split_once('/') {
            Some(parts) => parts,
            None => bail!("say the name as well: {one} NAME"),
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => bail!("say a kind and a name"),
    };
    let Some(known) = kinds::ours(kind).and_then(explained) else {
        let all: Vec<String> = KINDS.iter().map(|known| known.info.singular()).collect();
        bail!("{kind} cannot be explained yet; what can: {}", all.join(", "));
    };
    Ok((known, checked(name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_named_as_with_kubectl() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for text in [
            "cloneset web",
            "cloneset/web",
            "clone web",
            "CloneSet/web",
            "clonesets.apps.kruise.io/web",
        ] {
            let words = words(text);
            let (kind, name) = read(&words).unwrap();
            assert_eq!((kind.info.kind, name), ("CloneSet", "web"), "{text}");
        }
        for (text, kind) in [
            ("sidecarset/log", "SidecarSet"),
            ("asts log", "StatefulSet"),
            ("bcj/log", "BroadcastJob"),
            ("ejob/log", "EphemeralJob"),
        ] {
            let words = words(text);
            let (known, name) = read(&words).unwrap();
            assert_eq!((known.info.kind, name), (kind, "log"), "{text}");
        }
        for (text, error) in [
            ("cloneset", "say the name as well"),
            (
                "deployment web",
                "deployment cannot be explained yet; what can: cloneset, statefulset",
            ),
            ("cloneset a/b", "is not a name"),
            ("cloneset/", "is not a name"),
        ] {
            let error_text = read(&words(text)).unwrap_err().to_string();
            assert!(error_text.contains(error), "{text}: {error_text}");
        }
    }

    fn set(spec: &Value, status: &Value) -> Value {
        json!({"metadata": {"name": "web", "generation": 3}, "spec": spec, "status": status})
    }

    fn describe(set: &Value) -> Vec<String> {
        KINDS[0].describe(set)
    }

    #[test]
    fn given_a_status_then_what_it_tells_is_told_in_sentences() {
        let counts = |replicas: i32, ready: i32, available: i32, updated: i32, expected: i32| {
            json!({"observedGeneration": 3, "replicas": replicas, "readyReplicas": ready, "availableReplicas": available,
                "updatedReplicas": updated, "expectedUpdatedReplicas": expected})
        };
        let rolling = |paused: bool| json!({"replicas": 5, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"paused": paused}}});
        for (spec, status, expected) in [
            (rolling(false), counts(5, 5, 5, 5, 5), vec![]),
            (
                rolling(false),
                counts(3, 3, 3, 5, 5),
                vec!["There are 3 Pods, 5 are wanted."],
            ),
            (
                rolling(false),
                counts(5, 4, 4, 5, 5),
                vec!["1 of 5 Pods are not ready."],
            ),
            (
                rolling(false),
                counts(5, 5, 4, 5, 5),
                vec!["1 ready Pods do not count as available yet."],
            ),
            (
                rolling(false),
                counts(5, 5, 5, 2, 5),
                vec!["3 Pods are not at the update revision, 5 should be."],
            ),
            (
                rolling(false),
                counts(5, 5, 5, 2, 2),
                vec!["3 Pods are not at the update revision; the partition keeps them."],
            ),
            (
                rolling(true),
                counts(5, 5, 5, 2, 5),
                vec!["3 Pods are not at the update revision; the rollout is paused."],
            ),
            (
                json!({"replicas": 5}),
                counts(5, 5, 5, 2, 5),
                vec!["3 Pods are not at the update revision; type OnDelete updates them when they are deleted."],
            ),
        ] {
            assert_eq!(describe(&set(&spec, &status)), expected);
        }
        let mut old = counts(5, 5, 5, 5, 5);
        old["observedGeneration"] = json!(2);
        old["conditions"] = json!([{"type": "FailedScale", "status": "True", "message": "quota"}, {"type": "Progressing", "status": "False", "reason": "X"}]);
        assert_eq!(
            describe(&set(&rolling(false), &old)),
            [
                "The status is about generation 2 of the spec, which is at 3: the last change was not looked at yet.",
                "Condition FailedScale is True: quota",
                "Condition Progressing is False (X)",
            ]
        );
        let nothing = set(&rolling(false), &Value::Null);
        assert_eq!(
            describe(&nothing),
            ["It has no status: no manager has looked at it yet."]
        );
        assert_eq!(KINDS[0].summary(&nothing), "no status yet");
    }
}
