//! Several replicas: all answer, one works.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kruise_testkit::{
    eventually::{NotYet, consistently, eventually, run_test},
    faults::{Fault, Faults, When},
};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::world::{PATIENCE, Replica, World};

/// Writes of a controller.
fn work(faults: &Faults) -> u64 {
    faults.count("patch", "pods/status")
}

#[test]
fn given_two_replicas_then_both_answer_and_one_works_and_a_stop_hands_over() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("replicas").await;
        let (of_one, of_two) = (Faults::new(1), Faults::new(2));
        let one = world.ready(&of_one).await;
        one.leads().await;
        let two = world.ready(&of_two).await;
        assert_eq!((one.is_leader().await, two.is_leader().await), (Some(1.0), Some(0.0)));
        world.gated_pod("first").await;
        world.gets_condition("first").await;
        assert_eq!((work(&of_one) > 0, work(&of_two)), (true, 0));

        // The other one answers alone now, and works.
        let done = work(&of_one);
        world.stop(one).await;
        world.gated_pod("second").await;
        two.leads().await;
        world.gets_condition("second").await;
        world.try_pod().await.unwrap();
        assert_eq!(work(&of_one), done);
        world.stop(two).await;
    });
}

#[test]
fn given_a_leader_that_cannot_renew_its_lease_then_it_ends_and_there_are_never_two_that_write() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("lost-lease").await;
        let (of_one, of_two) = (Faults::new(1), Faults::new(2));
        let one = world.ready(&of_one).await;
        one.leads().await;
        let two = world.ready(&of_two).await;
        world.gated_pod("before").await;
        world.gets_condition("before").await;

        of_one.inject(When::writes().on("leases"), Fault::Refuse(500));
        of_one.inject(When::verb("get").on("leases"), Fault::Refuse(500));
        let mut number = 0;
        let done_by_one = loop {
            // The leader first lost is never a leader again: seen after the other one, it would have been one beside it.
            let leads = two.is_leader().await == Some(1.0);
            if leads {
                assert_ne!(one.is_leader().await, Some(1.0), "there are two leaders");
                break work(&of_one);
            }
            world.gated_pod(&format!("during-{number}")).await;
            number += 1;
        };
        world.gated_pod("after").await;
        for each in 0..number {
            world.gets_condition(&format!("during-{each}")).await;
        }
        world.gets_condition("after").await;
        assert_eq!(work(&of_one), done_by_one, "it wrote after another one led");
        let Replica { name, task, .. } = one;
        let end = task.await.unwrap().unwrap_err().to_string();
        assert!(end.contains("the lease is lost"), "{end}");
        world.unpublish(&name).await;
        world.stop(two).await;
    });
}

#[test]
fn given_two_replicas_under_load_when_the_certificates_are_swapped_then_no_call_fails() {
    run_test(Duration::from_mins(10), async {
        let world = Arc::new(World::new("swap").await);
        let (one, two) = (world.ready(&Faults::new(1)).await, world.ready(&Faults::new(2)).await);
        let stop = Arc::new(AtomicBool::new(false));
        let calls = Arc::new(AtomicU64::new(0));
        let (calling, ended, called) = (world.clone(), stop.clone(), calls.clone());
        let load = tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                calling
                    .try_pod()
                    .await
                    .map_err(|error| format!("after {called:?} calls: {error}"))?;
                called.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, String>(())
        });
        let ca = async || {
            let secret = world.secrets().get_opt("kruise-webhook-certs").await.unwrap();
            let data = secret.and_then(|secret| secret.data).unwrap_or_default();
            data.get("ca-cert.pem").map(|ByteString(ca)| ca.clone())
        };
        for by_deletion in [true, false] {
            let old = ca().await;
            let secrets = world.secrets();
            secrets
                .delete("kruise-webhook-certs", &DeleteParams::default())
                .await
                .unwrap();
            if !by_deletion {
                // Somebody installs the chart again, whose Secret is empty. A replica may have been quicker.
                let empty: Secret =
                    serde_json::from_value(json!({"metadata": {"name": "kruise-webhook-certs"}})).unwrap();
                let _ = secrets.create(&PostParams::default(), &empty).await;
            }
            eventually(PATIENCE, "there is another CA", || async {
                let new = ca().await;
                (new.is_some() && new != old)
                    .then_some(())
                    .ok_or_else(|| NotYet::new("not yet"))
            })
            .await;
            for replica in [&one, &two] {
                replica.becomes_ready().await;
            }
        }
        consistently(Duration::from_secs(3), "calls go on", || async {
            (!load.is_finished())
                .then_some(())
                .ok_or_else(|| NotYet::new("a call failed"))
        })
        .await;
        eventually(PATIENCE, "many calls were made", || async {
            let calls = calls.load(Ordering::Relaxed);
            (calls > 50 || load.is_finished())
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{calls}")))
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        load.await.unwrap().unwrap();
        world.stop(one).await;
        world.stop(two).await;
    });
}
