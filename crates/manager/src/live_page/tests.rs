//! The page from stores that the tests feed, for readers whose rights the tests give.

mod access;
mod http;
mod hub;
mod stream;

use super::{
    access::{Reviews, Right},
    hub::{Hub, SourceObject, Topic},
    sources::{Around, Cached, Shown, Source, Table},
};
use crate::platform::{PODS_BY_NAMESPACE, PODS_BY_OWNER, PODS_BY_SIDECAR_SET, REVISIONS_BY_NAMESPACE};
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::UserInfo;
use kruise_admission::REVISIONS_BY_SIDECAR_SET;
use kruise_api::{
    cloneset::v1beta1::CloneSet, nodeimage::CachedNodeImage, pod::Pod,
    podunavailablebudget::v1beta1::PodUnavailableBudget, revision::ControllerRevision,
};
use kruise_runtime::{
    cache::{Change, Kind, Store},
    error::Error,
};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Stores of some kinds, and the hub that reads them.
struct Fixture {
    sets: Store<CloneSet>,
    pods: Store<Pod>,
    revisions: Store<ControllerRevision>,
    budgets: Store<PodUnavailableBudget>,
    nodes: Store<CachedNodeImage>,
    hub: Arc<Hub>,
    registry: Registry,
}

impl Fixture {
    fn new() -> Self {
        let pods = Kind::of()
            .index(&PODS_BY_OWNER)
            .index(&PODS_BY_NAMESPACE)
            .index(&PODS_BY_SIDECAR_SET);
        let revisions = Kind::of()
            .index(&REVISIONS_BY_NAMESPACE)
            .index(&REVISIONS_BY_SIDECAR_SET);
        let (sets, pods, revisions) = (Store::new(Kind::of()), Store::new(pods), Store::new(revisions));
        let (budgets, nodes) = (Store::new(Kind::of()), Store::new(Kind::of()));
        let sources: Vec<Arc<dyn Source>> = vec![shown(&sets), shown(&budgets), shown(&nodes)];
        let around = Around {
            pods: pods.clone(),
            revisions: revisions.clone(),
            budgets: budgets.clone(),
        };
        let registry = Registry::new();
        let hub = Hub::new(sources, around, &registry).unwrap();
        Self {
            sets,
            pods,
            revisions,
            budgets,
            nodes,
            hub,
            registry,
        }
    }

    fn set(&self, namespace: &str, name: &str, ready: i32) {
        self.sets.feed(Change::Applied(set(namespace, name, ready, "web-1")));
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }
}

fn shown<K: Shown>(store: &Store<K>) -> Arc<dyn Source> {
    Arc::new(Cached(store.clone()))
}

fn set(namespace: &str, name: &str, ready: i32, revision: &str) -> CloneSet {
    read(&json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "generation": 1},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "main", "image": "nginx", "env": [{"name": "PASSWORD", "value": "hunter2"}]},
        ]}}},
        "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "expectedUpdatedReplicas": 3,
            "readyReplicas": ready, "availableReplicas": ready, "updateRevision": revision},
    }))
}

fn pod(namespace: &str, name: &str, owner: &str) -> Pod {
    read(&json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"controller-revision-hash": "web-1", "app": owner},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": owner,
                "uid": format!("uid-{owner}"), "controller": true}]},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "nginx", "env": [{"name": "PASSWORD", "value": "hunter2"}]}]},
        "status": {"phase": "Running"},
    }))
}

fn read<K: serde::de::DeserializeOwned>(value: &Value) -> K {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn web() -> Topic {
    Topic::Workload(SourceObject {
        source: 0,
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    })
}

const WORKLOADS: Topic = Topic::Table(Table::Workloads);

/// An API server with these tokens, each the name of its owner, and rights, each `owner plural namespace` or `owner plural *`.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Rules>>);

#[derive(Default)]
struct Rules {
    tokens: BTreeSet<String>,
    rights: BTreeSet<String>,
    /// How often it was asked.
    asked: usize,
    is_away: bool,
}

impl Cluster {
    fn new(tokens: &[&str], rights: &[&str]) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self(Arc::new(Mutex::new(Rules {
            tokens: texts(tokens),
            rights: texts(rights),
            ..Rules::default()
        })))
    }

    fn asked(&self) -> usize {
        self.0.lock().asked
    }

    fn answer<T>(&self, decide: impl FnOnce(&Rules) -> T) -> Result<T, Error> {
        let mut rules = self.0.lock();
        rules.asked += 1;
        if rules.is_away {
            return Err(Error::from(kube::Error::LinesCodecMaxLineLengthExceeded));
        }
        Ok(decide(&rules))
    }
}

impl Reviews for Cluster {
    fn review_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, Error>> {
        let user = UserInfo {
            username: Some(token.to_owned()),
            ..UserInfo::default()
        };
        let answer = self.answer(|rules| rules.tokens.contains(token).then_some(user));
        Box::pin(async move { answer })
    }

    fn allows<'a>(
        &'a self,
        user: &'a UserInfo,
        right: Right,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let owner = user.username.as_deref().unwrap_or_default();
        let plural = right.resource.plural;
        let has = |place: &str, rules: &Rules| rules.rights.contains(&format!("{owner} {plural} {place}"));
        let answer = self.answer(|rules| has("*", rules) || !namespace.is_empty() && has(namespace, rules));
        Box::pin(async move { answer })
    }
}
