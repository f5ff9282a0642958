//! The process dies after any of its writes.

use std::time::Duration;

use kruise_testkit::{eventually::run_test, faults::Faults};

use tokio::time::timeout;

use super::world::{PATIENCE, World};

#[test]
fn given_a_crash_after_every_single_write_then_a_successor_brings_all_to_the_same_end() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("crash").await;
        let mut writes = 0;
        for crash_after in 0.. {
            world.forget().await;
            let name = format!("pod-{crash_after}");
            world.gated_pod(&name).await;
            let faults = Faults::new(crash_after);
            let done = async {
                world.all_trust().await;
                world.gets_condition(&name).await;
            };
            if crash_after == 0 {
                // The first one lives, which tells how many writes there are.
                let only = world.start(&faults);
                done.await;
                writes = faults.writes();
                only.clear_away().await;
                continue;
            }
            faults.crash_after_writes(crash_after);
            let first = world.start(&faults);
            // The lease is renewed again and again, so that no write is the last.
            let crash = timeout(PATIENCE, faults.until_crashed()).await;
            crash.unwrap_or_else(|_| panic!("no crash after {crash_after} of {writes} writes"));
            first.clear_away().await;

            let second = world.ready(&Faults::new(0)).await;
            done.await;
            world.stop(second).await;
            if crash_after == writes {
                break;
            }
        }
        // The Secret, both configurations, each CRD that converts, the lease, the Pod.
        assert!(writes >= 6, "{writes}");
    });
}
