//! The controllers die after any of their writes for a SidecarSet whose sidecars are updated, in place or hot; their successors bring it to the same end.
//!
//! As for CloneSets, each case is run once without a crash, and then with a crash after some of its writes, or after each in a run of torture. Sets belong to the
//! whole cluster, so that only one of these runs at a time. No webhook is asked: the Pods are made as injection makes them.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_core::sidecarset::preview::{Known, preview};
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{chart, controllers::Controllers, pod_history::PodHistory, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
/// Crashes of a case in an ordinary run.
const SAMPLE: u64 = 6;
const PODS: usize = 3;
/// How many of them may be away at the same time.
const AWAY: usize = 2;
const HASH: &str = "kruise.io/sidecarset-hash";

/// A sidecar that gets its second image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Cold,
    Hot,
}

impl Case {
    fn container(self, image: &str) -> Value {
        let strategy = match self {
            Case::Cold => json!({"upgradeType": "ColdUpgrade"}),
            Case::Hot => json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}),
        };
        json!({"name": "side", "image": image, "resources": {}, "podInjectPolicy": "BeforeAppContainer",
            "shareVolumePolicy": {"type": "disabled"}, "upgradeStrategy": strategy})
    }

    /// What the containers of a Pod run in the end.
    fn images(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Case::Cold => &[("side", "side:2")],
            Case::Hot => &[("side-1", "empty:1"), ("side-2", "side:2")],
        }
    }

    /// What has to be true of a Pod at any time.
    fn check(self, pod: &Pod) {
        let images: Vec<String> = containers(pod).into_values().collect();
        if self == Case::Hot {
            let working = images.iter().filter(|image| image.starts_with("side:"));
            assert!(working.count() > 0, "nobody works in {}: {images:?}", pod.name_any());
        }
    }
}

#[test]
fn given_a_crash_after_any_write_of_an_update_of_sidecars_then_every_pod_is_updated_once() {
    crash_after_any_write("cold", Case::Cold);
}

#[test]
fn given_a_crash_after_any_write_of_a_hot_upgrade_then_the_sidecars_take_turns_all_the_same() {
    crash_after_any_write("hot", Case::Hot);
}

fn crash_after_any_write(name: &'static str, case: Case) {
    run_test(torture::deadline(Duration::from_mins(10)), async move {
        let world = World::new(&format!("crash-side-{name}")).await;
        // Nobody answers for them here, and they would be asked about sets of the cluster.
        let configurations = world.objects.iter();
        for object in configurations.filter(|object| chart::name(object).ends_with("configuration")) {
            let api = chart::api(&world.client, object);
            api.delete(&chart::name(object), &DeleteParams::default())
                .await
                .unwrap();
        }
        let options = SimOptions {
            count: 1,
            name_prefix: format!("crash-side-{name}"),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let node = nodes.names().swap_remove(0);
        let writes = Attempt::begin(&world, case, &node).await.run(None).await;
        assert!(writes > 3, "{writes}");
        for write in torture::sample(1, writes, SAMPLE) {
            Attempt::begin(&world, case, &node).await.run(Some(write)).await;
        }
        nodes.stop().await.unwrap();
    });
}

struct Attempt {
    case: Case,
    work: FreshNamespace,
    sets: Api<DynamicObject>,
    faults: Faults,
    controllers: Controllers,
    before: BTreeMap<String, Option<String>>,
}

impl Attempt {
    async fn begin(world: &World, case: Case, node: &str) -> Self {
        let work = namespace::fresh(&world.client, "crash").await.unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
        let sets: Api<DynamicObject> = Api::all_with(world.client.clone(), &kind);
        let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "side"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [case.container("side:1")],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": work.name()}},
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": AWAY, "partition": 0},
        }});
        let made: DynamicObject = serde_json::from_value(set).unwrap();
        let made = sets.create(&PostParams::default(), &made).await.unwrap();
        let set: SidecarSet = serde_json::from_value(serde_json::to_value(made).unwrap()).unwrap();
        for number in 0..PODS {
            let plain = pod(&format!("web-{number}")).label("app", "web").on_node(node).json();
            let known = Known {
                namespace: (work.name(), None),
                system: "kruise-system",
                sets: std::slice::from_ref(&set),
                revisions: &[],
                sort_containers: false,
                now: Timestamp::UNIX_EPOCH,
            };
            let injected = preview(&plain, known).outcome.unwrap();
            let injected: Pod = serde_json::from_value(injected).unwrap();
            work.api::<Pod>()
                .create(&PostParams::default(), &injected)
                .await
                .unwrap();
        }
        let faults = Faults::new(1);
        let mut this = Self {
            controllers: Controllers::start_around(work.name(), &faults).await,
            case,
            work,
            sets,
            faults,
            before: BTreeMap::new(),
        };
        this.status(&json!({"matchedPods": PODS, "updatedPods": PODS, "readyPods": PODS}))
            .await;
        this.before = uids(&this.pods().await.unwrap());
        this
    }

    /// Changes the image; the controllers die with a write after it, or do not. How many writes it took.
    async fn run(self, crash_after: Option<u64>) -> u64 {
        let before = self.faults.writes();
        if let Some(write) = crash_after {
            self.faults.crash_after_writes(before + write);
        }
        let history = PodHistory::begin(self.work.api(), "web").await;
        self.patch(json!({"spec": {"containers": [self.case.container("side:2")]}}))
            .await;
        tokio::select! {
            () = self.faults.until_crashed() => {}
            () = self.comes_to_its_end(crash_after) => {}
        }
        let writes = self.faults.writes() - before;
        if crash_after.is_some() {
            self.crashes().await;
            let successor = Controllers::start_around(self.work.name(), &Faults::new(2)).await;
            self.comes_to_its_end(crash_after).await;
            successor.stop().await;
        }
        for pods in history.end().await {
            for pod in pods.values() {
                self.case.check(pod);
            }
            let away = pods.values().filter(|pod| !is_ready(pod)).count();
            assert!(away <= AWAY, "{crash_after:?}: {away} of {:?}", pods.keys());
        }
        self.controllers.stop().await;
        self.sets.delete("side", &DeleteParams::default()).await.unwrap();
        writes
    }

    /// A run may need a write less than the first one did. Then the set is changed in a way that asks for nothing but another report, until the crash has happened.
    async fn crashes(&self) {
        let any = json!({});
        for limit in 11.. {
            if self.faults.crashed() {
                return;
            }
            self.patch(json!({"spec": {"revisionHistoryLimit": limit}})).await;
            tokio::select! {
                () = self.faults.until_crashed() => {}
                _ = self.status(&any) => {}
            }
        }
    }

    async fn comes_to_its_end(&self, crash_after: Option<u64>) {
        let status = self
            .status(&json!({"matchedPods": PODS, "readyPods": PODS, "updatedReadyPods": PODS}))
            .await;
        eventually(PATIENCE, &format!("all is well after {crash_after:?}"), || async {
            let pods = self.pods().await?;
            let is_done = |pod: &Pod| {
                let images = containers(pod);
                let runs = |(name, image): &(&str, &str)| images.get(*name).is_some_and(|found| found == image);
                let hash = json!(pod.annotations().get(HASH));
                let hash: Value = hash
                    .as_str()
                    .and_then(|text| serde_json::from_str(text).ok())
                    .unwrap_or_default();
                self.case.images().iter().all(runs)
                    && hash["side"]["controllerRevision"] == status["latestRevision"]
                    && condition(pod, "SidecarSetUpgradable") == "True"
                    && self.has_turned(pod)
            };
            let revisions: Api<ControllerRevision> = self.work.api();
            let revisions = revisions.list(&ListParams::default()).await?.items;
            let mut numbers: Vec<Option<i64>> = revisions.iter().map(|revision| revision.revision).collect();
            numbers.sort_unstable();
            let is_well = uids(&pods) == self.before && pods.values().all(is_done) && numbers == [Some(1), Some(2)];
            is_well
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{numbers:?} {:#}", json!(pods))))
        })
        .await;
    }

    /// What the sidecars of a hot upgrade are told is about those that run.
    fn has_turned(&self, pod: &Pod) -> bool {
        if self.case == Case::Cold {
            return true;
        }
        let annotation = |key: &str| pod.annotations().get(key).map_or("", String::as_str);
        let version = annotation("version.sidecarset.kruise.io/side-2");
        annotation("kruise.io/sidecarset-working-hotupgrade-container") == r#"{"side":"side-2"}"#
            && version.parse::<u64>().is_ok_and(|version| version > 1)
            && annotation("versionalt.sidecarset.kruise.io/side-1") == version
            && annotation("version.sidecarset.kruise.io/side-1") == "0"
            && annotation("versionalt.sidecarset.kruise.io/side-2") == "0"
    }

    async fn patch(&self, patch: Value) {
        let params = PatchParams::default();
        self.sets.patch("side", &params, &Patch::Merge(patch)).await.unwrap();
    }

    async fn status(&self, expected: &Value) -> Value {
        eventually(PATIENCE, "the status is as expected", || async {
            let set = self.sets.get("side").await?;
            let status = &set.data["status"];
            let seen = status["observedGeneration"].as_i64() == set.metadata.generation;
            let fields = expected.as_object().unwrap();
            let matches = fields.iter().all(|(field, value)| status[field] == *value);
            (seen && matches)
                .then(|| status.clone())
                .ok_or_else(|| NotYet::new(format!("{expected} is not in {status:#}")))
        })
        .await
    }

    async fn pods(&self) -> kube::Result<BTreeMap<String, Pod>> {
        let pods: Api<Pod> = self.work.api();
        let pods = pods.list(&ListParams::default()).await?.items.into_iter();
        Ok(pods.map(|pod| (pod.name_any(), pod)).collect())
    }
}

fn uids(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, Option<String>> {
    pods.iter().map(|(name, pod)| (name.clone(), pod.uid())).collect()
}

/// The sidecars of a Pod and their images.
fn containers(pod: &Pod) -> BTreeMap<String, String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let sidecars = containers.filter(|container| container.name.starts_with("side"));
    sidecars
        .map(|container| (container.name.clone(), container.image.clone().unwrap_or_default()))
        .collect()
}

fn condition(pod: &Pod, kind: &str) -> String {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == kind);
    found.map(|condition| condition.status.clone()).unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready") == "True"
}
