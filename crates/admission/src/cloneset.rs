//! CloneSets on their way into the cluster.
//!
//! What cannot be read is answered 400, what breaks a rule 422 with all that is wrong, a protected deletion 403. The rules are those of
//! [`kruise_core::cloneset`]. An object that is being deleted can always be released: a change of its metadata alone is not judged.

use crate::{Context, Request, TemplateCheck, Verdict};
use futures::future::BoxFuture;
use kruise_core::{
    cloneset::{
        default::default,
        validate::{Lookups, pods_to_look_up, validate as judge, with_claims},
        version::{Submitted, Version},
    },
    field_error::{FieldError, Path},
    json_patch::diff,
    shared::{tree::Object, validate::deletion_protection},
};
use serde_json::{Value, value::RawValue};

/// `/mutate-apps-kruise-io-cloneset`
pub(crate) fn mutate(request: &Request<'_>, context: &Context) -> Verdict {
    if !matches!(&*request.operation, "CREATE" | "UPDATE") || !is_ours(request) {
        return Verdict::allow();
    }
    complete(request, context).unwrap_or_else(|refusal| refusal)
}

fn complete(request: &Request<'_>, context: &Context) -> Result<Verdict, Verdict> {
    let version = version(request)?;
    let object = request.object.ok_or_else(nothing)?;
    read(object, version)?;
    let before = fields(object)?;
    let old = request.old_object.map(fields).transpose()?;
    let mut after = before.clone();
    default(&mut after, old.as_ref(), version, context.gates);
    Ok(Verdict::change(diff(&Value::Object(before), &Value::Object(after))))
}

/// `/validate-apps-kruise-io-cloneset`
pub(crate) fn validate<'a>(request: &'a Request<'a>, context: &'a Context) -> BoxFuture<'a, Verdict> {
    Box::pin(async move {
        if !is_ours(request) {
            return Verdict::allow();
        }
        let verdict = match &*request.operation {
            "CREATE" | "UPDATE" => check(request, context).await,
            "DELETE" => protect(request, context),
            _ => Ok(Verdict::allow()),
        };
        verdict.unwrap_or_else(|refusal| refusal)
    })
}

async fn check(request: &Request<'_>, context: &Context) -> Result<Verdict, Verdict> {
    let version = version(request)?;
    let new = read(request.object.ok_or_else(nothing)?, version)?;
    let old = request.old_object.map(|old| read(old, version)).transpose()?;
    let old = old.as_ref();
    if old.is_some_and(|old| is_release(&new, old)) {
        return Ok(Verdict::allow());
    }
    let lookups = Lookups {
        template: template_errors(&new, old, request, context).await?,
        pods: context.pods.find(&request.namespace, pods_to_look_up(&new, old)).await,
    };
    let errors = judge(&new, old, &lookups);
    if errors.is_empty() {
        Ok(Verdict::allow())
    } else {
        Err(Verdict::refuse(422, errors.to_string()))
    }
}

/// What the API server finds wrong with the Pod template. One that has not changed is not judged again: Kubernetes may have become stricter since.
async fn template_errors(
    new: &Submitted,
    old: Option<&Submitted>,
    request: &Request<'_>,
    context: &Context,
) -> Result<Vec<FieldError>, Verdict> {
    if old.is_some_and(|old| old.template() == new.template() && old.claims() == new.claims()) {
        return Ok(Vec::new());
    }
    let template = with_claims(new.template(), new.claims());
    let path = Path::new("spec").child("template");
    match context.templates.check_pod(&request.namespace, &template, &path).await {
        TemplateCheck::Good | TemplateCheck::Unchecked(_) => Ok(Vec::new()),
        TemplateCheck::Invalid(errors) => Ok(errors.0),
        TemplateCheck::Malformed(reason) => Err(Verdict::refuse(400, format!("spec.template: {reason}"))),
    }
}

/// Whether an object that is being deleted is changed in its metadata only, as its finalizers are.
fn is_release(new: &Submitted, old: &Submitted) -> bool {
    let same_spec = match (new, old) {
        (Submitted::V1alpha1(new), Submitted::V1alpha1(old)) => new.spec == old.spec,
        (Submitted::V1beta1(new), Submitted::V1beta1(old)) => new.spec == old.spec,
        _ => false,
    };
    same_spec && new.metadata().deletion_timestamp.is_some()
}

fn protect(request: &Request<'_>, context: &Context) -> Result<Verdict, Verdict> {
    // Nobody is kept from deleting what cannot be read.
    let old = request
        .old_object
        .and_then(|old| read(old, version(request).ok()?).ok());
    let refusal = old.and_then(|old| {
        let labels = old.metadata().labels.as_ref();
        deletion_protection::refusal(labels, old.replicas(), context.gates)
    });
    refusal.map_or_else(|| Ok(Verdict::allow()), |reason| Err(Verdict::refuse(403, reason)))
}

fn is_ours(request: &Request<'_>) -> bool {
    let kind = &kruise_api::cloneset::KIND;
    request.is_about(kind.group, kind.plural)
}

fn version(request: &Request<'_>) -> Result<Version, Verdict> {
    let name = &request.resource.version;
    Version::by_name(name).ok_or_else(|| Verdict::refuse(400, format!("there is no version {name} of CloneSet")))
}

fn nothing() -> Verdict {
    Verdict::refuse(400, "there is no object to look at")
}

fn read(object: &RawValue, version: Version) -> Result<Submitted, Verdict> {
    Submitted::read(object.get(), version).map_err(|error| Verdict::refuse(400, error.to_string()))
}

fn fields(object: &RawValue) -> Result<Object, Verdict> {
    serde_json::from_str(object.get()).map_err(|error| Verdict::refuse(400, error.to_string()))
}

#[cfg(test)]
mod tests;
