use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use serde_json::{Value, json};

use super::super::fixtures::{
    Fixture as _, PodBuilder, claim, env, from_parts, observed, pod, revision, rolling, set, template,
};
use super::super::plan;
use super::*;
use crate::plan::Env;
use crate::plan::why::{self, Why};
use kruise_api::meta::PartialObject;
use kruise_api::node::Node;

fn ready(name: &str) -> PodBuilder {
    pod(name).ready().on_node(&format!("n-{name}"))
}

fn deleted(plan: &Plan) -> Vec<&str> {
    let deletes = plan
        .writes()
        .filter(|action| matches!(action, Action::Delete { object, .. } if object.resource == Pod::RESOURCE));
    deletes.map(|action| action.object().name.as_str()).collect()
}

fn created(plan: &Plan) -> Vec<Value> {
    let bodies = plan.writes().filter_map(|action| match action {
        Action::Create { object, body } if object.resource == Pod::RESOURCE => Some(body.json()),
        _ => None,
    });
    bodies.collect()
}

#[test]
fn given_deletion_costs_then_the_cheapest_goes_but_after_an_unready_one() {
    let pods = [
        ready("web-a").cost("10"),
        ready("web-b").cost("-10"),
        ready("web-c"),
        ready("web-d"),
    ];
    let three = observed(&json!({ "replicas": 3 }), &pods);
    assert_eq!(deleted(&plan(&three, &env())), ["web-b"]);
    let mut pods = pods.to_vec();
    pods.push(pod("web-e").unready().on_node("n-e").cost("100"));
    let four = observed(&json!({ "replicas": 4 }), &pods);
    assert_eq!(deleted(&plan(&four, &env())), ["web-e"]);
}

#[test]
fn given_zones_then_scaling_in_takes_from_the_crowded_one() {
    let mut template = template("nginx:1");
    template["spec"]["topologySpreadConstraints"] =
        json!([{ "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1 }]);
    let mut set = set(&json!({ "replicas": 2, "template": template }));
    set["status"] = json!({ "currentRevision": "web-old", "updateRevision": "web-old" });
    let pods = [
        pod("web-b1").ready().on_node("b1"),
        pod("web-a1").ready().on_node("a1"),
        pod("web-a2").ready().on_node("a2"),
        pod("web-a3").ready().on_node("a3"),
    ];
    let mut observed = from_parts(&set, &pods, &[], &[revision("web-old", 1, &template)]);
    assert!(super::super::spreads_pods(&observed.set));
    let node = |name: &str, zone: &str| -> Node {
        serde_json::from_value(
            json!({ "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } } }),
        )
        .unwrap()
    };
    let nodes = [node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b")];
    observed.nodes = nodes.into_iter().map(std::sync::Arc::new).collect();
    assert_eq!(deleted(&plan(&observed, &env())), ["web-a1", "web-a2"]);
}

#[test]
fn while_pods_are_missing_none_is_deleted() {
    let pods = [ready("web-a"), ready("web-b").specified_delete()];
    let plan = plan(&observed(&json!({ "replicas": 4 }), &pods), &env());
    assert_eq!((deleted(&plan).len(), created(&plan).len()), (0, 2));
}

#[test]
fn while_a_deletion_is_under_way_no_other_pod_is_chosen() {
    let mut waiting = ready("web-b").state("PreparingDelete").label("hold", "yes");
    waiting = waiting.specified_delete();
    let pods = [ready("web-a"), waiting, ready("web-c"), ready("web-d")];
    let spec = json!({ "replicas": 2, "lifecycle": { "preDelete": { "labelsHandler": { "hold": "yes" } } } });
    let plan = plan(&observed(&spec, &pods), &env());
    assert_eq!(deleted(&plan), [""; 0]);
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, Why::Rollout(why::Rollout::DeletionsUnderWay { .. }))),
        "{:?}",
        plan.why
    );
}

#[test]
fn a_named_pod_that_is_not_ready_goes_at_once_and_a_ready_one_waits_for_the_budget() {
    let pods = [
        ready("web-a").specified_delete(),
        ready("web-b").specified_delete(),
        pod("web-c").unready().on_node("n").specified_delete(),
        ready("web-d"),
        ready("web-e"),
    ];
    let plan = plan(&observed(&json!({ "replicas": 5 }), &pods), &env());
    assert_eq!(deleted(&plan), ["web-a", "web-c"]);
    let why = plan
        .why
        .iter()
        .find(|why| matches!(why, Why::Rollout(why::Rollout::DeleteBudget { .. })))
        .unwrap();
    assert_eq!(
        why.to_string(),
        "Ready, and not deleted because maxUnavailable lets only 1 go now: web-b."
    );
    // Of the unready one it had to be true that it is unready; the other had to be the same Pod.
    let versions: Vec<bool> = plan
        .writes()
        .filter_map(|action| match action {
            Action::Delete { preconditions, .. } => Some(preconditions.resource_version.is_some()),
            _ => None,
        })
        .collect();
    assert_eq!(versions, [false, true]);
}

#[test]
fn given_scaling_in_during_a_rollout_then_both_groups_shrink_to_their_share() {
    let mut pods: Vec<PodBuilder> = (0..5).map(|number| ready(&format!("web-o{number}"))).collect();
    pods.extend((0..5).map(|number| ready(&format!("web-n{number}")).at("web-new")));
    let spec = json!({ "replicas": 6, "updateStrategy": { "rollingUpdate": { "partition": 3, "maxUnavailable": 4 } } });
    let plan = plan(&rolling(&spec, &pods), &env());
    assert_eq!(deleted(&plan), ["web-o0", "web-o1", "web-n0", "web-n1"]);
}

#[test]
fn given_scaling_out_during_a_rollout_then_new_pods_keep_the_ratio() {
    let mut pods: Vec<PodBuilder> = (0..5).map(|number| ready(&format!("web-o{number}"))).collect();
    pods.extend((0..5).map(|number| ready(&format!("web-n{number}")).at("web-new")));
    let spec = json!({ "replicas": 12, "updateStrategy": { "rollingUpdate": { "partition": "50%" } } });
    let plan = plan(&rolling(&spec, &pods), &env());
    let made: Vec<(Value, Value)> = created(&plan)
        .iter()
        .map(|pod| {
            (
                pod["metadata"]["labels"]["controller-revision-hash"].clone(),
                pod["spec"]["containers"][0]["image"].clone(),
            )
        })
        .collect();
    assert_eq!(
        made,
        [
            (json!("web-old"), json!("nginx:1")),
            (json!("web-new"), json!("nginx:2"))
        ]
    );
}

#[test]
fn a_pod_that_prepares_for_its_update_counts_as_updated_only_with_the_gate() {
    let pods = [
        ready("web-a").state("PreparingUpdate"),
        pod("web-b").unready().on_node("n-b"),
        ready("web-c").at("web-new"),
        ready("web-d").at("web-new"),
    ];
    let spec = json!({ "replicas": 3, "updateStrategy": { "rollingUpdate": { "partition": 1, "maxUnavailable": 3 } } });
    // Off: two are old, one too many, and the unready one goes. On: three are new, one too many.
    for (gate, gone) in [(false, "web-b"), (true, "web-a")] {
        let mut env: Env = env();
        env.gates = env.gates.with(Gate::PreparingUpdateAsUpdate, gate);
        assert_eq!(deleted(&plan(&rolling(&spec, &pods), &env)), [gone], "gate {gate}");
    }
}

#[test]
fn claims_go_after_their_pod_in_the_same_chain() {
    assert_eq!(
        written_when_deleted(false),
        ["delete web-a", "delete data-web-a", "delete logs-web-a"]
    );
}

#[test]
fn claims_that_would_wait_for_another_pod_are_given_to_the_one_that_goes_first() {
    assert_eq!(
        written_when_deleted(true),
        [
            "patch data-web-a",
            "patch logs-web-a",
            "delete web-a",
            "delete data-web-a",
            "delete logs-web-a"
        ]
    );
}

/// What is written when the only Pod goes, which has two claims.
fn written_when_deleted(reuse: bool) -> Vec<String> {
    let mut set = set(&json!({ "replicas": 0, "scaleStrategy": { "enablePVCReuse": reuse } }));
    set["status"] = json!({ "currentRevision": "web-old", "updateRevision": "web-old" });
    let claims = [claim("data", "a"), claim("logs", "a")];
    let observed = from_parts(
        &set,
        &[ready("web-a")],
        &claims,
        &[revision("web-old", 1, &template("nginx:1"))],
    );
    let plan = plan(&observed, &env());
    let writes = plan.actions[0].chains[0].writes.iter().map(|write| &write.action);
    let told = writes.map(|action| {
        let verb = if matches!(action, Action::Delete { .. }) {
            "delete"
        } else {
            "patch"
        };
        format!("{verb} {}", action.object().name)
    });
    told.collect()
}

#[test]
fn a_limit_of_zero_does_not_hold_back_the_update() {
    let pods = [pod("web-a").unready().on_node("n"), ready("web-b")];
    let spec = json!({
        "replicas": 3, "scaleStrategy": { "maxUnavailable": 1 },
        "updateStrategy": { "rollingUpdate": { "maxUnavailable": 3 } },
    });
    let plan = plan(&rolling(&spec, &pods), &env());
    assert_eq!(created(&plan).len(), 0);
    let updated: Vec<&str> = plan.writes().map(|action| action.object().name.as_str()).collect();
    assert!(updated.contains(&"web-a"), "{updated:?}");
}

#[test]
fn a_failed_pod_is_replaced_but_never_deleted() {
    let pods = [ready("web-a"), ready("web-b"), pod("web-c").phase("Failed")];
    let plan = plan(&observed(&json!({}), &pods), &env());
    assert_eq!((deleted(&plan).len(), created(&plan).len()), (0, 1));
}

#[test]
fn while_a_pod_cannot_be_read_none_is_created_or_deleted_and_the_set_says_so() {
    let unreadable = || -> Vec<Arc<PartialObject>> {
        let pod: PartialObject = serde_json::from_value(pod("web-c").json()).unwrap();
        vec![Arc::new(pod)]
    };
    // Too few, too many, one named, one to be replaced: whatever there is to do waits.
    let surplus = [ready("web-a"), ready("web-b"), ready("web-d"), ready("web-e")];
    let to_do = [
        observed(&json!({}), &[ready("web-a"), ready("web-b")]),
        observed(&json!({}), &surplus),
        observed(
            &json!({}),
            &[ready("web-a"), ready("web-b").specified_delete(), ready("web-d")],
        ),
        rolling(&json!({}), &[ready("web-a"), ready("web-b"), ready("web-d")]),
    ];
    for mut observed in to_do {
        assert!(
            plan(&observed, &env()).writes().next().is_some(),
            "there is something to do"
        );
        observed.unreadable = unreadable();
        let plan = plan(&observed, &env());
        assert_eq!(plan.writes().collect::<Vec<_>>(), [] as [&Action; 0]);
        assert_eq!(
            plan.why[0].to_string(),
            "No Pod is created or deleted while these cannot be read: web-c."
        );
        assert!(plan.wake_after.is_some());
        let status = json!(plan.status.unwrap()).to_string();
        assert!(status.contains("FailedScale") && status.contains("web-c"), "{status}");
    }
}

#[test]
fn while_a_pod_cannot_be_read_its_claims_stay_and_its_name_stays_on_the_list() {
    for reuse in [false, true] {
        let scale = json!({ "enablePVCReuse": reuse, "podsToDelete": ["web-c"] });
        let mut set = set(&json!({ "replicas": 2, "scaleStrategy": scale }));
        set["status"] = json!({ "currentRevision": "web-old", "updateRevision": "web-old" });
        let revisions = [revision("web-old", 1, &template("nginx:1"))];
        let mut observed = from_parts(&set, &[ready("web-a")], &[claim("data", "c")], &revisions);
        observed.unreadable = vec![Arc::new(serde_json::from_value(pod("web-c").json()).unwrap())];
        for _ in 0..2 {
            let plan = plan(&observed, &env());
            assert_eq!(plan.writes().collect::<Vec<_>>(), [] as [&Action; 0]);
            let Some(Action::Patch { patch, .. }) = plan.status else {
                break;
            };
            let mut written = set.clone();
            kruise_api::merge_patch::merge(&mut written, patch.document());
            observed.set = Arc::new(serde_json::from_str(&written.to_string()).unwrap());
        }
        assert!(plan(&observed, &env()).is_idle());
    }
}
