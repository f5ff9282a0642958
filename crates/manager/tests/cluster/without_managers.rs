//! No manager runs: webhooks of Pods fail closed, and only there. Kubelets, the namespaces of the system, and the installation itself are looked after as ever; so are Pods that no
//! budget covers, and those that are on their way out, where the API server can look at that itself.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Node, Pod, Taint},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruise_testkit::{
    builders::{Fixture as _, config_map, namespace, pod},
    cluster::TestControlPlane,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    features::{Feature, lacks},
    sim::{SimOptions, SimulatedNodes},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::process::Command;

use super::{
    helm::{Helm, chart},
    world::{PATIENCE, World},
};

const SYSTEM: &str = "kruise-system";
/// Nobody runs it.
const IMAGE: &str = "--set=manager.image.tag=none";

#[test]
fn given_no_manager_then_only_pods_of_users_wait_for_one() {
    run_test(Duration::from_mins(10), async {
        // Its own, as webhooks reach the whole cluster.
        let control_plane = TestControlPlane::of_its_own().await.unwrap();
        let kubeconfig = control_plane.kubeconfig();
        let helm = Helm::of(&kubeconfig);
        helm.run("install", &chart(), &[IMAGE]);
        let world = World::of_helm(SYSTEM, &kubeconfig, "without-managers").await;
        let (one, other) = (world.ready(&Faults::new(1)).await, world.ready(&Faults::new(2)).await);
        world.all_trust().await;
        let client = world.client.clone();
        let nodes = SimulatedNodes::start(client.clone(), options()).await.unwrap();
        let node = nodes.names().swap_remove(0);
        let users = world.work.name();
        let plain = |name: &str| pod(name).image("nginx:1").on_node(&node);
        let covered = |name: &str| plain(name).annotation("pub.kruise.io/related-pub", "budget");
        for namespace in [users, SYSTEM, "kube-system"] {
            runs(&client, namespace, covered("one").build()).await;
        }
        runs(&client, users, covered("other").build()).await;
        runs(&client, users, plain("plain").build()).await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), users);
        let now = DeleteParams::default();
        let mut going = covered("going").build();
        going.metadata.finalizers = Some(vec!["tests.kruise.io/stay".to_owned()]);
        runs(&client, users, going).await;
        pods.delete("going", &now).await.unwrap();
        world.stop(one).await;
        world.stop(other).await;

        waits_for_a_manager(pods.delete("one", &now).await.map(drop));
        waits_for_a_manager(pods.evict("one", &EvictParams::default()).await.map(drop));
        let made = pod("new").image("nginx:1").build();
        waits_for_a_manager(pods.create(&PostParams::default(), &made).await.map(drop));
        if !lacks(Feature::MatchConditions) {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            pods.patch("going", &PatchParams::default(), &free).await.unwrap();
            is_gone(&pods, "going").await;
            pods.delete("plain", &now).await.unwrap();
            is_gone(&pods, "plain").await;
        }

        kubelets_report(&client, &pods, &node).await;
        for namespace in [SYSTEM, "kube-system"] {
            // The last deletion is the kubelet's.
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            pods.delete("one", &now).await.unwrap();
            is_gone(&pods, "one").await;
            runs(&client, namespace, plain("two").build()).await;
        }
        everything_else_goes_on(&client, users).await;
        helm.run("upgrade", &chart(), &[IMAGE, "--set=manager.replicas=3"]);
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
        let manager = deployments.get("kruise-controller-manager").await.unwrap();
        assert_eq!(manager.spec.replicas, Some(3));

        let back = world.ready(&Faults::new(3)).await;
        pods.delete("one", &now).await.unwrap();
        is_gone(&pods, "one").await;
        world.stop(back).await;

        let mut hook = Command::new(env!("CARGO_BIN_EXE_helm_hook"));
        let asked = hook.env("KUBECONFIG", &kubeconfig).output().await.unwrap();
        assert_eq!(
            asked.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&asked.stderr)
        );
        helm.says(&["uninstall", "kruise", "--no-hooks"]);
        let namespaces: Api<Namespace> = Api::all(client.clone());
        is_gone(&namespaces, SYSTEM).await;
        pods.delete("other", &now).await.unwrap();
        is_gone(&pods, "other").await;

        // Once more: somebody deletes the namespace in which it lives.
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for plural in ["clonesets.apps.kruise.io", "podunavailablebudgets.policy.kruise.io"] {
            is_gone(&definitions, plural).await;
        }
        is_gone(&namespaces, "kruise-daemon-config").await;
        eventually(PATIENCE, "it can be installed again", || async {
            helm.tries(&["upgrade", "--install", "kruise", &chart().display().to_string(), IMAGE])?;
            Ok(())
        })
        .await;
        runs(&client, SYSTEM, plain("one").build()).await;
        namespaces.delete(SYSTEM, &now).await.unwrap();
        is_gone(&namespaces, SYSTEM).await;
        helm.says(&["uninstall", "kruise", "--no-hooks"]);
        nodes.stop().await.unwrap();
        drop(world);
        drop(control_plane);
    });
}

/// Nodes that only Pods of the test are on: the managers that the chart asks for are nowhere.
fn options() -> SimOptions {
    let taint = Taint {
        key: "tests.kruise.io/own".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    SimOptions {
        count: 1,
        name_prefix: "without-managers".to_owned(),
        taints: vec![taint],
        ..SimOptions::default()
    }
}

/// Makes a Pod and waits until it runs.
async fn runs(client: &Client, namespace: &str, made: Pod) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let name = &made.name_any();
    eventually(PATIENCE, "the Pod is made", || async {
        match pods.create(&PostParams::default(), &made).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    })
    .await;
    eventually(PATIENCE, "the Pod runs", || async {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase);
        (phase.as_deref() == Some("Running"))
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{phase:?}")))
    })
    .await;
}

#[track_caller]
fn waits_for_a_manager(answer: kube::Result<()>) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert!(status.code >= 500, "{status:?}");
            assert!(status.message.contains("failed calling webhook"), "{status:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

async fn kubelets_report(client: &Client, pods: &Api<Pod>, node: &str) {
    let condition = json!({"type": "tests.kruise.io/Seen", "status": "True"});
    let seen = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    pods.patch_status("one", &PatchParams::default(), &seen).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch_status(node, &PatchParams::default(), &seen).await.unwrap();
}

async fn everything_else_goes_on(client: &Client, users: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), users);
    let map = config_map("any").build();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.delete("any", &DeleteParams::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let plain = namespace("without-managers-plain").build();
    namespaces.create(&PostParams::default(), &plain).await.unwrap();
    namespaces
        .delete("without-managers-plain", &DeleteParams::default())
        .await
        .unwrap();
    is_gone(&namespaces, "without-managers-plain").await;
}

async fn is_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    eventually(PATIENCE, &format!("{name} is gone"), || async {
        match api.get_opt(name).await? {
            None => Ok(()),
            Some(object) => Err(NotYet::new(format!("{object:?}"))),
        }
    })
    .await;
}
