//! The user's steps once more.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use axum::http::{Request, header::CONTENT_TYPE};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Event};
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::FreshNamespace,
    sim::{SimOptions, SimulatedNodes},
    storage::{self, LocalStorage},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::{Value, json};

use super::{
    super::{
        chart::{Kinds, api, apply, name},
        world::World,
    },
    daemon::Daemon,
    differences,
    facts::{Recording, Track, items, object, owner, text},
    fixture::{self, Expected, RECORDINGS, Recorded, Step, sorted, steps},
    hashes::Hashes,
};

/// As the original was started for the recordings.
pub(super) const GATES: &str =
    "--feature-gates=AllAlpha=true,AllBeta=true,EnableExternalCerts=false,TemplateNoDefaults=false";
const PATIENCE: Duration = Duration::from_mins(3);

#[test]
fn given_the_steps_of_the_recordings_then_everything_goes_the_same_way() {
    run_test(Duration::from_mins(10), async {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "replay").await;
        let replica = world.start_with(&Faults::new(1), &[GATES]);
        world.publish(&replica).await;
        replica.leads().await;
        world.all_trust().await;
        let options = SimOptions {
            count: 3,
            name_prefix: "replay".to_owned(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        apply(&world.client, &storage_class()).await;
        let _storage = LocalStorage::start(world.client.clone());
        let replayed = RECORDINGS.map(|name| replay(&world, name));
        futures::future::join_all(replayed).await;
        let classes = api(&world.client, &storage_class());
        classes
            .delete(&name(&storage_class()), &DeleteParams::default())
            .await
            .unwrap();
        nodes.stop().await.unwrap();
        world.stop(replica).await;
    });
}

async fn replay(world: &World, name: &str) {
    let namespace = world.reached(name).await;
    let _daemon = Daemon::start(&world.client, namespace.name());
    let mut scenario = Scenario {
        recording: Recording::start(&world.client, namespace.name()),
        client: world.client.clone(),
        recorded: Recorded::new(),
        events: BTreeMap::new(),
        kind: fixture::kind(name),
        hashes: Hashes::default(),
        namespace,
    };
    for step in steps(name) {
        let began = Instant::now();
        scenario.step(name, &step).await;
        tracing::info!(name, step = step.name, took = ?began.elapsed(), "as recorded");
    }
}

/// Claims are served at once, as they were then.
fn storage_class() -> Value {
    let mut class = storage::class("replay");
    class["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    class["volumeBindingMode"] = json!("Immediate");
    class
}

struct Scenario {
    client: Client,
    namespace: FreshNamespace,
    recording: Recording,
    recorded: Recorded,
    /// Of the sets.
    kind: &'static str,
    hashes: Hashes,
    /// The events so far: how often each was seen.
    events: BTreeMap<String, i32>,
}

/// How far our own recording had come when a step began.
struct Mark {
    lengths: [BTreeMap<String, usize>; 4],
    moments: usize,
}

impl Scenario {
    async fn step(&mut self, scenario: &str, step: &Step) {
        let mark = self.mark();
        let requests: Vec<fixture::Request> = step.requests.iter().map(|request| self.named(request)).collect();
        let expected = self.recorded.take(step);
        for request in &requests {
            self.request(request).await;
        }
        let what = format!("{scenario}, {}: {}", step.name, step.what);
        let told = eventually(PATIENCE, &what, || async {
            if self.kind == "DaemonSet" {
                self.hashes.learn(self.namespace.api()).await?;
            }
            self.compare(step, &mark, &expected)?;
            self.compare_objects().await?;
            self.compare_events(step).await
        })
        .await;
        self.events.extend(told);
    }

    fn mark(&self) -> Mark {
        let seen = self.recording.seen();
        let lengths = [&seen.pods, &seen.claims, &seen.barriers, &seen.pull_jobs];
        let length = |tracks: &BTreeMap<String, Track>| {
            let lengths = tracks.iter().map(|(name, track)| (name.clone(), track.states.len()));
            lengths.collect()
        };
        Mark {
            lengths: lengths.map(length),
            moments: seen.moments.len(),
        }
    }

    /// A request with names of our Pods: of those that are in the same state.
    fn named(&self, request: &fixture::Request) -> fixture::Request {
        let mut all = json!([request.path, request.body]).to_string();
        while let Some(at) = all.find("$p") {
            let id: String = all[at + 1..].chars().take_while(char::is_ascii_alphanumeric).collect();
            let wanted = self.recorded.pod(&id);
            let seen = self.recording.seen();
            let found = seen.pods.iter().find(|(_, track)| track.states.last() == Some(wanted));
            let (name, _) = found.unwrap_or_else(|| panic!("no Pod is like {id}: {wanted:#}"));
            all = all.replace(&format!("${id}"), name);
        }
        let (path, body) = serde_json::from_str(&all).unwrap();
        fixture::Request {
            verb: request.verb.clone(),
            path,
            body,
            refused: request.refused,
        }
    }

    async fn request(&self, request: &fixture::Request) {
        let group = if request.path.starts_with("pods") {
            "/api/v1"
        } else {
            "/apis/apps.kruise.io/v1beta1"
        };
        let kind = match &request.body {
            Some(Value::Array(_)) => "application/json-patch+json",
            _ if request.verb == "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let call = Request::builder()
            .method(request.verb.as_str())
            .uri(format!("{group}/namespaces/{}/{}", self.namespace.name(), request.path))
            .header(CONTENT_TYPE, kind)
            .body(
                request
                    .body
                    .as_ref()
                    .map_or_else(Vec::new, |body| body.to_string().into_bytes()),
            )
            .unwrap();
        let answer = self.client.request::<Value>(call).await;
        match (answer, request.refused) {
            (Ok(_), None) => {}
            (Err(kube::Error::Api(status)), Some(code)) => {
                assert_eq!(status.code, code, "{status:?}");
                assert!(status.message.contains("denied the request"), "{status:?}");
            }
            (answer, refused) => panic!("{} {}: {refused:?}, {answer:?}", request.verb, request.path),
        }
    }

    /// Everything that our own recording has.
    fn compare(&self, step: &Step, mark: &Mark, expected: &Expected) -> Result<(), NotYet> {
        let seen = self.recording.seen();
        let [pods, claims, barriers, pull_jobs] = &mark.lengths;
        let changed = self.hashes.named(&since(&seen.pods, pods)).into_values();
        let changed = changed.map(|states| fixture::by_writer(differences::pod_writes(&states)));
        same("Pods", &expected.pods, &sorted(changed))?;
        same(
            "claims",
            &expected.claims,
            &sorted(since(&seen.claims, claims).into_values()),
        )?;
        same(
            "barriers",
            &expected.barriers,
            &sorted(since(&seen.barriers, barriers).into_values()),
        )?;
        let jobs = self.hashes.named(&since(&seen.pull_jobs, pull_jobs));
        same("ImagePullJobs", &expected.pull_jobs, &jobs)?;
        let moments = &seen.moments[mark.moments.saturating_sub(1)..];
        let alive = moments.iter().map(|(_, alive)| *alive);
        let updating = seen.moments[mark.moments..].iter().map(|(updating, _)| *updating);
        same(
            "Pods under update",
            &differences::updating(step),
            &updating.max().unwrap_or(0),
        )?;
        if step.name == "01-create" {
            same("most Pods", &Some(step.alive[1]), &alive.max())?;
        } else {
            same(
                "fewest and most Pods",
                &step.alive.map(Some),
                &[alive.clone().min(), alive.max()],
            )?;
        }
        if !expected.env.is_empty() {
            let changed = since(&seen.pods, pods);
            let env = changed.keys().map(|name| env(name, &seen.pods[name].latest));
            same("environment", &expected.env, &env.collect())?;
        }
        same("Pods without peace", &Vec::new(), &seen.restless())
    }

    /// Sets and revisions.
    async fn compare_objects(&self) -> Result<(), NotYet> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", self.kind));
        let sets: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), self.namespace.name(), &resource);
        let mut found = json!({});
        for set in sets.list(&ListParams::default()).await?.items {
            let (status, scale) = (&set.data["status"], &set.data["spec"]["scaleStrategy"]);
            let told = json!({"generation": set.metadata.generation, "status": status, "scaleStrategy": scale});
            let told = object(&told).into_iter().filter(|(_, value)| !value.is_null());
            found[set.name_any()] = told.collect();
        }
        same("sets", &self.recorded.sets, &self.hashes.named(&found))?;
        let revisions: Api<ControllerRevision> = self.namespace.api();
        let mut found = json!({});
        for revision in revisions.list(&ListParams::default()).await?.items {
            let revision = self.hashes.named(&json!(revision));
            let metadata = &revision["metadata"];
            let name = text(&metadata["name"]);
            found[name] = json!({
                "revision": revision["revision"], "labels": metadata["labels"], "annotations": object(&metadata["annotations"]),
                "owner": owner(metadata),
            });
            if !self.recorded.revisions[name]["data"].is_null() {
                found[name]["data"] = revision["data"].clone();
            }
        }
        same("revisions", &self.recorded.revisions, &found)
    }

    /// Returns the events that are new or were seen again.
    async fn compare_events(&self, step: &Step) -> Result<BTreeMap<String, i32>, NotYet> {
        let events: Api<Event> = self.namespace.api();
        let selected = ListParams::default().fields(&format!("involvedObject.kind={}", self.kind));
        let mut told = BTreeMap::new();
        let mut texts = Vec::new();
        for event in events.list(&selected).await?.items {
            let (name, count) = (event.name_any(), event.count.unwrap_or(1));
            if self.events.get(&name) != Some(&count) {
                let event = json!(event);
                let message = self.recording.seen().without_names(text(&event["message"]));
                let message = self.hashes.named(&message);
                texts.push(format!(
                    "{} {} x{count}: {message}",
                    text(&event["type"]),
                    text(&event["reason"])
                ));
                told.insert(name, count);
            }
        }
        texts.sort();
        if !step.merges_events {
            same("events", &step.events, &texts)?;
        }
        Ok(told)
    }
}

/// What changed since a step began, with the state before it.
fn since(tracks: &BTreeMap<String, Track>, lengths: &BTreeMap<String, usize>) -> fixture::Fates {
    let changed = tracks.iter().filter_map(|(name, track)| {
        let before = lengths.get(name).copied().unwrap_or(0);
        (track.states.len() > before).then(|| (name.clone(), track.states[before.saturating_sub(1)..].to_vec()))
    });
    changed.collect()
}

/// Environment by container, as the recording tells it.
fn env(name: &str, pod: &Value) -> Value {
    let mut env = json!({});
    for container in items(&pod["spec"]["containers"]) {
        let variables = items(&container["env"]).iter();
        let told = variables.map(|variable| {
            let from = if variable["valueFrom"].is_null() {
                "value"
            } else {
                "valueFrom"
            };
            json!([variable["name"], variable[from]])
        });
        env[text(&container["name"])] = told.collect();
    }
    serde_json::from_str(&env.to_string().replace(name, "POD")).unwrap()
}

fn same<T: PartialEq + serde::Serialize>(what: &str, recorded: &T, seen: &T) -> Result<(), NotYet> {
    if recorded == seen {
        return Ok(());
    }
    let (mut recorded, mut seen) = (json!(recorded), json!(seen));
    // What is on both sides does not help the reader.
    match (&mut recorded, &mut seen) {
        (Value::Array(recorded), Value::Array(seen)) => {
            recorded.retain(|item| match seen.iter().position(|other| other == item) {
                Some(at) => {
                    seen.remove(at);
                    false
                }
                None => true,
            });
        }
        (Value::Object(recorded), Value::Object(seen)) => {
            recorded.retain(|name, item| seen.get(name) != Some(item) || seen.remove(name).is_none());
        }
        _ => {}
    }
    Err(NotYet::new(format!(
        "{what} were\n{}\nand are\n{}",
        lines(&recorded),
        lines(&seen)
    )))
}

/// One line for each item, and for each item of an item.
fn lines(value: &Value) -> String {
    let parts: Vec<&Value> = items(value)
        .iter()
        .flat_map(|item| {
            item.as_array()
                .map_or_else(|| vec![item], |items| items.iter().collect())
        })
        .collect();
    match parts.as_slice() {
        [] => format!("{value:#}"),
        parts => parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}
