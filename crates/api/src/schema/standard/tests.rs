use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::*;
use crate::schema::root;

/// Fields, types, formats and what is required; nothing else.
fn structure(schema: &Value, definitions: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        return structure(&definitions[name.trim_start_matches("#/$defs/")], definitions);
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return json!("int-or-string");
    }
    let inner = |schema: &Value| structure(schema, definitions);
    let mut required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    required.sort_unstable();
    match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => {
            json!({ "{}": inner(&schema["additionalProperties"]) })
        }
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.filter(|(name, _)| !is_newer(schema, name));
            let fields: Map<String, Value> = fields.map(|(name, field)| (name.clone(), inner(field))).collect();
            json!({ "fields": fields, "required": required })
        }
        Some("array") => json!([inner(&schema["items"])]),
        _ => json!([schema["type"], schema["format"]]),
    }
}

/// Fields that Kubernetes got after the contract was written.
fn is_newer(schema: &Value, name: &str) -> bool {
    let has = |field: &str| schema["properties"].get(field).is_some();
    match name {
        "protocol" => has("httpHeaders"),
        "mode" => has("service"),
        _ => false,
    }
}

#[test]
fn the_structures_are_those_of_kubernetes() {
    let kubernetes = [
        ("Condition(metav1)", root::<meta::Condition>()),
        ("ContainerPort", root::<core::ContainerPort>()),
        ("ExecAction", root::<core::ExecAction>()),
        ("HTTPGetAction", root::<core::HTTPGetAction>()),
        ("LabelSelector", root::<meta::LabelSelector>()),
        ("LabelSelectorRequirement", root::<meta::LabelSelectorRequirement>()),
        ("NodeSelectorTerm", root::<core::NodeSelectorTerm>()),
        ("ObjectFieldSelector", root::<core::ObjectFieldSelector>()),
        ("ObjectReference", root::<core::ObjectReference>()),
        ("Probe", root::<core::Probe>()),
        ("TCPSocketAction", root::<core::TCPSocketAction>()),
        ("Toleration", root::<core::Toleration>()),
    ];
    assert_eq!(kubernetes.len(), STANDARD.len());
    for ((name, theirs), ours) in kubernetes.into_iter().zip(STANDARD) {
        assert_eq!(name, ours.name);
        let theirs = theirs.to_value();
        assert_eq!(
            structure(&(ours.schema)(), &Value::Null),
            structure(&theirs, &theirs["$defs"]),
            "{name}"
        );
    }
}

#[test]
fn given_a_structure_that_differs_in_anything_then_it_is_not_shown_by_name() {
    assert_eq!(name_of(&label_selector()), Some("LabelSelector"));
    let mut other_text = label_selector();
    other_text["properties"]["matchLabels"]["description"] = json!("Something else.");
    assert_eq!(name_of(&other_text), Some("LabelSelector"));
    let mut no_marker = label_selector();
    no_marker["properties"]["matchExpressions"]
        .as_object_mut()
        .unwrap()
        .remove("x-kubernetes-list-type");
    assert_eq!(name_of(&no_marker), None);
    let mut one_more = label_selector();
    one_more["properties"]["description"] = json!({ "type": "string" });
    assert_eq!(name_of(&one_more), None);
    let mut no_default = container_port();
    no_default["properties"]["protocol"]
        .as_object_mut()
        .unwrap()
        .remove("default");
    assert_eq!(name_of(&no_default), None);
}
