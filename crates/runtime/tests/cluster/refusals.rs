//! The writer when it does not work: classes of errors, lost answers, deadlines, storms of conflicts, quotas.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use kruise_api::resource::{Preconditions, Resource, Subresource};
use kruise_runtime::error::Class;
use kruise_runtime::lease::Leadership;
use kruise_runtime::writer::{DeleteOptions, Patch, Target, Writer, WriterMetrics, WriterOptions};
use kruise_testkit::eventually::eventually;
use kruise_testkit::faults::{Fault, When};
use kruise_testkit::features::{self, Feature};
use kube::api::{Api, DeleteParams};
use prometheus::Registry;
use serde_json::json;

use crate::support::{CONFIG_MAPS, PATIENCE, PODS, World, config, config_map, in_world, map_data};

#[test]
fn given_requests_that_cannot_work_then_the_class_says_why() {
    in_world("writer-classes", |world| async move {
        let writer = world.writer();
        let body = || config_map("", "m", &json!({}));
        writer.create(CONFIG_MAPS, world.ns(), body()).await.expect("created");
        let error = writer.create(CONFIG_MAPS, world.ns(), body()).await.expect_err("twice");
        assert!(error.class() == Class::Conflict && error.is_already_exists(), "{error}");

        let error = writer
            .create(CONFIG_MAPS, "no-such-namespace", body())
            .await
            .expect_err("no namespace");
        assert_eq!(error.class(), Class::Gone, "{error}");

        let wrong = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "Not Valid" } }).to_string();
        let error = writer
            .create(CONFIG_MAPS, world.ns(), wrong)
            .await
            .expect_err("invalid");
        assert_eq!(error.class(), Class::Permanent);
        assert!(
            error
                .to_string()
                .contains("metadata.name: Invalid value: \"Not Valid\""),
            "{error}"
        );
        let error = writer.create(CONFIG_MAPS, world.ns(), "{").await.expect_err("no JSON");
        assert_eq!(error.class(), Class::Permanent, "{error}");

        let unknown = Resource::namespaced("nobody.example.com/v1", "Thing", "things");
        let error = writer
            .create(&unknown, world.ns(), "{}")
            .await
            .expect_err("no such kind");
        assert_eq!(error.class(), Class::Gone, "{error}");

        // Not the object is missing but the part of it, as `resize` of a Pod is where the feature is turned off.
        let nothing = || Patch::Merge(json!({}));
        let part = Target::new(CONFIG_MAPS, world.ns(), "m").part(Subresource::Resize);
        let error = writer.patch(&part, nothing(), &Preconditions::NONE).await;
        let error = error.expect_err("no such part");
        assert_eq!(error.class(), Class::Permanent, "{error:?}");
        if !features::lacks(Feature::Resize) {
            let missing = Target::new(PODS, world.ns(), "none").part(Subresource::Resize);
            let error = writer.patch(&missing, nothing(), &Preconditions::NONE).await;
            assert_eq!(error.expect_err("no such Pod").class(), Class::Gone);
        }

        let mut config = config().await;
        config.auth_info.impersonate = Some("nobody".to_owned());
        let metrics = WriterMetrics::new(&Registry::new()).expect("metrics");
        let options = WriterOptions::new("kruise-test");
        let nobody = Writer::new(world.faults.client_of(config), Leadership::always(), options, metrics);
        let error = nobody
            .create(CONFIG_MAPS, world.ns(), body())
            .await
            .expect_err("no right");
        assert_eq!(error.class(), Class::Denied, "{error}");
        assert!(error.to_string().contains("User \"nobody\" cannot create"), "{error}");
    });
}

#[test]
fn given_a_policy_that_refuses_then_somebody_has_to_allow_it() {
    if features::lacks(Feature::ValidatingAdmissionPolicy) {
        return;
    }
    in_world("writer-policy", |world| async move {
        let cluster = |kind, plural| Resource::cluster("admissionregistration.k8s.io/v1", kind, plural);
        let policies = cluster("ValidatingAdmissionPolicy", "validatingadmissionpolicies");
        let bindings = cluster("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings");
        let (name, namespace) = (world.ns(), json!({ "kubernetes.io/metadata.name": world.ns() }));
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "resourceRules": [
                    { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] },
                ] },
                "validations": [{ "expression": "object.metadata.name != 'unwanted'", "message": "not here" }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": name },
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": namespace } },
            },
        });
        let hand = world.hand();
        hand.create(&policies, "", policy.to_string()).await.expect("a policy");
        hand.create(&bindings, "", binding.to_string())
            .await
            .expect("a binding");
        // It counts when the server has noticed it; until then nothing is stored.
        let trial = world.writer_with(Leadership::always(), |options| options.dry_run = true);
        let (trial, world) = (&trial, &world);
        let refusal = eventually(PATIENCE, "the policy counts", || async move {
            let body = config_map("", "unwanted", &json!({}));
            match trial.create(CONFIG_MAPS, world.ns(), body).await {
                Ok(_) => Err("allowed".into()),
                Err(error) => Ok(error),
            }
        })
        .await;
        for (kind, resource) in [("policy", &policies), ("binding", &bindings)] {
            let gone = hand
                .delete(&Target::new(resource, "", name), &DeleteOptions::default())
                .await;
            gone.unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
        assert!(refusal.to_string().ends_with("denied request: not here"), "{refusal}");
        assert_eq!(
            (refusal.class(), refusal.reason()),
            (Class::Denied, "Invalid"),
            "{refusal}"
        );
    });
}

#[test]
fn given_a_namespace_that_is_going_away_then_new_objects_are_gone_with_it() {
    in_world("writer-terminating", |world| async move {
        let writer = world.writer();
        let held = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "held", "finalizers": ["example.com/held"] } });
        writer
            .create(CONFIG_MAPS, world.ns(), held.to_string())
            .await
            .expect("created");
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        namespaces
            .delete(world.ns(), &DeleteParams::default())
            .await
            .expect("deleted");
        let error = writer
            .create(CONFIG_MAPS, world.ns(), config_map("", "late", &json!({})))
            .await
            .expect_err("terminating");
        assert_eq!(error.class(), Class::Gone, "{error}");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let target = Target::new(CONFIG_MAPS, world.ns(), "held");
        writer.patch(&target, free, &Preconditions::NONE).await.expect("freed");
    });
}

#[test]
fn given_a_lost_answer_then_the_error_says_that_it_may_have_happened() {
    in_world("writer-lost", |world| async move {
        let writer = world.writer();
        let body = || config_map("", "m", &json!({}));
        world
            .faults
            .inject(When::verb("create").on("configmaps").nth(1), Fault::LoseReply);
        let error = writer.create(CONFIG_MAPS, world.ns(), body()).await.expect_err("lost");
        assert!(
            error.class() == Class::Transient && error.may_have_applied(),
            "{error:?}"
        );
        let error = writer
            .create(CONFIG_MAPS, world.ns(), body())
            .await
            .expect_err("it is there");
        assert!(error.is_already_exists() && !error.may_have_applied(), "{error:?}");
    });
}

#[test]
fn given_a_server_that_does_not_answer_then_the_deadline_ends_the_call() {
    in_world("writer-deadline", |world| async move {
        let writer = world.writer_with(Leadership::always(), |options| {
            options.deadline = Duration::from_millis(300);
        });
        world
            .faults
            .inject(When::verb("create"), Fault::Delay(Duration::from_mins(1)));
        let begin = Instant::now();
        let body = config_map("", "m", &json!({}));
        let error = writer
            .create(CONFIG_MAPS, world.ns(), body)
            .await
            .expect_err("too late");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(
            error.class() == Class::Transient && error.may_have_applied(),
            "{error:?}"
        );
        assert!(error.to_string().contains("did not answer within"), "{error}");
    });
}

#[test]
fn given_injected_answers_then_nothing_is_tried_again_and_the_class_is_right() {
    in_world("writer-injected", |world| async move {
        let writer = world.writer();
        for (code, class) in [
            (409, Class::Conflict),
            (429, Class::Transient),
            (500, Class::Transient),
            (503, Class::Transient),
        ] {
            world.faults.heal();
            world.faults.inject(When::writes(), Fault::Refuse(code));
            let body = config_map("", "m", &json!({}));
            let error = writer.create(CONFIG_MAPS, world.ns(), body).await.expect_err("refused");
            assert_eq!(error.class(), class, "{code}");
            assert_eq!(error.to_string(), format!("a fault was injected: {code}"));
        }
        assert_eq!(world.faults.writes(), 0);
    });
}

/// Counts up once, whatever it takes, and says how often that was refused.
async fn count_up(world: &World, writer: &Writer) -> u32 {
    let api: Api<ConfigMap> = world.namespace.api();
    let target = Target::new(CONFIG_MAPS, world.ns(), "counter");
    let mut refused = 0;
    loop {
        let seen = api.get("counter").await.expect("a counter");
        let count: u32 = seen.data.expect("data")["count"].parse().expect("a number");
        let patch = Patch::Merge(json!({ "data": { "count": (count + 1).to_string() } }));
        let version = seen.metadata.resource_version.expect("a version");
        match writer.patch(&target, patch, &Preconditions::NONE.at(&version)).await {
            Ok(_) => return refused,
            Err(error) => assert!(matches!(error.class(), Class::Conflict | Class::Transient), "{error}"),
        }
        refused += 1;
    }
}

#[test]
fn given_a_storm_of_conflicts_then_no_change_is_lost_and_none_is_made_twice() {
    in_world("writer-storm", |world| async move {
        const WRITERS: usize = 8;
        const EACH: usize = 10;
        world.create_map("counter", &json!({ "count": "0" })).await;
        world
            .faults
            .inject(When::writes().with_probability(0.3), Fault::Refuse(409));
        world
            .faults
            .inject(When::writes().with_probability(0.1), Fault::Refuse(500));
        let world = Arc::new(world);
        let writer = world.writer();
        let tasks = (0..WRITERS).map(|_| {
            let (world, writer) = (world.clone(), writer.clone());
            tokio::spawn(async move {
                let mut refused = 0;
                for _ in 0..EACH {
                    refused += count_up(&world, &writer).await;
                }
                refused
            })
        });
        let refused: u32 = futures::future::join_all(tasks)
            .await
            .into_iter()
            .map(|each| each.expect("no panic"))
            .sum();
        assert!(refused > 20, "there was no storm: {refused}");
        assert_eq!(
            map_data(&world, "counter").await,
            json!({ "count": (WRITERS * EACH).to_string() })
        );
    });
}

#[test]
fn given_a_quota_then_what_fits_is_made_and_the_rest_is_denied() {
    in_world("writer-quota", |world| async move {
        let quotas = Resource::namespaced("v1", "ResourceQuota", "resourcequotas");
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" },
                            "spec": { "hard": { "count/secrets": "5" } } });
        world
            .hand()
            .create(&quotas, world.ns(), quota.to_string())
            .await
            .expect("created");
        let api: Api<ResourceQuota> = world.namespace.api();
        eventually(PATIENCE, "the quota is counted", || async {
            let quota = api.get("q").await?;
            quota
                .status
                .and_then(|status| status.used)
                .map(drop)
                .ok_or_else(|| "not yet".into())
        })
        .await;
        let writer = world.writer();
        let secrets = Resource::namespaced("v1", "Secret", "secrets");
        let make = async |number: u32| {
            let body = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("s{number}") } });
            writer.create(&secrets, world.ns(), body.to_string()).await
        };
        for number in 0..5 {
            make(number).await.expect("it fits");
        }
        let refusal = make(5).await.expect_err("the quota");
        assert_eq!(refusal.class(), Class::Denied);
        assert!(refusal.to_string().contains("exceeded quota"), "{refusal}");
    });
}
