//! Kubernetes' own structures inside our kinds, with the server-side-apply markers and defaults that a CRD has to spell out.
//!
//! A kind's struct just uses the k8s-openapi type; the generator puts the schema of this table in its place. The names are
//! those of the field trees. A test compares the fields with k8s-openapi's.

use serde_json::{Map, Value, json};

/// A structure that field trees show by its name.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    /// Name in a field tree.
    pub name: &'static str,
    /// Name of the definition that schemars refers to.
    pub reference: &'static str,
    /// Its structural schema.
    pub schema: fn() -> Value,
}

/// Every structure that field trees show by its name.
pub const STANDARD: &[Standard] = &[
    Standard {
        name: "Condition(metav1)",
        reference: "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
        schema: condition,
    },
    Standard {
        name: "ContainerPort",
        reference: "io.k8s.api.core.v1.ContainerPort",
        schema: container_port,
    },
    Standard {
        name: "ExecAction",
        reference: "io.k8s.api.core.v1.ExecAction",
        schema: exec_action,
    },
    Standard {
        name: "HTTPGetAction",
        reference: "io.k8s.api.core.v1.HTTPGetAction",
        schema: http_get_action,
    },
    Standard {
        name: "LabelSelector",
        reference: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
        schema: label_selector,
    },
    Standard {
        name: "LabelSelectorRequirement",
        reference: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
        schema: label_selector_requirement,
    },
    Standard {
        name: "NodeSelectorTerm",
        reference: "io.k8s.api.core.v1.NodeSelectorTerm",
        schema: node_selector_term,
    },
    Standard {
        name: "ObjectFieldSelector",
        reference: "io.k8s.api.core.v1.ObjectFieldSelector",
        schema: field_selector,
    },
    Standard {
        name: "ObjectReference",
        reference: "io.k8s.api.core.v1.ObjectReference",
        schema: object_reference,
    },
    Standard {
        name: "Probe",
        reference: "io.k8s.api.core.v1.Probe",
        schema: probe,
    },
    Standard {
        name: "TCPSocketAction",
        reference: "io.k8s.api.core.v1.TCPSocketAction",
        schema: tcp_socket_action,
    },
    Standard {
        name: "Toleration",
        reference: "io.k8s.api.core.v1.Toleration",
        schema: toleration,
    },
];

/// The schema for a definition of k8s-openapi.
pub(super) fn by_reference(name: &str) -> Option<Value> {
    match name {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Some(json!({ "type": "string", "format": "date-time" })),
        // The API server knows metadata by itself.
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => Some(json!({ "type": "object" })),
        "io.k8s.api.core.v1.LocalObjectReference" => Some(local_object_reference()),
        _ => STANDARD
            .iter()
            .find(|standard| standard.reference == name)
            .map(|standard| (standard.schema)()),
    }
}

/// The name under which field trees show a schema, when its structure is a standard one.
pub(super) fn name_of(schema: &Value) -> Option<&'static str> {
    let mut bare = schema.clone();
    bare_structure(&mut bare);
    STANDARD
        .iter()
        .find(|standard| {
            let mut known = (standard.schema)();
            bare_structure(&mut known);
            known == bare
        })
        .map(|standard| standard.name)
}

/// Drops what does not belong to a structure: texts anywhere, and the marker that a tree shows on the line itself.
fn bare_structure(schema: &mut Value) {
    drop_descriptions(schema);
    if let Value::Object(map) = schema {
        map.remove("x-kubernetes-map-type");
        map.remove("default");
    }
}

fn drop_descriptions(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove("description");
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(drop_descriptions),
            ("items" | "additionalProperties", value) => drop_descriptions(value),
            _ => {}
        }
    }
}

fn object(description: &str, required: &[&str], fields: &[(&str, Value)]) -> Value {
    let fields: Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    let mut schema = json!({ "type": "object", "description": description, "properties": fields });
    if let (false, Some(map)) = (required.is_empty(), schema.as_object_mut()) {
        map.insert("required".to_owned(), json!(required));
    }
    schema
}

/// Adds keywords to a schema.
fn with(mut schema: Value, more: Value) -> Value {
    if let (Some(map), Value::Object(more)) = (schema.as_object_mut(), more) {
        map.extend(more);
    }
    schema
}

fn atomic(schema: Value) -> Value {
    with(schema, json!({ "x-kubernetes-map-type": "atomic" }))
}

fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn integer(format: &str, description: &str) -> Value {
    json!({ "type": "integer", "format": format, "description": description })
}

fn atomic_list(description: &str, items: &Value) -> Value {
    json!({ "type": "array", "description": description, "items": items, "x-kubernetes-list-type": "atomic" })
}

fn int_or_string(description: &str) -> Value {
    with(super::int_or_string().to_value(), json!({ "description": description }))
}

fn strings(description: &str) -> Value {
    atomic_list(description, &json!({ "type": "string" }))
}

fn condition() -> Value {
    object(
        "One aspect of the object's state.",
        &["lastTransitionTime", "message", "reason", "status", "type"],
        &[
            (
                "lastTransitionTime",
                with(
                    string("When the status last changed."),
                    json!({ "format": "date-time" }),
                ),
            ),
            (
                "message",
                with(
                    string("Details for people; may be empty."),
                    json!({ "maxLength": 32768 }),
                ),
            ),
            (
                "observedGeneration",
                with(
                    integer("int64", "Generation of the object that the condition is about."),
                    json!({ "minimum": 0 }),
                ),
            ),
            (
                "reason",
                with(
                    string("Why the status is what it is, in one word."),
                    json!({ "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" }),
                ),
            ),
            (
                "status",
                with(
                    string("True, False or Unknown."),
                    json!({ "enum": ["True", "False", "Unknown"] }),
                ),
            ),
            (
                "type",
                with(
                    string("What the condition is about."),
                    json!({
                        "maxLength": 316,
                        "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    }),
                ),
            ),
        ],
    )
}

fn container_port() -> Value {
    object(
        "A port of a container.",
        &["containerPort"],
        &[
            ("containerPort", integer("int32", "Port on the Pod's address.")),
            ("hostIP", string("Address of the node to bind to.")),
            ("hostPort", integer("int32", "Port on the node.")),
            ("name", string("Name of the port, unique in the Pod.")),
            (
                "protocol",
                with(string("TCP, UDP or SCTP."), json!({ "default": "TCP" })),
            ),
        ],
    )
}

fn exec_action() -> Value {
    object(
        "A command to run in the container.",
        &[],
        &[("command", strings("Command and arguments; no shell."))],
    )
}

fn http_get_action() -> Value {
    let header = object(
        "A header of the request.",
        &["name", "value"],
        &[
            ("name", string("Name of the header.")),
            ("value", string("Value of the header.")),
        ],
    );
    object(
        "An HTTP request to make.",
        &["port"],
        &[
            ("host", string("Host to connect to; the Pod's address when not given.")),
            ("httpHeaders", atomic_list("Headers of the request.", &header)),
            ("path", string("Path of the request.")),
            ("port", int_or_string("Number or name of the port.")),
            ("scheme", string("HTTP or HTTPS.")),
        ],
    )
}

fn tcp_socket_action() -> Value {
    object(
        "A TCP connection to open.",
        &["port"],
        &[
            ("host", string("Host to connect to; the Pod's address when not given.")),
            ("port", int_or_string("Number or name of the port.")),
        ],
    )
}

fn requirement(what: &str, operators: &str) -> Value {
    object(
        &format!("A requirement on a {what}."),
        &["key", "operator"],
        &[
            ("key", string(&format!("The {what}."))),
            ("operator", string(operators)),
            (
                "values",
                strings("Values to compare with; none for Exists and DoesNotExist."),
            ),
        ],
    )
}

fn label_selector_requirement() -> Value {
    requirement("label", "In, NotIn, Exists or DoesNotExist.")
}

fn label_selector() -> Value {
    atomic(object(
        "Selects objects by their labels; all requirements have to hold.",
        &[],
        &[
            (
                "matchExpressions",
                atomic_list("Requirements on labels.", &label_selector_requirement()),
            ),
            (
                "matchLabels",
                json!({
                    "type": "object",
                    "description": "Labels and the values they must have.",
                    "additionalProperties": { "type": "string" },
                }),
            ),
        ],
    ))
}

fn node_selector_term() -> Value {
    let operators = "In, NotIn, Exists, DoesNotExist, Gt or Lt.";
    atomic(object(
        "Selects nodes; all requirements have to hold.",
        &[],
        &[
            (
                "matchExpressions",
                atomic_list("Requirements on labels.", &requirement("label of the node", operators)),
            ),
            (
                "matchFields",
                atomic_list("Requirements on fields.", &requirement("field of the node", operators)),
            ),
        ],
    ))
}

fn field_selector() -> Value {
    atomic(object(
        "A field of the Pod.",
        &["fieldPath"],
        &[
            (
                "apiVersion",
                string("Version in which the path is written; v1 when not given."),
            ),
            ("fieldPath", string("Path of the field.")),
        ],
    ))
}

fn object_reference() -> Value {
    atomic(object(
        "Points to an object.",
        &[],
        &[
            ("apiVersion", string("Group and version of the object.")),
            ("fieldPath", string("Part of the object that is meant.")),
            ("kind", string("Kind of the object.")),
            ("name", string("Name of the object.")),
            ("namespace", string("Namespace of the object.")),
            ("resourceVersion", string("Version of the object that was seen.")),
            ("uid", string("UID of the object.")),
        ],
    ))
}

fn local_object_reference() -> Value {
    let name = with(string("Name of the object."), json!({ "default": "" }));
    atomic(object(
        "Points to an object in the same namespace.",
        &[],
        &[("name", name)],
    ))
}

fn probe() -> Value {
    let grpc = object(
        "A gRPC health check to make.",
        &["port"],
        &[
            ("port", integer("int32", "Number of the port.")),
            ("service", with(string("Service to ask for."), json!({ "default": "" }))),
        ],
    );
    object(
        "A check of a container's health.",
        &[],
        &[
            ("exec", exec_action()),
            (
                "failureThreshold",
                integer("int32", "Failures in a row after which the check counts as failed."),
            ),
            ("grpc", grpc),
            ("httpGet", http_get_action()),
            (
                "initialDelaySeconds",
                integer("int32", "Seconds from the container's start to the first check."),
            ),
            ("periodSeconds", integer("int32", "Seconds between checks.")),
            (
                "successThreshold",
                integer("int32", "Successes in a row after which the check counts as passed."),
            ),
            ("tcpSocket", tcp_socket_action()),
            (
                "terminationGracePeriodSeconds",
                integer("int64", "Seconds a Pod may take to end after a failed check."),
            ),
            (
                "timeoutSeconds",
                integer("int32", "Seconds after which a check has failed."),
            ),
        ],
    )
}

fn toleration() -> Value {
    object(
        "Lets a Pod run on nodes with a matching taint.",
        &[],
        &[
            ("effect", string("Effect of the taint; all effects when empty.")),
            ("key", string("Key of the taint; all keys when empty.")),
            ("operator", string("Exists or Equal.")),
            (
                "tolerationSeconds",
                integer(
                    "int64",
                    "Seconds a NoExecute taint is tolerated; for ever when not given.",
                ),
            ),
            ("value", string("Value of the taint.")),
        ],
    )
}

#[cfg(test)]
mod tests {
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
}
