//! The process dies after any of its writes.

use std::time::Duration;

use kruise_testkit::{eventually::run_test, faults::Faults};

use super::world::World;

#[test]
fn given_a_crash_after_every_single_write_then_a_successor_brings_all_to_the_same_end() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("crash").await;
        let mut crashes = 0;
        for write in 1.. {
            world.forget().await;
            let name = format!("pod-{write}");
            world.gated_pod(&name).await;
            let faults = Faults::new(write);
            faults.crash_after_writes(write);
            let first = world.start(&faults);
            let done = async {
                world.all_trust().await;
                world.gets_condition(&name).await;
            };
            tokio::select! {
                () = faults.until_crashed() => crashes += 1,
                () = done => {}
            }
            let crashed = faults.crashed();
            first.clear_away().await;

            let second = world.ready(&Faults::new(0)).await;
            world.all_trust().await;
            world.gets_condition(&name).await;
            world.stop(second).await;
            if !crashed {
                break;
            }
        }
        // The Secret, both configurations, each CRD that converts, the lease, the Pod.
        assert!(crashes >= 6, "{crashes}");
    });
}
