//! The templates of a workload, of Pods and of claims, as its defaults are written.
//!
//! Templates are completed when the object is new or its Pod template has changed, and otherwise left alone: a default that a release adds must not make a new
//! revision of a workload that nobody touched. Gate `TemplateNoDefaults` leaves them alone always.
//!
//! One thing is taken out of a template: `$patch`, a directive for patches. The data of revisions has it, and whoever sends these as a merge patch (`rollout undo`
//! of the existing plugin does) would have it stored.

use crate::shared::revision;
use crate::shared::tree::{Object, child, fill_missing};
use kruise_api::gates::Gates;
use serde_json::{Value, json};

/// Takes the directive out of the Pod template.
pub fn drop_directive(spec: &mut Object) {
    if let Some(template) = child(spec, "template") {
        template.remove(revision::DIRECTIVE);
    }
}

/// Completes the templates in a workload's spec; `old` is the spec before an update, and `wrote` whether other defaults were written.
pub fn default(spec: &mut Object, old: Option<&Object>, mut wrote: bool, gates: Gates) {
    if !is_template_new(spec, old) {
        return;
    }
    wrote |= templates(spec, gates);
    if wrote {
        artefacts(spec);
    }
}

fn is_template_new(spec: &Object, old: Option<&Object>) -> bool {
    let normal = |spec: &Object| {
        let template = spec.get("template").and_then(Value::as_object);
        let mut template = template.cloned().unwrap_or_default();
        template.remove(revision::DIRECTIVE);
        super::artefacts(&mut template);
        template
    };
    old.is_none_or(|old| normal(spec) != normal(old))
}

/// Writes the defaults of the templates. Says whether there was anything to write.
fn templates(spec: &mut Object, gates: Gates) -> bool {
    let mut wrote = fill_missing(spec, "template", json!({}));
    if let Some(template) = child(spec, "template") {
        wrote |= fill_missing(template, "spec", json!({}));
        wrote |= super::default(template, gates);
    }
    for claim in claims(spec) {
        wrote |= super::default_claim(claim, gates);
    }
    wrote
}

fn artefacts(spec: &mut Object) {
    if let Some(template) = child(spec, "template") {
        super::artefacts(template);
    }
    for claim in claims(spec) {
        super::claim_artefacts(claim);
    }
}

fn claims(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    claims.into_iter().flatten().filter_map(Value::as_object_mut)
}
