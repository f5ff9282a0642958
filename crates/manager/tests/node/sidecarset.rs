//! Sidecars on real kubelets: a hot upgrade during which somebody always answers, and Jobs that end although they have sidecars.

use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Patch, PatchParams};
use std::fs;

use crate::*;

fn example(file: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

/// The images of the two containers that the proxy is.
fn images(pod: &Pod) -> [String; 2] {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    ["mesh-proxy-1", "mesh-proxy-2"].map(|name| {
        let status = statuses.into_iter().flatten().find(|status| status.name == name);
        status.map(|status| status.image.clone()).unwrap_or_default()
    })
}

#[test]
fn given_a_hot_upgrade_then_somebody_answers_all_the_time() {
    run_test(DEADLINE, async {
        let stage = Stage::new("hot-upgrade").await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
        let sets: Api<DynamicObject> = Api::all_with(cluster::nodes_client().await, &kind);
        let name = format!("{}-mesh", stage.namespace.name());
        let mut set = example("sidecarset-hot-upgrade.yaml");
        set["metadata"]["name"] = json!(name);
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": stage.namespace.name()}});
        set["spec"]["namespaceSelector"] = here;
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
        let pod: Pod = serde_json::from_value(example("sidecarset-hot-upgrade-pod.yaml")).unwrap();
        eventually(PATIENCE, "the set is known", || async {
            let made = stage.pods.create(&PostParams::default(), &pod).await?;
            if made.spec.is_some_and(|spec| spec.containers.len() == 3) {
                return Ok(());
            }
            stage
                .pods
                .delete("shop", &DeleteParams::default().grace_period(0))
                .await?;
            Err(NotYet::new("nothing was injected"))
        })
        .await;
        let is_at = |expected: [&'static str; 2]| {
            let (stage, sets, name) = (&stage, &sets, &name);
            eventually(
                PATIENCE,
                "the Pod runs these images, and the upgrade is over",
                move || async move {
                    let pod = stage.pods.get("shop").await?;
                    let status = sets.get(name).await?.data["status"].clone();
                    let found = images(&pod);
                    let is_there = found
                        .iter()
                        .zip(expected)
                        .all(|(image, expected)| image.ends_with(expected));
                    (is_there && status["updatedReadyPods"] == 1)
                        .then_some(pod)
                        .ok_or_else(|| NotYet::new(format!("{found:?} {status}")))
                },
            )
        };
        let before = is_at(["busybox:1.35", "busybox:latest"]).await;
        let mut after = before.clone();
        for (image, expected) in [
            ("busybox:1.36", ["busybox:latest", "busybox:1.36"]),
            ("busybox:1.35", ["busybox:1.35", "busybox:latest"]),
        ] {
            let mut containers = set.data["spec"]["containers"].clone();
            containers[0]["image"] = json!(image);
            let change = Patch::Merge(json!({"spec": {"containers": containers}}));
            sets.patch(&name, &PatchParams::default(), &change).await.unwrap();
            after = is_at(expected).await;
        }
        assert_eq!(identity(&after), identity(&before));
        assert_eq!(status(&after, "main").restart_count, 0);
        let told = eventually(PATIENCE, "the last one has answered", || async {
            let told = logs(&stage, "shop");
            (told.len() > 2)
                .then_some(told.clone())
                .ok_or_else(|| NotYet::new(format!("{told:?}")))
        })
        .await;
        // The first version, and then those of the set. A gap would be told as one.
        let versions: Vec<u64> = told.iter().map(|version| version.parse().expect(version)).collect();
        assert_eq!((versions.len(), versions[0]), (3, 1), "{told:?}");
        assert!(versions.is_sorted(), "{told:?}");
        sets.delete(&name, &DeleteParams::default()).await.unwrap();
    });
}

/// What the main container of a Pod has logged.
fn logs(stage: &Stage, pod: &str) -> Vec<String> {
    let output = kubectl()
        .args(["logs", "-n", stage.namespace.name(), pod, "-c", "main"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn of_job(name: &str) -> ListParams {
    ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"))
}

#[test]
fn given_jobs_with_sidecars_then_they_complete_and_the_sidecars_were_really_stopped() {
    run_test(DEADLINE, async {
        let stage = Stage::new("job-sidecars").await;
        let jobs: Api<Job> = stage.namespace.api();
        // Its sidecar ends badly, and that is ignored.
        let ignoring = example("sidecar-terminator.yaml");
        let mut clean = ignoring.clone();
        clean["metadata"]["name"] = json!("clean");
        let side = &mut clean["spec"]["template"]["spec"]["containers"][1];
        side["command"][2] = json!("trap 'exit 0' TERM; while true; do sleep 1; done");
        side["env"].as_array_mut().unwrap().truncate(1);
        for (name, job, code) in [("report", ignoring, 9), ("clean", clean, 0)] {
            let job: Job = serde_json::from_value(job).unwrap();
            jobs.create(&PostParams::default(), &job).await.unwrap();
            let pod = eventually(PATIENCE, "the Job is complete, and its sidecar has ended", || async {
                let status = jobs.get(name).await?.status.unwrap_or_default();
                let pod = stage.pods.list(&of_job(name)).await?.items.pop();
                let pod = pod.ok_or_else(|| NotYet::new("no Pod"))?;
                let statuses = pod
                    .status
                    .as_ref()
                    .and_then(|status| status.container_statuses.as_ref());
                let side = statuses.and_then(|all| all.iter().find(|status| status.name == "side"));
                let ended = side.and_then(|side| side.state.as_ref()?.terminated.as_ref());
                let found = ended.map(|ended| ended.exit_code);
                (status.succeeded == Some(1) && status.completion_time.is_some() && found == Some(code))
                    .then_some(pod.clone())
                    .ok_or_else(|| NotYet::new(format!("{status:?} {found:?}")))
            })
            .await;
            assert_eq!(
                pod.status.as_ref().unwrap().phase.as_deref(),
                Some("Succeeded"),
                "{name}"
            );
            assert_eq!(status(&pod, "side").restart_count, 0, "{name}");
            let is_final = condition(&pod, "SidecarTerminated") == Some("True");
            assert_eq!(is_final, name == "report", "only where the exit code is ignored");
            let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "ContainerRecreateRequest");
            let requests: Api<DynamicObject> = Api::namespaced_with(
                cluster::nodes_client().await,
                stage.namespace.name(),
                &ApiResource::from_gvk(&kind),
            );
            let asked = format!("sidecar-termination-{}", pod.uid().unwrap());
            let request = requests.get(&asked).await.unwrap();
            assert_eq!(request.data["spec"]["containers"][0]["name"], "side");
        }
    });
}
