//! What containers do: restart for a new image, crash, wait for their image, be resized.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_testkit::builders::{Fixture, config_map, pod};
use kruise_testkit::features::{Feature, lacks};
use kruise_testkit::sim::SimOptions;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{condition, condition_is, is_ready, main_status, on_cluster, phase, waits_for, with_nodes};

fn image(image: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "main", "image": image }] } })
}

fn script(key: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { format!("sim.kruise.test/{key}"): value } } })
}

#[test]
fn a_new_image_restarts_the_container_in_place() {
    on_cluster("image", |scenario| async move {
        let before = scenario
            .created_and_ready(pod("a").image("nginx:1").container("side", "busybox:1"))
            .await;
        scenario.patch("a", image("nginx:2")).await;
        let after = scenario
            .until("a", "main runs nginx:2", |pod| {
                main_status(pod).is_some_and(|main| main.image == "nginx:2")
            })
            .await;

        let (old, new) = (main_status(&before).unwrap(), main_status(&after).unwrap());
        assert_eq!(after.metadata.uid, before.metadata.uid);
        assert_eq!((new.restart_count, new.ready), (1, true));
        assert_ne!(new.image_id, old.image_id);
        assert_ne!(new.container_id, old.container_id);
        let ended = new.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!(ended.container_id, old.container_id);
        let side = |pod: &Pod| pod.status.clone().unwrap().container_statuses.unwrap()[1].clone();
        assert_eq!(side(&after), side(&before));
        assert_eq!(
            after.status.as_ref().unwrap().observed_generation,
            after.metadata.generation
        );
        assert_eq!(
            scenario.nodes.stats().patches,
            2,
            "one write for the start, one for the restart"
        );
    });
}

#[test]
fn a_slow_restart_can_be_watched() {
    on_cluster("slow-restart", |scenario| async move {
        let slow = pod("a")
            .script("pull-delay", "1s")
            .script("terminate-delay", "1s")
            .script("ready-delay", "1s");
        scenario.create(slow).await;
        scenario
            .until("a", "the image is being pulled", |pod| {
                waits_for(pod) == "ContainerCreating"
            })
            .await;
        scenario
            .until("a", "it runs but is not ready", |pod| {
                phase(pod) == "Running" && !is_ready(pod)
            })
            .await;
        scenario.until("a", "it is ready", is_ready).await;
        let stops = scenario.sees(
            "a",
            "the old container has ended and the new one does not run yet",
            |pod| {
                main_status(pod).is_some_and(|main| main.state.as_ref().unwrap().terminated.is_some())
                    && condition_is(pod, "Ready", "False")
            },
        );
        tokio::join!(stops, scenario.patch("a", image("nginx:2")));
        scenario
            .until("a", "the new container is ready", |pod| {
                is_ready(pod) && main_status(pod).unwrap().restart_count == 1
            })
            .await;
    });
}

#[test]
fn a_crashing_container_is_restarted_until_it_stays() {
    on_cluster("crash", |scenario| async move {
        scenario
            .create(pod("a").script("crash", "2").script("crash-after", "200ms"))
            .await;
        scenario
            .until("a", "the container crashes", |pod| waits_for(pod) == "CrashLoopBackOff")
            .await;
        let third = |pod: &Pod| is_ready(pod) && main_status(pod).is_some_and(|main| main.restart_count == 2);
        let pod = scenario.until("a", "the third run stays", third).await;
        let main = main_status(&pod).unwrap();
        assert_eq!(
            main.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code,
            1
        );
    });
}

#[test]
fn a_wrong_image_waits_until_it_is_corrected() {
    on_cluster("pull-error", |scenario| async move {
        let broken = pod("a").image("nginx:broken").script("pull-error", "nginx:broken");
        let error = scenario.sees("a", "the pull fails", |pod| waits_for(pod) == "ErrImagePull");
        tokio::join!(error, scenario.create(broken));
        let pod = scenario
            .until("a", "it backs off", |pod| waits_for(pod) == "ImagePullBackOff")
            .await;
        assert_eq!(
            (phase(&pod), main_status(&pod).unwrap().image_id.as_str()),
            ("Pending", "")
        );
        scenario.patch("a", image("nginx:1")).await;
        let pod = scenario.until("a", "the corrected image runs", is_ready).await;
        assert_eq!(main_status(&pod).unwrap().restart_count, 0);
    });
}

#[test]
fn a_set_of_nodes_can_know_broken_images_and_be_slow() {
    let options = SimOptions {
        broken_images: vec!["nginx:gone".to_owned()],
        start_delay: std::time::Duration::from_millis(300),
        ..SimOptions::default()
    };
    with_nodes("defaults", options, |scenario| async move {
        scenario.created_and_ready(pod("good")).await;
        scenario.create(pod("bad").image("nginx:gone")).await;
        scenario
            .until("bad", "the pull fails", |pod| waits_for(pod) == "ImagePullBackOff")
            .await;
        scenario
            .created_and_ready(pod("own-word").image("nginx:gone").script("pull-error", "false"))
            .await;
    });
}

#[test]
fn resources_change_without_a_restart() {
    if lacks(Feature::Resize) {
        return;
    }
    on_cluster("resize", |scenario| async move {
        scenario
            .created_and_ready(pod("a").resource("cpu", "100m").resource("memory", "64Mi"))
            .await;
        let resize = |cpu: &str| {
            let amounts = json!({ "cpu": cpu, "memory": "64Mi" });
            json!({ "spec": { "containers": [{ "name": "main", "resources": { "limits": amounts, "requests": amounts } }] } })
        };
        let pods: Api<Pod> = scenario.api();
        let params = PatchParams::default();
        pods.patch_subresource("resize", "a", &params, &Patch::Strategic(resize("200m")))
            .await
            .unwrap();
        let cpu = |pod: &Pod| {
            let resources = main_status(pod)?.resources.clone()?;
            Some(resources.limits?.get("cpu")?.0.clone())
        };
        let pod = scenario
            .until("a", "the new limit holds", |pod| cpu(pod).as_deref() == Some("200m"))
            .await;
        assert_eq!(main_status(&pod).unwrap().restart_count, 0);
        assert!(is_ready(&pod));

        scenario.patch("a", script("resize", Some("deferred"))).await;
        pods.patch_subresource("resize", "a", &params, &Patch::Strategic(resize("300m")))
            .await
            .unwrap();
        let pod = scenario
            .until("a", "the resize is pending", |pod| {
                condition(pod, "PodResizePending").is_some()
            })
            .await;
        assert_eq!(
            condition(&pod, "PodResizePending").unwrap().reason.as_deref(),
            Some("Deferred")
        );
        assert_eq!(cpu(&pod).as_deref(), Some("200m"));
        scenario.patch("a", script("resize", None)).await;
        let done = |pod: &Pod| cpu(pod).as_deref() == Some("300m") && condition(pod, "PodResizePending").is_none();
        scenario.until("a", "the resize is done", done).await;
    });
}

#[test]
fn init_containers_sidecars_and_ephemeral_containers_are_reported() {
    if lacks(Feature::SidecarContainers) {
        return;
    }
    on_cluster("kinds", |scenario| async move {
        let inits = pod("a")
            .init_container("prepare", "busybox:1")
            .sidecar("mesh", "envoy:1");
        scenario.create(inits.script("exit-after.prepare", "500ms")).await;
        scenario
            .until("a", "it is not initialized", |pod| {
                condition_is(pod, "Initialized", "False")
            })
            .await;
        let pod = scenario.until("a", "it is ready", is_ready).await;
        let inits = pod.status.unwrap().init_container_statuses.unwrap();
        assert_eq!(
            inits[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code,
            0
        );
        assert!(inits[1].state.as_ref().unwrap().running.is_some() && inits[1].ready);

        let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "busybox:1" }] } });
        let pods: Api<Pod> = scenario.api();
        pods.patch_ephemeral_containers("a", &PatchParams::default(), &Patch::Strategic(debug))
            .await
            .unwrap();
        scenario
            .until("a", "the ephemeral container runs", |pod| {
                let statuses = pod
                    .status
                    .as_ref()
                    .unwrap()
                    .ephemeral_container_statuses
                    .as_deref()
                    .unwrap_or_default();
                statuses
                    .iter()
                    .any(|status| status.state.as_ref().unwrap().running.is_some())
            })
            .await;
    });
}

#[test]
fn a_container_waits_for_its_config_map_key() {
    on_cluster("config-map", |scenario| async move {
        scenario
            .create(pod("a").env_from_config_map("BARRIER", "a-barrier", "p_0"))
            .await;
        scenario
            .until("a", "the key is missed", |pod| {
                waits_for(pod) == "CreateContainerConfigError"
            })
            .await;
        let maps: Api<ConfigMap> = scenario.api();
        let map = config_map("a-barrier").data("p_0", "true").build();
        maps.create(&PostParams::default(), &map).await.unwrap();
        scenario.until("a", "it has started", is_ready).await;
    });
}

#[test]
fn a_wrong_annotation_is_told_in_the_status() {
    on_cluster("wrong", |scenario| async move {
        scenario.create(pod("a").script("ready-delay", "soon")).await;
        let pod = scenario
            .until("a", "it does not start", |pod| {
                waits_for(pod) == "CreateContainerConfigError"
            })
            .await;
        let waiting = main_status(&pod).unwrap().state.clone().unwrap().waiting.unwrap();
        let message = waiting.message.unwrap();
        assert!(
            message.contains("sim.kruise.test/ready-delay: \"soon\" is not a duration"),
            "{message}"
        );
        scenario.patch("a", script("ready-delay", None)).await;
        scenario.until("a", "the corrected Pod is ready", is_ready).await;
    });
}
