//! `kubectl kruise describe`: all that is known of an object, on one page.
//!
//! Where it stands and what it waits for, how it is updated, its revisions with what changed, its containers, its Pods, its conditions and what was last reported about it. What
//! the user may not see is left out, and that is said.

use crate::{
    args::Connection,
    complain,
    explain::{Completeness, print},
    get::row::workload,
    kinds::{DEPLOYMENT, POD},
    object,
    rollout::revisions,
    select::Objects,
    server::{Object, Server, read_as},
    set::pod_specs,
    table::{age, table},
    template,
    text::visible,
};
use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_core::{
    shared::{revision, selector},
    view::WorkloadView,
};
use serde_json::{Map, Value};

/// Columns at which values begin.
const VALUES_AT: usize = 20;
/// Most Pods and events that are told.
const MOST: usize = 50;

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise describe cloneset web\n  kubectl kruise describe sidecarset/log asts/db\n  kubectl kruise describe clone -l app=web"
)]
pub(crate) struct Describe {
    #[command(flatten)]
    objects: Objects,
}

/// What is known of an object besides itself.
#[derive(Debug, Default)]
struct Around {
    history: String,
    pods: Option<Vec<Object>>,
    events: Option<Vec<Object>>,
}

pub(crate) async fn run(connection: &Connection, args: &Describe) -> Result<Completeness> {
    let server = Server::connect(connection).await?;
    let found = args.objects.find_all(&server).await?;
    if found.objects.is_empty() && found.errors.is_empty() {
        eprintln!("No resources found in {} namespace.", server.namespace);
    }
    for (place, object) in found.objects.iter().enumerate() {
        if place > 0 {
            print("\n\n")?;
        }
        let around = around(&server, object).await;
        print(&text(object, &around, Timestamp::now()))?;
    }
    for error in &found.errors {
        complain(error);
    }
    Ok(if found.errors.is_empty() {
        Completeness::All
    } else {
        Completeness::Failed
    })
}

async fn around(server: &Server, object: &Object) -> Around {
    let history = match revisions::read(server, object).await {
        Ok(all) if !all.is_empty() => revisions::differences(object, &all),
        _ => String::new(),
    };
    let labels: LabelSelector = read_as(&object.newest()["spec"]["selector"]).unwrap_or_default();
    let labels = selector::text(&labels);
    let pods = if object.namespace().is_empty() || labels.is_empty() {
        Some(Vec::new())
    } else {
        let listed = server.list(POD, None, Some(object.namespace()), Some(&labels)).await;
        let owner = (object.kind != DEPLOYMENT).then(|| object.uid());
        listed.ok().map(|pods| own(pods.unwrap_or_default(), owner))
    };
    Around {
        history,
        pods,
        events: server.events(object).await.ok(),
    }
}

/// The Pods of an owner; all when there is none, as those of a Deployment belong to its ReplicaSets.
fn own(pods: Vec<Object>, owner: Option<&str>) -> Vec<Object> {
    let is_own = |pod: &Object| {
        let owners = pod.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owner.is_none_or(|uid| owners.into_iter().flatten().any(|owner| owner["uid"] == uid))
    };
    pods.into_iter().filter(is_own).collect()
}

/// The page of an object.
fn text(object: &Object, around: &Around, now: Timestamp) -> String {
    let value = object.newest();
    let mut page = Page::default();
    page.line("Name", object.name());
    page.line("Namespace", object.namespace());
    page.line("Kind", &format!("{} ({})", object.kind.full(), object.version));
    page.map("Labels", &value["metadata"]["labels"]);
    page.map("Annotations", &annotations(&value));
    page.line("Age", &since(&value["metadata"]["creationTimestamp"], now));
    match workload(object.kind, &value) {
        Some(view) => page.workload(&view),
        None => page.any(object, &value),
    }
    page.text.push_str(&containers(object));
    page.section("Conditions", &conditions(&value, now));
    page.section("Revisions", &without_first_line(&around.history));
    let update = value
        .pointer("/status/updateRevision")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match &around.pods {
        Some(pods) => page.section("Pods", &pod_table(pods, update, now)),
        None => page.section("Pods", "You may not list them.\n"),
    }
    match &around.events {
        Some(events) => page.section("Events", &event_table(events, now)),
        None => page.section("Events", "You may not list them.\n"),
    }
    page.text
}

/// Annotations without what kubectl keeps for itself.
fn annotations(value: &Value) -> Value {
    let all = value["metadata"]["annotations"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let is_shown = |(key, _): &(String, Value)| !key.starts_with("kubectl.kubernetes.io/last-applied");
    all.into_iter().filter(is_shown).collect::<Map<_, _>>().into()
}

/// The containers of its Pods, which have their own heads.
fn containers(object: &Object) -> String {
    let specs = pod_specs(object);
    let containers = specs.iter().filter_map(|path| object.value.pointer(path));
    let containers: String = containers.map(template::containers).collect();
    let lines = containers.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
    lines.map(|line| format!("{line}\n")).collect()
}

fn without_first_line(text: &str) -> String {
    text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned())
}

fn since(time: &Value, now: Timestamp) -> String {
    let time = time.as_str().and_then(|time| time.parse::<Timestamp>().ok());
    time.map_or("<unknown>".to_owned(), |time| age(now.as_second() - time.as_second()))
}

fn string(value: &Value, path: &str) -> String {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn conditions(value: &Value, now: Timestamp) -> String {
    let all = value.pointer("/status/conditions").and_then(Value::as_array);
    let row = |condition: &Value| {
        vec![
            string(condition, "/type"),
            string(condition, "/status"),
            since(&condition["lastTransitionTime"], now),
            string(condition, "/reason"),
            string(condition, "/message"),
        ]
    };
    let rows: Vec<_> = all.into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    table(&["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], &rows)
}

fn pod_table(pods: &[Object], update: &str, now: Timestamp) -> String {
    let mut rows: Vec<Vec<String>> = pods.iter().map(|pod| pod_row(pod, update, now)).collect();
    rows.sort();
    let more = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    if rows.is_empty() {
        return String::new();
    }
    let text = table(
        &["NAME", "STATUS", "READY", "REVISION", "RESTARTS", "AGE", "NODE"],
        &rows,
    );
    if more > 0 {
        format!("{text}and {more} more\n")
    } else {
        text
    }
}

fn pod_row(object: &Object, update: &str, now: Timestamp) -> Vec<String> {
    let value = &object.value;
    let containers = value.pointer("/status/containerStatuses").and_then(Value::as_array);
    let containers: Vec<&Value> = containers.into_iter().flatten().collect();
    let ready = containers.iter().filter(|container| container["ready"] == true).count();
    let wanted = value
        .pointer("/spec/containers")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    let restarts: i64 = containers
        .iter()
        .filter_map(|container| container["restartCount"].as_i64())
        .sum();
    let waits = containers
        .iter()
        .find_map(|container| container.pointer("/state/waiting/reason")?.as_str());
    let phase = string(value, "/status/phase");
    let status = if value.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else {
        waits.unwrap_or(&phase)
    };
    let pod: Option<kruise_api::pod::Pod> = read_as(value).ok();
    let at = pod.as_ref().map_or("", revision::of_pod);
    let mark = if at.is_empty() || update.is_empty() {
        String::new()
    } else if revision::is_same(at, update) {
        format!("{} (new)", revision::short(at))
    } else {
        format!("{} (old)", revision::short(at))
    };
    vec![
        object.name().to_owned(),
        status.to_owned(),
        format!("{ready}/{wanted}"),
        mark,
        restarts.to_string(),
        since(&value["metadata"]["creationTimestamp"], now),
        string(value, "/spec/nodeName"),
    ]
}

fn event_table(events: &[Object], now: Timestamp) -> String {
    let time = |event: &Value| {
        let known = ["/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        let mut known = known.iter().filter_map(|path| event.pointer(path));
        known.find(|time| time.is_string()).cloned().unwrap_or_default()
    };
    let mut events: Vec<&Value> = events.iter().map(|event| &event.value).collect();
    events.sort_by_key(|event| time(event).as_str().map(str::to_owned));
    let last = events.split_off(events.len().saturating_sub(MOST));
    let row = |event: &&Value| {
        let count = event["count"].as_i64().unwrap_or(1);
        let times = if count > 1 {
            format!(" (x{count})")
        } else {
            String::new()
        };
        vec![
            string(event, "/type"),
            string(event, "/reason"),
            format!("{}{times}", since(&time(event), now)),
            string(event, "/message").trim().to_owned(),
        ]
    };
    let rows: Vec<_> = last.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    table(&["TYPE", "REASON", "AGE", "MESSAGE"], &rows)
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let name = if name.is_empty() {
                String::new()
            } else {
                format!("{name}:")
            };
            self.text.push_str(&format!("{name:VALUES_AT$}{}\n", visible(value)));
        }
    }

    fn map(&mut self, name: &str, map: &Value) {
        let mut name = name;
        for (key, value) in map.as_object().into_iter().flat_map(Map::iter) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.line(name, &format!("{key}={value}"));
            name = "";
        }
    }

    fn section(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(&format!("{name}:\n"));
        for line in text.lines() {
            self.text.push_str(&format!("  {line}\n"));
        }
    }

    fn workload(&mut self, view: &WorkloadView) {
        self.line("State", &view.state.label);
        self.line("Waits for", &view.state.note);
        let WorkloadView {
            unit,
            wanted,
            there,
            updated,
            ready,
            available,
            ..
        } = view;
        if *unit != "jobs" {
            let counts =
                format!("{wanted} wanted, {there} there, {updated} updated, {ready} ready, {available} available");
            self.line(&capital(unit), &counts);
        }
        self.line("Update revision", &view.details.update_revision);
        self.line("Current revision", &view.details.current_revision);
        let strategy = view
            .details
            .strategy
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        self.line("Update strategy", &strategy.collect::<Vec<_>>().join(", "));
    }

    fn any(&mut self, object: &Object, value: &Value) {
        let Some(explained) = object.kind.ours.and_then(object::explained) else {
            return;
        };
        self.line("State", &explained.summary(value));
        let sentences = explained.describe(value);
        // Conditions have a table of their own.
        let told = sentences.iter().filter(|sentence| !sentence.starts_with("Condition "));
        for (place, sentence) in told.enumerate() {
            self.line(if place == 0 { "Waits for" } else { "" }, sentence);
        }
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use serde_json::json;

    fn at(word: &str, version: &'static str, value: Value) -> Object {
        let (kind, _) = kinds::resolve(word).unwrap();
        Object { kind, version, value }
    }

    fn pod(name: &str, revision: &str) -> Object {
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"controller-revision-hash": revision}, "ownerReferences": [{"uid": "u", "apiVersion": "a/v1", "kind": "K", "name": "n"}]},
            "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
            "status": {"phase": "Running", "containerStatuses": [{"ready": false, "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        Object {
            kind: POD,
            version: "v1",
            value,
        }
    }

    #[test]
    fn given_a_workload_then_its_page_tells_what_is_known() {
        let value = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "generation": 1, "uid": "u", "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "updateStrategy": {"type": "InPlaceOnly", "partition": 1},
                "template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}},
            "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "expectedUpdatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2,
                "updateRevision": "web-7d9", "conditions": [{"type": "FailedScale", "status": "True", "message": "quota", "lastTransitionTime": "2026-01-01T00:00:30Z"}]}});
        let object = at("clone", "v1alpha1", value);
        let event = json!({"type": "Warning", "reason": "FailedCreate", "count": 3, "message": "no\u{1b}", "lastTimestamp": "2026-01-01T00:01:00Z"});
        let events = vec![Object {
            kind: POD,
            version: "v1",
            value: event,
        }];
        let pods = own(vec![pod("web-a", "7d9"), pod("web-b", "web-5f4")], Some("u"));
        let around = Around {
            history: "cloneset.apps.kruise.io/web\nrevision 1\n".to_owned(),
            pods: Some(pods),
            events: Some(events),
        };
        let expected = "\
Name:               web
Namespace:          shop
Kind:               CloneSet.apps.kruise.io (v1alpha1)
Labels:             app=web
Age:                90s
State:              Held
Waits for:          The partition keeps 1 Pod at the old revision.
Pods:               2 wanted, 2 there, 1 updated, 2 ready, 2 available
Update revision:    web-7d9
Update strategy:    type RollingUpdate, podUpdatePolicy InPlaceOnly, partition 1
Containers:
  main:
    Image:             nginx:2
Conditions:
  TYPE          STATUS   SINCE   REASON   MESSAGE
  FailedScale   True     60s              quota
Revisions:
  revision 1
Pods:
  NAME    STATUS             READY   REVISION    RESTARTS   AGE   NODE
  web-a   CrashLoopBackOff   0/1     7d9 (new)   2          90s   node-1
  web-b   CrashLoopBackOff   0/1     5f4 (old)   2          90s   node-1
Events:
  TYPE      REASON         AGE        MESSAGE
  Warning   FailedCreate   30s (x3)   no\\u001b
";
        assert_eq!(
            text(&object, &around, "2026-01-01T00:01:30Z".parse().unwrap()),
            expected
        );
    }

    #[test]
    fn given_what_may_not_be_seen_then_the_page_says_so() {
        let marker = json!({"metadata": {"name": "game"}, "spec": {"probes": [{}]}, "status": {"matchedPods": 0}});
        let page = text(
            &at("podprobemarker", "v1alpha1", marker),
            &Around::default(),
            Timestamp::UNIX_EPOCH,
        );
        assert!(
            page.contains("State:              1 probes for 0 Pods\nWaits for:          No Pod is probed"),
            "{page}"
        );
        assert!(
            page.ends_with("Pods:\n  You may not list them.\nEvents:\n  You may not list them.\n"),
            "{page}"
        );
        let empty = text(
            &at("clone", "v1beta1", json!({})),
            &Around::default(),
            Timestamp::UNIX_EPOCH,
        );
        assert!(empty.contains("Age:                <unknown>"), "{empty}");
    }
}
