//! The writer: every verb, conditions, classes of errors, lost answers, storms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kruise_runtime::error::Class;
use kruise_runtime::lease::Leadership;
use kruise_runtime::writer::{DeleteOptions, Patch, Preconditions, Target, Writer, Written, slow_start};
use kruise_testkit::eventually::eventually;
use kruise_testkit::faults::{Fault, When};
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, PATIENCE, PODS, World, config, config_map, in_world};

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

async fn map_data(world: &World, name: &str) -> Value {
    let api: Api<ConfigMap> = world.namespace.api();
    serde_json::to_value(api.get(name).await.expect("a ConfigMap").data).expect("JSON")
}

#[test]
fn given_each_verb_then_the_server_does_it_and_tells_the_version() {
    in_world("writer-verbs", |world| async move {
        let writer = world.writer();
        let created = writer.create(&PODS, world.ns(), pod("p")).await.expect("created");
        assert_eq!(created.name, "p");
        let target = Target::new(&PODS, world.ns(), "p");

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
                &CONFIG_MAPS,
                world.ns(),
                config_map(world.ns(), "m", &json!({ "a": "1" })),
            )
            .await
            .expect("created");
        let target = Target::new(&CONFIG_MAPS, world.ns(), "m");
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
        let created = writer.create(&PODS, world.ns(), pod("p")).await.expect("created");
        let target = Target::new(&PODS, world.ns(), "p");
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
                preconditions: conditions,
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
            let conditions = Preconditions {
                uid: Some(&last.uid),
                resource_version: Some(&last.resource_version),
            };
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
        writer.create(&PODS, world.ns(), pod("p")).await.expect("created");
        let target = Target::new(&PODS, world.ns(), "p");
        let running =
            json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
        writer
            .patch(&target.status(), Patch::Strategic(running), &Preconditions::NONE)
            .await
            .expect("running");
        let budgets = kruise_runtime::resource::Resource::namespaced(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
        );
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
fn given_requests_that_cannot_work_then_the_class_says_why() {
    in_world("writer-classes", |world| async move {
        let writer = world.writer();
        let body = || config_map("", "m", &json!({}));
        writer.create(&CONFIG_MAPS, world.ns(), body()).await.expect("created");
        let error = writer
            .create(&CONFIG_MAPS, world.ns(), body())
            .await
            .expect_err("twice");
        assert!(error.class() == Class::Conflict && error.is_already_exists(), "{error}");

        let error = writer
            .create(&CONFIG_MAPS, "no-such-namespace", body())
            .await
            .expect_err("no namespace");
        assert_eq!(error.class(), Class::Gone, "{error}");

        let wrong = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "Not Valid" } }).to_string();
        let error = writer
            .create(&CONFIG_MAPS, world.ns(), wrong)
            .await
            .expect_err("invalid");
        assert_eq!(error.class(), Class::Permanent);
        assert!(
            error
                .to_string()
                .contains("metadata.name: Invalid value: \"Not Valid\""),
            "{error}"
        );
        let error = writer.create(&CONFIG_MAPS, world.ns(), "{").await.expect_err("no JSON");
        assert_eq!(error.class(), Class::Permanent, "{error}");

        let unknown = kruise_runtime::resource::Resource::namespaced("nobody.example.com", "v1", "Thing", "things");
        let error = writer
            .create(&unknown, world.ns(), "{}")
            .await
            .expect_err("no such kind");
        assert_eq!(error.class(), Class::Gone, "{error}");

        let mut config = config().await;
        config.auth_info.impersonate = Some("nobody".to_owned());
        let metrics = kruise_runtime::writer::WriterMetrics::new(&prometheus::Registry::new()).expect("metrics");
        let options = kruise_runtime::writer::WriterOptions::new("kruise-test");
        let nobody = Writer::new(world.faults.client_of(config), Leadership::always(), options, metrics);
        let error = nobody
            .create(&CONFIG_MAPS, world.ns(), body())
            .await
            .expect_err("no right");
        assert_eq!(error.class(), Class::Denied, "{error}");
        assert!(error.to_string().contains("User \"nobody\" cannot create"), "{error}");
    });
}

#[test]
fn given_a_namespace_that_is_going_away_then_new_objects_are_gone_with_it() {
    in_world("writer-terminating", |world| async move {
        let writer = world.writer();
        let held = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "held", "finalizers": ["example.com/held"] } });
        writer
            .create(&CONFIG_MAPS, world.ns(), held.to_string())
            .await
            .expect("created");
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        namespaces
            .delete(world.ns(), &DeleteParams::default())
            .await
            .expect("deleted");
        let error = writer
            .create(&CONFIG_MAPS, world.ns(), config_map("", "late", &json!({})))
            .await
            .expect_err("terminating");
        assert_eq!(error.class(), Class::Gone, "{error}");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let target = Target::new(&CONFIG_MAPS, world.ns(), "held");
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
        let error = writer.create(&CONFIG_MAPS, world.ns(), body()).await.expect_err("lost");
        assert!(
            error.class() == Class::Transient && error.may_have_applied(),
            "{error:?}"
        );
        let error = writer
            .create(&CONFIG_MAPS, world.ns(), body())
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
            .create(&CONFIG_MAPS, world.ns(), body)
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
            let error = writer
                .create(&CONFIG_MAPS, world.ns(), body)
                .await
                .expect_err("refused");
            assert_eq!(error.class(), class, "{code}");
            assert_eq!(error.to_string(), format!("a fault was injected: {code}"));
        }
        assert_eq!(world.faults.writes(), 0);
    });
}

/// Counts up once, whatever it takes, and says how often that was refused.
async fn count_up(world: &World, writer: &Writer) -> u32 {
    let api: Api<ConfigMap> = world.namespace.api();
    let target = Target::new(&CONFIG_MAPS, world.ns(), "counter");
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
fn given_a_dry_run_then_the_server_checks_and_stores_nothing() {
    in_world("writer-dry", |world| async move {
        world.create_map("m", &json!({ "a": "1" })).await;
        world.hand().create(&PODS, world.ns(), pod("p")).await.expect("created");
        let writer = world.writer_with(Leadership::always(), |options| options.dry_run = true);
        let made = writer
            .create(&CONFIG_MAPS, world.ns(), config_map("", "new", &json!({})))
            .await
            .expect("checked");
        assert_eq!(made.name, "new");
        let target = Target::new(&CONFIG_MAPS, world.ns(), "m");
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
            writer.create(&CONFIG_MAPS, world.ns(), body).await.expect("created");
        }
        assert!(
            begin.elapsed() >= Duration::from_millis(290),
            "six had to wait: {:?}",
            begin.elapsed()
        );
    });
}

#[test]
fn given_a_quota_then_a_slow_start_makes_what_fits_and_does_not_try_the_rest() {
    in_world("writer-slow-start", |world| async move {
        let quotas = kruise_runtime::resource::Resource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" },
                            "spec": { "hard": { "count/secrets": "5" } } });
        world
            .hand()
            .create(&quotas, world.ns(), quota.to_string())
            .await
            .expect("created");
        let api: Api<k8s_openapi::api::core::v1::ResourceQuota> = world.namespace.api();
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
        let secrets = kruise_runtime::resource::Resource::namespaced("", "v1", "Secret", "secrets");
        let items: Vec<_> = (0..100).collect();
        let done = slow_start(items, |number| {
            let body = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("s{number}") } });
            let (writer, secrets) = (&writer, &secrets);
            let namespace = world.ns();
            async move { writer.create(secrets, namespace, body.to_string()).await }
        })
        .await;
        let made: Vec<&Written> = done.tried.iter().filter_map(|each| each.as_ref().ok()).collect();
        assert_eq!(made.len(), 5);
        let failure = done.failure().expect("the quota");
        assert_eq!(failure.class(), Class::Denied);
        assert!(failure.to_string().contains("exceeded quota"), "{failure}");
        assert_eq!((done.tried.len(), done.left), (7, 93), "one, two, four, and no more");
    });
}
