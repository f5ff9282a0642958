//! Which object is meant, and what it says of itself.

use anyhow::{Result, bail};
use kruise_api::{
    cloneset::{self, v1beta1::CloneSet},
    kind::Kind,
    registry::KindInfo,
    sidecarset,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::future::Future;

/// A kind whose objects can be explained.
pub(crate) trait Explained: Kind + Sized {
    /// It has no namespace.
    const IS_OF_CLUSTER: bool;

    fn get(client: Client, namespace: &str, name: &str) -> impl Future<Output = kube::Result<Self>>;

    fn generation(&self) -> Option<i64>;

    fn status(&self) -> Value;

    /// How far it is, in one line.
    fn summary(&self) -> String;

    /// Returns what the status and the spec say, a sentence each.
    fn describe(&self) -> Vec<String>;
}

/// The kinds that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExplainedKind {
    CloneSet,
    SidecarSet,
}

impl ExplainedKind {
    const ALL: [(Self, &'static KindInfo); 2] =
        [(Self::CloneSet, &cloneset::KIND), (Self::SidecarSet, &sidecarset::KIND)];
}

impl Explained for CloneSet {
    const IS_OF_CLUSTER: bool = false;

    async fn get(client: Client, namespace: &str, name: &str) -> kube::Result<Self> {
        Api::namespaced(client, namespace).get(name).await
    }

    fn generation(&self) -> Option<i64> {
        self.metadata.generation
    }

    fn status(&self) -> Value {
        json!(self.status)
    }

    fn summary(&self) -> String {
        summary(self)
    }

    fn describe(&self) -> Vec<String> {
        describe(self)
    }
}

/// A kind and a name, in one word or two.
pub(crate) fn read(words: &[String]) -> Result<(ExplainedKind, &str)> {
    let (kind, name) = match words {
        [one] => match one.split_once('/') {
            Some(parts) => parts,
            None => bail!("say the name as well: kubectl kruise explain {one} NAME"),
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => bail!("say a kind and a name"),
    };
    let plain = kind.to_lowercase();
    let plain = plain.split('.').next().unwrap_or_default();
    let is_meant = |info: &KindInfo| {
        plain == info.plural || plain == info.kind.to_lowercase() || info.short_names.contains(&plain)
    };
    let Some((known, _)) = ExplainedKind::ALL.into_iter().find(|(_, info)| is_meant(info)) else {
        let all = ExplainedKind::ALL.map(|(_, info)| info.kind.to_lowercase());
        bail!("{kind} cannot be explained yet; what can: {}", all.join(", "));
    };
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a name");
    }
    Ok((known, name))
}

/// Returns what the status and the spec of a CloneSet say, a sentence each.
fn describe(set: &CloneSet) -> Vec<String> {
    let mut sentences = Vec::new();
    if set.metadata.deletion_timestamp.is_some() {
        sentences.push("It is being deleted.".to_owned());
    }
    let Some(status) = &set.status else {
        sentences.push("It has no status: no manager has looked at it yet.".to_owned());
        return sentences;
    };
    let seen = set.metadata.generation.unwrap_or_default();
    if status.observed_generation < seen {
        sentences.push(format!(
            "The status is about generation {} of the spec, which is at {seen}: the last change was not looked at yet.",
            status.observed_generation
        ));
    }
    let wanted = set.spec.replicas.unwrap_or(1);
    if status.replicas != wanted {
        sentences.push(format!("There are {} Pods, {wanted} are wanted.", status.replicas));
    }
    if status.ready_replicas < status.replicas {
        let count = status.replicas - status.ready_replicas;
        sentences.push(format!("{count} of {} Pods are not ready.", status.replicas));
    } else if status.available_replicas < status.ready_replicas {
        let count = status.ready_replicas - status.available_replicas;
        sentences.push(format!("{count} ready Pods do not count as available yet."));
    }
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    if status.updated_replicas < wanted {
        let count = wanted - status.updated_replicas;
        let expected = status.expected_updated_replicas;
        sentences.push(match rolling {
            None => format!(
                "{count} Pods are not at the update revision; type OnDelete updates them when they are deleted."
            ),
            Some(rolling) if rolling.paused => {
                format!("{count} Pods are not at the update revision; the rollout is paused.")
            }
            Some(_) if status.updated_replicas >= expected && expected < wanted => {
                format!("{count} Pods are not at the update revision; the partition keeps them.")
            }
            Some(_) => format!("{count} Pods are not at the update revision, {expected} should be."),
        });
    }
    for condition in &status.conditions {
        let reason = if condition.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", condition.reason)
        };
        let message = if condition.message.is_empty() {
            String::new()
        } else {
            format!(": {}", condition.message)
        };
        sentences.push(format!(
            "Condition {} is {}{reason}{message}",
            condition.type_, condition.status
        ));
    }
    sentences
}

/// How far it is, in one line.
fn summary(set: &CloneSet) -> String {
    let Some(status) = &set.status else {
        return "no status yet".to_owned();
    };
    format!(
        "{} wanted, {} there, {} updated, {} ready, {} available",
        set.spec.replicas.unwrap_or(1),
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
            assert_eq!(read(&words(text)).unwrap(), (ExplainedKind::CloneSet, "web"), "{text}");
        }
        assert_eq!(
            read(&words("sidecarset/log")).unwrap(),
            (ExplainedKind::SidecarSet, "log")
        );
        for (text, error) in [
            ("cloneset", "say the name as well"),
            (
                "deployment web",
                "deployment cannot be explained yet; what can: cloneset, sidecarset",
            ),
            ("cloneset a/b", "is not a name"),
            ("cloneset/", "is not a name"),
        ] {
            let error_text = read(&words(text)).unwrap_err().to_string();
            assert!(error_text.contains(error), "{text}: {error_text}");
        }
    }

    fn set(spec: &Value, status: &Value) -> CloneSet {
        serde_json::from_value(json!({"metadata": {"name": "web", "generation": 3}, "spec": spec, "status": status}))
            .unwrap()
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
        assert_eq!(summary(&nothing), "no status yet");
    }
}
