//! The writer: every verb, conditions, evictions, dry runs, rates.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_api::resource::{Preconditions, Resource};
use kruise_runtime::error::Class;
use kruise_runtime::lease::Leadership;
use kruise_runtime::writer::{DeleteOptions, Patch, Target};
use kruise_testkit::eventually::eventually;
use kube::api::Api;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, PATIENCE, PODS, World, config_map, in_world, map_data};

fn pod(name: &str) -> Vec<u8> {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "x" } },
            "spec": { "nodeName": "nowhere", "terminationGracePeriodSeconds": 0,
                      "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] } })
    .to_string()
    .into_bytes()
}

async fn read(world: &World, name: &str) -> Value {
    let api: Api<Pod> = world.namespace.api();
    serde_json::to_value(api.get(name).await.expect("a Pod")).expect("JSON")
}

#[test]
fn given_each_verb_then_the_server_does_it_and_tells_the_version() {
    in_world("writer-verbs", |world| async move {
        let writer = world.writer();
        let created = writer.create(PODS, world.ns(), pod("p")).await.expect("created");
        assert_eq!(created.name, "p");
        let target = Target::new(PODS, world.ns(), "p");

        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "merged": "yes" } } }));
        let merged = writer
            .patch(&target, patch, &Preconditions::NONE)
            .await
            .expect("merged");
        assert_eq!(merged.uid, created.uid);
        assert!(
            merged.resource_version.parse::<u64>().expect("a number")
                > created.resource_version.parse().expect("a number")
        );

        let patch = Patch::Json(vec![
            json!({ "op": "add", "path": "/metadata/labels/jsoned", "value": "yes" }),
        ]);
        writer
            .patch(&target, patch, &Preconditions::NONE)
            .await
            .expect("patched");

        let patch = Patch::Strategic(json!({ "spec": { "containers": [{ "name": "b", "image": "b:2" }] } }));
        writer
            .patch(&target, patch, &Preconditions::NONE)
            .await
            .expect("merged by key");

        let patch = Patch::Strategic(json!({
            "metadata": { "labels": { "with-status": "yes" }, "annotations": { "with-status": "yes" } },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        }));
        writer
            .patch(&target.status(), patch, &Preconditions::NONE)
            .await
            .expect("status");

        let seen = read(&world, "p").await;
        assert_eq!(
            seen["metadata"]["annotations"],
            json!({ "merged": "yes", "with-status": "yes" })
        );
        assert_eq!(
            seen["metadata"]["labels"],
            json!({ "app": "x", "jsoned": "yes", "with-status": "yes" })
        );
        let images: Vec<_> = seen["spec"]["containers"]
            .as_array()
            .expect("two")
            .iter()
            .map(|each| &each["image"])
            .collect();
        assert_eq!(images, ["a:1", "b:2"]);
        assert_eq!(seen["status"]["phase"], "Running");
        let managers = seen["metadata"]["managedFields"].as_array().expect("managers");
        assert!(
            managers.iter().all(|each| each["manager"] == "kruise-test"),
            "{managers:?}"
        );

        writer
            .create(
                CONFIG_MAPS,
                world.ns(),
                config_map(world.ns(), "m", &json!({ "a": "1" })),
            )
            .await
            .expect("created");
        let target = Target::new(CONFIG_MAPS, world.ns(), "m");
        writer
            .replace(&target, config_map(world.ns(), "m", &json!({ "b": "2" })))
            .await
            .expect("replaced");
        assert_eq!(map_data(&world, "m").await, json!({ "b": "2" }));

        let deleted = writer
            .delete(&target, &DeleteOptions::default())
            .await
            .expect("deleted");
        assert!(!deleted.uid.is_empty());
        let error = writer
            .delete(&target, &DeleteOptions::default())
            .await
            .expect_err("gone");
        assert_eq!(error.class(), Class::Gone);
        assert_eq!(
            error.to_string(),
            "configmaps \"m\" not found",
            "the server's own words"
        );
    });
}

#[test]
fn given_conditions_that_do_not_hold_then_every_verb_refuses_with_a_conflict() {
    in_world("writer-conditions", |world| async move {
        let writer = world.writer();
        let created = writer.create(PODS, world.ns(), pod("p")).await.expect("created");
        let target = Target::new(PODS, world.ns(), "p");
        let labels = json!({ "metadata": { "labels": { "touched": "yes" } } });
        let patches = || {
            let operation = json!({ "op": "add", "path": "/metadata/labels/touched", "value": "yes" });
            [
                Patch::Merge(labels.clone()),
                Patch::Strategic(labels.clone()),
                Patch::Json(vec![operation]),
            ]
        };
        let another = Preconditions::uid("00000000-0000-0000-0000-000000000000");
        let stale = Preconditions::uid(&created.uid).at("1");
        for conditions in [another, stale] {
            for patch in patches() {
                let text = format!("{patch:?} {conditions:?}");
                let error = writer.patch(&target, patch, &conditions).await.expect_err(&text);
                assert_eq!(error.class(), Class::Conflict, "{text}: {error}");
            }
            let patch = Patch::Merge(json!({ "status": { "message": "m" } }));
            let error = writer
                .patch(&target.status(), patch, &conditions)
                .await
                .expect_err("status");
            assert_eq!(error.class(), Class::Conflict, "status {conditions:?}: {error}");
            let options = DeleteOptions {
                preconditions: conditions.clone(),
                ..DeleteOptions::default()
            };
            for error in [
                writer.delete(&target, &options).await.expect_err("delete"),
                writer.evict(&target, &options).await.expect_err("evict"),
            ] {
                assert_eq!(error.class(), Class::Conflict, "{conditions:?}: {error}");
            }
        }
        assert_eq!(
            read(&world, "p").await["metadata"]["labels"],
            json!({ "app": "x" }),
            "nothing was touched"
        );

        let mut last = created;
        for patch in patches() {
            let conditions = Preconditions::uid(&last.uid).at(&last.resource_version);
            last = writer
                .patch(&target, patch, &conditions)
                .await
                .expect("the conditions hold");
        }
        let options = DeleteOptions {
            preconditions: Preconditions::uid(&last.uid).at(&last.resource_version),
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        writer.delete(&target, &options).await.expect("the conditions hold");
    });
}

#[test]
fn given_a_disruption_budget_then_an_eviction_is_denied_in_its_words_and_later_allowed() {
    in_world("writer-evict", |world| async move {
        let writer = world.writer();
        writer.create(PODS, world.ns(), pod("p")).await.expect("created");
        let target = Target::new(PODS, world.ns(), "p");
        let running =
            json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
        writer
            .patch(&target.status(), Patch::Strategic(running), &Preconditions::NONE)
            .await
            .expect("running");
        let budgets = Resource::namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets");
        let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" },
                             "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "x" } } } });
        writer
            .create(&budgets, world.ns(), budget.to_string())
            .await
            .expect("created");
        let begin = Instant::now();
        let error = writer
            .evict(&target, &DeleteOptions::default())
            .await
            .expect_err("denied");
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "nothing is tried again by itself"
        );
        assert_eq!(error.class(), Class::Denied, "{error}");
        assert!(error.to_string().contains("disruption budget"), "{error}");
        let target_budget = Target::new(&budgets, world.ns(), "b");
        writer
            .delete(&target_budget, &DeleteOptions::default())
            .await
            .expect("deleted");
        eventually(PATIENCE, "the eviction is allowed", || async {
            match writer.evict(&target, &DeleteOptions::default()).await {
                Ok(_) => Ok(()),
                Err(error) if error.class() == Class::Gone => Ok(()),
                Err(error) => Err(error.to_string().into()),
            }
        })
        .await;
    });
}

#[test]
fn given_a_dry_run_then_the_server_checks_and_stores_nothing() {
    in_world("writer-dry", |world| async move {
        world.create_map("m", &json!({ "a": "1" })).await;
        world.hand().create(PODS, world.ns(), pod("p")).await.expect("created");
        let writer = world.writer_with(Leadership::always(), |options| options.dry_run = true);
        let made = writer
            .create(CONFIG_MAPS, world.ns(), config_map("", "new", &json!({})))
            .await
            .expect("checked");
        assert_eq!(made.name, "new");
        let target = Target::new(CONFIG_MAPS, world.ns(), "m");
        let patch = Patch::Merge(json!({ "data": { "a": "2" } }));
        writer
            .patch(&target, patch, &Preconditions::NONE)
            .await
            .expect("checked");
        writer
            .delete(&target, &DeleteOptions::default())
            .await
            .expect("checked");
        assert_eq!(map_data(&world, "m").await, json!({ "a": "1" }));
        let api: Api<ConfigMap> = world.namespace.api();
        assert!(api.get_opt("new").await.expect("an answer").is_none());
    });
}

#[test]
fn given_a_rate_then_writes_keep_to_it() {
    in_world("writer-rate", |world| async move {
        let writer = world.writer_with(Leadership::always(), |options| options.rate = Some((20.0, 2)));
        let begin = Instant::now();
        for number in 0..8 {
            let body = config_map("", &format!("m{number}"), &json!({}));
            writer.create(CONFIG_MAPS, world.ns(), body).await.expect("created");
        }
        assert!(
            begin.elapsed() >= Duration::from_millis(290),
            "six had to wait: {:?}",
            begin.elapsed()
        );
    });
}
