//! What a status says when there is nothing to say: users and scripts look for these zeros, and the API server refuses a status
//! without its required fields.

use kruise_api::{
    advancedcronjob, broadcastjob, containerrecreaterequest, ephemeraljob, imagelistpulljob, imagepulljob, nodeimage,
    nodepodprobe, persistentpodstate, podprobemarker, podunavailablebudget, resourcedistribution, workloadspread,
};
use serde::Serialize;
use serde_json::{Value, json};

fn blank<T: Default + Serialize>() -> Value {
    serde_json::to_value(T::default()).unwrap()
}

#[test]
fn given_nothing_when_written_then_only_the_promised_zeros_are_there() {
    let budget = json!({ "unavailableAllowed": 0, "currentAvailable": 0, "desiredAvailable": 0, "totalReplicas": 0 });
    let mut old_budget = budget.clone();
    old_budget["observedGeneration"] = json!(0);
    let subset = json!({ "name": "", "replicas": 0, "missingReplicas": 0 });
    let table = [
        (blank::<advancedcronjob::AdvancedCronJobStatus>(), json!({})),
        (
            blank::<broadcastjob::BroadcastJobStatus>(),
            json!({ "active": 0, "succeeded": 0, "failed": 0, "desired": 0 }),
        ),
        (
            blank::<containerrecreaterequest::v1alpha1::ContainerRecreateRequestStatus>(),
            json!({ "phase": "" }),
        ),
        (
            blank::<containerrecreaterequest::v1beta1::ContainerRecreateRequestStatus>(),
            json!({ "phase": "" }),
        ),
        (
            blank::<containerrecreaterequest::v1beta1::ContainerStatusSnapshot>(),
            json!({ "name": "", "ready": false, "restartCount": 0 }),
        ),
        (
            blank::<ephemeraljob::EphemeralJobStatus>(),
            json!({ "match": 0, "running": 0, "succeeded": 0, "waiting": 0, "failed": 0 }),
        ),
        (
            blank::<imagelistpulljob::ImageListPullJobStatus>(),
            json!({ "desired": 0, "active": 0, "completed": 0, "succeeded": 0 }),
        ),
        (
            blank::<imagepulljob::ImagePullJobStatus>(),
            json!({ "desired": 0, "active": 0, "succeeded": 0, "failed": 0 }),
        ),
        (
            blank::<nodeimage::NodeImageStatus>(),
            json!({ "desired": 0, "succeeded": 0, "failed": 0, "pulling": 0, "waiting": 0 }),
        ),
        (blank::<nodeimage::ImageStatus>(), json!({ "tags": [] })),
        (blank::<nodepodprobe::NodePodProbeStatus>(), json!({})),
        (
            blank::<nodepodprobe::PodProbe>(),
            json!({ "name": "", "namespace": "", "uid": "", "IP": "" }),
        ),
        (
            blank::<persistentpodstate::PersistentPodStateStatus>(),
            json!({ "observedGeneration": 0 }),
        ),
        (
            blank::<podprobemarker::PodProbeMarkerStatus>(),
            json!({ "observedGeneration": 0 }),
        ),
        (
            blank::<podunavailablebudget::v1alpha1::PodUnavailableBudgetStatus>(),
            old_budget,
        ),
        (
            blank::<podunavailablebudget::v1beta1::PodUnavailableBudgetStatus>(),
            budget,
        ),
        (
            blank::<resourcedistribution::v1alpha1::ResourceDistributionStatus>(),
            json!({}),
        ),
        (
            blank::<resourcedistribution::v1beta1::ResourceDistributionStatus>(),
            json!({}),
        ),
        (blank::<workloadspread::v1alpha1::SubsetStatus>(), subset.clone()),
        (blank::<workloadspread::v1beta1::SubsetStatus>(), subset),
    ];
    for (written, promised) in table {
        assert_eq!(written, promised);
    }
}
