use super::super::{Budgets, Env, Missing, PersistentPodStates, PodError, ProbeMarkers, SidecarSets, mutate};
use super::*;
use crate::admission::ObjectRef;
use crate::json_patch;
use kruise_api::configuration::GroupVersionKind;
use kruise_api::gates::Gates;
use kruise_api::namespace::Namespace;
use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde_json::{Value, json};

/// A cluster with these spreads and owners.
#[derive(Default)]
struct Cluster {
    spreads: Vec<Arc<WorkloadSpread>>,
    custom: Vec<CustomWorkload>,
    above: BTreeMap<String, Above>,
    placed: Option<Placement>,
}

impl SidecarSets for Cluster {
    fn candidates(&self, _: &str, _: &BTreeMap<&str, &str>) -> Result<Vec<Arc<SidecarSet>>, Missing> {
        Ok(Vec::new())
    }

    fn namespace(&self, _: &str) -> Result<Option<Arc<Namespace>>, Missing> {
        Ok(None)
    }

    fn revision(&self, _: &str) -> Result<Option<Arc<ControllerRevision>>, Missing> {
        Ok(None)
    }

    fn revisions_of(&self, _: &str) -> Result<Vec<Arc<ControllerRevision>>, Missing> {
        Ok(Vec::new())
    }
}

impl Budgets for Cluster {
    fn budgets(&self, _: &str) -> Vec<Arc<PodUnavailableBudget>> {
        Vec::new()
    }

    fn workload_of(&self, _: &str, owner: WorkloadRef) -> WorkloadRef {
        owner
    }
}

impl PersistentPodStates for Cluster {
    fn states_of(&self, _: &str, _: &WorkloadRef) -> Result<Vec<Arc<PersistentPodState>>, Missing> {
        Ok(Vec::new())
    }

    fn listed_workloads(&self) -> Result<Result<Vec<CustomWorkload>, String>, Missing> {
        Ok(Ok(Vec::new()))
    }
}

impl ProbeMarkers for Cluster {
    fn probe_markers(&self, _: &str) -> Result<Vec<Arc<PodProbeMarker>>, Missing> {
        Ok(Vec::new())
    }
}

impl WorkloadSpreads for Cluster {
    fn spreads(&self, namespace: &str) -> Result<Vec<Arc<WorkloadSpread>>, Missing> {
        assert_eq!(namespace, "ns");
        Ok(self.spreads.clone())
    }

    fn custom_workloads(&self) -> Result<Arc<[CustomWorkload]>, Missing> {
        Ok(self.custom.as_slice().into())
    }

    fn above(&self, _: &str, workload: &WorkloadRef) -> Result<Above, Missing> {
        let known = self.above.get(&workload.name).cloned();
        known.ok_or_else(|| Missing(ObjectRef::Workload(workload.clone())))
    }

    fn versioned_kinds(&self) -> VersionedKinds {
        VersionedKinds::read("deployment,replicaset")
    }

    fn placed(&self) -> Option<&Placement> {
        self.placed.as_ref()
    }
}

fn spread(name: &str, target: [&str; 3], more: &Value) -> Arc<WorkloadSpread> {
    let [api_version, kind, workload] = target;
    let mut spec = json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": workload},
        "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let object = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec});
    Arc::new(serde_json::from_value(object).unwrap())
}

fn pod(owner: [&str; 3]) -> Value {
    let [api_version, kind, name] = owner;
    json!({"metadata": {"name": "web-3", "labels": {"app": "web", "pod-template-hash": "7d9c"},
        "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true}]}, "spec": {"containers": []}})
}

fn admitted(pod: &Value, cluster: &Cluster, dry_run: bool) -> Result<String, PodError> {
    let env = Env {
        gates: Gates::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
        chance: 0,
        view: cluster,
        namespace: "ns",
        dry_run,
        name_suffix: "x7k2p",
    };
    let mut after = pod.clone();
    for operation in mutate(&pod.to_string(), &env)? {
        assert!(json_patch::apply(&mut after, &operation), "{operation:?}");
    }
    let matched = &after["metadata"]["annotations"]["apps.kruise.io/matched-workloadspread"];
    Ok(matched.as_str().unwrap_or_default().to_owned())
}

fn asked(pod: &Value, cluster: &Cluster) -> Ask {
    match admitted(pod, cluster, false) {
        Err(PodError::Unplaced(ask)) => *ask,
        other => panic!("{other:?}"),
    }
}

const CLONE_SET: [&str; 3] = ["apps.kruise.io/v1beta1", "CloneSet", "web"];
const REPLICA_SET: [&str; 3] = ["apps/v1", "ReplicaSet", "web-7d9c"];
const DEPLOYMENT: [&str; 3] = ["apps/v1", "Deployment", "web"];
const JOB: [&str; 3] = ["kubeflow.org/v1", "TFJob", "train"];

fn cluster(target: [&str; 3]) -> Cluster {
    Cluster {
        spreads: vec![spread("spread", target, &json!({}))],
        ..Cluster::default()
    }
}

#[test]
fn given_a_pod_of_a_spread_then_a_place_is_asked_for_and_the_answer_put_in() {
    let mut cluster = cluster(["apps.kruise.io/v1alpha1", "CloneSet", "web"]);
    let ask = asked(&pod(CLONE_SET), &cluster);
    assert_eq!(
        (ask.spread.as_str(), ask.version.as_str(), ask.pod.as_str()),
        ("spread", "versionIgnored", "web-3")
    );
    let placed = |subset: Option<&str>| Placement {
        spread: cluster.spreads[0].clone(),
        subset: subset.map(str::to_owned),
        uid: "id".to_owned(),
    };
    let (somewhere, nowhere) = (placed(Some("a")), placed(None));
    cluster.placed = Some(somewhere);
    let matched = admitted(&pod(CLONE_SET), &cluster, false).unwrap();
    assert_eq!(matched, r#"{"name":"spread","subset":"a","uid":"id"}"#);
    cluster.placed = Some(nowhere);
    assert_eq!(admitted(&pod(CLONE_SET), &cluster, false).unwrap(), "");
}

#[test]
fn given_pods_that_have_nothing_to_do_with_a_spread_then_nothing_is_asked() {
    let known = cluster(CLONE_SET);
    let mut ended = pod(CLONE_SET);
    ended["status"] = json!({"phase": "Succeeded"});
    let mut orphan = pod(CLONE_SET);
    orphan["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    let other = pod(["apps.kruise.io/v1beta1", "CloneSet", "other"]);
    let other_group = pod(["apps/v1", "CloneSet", "web"]);
    for pod in [&ended, &orphan, &other, &other_group] {
        assert_eq!(admitted(pod, &known, false).unwrap(), "", "{pod}");
    }
    assert_eq!(admitted(&pod(CLONE_SET), &known, true).unwrap(), "", "a dry run");
    let filtered = |labels: Value| {
        let filter = json!({"targetFilter": {"selector": {"matchLabels": labels}}});
        Cluster {
            spreads: vec![spread("spread", CLONE_SET, &filter)],
            ..Cluster::default()
        }
    };
    assert_eq!(
        admitted(&pod(CLONE_SET), &filtered(json!({"app": "db"})), false).unwrap(),
        ""
    );
    asked(&pod(CLONE_SET), &filtered(json!({"app": "web"})));
    let all = json!({"targetFilter": {"replicasPathList": ["spec.replicas"]}});
    let all = Cluster {
        spreads: vec![spread("spread", CLONE_SET, &all)],
        ..Cluster::default()
    };
    asked(&pod(CLONE_SET), &all);
}

#[test]
fn given_a_deployment_then_the_pods_of_its_replica_sets_are_spread_by_version() {
    let mut known = cluster(DEPLOYMENT);
    assert!(matches!(
        admitted(&pod(REPLICA_SET), &known, false),
        Err(PodError::Missing(_))
    ));
    let [api_version, kind, name] = DEPLOYMENT;
    known.above.insert(
        "web-7d9c".to_owned(),
        Above::Workload(WorkloadRef::new(api_version, kind, name)),
    );
    assert_eq!(asked(&pod(REPLICA_SET), &known).version, "7d9c");
    known.above.insert("web-7d9c".to_owned(), Above::Nothing);
    assert_eq!(admitted(&pod(REPLICA_SET), &known, false).unwrap(), "");
    // Its controller tries again: what made it is not known here yet.
    known.above.insert("web-7d9c".to_owned(), Above::Gone);
    let refused = admitted(&pod(REPLICA_SET), &known, false).unwrap_err();
    assert_eq!(refused.code(), 500);
    assert!(refused.to_string().contains("ReplicaSet web-7d9c"), "{refused}");
}

#[test]
fn given_a_kind_of_the_white_list_then_workloads_between_lead_to_it() {
    let mut known = cluster(JOB);
    let part = ["batch.example.io/v1", "SubJob", "train-0"];
    assert_eq!(admitted(&pod(part), &known, false).unwrap(), "", "not listed");
    let kind = |api_version: &str, kind: &str| GroupVersionKind {
        group: api_version.split('/').next().unwrap().to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    known.custom = vec![CustomWorkload {
        kind: kind(JOB[0], JOB[1]),
        sub_resources: vec![kind(part[0], part[1])],
        replicas_path: String::new(),
    }];
    assert!(matches!(admitted(&pod(part), &known, false), Err(PodError::Missing(_))));
    known.above.insert(
        "train-0".to_owned(),
        Above::Workload(WorkloadRef::new(JOB[0], JOB[1], JOB[2])),
    );
    asked(&pod(part), &known);
    asked(&pod(JOB), &known);
}

#[test]
fn given_ordinals_or_one_subset_without_a_limit_then_nothing_has_to_be_noted() {
    let known = cluster(["apps/v1", "StatefulSet", "web"]);
    let matched = admitted(&pod(["apps/v1", "StatefulSet", "web"]), &known, false).unwrap();
    assert_eq!(matched, r#"{"name":"spread","subset":"b"}"#);
    let only = Cluster {
        spreads: vec![spread("spread", CLONE_SET, &json!({"subsets": [{"name": "all"}]}))],
        ..Cluster::default()
    };
    assert_eq!(
        admitted(&pod(CLONE_SET), &only, false).unwrap(),
        r#"{"name":"spread","subset":"all"}"#
    );
    let bad = json!({"subsets": [{"name": "all", "patch": {"spec": {"containers": [{}]}}}]});
    let bad = Cluster {
        spreads: vec![spread("spread", CLONE_SET, &bad)],
        ..Cluster::default()
    };
    assert_eq!(admitted(&pod(CLONE_SET), &bad, false).unwrap_err().code(), 500);
}
