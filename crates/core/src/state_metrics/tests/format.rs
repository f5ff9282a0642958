//! What holds for every kind.

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_api::statefulset::v1beta1::StatefulSet;
use serde_json::json;

use super::super::catalogue;
use super::{Options, page, page_of, samples, strict};

fn labelled() -> serde_json::Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2023-11-14T22:13:20Z", "generation": 3,
        "labels": {"app.kubernetes.io/name": "web", "a-b": "1", "a.b": "2"}, "annotations": {"owner": "the \"team\"\nof \\ shops"}}, "spec": {}})
}

#[test]
fn given_an_object_then_every_sample_begins_with_its_namespace_and_name() {
    let (text, _) = page_of::<CloneSet>(Options::default(), &[labelled()]);
    assert_eq!(
        samples(&text, "kruise_cloneset_created"),
        ["namespace=\"shop\",cloneset=\"web\"} 1700000000"]
    );
    assert_eq!(
        samples(&text, "kruise_cloneset_metadata_generation"),
        ["namespace=\"shop\",cloneset=\"web\"} 3"]
    );
    for (name, labels, _) in strict::check(&text) {
        let names: Vec<_> = labels.iter().take(2).map(|(label, _)| label.as_str()).collect();
        assert_eq!(names, ["namespace", "cloneset"], "{name}");
    }
}

#[test]
fn given_no_list_of_labels_then_there_is_a_sample_all_the_same_and_with_a_list_it_has_them() {
    let (text, _) = page_of::<CloneSet>(Options::default(), &[labelled()]);
    let plain = ["namespace=\"shop\",cloneset=\"web\"} 1"];
    assert_eq!(samples(&text, "kruise_cloneset_labels"), plain);
    assert_eq!(samples(&text, "kruise_cloneset_annotations"), plain);
    let allowed = Options::default()
        .allow_labels("clonesets=[app.kubernetes.io/name,absent]")
        .expect("options")
        .allow_annotations("clonesets=[owner],statefulsets=[*]")
        .expect("options");
    let (text, _) = page_of::<CloneSet>(allowed, &[labelled()]);
    assert_eq!(
        samples(&text, "kruise_cloneset_labels"),
        ["namespace=\"shop\",cloneset=\"web\",label_app_kubernetes_io_name=\"web\"} 1"]
    );
    let annotated = strict::check(&text);
    let annotated = annotated
        .iter()
        .find(|(name, ..)| name == "kruise_cloneset_annotations");
    let annotation = &annotated.expect("a sample").1[2];
    assert_eq!(
        *annotation,
        ("annotation_owner".to_owned(), "the \"team\"\nof \\ shops".to_owned())
    );
}

#[test]
fn given_labels_that_become_the_same_name_then_both_are_numbered() {
    let all = Options::default().allow_labels("clonesets=[*]").expect("options");
    let (text, _) = page_of::<CloneSet>(all, &[labelled()]);
    strict::check(&text);
    let sample = samples(&text, "kruise_cloneset_labels")[0];
    assert!(
        sample.contains("label_a_b_conflict1=\"1\"") && sample.contains("label_a_b_conflict2=\"2\""),
        "{sample}"
    );
}

#[test]
fn given_a_denied_family_then_its_header_is_gone_as_well() {
    let options = Options::default().families("", "_annotations$").expect("options");
    let (text, _) = page_of::<CloneSet>(options, &[labelled()]);
    assert!(
        !text.contains("_annotations") && text.contains("# TYPE kruise_cloneset_labels gauge"),
        "{text}"
    );
}

#[test]
fn given_no_objects_then_every_family_is_announced() {
    let (text, _) = page_of::<StatefulSet>(Options::default(), &[]);
    assert_eq!(strict::check(&text), []);
    let announced = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    let known = catalogue().into_iter().find(|kind| kind.plural == "statefulsets");
    assert_eq!(announced, known.expect("a kind").families.len());
}

#[test]
fn given_a_value_that_cannot_be_read_then_its_family_lacks_the_object_and_that_is_reported() {
    let set = json!({"metadata": {"name": "odd", "namespace": "shop"},
        "spec": {"replicas": 5, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "many", "maxSurge": "10"}}}});
    let (text, unreadable) = page_of::<CloneSet>(Options::default(), &[set, labelled()]);
    strict::check(&text);
    let family = "kruise_cloneset_spec_strategy_rollingupdate_max_unavailable";
    assert_eq!(samples(&text, family), ["namespace=\"shop\",cloneset=\"web\"} 0"]);
    let reported: Vec<_> = unreadable
        .iter()
        .map(|value| (value.family.as_str(), value.name.as_str()))
        .collect();
    assert_eq!(reported, [(family, "odd")]);
    let surge = samples(&text, "kruise_cloneset_spec_strategy_rollingupdate_max_surge");
    assert_eq!(
        surge[0], "namespace=\"shop\",cloneset=\"odd\"} 1",
        "text without % is a share"
    );
}

#[test]
fn given_an_object_that_says_something_twice_then_the_page_stays_strict_and_the_first_counts() {
    let containers = json!([
        {"name": "log", "podInjectPolicy": "AfterAppContainer"},
        {"name": "log", "podInjectPolicy": "AfterAppContainer"},
        {"name": "net", "podInjectPolicy": "AfterAppContainer"},
    ]);
    let text = page::<SidecarSet>(json!({ "containers": containers }), json!({}));
    assert_eq!(
        samples(&text, "kruise_sidecarset_spec_containers_injectpolicy").len(),
        2
    );
    let conditions =
        json!([{"type": "A", "status": "True"}, {"type": "A", "status": "False"}, {"type": "B", "status": "False"}]);
    let text = page::<StatefulSet>(json!({}), json!({ "conditions": conditions }));
    let found = samples(&text, "kruise_statefulset_status_condition");
    assert_eq!(found.len(), 6);
    assert!(found[0].ends_with("condition=\"A\",status=\"true\"} 1"), "{found:?}");
}

#[test]
fn given_the_catalogue_then_kinds_are_sorted_and_no_name_is_there_twice() {
    let kinds = catalogue();
    assert!(kinds.is_sorted_by_key(|kind| kind.plural));
    assert_eq!(kinds.len(), kruise_api::registry::KINDS.len());
    let mut names: Vec<_> = kinds
        .iter()
        .flat_map(|kind| &kind.families)
        .map(|family| &family.name)
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
