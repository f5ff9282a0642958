use std::time::Duration;

use kruise_api::{
    cloneset::v1beta1::CloneSet, kind::Kind as _, names::component::controller, pod::Pod, resource::Preconditions,
};
use kruise_core::plan::{Action, Chain, OnFailure, Pace, Phase, Step, Target, Write};
use kruise_runtime::expectations::Visible;
use kube::Client;
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::platform::fixture::{platform, unanswered};

/// Whoever applies the plans of CloneSets; its cache shows the Pod `web-b` at version 7.
fn applier(client: Client) -> (Arc<ControllerContext>, Applier) {
    let mut platform = platform(client, &[]);
    let context = platform.context_of(controller::CLONE_SET);
    let pods: kruise_runtime::cache::Store<Pod> = platform.store();
    let seen = json!({ "metadata": { "name": "web-b", "namespace": "shop", "uid": "uid-b", "resourceVersion": "7" } });
    let seen: Pod = serde_json::from_str(&seen.to_string()).expect("a Pod");
    pods.feed(kruise_runtime::cache::Change::Applied(seen));
    let mut views = Views::default();
    views.add(&pods);
    (context.clone(), Applier::new(context, views))
}

fn plan_of(action: Action) -> Plan {
    let mut step = Step::new(Phase::Scale, Pace::InOrder, OnFailure::Stop);
    step.push(Chain::of(Write::from(action)));
    let mut plan = Plan::default();
    plan.push(step);
    plan
}

#[tokio::test]
async fn given_a_later_version_in_the_cache_then_the_conflict_is_known_without_asking() {
    let (_silent, client) = unanswered().await;
    let (_, applier) = applier(client);
    let key = ObjectKey::new("shop", "web");
    let regarding = Regarding::new(CloneSet::RESOURCE, "shop", "web", "uid");
    for (version, is_known) in [("6", true), ("7", false), ("8", false)] {
        let same = Preconditions::uid("uid-b").at(version);
        let target = Target::new(Pod::RESOURCE, "shop", "web-b");
        let plan = plan_of(Action::merge(target, None, json!({}), same));
        let applied = timeout(Duration::from_millis(100), applier.apply(&key, &regarding, &plan)).await;
        let failures = applied.map(|applied| applied.outcome.failures);
        let classes = failures.map(|failures| failures.iter().map(|failure| failure.class).collect::<Vec<_>>());
        let expected = is_known.then(|| vec![FailureClass::Conflict]);
        assert_eq!(classes.ok(), expected, "{version}");
    }
}

#[tokio::test]
async fn given_an_application_that_is_cut_off_then_what_it_had_sent_is_waited_for() {
    let target = |name: &str| Target::new(Pod::RESOURCE, "shop", name);
    let create = Action::create(
        target("web-a"),
        json!({ "kind": "Pod", "metadata": { "name": "web-a" } }),
    );
    let delete = Action::delete(target("web-b"), Preconditions::uid("uid-b"));
    let (_silent, client) = unanswered().await;
    let (context, applier) = applier(client);
    let key = ObjectKey::new("shop", "web");
    let regarding = Regarding::new(CloneSet::RESOURCE, "shop", "web", "uid");
    for (action, object) in [(create, "shop/web-a"), (delete, "shop/web-b")] {
        let plan = plan_of(action);
        let cut_off = timeout(Duration::from_millis(100), applier.apply(&key, &regarding, &plan)).await;
        assert!(cut_off.is_err());
        let Visible::NotYet { object: waits_for, .. } = context.expectations().check(&key) else {
            panic!("{object} is forgotten")
        };
        assert_eq!(waits_for.to_string(), object);
        context.expectations().forget(&key);
    }
}
