//! Tables for names, creation, obstacles and owners.

mod expansion;

use std::collections::BTreeSet;

use kruise_api::gates::{Gate, Gates};
use kruise_api::merge_patch::merge;
use kruise_api::pod::Pod;
use kruise_api::statefulset::v1beta1::StatefulSet;
use kruise_api::storage::{PersistentVolumeClaim, StorageClass};
use serde_json::{Value, json};

use super::{Claims, Obstacle, sets_of};
use crate::plan::{Action, Write};
use crate::shared::fixture::{Fixture as _, running_pod};
use crate::shared::owner::Owner;

const SET: &str = "11111111-1111-4111-8111-111111111111";
const POD: &str = "22222222-2222-4222-8222-222222222222";

/// A set `web` with the templates `data` (2Gi) and `logs`; `spec` goes over it.
fn set(spec: &Value) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": SET},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {},
            "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data", "labels": {"app": "other", "tier": "db"}, "annotations": {"a": "b"}},
                    "spec": {
                        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "2Gi"}},
                    },
                },
                {"metadata": {"name": "logs"}, "spec": {"accessModes": ["ReadWriteOnce"]}},
            ],
        },
    });
    merge(&mut set["spec"], spec);
    serde_json::from_str(&set.to_string()).unwrap()
}

fn retention(scaled: &str, deleted: &str) -> Value {
    json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted}})
}

/// A bound claim `data-web-<ordinal>` with its 2Gi; `change` goes over it.
fn claim(name: &str, change: &Value) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "9"},
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}},
    });
    merge(&mut claim, change);
    serde_json::from_value(claim).unwrap()
}

fn sized(name: &str, requested: &str, capacity: &str) -> PersistentVolumeClaim {
    let spec = json!({"resources": {"requests": {"storage": requested}}});
    claim(
        name,
        &json!({"spec": spec, "status": {"capacity": {"storage": capacity}}}),
    )
}

fn owned(name: &str, owners: &Value) -> PersistentVolumeClaim {
    claim(name, &json!({"metadata": {"ownerReferences": owners}}))
}

fn set_reference(uid: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web", "uid": uid})
}

fn pod_reference(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": uid})
}

fn class(allows: Option<bool>) -> StorageClass {
    serde_json::from_value(json!({"metadata": {"name": "fast"}, "allowVolumeExpansion": allows})).unwrap()
}

fn pod() -> Pod {
    running_pod("web-0").set("/metadata/uid", json!(POD)).typed()
}

fn expanding() -> Gates {
    Gates::default().with(Gate::StatefulSetAutoResizePVCGate, true)
}

/// What `ask` says about a set and its claims.
fn with<T>(spec: &Value, claims: &[PersistentVolumeClaim], gates: Gates, ask: impl Fn(&Claims<'_>) -> T) -> T {
    with_class(spec, claims, Some(&class(Some(true))), gates, ask)
}

fn with_class<T>(
    spec: &Value,
    claims: &[PersistentVolumeClaim],
    class: Option<&StorageClass>,
    gates: Gates,
    ask: impl Fn(&Claims<'_>) -> T,
) -> T {
    let set = set(spec);
    let owner = Owner::of::<StatefulSet>(&set.metadata);
    ask(&Claims::of(&set, &owner, claims, class, gates))
}

fn body(write: &Write) -> Value {
    match &write.action {
        Action::Create { body, .. } => body.json(),
        Action::Patch { patch, .. } => patch.document().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn given_an_ordinal_then_the_claims_it_lacks_are_made_from_their_templates() {
    let made = |claims: &[PersistentVolumeClaim]| {
        with(&json!({}), claims, Gates::default(), |claims| {
            claims.create_missing(4, false)
        })
    };
    let writes = made(&[claim("data-web-3", &json!({}))]);
    let names: Vec<&str> = writes.iter().map(|write| &*write.action.object().name).collect();
    assert_eq!(names, ["data-web-4", "logs-web-4"], "in the order of the templates");
    let first = body(&writes[0]);
    assert_eq!(
        first["metadata"],
        json!({"name": "data-web-4", "namespace": "shop", "labels": {"app": "web", "tier": "db"}, "annotations": {"a": "b"}}),
        "the selector's labels go over the template's, and nobody owns what is retained"
    );
    assert_eq!(first["spec"]["resources"]["requests"]["storage"], "2Gi");
    assert_eq!(
        writes[0].succeeded[0].message,
        "create Claim data-web-4 Pod web-4 in StatefulSet web success"
    );
    let rest = made(&[claim(
        "data-web-4",
        &json!({"metadata": {"deletionTimestamp": "2024-05-01T10:00:00Z"}}),
    )]);
    assert_eq!(rest.len(), 1, "one that is being deleted still has the name");
}

#[test]
fn given_a_policy_then_a_new_claim_goes_with_the_set_from_the_start() {
    for (scaled, deleted, excess, owned) in [
        ("Retain", "Delete", false, true),
        ("Delete", "Delete", false, true),
        ("Delete", "Delete", true, false),
        ("Delete", "Retain", false, false),
        ("Retain", "Retain", false, false),
    ] {
        let made = with(&retention(scaled, deleted), &[], Gates::default(), |claims| {
            body(&claims.create_missing(0, excess)[0])["metadata"]["ownerReferences"].clone()
        });
        let expected = if owned {
            json!([set_reference(SET)])
        } else {
            Value::Null
        };
        assert_eq!(made, expected, "{scaled} {deleted} {excess}");
    }
    let off = Gates::default().with(Gate::StatefulSetAutoDeletePVC, false);
    let made = with(&retention("Retain", "Delete"), &[], off, |claims| {
        body(&claims.create_missing(0, false)[0])
    });
    assert_eq!(made["metadata"]["ownerReferences"], Value::Null);
}

#[test]
fn given_a_claim_that_is_about_to_go_then_no_pod_is_made_on_it() {
    let terminating = json!({"metadata": {"deletionTimestamp": "2024-05-01T10:00:00Z"}});
    let native = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "old"});
    let stale = || Some(Obstacle::Stale("data-web-0".to_owned()));
    for (what, claim, expected) in [
        ("there", claim("data-web-0", &json!({})), None),
        (
            "terminating",
            claim("data-web-0", &terminating),
            Some(Obstacle::Terminating("data-web-0".to_owned())),
        ),
        (
            "of the last Pod",
            owned("data-web-0", &json!([pod_reference("old")])),
            stale(),
        ),
        ("of this set", owned("data-web-0", &json!([set_reference(SET)])), None),
        (
            "of the last set",
            owned("data-web-0", &json!([set_reference("old")])),
            stale(),
        ),
        ("of another kind of set", owned("data-web-0", &json!([native])), None),
        ("of another ordinal", claim("data-web-1", &terminating), None),
    ] {
        let found = with(&json!({}), &[claim], Gates::default(), |claims| claims.obstacle(0));
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn given_a_retention_policy_then_claims_get_exactly_its_owners() {
    let (set_owns, pod_owns) = (set_reference(SET), pod_reference(POD));
    let owners = [vec![], vec![&set_owns], vec![&pod_owns], vec![&set_owns, &pod_owns]];
    for (scaled, deleted, excess, by_set, by_pod) in [
        ("Retain", "Retain", false, false, false),
        ("Retain", "Retain", true, false, false),
        ("Later", "Later", true, false, false),
        ("Retain", "Delete", false, true, false),
        ("Retain", "Delete", true, true, false),
        ("Delete", "Retain", false, false, false),
        ("Delete", "Retain", true, false, true),
        ("Delete", "Delete", false, true, false),
        ("Delete", "Delete", true, false, true),
    ] {
        for before in &owners {
            let claims = [owned("data-web-0", &json!(before))];
            let writes = with(&retention(scaled, deleted), &claims, Gates::default(), |claims| {
                claims.fix_owners(&pod(), 0, excess)
            });
            let mut after: BTreeSet<String> = before.iter().map(ToString::to_string).collect();
            for change in writes.iter().flat_map(|write| {
                let changes = body(write)["metadata"]["ownerReferences"].clone();
                changes.as_array().unwrap().clone()
            }) {
                if change["$patch"] == "delete" {
                    after.retain(|owner| !owner.contains(change["uid"].as_str().unwrap()));
                } else {
                    after.insert(change.to_string());
                }
            }
            let wanted = [(by_set, &set_owns), (by_pod, &pod_owns)];
            let wanted: BTreeSet<String> = wanted
                .iter()
                .filter(|(wants, _)| *wants)
                .map(|(_, owner)| owner.to_string())
                .collect();
            assert_eq!(after, wanted, "{scaled} {deleted} {excess} {before:?}");
            let is_right = before.iter().map(ToString::to_string).collect::<BTreeSet<_>>() == wanted;
            assert_eq!(writes.is_empty(), is_right, "what is right is not written again");
        }
    }
}

#[test]
fn given_claims_that_are_not_ours_to_change_then_their_owners_stay() {
    let mut controller =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "x", "uid": "other"});
    controller["controller"] = json!(true);
    let managed = owned("data-web-0", &json!([controller]));
    let going = json!({"metadata": {"deletionTimestamp": "2024-05-01T10:00:00Z"}});
    let spec = retention("Delete", "Delete");
    let fixed = |claim: &PersistentVolumeClaim, gates| {
        with(&spec, std::slice::from_ref(claim), gates, |claims| {
            claims.fix_owners(&pod(), 0, true).len()
        })
    };
    assert_eq!(fixed(&claim("data-web-0", &json!({})), Gates::default()), 1);
    assert_eq!(fixed(&managed, Gates::default()), 0);
    assert_eq!(fixed(&claim("data-web-0", &going), Gates::default()), 0);
    let off = Gates::default().with(Gate::StatefulSetAutoDeletePVC, false);
    assert_eq!(fixed(&claim("data-web-0", &json!({})), off), 0);
    let named = with(&spec, &[managed], Gates::default(), |claims| {
        claims.of_others([(0, &pod())])
    });
    assert_eq!(named.names, ["data-web-0"]);
}

#[test]
fn given_a_claim_that_changes_then_the_sets_that_may_wait_for_it_are_known() {
    let mut claim = owned("data-web-0", &json!([set_reference(SET), pod_reference(POD)]));
    assert_eq!(sets_of(&claim.metadata).collect::<Vec<_>>(), ["web", "web"]);
    let mut native = set_reference(SET);
    native["apiVersion"] = json!("apps/v1");
    claim = owned("data-web-0", &json!([native]));
    assert_eq!(sets_of(&claim.metadata).count(), 0);
    let annotations = json!({"apps.kruise.io/owned-by-asts": "db"});
    claim = self::claim("data-db-0", &json!({"metadata": {"annotations": annotations}}));
    assert_eq!(sets_of(&claim.metadata).collect::<Vec<_>>(), ["db"]);
}
