//! The process dies after any of its writes.

use std::time::Duration;

use kruise_testkit::{eventually::run_test, faults::Faults, torture};

use tokio::time::timeout;

use super::world::{PATIENCE, World};

/// Crashes in an ordinary run.
const SAMPLE: u64 = 6;

#[test]
fn given_a_crash_after_any_single_write_then_a_successor_brings_all_to_the_same_end() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::new("crash").await;
        let done = async |pod: &str| {
            world.all_trust().await;
            world.gets_condition(pod).await;
        };
        // The first one lives, which tells how many writes there are.
        world.gated_pod("pod").await;
        let faults = Faults::new(0);
        let only = world.start(&faults);
        done("pod").await;
        let writes = faults.writes();
        only.clear_away().await;
        // The Secret, both configurations, each CRD that converts, the lease, the Pod.
        assert!(writes >= 6, "{writes}");

        for crash_after in torture::sample(1, writes, SAMPLE) {
            world.forget().await;
            let name = format!("pod-{crash_after}");
            world.gated_pod(&name).await;
            let faults = Faults::new(crash_after);
            faults.crash_after_writes(crash_after);
            let first = world.start(&faults);
            // The lease is renewed again and again, so that no write is the last.
            let crash = timeout(PATIENCE, faults.until_crashed()).await;
            crash.unwrap_or_else(|_| panic!("no crash after {crash_after} of {writes} writes"));
            first.clear_away().await;

            let second = world.ready(&Faults::new(0)).await;
            done(&name).await;
            world.stop(second).await;
        }
    });
}
