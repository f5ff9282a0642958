//! The lease: one leader at a time, quick hand-over, and a common language with client-go.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::Event;
use kruise_api::kind::Kind as _;
use kruise_api::resource::{Preconditions, Resource};
use kruise_runtime::events;
use kruise_runtime::lease::{Leadership, Lease, LeaseError, LeaseMetrics, LeaseOptions};
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{Patch, Target, WriterMetrics};
use kruise_testkit::eventually::{consistently, eventually};
use kruise_testkit::faults::{Fault, Faults, When};
use kube::api::{Api, ListParams};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{CONFIG_MAPS, PATIENCE, World, in_world};

static LEASES: &Resource = LeaseObject::RESOURCE;
const NAME: &str = "kruise-manager";
const DURATION: Duration = Duration::from_secs(3);

/// One replica.
struct Replica {
    identity: String,
    leadership: Leadership,
    stop: CancellationToken,
    run: JoinHandle<Result<(), LeaseError>>,
    faults: Faults,
    registry: Registry,
}

fn options(world: &World, identity: &str) -> LeaseOptions {
    LeaseOptions {
        identity: identity.to_owned(),
        lease_duration: DURATION,
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
        ..LeaseOptions::new("kruise-test", world.ns(), NAME)
    }
}

async fn replica(world: &World, identity: &str) -> Replica {
    let faults = Faults::new(1);
    let registry = Registry::new();
    let metrics = LeaseMetrics::new(&registry, NAME).expect("metrics");
    let writer_metrics = WriterMetrics::new(&registry).expect("metrics");
    let lease =
        Lease::new(faults.client().await, options(world, identity), metrics, writer_metrics).expect("good options");
    let stop = CancellationToken::new();
    Replica {
        identity: identity.to_owned(),
        leadership: lease.leadership(),
        run: tokio::spawn(lease.run(stop.clone())),
        stop,
        faults,
        registry,
    }
}

impl Replica {
    async fn leads(&self) {
        let acquired = tokio::time::timeout(PATIENCE, self.leadership.acquired()).await;
        acquired.unwrap_or_else(|_| panic!("{} does not lead", self.identity));
    }

    fn assert_gauge(&self, value: u8) {
        let text = kruise_runtime::metrics::render(&self.registry).expect("text");
        for line in [
            format!("leader_election_master_status{{name=\"{NAME}\"}} {value}"),
            format!("kruise_manager_is_leader {value}"),
        ] {
            assert!(text.lines().any(|each| each == line), "{line} is missing in:\n{text}");
        }
    }
}

async fn spec(world: &World) -> Value {
    let api: Api<LeaseObject> = world.namespace.api();
    serde_json::to_value(api.get(NAME).await.expect("a lease").spec).expect("JSON")
}

#[test]
fn given_two_replicas_when_the_leader_is_killed_then_the_other_leads_within_the_lease_and_two_seconds() {
    in_world("lease-killed", |world| async move {
        let one = replica(&world, "one").await;
        one.leads().await;
        let two = replica(&world, "two").await;
        consistently(Duration::from_secs(1), "only one leads", || async {
            if one.leadership.leads() && !two.leadership.leads() {
                Ok(())
            } else {
                Err("not so".into())
            }
        })
        .await;
        one.assert_gauge(1);
        two.assert_gauge(0);
        let taken = spec(&world).await;
        assert_eq!(
            (&taken["holderIdentity"], &taken["leaseTransitions"]),
            (&json!("one"), &json!(0))
        );
        assert_eq!(taken["leaseDurationSeconds"], 3);

        let killed = Instant::now();
        one.faults.crash();
        one.run.abort();
        two.leads().await;
        let took = killed.elapsed();
        println!("fail-over after a kill took {took:?} with a lease of {DURATION:?}");
        assert!(took < DURATION + Duration::from_secs(2), "{took:?}");
        assert!(!one.leadership.leads(), "the other one's right has run out by itself");
        let taken = spec(&world).await;
        assert_eq!(
            (&taken["holderIdentity"], &taken["leaseTransitions"]),
            (&json!("two"), &json!(1))
        );
        two.assert_gauge(1);
    });
}

#[test]
fn given_a_stop_then_the_lease_is_given_back_and_the_other_leads_at_once() {
    in_world("lease-released", |world| async move {
        let mut one = replica(&world, "one").await;
        one.leads().await;
        let two = replica(&world, "two").await;
        // The second one has looked at the lease and waits for it.
        eventually(PATIENCE, "two watches the lease", || async {
            if two.faults.count("watch", "leases") > 0 {
                Ok(())
            } else {
                Err(format!("{two:?}", two = two.faults).into())
            }
        })
        .await;
        let stopped = Instant::now();
        one.stop.cancel();
        two.leads().await;
        let took = stopped.elapsed();
        println!("fail-over after a stop took {took:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!((&mut one.run).await.expect("no panic"), Ok(()));
        assert!(!one.leadership.leads());
        one.assert_gauge(0);
        let taken = spec(&world).await;
        assert_eq!(
            (&taken["holderIdentity"], &taken["leaseTransitions"]),
            (&json!("two"), &json!(1))
        );
        two.stop.cancel();
        assert_eq!(two.run.await.expect("no panic"), Ok(()));
        assert_eq!(spec(&world).await["holderIdentity"], json!(""), "nobody holds it");
    });
}

#[test]
fn given_a_write_in_flight_at_the_stop_then_the_lease_is_not_given_back_before_its_answer() {
    in_world("lease-in-flight", |world| async move {
        let one = replica(&world, "one").await;
        one.leads().await;
        world.faults.inject(
            When::verb("create").on("configmaps"),
            Fault::Delay(Duration::from_millis(800)),
        );
        let writer = world.writer_with(one.leadership.clone(), |_| {});
        let namespace = world.ns().to_owned();
        let write = tokio::spawn(async move {
            let body = crate::support::config_map("", "m", &json!({}));
            writer.create(CONFIG_MAPS, &namespace, body).await
        });
        eventually(PATIENCE, "the write is under way", || async {
            if world.faults.writes() == 1 {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
        .await;
        let stopped = Instant::now();
        one.stop.cancel();
        assert_eq!(one.run.await.expect("no panic"), Ok(()));
        assert!(
            stopped.elapsed() >= Duration::from_millis(500),
            "{:?}",
            stopped.elapsed()
        );
        assert!(write.is_finished());
        write.await.expect("no panic").expect("written");
        assert_eq!(spec(&world).await["holderIdentity"], json!(""));
        let writer = world.writer_with(one.leadership.clone(), |_| {});
        let error = writer
            .create(CONFIG_MAPS, world.ns(), "{}")
            .await
            .expect_err("no right any more");
        assert_eq!(error.to_string(), "nothing was written: this replica does not lead");
        assert_eq!(world.faults.writes(), 1);
    });
}

#[test]
fn given_a_leader_that_cannot_reach_the_server_then_it_gives_up_and_two_never_write_at_the_same_time() {
    in_world("lease-two-writers", |world| async move {
        world.create_map("log", &json!({})).await;
        let one = replica(&world, "one").await;
        one.leads().await;
        let two = replica(&world, "two").await;
        let mut writers = Vec::new();
        for replica in [&one, &two] {
            let writer = world.writer_with(replica.leadership.clone(), |_| {});
            let (namespace, identity) = (world.ns().to_owned(), replica.identity.clone());
            writers.push(tokio::spawn(async move {
                let target = Target::new(CONFIG_MAPS, &namespace, "log");
                let mut versions = Vec::new();
                // As a controller that is refused, it tries again and again, until there is nothing more to learn.
                let mut retry = tokio::time::interval(Duration::from_millis(2));
                for number in 0..4000 {
                    let patch = Patch::Merge(json!({ "data": { &identity: number.to_string() } }));
                    match writer.patch(&target, patch, &Preconditions::NONE).await {
                        Ok(written) => versions.push(written.resource_version.parse::<u64>().expect("a number")),
                        Err(_) => drop(retry.tick().await),
                    }
                    if versions.len() == 100 && identity == "two" {
                        break;
                    }
                }
                versions
            }));
        }
        // Only the leader's lease is out of reach; its writes would still get through.
        eventually(PATIENCE, "one writes", || async {
            if world.faults.writes() > 20 {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
        .await;
        one.faults.inject(When::any(), Fault::Refuse(503));
        let lost = tokio::time::timeout(PATIENCE, one.run)
            .await
            .expect("in time")
            .expect("no panic");
        assert!(
            matches!(&lost, Err(LeaseError::Lost(why)) if why.contains("could not be renewed")),
            "{lost:?}"
        );
        two.leads().await;
        let [first, second] = <[_; 2]>::try_from(futures::future::join_all(writers).await).expect("two");
        let (first, second) = (first.expect("no panic"), second.expect("no panic"));
        assert!(
            first.len() >= 20 && second.len() == 100,
            "{} and {}",
            first.len(),
            second.len()
        );
        assert!(first.last() < second.first(), "writes of both are mixed");
    });
}

#[test]
fn given_a_lease_that_somebody_else_takes_then_the_leader_ends_at_once() {
    in_world("lease-stolen", |world| async move {
        let one = replica(&world, "one").await;
        one.leads().await;
        let thief = json!({ "spec": { "holderIdentity": "thief", "renewTime": "2030-01-01T00:00:00.000000Z" } });
        let target = Target::new(LEASES, world.ns(), NAME);
        world
            .hand()
            .patch(&target, Patch::Merge(thief), &Preconditions::NONE)
            .await
            .expect("stolen");
        let lost = tokio::time::timeout(Duration::from_secs(2), one.run)
            .await
            .expect("in time")
            .expect("no panic");
        assert_eq!(lost, Err(LeaseError::Lost("\"thief\" holds it now".to_owned())));
        assert!(!one.leadership.leads());
        assert_eq!(
            spec(&world).await["holderIdentity"],
            json!("thief"),
            "it is not taken back"
        );
    });
}

/// A Lease as client-go writes it.
fn from_client_go(holder: &str, renewed: &str) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": NAME },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 2, "acquireTime": "2024-01-01T00:00:00.000000Z",
                      "renewTime": renewed, "leaseTransitions": 7 } })
}

#[test]
fn given_a_lease_of_the_original_then_it_is_respected_while_renewed_and_taken_over_when_not() {
    in_world("lease-client-go", |world| async move {
        const GO: &str = "kruise-controller-manager-abc_0b1d0f4e-8a27-4d4c-a6d2-0c5b1b3f5d11";
        let object = from_client_go(GO, "2024-01-01T00:00:00.000000Z").to_string();
        world.hand().create(LEASES, world.ns(), object).await.expect("created");
        let ours = replica(&world, "ours").await;
        let target = Target::new(LEASES, world.ns(), NAME);
        let mut last = Instant::now();
        // Its clock is years behind, and it renews: nobody may take it.
        for second in 1..=8 {
            let renewal = json!({ "spec": { "renewTime": format!("2024-01-01T00:00:0{second}.000000Z") } });
            last = Instant::now();
            world
                .hand()
                .patch(&target, Patch::Merge(renewal), &Preconditions::NONE)
                .await
                .expect("renewed");
            consistently(Duration::from_millis(500), "the original leads", || async {
                if ours.leadership.leads() {
                    Err("ours leads".into())
                } else {
                    Ok(())
                }
            })
            .await;
        }
        ours.leads().await;
        let took = last.elapsed();
        assert!(took >= Duration::from_secs(2), "taken too early: {took:?}");
        assert!(took < Duration::from_secs(4), "taken too late: {took:?}");
        let taken = spec(&world).await;
        assert_eq!(
            (&taken["holderIdentity"], &taken["leaseTransitions"]),
            (&json!("ours"), &json!(8))
        );
        for time in ["acquireTime", "renewTime"] {
            let text = taken[time].as_str().expect("a time");
            assert!(
                text.len() == 27 && text.ends_with('Z'),
                "{time} {text} is not as client-go reads it"
            );
        }
    });
}

#[test]
fn given_a_lease_that_the_original_gave_up_without_a_holder_then_it_is_taken_at_once() {
    in_world("lease-empty", |world| async move {
        let object = from_client_go("", "2024-01-01T00:00:00.000000Z").to_string();
        world.hand().create(LEASES, world.ns(), object).await.expect("created");
        let begin = Instant::now();
        let ours = replica(&world, "ours").await;
        ours.leads().await;
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    });
}

#[test]
fn given_a_change_of_the_leader_then_an_event_tells_of_it() {
    in_world("lease-event", |world| async move {
        let registry = Registry::new();
        let (recorder, writing) = events::recorder(world.writer(), "kruise-manager", "", &registry).expect("metrics");
        let stop = CancellationToken::new();
        let writing = tokio::spawn(writing.run(stop.clone()));
        let metrics = LeaseMetrics::new(&registry, NAME).expect("metrics");
        let writer_metrics = WriterMetrics::new(&registry).expect("metrics");
        let lease = Lease::new(
            world.program.clone(),
            options(&world, "host_uuid"),
            metrics,
            writer_metrics,
        )
        .expect("good options");
        let lease = lease.record_events(&recorder);
        let leadership = lease.leadership();
        let lease_stop = CancellationToken::new();
        let run = tokio::spawn(lease.run(lease_stop.clone()));
        leadership.acquired().await;
        lease_stop.cancel();
        assert_eq!(run.await.expect("no panic"), Ok(()));
        let api: Api<Event> = world.namespace.api();
        let list = ListParams::default().fields(&format!("involvedObject.name={NAME}"));
        let events = eventually(PATIENCE, "two events", || async {
            let mut events = api.list(&list).await?.items;
            events.sort_by_key(|event| event.message.clone());
            if events.len() == 2 {
                Ok(events)
            } else {
                Err(format!("{events:?}").into())
            }
        })
        .await;
        let messages: Vec<_> = events.iter().filter_map(|event| event.message.as_deref()).collect();
        assert_eq!(messages, ["host_uuid became leader", "host_uuid stopped leading"]);
        for event in events {
            assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
            assert_eq!(event.type_.as_deref(), Some("Normal"));
            assert_eq!(
                event.source.and_then(|source| source.component).as_deref(),
                Some("host_uuid")
            );
            let about = event.involved_object;
            assert_eq!(
                (about.kind.as_deref(), about.api_version.as_deref()),
                (Some("Lease"), Some("coordination.k8s.io/v1"))
            );
            assert!(about.uid.is_some());
        }
        stop.cancel();
        writing.await.expect("no panic");
    });
}
