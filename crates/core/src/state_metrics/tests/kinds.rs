//! What is told of each kind.

use kruise_api as api;
use serde_json::{Value, json};

use super::super::catalogue;
use super::{Options, page, page_of, samples, strict};

type CloneSet = api::cloneset::v1beta1::CloneSet;
type StatefulSet = api::statefulset::v1beta1::StatefulSet;
type SidecarSet = api::sidecarset::v1beta1::SidecarSet;

/// Families of the original by kind, without what every kind has.
const PUBLISHED: &[(&str, &str)] = &[
    (
        "broadcastjob",
        "spec_parallelism spec_strategy_activedeadline_seconds spec_strategy_ttl_seconds spec_strategy_type status_active status_condition status_desired status_failed status_succeeded metadata_generation",
    ),
    (
        "cloneset",
        "spec_replicas spec_strategy_partition spec_strategy_rollingupdate_max_surge spec_strategy_rollingupdate_max_unavailable spec_strategy_type status_condition status_observed_generation status_replicas status_replicas_available status_replicas_ready status_replicas_unavailable status_replicas_updated status_replicas_updated_ready metadata_generation",
    ),
    (
        "containerrecreaterequest",
        "completed containers_failed containers_pending containers_recreating containers_succeeded pending recreating",
    ),
    (
        "daemonset",
        "spec_strategy_partition spec_strategy_rollingupdate_max_surge spec_strategy_type status_condition status_current_number_scheduled status_desired_number_scheduled status_number_available status_number_misscheduled status_number_ready status_number_unavailable status_observed_generation status_updated_number_scheduled metadata_generation",
    ),
    (
        "sidecarset",
        "spec_containers_injectpolicy spec_containers_strategy_hotupgradeemptyimage spec_containers_strategy_type spec_containers_volumepolicy spec_metadata_generation spec_namespcace spec_strategy_partition spec_strategy_rollingupdate_max_unavailable spec_strategy_type status_observed_generation status_replicas_matched status_replicas_ready status_replicas_updated status_replicas_updated_ready",
    ),
    (
        "statefulset",
        "replicas spec_replicas spec_reserveordinals spec_strategy_rollingupdate_max_unavailable spec_strategy_type status_condition status_current_revision status_observed_generation status_replicas status_replicas_available status_replicas_current status_replicas_ready status_replicas_updated status_update_revision metadata_generation",
    ),
    (
        "workloadspread",
        "spec_strategy_type status_subset_replicas status_subset_replicas_missing metadata_generation",
    ),
];

#[test]
fn given_the_families_that_boards_know_then_all_98_are_there() {
    let known: Vec<_> = catalogue().into_iter().flat_map(|kind| kind.families).collect();
    let mut count = 0;
    for (kind, families) in PUBLISHED {
        for family in families.split(' ').chain(["created", "labels", "annotations"]) {
            let name = format!("kruise_{kind}_{family}");
            assert!(known.iter().any(|known| known.name == name), "{name}");
            count += 1;
        }
    }
    assert_eq!(count, 98);
}

#[test]
fn given_a_clone_set_then_shares_and_what_is_missing_are_computed() {
    let spec = json!({"replicas": 5, "updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%", "maxSurge": "25%", "partition": "40%"}}});
    let status = json!({"replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "updatedReplicas": 2, "updatedReadyReplicas": 1, "observedGeneration": 7,
        "conditions": [{"type": "FailedUpdate", "status": "False"}]});
    let text = page::<CloneSet>(spec, status);
    let of_sample = |family: &str| samples(&text, &format!("kruise_cloneset_{family}"));
    let one = "namespace=\"default\",cloneset=\"sample\"";
    for (family, value) in [
        ("spec_replicas", 5),
        ("status_replicas", 5),
        ("status_replicas_ready", 4),
        ("status_replicas_available", 3),
        ("status_replicas_unavailable", 2),
        ("status_replicas_updated", 2),
        ("status_replicas_updated_ready", 1),
        ("status_observed_generation", 7),
        ("spec_strategy_rollingupdate_max_unavailable", 1),
        ("spec_strategy_rollingupdate_max_surge", 2),
    ] {
        assert_eq!(of_sample(family), [format!("{one}}} {value}")], "{family}");
    }
    assert_eq!(
        of_sample("spec_strategy_partition"),
        [format!("{one},partition=\"40%\"}} 1")]
    );
    let types = [("ReCreate", 0), ("InPlaceIfPossible", 1), ("InPlaceOnly", 0)];
    assert_eq!(
        of_sample("spec_strategy_type"),
        types.map(|(type_, value)| format!("{one},strategy_type=\"{type_}\"}} {value}"))
    );
    let statuses = [("true", 0), ("false", 1), ("unknown", 0)];
    assert_eq!(
        of_sample("status_condition"),
        statuses.map(|(status, value)| format!("{one},condition=\"FailedUpdate\",status=\"{status}\"}} {value}"))
    );
}

#[test]
fn given_a_clone_set_that_waits_for_deletions_then_no_type_is_in_use_and_defaults_are_zero() {
    let text = page::<CloneSet>(json!({"updateStrategy": {"type": "OnDelete"}}), Value::Null);
    let types = samples(&text, "kruise_cloneset_spec_strategy_type");
    assert!(
        types.len() == 3 && types.iter().all(|sample| sample.ends_with(" 0")),
        "{types:?}"
    );
    assert_eq!(
        samples(&text, "kruise_cloneset_spec_strategy_rollingupdate_max_unavailable").len(),
        1
    );
    for absent in [
        "spec_replicas",
        "status_replicas_unavailable",
        "spec_strategy_partition",
        "status_condition",
    ] {
        assert!(
            samples(&text, &format!("kruise_cloneset_{absent}")).is_empty(),
            "{absent}"
        );
    }
}

#[test]
fn given_a_stateful_set_that_waits_for_deletions_then_it_has_every_family_but_the_budget_of_updates() {
    let spec = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}, "reserveOrdinals": [1]});
    let status = json!({"replicas": 3, "currentRevision": "a", "updateRevision": "b", "conditions": [{"type": "C", "status": "True"}]});
    let object = json!({"metadata": {"name": "db", "namespace": "shop", "creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": spec, "status": status});
    let (text, _) = page_of::<StatefulSet>(Options::default(), &[object]);
    strict::check(&text);
    let kinds = catalogue();
    let families = &kinds
        .iter()
        .find(|kind| kind.plural == "statefulsets")
        .expect("a kind")
        .families;
    let without: Vec<_> = families
        .iter()
        .filter(|family| samples(&text, &family.name).is_empty())
        .collect();
    let without: Vec<_> = without.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(
        without,
        ["kruise_statefulset_spec_strategy_rollingupdate_max_unavailable"]
    );
    let revision = samples(&text, "kruise_statefulset_status_update_revision");
    assert_eq!(revision, ["namespace=\"shop\",statefulset=\"db\",revision=\"b\"} 1"]);
}

#[test]
fn given_reserved_ordinals_then_each_is_told_once_in_order_and_never_too_many() {
    let reserved = |ordinals: Value| {
        let set = json!({"metadata": {"name": "db", "namespace": "shop"}, "spec": {"reserveOrdinals": ordinals}});
        let (text, unreadable) = page_of::<StatefulSet>(Options::default(), &[set]);
        strict::check(&text);
        let samples = samples(&text, "kruise_statefulset_spec_reserveordinals");
        (
            samples.into_iter().map(str::to_owned).collect::<Vec<_>>(),
            unreadable.len(),
        )
    };
    let one = "namespace=\"shop\",statefulset=\"db\"";
    let (found, unreadable) = reserved(json!([5, "3-5", 1]));
    assert_eq!(
        found,
        [1, 3, 4, 5].map(|ordinal| format!("{one},ordinal=\"{ordinal}\"}} {ordinal}"))
    );
    assert_eq!(unreadable, 0);
    assert_eq!(reserved(json!([1, "5-3"])), (Vec::new(), 1));
    assert_eq!(reserved(json!(["0-2000000000", "0-2000000000"])).0.len(), 1000);
}

#[test]
fn given_a_daemon_set_without_a_rolling_update_then_only_its_budgets_are_missing() {
    let status = json!({"desiredNumberScheduled": 10, "numberReady": 9});
    let text =
        page::<api::daemonset::v1beta1::DaemonSet>(json!({"updateStrategy": {"type": "OnDelete"}}), status.clone());
    assert!(samples(&text, "kruise_daemonset_spec_strategy_rollingupdate_max_surge").is_empty());
    assert_eq!(samples(&text, "kruise_daemonset_status_number_ready").len(), 1);
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": "15%", "partition": 3}}});
    let text = page::<api::daemonset::v1beta1::DaemonSet>(rolling, status);
    let one = "namespace=\"default\",daemonset=\"sample\"";
    let surge = samples(&text, "kruise_daemonset_spec_strategy_rollingupdate_max_surge");
    assert_eq!(surge, [format!("{one}}} 2")]);
    assert_eq!(
        samples(&text, "kruise_daemonset_spec_strategy_partition"),
        [format!("{one},partition=\"3\"}} 1")]
    );
}

#[test]
fn given_a_sidecar_set_then_its_namespace_does_not_clash_and_containers_are_told_apart() {
    let container = |name: &str| json!({"name": name, "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "enabled"}});
    let spec = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}, "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "50%"},
        "containers": [container("log"), container("net")]});
    let object = json!({"metadata": {"name": "mesh"}, "spec": spec, "status": {"matchedPods": 5}});
    let (text, _) = page_of::<SidecarSet>(Options::default(), &[object]);
    strict::check(&text);
    let one = "namespace=\"\",sidecarset=\"mesh\"";
    for family in ["spec_namespcace", "spec_namespace"] {
        let found = samples(&text, &format!("kruise_sidecarset_{family}"));
        assert_eq!(found, [format!("{one},spec_namespace=\"shop\"}} 1")]);
    }
    let volumes = samples(&text, "kruise_sidecarset_spec_containers_volumepolicy");
    assert_eq!(
        volumes,
        ["log", "net"].map(|name| format!("{one},volumepolicy=\"enabled\",container=\"{name}\"}} 1"))
    );
    let budget = samples(&text, "kruise_sidecarset_spec_strategy_rollingupdate_max_unavailable");
    assert_eq!(budget, [format!("{one}}} 2")]);
    let generations = ["spec_metadata_generation", "metadata_generation"];
    assert!(
        generations
            .iter()
            .all(|family| samples(&text, &format!("kruise_sidecarset_{family}")).len() == 1)
    );
}

#[test]
fn given_a_broadcast_job_then_a_share_of_nodes_shows_as_zero_and_no_limit_as_zero() {
    let job = |spec| page::<api::broadcastjob::v1beta1::BroadcastJob>(spec, json!({"phase": "running", "desired": 3}));
    let parallelism = |spec| samples(&job(spec), "kruise_broadcastjob_spec_parallelism").concat();
    assert!(parallelism(json!({"parallelism": 4})).ends_with(" 4"));
    assert!(parallelism(json!({"parallelism": "20%"})).ends_with(" 0"));
    assert_eq!(parallelism(json!({})), "");
    let text = job(json!({"completionPolicy": {"type": "Always"}}));
    let type_ = samples(&text, "kruise_broadcastjob_spec_strategy_type");
    assert!(type_[0].ends_with("strategy_type=\"Always\"} 1"), "{type_:?}");
    for family in ["spec_strategy_ttl_seconds", "spec_strategy_activedeadline_seconds"] {
        assert!(samples(&text, &format!("kruise_broadcastjob_{family}"))[0].ends_with(" 0"));
    }
    let running = samples(&text, "kruise_broadcastjob_status_phase");
    assert!(
        running.iter().any(|sample| sample.ends_with("phase=\"running\"} 1")),
        "{running:?}"
    );
}

#[test]
fn given_a_workload_spread_then_subsets_are_told_by_name_as_numbers() {
    let subsets = json!([{"name": "a", "replicas": 3, "missingReplicas": 0}, {"name": "b", "replicas": 3, "missingReplicas": -1}]);
    let text = page::<api::workloadspread::v1beta1::WorkloadSpread>(json!({}), json!({ "subsetStatuses": subsets }));
    let one = "namespace=\"default\",workloadspread=\"sample\"";
    assert_eq!(
        samples(&text, "kruise_workloadspread_status_subset_replicas"),
        ["a", "b"].map(|name| format!("{one},replicas=\"3\",subset=\"{name}\"}} 3"))
    );
    assert_eq!(
        samples(&text, "kruise_workloadspread_status_subset_replicas_missing"),
        [("a", 0), ("b", -1)]
            .map(|(name, count)| format!("{one},missingreplicas=\"{count}\",subset=\"{name}\"}} {count}"))
    );
}

#[test]
fn given_a_recreate_request_then_containers_are_counted_by_phase() {
    let states = json!([{"name": "a", "phase": "Succeeded"}, {"name": "b", "phase": "Recreating"}, {"name": "c", "phase": "Succeeded"}]);
    let status = json!({"phase": "Recreating", "containerRecreateStates": states});
    let text =
        page::<api::containerrecreaterequest::v1beta1::ContainerRecreateRequest>(json!({"podName": "p"}), status);
    for (family, value) in [
        ("containers_pending", 0),
        ("containers_recreating", 1),
        ("containers_succeeded", 2),
        ("containers_failed", 0),
        ("pending", 0),
        ("recreating", 1),
        ("completed", 0),
    ] {
        let found = samples(&text, &format!("kruise_containerrecreaterequest_{family}"));
        assert!(
            found.len() == 1 && found[0].ends_with(&format!("}} {value}")),
            "{family}: {found:?}"
        );
    }
}

#[test]
fn given_an_object_of_any_kind_then_its_page_is_strict_however_little_or_much_it_says() {
    for (spec, status) in [
        (json!({}), Value::Null),
        (json!({}), json!({})),
        (
            json!({"replicas": -1, "parallelism": "x%", "template": null, "images": null, "probes": null}),
            json!({"conditions": [{}], "phase": "new"}),
        ),
    ] {
        let told = |text: String| assert!(text.contains("{namespace=\"default\","), "{text}");
        told(lenient::<api::advancedcronjob::v1beta1::AdvancedCronJob>(
            &spec, &status,
        ));
        told(lenient::<api::broadcastjob::v1beta1::BroadcastJob>(&spec, &status));
        told(lenient::<CloneSet>(&spec, &status));
        told(lenient::<
            api::containerrecreaterequest::v1beta1::ContainerRecreateRequest,
        >(&spec, &status));
        told(lenient::<api::daemonset::v1beta1::DaemonSet>(&spec, &status));
        told(lenient::<api::ephemeraljob::v1alpha1::EphemeralJob>(
            &json!({}),
            &status,
        ));
        told(lenient::<api::imagelistpulljob::v1beta1::ImageListPullJob>(
            &spec, &status,
        ));
        told(lenient::<api::imagepulljob::v1beta1::ImagePullJob>(&spec, &status));
        told(lenient::<api::nodeimage::CachedNodeImage>(&json!({}), &status));
        told(lenient::<api::nodepodprobe::CachedNodePodProbe>(&spec, &status));
        told(lenient::<api::persistentpodstate::v1beta1::PersistentPodState>(
            &spec, &status,
        ));
        told(lenient::<api::podprobemarker::v1alpha1::PodProbeMarker>(&spec, &status));
        told(lenient::<api::podunavailablebudget::v1beta1::PodUnavailableBudget>(
            &spec, &status,
        ));
        told(lenient::<api::resourcedistribution::v1beta1::ResourceDistribution>(
            &spec, &status,
        ));
        told(lenient::<SidecarSet>(&spec, &status));
        told(lenient::<StatefulSet>(&spec, &status));
        told(lenient::<api::uniteddeployment::v1beta1::UnitedDeployment>(
            &spec, &status,
        ));
        told(lenient::<api::workloadspread::v1beta1::WorkloadSpread>(&spec, &status));
    }
}

/// The strict page of an object whose values need not be readable.
fn lenient<K: super::super::Sampled + serde::de::DeserializeOwned>(spec: &Value, status: &Value) -> String {
    let object = json!({"metadata": {"name": "sample", "namespace": "default"}, "spec": spec, "status": status});
    let (text, _) = page_of::<K>(Options::default(), &[object]);
    strict::check(&text);
    text
}

#[test]
fn given_the_kinds_that_had_no_families_then_their_counts_are_told() {
    let budget = page::<api::podunavailablebudget::v1beta1::PodUnavailableBudget>(
        json!({"maxUnavailable": "30%"}),
        json!({"unavailableAllowed": 2, "currentAvailable": 8, "desiredAvailable": 6, "totalReplicas": 8, "disruptedPods": {"a": "2024-01-01T00:00:00Z"}}),
    );
    let united = page::<api::uniteddeployment::v1beta1::UnitedDeployment>(
        json!({"replicas": 4}),
        json!({"replicas": 4, "subsetStatuses": [{"name": "zone-a", "replicas": 4, "readyReplicas": 3}]}),
    );
    let image = page::<api::imagepulljob::v1beta1::ImagePullJob>(
        json!({"image": "nginx:1"}),
        json!({"desired": 3, "succeeded": 2, "startTime": "2023-11-14T22:13:20Z"}),
    );
    let cron = page::<api::advancedcronjob::v1beta1::AdvancedCronJob>(
        json!({"schedule": "* * * * *", "paused": true}),
        json!({"type": "BroadcastJob", "active": [{}]}),
    );
    let probes = page::<api::nodepodprobe::CachedNodePodProbe>(
        json!({}),
        json!({"podProbeStatuses": [{"name": "p", "probeStates": [{"name": "a", "state": "Failed"}, {"name": "b", "state": "Failed"}]}]}),
    );
    for (text, line) in [
        (&budget, "kruise_podunavailablebudget_status_unavailable_allowed{} 2"),
        (&budget, "kruise_podunavailablebudget_status_disrupted_pods{} 1"),
        (
            &budget,
            "kruise_podunavailablebudget_spec_max_unavailable{max_unavailable=\"30%\"} 1",
        ),
        (
            &united,
            "kruise_uniteddeployment_status_subset_replicas_ready{subset=\"zone-a\"} 3",
        ),
        (&image, "kruise_imagepulljob_status_succeeded{} 2"),
        (&image, "kruise_imagepulljob_status_start_time{} 1700000000"),
        (&cron, "kruise_advancedcronjob_spec_paused{} 1"),
        (&cron, "kruise_advancedcronjob_status_active{} 1"),
        (&probes, "kruise_nodepodprobe_status_probes{state=\"Failed\"} 2"),
    ] {
        let (family, wanted) = line.split_once('{').expect("a sample");
        let found = samples(text, family);
        let own: Vec<_> = found
            .iter()
            .map(|sample| {
                let labels = sample.splitn(3, ',').nth(2);
                labels.map_or_else(|| sample[sample.find('}').expect("an end")..].to_owned(), str::to_owned)
            })
            .collect();
        assert!(own.iter().any(|own| own == wanted), "{line}: {found:?}");
    }
}
