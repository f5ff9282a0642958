//! `kubectl kruise restart`: a ContainerRecreateRequest, and how it goes.

use crate::{
    args::{Connection, Restart},
    connect::connect,
    explain::Completeness,
    follow::{Followed, Progress, seconds},
};
use anyhow::{Context as _, Result, anyhow, bail};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kruise_api::containerrecreaterequest::{
    FailurePolicy, RecreateContainer, RecreatePhase,
    v1beta1::{
        ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, RecreateStrategy,
    },
};
use kube::{Api, Client};
use tokio::time::timeout;

/// Seconds that a request is kept after its end, for those who want to look.
const KEPT_SECONDS: i32 = 600;

pub(crate) async fn run(connection: &Connection, args: &Restart) -> Result<Completeness> {
    let pod = pod_name(&args.pod)?;
    let (client, namespace) = connect(connection).await?;
    let containers = if args.containers.is_empty() {
        let asked = timeout(connection.request_timeout, containers_of(&client, &namespace, pod)).await;
        asked.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))??
    } else {
        args.containers.clone()
    };
    let request = request(pod, &containers, args);
    let followed = Followed::make(&client, &namespace, &request, connection).await?;
    if args.no_wait {
        return Ok(Completeness::All);
    }
    let done = followed.until_done(|request| progress(request.status.as_ref())).await?;
    let status = done.status.unwrap_or_default();
    let all = !status.container_recreate_states.is_empty()
        && status
            .container_recreate_states
            .iter()
            .all(|state| state.phase == RecreatePhase::Succeeded);
    Ok(if all { Completeness::All } else { Completeness::Failed })
}

fn pod_name(text: &str) -> Result<&str> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => bail!("{kind} cannot be restarted; name a Pod: pod/NAME"),
        None => text,
    };
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not the name of a Pod");
    }
    Ok(name)
}

async fn containers_of(client: &Client, namespace: &str, name: &str) -> Result<Vec<String>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = match pods.get(name).await {
        Ok(pod) => pod,
        Err(kube::Error::Api(status)) => bail!("{}", status.message),
        Err(error) => return Err(error).context("the API server cannot be asked"),
    };
    let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
    Ok(containers.into_iter().map(|container| container.name).collect())
}

fn request(pod: &str, containers: &[String], args: &Restart) -> ContainerRecreateRequest {
    let named = |name: &String| RecreateContainer {
        name: name.clone(),
        ..RecreateContainer::default()
    };
    ContainerRecreateRequest {
        metadata: ObjectMeta {
            generate_name: Some(format!("{pod}-")),
            ..ObjectMeta::default()
        },
        spec: ContainerRecreateRequestSpec {
            pod_name: pod.to_owned(),
            containers: containers.iter().map(named).collect(),
            strategy: Some(RecreateStrategy {
                failure_policy: if args.ignore_failures {
                    FailurePolicy::Ignore
                } else {
                    FailurePolicy::Fail
                },
                ordered_recreate: args.ordered,
                termination_grace_period_seconds: args.grace_period.map(seconds),
                unready_grace_period_seconds: args.unready.map(seconds),
                ..RecreateStrategy::default()
            }),
            active_deadline_seconds: Some(seconds(args.timeout)),
            ttl_seconds_after_finished: Some(KEPT_SECONDS),
        },
        ..ContainerRecreateRequest::default()
    }
}

/// `main: Recreating, side: Pending`.
fn progress(status: Option<&ContainerRecreateRequestStatus>) -> Progress {
    let Some(status) = status else {
        return Progress {
            line: "waiting for the daemon of the node".to_owned(),
            is_done: false,
        };
    };
    let states = status.container_recreate_states.iter().map(|state| {
        let message = if state.message.is_empty() {
            String::new()
        } else {
            format!(" ({})", state.message)
        };
        format!("{}: {}{message}", state.name, state.phase)
    });
    let mut line = states.collect::<Vec<_>>().join(", ");
    let is_done = status.completion_time.is_some();
    if line.is_empty() {
        line = status.phase.to_string();
    }
    if !status.message.is_empty() {
        line = format!("{line}: {}", status.message);
    }
    if is_done {
        line = format!("done: {line}");
    }
    Progress { line, is_done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_named_as_with_kubectl() {
        for text in ["web-0", "pod/web-0", "pods/web-0", "po/web-0"] {
            assert_eq!(pod_name(text).unwrap(), "web-0");
        }
        for (text, error) in [
            ("cloneset/web", "cloneset cannot be restarted"),
            ("pod/", "is not the name"),
            ("pod/a/b", "is not the name"),
        ] {
            assert!(pod_name(text).unwrap_err().to_string().contains(error), "{text}");
        }
    }

    #[test]
    fn given_a_status_then_it_is_told_in_a_line() {
        for (status, line, is_done) in [
            (json!({"phase": "Recreating"}), "Recreating", false),
            (
                json!({"phase": "Recreating", "containerRecreateStates": [{"name": "a", "phase": "Succeeded"}, {"name": "b", "phase": "Pending"}]}),
                "a: Succeeded, b: Pending",
                false,
            ),
            (
                json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z", "containerRecreateStates": [{"name": "a", "phase": "Failed", "message": "no"}]}),
                "done: a: Failed (no)",
                true,
            ),
            (
                json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z", "message": "pod has gone"}),
                "done: Completed: pod has gone",
                true,
            ),
        ] {
            let status: ContainerRecreateRequestStatus = serde_json::from_value(status).unwrap();
            let shown = progress(Some(&status));
            assert_eq!((shown.line.as_str(), shown.is_done), (line, is_done));
        }
        assert!(!progress(None).is_done);
    }
}
