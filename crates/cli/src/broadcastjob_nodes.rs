//! `kubectl kruise get broadcastjob NAME`: on which nodes it has Pods, how they are, and why they failed.
//!
//! Failed Pods come first, then the others, each by the name of their node. The reason is what kubelets and the scheduler say: how a container ended, what it waits for, or
//! why the Pod has no node. What the job says of itself follows: nodes that wait for their turn, and its conditions.

use crate::{
    args::Connection,
    connect::connect,
    explain::{Completeness, get, print},
    object::{self, ExplainedKind},
    text::visible,
};
use anyhow::{Context as _, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::names::label;
use kube::{Api, Client, api::ListParams};
use serde_json::Value;
use std::fmt::Write as _;
use tokio::time::timeout;

/// Pods that are asked for at a time.
const PAGE: u32 = 500;
/// Most characters of what somebody else says.
const LONGEST: usize = 120;

pub(crate) async fn run(connection: &Connection, words: &[String]) -> Result<Completeness> {
    let (kind, name) = object::read(words)?;
    let (client, namespace) = connect(connection).await?;
    let asked = async {
        let job = get(&client, kind, &namespace, name).await?;
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        let pods = pods(&client, &namespace, name, uid).await?;
        anyhow::Ok((job, pods))
    };
    let asked = timeout(connection.request_timeout, asked).await;
    let (job, pods) =
        asked.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))??;
    print(&text(kind, &job, &pods))?;
    Ok(Completeness::All)
}

/// The Pods of a job.
async fn pods(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<Vec<Value>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let labels = format!(
        "{}={name},{}={uid}",
        label::BROADCAST_JOB_NAME,
        label::BROADCAST_JOB_UID
    );
    let mut params = ListParams::default().labels(&labels).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) => bail!("{}", status.message),
            Err(error) => return Err(error).context("the API server cannot be asked"),
        };
        for pod in page.items {
            all.push(serde_json::to_value(pod)?);
        }
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params.continue_token = Some(more),
            None => return Ok(all),
        }
    }
}

/// All that is told of a job with these Pods.
fn text(kind: &ExplainedKind, job: &Value, pods: &[Value]) -> String {
    let at = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (at("namespace"), at("name"));
    let limit = job.pointer("/spec/failurePolicy/restartLimit").and_then(Value::as_i64);
    let mut rows: Vec<Row> = pods.iter().map(|pod| Row::of(pod, limit.unwrap_or_default())).collect();
    rows.sort_by(|one, other| {
        let rank = |row: &Row| (row.state != FAILED, row.node.clone(), row.pod.clone());
        rank(one).cmp(&rank(other))
    });
    let mut text = format!("BroadcastJob {namespace}/{name}: {}\n\n", kind.summary(job));
    text.push_str(&table(&rows));
    let mut sentences = kind.describe(job);
    let failed = rows.iter().filter(|row| row.state == FAILED).count();
    let counted = job
        .pointer("/status/failed")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let gone = counted.saturating_sub(failed as u64);
    if gone > 0 {
        sentences.push(format!("Pods that count as failed and are not there any more: {gone}."));
    }
    if !sentences.is_empty() {
        text.push('\n');
    }
    for sentence in sentences {
        let _ = writeln!(text, "{}", visible(&sentence));
    }
    text
}

const FAILED: &str = "Failed";

/// A Pod of the job.
#[derive(Debug, PartialEq)]
struct Row {
    node: String,
    state: String,
    restarts: i64,
    pod: String,
    reason: String,
}

impl Row {
    fn of(pod: &Value, restart_limit: i64) -> Self {
        let containers = Container::all(pod);
        let restarts = containers.iter().map(|container| container.restarts).sum();
        let phase = pod
            .pointer("/status/phase")
            .and_then(Value::as_str)
            .unwrap_or("Pending");
        let has_ended = matches!(phase, FAILED | "Succeeded");
        let policy = pod.pointer("/spec/restartPolicy").and_then(Value::as_str);
        let is_over = policy == Some("OnFailure") && restarts > restart_limit;
        let is_leaving = !pod["metadata"]["deletionTimestamp"].is_null();
        let state = match phase {
            _ if has_ended => phase,
            _ if is_leaving => "Terminating",
            _ if is_over => FAILED,
            _ => phase,
        };
        let mut reasons = Vec::new();
        if is_over && !has_ended && !is_leaving {
            reasons.push(format!("restarts are above restartLimit {restart_limit}"));
        }
        if phase != "Succeeded" {
            reasons.extend(of_pod(pod));
            reasons.extend(containers.iter().filter_map(Container::reason));
        }
        Self {
            node: node(pod).to_owned(),
            state: state.to_owned(),
            restarts,
            pod: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            reason: reasons.join("; "),
        }
    }
}

/// The node that a Pod is on, or for.
fn node(pod: &Value) -> &str {
    let on = pod.pointer("/spec/nodeName").and_then(Value::as_str);
    let wanted = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let wanted = || pod.pointer(wanted).and_then(Value::as_str);
    on.filter(|on| !on.is_empty()).or_else(wanted).unwrap_or("<none>")
}

/// What is said of the Pod as a whole: why it was evicted, or why it has no node.
fn of_pod(pod: &Value) -> Option<String> {
    let text = |field: &str| pod["status"][field].as_str().unwrap_or_default();
    if !text("reason").is_empty() || !text("message").is_empty() {
        return Some(with_message(text("reason"), text("message")));
    }
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let unscheduled = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    let condition = conditions.iter().find(unscheduled)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    Some(with_message(text("reason"), text("message")))
}

/// A container of a Pod, as its kubelet reports it.
struct Container<'a> {
    name: &'a str,
    restarts: i64,
    status: &'a Value,
}

impl<'a> Container<'a> {
    fn all(pod: &'a Value) -> Vec<Self> {
        let lists = ["initContainerStatuses", "containerStatuses"];
        let lists = lists.iter().filter_map(|list| pod["status"][*list].as_array());
        let read = |status: &'a Value| Self {
            name: status["name"].as_str().unwrap_or_default(),
            restarts: status["restartCount"].as_i64().unwrap_or_default(),
            status,
        };
        lists.flatten().map(read).collect()
    }

    /// What keeps it from running, and how it ended when that was not well.
    fn reason(&self) -> Option<String> {
        let (state, last) = (&self.status["state"], &self.status["lastState"]);
        let waits = state.get("waiting").map(|waiting| {
            let text = |field: &str| waiting[field].as_str().unwrap_or_default();
            (text("reason"), text("message"))
        });
        let waits = waits.filter(|(reason, _)| !matches!(*reason, "" | "ContainerCreating" | "PodInitializing"));
        let ended = state
            .get("terminated")
            .or_else(|| last.get("terminated"))
            .and_then(ended);
        let failure = match (ended, waits) {
            // The message repeats how long the pause is and which container.
            (Some(ended), Some((reason, _))) => format!("{ended}, {reason}"),
            (Some(ended), None) => ended,
            (None, Some((reason, message))) => with_message(reason, message),
            (None, None) => return None,
        };
        Some(format!("{}: {failure}", self.name))
    }
}

/// How a container ended, if not well.
fn ended(terminated: &Value) -> Option<String> {
    let text = |field: &str| terminated[field].as_str().unwrap_or_default();
    let code = terminated["exitCode"].as_i64().filter(|code| *code != 0)?;
    let reason = match text("reason") {
        "" | "Error" => String::new(),
        reason => format!(" ({reason})"),
    };
    let ended = format!("exit code {code}{reason}");
    Some(with_message(&ended, text("message")))
}

/// A word and what is said about it, as far as it fits into a line.
fn with_message(word: &str, message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    match (word, &*short) {
        (word, "") => word.to_owned(),
        ("", short) => short.to_owned(),
        (word, short) => format!("{word}: {short}"),
    }
}

const HEAD: [&str; 5] = ["NODE", "STATE", "RESTARTS", "POD", "REASON"];

/// Columns as kubectl prints them.
fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "It has no Pods.\n".to_owned();
    }
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let cells = [&*row.node, &row.state, &row.restarts.to_string(), &row.pod, &row.reason];
        cells.map(visible)
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; HEAD.len()] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(widths);
        let padded: String = cells.map(|(cell, width)| format!("{cell:width$}   ")).collect();
        let _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(job: &Value, pods: &[Value]) -> String {
        let (kind, _) = object::read(&["bcj/job".to_owned()]).unwrap();
        text(kind, job, pods)
    }

    fn job(status: &Value) -> Value {
        json!({"metadata": {"name": "job", "namespace": "shop"}, "spec": {"failurePolicy": {"type": "Continue", "restartLimit": 2}}, "status": status})
    }

    /// A Pod `job-NODE` on a node with one container in this state.
    fn pod(node: &str, phase: &str, state: &Value) -> Value {
        let main = json!({"name": "main", "restartCount": 0, "state": state, "lastState": {}});
        json!({
            "metadata": {"name": format!("job-{node}")}, "spec": {"nodeName": node, "restartPolicy": "Never"},
            "status": {"phase": phase, "containerStatuses": [main]},
        })
    }

    fn reason(pod: &Value) -> (String, String) {
        let row = Row::of(pod, 2);
        (row.state, row.reason)
    }

    #[test]
    fn given_pods_then_nodes_states_and_failures_are_a_table_with_failures_first() {
        let status = json!({"phase": "running", "desired": 5, "active": 1, "succeeded": 1, "failed": 2});
        let failed = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no space left\non device"}});
        let pods = [
            pod("n2", "Running", &json!({"running": {}})),
            pod("n1", "Succeeded", &json!({"terminated": {"exitCode": 0}})),
            pod("n10", "Failed", &failed),
        ];
        assert_eq!(
            text_of(&job(&status), &pods),
            "BroadcastJob shop/job: running, 5 nodes, 1 active, 1 succeeded, 2 failed\n\n\
             NODE   STATE       RESTARTS   POD       REASON\n\
             n10    Failed      0          job-n10   main: exit code 3: no space left\n\
             n1     Succeeded   0          job-n1\n\
             n2     Running     0          job-n2\n\n\
             Nodes that have not had their Pod yet: 1.\n\
             Pods that count as failed and are not there any more: 1.\n"
        );
        let none = text_of(&job(&json!({"phase": "paused", "desired": 0})), &[]);
        assert!(none.ends_with("0 failed\n\nIt has no Pods.\n"), "{none}");
    }

    #[test]
    fn given_pods_that_do_not_run_then_the_reason_is_what_is_said_of_them() {
        let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        for (state, expected) in [
            (waiting("ContainerCreating", ""), ""),
            (
                waiting("ErrImagePull", "no such image"),
                "main: ErrImagePull: no such image",
            ),
            (
                json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
                "main: exit code 137 (OOMKilled)",
            ),
            (json!({"running": {}}), ""),
        ] {
            assert_eq!(
                reason(&pod("n1", "Pending", &state)),
                ("Pending".to_owned(), expected.to_owned())
            );
        }
        let mut evicted = pod("n1", "Failed", &json!({}));
        evicted["status"]["reason"] = json!("Evicted");
        evicted["status"]["message"] = json!("the node was low on memory");
        assert_eq!(reason(&evicted).1, "Evicted: the node was low on memory");
        let mut leaving = pod("n1", "Running", &json!({"running": {}}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
        assert_eq!(reason(&leaving).0, "Terminating");
    }

    #[test]
    fn given_a_pod_that_has_no_node_yet_then_the_one_it_is_for_is_shown_and_why_it_waits() {
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n7"]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        let message = "0/3 nodes are available: ".to_owned() + &"x".repeat(200);
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        let waits = json!({
            "metadata": {"name": "job-x"}, "spec": {"affinity": affinity}, "status": {"phase": "Pending", "conditions": [condition]},
        });
        let row = Row::of(&waits, 0);
        assert_eq!((&*row.node, &*row.state), ("n7", "Pending"));
        assert!(row.reason.starts_with("Unschedulable: 0/3 nodes"), "{}", row.reason);
        assert!(row.reason.ends_with("xx…"), "{}", row.reason);
        assert_eq!(Row::of(&json!({}), 0).node, "<none>");
    }

    #[test]
    fn given_too_many_restarts_then_the_pod_counts_as_failed_and_the_last_end_is_told() {
        let mut crashing = pod(
            "n1",
            "Running",
            &json!({"waiting": {"reason": "CrashLoopBackOff", "message": "x"}}),
        );
        crashing["spec"]["restartPolicy"] = json!("OnFailure");
        let main = &mut crashing["status"]["containerStatuses"][0];
        main["restartCount"] = json!(2);
        main["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
        let last = "main: exit code 1, CrashLoopBackOff";
        assert_eq!(reason(&crashing), ("Running".to_owned(), last.to_owned()));
        crashing["status"]["initContainerStatuses"] = json!([{"name": "init", "restartCount": 1}]);
        let over = format!("restarts are above restartLimit 2; {last}");
        assert_eq!(reason(&crashing), (FAILED.to_owned(), over));
    }

    #[test]
    fn given_control_characters_then_they_do_nothing() {
        let state = json!({"terminated": {"exitCode": 1, "message": "\u{1b}[2Jgone"}});
        let all = text_of(&job(&json!({"failed": 1})), &[pod("n1", "Failed", &state)]);
        assert!(all.contains("exit code 1: \\u001b[2Jgone"), "{all}");
    }
}
