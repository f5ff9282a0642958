//! The CRDs on a real apiserver: accepted, listed with their columns, explained, defaulting and refusing as the field trees say.
//!
//! Conversion is switched off here, because nothing serves it: what the apiserver does by itself with each version is what counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use kruise_api::registry::KINDS;
use kruise_testkit::eventually::run_test;
use kruise_testkit::{cluster, namespace};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_mins(3);

/// kubectl against the test's control plane, with all CRDs installed.
struct Kubectl {
    command: fn() -> Command,
}

impl Kubectl {
    fn ready() -> Self {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        let this = Self {
            command: cluster::kubectl,
        };
        INSTALLED.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            for (name, mut definition) in definitions() {
                definition["spec"].as_object_mut().unwrap().remove("conversion");
                fs::write(folder.path().join(name).with_extension("json"), definition.to_string()).unwrap();
            }
            let path = folder.path().to_str().unwrap();
            this.ok(&["apply", "--server-side", "--force-conflicts", "-f", path]);
            this.ok(&["wait", "--for=condition=Established", "--timeout=60s", "-f", path]);
        });
        this
    }

    fn run(&self, args: &[&str]) -> Output {
        (self.command)().args(args).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "kubectl {args:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(
            !output.status.success(),
            "kubectl {args:?} was not refused: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Sends an object and returns what the apiserver made of it.
    fn create(&self, object: &Value) -> Value {
        let file = written(object);
        serde_json::from_str(&self.ok(&["create", "-o", "json", "-f", file.path().to_str().unwrap()])).unwrap()
    }

    /// What the API server says: kubectl itself would have a say before an older one.
    fn create_refused(&self, object: &Value) -> String {
        let file = written(object);
        self.refused(&["create", "--validate=false", "-f", file.path().to_str().unwrap()])
    }

    fn apply_as(&self, owner: &str, object: &Value, more: &[&str]) -> Output {
        let file = written(object);
        let manager = format!("--field-manager={owner}");
        let mut args = vec!["apply", "--server-side", &manager, "-f", file.path().to_str().unwrap()];
        args.extend(more);
        self.run(&args)
    }
}

fn written(object: &Value) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    fs::write(file.path(), object.to_string()).unwrap();
    file
}

fn definitions() -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crds"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |file: PathBuf| {
        let definition: Value = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        (file.file_name().unwrap().to_str().unwrap().to_owned(), definition)
    };
    files.into_iter().map(read).collect()
}

/// The rich document of a kind, without what only a server or another object gives it.
fn document(plural: &str, version: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/documents/{plural}.{version}.json"));
    let mut document: Value =
        serde_json::from_str(&fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}", file.display()))).unwrap();
    let name = document["metadata"]["name"].clone();
    document["metadata"] = json!({"name": name});
    document
}

fn named(mut object: Value, namespace: &str, name: &str) -> Value {
    object["metadata"] = json!({"name": name, "namespace": namespace});
    object
}

// What `json!` makes is handed over whole.
#[allow(clippy::needless_pass_by_value)]
fn cloneset(version: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.21"}]}},
    }});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

#[test]
fn given_the_committed_crds_when_applied_then_there_is_no_warning_and_every_version_is_served() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crds");
        // With conversion as shipped: a dry run, so that the other tests keep their CRDs.
        let output = kubectl.run(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "--warnings-as-errors",
            "-f",
            folder.to_str().unwrap(),
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), KINDS.len());
        for kind in KINDS {
            let crd: Value = serde_json::from_str(&kubectl.ok(&[
                "get",
                "crd",
                &format!("{}.{}", kind.plural, kind.group),
                "-o",
                "json",
            ]))
            .unwrap();
            let conditions = crd["status"]["conditions"].as_array().unwrap();
            for condition in conditions {
                let good = if condition["type"] == "NonStructuralSchema" {
                    "False"
                } else {
                    "True"
                };
                assert_eq!(condition["status"], good, "{}: {condition}", kind.kind);
            }
            for version in kind.versions {
                kubectl.ok(&["get", &format!("{}.{}.{}", kind.plural, version.name, kind.group), "-A"]);
            }
        }
    });
}

#[test]
fn given_an_object_of_each_kind_and_version_when_listed_then_the_columns_are_those_of_the_contract() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let space = namespace::fresh(&cluster::client().await, "columns").await.unwrap();
        let contract =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fields/printer-columns.txt"))
                .unwrap();
        for kind in KINDS {
            for version in kind.versions {
                let name = format!("columns-{}", version.name);
                let mut object = document(kind.plural, version.name);
                object["metadata"] = json!({"name": name});
                let resource = format!("{}.{}.{}", kind.plural, version.name, kind.group);
                let file = written(&object);
                let path = file.path().to_str().unwrap();
                kubectl.ok(&["create", "-n", space.name(), "--validate=false", "-f", path]);
                let listed = kubectl.ok(&["get", &resource, &name, "-n", space.name(), "-o", "wide"]);
                kubectl.ok(&["delete", "-n", space.name(), "--wait=false", "-f", path]);
                let head: Vec<String> = listed
                    .lines()
                    .next()
                    .unwrap()
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect();
                let rows = contract.lines().map(|line| line.split('\t').collect::<Vec<_>>());
                let mut wanted: Vec<String> = vec!["NAME".into()];
                wanted.extend(
                    rows.filter(|row| row[0] == format!("{}.{}", kind.plural, kind.group) && row[1] == version.name)
                        .map(|row| row[3].to_uppercase()),
                );
                // A kind without columns of its own is listed with the server's.
                if wanted.iter().any(|column| column.starts_with("(NONE")) {
                    wanted = vec!["NAME".into(), "AGE".into()];
                }
                assert_eq!(head, wanted, "{resource}:\n{listed}");
            }
        }
        let listed = {
            kubectl.create(&named(
                cloneset("v1beta1", json!({"replicas": 7})),
                space.name(),
                "seven",
            ));
            kubectl.ok(&["get", "clone", "seven", "-n", space.name(), "-o", "wide"])
        };
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            (row[0], row[1], *row.last().unwrap()),
            ("seven", "7", "nginx:1.21"),
            "{listed}"
        );
    });
}

#[test]
fn given_any_kind_when_explained_then_a_person_reads_what_each_field_is_for() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        for kind in KINDS {
            for version in kind.versions {
                let explained = kubectl.ok(&[
                    "explain",
                    kind.plural,
                    "--api-version",
                    &format!("{}/{}", kind.group, version.name),
                    "--recursive",
                ]);
                assert!(
                    explained.contains("DESCRIPTION") && explained.contains(kind.kind),
                    "{explained}"
                );
                let description = explained
                    .split("DESCRIPTION:")
                    .nth(1)
                    .unwrap()
                    .split("FIELDS:")
                    .next()
                    .unwrap()
                    .trim();
                assert!(
                    description.len() > 20 && description != "<empty>",
                    "{} says too little: {description:?}",
                    kind.kind
                );
            }
        }
        let strategy = kubectl.ok(&["explain", "cloneset.spec.updateStrategy.rollingUpdate"]);
        for field in ["partition", "maxUnavailable", "maxSurge", "paused", "podUpdatePolicy"] {
            let described = strategy
                .split(&format!("  {field}\t"))
                .nth(1)
                .unwrap_or_else(|| panic!("{field} is not in {strategy}"));
            assert!(
                !described.lines().nth(1).unwrap().trim().starts_with("<no description>"),
                "{field}"
            );
        }
    });
}

#[test]
fn given_fields_left_out_when_created_then_the_schema_defaults_them() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let space = namespace::fresh(&cluster::client().await, "defaults").await.unwrap();
        let made = kubectl.create(&named(
            cloneset("v1beta1", json!({"scaleStrategy": {"maxUnavailable": 1}})),
            space.name(),
            "clone",
        ));
        assert_eq!(
            made["spec"]["scaleStrategy"],
            json!({"enablePVCReuse": false, "maxUnavailable": 1})
        );
        let made = kubectl.create(&named(
            cloneset("v1alpha1", json!({"scaleStrategy": {}})),
            space.name(),
            "old",
        ));
        assert_eq!(
            made["spec"]["scaleStrategy"],
            json!({}),
            "the default belongs to v1beta1 alone"
        );

        let sidecarset = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": space.name()}, "spec": {
            "selector": {"matchLabels": {"app": space.name()}}, "imagePullSecrets": [{}], "injectionStrategy": {"revision": {}},
            "containers": [{"name": "side", "image": "busybox", "resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {}}}]}});
        let made = kubectl.create(&sidecarset);
        kubectl.ok(&["delete", "sidecarset", space.name()]);
        assert_eq!(
            made["spec"]["containers"][0]["resourcesPolicy"]["targetContainersNameRegex"],
            ".*"
        );
        assert_eq!(made["spec"]["injectionStrategy"]["revision"]["policy"], "Always");
        assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": ""}]));

        let recreate = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": "r", "namespace": space.name()},
            "spec": {"podName": "p", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
        assert_eq!(
            kubectl.create(&recreate)["spec"]["containers"][0]["ports"][0]["protocol"],
            "TCP"
        );
    });
}

#[test]
fn given_what_the_contract_forbids_when_created_then_the_field_is_named() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let space = namespace::fresh(&cluster::client().await, "refusals").await.unwrap();
        let recreate = |version: &str, strategy: Value| {
            json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "ContainerRecreateRequest", "metadata": {"name": "r", "namespace": space.name()},
                "spec": {"podName": "p", "containers": [{"name": "c"}], "strategy": strategy}})
        };
        let state = |version: &str, policy: &str| {
            json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "PersistentPodState", "metadata": {"name": "s", "namespace": space.name()},
                "spec": {"targetRef": {"apiVersion": "v1", "kind": "K", "name": "n"}, "persistentPodStateRetentionPolicy": policy}})
        };
        let budget = |spec: Value| json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "b", "namespace": space.name()}, "spec": spec});
        for (object, path) in [
            (
                named(
                    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "spec": {"template": {}}}),
                    space.name(),
                    "x",
                ),
                "spec.selector: Required value",
            ),
            (
                named(cloneset("v1beta1", json!({"replicas": -1})), space.name(), "x"),
                "spec.replicas",
            ),
            (
                recreate("v1beta1", json!({"minStartedSeconds": -1})),
                "spec.strategy.minStartedSeconds",
            ),
            (
                recreate("v1beta1", json!({"failurePolicy": "Perhaps"})),
                "spec.strategy.failurePolicy: Unsupported value: \"Perhaps\"",
            ),
            (
                state("v1beta1", "Nope"),
                "spec.persistentPodStateRetentionPolicy: Unsupported value: \"Nope\"",
            ),
            (budget(json!({"protectTotalReplicas": 0})), "spec.protectTotalReplicas"),
            (
                budget(json!({"protectOperations": ["WALK"]})),
                "spec.protectOperations[0]: Unsupported value: \"WALK\"",
            ),
        ] {
            let text = kubectl.create_refused(&object);
            assert!(text.contains(path), "{path} is not in: {text}");
        }
        // The older version knows neither minimum nor enum, and an empty word is one of UnitedDeployment's own.
        kubectl.create(&recreate("v1alpha1", json!({"minStartedSeconds": -1})));
        kubectl.create(&state("v1alpha1", "Nope"));
        let united = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "metadata": {"name": "u", "namespace": space.name()},
            "spec": {"selector": {}, "template": {}, "topology": {}, "updateStrategy": {"type": ""}}});
        kubectl.create(&united);
    });
}

#[test]
fn given_fields_outside_the_schema_then_they_are_pruned_but_kept_below_templates() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let space = namespace::fresh(&cluster::client().await, "pruning").await.unwrap();
        let mut object = named(cloneset("v1beta1", json!({"fromTheFuture": 1})), space.name(), "clone");
        object["spec"]["template"]["spec"]["fromTheFuture"] = json!({"deep": [1]});
        let file = written(&object);
        let made: Value = serde_json::from_str(&kubectl.ok(&[
            "create",
            "--validate=false",
            "-o",
            "json",
            "-f",
            file.path().to_str().unwrap(),
        ]))
        .unwrap();
        assert_eq!(made["spec"]["fromTheFuture"], Value::Null);
        assert_eq!(made["spec"]["template"]["spec"]["fromTheFuture"], json!({"deep": [1]}));

        // The job's own metadata is an object without fields: labels written there do not arrive.
        let cron = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "metadata": {"name": "cron", "namespace": space.name()}, "spec": {
            "schedule": "* * * * *", "template": {"broadcastJobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"metadata": {"labels": {"c": "d"}}}}}}}});
        let file = written(&cron);
        let made: Value = serde_json::from_str(&kubectl.ok(&[
            "create",
            "--validate=false",
            "-o",
            "json",
            "-f",
            file.path().to_str().unwrap(),
        ]))
        .unwrap();
        let template = &made["spec"]["template"]["broadcastJobTemplate"];
        assert_eq!(template["metadata"], json!({}));
        assert_eq!(template["spec"]["template"]["metadata"]["labels"], json!({"c": "d"}));
    });
}

#[test]
fn given_two_owners_when_both_apply_then_lists_and_maps_follow_their_markers() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let space = namespace::fresh(&cluster::client().await, "owners").await.unwrap();
        // Conditions are keyed by type: each owner keeps its own.
        let request = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": "r", "namespace": space.name()}});
        let mut whole = request.clone();
        whole["spec"] = json!({"podName": "p", "containers": [{"name": "c"}]});
        kubectl.create(&whole);
        for (owner, kind) in [("one", "First"), ("two", "Second")] {
            let mut status = request.clone();
            let condition = json!({"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            status["status"] = json!({"phase": "Pending", "conditions": [condition]});
            let output = kubectl.apply_as(owner, &status, &["--subresource=status"]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let kinds = kubectl.ok(&[
            "get",
            "crr",
            "r",
            "-n",
            space.name(),
            "-o",
            "jsonpath={.status.conditions[*].type}",
        ]);
        assert_eq!(kinds, "First Second");

        // A selector is one value: a second owner cannot add to it, only take it whole.
        let mut other = named(cloneset("v1beta1", json!({})), space.name(), "clone");
        assert!(kubectl.apply_as("one", &other, &[]).status.success());
        other["spec"] = json!({"selector": {"matchLabels": {"tier": "front"}}, "template": other["spec"]["template"]});
        let conflict = kubectl.apply_as("two", &other, &[]);
        assert!(!conflict.status.success() && String::from_utf8_lossy(&conflict.stderr).contains(".spec.selector"));
        assert!(kubectl.apply_as("two", &other, &["--force-conflicts"]).status.success());
        let selector = kubectl.ok(&[
            "get",
            "clone",
            "clone",
            "-n",
            space.name(),
            "-o",
            "jsonpath={.spec.selector.matchLabels}",
        ]);
        assert_eq!(selector, r#"{"tier":"front"}"#);
    });
}

#[test]
fn given_a_scalable_kind_when_scaled_through_either_version_then_replicas_and_selector_are_served() {
    run_test(DEADLINE, async {
        let kubectl = Kubectl::ready();
        let space = namespace::fresh(&cluster::client().await, "scale").await.unwrap();
        let template = cloneset("v1beta1", json!({}))["spec"]["template"].clone();
        for (kind, plural, mut spec) in [
            ("CloneSet", "clonesets", json!({"template": template})),
            ("StatefulSet", "statefulsets", json!({"template": template})),
            (
                "UnitedDeployment",
                "uniteddeployments",
                json!({"template": {}, "topology": {}}),
            ),
        ] {
            spec["selector"] = json!({"matchLabels": {"app": "web"}});
            spec["replicas"] = json!(2);
            let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": "scaled", "namespace": space.name()}, "spec": spec});
            kubectl.create(&object);
            for (count, version) in [(5, "v1alpha1"), (3, "v1beta1")] {
                kubectl.ok(&[
                    "scale",
                    &format!("{plural}.{version}.apps.kruise.io/scaled"),
                    "-n",
                    space.name(),
                    &format!("--replicas={count}"),
                ]);
                let raw = kubectl.ok(&[
                    "get",
                    "--raw",
                    &format!(
                        "/apis/apps.kruise.io/{version}/namespaces/{}/{plural}/scaled/scale",
                        space.name()
                    ),
                ]);
                let scale: Value = serde_json::from_str(&raw).unwrap();
                assert_eq!(scale["spec"]["replicas"], count, "{kind} {version}: {raw}");
            }
            // A controller's status reaches the scale subresource, where an autoscaler looks for it.
            let mut status = json!({"status": {"replicas": 3, "labelSelector": "app=web", "currentRevision": "one"}});
            for counter in [
                "availableReplicas",
                "readyReplicas",
                "updatedReplicas",
                "updatedReadyReplicas",
                "currentReplicas",
                "updatedAvailableReplicas",
            ] {
                status["status"][counter] = json!(0);
            }
            kubectl.ok(&[
                "patch",
                &format!("{plural}.v1beta1.apps.kruise.io"),
                "scaled",
                "-n",
                space.name(),
                "--subresource=status",
                "--type=merge",
                "-p",
                &status.to_string(),
            ]);
            let raw = kubectl.ok(&[
                "get",
                "--raw",
                &format!(
                    "/apis/apps.kruise.io/v1beta1/namespaces/{}/{plural}/scaled/scale",
                    space.name()
                ),
            ]);
            let scale: Value = serde_json::from_str(&raw).unwrap();
            assert_eq!(scale["status"], json!({"replicas": 3, "selector": "app=web"}), "{kind}");
        }
    });
}
