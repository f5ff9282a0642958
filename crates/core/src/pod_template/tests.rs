use super::*;

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

/// Gates as they were when the original was recorded.
fn gates() -> Gates {
    Gates::default().with(Gate::DefaultHostNetworkHostPortsInPodTemplates, true)
}

fn completed(mut template: Object) -> Value {
    assert!(default(&mut template, gates()), "there is something to write");
    artefacts(&mut template);
    Value::Object(template)
}

/// What the original made of these templates.
const RECORDED: [(&str, &str); 4] = [
    ("rich", include_str!("../../fixtures/pod_template/rich.json")),
    (
        "host-network",
        include_str!("../../fixtures/pod_template/host-network.json"),
    ),
    (
        "unknown-fields",
        include_str!("../../fixtures/pod_template/unknown-fields.json"),
    ),
    ("job", include_str!("../../fixtures/pod_template/job.json")),
];

#[test]
fn given_recorded_templates_then_the_same_is_written_and_unknown_fields_stay() {
    for (name, recorded) in RECORDED {
        let mut recorded = object(serde_json::from_str(recorded).unwrap());
        let given = object(recorded.remove("given").unwrap());
        let then = recorded.remove("then").unwrap();
        assert_eq!(completed(given), then, "{name}");
    }
}

#[test]
fn given_a_complete_template_then_there_is_nothing_to_write() {
    for (name, recorded) in RECORDED {
        let mut recorded = object(serde_json::from_str(recorded).unwrap());
        let mut then = object(recorded.remove("then").unwrap());
        let before = then.clone();
        assert!(!default(&mut then, gates()), "{name}");
        artefacts(&mut then);
        assert_eq!(then, before, "{name}");
    }
}

#[test]
fn given_recorded_claims_then_the_same_is_written() {
    let recorded: Value = serde_json::from_str(include_str!("../../fixtures/pod_template/claims.json")).unwrap();
    let given = recorded["given"].as_array().unwrap();
    let then = recorded["then"].as_array().unwrap();
    assert_eq!(given.len(), then.len());
    for (given, then) in given.iter().zip(then) {
        let mut claim = object(given.clone());
        assert!(default_claim(&mut claim, gates()));
        claim_artefacts(&mut claim);
        assert_eq!(Value::Object(claim.clone()), *then);
        assert!(!default_claim(&mut claim, gates()), "nothing more to write");
    }
}

#[test]
fn given_the_gate_for_no_defaults_then_nothing_is_written() {
    let gates = gates().with(Gate::TemplateNoDefaults, true);
    let mut template = object(json!({"spec": {"containers": [{"name": "a"}], "volumes": [{"name": "v"}]}}));
    let mut claim = object(json!({"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}));
    let before = (template.clone(), claim.clone());
    assert!(!default(&mut template, gates));
    assert!(!default_claim(&mut claim, gates));
    assert_eq!((template, claim), before);
}

#[test]
fn given_no_host_port_gate_or_another_network_then_ports_stay() {
    let ports = |host_network: bool, gate: bool| {
        let mut template = object(json!({"spec": {
            "hostNetwork": host_network,
            "containers": [{"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}, {}]}],
        }}));
        let gates = Gates::default().with(Gate::DefaultHostNetworkHostPortsInPodTemplates, gate);
        default(&mut template, gates);
        let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap().clone();
        ports.iter().map(|port| port["hostPort"].as_i64()).collect::<Vec<_>>()
    };
    assert_eq!(ports(true, true), [Some(80), Some(8081), None]);
    assert_eq!(ports(true, false), [None, Some(8081), None]);
    assert_eq!(ports(false, true), [None, Some(8081), None]);
}

#[test]
fn given_values_with_a_meaning_of_their_own_then_they_stay_and_blanks_are_filled() {
    let mut template = object(json!({"spec": {
        "restartPolicy": "",
        "dnsPolicy": null,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"imagePullPolicy": "Never", "readinessProbe": {"timeoutSeconds": 0, "periodSeconds": 7}}],
        "volumes": [
            {"name": "a", "hostPath": {"type": ""}},
            {"name": "b", "secret": {"defaultMode": 0}},
            {"name": "c", "emptyDir": null},
            {"name": "d", "novel": {}},
        ],
    }}));
    assert!(default(&mut template, gates()));
    let spec = &template["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["terminationGracePeriodSeconds"], 0);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Never");
    assert_eq!(spec["containers"][0]["readinessProbe"]["timeoutSeconds"], 1);
    assert_eq!(spec["containers"][0]["readinessProbe"]["periodSeconds"], 7);
    assert_eq!(spec["volumes"][0]["hostPath"], json!({"type": ""}));
    assert_eq!(spec["volumes"][1]["secret"], json!({"defaultMode": 0}));
    assert_eq!(spec["volumes"][2], json!({"name": "c", "emptyDir": {}}));
    assert_eq!(spec["volumes"][3], json!({"name": "d", "novel": {}}));
}

#[test]
fn given_wrong_types_then_they_are_left_for_the_api_server_to_refuse() {
    for odd in [
        json!({}),
        json!({"spec": null}),
        json!({"spec": "x"}),
        json!({"spec": {"containers": {}, "volumes": ["x", 1], "initContainers": [null]}}),
        json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "lots", "memory": [1]}}, "ports": [5]}]}}),
        json!({"metadata": 1, "spec": {"containers": [{"resources": 1, "env": "x", "livenessProbe": []}]}}),
    ] {
        let mut template = object(odd.clone());
        default(&mut template, gates());
        artefacts(&mut template);
        let mut claim = object(odd);
        default_claim(&mut claim, gates());
        claim_artefacts(&mut claim);
        let limits = template
            .get("spec")
            .and_then(|spec| spec.pointer("/containers/0/resources/limits"));
        if let Some(limits) = limits {
            assert_eq!(*limits, json!({"cpu": "lots", "memory": [1]}));
        }
    }
}

#[test]
fn given_privileged_containers_then_each_is_told() {
    let template = object(json!({"spec": {
        "containers": [{"name": "a"}, {"securityContext": {"privileged": true}}, {"securityContext": {"privileged": false}}],
        "initContainers": [{"securityContext": {"privileged": true}}],
    }}));
    let errors: Vec<_> = privileged(&template, &Path::new("spec").child("template"))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "spec.template.spec.initContainers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
            "spec.template.spec.containers[1].securityContext.privileged: Forbidden: disallowed by cluster policy",
        ]
    );
    assert_eq!(privileged(&object(json!({"spec": null})), &Path::new("x")), []);
}
