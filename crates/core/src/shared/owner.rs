//! Who owns what: the entries of `ownerReferences`, and the writes that change them.
//!
//! An object has at most one owner that manages it, its *controller*. A workload is the controller of its Pods, revisions and jobs. Its claims are its own,
//! or go from it to a Pod and back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::kind::Kind;
use kruise_api::meta::{Meta, Uid};
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Resource};
use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::{Action, Target};

/// Who owns what is made, as controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl Owner {
    /// An object of kind `K` as owner.
    pub fn of<K: Kind>(meta: &ObjectMeta) -> Self {
        Self {
            api_version: K::API_VERSION.to_owned(),
            kind: K::KIND.to_owned(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// A Pod as owner.
    pub fn of_pod(pod: &Pod) -> Self {
        Self {
            api_version: Pod::API_VERSION.to_owned(),
            kind: Pod::KIND.to_owned(),
            name: pod.metadata.name.to_string(),
            uid: pod.metadata.uid.to_string(),
        }
    }

    /// As an entry of `ownerReferences` that only says with whom the object goes, and not who manages it.
    pub fn plain_reference(&self) -> Value {
        let Self {
            api_version,
            kind,
            name,
            uid,
        } = self;
        json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid })
    }

    /// As an entry of `ownerReferences`.
    pub fn reference(&self) -> Value {
        let Self {
            api_version,
            kind,
            name,
            uid,
        } = self;
        json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// True when this object manages the other one.
pub fn is_controlled_by(object: &Meta, owner: &Uid) -> bool {
    object.controller().is_some_and(|controller| controller.uid == *owner)
}

/// Makes an object a new owner's instead of another's; it has to be as it was seen.
pub fn transfer(kind: &'static Resource, object: &Meta, from: &Uid, to: &Owner) -> Action {
    change_owners(kind, object, &json!([without(from), to.reference()]))
}

/// Makes an object an owner's that was nobody's; it has to be as it was seen.
pub fn adopt(kind: &'static Resource, object: &Meta, owner: &Owner) -> Action {
    change_owners(kind, object, &json!([owner.reference()]))
}

/// Takes an owner off an object; it has to be as it was seen.
pub fn release(kind: &'static Resource, object: &Meta, owner: &Uid) -> Action {
    change_owners(kind, object, &json!([without(owner)]))
}

/// Takes owners off an object, and puts others on it with which it goes; it has to be as it was seen.
pub fn change_plain_owners(kind: &'static Resource, object: &Meta, remove: &[&Uid], add: &[&Owner]) -> Action {
    let removed = remove.iter().map(|uid| without(uid));
    let added = add.iter().map(|owner| owner.plain_reference());
    change_owners(kind, object, &json!(removed.chain(added).collect::<Vec<_>>()))
}

fn change_owners(kind: &'static Resource, object: &Meta, owners: &Value) -> Action {
    let patch = json!({ "metadata": { "ownerReferences": owners } });
    Action::patch(
        Target::of_kind(kind, object),
        None,
        patch,
        Preconditions::unchanged(object),
    )
}

fn without(owner: &Uid) -> Value {
    json!({ "$patch": "delete", "uid": owner.to_string() })
}
