//! Every recorded deletion of a protected object, and the answer. How children are counted is asked of a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::gates::{Gate, Gates};
use kruise_core::shared::validate::deletion_protection::{Protection, always, has_children, protection, refusal};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(rename = "apiVersion")]
    _api_version: String,
    kind: String,
    metadata: ObjectMeta,
    replicas: Option<i32>,
    /// What lives in it, and how many of them.
    children: Option<(String, i64)>,
    says: Option<String>,
}

#[test]
fn given_every_recorded_deletion_then_the_answer_is_the_same() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../fixtures/deletion-protection.json")).unwrap();
    let gates = Gates::default().with(Gate::ResourcesDeletionProtection, true);
    for case in &cases {
        let found = match case.kind.as_str() {
            "Deployment" | "ReplicaSet" | "StatefulSet" | "CloneSet" | "UnitedDeployment" => {
                refusal(&case.metadata, case.replicas.unwrap_or_default(), gates)
            }
            "Service" | "Ingress" => match protection(&case.metadata, gates) {
                Some(Protection::Always) => Some(always()),
                _ => None,
            },
            "Namespace" | "CustomResourceDefinition" => match protection(&case.metadata, gates) {
                Some(Protection::Always) => Some(always()),
                Some(Protection::Cascading) => {
                    let (what, count) = case.children.as_ref().unwrap();
                    has_children(what, *count)
                }
                None => None,
            },
            // Not protected at all.
            _ => None,
        };
        assert_eq!(found, case.says, "{}", case.name);
    }
    let refused = cases.iter().filter(|case| case.says.is_some()).count();
    assert_eq!((cases.len(), refused), (56, 26));
}
