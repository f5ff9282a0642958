//! CRDs are part of the release unless the user manages them. Those that convert are told where the manager is.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::render::{chart, get, render, try_render};

/// The generated CRDs, as they lie in the chart.
fn generated() -> Vec<Value> {
    let entries = fs::read_dir(chart().join("files/crds")).unwrap();
    entries
        .map(|entry| serde_saphyr::from_str(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap())
        .collect()
}

fn rendered(objects: &[Value]) -> usize {
    objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .count()
}

/// A copy of the chart with two CRDs of our own choice.
struct Sample {
    _folder: TempDir,
    chart: PathBuf,
}

fn chart_with_samples() -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp")
        .arg("-R")
        .arg(chart())
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(copied.success());
    let copy = folder.path().join("kruise");
    let crds = copy.join("files/crds");
    let _ = fs::remove_dir_all(&crds);
    fs::create_dir_all(&crds).unwrap();
    for (plural, conversion) in [
        ("plains", json!({"strategy": "None"})),
        (
            "twins",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "wrong", "name": "x"}},
                         "conversionReviewVersions": ["v1"]}}),
        ),
    ] {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                         "metadata": {"name": format!("{plural}.apps.kruise.io")},
                         "spec": {"group": "apps.kruise.io", "conversion": conversion, "maximum": 2_147_483_647}});
        fs::write(
            crds.join(format!("{plural}.yaml")),
            serde_json::to_string_pretty(&crd).unwrap(),
        )
        .unwrap();
    }
    Sample {
        _folder: folder,
        chart: copy,
    }
}

#[test]
fn given_the_generated_crds_then_all_kinds_are_rendered_unchanged() {
    let objects = render(&json!({}));
    let generated = generated();
    assert_eq!(generated.len(), 18);
    assert_eq!(rendered(&objects), 19, "and that of questions, which is never stored");
    for crd in generated {
        let name = crd["metadata"]["name"].as_str().unwrap();
        assert_eq!(*get(&objects, "CustomResourceDefinition", name), crd, "{name}");
    }
}

#[test]
fn given_a_user_who_manages_the_crds_then_none_is_rendered() {
    assert_eq!(rendered(&render(&json!({"crds": {"managed": false}}))), 0);
}

#[test]
fn given_the_crds_that_convert_then_the_manager_may_write_the_ca_into_each() {
    let objects = render(&json!({}));
    let rules = &get(&objects, "ClusterRole", "kruise-certs-role")["rules"];
    let mut rules = rules.as_array().unwrap().iter();
    let about_crds = rules.find(|rule| rule["resources"][0] == "customresourcedefinitions");
    let named = about_crds.unwrap()["resourceNames"].as_array().unwrap();
    for crd in generated() {
        let name = &crd["metadata"]["name"];
        let versions = crd["spec"]["versions"].as_array().unwrap().len();
        assert_eq!(named.contains(name), versions > 1, "{name}");
    }
}

#[test]
fn given_crds_that_convert_then_they_point_to_the_manager_in_its_namespace() {
    let sample = chart_with_samples();
    let objects = try_render(&sample.chart, &json!({"installation": {"namespace": "foo"}}), &[]).unwrap();
    assert_eq!(rendered(&objects), 3, "and that of questions");
    let twin = get(&objects, "CustomResourceDefinition", "twins.apps.kruise.io");
    let service = json!({"namespace": "foo", "name": "kruise-webhook-service", "port": 443, "path": "/convert"});
    let webhook = json!({"clientConfig": {"service": service}, "conversionReviewVersions": ["v1", "v1beta1"]});
    assert_eq!(
        twin["spec"]["conversion"],
        json!({"strategy": "Webhook", "webhook": webhook})
    );
    assert_eq!(twin["spec"]["maximum"], 2_147_483_647, "numbers stay whole");
    let plain = get(&objects, "CustomResourceDefinition", "plains.apps.kruise.io");
    assert_eq!(plain["spec"]["conversion"], json!({"strategy": "None"}));
}

#[test]
fn given_external_certificates_then_the_injector_finds_the_crds_that_convert() {
    let sample = chart_with_samples();
    let annotations = json!({"cert-manager.io/inject-ca-from": "ns/cert"});
    let values = |gates: &str| json!({"featureGates": gates, "externalCerts": {"annotations": annotations}});
    let with = try_render(&sample.chart, &values("EnableExternalCerts=true"), &[]).unwrap();
    let of = |objects: &[Value], name: &str| {
        get(objects, "CustomResourceDefinition", &format!("{name}.apps.kruise.io"))["metadata"]["annotations"].clone()
    };
    assert_eq!(of(&with, "twins"), annotations);
    assert_eq!(of(&with, "plains"), Value::Null);
    let without = try_render(&sample.chart, &values(""), &[]).unwrap();
    assert_eq!(of(&without, "twins"), Value::Null);
}
