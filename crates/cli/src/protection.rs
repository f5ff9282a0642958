//! `kubectl kruise explain pub NAME` and `explain pod NAME`: what a budget has left and who took it, and what stands between a Pod and its deletion.
//!
//! A Pod is told from objects of the API server alone; gates are taken to be as they are by default. Of a budget the manager is asked as well, as only it knows why
//! one cannot be counted, and which Pods of it belong to others. Without a manager the rest is told.

use crate::{
    args::{Connection, Explain, Output},
    connect::{connect, describe_error},
    explain::{Completeness, print},
    manager,
    text::{visible, visible_lines},
};
use anyhow::{Context as _, Result, anyhow, bail};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod as WholePod, policy::v1::PodDisruptionBudget};
use kruise_api::{
    gates::Gates, kind::Kind as _, pod::Pod, podunavailablebudget, podunavailablebudget::v1beta1::PodUnavailableBudget,
};
use kruise_core::{
    plan::{PodNames, words},
    podunavailablebudget::{explain, ledger::Operation, related},
    shared::{selector, workload::WorkloadRef},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// What is to be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Budget,
    Pod,
}

/// Explains a budget or a Pod; nothing when another kind is meant.
pub(crate) async fn run(connection: &Connection, args: &Explain) -> Result<Option<Completeness>> {
    let Some((subject, name)) = read(&args.object)? else {
        return Ok(None);
    };
    let (client, namespace) = connect(connection).await?;
    let time = connection.request_timeout;
    let answers = async {
        match subject {
            Subject::Budget => budget(&client, args, &namespace, name, time).await,
            Subject::Pod => pod(&client, &namespace, name).await,
        }
    };
    // The manager has as much time again.
    let Report {
        summary,
        sentences,
        manager,
    } = timeout(time * 3, answers)
        .await
        .map_err(|_| anyhow!("the API server does not answer within {time:?}"))??;
    let kind = match subject {
        Subject::Budget => "PodUnavailableBudget",
        Subject::Pod => "Pod",
    };
    let (by, problem) = match &manager {
        None => (None, None),
        Some(Ok(by)) => (Some(by.clone()), None),
        Some(Err(error)) => (None, Some(format!("{error:#}"))),
    };
    let text = match args.output {
        Output::Json => {
            let all = json!({
                "kind": kind, "namespace": namespace, "name": name, "summary": summary, "why": sentences,
                "manager": by, "problem": problem,
            });
            visible_lines(&format!("{all:#}\n"))
        }
        Output::Text => {
            let mut text = format!(
                "{kind} {}/{}: {}\n",
                visible(&namespace),
                visible(name),
                visible(&summary)
            );
            for sentence in &sentences {
                text.push_str(&format!("  - {}\n", visible(sentence)));
            }
            if let Some(by) = &by {
                text.push_str(&format!("\nAsked: {}\n", visible(by)));
            }
            if let Some(problem) = &problem {
                text.push_str("\nThe manager cannot be asked, so this is only what the objects say of themselves.\n");
                text.push_str(&format!("  {}\n", visible_lines(problem)));
            }
            text
        }
    };
    print(&text)?;
    Ok(Some(match manager {
        Some(Err(_)) => Completeness::WithoutManager,
        _ => Completeness::All,
    }))
}

/// What is told of an object.
struct Report {
    summary: String,
    sentences: Vec<String>,
    /// The manager that was asked, if one was, or why it did not answer.
    manager: Option<Result<String>>,
}

fn read(words: &[String]) -> Result<Option<(Subject, &str)>> {
    let (kind, name) = match words {
        [one] => match one.split_once('/') {
            Some(parts) => parts,
            None => return Ok(None),
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Ok(None),
    };
    let info = &podunavailablebudget::KIND;
    let plain = kind.to_lowercase();
    let plain = plain.split('.').next().unwrap_or_default();
    let subject = if plain == info.plural || plain == info.kind.to_lowercase() || info.short_names.contains(&plain) {
        Subject::Budget
    } else if ["pod", "pods", "po"].contains(&plain) {
        Subject::Pod
    } else {
        return Ok(None);
    };
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a name");
    }
    Ok(Some((subject, name)))
}

async fn budget(client: &Client, args: &Explain, namespace: &str, name: &str, time: Duration) -> Result<Report> {
    let api: Api<PodUnavailableBudget> = Api::namespaced(client.clone(), namespace);
    let budget = api.get(name).await.map_err(describe_error)?;
    let status = budget.status.clone().unwrap_or_default();
    let summary = format!(
        "{} wanted, {} available, {} have to be, {} more may become unavailable",
        status.total_replicas, status.current_available, status.desired_available, status.unavailable_allowed
    );
    let pods: Api<WholePod> = Api::namespaced(client.clone(), namespace);
    let all = pods
        .list_metadata(&ListParams::default())
        .await
        .map_err(describe_error)?;
    let of_it = |pod: &&PartialObjectMeta<WholePod>| {
        let meta = serde_json::to_value(&pod.metadata).and_then(serde_json::from_value);
        meta.is_ok_and(|meta| related::budget_of(&meta) == Some(name))
    };
    let covered: Vec<&str> = all
        .items
        .iter()
        .filter(of_it)
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect();
    let names: PodNames = covered.iter().copied().collect();
    let mut sentences = vec![match covered.len() {
        0 => "It covers no Pod.".to_owned(),
        1 => format!("It covers 1 Pod: {names}."),
        count => format!("It covers {count} Pods: {names}."),
    }];
    sentences.extend(explain::places(&budget));
    let generation = budget.metadata.generation.unwrap_or_default();
    if status.observed_generation < generation {
        sentences.push(format!(
            "The status is about generation {} of the spec, which is at {generation}: the last change was not looked at yet.",
            status.observed_generation
        ));
    }
    let about = manager::Subject {
        info: &podunavailablebudget::KIND,
        namespace,
        name,
        uid: budget.metadata.uid.as_deref().unwrap_or_default(),
    };
    let answer = manager::ask(client, args, &about, time).await;
    let plans = answer.as_ref().ok().and_then(|answer| answer.plans.as_object());
    sentences.extend(
        plans
            .into_iter()
            .flat_map(|plans| plans.values())
            .flat_map(words::reasons),
    );
    Ok(Report {
        summary,
        sentences,
        manager: Some(answer.map(|answer| answer.by)),
    })
}

async fn pod(client: &Client, namespace: &str, name: &str) -> Result<Report> {
    let api: Api<WholePod> = Api::namespaced(client.clone(), namespace);
    let whole = api.get(name).await.map_err(describe_error)?;
    let pod: Pod = serde_json::to_value(&whole)
        .and_then(serde_json::from_value)
        .context("the Pod cannot be read")?;
    let api: Api<PodUnavailableBudget> = Api::namespaced(client.clone(), namespace);
    let budgets = api.list(&ListParams::default()).await.map_err(describe_error)?.items;
    let named = related::budget_of(&pod.metadata);
    let budget = budgets.iter().find(|budget| budget.metadata.name.as_deref() == named);
    let (gates, now) = (Gates::default(), Timestamp::now());
    let says = |operation| explain::pod(&pod, budget, operation, gates, now);
    let (deletion, eviction) = (says(Operation::Delete), says(Operation::Evict));
    let mut sentences = if deletion == eviction {
        vec![deletion]
    } else {
        vec![format!("Deletion: {deletion}"), format!("Eviction: {eviction}")]
    };
    let workload = workload(client, namespace, &pod).await;
    sentences.extend(explain::others(&pod, workload.as_ref(), &budgets));
    let api: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), namespace);
    for other in api.list(&ListParams::default()).await.map_err(describe_error)?.items {
        let labels = other.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        if labels.is_some_and(|labels| selector::matches(labels, |key| pod.metadata.label(key))) {
            let allowed = other.status.as_ref().and_then(|status| status.disruptions_allowed);
            let allowed = allowed.unwrap_or_default();
            sentences.push(format!(
                "PodDisruptionBudget {} allows {allowed} evictions now.",
                other.name_any()
            ));
        }
    }
    let finalizers = whole.metadata.finalizers.unwrap_or_default();
    if !finalizers.is_empty() {
        sentences.push(format!(
            "Once deleted it stays until these finalizers are removed: {}.",
            finalizers.join(", ")
        ));
    }
    let summary = if whole.metadata.deletion_timestamp.is_some() {
        "it is being deleted"
    } else {
        "what stands between it and its deletion"
    };
    Ok(Report {
        summary: summary.to_owned(),
        sentences,
        manager: None,
    })
}

/// The workload of a Pod: of a ReplicaSet its Deployment, if that can be seen.
async fn workload(client: &Client, namespace: &str, pod: &Pod) -> Option<WorkloadRef> {
    let owner = WorkloadRef::from(pod.metadata.controller()?);
    if !owner.is_of(ReplicaSet::GROUP, ReplicaSet::KIND) {
        return Some(owner);
    }
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let set = sets.get_metadata_opt(&owner.name).await.ok().flatten();
    let above = set.and_then(|set| set.metadata.owner_references).unwrap_or_default();
    let above = above.into_iter().find(|above| above.controller == Some(true));
    Some(above.map_or(owner, |above| {
        WorkloadRef::new(&above.api_version, &above.kind, &above.name)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_kinds_then_budgets_and_pods_are_meant_by_all_of_their_names() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            read(&words).map(|read| read.map(|(subject, name)| (subject, name.to_owned())))
        };
        let budget = Some((Subject::Budget, "web".to_owned()));
        for words in [
            &["pub", "web"][..],
            &["podunavailablebudgets.policy.kruise.io", "web"],
            &["PUB/web"],
        ] {
            assert_eq!(read(words).unwrap(), budget, "{words:?}");
        }
        assert_eq!(read(&["po/web"]).unwrap(), Some((Subject::Pod, "web".to_owned())));
        assert_eq!(read(&["cloneset", "web"]).unwrap(), None);
        assert_eq!(read(&["pub"]).unwrap(), None);
        assert!(read(&["pod", ""]).is_err());
    }
}
