//! The Pods of manager and daemon: arguments, ports, probes, rights.

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::render::{TAG, chart, get, render, render_on, strings, try_render_as_it_is};

fn manager(values: &Value) -> Value {
    get(&render(values), "Deployment", "kruise-controller-manager")["spec"].clone()
}

fn daemon(values: &Value) -> Value {
    get(&render(values), "DaemonSet", "kruise-daemon")["spec"].clone()
}

fn container(spec: &Value) -> &Value {
    let containers = spec["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    &containers[0]
}

#[test]
fn given_default_values_then_the_manager_runs_as_existing_installations_do() {
    let spec = manager(&json!({}));
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["minReadySeconds"], 3);
    assert_eq!(
        spec["selector"],
        json!({"matchLabels": {"control-plane": "controller-manager"}})
    );
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}});
    assert_eq!(spec["strategy"], rolling);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "kruise-manager");
    assert_eq!(pod["terminationGracePeriodSeconds"], 10);
    assert_eq!(pod["hostNetwork"], false);
    assert!(pod["priorityClassName"].is_null());
    let manager = container(&spec);
    assert_eq!(manager["name"], "manager");
    assert_eq!(manager["image"], format!("kruise-rs/kruise-manager:{TAG}"));
    assert_eq!(manager["imagePullPolicy"], "Always");
    assert_eq!(manager["command"], json!(["/manager"]));
    assert_eq!(
        strings(&manager["args"]),
        [
            "--enable-leader-election",
            "--metrics-addr=:8080",
            "--health-probe-addr=:8000",
            "--pprof-addr=localhost:8090",
            "--logtostderr=true",
            "--leader-election-namespace=kruise-system",
            "--v=4",
            "--feature-gates=ImagePullJobGate=true",
            "--sync-period=0",
        ]
    );
    let ports: Vec<_> = manager["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (&port["name"], &port["containerPort"]))
        .collect();
    assert_eq!(
        ports,
        [
            (&json!("webhook-server"), &json!(9876)),
            (&json!("metrics"), &json!(8080)),
            (&json!("health"), &json!(8000))
        ]
    );
    assert_eq!(
        manager["readinessProbe"]["httpGet"],
        json!({"path": "/readyz", "port": 8000})
    );
    assert_eq!(
        manager["livenessProbe"]["httpGet"],
        json!({"path": "/healthz", "port": 8000})
    );
    assert_eq!(
        manager["env"][0]["valueFrom"]["fieldRef"]["fieldPath"],
        "metadata.namespace"
    );
    assert_eq!(manager["env"][1], json!({"name": "WEBHOOK_PORT", "value": "9876"}));
    let resources =
        json!({"limits": {"cpu": "200m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}});
    assert_eq!(manager["resources"], resources);
}

#[test]
fn given_the_manager_and_the_check_then_pod_security_restricted_lets_them_in() {
    let objects = render(&json!({}));
    for (kind, name) in [("Deployment", "kruise-controller-manager"), ("Job", "rel-finalizer")] {
        let pod = &get(&objects, kind, name)["spec"]["template"]["spec"];
        let context = &pod["containers"][0]["securityContext"];
        assert_eq!(context["runAsNonRoot"], true, "{name}");
        assert_eq!(context["runAsUser"], 65534, "{name}");
        assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(
            context["capabilities"],
            json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
            "{name}"
        );
        assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}), "{name}");
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            assert!(volume["emptyDir"].is_object(), "{name}: {volume}");
        }
        assert_ne!(pod["hostNetwork"], true, "{name}");
    }
}

#[test]
fn given_a_read_only_root_then_what_the_manager_writes_has_a_place() {
    let spec = manager(&json!({}));
    let mounts: Vec<_> = container(&spec)["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| &mount["mountPath"])
        .collect();
    assert_eq!(mounts, [&json!("/log"), &json!("/tmp")]);
}

#[test]
fn given_values_for_the_manager_then_they_reach_the_pod() {
    let spec = manager(&json!({"enableKubeCacheMutationDetector": true, "manager": {
        "replicas": 3, "log": {"level": 5}, "loggingFormat": "json", "pprofAddr": ":6060", "resyncPeriod": "1h",
        "metrics": {"port": 18080}, "healthProbe": {"port": 18000}, "webhook": {"port": 19876}, "hostNetwork": true,
        "image": {"repository": "r/m", "tag": "t", "pullPolicy": "IfNotPresent"}, "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"on": true}, "tolerations": [{"operator": "Exists"}],
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}));
    let (pod, manager) = (&spec["template"]["spec"], container(&spec));
    let args = strings(&manager["args"]);
    for arg in [
        "--v=5",
        "--logging-format=json",
        "--pprof-addr=:6060",
        "--sync-period=1h",
        "--metrics-addr=:18080",
        "--health-probe-addr=:18000",
    ] {
        assert!(args.contains(&arg), "{arg} in {args:?}");
    }
    assert_eq!(spec["replicas"], 3);
    assert_eq!(manager["image"], "r/m:t");
    assert_eq!(manager["imagePullPolicy"], "IfNotPresent");
    assert_eq!(manager["readinessProbe"]["httpGet"]["port"], 18000);
    assert_eq!(manager["env"][1]["value"], "19876");
    assert_eq!(
        manager["env"][2],
        json!({"name": "KUBE_CACHE_MUTATION_DETECTOR", "value": "true"})
    );
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["nodeSelector"], json!({"on": "true"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert!(pod["affinity"]["nodeAffinity"].is_object() && pod["affinity"]["podAntiAffinity"].is_object());
}

#[test]
fn given_a_tag_that_looks_like_a_number_then_it_is_still_a_tag() {
    let spec = manager(&json!({"manager": {"image": {"tag": 1.5}}}));
    assert_eq!(container(&spec)["image"], "kruise-rs/kruise-manager:1.5");
}

#[test]
fn given_a_chart_under_development_then_somebody_has_to_say_which_image_is_meant() {
    let refusal = try_render_as_it_is(&chart(), &json!({}), &[]).unwrap_err();
    assert!(
        refusal.contains("set manager.image.repository and manager.image.tag"),
        "{refusal}"
    );
    let released = tempfile::tempdir().unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(chart())
        .arg(released.path())
        .status()
        .unwrap();
    assert!(copied.success());
    let released = released.path().join("kruise");
    let meta = fs::read_to_string(released.join("Chart.yaml")).unwrap();
    fs::write(released.join("Chart.yaml"), meta.replace("-dev\n", "\n")).unwrap();
    let objects = try_render_as_it_is(&released, &json!({}), &[]).unwrap();
    let spec = &get(&objects, "Deployment", "kruise-controller-manager")["spec"];
    let published = concat!("kruise-rs/kruise-manager:v", env!("CARGO_PKG_VERSION"));
    assert_eq!(container(spec)["image"], published);
}

#[test]
fn given_older_clusters_then_fields_they_do_not_know_are_left_out() {
    let fields = |kubernetes: &str| {
        let objects = render_on(kubernetes, &json!({}));
        let pod = get(&objects, "Deployment", "kruise-controller-manager")["spec"]["template"]["spec"].clone();
        let daemon = &get(&objects, "DaemonSet", "kruise-daemon")["spec"]["template"]["spec"];
        let has_seccomp = |pod: &Value| pod["containers"][0]["securityContext"]["seccompProfile"].is_object();
        assert_eq!(has_seccomp(&pod), has_seccomp(daemon));
        (
            has_seccomp(&pod),
            pod["topologySpreadConstraints"][0]["matchLabelKeys"].is_array(),
        )
    };
    assert_eq!(fields("1.18.0"), (false, false));
    assert_eq!(fields("1.26.9"), (true, false));
    assert_eq!(fields("1.27.0"), (true, true));
    assert_eq!(fields("v1.28.3-vendor.100"), (true, true));
}

#[test]
fn given_default_values_then_the_daemon_runs_as_existing_installations_do() {
    let spec = daemon(&json!({}));
    assert_eq!(spec["minReadySeconds"], 3);
    assert_eq!(spec["selector"], json!({"matchLabels": {"control-plane": "daemon"}}));
    assert_eq!(
        spec["updateStrategy"]["rollingUpdate"],
        json!({"maxUnavailable": "10%"})
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "kruise-daemon");
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet");
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["terminationGracePeriodSeconds"], 10);
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let virtual_nodes = json!({"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]});
    assert_eq!(terms[0]["matchExpressions"], json!([virtual_nodes]));
    assert_eq!(
        pod["volumes"],
        json!([
            {"name": "tmp", "emptyDir": {}},
            {"name": "runtime-socket", "hostPath": {"path": "/var/run", "type": ""}},
        ])
    );
    let daemon = container(&spec);
    assert_eq!(daemon["name"], "daemon");
    assert_eq!(daemon["command"], json!(["/kruise-daemon"]));
    assert_eq!(
        strings(&daemon["args"]),
        [
            "--logtostderr=true",
            "--v=4",
            "--addr=:10221",
            "--feature-gates=ImagePullJobGate=true",
            "--socket-file=",
            "--enable-pprof=true",
            "--pprof-addr=localhost:10222",
        ]
    );
    assert_eq!(daemon["env"][0]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
    let mounts = json!([
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "runtime-socket", "mountPath": "/hostvarrun", "readOnly": true},
    ]);
    assert_eq!(daemon["volumeMounts"], mounts);
    let probe = json!({"httpGet": {"path": "/healthz", "port": 10221}, "initialDelaySeconds": 60, "periodSeconds": 10,
                       "timeoutSeconds": 1, "failureThreshold": 3});
    assert_eq!(daemon["livenessProbe"], probe);
    assert!(daemon["readinessProbe"].is_null());
    let rights = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(daemon["securityContext"], rights);
    let low = self::daemon(&json!({"daemon": {"port": 80}}));
    let added = &container(&low)["securityContext"]["capabilities"]["add"];
    assert_eq!(*added, json!(["NET_BIND_SERVICE"]), "only for a port that needs it");
    let resources = json!({"limits": {"cpu": "50m", "memory": "128Mi"}, "requests": {"cpu": "0", "memory": "0"}});
    assert_eq!(daemon["resources"], resources);
}

#[test]
fn given_values_for_the_daemon_then_they_reach_the_pod() {
    let spec = daemon(&json!({"daemon": {
        "log": {"level": "6"}, "port": 20221, "enablePprof": false, "socketLocation": "/run/k3s", "socketFile": "custom.sock",
        "nodeSelector": {"on": true}, "affinity": null, "priorityClassName": "system-node-critical",
        "extraEnvs": [{"name": "HTTPS_PROXY", "value": "x"}],
        "credentialProvider": {"enable": true, "hostPath": "/opt/plugins", "awsCredentialsDir": "/opt/aws"}}}));
    let (pod, daemon) = (&spec["template"]["spec"], container(&spec));
    let args = strings(&daemon["args"]);
    for arg in [
        "--v=6",
        "--addr=:20221",
        "--socket-file=custom.sock",
        "--enable-pprof=false",
        "--plugin-config-file=/credential-provider-config/CredentialProviderPlugin.yaml",
        "--plugin-bin-dir=/credential-provider-plugin",
    ] {
        assert!(args.contains(&arg), "{arg} in {args:?}");
    }
    assert!(!args.iter().any(|arg| arg.starts_with("--pprof-addr")));
    assert_eq!(daemon["livenessProbe"]["httpGet"]["port"], 20221);
    assert_eq!(daemon["env"][1], json!({"name": "HTTPS_PROXY", "value": "x"}));
    assert_eq!(pod["nodeSelector"], json!({"on": "true"}));
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert!(pod["affinity"].is_null());
    let volumes = json!([
        {"name": "tmp", "emptyDir": {}},
        {"name": "runtime-socket", "hostPath": {"path": "/run/k3s", "type": ""}},
        {"name": "credential-provider-config", "configMap": {"name": "credential-provider-config"}},
        {"name": "credential-provider-plugin", "hostPath": {"path": "/opt/plugins", "type": ""}},
        {"name": "aws-credentials", "hostPath": {"path": "/opt/aws", "type": ""}},
    ]);
    assert_eq!(pod["volumes"], volumes);
    assert_eq!(daemon["volumeMounts"].as_array().unwrap().len(), 5);
}
