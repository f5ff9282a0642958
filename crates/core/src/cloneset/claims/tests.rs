use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixtures::{Fixture as _, claim, env, from_parts, pod, revision, set, template};
use super::super::plan;
use super::super::world::World;
use crate::plan::harness::name_of;
use crate::plan::{Action, Outcome, Plan};

/// A set of one Pod, with these claims; what the plan does about claims.
fn about_claims(reuse: bool, pods: &[super::super::fixtures::PodBuilder], claims: &[serde_json::Value]) -> Plan {
    let mut set = set(&json!({ "replicas": 1, "scaleStrategy": { "enablePVCReuse": reuse } }));
    set["status"] = json!({ "currentRevision": "web-old", "updateRevision": "web-old" });
    let observed = from_parts(&set, pods, claims, &[revision("web-old", 1, &template("nginx:1"))]);
    plan(&observed, &env())
}

fn writes(plan: &Plan) -> Vec<String> {
    let claims = plan
        .writes()
        .filter(|action| action.object().resource == PersistentVolumeClaim::RESOURCE);
    claims
        .map(|action| match action {
            Action::Delete { object, .. } => format!("delete {}", object.name),
            Action::Patch { object, patch, .. } => format!("patch {} {}", object.name, patch.document()),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_claim_without_a_pod_is_deleted_unless_it_waits_for_a_new_one() {
    let pods = [pod("web-a").ready().on_node("n")];
    let claims = [claim("data", "a"), claim("data", "gone")];
    assert_eq!(writes(&about_claims(false, &pods, &claims)), ["delete data-web-gone"]);
    assert_eq!(writes(&about_claims(true, &pods, &claims)), [""; 0]);
}

#[test]
fn a_claim_that_was_made_just_now_is_left_alone_for_a_while() {
    let mut young = claim("data", "gone");
    young["metadata"]["creationTimestamp"] = json!("2024-05-01T09:59:40Z");
    let plan = about_claims(false, &[pod("web-a").ready().on_node("n")], &[young]);
    assert_eq!(writes(&plan), [""; 0]);
    assert_eq!(plan.wake_after, Some(std::time::Duration::from_secs(10)));
}

#[test]
fn a_claim_whose_pod_is_ending_goes_with_that_pod() {
    for ending in [
        pod("web-b").ready().on_node("n").deleting(),
        pod("web-b").phase("Failed"),
    ] {
        let pods = [pod("web-a").ready().on_node("n"), ending];
        let handed = writes(&about_claims(false, &pods, &[claim("data", "b")]));
        assert_eq!(handed.len(), 1);
        for part in [
            "patch data-web-b",
            r#""$patch":"delete","uid":"11111111"#,
            r#""kind":"Pod","name":"web-b","uid":"uid-web-b""#,
        ] {
            assert!(handed[0].contains(part), "{part}: {handed:?}");
        }
    }
}

#[test]
fn after_a_crash_at_any_write_of_scaling_in_no_claim_is_left() {
    for reuse in [false, true] {
        for crash in 0..8 {
            let mut world = World::new(&json!({
                "replicas": 2,
                "scaleStrategy": { "enablePVCReuse": reuse },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }],
            }));
            world.run();
            world.edit_spec(&json!({ "replicas": 1 }));
            world.round_of(crash);
            world.last = Outcome::default();
            // The Pod is gone before the successor looks.
            world.cluster.settle();
            world.run();
            let claims = world.cluster.all(PersistentVolumeClaim::RESOURCE).map(name_of);
            let wanted = world.pod_names().into_iter().map(|pod| format!("data-{pod}"));
            assert_eq!(
                claims.collect::<Vec<_>>(),
                wanted.collect::<Vec<_>>(),
                "reuse {reuse}, crash after {crash} writes"
            );
        }
    }
}

#[test]
fn a_claim_that_is_already_going_is_not_touched() {
    let mut going = claim("data", "gone");
    going["metadata"]["deletionTimestamp"] = json!("2024-05-01T09:00:00Z");
    assert_eq!(
        writes(&about_claims(false, &[pod("web-a").ready().on_node("n")], &[going])),
        [""; 0]
    );
}

#[test]
fn a_released_pod_loses_only_our_reference_and_only_if_it_is_as_we_saw_it() {
    let released = pod("web-x").ready().on_node("n").label("app", "other");
    let plan = about_claims(false, &[pod("web-a").ready().on_node("n"), released], &[]);
    let Some(Action::Patch {
        object,
        patch,
        preconditions,
        ..
    }) = plan.writes().next()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(object.name, "web-x");
    assert_eq!(preconditions.resource_version.as_deref(), Some("100"));
    let reference = json!([{ "$patch": "delete", "uid": super::super::fixtures::SET_UID }]);
    assert_eq!(
        patch.document(),
        &json!({ "metadata": { "ownerReferences": reference } })
    );
}

fn two_with_claims(reuse: bool) -> World {
    let mut world = World::new(&json!({
        "replicas": 2,
        "scaleStrategy": { "enablePVCReuse": reuse },
        "volumeClaimTemplates": [
            { "metadata": { "name": "data" }, "spec": {} },
            { "metadata": { "name": "logs" }, "spec": {} },
        ],
    }));
    world.run();
    world
}

/// Name and UID of every claim of every Pod that is not on its way out, and who owns it.
fn claims_of_the_living(world: &World) -> BTreeMap<String, (Value, Value)> {
    let is_living = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_none();
    let volumes = |pod: &Value| pod["spec"]["volumes"].as_array().unwrap().clone();
    let names = world.pods().into_iter().filter(is_living).flat_map(volumes);
    let names = names.map(|volume| {
        volume["persistentVolumeClaim"]["claimName"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    names
        .map(|name| {
            let claim = world.cluster.get(PersistentVolumeClaim::RESOURCE, &name);
            let meta = &claim.unwrap_or_else(|| panic!("{name} is gone"))["metadata"];
            assert!(meta.get("deletionTimestamp").is_none(), "{name} is going");
            (name, (meta["uid"].clone(), meta["ownerReferences"].clone()))
        })
        .collect()
}

/// The manager decides anew, after any number of writes and with any of them refused.
#[derive(Clone, Copy, Debug)]
struct Decision {
    replicas: u8,
    writes: usize,
    refused: Option<usize>,
}

fn decide(world: &mut World, decision: Decision) {
    world.edit_spec(&json!({ "replicas": decision.replicas }));
    world.cluster.refused = decision.refused.map(|nth| world.cluster.writes + nth);
    world.round_of(decision.writes);
    world.cluster.refused = None;
}

/// Somebody else deletes each Pod in turn: no claim is lost.
fn drained_pods_lose_no_claim(world: &mut World, decisions: &[Decision]) {
    for name in world.pod_names() {
        let before = claims_of_the_living(world);
        world.cluster.delete(Pod::RESOURCE, &name);
        world.cluster.settle();
        world.run();
        for (claim, (uid, owners)) in before {
            let found = world.cluster.get(PersistentVolumeClaim::RESOURCE, &claim);
            let meta = &found.unwrap_or_else(|| panic!("{claim} after {decisions:?}"))["metadata"];
            assert_eq!(
                (&meta["uid"], &meta["ownerReferences"]),
                (&uid, &owners),
                "{claim} after {decisions:?}"
            );
        }
    }
}

/// Lets the decisions happen, and then the manager finish.
fn replay(world: &mut World, decisions: &[Decision]) {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for decision in decisions {
        decide(world, *decision);
        world.cluster.settle();
        for (claim, (uid, _)) in claims_of_the_living(world) {
            let known = known.entry(claim.clone()).or_insert_with(|| uid.clone());
            assert_eq!(*known, uid, "{claim} after {decisions:?}");
        }
    }
    world.run();
    let set = json!([super::super::fixtures::owner()]);
    for (claim, (uid, owners)) in claims_of_the_living(world) {
        assert_eq!(owners, set, "{claim} after {decisions:?}");
        assert!(
            known.get(&claim).is_none_or(|known| *known == uid),
            "{claim} after {decisions:?}"
        );
    }
}

#[test]
fn given_scaling_in_that_is_taken_back_after_any_write_then_claims_of_pods_that_live_stay_with_the_set() {
    for writes in 0..8 {
        for refused in std::iter::once(None).chain((1..8).map(Some)) {
            let decisions = [1, 2].map(|replicas| Decision {
                replicas,
                writes,
                refused,
            });
            let mut world = two_with_claims(true);
            replay(&mut world, &decisions);
            let pods = world.pod_names();
            drained_pods_lose_no_claim(&mut world, &decisions);
            assert_eq!(world.pod_names(), pods, "each comes back with its claims");
        }
    }
}

fn any_decision() -> impl Strategy<Value = Decision> {
    (0..4_u8, 0..12_usize, proptest::option::of(1..10_usize)).prop_map(|(replicas, writes, refused)| Decision {
        replicas,
        writes,
        refused,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_decided_between_any_two_writes_a_pod_that_lives_keeps_its_claims(
        decisions in proptest::collection::vec(any_decision(), 1..6), reuse: bool,
    ) {
        let mut world = two_with_claims(reuse);
        replay(&mut world, &decisions);
        if reuse {
            drained_pods_lose_no_claim(&mut world, &decisions);
        }
    }
}
