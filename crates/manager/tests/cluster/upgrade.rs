//! An installation of the original is upgraded to ours with Helm: every object stays the one it was, and our manager goes on where the original's ended.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    coordination::v1::Lease,
    core::v1::Service,
};
use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    cluster::TestControlPlane,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    features::{Feature, lacks},
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    chart::{api, as_of_then, name},
    helm::{Helm, chart},
    world::{CERTS, PATIENCE, World},
};

const SYSTEM: &str = "kruise-system";
/// Who led before.
const BEFORE: &str = "kruise-controller-manager-7c9d-x2x_5f0c";

#[test]
fn given_an_installation_of_the_original_then_helm_upgrade_puts_ours_in_its_place() {
    if lacks(Feature::MatchLabelKeys) {
        return;
    }
    run_test(Duration::from_mins(10), async {
        // Its own, as the chart's objects belong to the whole cluster.
        let control_plane = TestControlPlane::of_its_own().await.unwrap();
        let helm = Helm::of(&control_plane.kubeconfig());
        let original = chart_of_the_original();
        helm.run("install", original.path(), &[]);
        let world = World::of_helm(SYSTEM, &control_plane.kubeconfig(), "upgrade").await;
        let release = helm.release();
        let web = has_run(&world, &release).await;
        let (uids, certificates) = (uids(&world, &release).await, certificates(&world).await);
        let address = cluster_ip(&world).await;

        helm.run("upgrade", &chart(), &OWN_IMAGES);
        is_ours(&world).await;
        assert_eq!(self::uids(&world, &release).await, uids);
        assert_eq!(self::certificates(&world).await, certificates);
        assert_eq!(cluster_ip(&world).await, address);

        let replica = world.ready(&Faults::new(1)).await;
        replica.leads().await;
        world.all_trust().await;
        assert_eq!(self::certificates(&world).await, certificates);
        has_taken_the_lease(&world).await;
        is_looked_after(&world, &web).await;

        // Once more, while it works.
        helm.run("upgrade", &chart(), &[]);
        world.all_trust().await;
        assert_eq!(self::certificates(&world).await, certificates);
        assert_eq!(self::uids(&world, &release).await, uids);
        world.try_pod().await.unwrap();

        // The way back is barred, as objects may be stored in the newer version; what it has broken the next upgrade mends.
        let refusal = helm.tries(&["rollback", "kruise", "1"]).unwrap_err();
        // As newer and as older API servers word it.
        let words = [
            "v1beta1 was previously a storage version",
            "\"v1beta1\": must appear in spec.versions",
        ];
        assert!(words.iter().any(|words| refusal.contains(words)), "{refusal}");
        helm.run("upgrade", &chart(), &OWN_IMAGES[1..]);
        world.all_trust().await;
        is_ours(&world).await;
        eventually(PATIENCE, "calls arrive again", || async {
            world.try_pod().await?;
            Ok(())
        })
        .await;
        is_looked_after(&world, &web).await;
        world.stop(replica).await;
        drop(world);
        drop(control_plane);
    });
}

/// The values of the old release stay, but for its images.
const OWN_IMAGES: [&str; 5] = [
    "--reuse-values",
    "--set=manager.image.repository=kruise-rs/kruise-manager",
    "--set=manager.image.tag=mine",
    "--set=helmHooks.image.repository=",
    "--set=helmHooks.image.tag=",
];

/// What a manager of the original leaves: certificates and who trusts them, a lease, and a workload in the only version of then. Returns the workload.
async fn has_run(world: &World, release: &[Value]) -> DynamicObject {
    let merged = async |object: &Value, patch: Value| {
        let (api, name) = (api(&world.client, object), name(object));
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap()
    };
    let pem = |file: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../admission/fixtures/rsa");
        fs::read_to_string(folder.join(file)).unwrap()
    };
    let filled = json!({"stringData": {
        "ca-key.pem": pem("ca-key.pem"), "ca-cert.pem": pem("ca-cert.pem"),
        "key.pem": pem("key.pem"), "tls.key": pem("key.pem"), "cert.pem": pem("cert.pem"), "tls.crt": pem("cert.pem"),
    }});
    let secret = release.iter().find(|object| name(object) == CERTS).unwrap();
    let ca = merged(secret, filled).await.data["data"]["ca-cert.pem"].clone();

    // It is not there to be asked, so nobody asks for it while the workload is made.
    let configurations: Vec<_> = release.iter().filter(|object| object["webhooks"].is_array()).collect();
    assert_eq!(configurations.len(), 2);
    for configuration in &configurations {
        merged(configuration, json!({"webhooks": []})).await;
    }
    let web = cloneset("web")
        .set("/apiVersion", "apps.kruise.io/v1alpha1")
        .set("/spec/scaleStrategy", json!({"maxUnavailable": 3}))
        .set("/spec/revisionHistoryLimit", 10)
        .set(
            "/spec/updateStrategy",
            json!({
                "type": "InPlaceIfPossible", "partition": "50%", "maxUnavailable": "20%", "maxSurge": 0,
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": 5},
            }),
        )
        .replicas(0)
        .image("nginx:1.25");
    let web: DynamicObject = serde_json::from_value(web.json()).unwrap();
    let of_then = world.objects("v1alpha1", "CloneSet");
    let web = eventually(PATIENCE, "the workload is there", || async {
        Ok(of_then.create(&PostParams::default(), &web).await?)
    })
    .await;

    for configuration in configurations {
        let mut entries = configuration["webhooks"].clone();
        let template = entries.to_string();
        for entry in entries.as_array_mut().into_iter().flatten() {
            entry["clientConfig"]["caBundle"] = ca.clone();
        }
        let patch = json!({"metadata": {"annotations": {"template": template}}, "webhooks": entries});
        merged(configuration, patch).await;
    }
    let converts = |object: &&Value| object["spec"]["conversion"]["strategy"] == "Webhook";
    for crd in release.iter().filter(converts) {
        let trust = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": ca}}}}});
        merged(crd, trust).await;
    }
    let lease = json!({
        "metadata": {"name": "kruise-manager"},
        "spec": {
            "holderIdentity": BEFORE, "leaseDurationSeconds": 2, "leaseTransitions": 3,
            "acquireTime": "2024-01-01T00:00:00.000000Z", "renewTime": "2024-01-01T01:00:00.000000Z",
        },
    });
    let leases: Api<Lease> = world.system.api();
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    web
}

/// Ours is what is installed, and what was there goes on until our manager works: nobody has lost the CA.
async fn is_ours(world: &World) {
    let deployments: Api<Deployment> = world.system.api();
    let daemons: Api<DaemonSet> = world.system.api();
    let manager = json!(deployments.get("kruise-controller-manager").await.unwrap());
    let daemon = json!(daemons.get("kruise-daemon").await.unwrap());
    let image = "kruise-rs/kruise-manager:mine";
    for process in [manager, daemon] {
        let container = &process["spec"]["template"]["spec"]["containers"][0];
        assert_eq!([&container["image"], &container["imagePullPolicy"]], [image, "Always"]);
    }
    let ca = certificates(world).await["ca-cert.pem"].clone();
    let concerned = |object: &&Value| object["webhooks"].is_array() || object["spec"]["versions"].is_array();
    for object in world.objects.iter().filter(concerned) {
        let live = api(&world.client, object).get(&name(object)).await.unwrap().data;
        let entries = live["webhooks"].as_array().into_iter().flatten();
        for entry in entries {
            assert_eq!(entry["clientConfig"]["caBundle"], ca, "{entry}");
        }
        assert_eq!(versions(&live), versions(object), "{}", name(object));
        if name(object).starts_with("statefulsets.") {
            let conversion = &live["spec"]["conversion"]["webhook"]["clientConfig"];
            assert_eq!(conversion["caBundle"], ca, "{conversion}");
            assert_eq!(conversion["service"]["namespace"], SYSTEM, "{conversion}");
        }
    }
}

/// Name, served, stored of each version of a CRD.
fn versions(object: &Value) -> Vec<[Value; 3]> {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .map(|version| ["name", "served", "storage"].map(|field| version[field].clone()))
        .collect()
}

/// It is the same Lease, from one holder to the next.
async fn has_taken_the_lease(world: &World) {
    let leases: Api<Lease> = world.system.api();
    let lease = leases.get("kruise-manager").await.unwrap().spec.unwrap();
    assert_eq!(lease.lease_transitions, Some(4));
    assert_ne!(lease.holder_identity.as_deref(), Some(BEFORE));
}

/// The workload is read in both versions and has a status from us. Nobody has written to its spec.
async fn is_looked_after(world: &World, before: &DynamicObject) {
    let newer = eventually(PATIENCE, "the workload has a status", || async {
        let web = world.objects("v1beta1", "CloneSet").get("web").await?;
        let status = &web.data["status"];
        (status["observedGeneration"] == 1)
            .then_some(web.clone())
            .ok_or_else(|| NotYet::new(status.to_string()))
    })
    .await;
    let expected = json!({"type": "RollingUpdate", "rollingUpdate": {
        "podUpdatePolicy": "InPlaceIfPossible", "partition": "50%", "maxUnavailable": "20%", "maxSurge": 0,
        "inPlaceUpdateStrategy": {"gracePeriodSeconds": 5},
    }});
    assert_eq!(newer.data["spec"]["updateStrategy"], expected);
    assert_eq!(newer.data["spec"]["scaleStrategy"]["enablePVCReuse"], true);
    let older = world.objects("v1alpha1", "CloneSet").get("web").await.unwrap();
    assert_eq!(older.data["spec"], before.data["spec"]);
    for after in [newer, older] {
        assert_eq!(after.uid(), before.uid());
        assert_eq!(after.metadata.generation, Some(1));
    }
}

async fn certificates(world: &World) -> Value {
    json!(world.secrets().get(CERTS).await.unwrap().data)
}

async fn cluster_ip(world: &World) -> Option<String> {
    let services: Api<Service> = world.system.api();
    let service = services.get("kruise-webhook-service").await.unwrap();
    service.spec.unwrap().cluster_ip.filter(|address| !address.is_empty())
}

/// Who is who among these objects. Each has to be there.
async fn uids(world: &World, objects: &[Value]) -> BTreeMap<String, String> {
    let found = objects.iter().map(async |object| {
        let title = format!("{} {}", object["kind"], name(object));
        let live = api(&world.client, object).get(&name(object)).await;
        let uid = live.unwrap_or_else(|error| panic!("{title}: {error}")).uid();
        (title, uid.unwrap())
    });
    futures::future::join_all(found).await.into_iter().collect()
}

/// A chart as the original's, with the CRDs that it had.
fn chart_of_the_original() -> TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = tempfile::tempdir().unwrap();
    let crds = target.path().join("crds-of-then");
    for folder in [&target.path().join("templates"), &crds] {
        fs::create_dir(folder).unwrap();
    }
    let source = root.join("tests/fixtures/original");
    for file in [
        "Chart.yaml",
        "values.yaml",
        "templates/crds.yaml",
        "templates/processes.yaml",
        "templates/rights.yaml",
        "templates/webhooks.yaml",
    ] {
        fs::copy(source.join(file), target.path().join(file)).unwrap();
    }
    for file in fs::read_dir(root.join("../../config/crds")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let mut crd: Value = serde_saphyr::from_str(&text).unwrap();
        if as_of_then(&mut crd) {
            fs::write(crds.join(format!("{}.json", name(&crd))), crd.to_string()).unwrap();
        }
    }
    target
}
