//! What a reader may see, and whether it still may.

use super::super::access::{Access, Refusal, Right};
use super::super::stream::Sight;
use super::Cluster;
use kruise_api::{
    cloneset::v1beta1::CloneSet, kind::Kind as _, nodeimage::CachedNodeImage, sidecarset::v1beta1::SidecarSet,
};
use std::{sync::Arc, time::Duration};

const SETS: Right = Right::list(CloneSet::RESOURCE);
const SIDECARS: Right = Right::list(SidecarSet::RESOURCE);
const NODES: Right = Right::list(CachedNodeImage::RESOURCE);

async fn sight(cluster: &Cluster, namespace: &str) -> Sight {
    let access = Arc::new(Access::fresh_for(Duration::ZERO, cluster.clone()));
    let ann = access.reader("ann").await.unwrap();
    Sight::new(access, ann, namespace.to_owned())
}

#[tokio::test]
async fn given_rights_then_each_kind_is_asked_about_by_itself_and_once() {
    let cluster = Cluster::new(&["ann"], &["ann clonesets shop", "ann sidecarsets *"]);
    let mut sight = sight(&cluster, "").await;
    for _ in 0..3 {
        assert!(sight.sees(SETS, "shop").await.unwrap());
        assert!(!sight.sees(SETS, "bank").await.unwrap());
        assert!(sight.sees(SIDECARS, "").await.unwrap());
        assert!(!sight.sees(NODES, "").await.unwrap());
    }
    // The token; sets everywhere, in shop and in bank; sidecars; nodes.
    assert_eq!(cluster.asked(), 6);
}

#[tokio::test]
async fn given_a_chosen_namespace_then_others_are_left_out_and_objects_of_the_cluster_are_not() {
    let cluster = Cluster::new(&["ann"], &["ann clonesets *", "ann sidecarsets *"]);
    let mut sight = sight(&cluster, "shop").await;
    assert!(sight.sees(SETS, "shop").await.unwrap());
    assert!(!sight.sees(SETS, "bank").await.unwrap());
    assert!(sight.sees(SIDECARS, "").await.unwrap());
}

#[tokio::test]
async fn given_very_many_namespaces_then_only_some_are_asked_about_and_it_is_told() {
    let cluster = Cluster::new(&["ann"], &["ann clonesets team-7"]);
    let mut sight = sight(&cluster, "").await;
    for number in 0..1_000 {
        let namespace = format!("team-{number}");
        assert_eq!(sight.sees(SETS, &namespace).await.unwrap(), number == 7);
    }
    assert!(sight.is_cut);
    assert!(cluster.asked() < 250, "{}", cluster.asked());
}

#[tokio::test]
async fn given_rights_or_a_token_that_change_then_what_was_decided_does_not_hold() {
    let cluster = Cluster::new(&["ann"], &["ann clonesets shop", "ann sidecarsets *"]);
    let mut sight = sight(&cluster, "").await;
    assert!(sight.sees(SETS, "shop").await.unwrap() && sight.sees(SIDECARS, "").await.unwrap());
    assert_eq!(sight.still_holds("ann").await, Ok(true));
    let change = |add: &[&str], take: &[&str]| {
        let mut rules = cluster.0.lock();
        rules.rights.extend(add.iter().map(|right| (*right).to_owned()));
        rules.rights.retain(|right| !take.contains(&right.as_str()));
    };
    for (right, is_there) in [
        ("ann sidecarsets *", true),
        ("ann clonesets shop", true),
        ("ann clonesets *", false),
    ] {
        if is_there {
            change(&[], &[right]);
        } else {
            change(&[right], &[]);
        }
        assert_eq!(sight.still_holds("ann").await, Ok(false), "{right}");
        if is_there {
            change(&[right], &[]);
        } else {
            change(&[], &[right]);
        }
        assert_eq!(sight.still_holds("ann").await, Ok(true), "{right}");
    }
    cluster.0.lock().tokens.clear();
    assert_eq!(sight.still_holds("ann").await, Err(Refusal::UnknownToken));
}
