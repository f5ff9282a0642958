//! Workloads on real kubelets: what an update in place really does to containers, and in which order they start.
//!
//! The cluster has the chart installed; each test has a namespace of its own. Containers write what happens to them into an `emptyDir`, which only lives as long
//! as its Pod.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kruise_testkit::{
    builders::{Fixture as _, Workload, cloneset},
    cluster,
    eventually::{NotYet, eventually, run_test},
    kubernetes::{DEFAULT_VERSION, Kubernetes},
    namespace::{self, FreshNamespace},
    progress::Progress,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

mod node {
    mod daemonset;
    mod jobs;
    mod persistentpodstate;
    mod sidecarset;
    mod statefulset;
    mod uniteddeployment;
    mod workloadspread;
}
#[path = "cluster/scenario/pod_history.rs"]
mod pod_history;

/// Images may have to be pulled, and machines are slow.
const PATIENCE: Duration = Duration::from_mins(3);
const DEADLINE: Duration = Duration::from_mins(8);

/// Tells its name and image, then waits for its end.
const TELL: &str =
    r#"echo "$WHO $(cat /etc/image-id)" >> /told/starts; trap 'exit 0' TERM; while true; do sleep 0.1; done"#;

struct Stage {
    namespace: FreshNamespace,
    sets: Api<DynamicObject>,
    pods: Api<Pod>,
}

impl Stage {
    async fn new(test: &str) -> Self {
        Self::of("CloneSet", test).await
    }

    /// For sets of a kind.
    async fn of(kind: &str, test: &str) -> Self {
        let client: Client = cluster::nodes_client().await;
        let namespace = namespace::fresh(&client, test).await.unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", kind));
        Self {
            sets: Api::namespaced_with(client, namespace.name(), &resource),
            pods: namespace.api(),
            namespace,
        }
    }

    async fn create(&self, set: Workload) {
        let set: DynamicObject = serde_json::from_value(set.json()).unwrap();
        self.sets.create(&PostParams::default(), &set).await.unwrap();
    }

    async fn change(&self, set: &str, change: impl Fn(&mut Value)) {
        eventually(PATIENCE, "the set takes the change", || async {
            let mut live = self.sets.get(set).await?;
            change(&mut live.data["spec"]);
            self.sets.replace(set, &PostParams::default(), &live).await?;
            Ok(())
        })
        .await;
    }

    /// Waits until the Pods of a set are in these states of their life.
    async fn reaches(&self, set: &str, wanted: &[&str]) {
        eventually(PATIENCE, "the Pods are as far", || async {
            let pods = self.all(set).await;
            let found = pods
                .iter()
                .map(|pod| pod.labels()["lifecycle.apps.kruise.io/state"].as_str());
            let mut found: Vec<&str> = found.collect();
            found.sort_unstable();
            if found == wanted {
                Ok(())
            } else {
                Err(NotYet::new(format!("{found:?}")))
            }
        })
        .await;
    }

    /// Waits until all Pods of a set are at its latest template and available; returns the first.
    async fn done(&self, set: &str) -> Pod {
        eventually(PATIENCE, "all Pods are updated and available", || async {
            let live = self.sets.get(set).await?;
            let (spec, status) = (&live.data["spec"], &live.data["status"]);
            let is_seen = status["observedGeneration"].as_i64() == live.metadata.generation;
            let is_done =
                status["updatedAvailableReplicas"] == spec["replicas"] && status["replicas"] == spec["replicas"];
            if is_seen && is_done {
                Ok(())
            } else {
                Err(NotYet::new(format!("{status:#}")))
            }
        })
        .await;
        self.all(set).await.remove(0)
    }

    async fn all(&self, set: &str) -> Vec<Pod> {
        let selected = ListParams::default().labels(&format!("app={set}"));
        self.pods.list(&selected).await.unwrap().items
    }

    /// What containers have told, in order.
    fn told(&self, pod: &Pod, container: &str) -> Vec<String> {
        let text = self.exec(pod, container, &["cat", "/told/starts"]);
        text.lines().map(str::to_owned).collect()
    }

    /// What a command says in a container.
    fn exec(&self, pod: &Pod, container: &str, command: &[&str]) -> String {
        let output = kubectl()
            .args([
                "exec",
                "-n",
                self.namespace.name(),
                &pod.name_any(),
                "-c",
                container,
                "--",
            ])
            .args(command)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn kubectl() -> Command {
    let kubernetes = Kubernetes::provide(DEFAULT_VERSION, &Progress::quiet()).unwrap();
    let mut command = Command::new(kubernetes.part("kubectl"));
    command.arg("--kubeconfig").arg(cluster::nodes_kubeconfig());
    command
}

/// A container that tells what happens to it.
fn container(name: &str, priority: Option<i32>) -> Value {
    let mut env = vec![json!({"name": "WHO", "value": name})];
    if let Some(priority) = priority {
        env.push(json!({"name": "KRUISE_CONTAINER_PRIORITY", "value": priority.to_string()}));
    }
    json!({
        "name": name, "image": "busybox:1.35", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", TELL], "env": env,
        "volumeMounts": [{"name": "told", "mountPath": "/told"}],
    })
}

/// A set that is updated in place.
fn in_place(name: &str, containers: &[Value]) -> Workload {
    cloneset(name)
        .set("/spec/template/spec/containers", containers)
        .set("/spec/template/spec/volumes", json!([{"name": "told", "emptyDir": {}}]))
        .set(
            "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
            "InPlaceIfPossible",
        )
}

/// A newer image for some containers.
fn to_newer(containers: &[usize]) -> impl Fn(&mut Value) {
    move |spec| {
        for index in containers {
            spec["template"]["spec"]["containers"][*index]["image"] = json!("busybox:1.36");
        }
    }
}

fn status<'a>(pod: &'a Pod, container: &str) -> &'a ContainerStatus {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let mut statuses = statuses.into_iter().flatten();
    statuses.find(|status| status.name == container).expect("a status")
}

/// What stays the same when only a container is restarted.
fn identity(pod: &Pod) -> (Option<String>, Option<String>, Option<String>) {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    (pod.uid(), ip, node)
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some(&condition.status)
}

#[test]
fn given_another_image_then_only_the_container_is_restarted() {
    run_test(DEADLINE, async {
        let stage = Stage::new("in-place").await;
        stage
            .create(in_place("web", &[container("main", None), container("side", None)]))
            .await;
        let before = stage.done("web").await;
        stage.change("web", to_newer(&[0])).await;
        let after = stage.done("web").await;
        assert_eq!(identity(&after), identity(&before));
        let [(main, old_main), (side, old_side)] =
            ["main", "side"].map(|name| (status(&after, name), status(&before, name)));
        assert_eq!((main.restart_count, side.restart_count), (1, 0));
        assert_ne!(main.image_id, old_main.image_id);
        assert_eq!(side.container_id, old_side.container_id);
        // What the first container had written is still there.
        let told = stage.told(&after, "side");
        let mains: Vec<&String> = told.iter().filter(|line| line.starts_with("main")).collect();
        assert_eq!(mains, ["main library/busybox:1.35", "main library/busybox:1.36"]);
        assert_eq!(told.len(), 3, "{told:?}");
    });
}

#[test]
fn given_launch_priorities_then_containers_start_and_are_updated_in_that_order() {
    run_test(DEADLINE, async {
        let stage = Stage::new("priorities").await;
        let containers = [
            container("last", Some(-1)),
            container("first", Some(10)),
            container("middle", None),
        ];
        stage.create(in_place("ordered", &containers)).await;
        let before = stage.done("ordered").await;
        let names = |told: &[String]| {
            let names = told
                .iter()
                .map(|line| line.split(' ').next().unwrap_or_default().to_owned());
            names.collect::<Vec<String>>()
        };
        assert_eq!(names(&stage.told(&before, "last")), ["first", "middle", "last"]);
        stage.change("ordered", to_newer(&[0, 1])).await;
        let after = stage.done("ordered").await;
        assert_eq!(identity(&after), identity(&before));
        let told = stage.told(&after, "middle");
        assert_eq!(told[3..], ["first library/busybox:1.36", "last library/busybox:1.36"]);
        assert_eq!(status(&after, "middle").restart_count, 0);
    });
}

#[test]
fn given_a_grace_period_then_the_pod_is_not_ready_for_so_long_before_its_container_is_restarted() {
    run_test(DEADLINE, async {
        let grace = 4;
        let stage = Stage::new("grace").await;
        let path = "/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy/gracePeriodSeconds";
        stage
            .create(in_place("slow", &[container("main", None)]).set(path, grace))
            .await;
        stage.done("slow").await;
        stage.change("slow", to_newer(&[0])).await;
        let held = eventually(
            PATIENCE,
            "the Pod is not ready and its container still runs",
            || async {
                let pod = stage.all("slow").await.remove(0);
                let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref());
                let runs = status(&pod, "main")
                    .state
                    .as_ref()
                    .is_some_and(|state| state.running.is_some());
                if condition(&pod, "Ready") == Some("False") && image == Some("busybox:1.35") && runs {
                    Ok(pod)
                } else {
                    Err(NotYet::new(format!("{:?} {image:?}", condition(&pod, "Ready"))))
                }
            },
        )
        .await;
        let conditions = held.status.and_then(|status| status.conditions).unwrap();
        let since = conditions
            .iter()
            .find(|condition| condition.type_ == "InPlaceUpdateReady")
            .unwrap();
        let since = since.last_transition_time.clone().unwrap().0;
        let after = stage.done("slow").await;
        let ended = status(&after, "main")
            .last_state
            .clone()
            .and_then(|state| state.terminated)
            .unwrap();
        let waited = ended.finished_at.unwrap().0.duration_since(since);
        // Both times are in whole seconds.
        assert!(waited.as_secs() >= grace - 1, "{waited:?}");
    });
}

/// The script of the documentation, at work.
struct Script(Child);

impl Script {
    fn start(namespace: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/hook-controller.sh");
        let folder = kubectl().get_program().to_owned();
        let folder = Path::new(&folder).parent().unwrap().display().to_string();
        let config = tempfile::NamedTempFile::new().unwrap();
        let (_, kubeconfig) = config.keep().unwrap();
        std::fs::copy(cluster::nodes_kubeconfig(), &kubeconfig).unwrap();
        let mut context = Command::new(kubectl().get_program());
        context.args(["config", "set-context", "--current", "--namespace", namespace]);
        assert!(
            context
                .env("KUBECONFIG", &kubeconfig)
                .stdout(Stdio::null())
                .status()
                .unwrap()
                .success()
        );
        let mut command = Command::new(script);
        command
            .args(["app=gateway", "example.com/in-service", "true"])
            .env("KUBECONFIG", &kubeconfig)
            .env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()))
            .stdout(Stdio::null())
            .process_group(0);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // With everything that it has started.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn given_hooks_then_pods_wait_for_the_controller_of_somebody_else() {
    run_test(DEADLINE, async {
        let stage = Stage::new("hooks").await;
        let hook = json!({"labelsHandler": {"example.com/in-service": "true"}});
        let set = in_place("gateway", &[container("main", None)])
            .replicas(2)
            .set("/spec/template/metadata/labels/example.com~1in-service", "true")
            .set("/spec/lifecycle", json!({"preDelete": hook, "inPlaceUpdate": hook}));
        stage.create(set).await;
        stage.done("gateway").await;
        // Nobody is there: the first Pod waits, and the other for it.
        stage.change("gateway", to_newer(&[0])).await;
        stage.reaches("gateway", &["Normal", "PreparingUpdate"]).await;
        let script = Script::start(stage.namespace.name());
        stage.done("gateway").await;
        for pod in stage.all("gateway").await {
            assert_eq!(status(&pod, "main").restart_count, 1);
            assert_eq!(pod.labels()["example.com/in-service"], "true");
        }
        drop(script);
        stage.change("gateway", |spec| spec["replicas"] = json!(1)).await;
        stage.reaches("gateway", &["Normal", "PreparingDelete"]).await;
        let _script = Script::start(stage.namespace.name());
        stage.reaches("gateway", &["Normal"]).await;
    });
}
