//! The API server itself goes away and comes back.

use std::time::Duration;

use kruise_testkit::{cluster::TestControlPlane, eventually::run_test, faults::Faults};

use super::world::World;

#[test]
fn given_the_api_server_is_killed_and_started_again_then_the_manager_goes_on() {
    run_test(Duration::from_mins(10), async {
        // Its own, as others use the shared one.
        let mut control_plane = TestControlPlane::of_its_own().await.unwrap();
        let world = World::on(&control_plane.kubeconfig(), "restart").await;
        let mut replica = world.ready(&Faults::new(1)).await;
        replica.leads().await;
        world.gated_pod("before").await;
        world.gets_condition("before").await;

        let restarted = tokio::task::spawn_blocking(move || {
            control_plane.restart_apiserver().unwrap();
            control_plane
        });
        let control_plane = restarted.await.unwrap();
        world.gated_pod("after").await;
        // Either it could keep the lease, or it ends as it must and the kubelet would start it again.
        let ended = tokio::select! {
            () = world.gets_condition("after") => None,
            ended = &mut replica.task => Some(ended),
        };
        if let Some(ended) = ended {
            let why = ended.unwrap().unwrap_err().to_string();
            assert!(why.contains("the lease is lost"), "{why}");
            replica = world.ready(&Faults::new(2)).await;
            world.gets_condition("after").await;
        }
        world.try_pod().await.unwrap();
        world.stop(replica).await;
        drop(world);
        drop(control_plane);
    });
}
