//! Tokens and rights, asked for and remembered.

use super::super::access::{Access, Refusal, Right};
use super::Cluster;
use kruise_api::{cloneset::v1beta1::CloneSet, kind::Kind as _};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);
const SETS: Right = Right::list(CloneSet::RESOURCE);

#[tokio::test]
async fn given_a_token_then_the_cluster_is_asked_once_whose_it_is_and_also_of_one_that_is_none() {
    let cluster = Cluster::new(&["ann"], &[]);
    let access = Access::fresh_for(HOUR, cluster.clone());
    for _ in 0..3 {
        assert_eq!(access.reader("ann").await.unwrap().name(), "ann");
        assert_eq!(access.reader("nobody").await.unwrap_err(), Refusal::UnknownToken);
    }
    assert_eq!(cluster.asked(), 2);
    assert_eq!(access.reader("").await.unwrap_err(), Refusal::NoToken);
    let long = "x".repeat(20_000);
    assert_eq!(access.reader(&long).await.unwrap_err(), Refusal::UnknownToken);
    assert_eq!(cluster.asked(), 2);
}

#[tokio::test]
async fn given_a_right_then_it_counts_for_its_namespace_and_only_for_a_while() {
    let cluster = Cluster::new(&["ann"], &["ann clonesets shop"]);
    let access = Access::fresh_for(HOUR, cluster.clone());
    let ann = access.reader("ann").await.unwrap();
    for _ in 0..3 {
        assert!(access.allows(&ann, SETS, "shop").await.unwrap());
        assert!(!access.allows(&ann, SETS, "bank").await.unwrap());
        assert!(!access.allows(&ann, SETS, "").await.unwrap());
    }
    assert_eq!(cluster.asked(), 4);
    let short = Access::fresh_for(Duration::ZERO, cluster.clone());
    let ann = short.reader("ann").await.unwrap();
    assert!(short.allows(&ann, SETS, "shop").await.unwrap());
    cluster.0.lock().rights.clear();
    assert!(!short.allows(&ann, SETS, "shop").await.unwrap());
    cluster.0.lock().tokens.clear();
    assert_eq!(short.reader("ann").await.unwrap_err(), Refusal::UnknownToken);
}

#[tokio::test]
async fn given_an_api_server_that_does_not_answer_then_nothing_is_shown_and_nothing_is_remembered() {
    let cluster = Cluster::new(&["ann"], &["ann clonesets *"]);
    let access = Access::fresh_for(HOUR, cluster.clone());
    cluster.0.lock().is_away = true;
    assert_eq!(access.reader("ann").await.unwrap_err(), Refusal::NoAnswer);
    cluster.0.lock().is_away = false;
    let ann = access.reader("ann").await.unwrap();
    cluster.0.lock().is_away = true;
    assert_eq!(access.allows(&ann, SETS, "shop").await, Err(Refusal::NoAnswer));
    cluster.0.lock().is_away = false;
    assert_eq!(access.allows(&ann, SETS, "shop").await, Ok(true));
}

#[tokio::test]
async fn given_very_many_tokens_then_only_some_are_remembered() {
    let cluster = Cluster::new(&[], &[]);
    let access = Access::fresh_for(HOUR, cluster.clone());
    for number in 0..2_000 {
        let _ = access.reader(&number.to_string()).await;
    }
    let before = cluster.asked();
    let _ = access.reader("1999").await;
    assert_eq!(cluster.asked(), before, "the last one is remembered");
    let _ = access.reader("0").await;
    assert_eq!(cluster.asked(), before + 1, "the first one is not");
}
