//! Objects for tests, said in a few words.
//!
//! ```
//! use kruise_testkit::builders::*;
//!
//! let web = cloneset("web").replicas(3).image("nginx:1.25").json();
//! let pod = pod("web-a").image("nginx:1.25").ready().at_revision("web-5f6").owned_by(&web).build();
//! assert_eq!(pod.metadata.name.as_deref(), Some("web-a"));
//! ```
//!
//! A builder holds JSON, so that a test can set what no method covers with [`Fixture::set`]. Kinds of Kubernetes are built as their k8s-openapi
//! types, kinds of ours as JSON: a test that drives an API server shall say the API's own words, not the product's types.

mod pod;
mod workload;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::pod::{PodBuilder, pod};
pub use self::workload::{Workload, cloneset, daemonset, deployment, statefulset};

/// What all builders can do.
pub trait Fixture: Sized {
    /// The object as far as it is described.
    fn object(&mut self) -> &mut Value;

    /// Sets the field at a JSON pointer (`/spec/paused`), making objects on the way.
    #[must_use]
    fn set(mut self, pointer: &str, value: impl Serialize) -> Self {
        put(self.object(), pointer, json!(value));
        self
    }

    #[must_use]
    fn label(self, key: &str, value: &str) -> Self {
        self.set(&format!("/metadata/labels/{}", escaped(key)), value)
    }

    #[must_use]
    fn annotation(self, key: &str, value: &str) -> Self {
        self.set(&format!("/metadata/annotations/{}", escaped(key)), value)
    }

    /// An annotation for the simulated kubelet, see [`crate::sim`]. On a workload it goes to the Pods of its template by [`Workload::pod`].
    #[must_use]
    fn script(self, key: &str, value: &str) -> Self {
        self.annotation(&format!("sim.kruise.test/{key}"), value)
    }

    #[must_use]
    fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", namespace)
    }

    #[must_use]
    fn uid(self, uid: &str) -> Self {
        self.set("/metadata/uid", uid)
    }

    #[must_use]
    fn finalizer(mut self, finalizer: &str) -> Self {
        append(self.object(), "/metadata/finalizers", json!(finalizer));
        self
    }

    /// Makes `owner`, typed or JSON, the controller of this object. An owner without uid gets one made from its name.
    #[must_use]
    fn owned_by(mut self, owner: &impl Serialize) -> Self {
        let owner = json!(owner);
        let name = owner["metadata"]["name"].clone();
        let uid = match &owner["metadata"]["uid"] {
            Value::Null => json!(format!("uid-of-{}", name.as_str().unwrap_or_default())),
            uid => uid.clone(),
        };
        let reference = json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        append(self.object(), "/metadata/ownerReferences", reference);
        self
    }

    fn json(mut self) -> Value {
        self.object().take()
    }

    /// The object as `T`. Panics when a test has put something into it that is not of that type.
    fn typed<T: DeserializeOwned>(self) -> T {
        let value = self.json();
        serde_json::from_value(value.clone())
            .unwrap_or_else(|error| panic!("a builder made something else ({error}): {value:#}"))
    }
}

macro_rules! builder {
    ($(#[$doc:meta])* $name:ident => $kind:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a builder does nothing until it is built"]
        pub struct $name(Value);

        impl Fixture for $name {
            fn object(&mut self) -> &mut Value {
                &mut self.0
            }
        }

        impl $name {
            pub fn build(self) -> $kind {
                self.typed()
            }
        }
    };
}

builder!(NamespaceBuilder => Namespace);
builder!(ConfigMapBuilder => ConfigMap);
builder!(
    /// A Node object, for tests without an API server. In a cluster, nodes come from [`crate::sim`].
    NodeBuilder => Node
);

pub fn namespace(name: &str) -> NamespaceBuilder {
    NamespaceBuilder(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
}

pub fn config_map(name: &str) -> ConfigMapBuilder {
    ConfigMapBuilder(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } }))
}

impl ConfigMapBuilder {
    pub fn data(self, key: &str, value: &str) -> Self {
        self.set(&format!("/data/{}", escaped(key)), value)
    }
}

/// A schedulable node that is not ready yet.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" } },
    }))
}

impl NodeBuilder {
    pub fn ready(mut self) -> Self {
        append(
            self.object(),
            "/status/conditions",
            json!({ "type": "Ready", "status": "True" }),
        );
        self
    }

    pub fn unschedulable(self) -> Self {
        self.set("/spec/unschedulable", true)
    }

    pub fn taint(mut self, key: &str, effect: &str) -> Self {
        append(self.object(), "/spec/taints", json!({ "key": key, "effect": effect }));
        self
    }
}

/// A key as one step of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn put(object: &mut Value, pointer: &str, value: Value) {
    *place(object, pointer) = value;
}

fn append(object: &mut Value, pointer: &str, value: Value) {
    let list = place(object, pointer);
    match list {
        Value::Array(items) => items.push(value),
        other => *other = json!([value]),
    }
}

/// The value a JSON pointer names; objects that are missing on the way are made. List items are named by number and must exist.
fn place<'a>(object: &'a mut Value, pointer: &str) -> &'a mut Value {
    pointer.split('/').skip(1).fold(object, |at, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        if let Value::Array(_) = at {
            let index: usize = step
                .parse()
                .unwrap_or_else(|_| panic!("{pointer}: {step:?} is not a place in a list"));
            return &mut at[index];
        }
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        &mut at[step]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_may_be_typed_or_json() {
        let by_json = pod("a").owned_by(&cloneset("web").uid("u1").json()).build();
        let by_type = pod("a").owned_by(&deployment("web").uid("u1").build()).build();
        let references = [by_json, by_type].map(|pod| pod.metadata.owner_references.unwrap().remove(0));
        assert_eq!(
            references.each_ref().map(|r| r.kind.as_str()),
            ["CloneSet", "Deployment"]
        );
        assert_eq!(
            references.each_ref().map(|r| r.api_version.as_str()),
            ["apps.kruise.io/v1beta1", "apps/v1"]
        );
        assert!(references.iter().all(|r| r.uid == "u1" && r.controller == Some(true)));
    }

    #[test]
    fn any_field_can_be_set() {
        let value = config_map("c").data("a/b~c", "1").set("/immutable", true).json();
        assert_eq!(value["data"]["a/b~c"], "1");
        assert_eq!(value["immutable"], true);
        let node = node("n").ready().taint("k", "NoSchedule").unschedulable().build();
        assert_eq!(node.spec.unwrap().taints.unwrap()[0].key, "k");
    }
}
