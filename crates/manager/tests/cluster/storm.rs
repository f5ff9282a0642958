//! Calls fail, answers get lost, watches break and lag.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    eventually::{NotYet, eventually, run_test},
    faults::{Cut, Fault, Faults, When},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::world::{PATIENCE, World};

const PODS: usize = 20;

#[test]
fn given_conflicts_refusals_lost_answers_and_late_watches_then_the_end_is_the_same() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("storm").await;
        let faults = Faults::new(2026);
        faults.inject(When::writes().with_probability(0.15), Fault::Refuse(409));
        faults.inject(When::writes().with_probability(0.05), Fault::Refuse(429));
        faults.inject(When::writes().with_probability(0.05), Fault::Refuse(500));
        faults.inject(When::writes().with_probability(0.10), Fault::LoseReply);
        faults.delay_watches(Duration::from_millis(50));
        let replica = world.ready(&faults).await;
        for number in 0..PODS {
            world.gated_pod(&format!("pod-{number}")).await;
            if number % 5 == 0 {
                let cut = if number % 2 == 0 { Cut::Expired } else { Cut::Closed };
                faults.cut_watches(None, cut);
            }
        }
        for number in 0..PODS {
            world.gets_condition(&format!("pod-{number}")).await;
        }
        world.all_trust().await;
        // The lease must not be the reason to end here: it is renewed in spite of all.
        assert!(!replica.task.is_finished());

        // What lost its answer is tried once more; then nothing is written any more but the lease.
        faults.heal();
        let mut quiet = Quiet::since(&faults);
        eventually(PATIENCE, "only the lease is written, four times in a row", || {
            let now = Quiet::since(&faults);
            if now.others != quiet.others {
                quiet = now;
            }
            let renewals = now.renewals - quiet.renewals;
            let calls = faults.calls();
            async move {
                (renewals >= 4)
                    .then_some(())
                    .ok_or_else(|| NotYet::new(format!("{renewals} times: {calls:?}")))
            }
        })
        .await;
        world.stop(replica).await;
    });
}

/// Writes that have reached the server up to a moment.
#[derive(Clone, Copy)]
struct Quiet {
    renewals: u64,
    others: u64,
}

impl Quiet {
    fn since(faults: &Faults) -> Self {
        let renewals = faults.count("patch", "leases");
        Self {
            renewals,
            others: faults.writes() - renewals - faults.count("create", "leases"),
        }
    }
}

#[test]
fn given_a_view_that_lags_then_what_others_wrote_meanwhile_stays() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("stale").await;
        let faults = Faults::new(1);
        let replica = world.ready(&faults).await;
        replica.leads().await;
        world.gated_pod("seen").await;
        world.gets_condition("seen").await;

        // While we see nothing, somebody else holds the Pod not ready.
        faults.hold_watches();
        world.gated_pod("held").await;
        let held = json!({"status": {"conditions": [{"type": "KruisePodReady", "status": "False", "message": "[]"}]}});
        let pods: Api<Pod> = world.system.api();
        pods.patch_status("held", &PatchParams::default(), &Patch::Strategic(&held))
            .await
            .unwrap();
        faults.release_watches();
        world.gated_pod("later").await;
        world.gets_condition("later").await;
        assert_eq!(world.pod_ready("held").await.unwrap(), ["False"]);

        // A watch that the server has forgotten becomes a new list.
        let lists = faults.count("list", "pods");
        faults.cut_watches(Some("pods"), Cut::Expired);
        world.gated_pod("after-410").await;
        world.gets_condition("after-410").await;
        assert!(faults.count("list", "pods") > lists, "{:?}", faults.calls());
        assert_eq!(world.pod_ready("held").await.unwrap(), ["False"]);
        world.stop(replica).await;
    });
}
