//! The template of the workloads.
//!
//! | | StatefulSet | StatefulSet of this API | CloneSet | Deployment |
//! |---|---|---|---|---|
//! | labels of the workload and of its Pods match the selector | yes | yes | no | yes |
//! | `replicas` is not set | yes | yes | no | yes |
//! | `partition` of a rolling update is not set | yes | yes | no | – |
//! | policies have words that are known | yes | no | no | no |
//! | Pods are restarted always and have no deadline of their own | yes | no | no | yes |
//! | containers are well formed | no | no | no | by the API server |
//! | can be changed in all | no | no | yes | yes |

use kruise_api::raw::PodTemplate;
use kruise_api::uniteddeployment::{UnitedDeploymentSpec, WorkloadTemplate};
use serde_json::{Map, Value, json};

use crate::field_error::{FieldError, Path};
use crate::shared::selector;
use crate::shared::tree::Object;
use crate::shared::validate::pod_template;
use crate::uniteddeployment::WorkloadKind;

/// What is wrong with the template at `path`; labels are not looked at when the selector cannot match anything.
pub(super) fn validate(spec: &UnitedDeploymentSpec, can_match: bool, path: &Path) -> Vec<FieldError> {
    let given = serde_json::to_value(&spec.template).unwrap_or_default();
    let kinds: Vec<WorkloadKind> = kinds(&given);
    let one_of = "statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate, or deploymentTemplate";
    let kind = match kinds.as_slice() {
        [] => return vec![FieldError::required(path, &format!("should provide one of {one_of}"))],
        [kind] => *kind,
        several => {
            let fields: Vec<&str> = several.iter().map(|kind| kind.field()).collect();
            let detail = format!("should provide only one of {one_of}");
            return vec![FieldError::invalid(path, json!(fields), &detail)];
        }
    };
    let path = path.child(kind.field());
    let template = given.get(kind.field()).unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    if kind == WorkloadKind::CloneSet {
        return errors;
    }
    let at = path.child("spec");
    if can_match {
        let labels = |pointer: &str| {
            let labels = template.pointer(pointer).and_then(Value::as_object);
            labels.cloned().unwrap_or_default()
        };
        let pod = at.child("template");
        for (labels, at) in [
            (labels("/metadata/labels"), &path),
            (labels("/spec/template/metadata/labels"), &pod),
        ] {
            errors.extend(mismatch(spec, labels, &at.child("metadata").child("labels")));
        }
    }
    if let Some(replicas) = template
        .pointer("/spec/replicas")
        .filter(|replicas| !replicas.is_null())
    {
        let detail = format!("replicas in {} will not be used", kind.field());
        errors.push(FieldError::invalid(&at.child("replicas"), replicas.clone(), &detail));
    }
    if kind != WorkloadKind::Deployment {
        errors.extend(partition(template, kind, &at));
    }
    if kind == WorkloadKind::StatefulSet {
        errors.extend(stateful_set(template, &at));
        errors.extend(pods(
            template,
            "activeDeadlineSeconds in StatefulSet is not Supported",
            &at,
        ));
    }
    if kind == WorkloadKind::Deployment {
        // Kubernetes has one rule for both.
        errors.extend(pods(
            template,
            "activeDeadlineSeconds in ReplicaSet is not Supported",
            &at,
        ));
    }
    errors
}

fn kinds(given: &Value) -> Vec<WorkloadKind> {
    let is_given = |kind: &WorkloadKind| given.get(kind.field()).is_some_and(|template| !template.is_null());
    WorkloadKind::ALL.into_iter().filter(is_given).collect()
}

fn mismatch(spec: &UnitedDeploymentSpec, labels: Object, at: &Path) -> Option<FieldError> {
    let matches = selector::matches(&spec.selector, |key| labels.get(key).and_then(Value::as_str));
    let detail = "`selector` does not match template `labels`";
    (!matches).then(|| FieldError::invalid(at, Value::Object(labels), detail))
}

fn partition(template: &Value, kind: WorkloadKind, at: &Path) -> Option<FieldError> {
    let strategy = template.pointer("/spec/updateStrategy")?;
    let type_ = strategy.get("type").and_then(Value::as_str).unwrap_or_default();
    let partition = strategy.pointer("/rollingUpdate/partition")?;
    if partition.is_null() || !matches!(type_, "" | "RollingUpdate") {
        return None;
    }
    let detail = format!("partition in {} will not be used", kind.field());
    let at = at.child("updateStrategy").child("rollingUpdate").child("partition");
    Some(FieldError::invalid(&at, partition.clone(), &detail))
}

/// What Kubernetes says of a StatefulSet, but for the containers of its Pods.
fn stateful_set(template: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let policy = text("/spec/podManagementPolicy");
    if !matches!(policy, "" | "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid(&at.child("podManagementPolicy"), policy, detail));
    }
    let type_ = text("/spec/updateStrategy/type");
    if !matches!(type_, "" | "RollingUpdate" | "OnDelete") {
        let given = template.pointer("/spec/updateStrategy").cloned().unwrap_or_default();
        let detail = "must be 'RollingUpdate' or 'OnDelete'";
        errors.push(FieldError::invalid(&at.child("updateStrategy"), given, detail));
    }
    let retention = at.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let word = text(&format!("/spec/persistentVolumeClaimRetentionPolicy/{field}"));
        if !matches!(word, "" | "Retain" | "Delete") {
            errors.push(FieldError::not_supported(
                &retention.child(field),
                word,
                &["Retain", "Delete"],
            ));
        }
    }
    for (field, pointer, at) in [
        ("minReadySeconds", "/spec/minReadySeconds", at.clone()),
        ("start", "/spec/ordinals/start", at.child("ordinals")),
    ] {
        let number = template.pointer(pointer).and_then(Value::as_i64);
        if let Some(number) = number.filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&at.child(field), number, detail));
        }
    }
    errors
}

/// What is asked of Pods that have to run for ever.
fn pods(template: &Value, if_deadline: &str, at: &Path) -> Vec<FieldError> {
    let pod = PodTemplate::from_value(template.pointer("/spec/template").unwrap_or(&Value::Null));
    pod_template::validate(&pod, &at.child("template"), if_deadline)
}

/// Changes of the templates of StatefulSets that are not allowed; of another kind each may be.
pub(super) fn unchanged(new: &WorkloadTemplate, old: &WorkloadTemplate, path: &Path) -> Vec<FieldError> {
    let read = |template: &WorkloadTemplate| serde_json::to_value(template).unwrap_or_default();
    let (new, old) = (read(new), read(old));
    let rules: [(WorkloadKind, &[&str], &str); 2] = [
        (
            WorkloadKind::StatefulSet,
            &[
                "template",
                "updateStrategy",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
                "ordinals",
            ],
            "updates to statefulsetTemplate spec for fields other than 'template', 'updateStrategy', 'persistentVolumeClaimRetentionPolicy', \
             'minReadySeconds' and 'ordinals' are forbidden",
        ),
        (
            WorkloadKind::AdvancedStatefulSet,
            &["template", "updateStrategy"],
            "updates to advancedStatefulsetTemplate spec for fields other than 'template', and 'updateStrategy' are forbidden",
        ),
    ];
    let mut errors = Vec::new();
    for (kind, free, detail) in rules {
        let fixed = |template: &Value| {
            let spec = template.pointer(&format!("/{}/spec", kind.field()))?.as_object()?;
            let fields = spec
                .iter()
                .filter(|(field, value)| !free.contains(&field.as_str()) && !is_blank(value));
            Some(
                fields
                    .map(|(field, value)| (field.clone(), value.clone()))
                    .collect::<Map<_, _>>(),
            )
        };
        if let (Some(new), Some(old)) = (fixed(&new), fixed(&old))
            && new != old
        {
            let at = path.child(kind.field()).child("spec");
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    errors
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
