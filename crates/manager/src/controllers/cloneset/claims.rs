//! The claims of CloneSets, and names that wait for a Pod with their claims.

use crate::platform::{HEADS_BY_OWNER, Platform};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    kind::Kind as _,
    meta::PartialObject,
    names::{label, pattern},
    pod::Pod,
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use std::{collections::BTreeSet, sync::Arc};

/// Claims that a set owns.
pub(super) fn store(platform: &mut Platform) -> Store<PartialObject> {
    platform.metadata_store(PersistentVolumeClaim::RESOURCE)
}

/// Returns claims of a set's Pods that belong to the Pod and not to the set, whose claims are `own`.
pub(super) fn of_pods(
    claims: &Store<PartialObject>,
    set: &CloneSet,
    uid: &str,
    pods: &[Arc<Pod>],
    own: &[Arc<PartialObject>],
) -> Vec<Arc<PartialObject>> {
    if set.spec.volume_claim_templates.is_empty() && own.is_empty() {
        return Vec::new();
    }
    let of_pod = |pod: &Arc<Pod>| claims.by(&HEADS_BY_OWNER, &pod.metadata.uid.to_string());
    let is_sets = |claim: &Arc<PartialObject>| HEADS_BY_OWNER.matches(claim, uid);
    pods.iter().flat_map(of_pod).filter(|claim| !is_sets(claim)).collect()
}

/// Returns names of Pods that would come back with their claims, if it were not for another Pod of that name.
pub(super) fn names_taken(
    all_pods: &Store<Pod>,
    set: &CloneSet,
    key: &ObjectKey,
    pods: &[Arc<Pod>],
    own: &[Arc<PartialObject>],
) -> BTreeSet<String> {
    if !set.spec.scale_strategy.enable_pvc_reuse {
        return BTreeSet::new();
    }
    let own_pods: BTreeSet<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    let ids = own
        .iter()
        .filter_map(|claim| claim.metadata.label(label::POD_INSTANCE_ID));
    let names = ids.map(|id| pattern::clone_set_pod(&key.name, id));
    let taken = |name: &String| !own_pods.contains(&**name) && all_pods.contains(&key.namespace, name);
    names.filter(taken).collect()
}
