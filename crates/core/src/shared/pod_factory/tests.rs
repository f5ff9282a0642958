use super::*;

/// A Pod with a number, as a kind with ordinals makes it.
struct Ordinal(u32);

impl PodIdentity for Ordinal {
    fn pod_name(&self) -> String {
        format!("db-{}", self.0)
    }

    fn claim_name(&self, template: &str) -> String {
        format!("{template}-db-{}", self.0)
    }

    fn pod_labels(&self) -> Map<String, Value> {
        object(Some(json!({ "index": self.0.to_string() })))
    }

    fn spec(&self) -> Map<String, Value> {
        object(Some(json!({ "hostname": self.pod_name() })))
    }
}

fn owner() -> Owner {
    Owner {
        api_version: "apps.kruise.io/v1beta1".to_owned(),
        kind: "X".to_owned(),
        name: "db".to_owned(),
        uid: "u".to_owned(),
    }
}

fn body(action: &Action) -> Value {
    match action {
        Action::Create { body, .. } => body.json(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_has_what_the_template_the_kind_and_its_identity_say() {
    let templates: VolumeClaimTemplates = serde_json::from_str(
        r#"[{"metadata": {"name": "data", "labels": {"a": "template"}}, "spec": {"size": 1}}, {"metadata": {"name": "log"}}]"#,
    )
    .unwrap();
    let selected = BTreeMap::from([("a".to_owned(), "selector".to_owned())]);
    let owner = owner();
    let factory = PodFactory {
        owner: &owner,
        namespace: "shop",
        claim_templates: &templates,
        claim_labels: Some(&selected),
    };
    let template = json!({
        "metadata": { "labels": { "app": "db", "revision": "template" } },
        "spec": { "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }], "readinessGates": [{ "conditionType": "A" }] },
    });
    let additions = Additions {
        labels: BTreeMap::from([("revision".to_owned(), "db-1".to_owned())]),
        annotations: BTreeMap::from([("since".to_owned(), "now".to_owned())]),
        readiness_gates: &["A", "B"],
    };
    let prototype = factory.prototype(&template, additions);
    let new = factory.pod(&prototype, &Ordinal(3), |claim| claim == "log-db-3");
    assert_eq!(
        body(&new.pod),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "db-3", "generateName": "db-", "namespace": "shop",
                "labels": { "app": "db", "revision": "db-1", "index": "3" },
                "annotations": { "since": "now" },
                "ownerReferences": [owner.reference()],
            },
            "spec": {
                "hostname": "db-3",
                "readinessGates": [{ "conditionType": "A" }, { "conditionType": "B" }],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "data-db-3" } },
                    { "name": "log", "persistentVolumeClaim": { "claimName": "log-db-3" } },
                    { "name": "tmp", "emptyDir": {} },
                ],
            },
        })
    );
    let [(name, claim)] = &new.claims[..] else {
        panic!("{:?}", new.claims)
    };
    assert_eq!(
        (&**name, &body(claim)["metadata"]["labels"]),
        ("data-db-3", &json!({ "a": "selector" }))
    );
}
