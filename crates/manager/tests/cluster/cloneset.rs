//! CloneSets on a real API server, with simulated kubelets that give their Pods a life.

mod basics;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
    faults::Faults,
    sim::{SimOptions, SimulatedNodes},
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::world::{PATIENCE, Replica, World};

/// A manager that leads, three simulated nodes, and CloneSets of a namespace.
struct Stage {
    world: World,
    replica: Replica,
    nodes: SimulatedNodes,
    sets: Api<DynamicObject>,
    pods: Api<Pod>,
}

impl Stage {
    async fn new(test: &str) -> Self {
        let world = World::new(test).await;
        let replica = world.ready(&Faults::new(1)).await;
        replica.leads().await;
        world.all_trust().await;
        let options = SimOptions {
            count: 3,
            name_prefix: test.to_owned(),
            namespace: Some(world.work.name().to_owned()),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        Self {
            sets: world.objects("v1beta1", "CloneSet"),
            pods: world.work.api(),
            world,
            replica,
            nodes,
        }
    }

    async fn end(self) {
        self.nodes.stop().await.unwrap();
        self.world.stop(self.replica).await;
    }

    async fn create(&self, set: Workload) -> DynamicObject {
        let set: DynamicObject = serde_json::from_value(set.json()).unwrap();
        self.sets.create(&PostParams::default(), &set).await.unwrap()
    }

    async fn patch(&self, name: &str, patch: Value) -> DynamicObject {
        self.sets
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    /// Waits until fields of a set's status are as said, for its latest generation.
    async fn status(&self, name: &str, expected: Value) -> Value {
        eventually(PATIENCE, "the status is as expected", || async {
            let set = self.sets.get(name).await?;
            let status = &set.data["status"];
            let seen = status["observedGeneration"].as_i64() == set.metadata.generation;
            let fields = expected.as_object().unwrap();
            let matches = fields.iter().all(|(field, value)| status[field] == *value);
            if seen && matches {
                Ok(status.clone())
            } else {
                Err(NotYet::new(format!("{status:#}")))
            }
        })
        .await
    }

    /// The living Pods of a set, by name.
    async fn pods(&self, set: &str) -> BTreeMap<String, Pod> {
        let params = ListParams::default().labels(&format!("app={set}"));
        let pods = self.pods.list(&params).await.unwrap().items.into_iter();
        pods.filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .map(|pod| (pod.name_any(), pod))
            .collect()
    }
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}

fn state(pod: &Pod) -> Option<&str> {
    pod.labels().get("lifecycle.apps.kruise.io/state").map(String::as_str)
}

/// A change of the first container's image.
fn to_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}
