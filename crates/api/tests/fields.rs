//! The CRDs say what the contract says: `fixtures/fields` has every field of every version, one line each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kruise_api::registry::KINDS;
use kruise_api::schema::{crd, tree};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fields")
}

/// The first line that differs, as `- contract` and `+ ours`.
fn first_difference(contract: &str, ours: &str) -> Option<String> {
    let (contract, ours): (BTreeSet<_>, BTreeSet<_>) = (contract.lines().collect(), ours.lines().collect());
    let missing = contract.difference(&ours).map(|line| format!("- {line}"));
    let extra = ours.difference(&contract).map(|line| format!("+ {line}"));
    missing
        .chain(extra)
        .min_by_key(|line| line.get(2..).map(ToOwned::to_owned))
}

/// Fields that we have beyond the contract, and everything below them. They tell more; nothing depends on them.
const OURS: &[(&str, &str)] = &[
    ("sidecarsets", "status.conditions"),
    ("sidecarsets", "status.podsWithoutSidecars"),
];

#[test]
fn every_version_has_the_fields_of_the_contract_and_few_of_ours() {
    for kind in KINDS {
        for version in kind.versions {
            let name = format!("{}.{}.txt", kind.plural, version.name);
            let contract = fs::read_to_string(fixtures().join(&name)).unwrap();
            let ours = tree::fields(kind, version, &crd::schema(version).unwrap());
            let is_ours = |line: &&str| {
                OURS.iter()
                    .any(|(plural, field)| *plural == kind.plural && line.starts_with(field))
            };
            let (own, ours): (Vec<&str>, Vec<&str>) = ours.lines().partition(is_ours);
            let shared = ours.iter().map(|line| format!("{line}\n")).collect::<String>();
            assert!(contract == shared, "{name}: {:?}", first_difference(&contract, &shared));
            assert!(
                !contract.lines().any(|line| own.contains(&line)),
                "{name}: a field of the contract is called ours"
            );
        }
    }
}

#[test]
fn the_registry_has_every_kind_and_version_of_the_contract_and_no_other() {
    let contract: BTreeSet<String> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "printer-columns.txt")
        .collect();
    let versions = KINDS
        .iter()
        .flat_map(|kind| kind.versions.iter().map(move |version| (kind.plural, version.name)));
    let ours: BTreeSet<String> = versions
        .map(|(plural, version)| format!("{plural}.{version}.txt"))
        .collect();
    assert_eq!(contract, ours);
    assert_eq!((KINDS.len(), ours.len()), (18, 33));
}

#[test]
fn kubectl_get_shows_the_columns_of_the_contract() {
    let contract = fs::read_to_string(fixtures().join("printer-columns.txt")).unwrap();
    let ours = tree::columns(KINDS);
    assert!(contract == ours, "{:?}", first_difference(&contract, &ours));
}

#[test]
fn every_field_has_one_useful_line_for_kubectl_explain() {
    fn visit(path: &str, schema: &Value) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let text = field["description"].as_str().unwrap_or_default();
            assert!(text.len() > 5 && text.ends_with('.'), "{path}: {text:?}");
            assert!(text.len() <= 130 && !text.contains(['\n', '`']), "{path}: {text:?}");
            visit(&path, field);
        }
        for element in [&schema["items"], &schema["additionalProperties"]] {
            if element.is_object() {
                visit(&format!("{path}[]"), element);
            }
        }
    }
    for kind in KINDS {
        for version in kind.versions {
            visit(kind.kind, &crd::schema(version).unwrap());
        }
    }
}

#[test]
fn the_crds_have_nothing_that_the_api_server_does_not_know() {
    fn visit(value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    assert!(!key.starts_with("x-") || key.starts_with("x-kubernetes-"), "{key}");
                    assert!(!["$ref", "$defs", "oneOf", "allOf"].contains(&key.as_str()), "{key}");
                    visit(value);
                }
            }
            Value::Array(list) => list.iter().for_each(visit),
            _ => {}
        }
    }
    for kind in KINDS {
        visit(&crd::definition(kind).unwrap());
    }
}

#[test]
fn conversion_is_asked_of_the_manager_where_the_shapes_differ() {
    let webhook: Vec<&str> = KINDS
        .iter()
        .filter(|kind| crd::definition(kind).unwrap()["spec"]["conversion"]["strategy"] == "Webhook")
        .map(|kind| kind.kind)
        .collect();
    let wanted = [
        "CloneSet",
        "ContainerRecreateRequest",
        "DaemonSet",
        "PersistentPodState",
        "ResourceDistribution",
        "SidecarSet",
        "StatefulSet",
        "UnitedDeployment",
        "WorkloadSpread",
        "PodUnavailableBudget",
    ];
    assert_eq!(webhook, wanted);
}
