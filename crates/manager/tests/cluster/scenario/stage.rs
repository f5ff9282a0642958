//! A namespace for one scenario, and what one says and asks in it about objects of the kind that the target is about.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::ControllerRevision,
        core::v1::{Event, PersistentVolumeClaim, Pod, ResourceQuota, Service},
    },
};
use kruise_api::merge_patch::merge;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
    namespace::FreshNamespace,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{PATIENCE, SharedManager, pod_history::PodHistory};

/// The quota of a stage.
const QUOTA: &str = "quota";

pub(crate) struct Stage {
    shared: Arc<OnceCell<SharedManager>>,
    work: Arc<FreshNamespace>,
    kind: String,
    /// Objects of the kind.
    pub(crate) subjects: Api<DynamicObject>,
    pub(crate) pods: Api<Pod>,
}

impl Stage {
    pub(super) async fn new(shared: Arc<OnceCell<SharedManager>>, kind: &str, scenario: &str) -> Self {
        let short = scenario.rsplit("::").next().unwrap_or_default().replace("given_", "");
        let work = shared.get().unwrap().world.reached(&short).await;
        Self {
            kind: kind.to_owned(),
            subjects: objects(&shared, &work, "v1beta1", kind),
            pods: work.api(),
            work: Arc::new(work),
            shared,
        }
    }

    /// The same, about objects of another kind.
    pub(crate) fn about(&self, kind: &str) -> Self {
        Self {
            shared: self.shared.clone(),
            work: self.work.clone(),
            kind: kind.to_owned(),
            subjects: self.objects("v1beta1", kind),
            pods: self.pods.clone(),
        }
    }

    /// Takes the objects away, so that nobody works for them while the namespace goes.
    pub(super) async fn clear(&self) {
        let all = ListParams::default();
        let _ = self.subjects.delete_collection(&DeleteParams::background(), &all).await;
    }

    fn shared(&self) -> &SharedManager {
        self.shared.get().unwrap()
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.shared().world.client.clone()
    }

    /// Has the manager play a change of an object through, which is a merge patch; the manager's cache may be behind.
    pub(crate) async fn rehearse(&self, live: &Value, change: &Value) -> Value {
        let mut proposed = json!({"apiVersion": live["apiVersion"], "kind": live["kind"],
            "metadata": {"name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"]}, "spec": live["spec"]});
        merge(&mut proposed, change);
        let question = json!({"kind": live["kind"], "name": live["metadata"]["name"], "uid": live["metadata"]["uid"], "proposed": proposed});
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("explain.kruise.io", "v1alpha1", "Explanation"));
        let questions: Api<DynamicObject> = Api::namespaced_with(self.client(), self.namespace(), &resource);
        let question = DynamicObject::new("rehearse", &resource).data(json!({"spec": question}));
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let answer = questions.create(&params, &question).await.unwrap();
        answer.data["status"]["proposal"]["rehearsal"].clone()
    }

    /// The namespace of the scenario.
    pub(crate) fn namespace(&self) -> &str {
        self.work.name()
    }

    /// Where copies of pull Secrets are kept.
    pub(crate) fn secret_copies(&self) -> Api<k8s_openapi::api::core::v1::Secret> {
        self.of_manager()
    }

    /// Objects in the namespace of the manager.
    pub(crate) fn of_manager<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        self.shared().world.system.api()
    }

    /// ConfigMaps where `kruise-configuration` is.
    pub(crate) fn configuration(&self) -> Api<k8s_openapi::api::core::v1::ConfigMap> {
        self.shared().world.system.api()
    }

    pub(crate) fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        self.work.api()
    }

    /// Allows so many Pods and no Service, and returns when that counts: the API server notices a quota a moment later.
    pub(crate) async fn set_quota(&self, pods: usize) {
        let quotas: Api<ResourceQuota> = self.api();
        let hard = json!({"pods": pods.to_string(), "services": "0"});
        let quota = json!({"metadata": {"name": QUOTA}, "spec": {"hard": hard}});
        let quota = serde_json::from_value(quota).unwrap();
        quotas.create(&PostParams::default(), &quota).await.unwrap();
        let service = json!({"metadata": {"name": "none"}, "spec": {"ports": [{"port": 80}]}});
        let service: Service = serde_json::from_value(service).unwrap();
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually(PATIENCE, "the quota counts", || async {
            match self.api::<Service>().create(&dry_run, &service).await {
                Err(error) if error.to_string().contains("exceeded quota") => Ok(()),
                other => Err(NotYet::new(format!("{other:?}"))),
            }
        })
        .await;
    }

    /// Allows as many Pods as anybody wants again.
    pub(crate) async fn lift_quota(&self) {
        let quotas: Api<ResourceQuota> = self.api();
        quotas.delete(QUOTA, &DeleteParams::default()).await.unwrap();
    }

    /// Objects of a kind of ours.
    pub(crate) fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        objects(&self.shared, &self.work, version, kind)
    }

    /// A simulated node by number. Even ones are in zone a, odd ones in zone b.
    pub(crate) fn node(&self, number: usize) -> String {
        self.shared().nodes.names().swap_remove(number)
    }

    pub(crate) async fn create(&self, set: Workload) -> DynamicObject {
        self.try_create(set).await.unwrap()
    }

    pub(crate) async fn try_create(&self, set: Workload) -> kube::Result<DynamicObject> {
        let set: DynamicObject = serde_json::from_value(set.json()).unwrap();
        self.subjects.create(&PostParams::default(), &set).await
    }

    /// A merge patch of an object.
    pub(crate) async fn patch(&self, name: &str, patch: Value) -> DynamicObject {
        self.try_patch(name, patch).await.unwrap()
    }

    pub(crate) async fn try_patch(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        let params = PatchParams::default();
        self.subjects.patch(name, &params, &Patch::Merge(patch)).await
    }

    /// The same, as users of the first releases do it.
    pub(crate) async fn patch_v1alpha1(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        let sets = self.objects("v1alpha1", &self.kind);
        sets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Begins to watch the Pods of a set.
    pub(crate) async fn pod_history(&self, set: &str) -> PodHistory {
        PodHistory::begin(self.pods.clone(), set).await
    }

    /// A strategic patch of a Pod.
    pub(crate) async fn patch_pod(&self, name: &str, patch: Value) -> Pod {
        let params = PatchParams::default();
        self.pods.patch(name, &params, &Patch::Strategic(patch)).await.unwrap()
    }

    /// The same of its status.
    pub(crate) async fn patch_pod_status(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        let patched = self.pods.patch_status(name, &params, &Patch::Strategic(patch)).await;
        patched.unwrap();
    }

    /// A label for a Pod, or none.
    pub(crate) async fn label_pod(&self, name: &str, key: &str, value: Option<&str>) {
        self.patch_pod(name, json!({"metadata": {"labels": {key: value}}}))
            .await;
    }

    /// What a simulated kubelet shall do with a Pod from now on.
    pub(crate) async fn script_pod(&self, name: &str, key: &str, value: Option<&str>) {
        let annotation = format!("sim.kruise.test/{key}");
        self.patch_pod(name, json!({"metadata": {"annotations": {annotation: value}}}))
            .await;
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.pods.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until fields of a set's status are as said, for its latest generation.
    #[track_caller]
    pub(crate) fn status(&self, name: &str, expected: Value) -> impl Future<Output = Value> {
        eventually(PATIENCE, "the status is as expected", move || {
            let expected = expected.clone();
            async move {
                let set = self.subjects.get(name).await?;
                let status = &set.data["status"];
                let seen = status["observedGeneration"].as_i64() == set.metadata.generation;
                let fields = expected.as_object().unwrap();
                // Zero may be left out.
                let is = |field: &Value, value: &Value| field == value || (field.is_null() && *value == json!(0));
                let matches = fields.iter().all(|(field, value)| is(&status[field], value));
                if seen && matches {
                    Ok(status.clone())
                } else {
                    Err(NotYet::new(format!("{expected} is not in {status:#}")))
                }
            }
        })
    }

    /// Waits until a condition of a set has this status.
    #[track_caller]
    pub(crate) fn condition(&self, set: &str, kind: &str, status: &str) -> impl Future<Output = Value> {
        self.condition_is(set, kind, move |condition| condition["status"] == status)
    }

    /// Waits until a condition of a set is as wanted; it is `null` when there is none.
    #[track_caller]
    pub(crate) fn condition_is(
        &self,
        set: &str,
        kind: &str,
        wanted: impl Fn(&Value) -> bool + Send + Sync,
    ) -> impl Future<Output = Value> {
        let wanted = Arc::new(wanted);
        eventually(PATIENCE, "the condition is as wanted", move || {
            let wanted = wanted.clone();
            async move {
                let set = self.subjects.get(set).await?;
                let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let found = conditions.into_iter().find(|condition| condition["type"] == kind);
                let found = found.unwrap_or_default();
                if wanted(&found) {
                    Ok(found)
                } else {
                    Err(NotYet::new(format!("{:#}", set.data["status"])))
                }
            }
        })
    }

    /// Creates a set and waits until all of its Pods are available.
    #[track_caller]
    pub(crate) fn settled(&self, set: Workload) -> impl Future<Output = BTreeMap<String, Pod>> {
        let object = set.clone().json();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let replicas = object["spec"]["replicas"].clone();
        let status = {
            let expected = json!({"replicas": replicas, "availableReplicas": replicas});
            let name = name.clone();
            async move { self.status(&name, expected).await }
        };
        async move {
            self.create(set).await;
            status.await;
            self.pods(&name).await
        }
    }

    /// The living Pods of a set, by name.
    pub(crate) async fn pods(&self, set: &str) -> BTreeMap<String, Pod> {
        self.try_pods(set).await.unwrap()
    }

    pub(crate) async fn try_pods(&self, set: &str) -> kube::Result<BTreeMap<String, Pod>> {
        let params = ListParams::default().labels(&format!("app={set}"));
        let pods = self.pods.list(&params).await?.items.into_iter();
        let living = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(living.map(|pod| (pod.name_any(), pod)).collect())
    }

    /// Waits until the living Pods of a set are as wanted.
    #[track_caller]
    pub(crate) fn until(
        &self,
        set: &str,
        what: &str,
        wanted: impl Fn(&BTreeMap<String, Pod>) -> bool + Send + Sync,
    ) -> impl Future<Output = BTreeMap<String, Pod>> {
        let wanted = Arc::new(wanted);
        eventually(PATIENCE, what, move || {
            let wanted = wanted.clone();
            async move {
                let pods = self.try_pods(set).await?;
                if wanted(&pods) {
                    Ok(pods)
                } else {
                    Err(NotYet::new(summary(&pods)))
                }
            }
        })
    }

    /// Waits until one Pod is as wanted.
    #[track_caller]
    pub(crate) fn until_pod(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Pod) -> bool + Send + Sync,
    ) -> impl Future<Output = Pod> {
        let wanted = Arc::new(wanted);
        eventually(PATIENCE, what, move || {
            let wanted = wanted.clone();
            async move {
                let pod = self.pods.get(name).await?;
                if wanted(&pod) {
                    Ok(pod)
                } else {
                    Err(kruise_testkit::eventually::not_yet(&pod))
                }
            }
        })
    }

    /// Waits until a Pod is no more.
    pub(crate) async fn gone(&self, name: &str) {
        eventually(PATIENCE, "the Pod is gone", || async {
            match self.pods.get_opt(name).await? {
                None => Ok(()),
                Some(pod) => Err(kruise_testkit::eventually::not_yet(&pod)),
            }
        })
        .await;
    }

    pub(crate) async fn claims(&self) -> BTreeMap<String, PersistentVolumeClaim> {
        let all = self.api::<PersistentVolumeClaim>().list(&ListParams::default()).await;
        let living = all.unwrap().items.into_iter();
        let living = living.filter(|claim| claim.metadata.deletion_timestamp.is_none());
        living.map(|claim| (claim.name_any(), claim)).collect()
    }

    /// The revisions of a set, oldest first.
    pub(crate) async fn revisions(&self) -> Vec<ControllerRevision> {
        let all = self.api::<ControllerRevision>().list(&ListParams::default()).await;
        let mut all = all.unwrap().items;
        all.sort_by_key(|revision| revision.revision);
        all
    }

    /// Waits until an event about a set has this reason and contains this text.
    #[track_caller]
    pub(crate) fn event(&self, set: &str, reason: &str, text: &str) -> impl Future<Output = Event> {
        let fields = format!("involvedObject.name={set},reason={reason}");
        eventually(PATIENCE, "an event tells it", move || {
            let params = ListParams::default().fields(&fields);
            async move {
                let found = self.api::<Event>().list(&params).await?.items;
                let told: Vec<_> = found.iter().map(|event| event.message.clone()).collect();
                let of_it = |event: &Event| event.message.as_ref().is_some_and(|message| message.contains(text));
                let event = found.into_iter().find(of_it);
                event.ok_or_else(|| NotYet::new(format!("{told:#?}")))
            }
        })
    }

    /// Waits until the manager says that it is held back by this.
    #[track_caller]
    pub(crate) fn why(&self, set: &str, reason: &str) -> impl Future<Output = Value> {
        self.why_of(format!("{}/{}/{set}", self.kind, self.work.name()), reason)
    }

    /// The same of any object: `Kind/namespace/name`, or `Kind/name`.
    #[track_caller]
    pub(crate) fn why_of(&self, path: String, reason: &str) -> impl Future<Output = Value> {
        eventually(PATIENCE, "it says what holds it back", move || {
            let path = path.clone();
            async move {
                let (code, text) = self.shared().replica.plan(&path).await.ok_or("no answer")?;
                let plan: Value = serde_json::from_str(&text).map_err(|error| format!("{code} {error}: {text}"))?;
                let found = find(&plan, reason);
                found.cloned().ok_or_else(|| NotYet::new(format!("{plan:#}")))
            }
        })
    }
}

/// The object in a document whose `reason` is this.
fn find<'a>(document: &'a Value, reason: &str) -> Option<&'a Value> {
    match document {
        Value::Object(fields) if fields.get("reason").is_some_and(|found| found == reason) => Some(document),
        Value::Object(fields) => fields.values().find_map(|field| find(field, reason)),
        Value::Array(items) => items.iter().find_map(|item| find(item, reason)),
        _ => None,
    }
}

fn objects(shared: &OnceCell<SharedManager>, work: &FreshNamespace, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, kind));
    Api::namespaced_with(shared.get().unwrap().world.client.clone(), work.name(), &resource)
}

fn summary(pods: &BTreeMap<String, Pod>) -> String {
    let line = |pod: &Pod| {
        let status = json!(pod.status);
        format!(
            "{} {:?} {:?} {}\n",
            pod.name_any(),
            pod.labels(),
            pod.annotations(),
            status["conditions"]
        )
    };
    pods.values().map(line).collect()
}
