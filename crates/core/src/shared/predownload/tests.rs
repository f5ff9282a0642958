use super::*;
use crate::plan::Plan;
use crate::shared::fixture::a_revision;
use kruise_api::meta::{PartialObject, Uid};
use std::sync::Arc;

fn template(main: &str, side: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "pre"}, "annotations": {"example.com/a": "b"}},
        "spec": {"containers": [{"name": "main", "image": main}, {"name": "side", "image": side}], "imagePullSecrets": [{"name": "s"}]},
    })
}

fn owner() -> Owner {
    Owner {
        api_version: "apps.kruise.io/v1beta1".into(),
        kind: "CloneSet".into(),
        name: "pre".into(),
        uid: "u-1".into(),
    }
}

struct Case {
    owner: Owner,
    selector: LabelSelector,
    current: ControllerRevision,
    update: ControllerRevision,
}

fn case() -> Case {
    Case {
        owner: owner(),
        selector: serde_json::from_value(json!({"matchLabels": {"app": "pre"}})).unwrap(),
        current: a_revision("pre-old", &template("busybox:1.35", "x:1")),
        update: a_revision("pre-7bc685bd97", &template("busybox:1.36", "x:1")),
    }
}

impl Case {
    fn rollout<'a>(&'a self, old: &'a [&'a ControllerRevision]) -> Rollout<'a> {
        Rollout {
            owner: &self.owner,
            namespace: "ns",
            selector: &self.selector,
            old,
            update: &self.update,
            stays_on_nodes: true,
            few: 3,
            replicas: 5,
            partition: 0,
            max_unavailable: 1,
            updated_ready: 0,
            min_updated_ready: 0,
            parallelism: None,
            timeout_seconds: None,
        }
    }
}

#[test]
fn given_a_rollout_in_steps_then_one_job_per_changed_image_is_made() {
    let case = case();
    let old = [&case.current];
    let two = IntOrPercent::Int(2);
    let rollout = Rollout {
        parallelism: Some(&two),
        ..case.rollout(&old)
    };
    let Predownload::Create { jobs, label } = predownload(&rollout) else {
        panic!("worth it")
    };
    assert_eq!(
        label,
        json!({"metadata": {"labels": {"apps.kruise.io/pre-predownload-created": "true"}}})
    );
    assert_eq!(jobs.len(), 1);
    assert_eq!(
        (&*jobs[0].name, &*jobs[0].image),
        ("pre-7bc685bd97-main", "busybox:1.36")
    );
    let labels = json!({"app": "pre", "controller.kubernetes.io/hash": "7bc685bd97"});
    assert_eq!(
        jobs[0].object,
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
            "metadata": {"name": "pre-7bc685bd97-main", "namespace": "ns", "labels": labels, "ownerReferences": [
                {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "pre", "uid": "u-1", "controller": true, "blockOwnerDeletion": true}]},
            "spec": {
                "image": "busybox:1.36",
                "pullSecrets": ["s"],
                "podSelector": {"matchLabels": {"app": "pre"}, "matchExpressions": [
                    {"key": "controller-revision-hash", "operator": "NotIn", "values": ["pre-7bc685bd97", "7bc685bd97"]}]},
                "parallelism": 2,
                "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": 300},
                "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
                "sandboxConfig": {"labels": labels, "annotations": {"example.com/a": "b"}},
            },
        })
    );
    assert!(serde_json::from_value::<ImagePullJob>(jobs[0].object.clone()).is_ok());
}

#[test]
fn given_a_rollout_that_is_over_soon_then_it_is_never_asked_again() {
    let case = case();
    let old = [&case.current];
    let base = case.rollout(&old);
    let ignored = Predownload::Ignore {
        label: json!({"metadata": {"labels": {"apps.kruise.io/image-predownload-ignored": "true"}}}),
    };
    for (line, rollout) in [
        (
            1,
            Rollout {
                replicas: 3,
                ..base.clone()
            },
        ),
        (
            2,
            Rollout {
                stays_on_nodes: false,
                ..base.clone()
            },
        ),
        (
            3,
            Rollout {
                max_unavailable: 5,
                ..base.clone()
            },
        ),
    ] {
        assert_eq!(predownload(&rollout), ignored, "line {line}");
    }
    let partitioned = Rollout {
        max_unavailable: 5,
        partition: 1,
        ..base
    };
    assert!(matches!(predownload(&partitioned), Predownload::Create { .. }));
}

#[test]
fn given_updated_pods_are_asked_for_then_it_waits_for_them() {
    let case = case();
    let old = [&case.current];
    let waiting = Rollout {
        min_updated_ready: 2,
        updated_ready: 1,
        ..case.rollout(&old)
    };
    assert_eq!(predownload(&waiting), Predownload::Wait);
    assert!(matches!(
        predownload(&Rollout {
            updated_ready: 2,
            ..waiting
        }),
        Predownload::Create { .. }
    ));
}

#[test]
fn given_a_labelled_revision_then_nothing_is_decided_again() {
    for key in [
        "apps.kruise.io/pre-predownload-created",
        "apps.kruise.io/image-predownload-ignored",
    ] {
        let mut case = case();
        case.update.metadata = serde_json::from_value(json!({"name": "pre-1", "labels": {(key): "true"}})).unwrap();
        let old = [&case.current];
        assert_eq!(
            predownload(&Rollout {
                replicas: 1,
                ..case.rollout(&old)
            }),
            Predownload::Decided
        );
    }
}

#[test]
fn given_revisions_without_templates_then_there_are_no_jobs() {
    let mut case = case();
    case.update = serde_json::from_value(json!({"metadata": {"name": "pre-1"}})).unwrap();
    let old = [&case.current];
    let Predownload::Create { jobs, .. } = predownload(&case.rollout(&old)) else {
        panic!("worth it")
    };
    assert_eq!(jobs, []);
}

#[test]
fn given_several_old_revisions_then_an_image_that_differs_from_any_is_pulled() {
    let case = case();
    let other = a_revision("pre-older", &template("busybox:1.36", "x:0"));
    let old = [&case.current, &other];
    let rollout = Rollout {
        replicas: 2,
        few: 0,
        ..case.rollout(&old)
    };
    let Predownload::Create { jobs, .. } = predownload(&rollout) else {
        panic!("worth it")
    };
    let names: Vec<_> = jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(names, ["pre-7bc685bd97-main", "pre-7bc685bd97-side"]);
    let at_once = Rollout {
        max_unavailable: 2,
        ..rollout
    };
    assert!(matches!(predownload(&at_once), Predownload::Ignore { .. }));
}

#[test]
fn given_all_pods_are_updated_then_the_workloads_own_jobs_go() {
    let job = |name: &str, uid: &str, controller: bool| -> Arc<PartialObject> {
        let owner = json!({"apiVersion": "v", "kind": "k", "name": "n", "uid": uid, "controller": controller});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": [owner]}})).unwrap())
    };
    let jobs = [
        job("a", "u-1", true),
        job("b", "u-2", true),
        job("c", "u-1", false),
        Arc::default(),
    ];
    let mut plan = Plan::default();
    clean_up(&jobs, &Uid::from("u-1"), &mut plan);
    let gone: Vec<&str> = plan.writes().map(|action| &*action.object().name).collect();
    assert_eq!(gone, ["a"]);
}
