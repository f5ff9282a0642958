//! A WorkloadSpread on its way into the cluster: [`validate`](super::validate). Nothing is defaulted.

use kruise_api::configuration::{Configuration, CustomWorkload};
use kruise_api::kind::Kind as _;
use kruise_api::raw::Raw;
use kruise_api::read::{ReadError, from_slice};
use kruise_api::workloadspread::{v1alpha1, v1beta1};
use serde_json::Value;

use super::validate::Known;
use super::{Submitted, related, validate};
use crate::admission::{self, Admit, Env, Lookups, Needs, ObjectRef, Refusal, Template, Version};
use crate::field_error::{FieldError, Path};
use crate::shared::strategic_merge;
use crate::shared::tree::Object;
use crate::shared::validate::pod_template::with_claims;
use crate::shared::workload::WorkloadRef;

const OTHERS: ObjectRef = ObjectRef::AllOf(v1beta1::WorkloadSpread::RESOURCE);

impl Admit for Submitted {
    fn read(json: &[u8], version: Version) -> Result<Self, ReadError> {
        match version {
            Version::V1beta1 => from_slice(json),
            Version::V1alpha1 => {
                let old: admission::Submitted<v1alpha1::WorkloadSpreadSpec> = from_slice(json)?;
                Ok(Self {
                    metadata: old.metadata,
                    spec: in_new_words(old.spec),
                })
            }
        }
    }

    fn default(_: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        Ok(())
    }

    fn needs_to_validate(&self, _: Option<&Self>, _: &Env, _: &Lookups) -> Needs {
        let target = self.spec.target_ref.as_ref().map(WorkloadRef::from);
        let has_patch = self.spec.subsets.iter().any(|subset| !subset.patch.is_empty());
        let workload = target.as_ref().filter(|target| has_patch && is_checked(target));
        let list = target.as_ref().filter(|target| !related::is_known(target));
        let workload = workload.map(|target| ObjectRef::Workload(target.clone()));
        Needs {
            objects: workload
                .into_iter()
                .chain(list.map(|_| ObjectRef::Configuration))
                .chain([OTHERS])
                .collect(),
            ..Needs::default()
        }
    }

    const LOOKS_UP_TEMPLATES: bool = true;

    fn templates_of_others(&self, old: Option<&Self>, found: &Lookups) -> Vec<Template> {
        let target = self.spec.target_ref.as_ref().map(WorkloadRef::from);
        let workload = target.and_then(|target| found.object(&ObjectRef::Workload(target)).ok().flatten());
        let Some(template) = workload.and_then(template_of) else {
            return Vec::new();
        };
        let is_new = |name: &str, patch: &Value| {
            let mut before = old.iter().flat_map(|old| &old.spec.subsets);
            !before.any(|subset| subset.name == name && subset.patch.value() == *patch)
        };
        let subsets = self.spec.subsets.iter().enumerate();
        let patched = subsets.filter_map(|(index, subset)| {
            let patch = subset.patch.value();
            if patch.is_null() || !is_new(&subset.name, &patch) {
                return None;
            }
            let mut template = Value::Object(template.clone());
            // What cannot be applied is told by itself.
            strategic_merge::apply(&mut template, &patch).ok()?;
            let template = template.as_object()?.clone();
            let path = Path::new("spec").child("subsets").index(index).child("patch");
            Some(Template { path, template })
        });
        patched.collect()
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        let unread = |what: &str, reason: &str| Refusal::new(400, format!("{what} could not be read: {reason}"));
        let others = found
            .items(&OTHERS)
            .map_err(|reason| unread("other WorkloadSpreads of the namespace", reason))?;
        // One that cannot be read is no reason to refuse another.
        let others: Vec<Self> = others
            .filter_map(|one| serde_json::from_value(one.clone()).ok())
            .collect();
        let custom = custom_workloads(found);
        let known = Known {
            others: &others,
            custom: custom.as_deref().map_err(Clone::clone),
        };
        let mut errors = validate::validate(self, &known);
        errors.extend(unmergeable(self));
        errors.extend(found.template.iter().map(without_spec));
        errors.into_result()
    }

    fn validate_update(&self, old: &Self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        if let Some(error) = validate::forbidden(self, old) {
            return Err(error.into());
        }
        self.validate(env, found)
    }
}

/// The white list; empty where it was not asked for.
fn custom_workloads(found: &Lookups) -> Result<Vec<CustomWorkload>, String> {
    if !found.objects.contains_key(&ObjectRef::Configuration) {
        return Ok(Vec::new());
    }
    let map = found.object(&ObjectRef::Configuration).map_err(str::to_owned)?;
    let data = map.and_then(|map| serde_json::from_value(map.get("data")?.clone()).ok());
    let configuration = Configuration::read(&data.unwrap_or_default());
    configuration.workload_spread.map_err(|error| error.to_string())
}

/// Kinds whose Pod templates are checked with the patches.
fn is_checked(target: &WorkloadRef) -> bool {
    related::is_known(target) && (target.kind != "StatefulSet" || target.group() == "apps")
}

fn template_of(workload: &Value) -> Option<Object> {
    let template = Raw::from_value(workload.pointer("/spec/template")?);
    let claims = workload.pointer("/spec/volumeClaimTemplates").unwrap_or(&Value::Null);
    Some(with_claims(&template, &Raw::from_value(claims)))
}

/// Patches that are none.
fn unmergeable(new: &Submitted) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, subset) in new.spec.subsets.iter().enumerate() {
        let patch = subset.patch.value();
        let merged = strategic_merge::apply(&mut Value::Object(Object::new()), &patch);
        // Of one that is no object that has been told.
        if let Some(error) = merged.err().filter(|_| patch.is_object()) {
            let path = Path::new("spec").child("subsets").index(index).child("patch");
            let detail = format!("failed to merge patch: {error}");
            errors.push(FieldError::invalid(&path, subset.patch.json(), &detail));
        }
    }
    errors
}

/// The API server names fields of a whole template, users know those of a Pod's spec.
fn without_spec(error: &FieldError) -> FieldError {
    FieldError {
        path: error.path.replacen(".patch.spec.", ".patch.", 1),
        ..error.clone()
    }
}

fn in_new_words(old: v1alpha1::WorkloadSpreadSpec) -> v1beta1::WorkloadSpreadSpec {
    let subset = |old: v1alpha1::WorkloadSpreadSubset| v1beta1::WorkloadSpreadSubset {
        name: old.name,
        required_node_selector: old.required_node_selector_term,
        preferred_node_selector: old.preferred_node_selector_terms,
        tolerations: old.tolerations,
        max_replicas: old.max_replicas,
        patch: old.patch,
    };
    v1beta1::WorkloadSpreadSpec {
        target_ref: old.target_ref,
        target_filter: old.target_filter,
        subsets: old.subsets.into_iter().map(subset).collect(),
        schedule_strategy: old.schedule_strategy,
    }
}
