//! What is written into a CloneSet where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `replicas` | 1 |
//! | `revisionHistoryLimit` | 10 |
//! | update `type` | `RollingUpdate` (v1alpha1: `ReCreate`) |
//! | `podUpdatePolicy` (v1beta1) | `ReCreate` |
//! | `partition`, `maxUnavailable`, `maxSurge` | 0, `20%`, 0; not for `OnDelete` |
//! | `inPlaceUpdateStrategy` | an empty one, when Pods are updated in place |
//! | Pod and claim templates | see [`crate::pod_template`] |
//!
//! Templates are completed when the object is new or its Pod template has changed, and otherwise left alone: a default that a
//! release adds must not make a new revision of a workload that nobody touched. Gate `TemplateNoDefaults` leaves them alone always.
//!
//! One thing is taken out of a template: `$patch`, a directive for patches. The data of revisions has it, and whoever sends these as a merge patch
//! (`rollout undo` of the existing plugin does) would have it stored.
//!
//! All of it works on the JSON as it came. Fields nobody knows stay; a value of a wrong type is left for the API server to refuse.

use crate::admission::Version;
use crate::pod_template;
use crate::shared::revision;
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};
use kruise_api::gates::Gates;
use serde_json::{Value, json};

/// Completes a CloneSet; `old` is what it was before an update.
pub fn default(object: &mut Object, old: Option<&Object>, version: Version, gates: Gates) {
    let old = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    if let Some(template) = child(spec, "template") {
        template.remove(revision::DIRECTIVE);
    }
    let mut wrote = fields(spec, version);
    if !is_template_new(spec, old) {
        return;
    }
    wrote |= templates(spec, gates);
    if wrote {
        artefacts(spec);
    }
}

/// Writes the defaults of the kind's own fields. Says whether there was anything to write.
fn fields(spec: &mut Object, version: Version) -> bool {
    let mut wrote = fill(spec, "replicas", json!(1));
    wrote |= fill(spec, "revisionHistoryLimit", json!(10));
    // The API server completes what is inside, where the object is there.
    wrote |= fill(spec, "scaleStrategy", json!({}));
    wrote |= fill(spec, "updateStrategy", json!({}));
    let Some(update) = child(spec, "updateStrategy") else {
        return wrote;
    };
    match version {
        Version::V1alpha1 => {
            wrote |= fill(update, "type", json!("ReCreate"));
            wrote | rolling(update, "type")
        }
        Version::V1beta1 => {
            wrote |= fill(update, "type", json!("RollingUpdate"));
            if update.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
                return wrote;
            }
            wrote |= fill(update, "rollingUpdate", json!({}));
            let Some(rules) = child(update, "rollingUpdate") else {
                return wrote;
            };
            wrote |= fill(rules, "podUpdatePolicy", json!("ReCreate"));
            wrote | rolling(rules, "podUpdatePolicy")
        }
    }
}

fn rolling(rules: &mut Object, policy: &str) -> bool {
    let mut wrote = fill(rules, "partition", json!(0));
    wrote |= fill_missing(rules, "maxUnavailable", json!("20%"));
    wrote |= fill_missing(rules, "maxSurge", json!(0));
    let policy = rules.get(policy).and_then(Value::as_str);
    if matches!(policy, Some("InPlaceIfPossible" | "InPlaceOnly")) {
        wrote |= fill(rules, "inPlaceUpdateStrategy", json!({}));
    }
    wrote
}

fn is_template_new(spec: &Object, old: Option<&Object>) -> bool {
    let normal = |spec: &Object| {
        let template = spec.get("template").and_then(Value::as_object);
        let mut template = template.cloned().unwrap_or_default();
        template.remove(revision::DIRECTIVE);
        pod_template::artefacts(&mut template);
        template
    };
    old.is_none_or(|old| normal(spec) != normal(old))
}

/// Writes the defaults of the templates. Says whether there was anything to write.
fn templates(spec: &mut Object, gates: Gates) -> bool {
    let mut wrote = fill_missing(spec, "template", json!({}));
    if let Some(template) = child(spec, "template") {
        wrote |= fill_missing(template, "spec", json!({}));
        wrote |= pod_template::default(template, gates);
    }
    for claim in claims(spec) {
        wrote |= pod_template::default_claim(claim, gates);
    }
    wrote
}

fn artefacts(spec: &mut Object) {
    if let Some(template) = child(spec, "template") {
        pod_template::artefacts(template);
    }
    for claim in claims(spec) {
        pod_template::claim_artefacts(claim);
    }
}

fn claims(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    claims.into_iter().flatten().filter_map(Value::as_object_mut)
}
