//! Events: counted, folded, made anew when the server has forgotten them, never in the way.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kruise_api::resource::Resource;
use kruise_runtime::events::{self, Recorder, Regarding};
use kruise_runtime::shutdown::CancellationToken;
use kruise_testkit::eventually::eventually;
use kruise_testkit::faults::{Fault, When};
use kube::api::{Api, DeleteParams, ListParams};

use crate::support::{CONFIG_MAPS, PATIENCE, World, in_world};

struct Recording {
    recorder: Recorder,
    stop: CancellationToken,
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn record(world: &World) -> Recording {
    let (recorder, writer) =
        events::recorder(world.writer(), "cloneset-controller", "", &world.registry).expect("metrics");
    let stop = CancellationToken::new();
    tokio::spawn(writer.run(stop.clone()));
    Recording { recorder, stop }
}

fn about(world: &World, name: &str) -> Regarding {
    Regarding::new(CONFIG_MAPS, world.ns(), name, "8b8e5c4c-0000-0000-0000-000000000001")
}

/// The events of an object, by message, once their counts add up.
async fn events(world: &World, name: &str, total: i32) -> Vec<Event> {
    let api: Api<Event> = world.namespace.api();
    let list = ListParams::default().fields(&format!("involvedObject.name={name}"));
    eventually(PATIENCE, "all events are written", || async {
        let mut events = api.list(&list).await?.items;
        events.sort_by_key(|event| event.message.clone());
        if events.iter().filter_map(|event| event.count).sum::<i32>() == total {
            Ok(events)
        } else {
            Err(format!("{events:?}").into())
        }
    })
    .await
}

#[test]
fn given_the_same_event_five_times_then_there_is_one_object_with_a_count() {
    in_world("events-count", |world| async move {
        let recording = record(&world);
        for _ in 0..5 {
            recording
                .recorder
                .normal(&about(&world, "a"), "SuccessfulCreate", "succeed to create pod x");
        }
        recording.recorder.warning(&about(&world, "a"), "FailedCreate", "quota");
        let events = events(&world, "a", 6).await;
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.reason.as_deref(), event.type_.as_deref(), event.count))
            .collect();
        assert_eq!(
            seen,
            [
                (Some("FailedCreate"), Some("Warning"), Some(1)),
                (Some("SuccessfulCreate"), Some("Normal"), Some(5))
            ]
        );
        let event = &events[1];
        assert_eq!(event.message.as_deref(), Some("succeed to create pod x"));
        assert_eq!(
            event.source.as_ref().and_then(|source| source.component.as_deref()),
            Some("cloneset-controller")
        );
        assert_eq!(event.reporting_component.as_deref(), Some("cloneset-controller"));
        assert_eq!(event.involved_object.kind.as_deref(), Some("ConfigMap"));
        assert!(event.metadata.name.as_ref().is_some_and(|name| name.starts_with("a.")));
        assert!(event.first_timestamp.is_some() && event.last_timestamp >= event.first_timestamp);
        world.metric("kruise_events_written_total 6").await;
    });
}

#[test]
fn given_many_different_messages_then_the_rest_is_folded() {
    in_world("events-fold", |world| async move {
        let recording = record(&world);
        for number in 0..20 {
            recording
                .recorder
                .normal(&about(&world, "a"), "SuccessfulCreate", format!("pod {number:02}"));
        }
        let events = events(&world, "a", 20).await;
        assert_eq!(events.len(), 10, "nine of their own and one for the rest");
        assert_eq!(
            events[0].message.as_deref(),
            Some("(combined from similar events): pod 19")
        );
        assert_eq!(events[0].count, Some(11));
    });
}

#[test]
fn given_an_event_that_the_server_has_forgotten_then_it_is_made_anew_with_its_count() {
    in_world("events-forgotten", |world| async move {
        let recording = record(&world);
        recording.recorder.normal(&about(&world, "a"), "R", "m");
        let first = events(&world, "a", 1).await.remove(0);
        let api: Api<Event> = world.namespace.api();
        let name = first.metadata.name.expect("a name");
        api.delete(&name, &DeleteParams::default()).await.expect("deleted");
        recording.recorder.normal(&about(&world, "a"), "R", "m");
        let again = events(&world, "a", 2).await.remove(0);
        assert_eq!(again.first_timestamp, first.first_timestamp);
    });
}

#[test]
fn given_an_object_of_the_cluster_then_its_events_are_in_the_default_namespace() {
    in_world("events-cluster", |world| async move {
        let recording = record(&world);
        let nodes = Resource::cluster("v1", "Node", "nodes");
        let name = format!("node-{}", world.ns());
        recording
            .recorder
            .normal(&Regarding::new(&nodes, "", &name, "u"), "R", "m");
        let api: Api<Event> = Api::namespaced(world.client.clone(), "default");
        let list = ListParams::default().fields(&format!("involvedObject.name={name}"));
        eventually(PATIENCE, "the event is there", || async {
            if api.list(&list).await?.items.len() == 1 {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
        .await;
    });
}

#[test]
fn given_a_server_that_fails_then_events_are_tried_again_then_dropped_and_recording_never_waits() {
    in_world("events-dropped", |world| async move {
        let recording = record(&world);
        world
            .faults
            .inject(When::verb("create").on("events").times(2), Fault::Refuse(500));
        recording
            .recorder
            .normal(&about(&world, "a"), "R", "after two failures");
        events(&world, "a", 1).await;
        world.faults.heal();
        world
            .faults
            .inject(When::verb("create").on("events"), Fault::Refuse(500));
        let begin = std::time::Instant::now();
        for number in 0..1500 {
            recording
                .recorder
                .normal(&about(&world, &format!("b{number}")), "R", "m");
        }
        assert!(
            begin.elapsed() < Duration::from_secs(1),
            "recording took {:?}",
            begin.elapsed()
        );
        eventually(
            PATIENCE,
            "some are dropped for want of room, one because it failed",
            || async {
                let text = kruise_runtime::metrics::render(&world.registry).expect("text");
                let value = |why: &str| -> u64 {
                    let line = format!("kruise_events_dropped_total{{why=\"{why}\"}} ");
                    text.lines()
                        .find_map(|each| each.strip_prefix(&line))
                        .map_or(0, |value| value.parse().expect("a number"))
                };
                if value("too-many-waiting") >= 400 && value("not-written") >= 1 {
                    Ok(())
                } else {
                    Err(text.into())
                }
            },
        )
        .await;
    });
}
