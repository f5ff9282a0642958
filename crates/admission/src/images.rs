//! NodeImages, ImagePullJobs and ImageListPullJobs on their way into the cluster.
//!
//! What cannot be read or breaks a rule is answered 400 with all that is wrong; a change of what cannot be changed 403. The rules are those of
//! [`kruise_core::nodeimage`], [`kruise_core::imagepulljob`] and [`kruise_core::imagelistpulljob`]. An object that is being deleted can always be
//! released: a change of its metadata alone is not judged.

use crate::{Context, Request, Verdict, dispatch::is_release};
use jiff::Timestamp;
use kruise_api::{read::from_slice, registry::KindInfo};
use kruise_core::{
    field_error::FieldErrors, imagelistpulljob, imagepulljob, json_patch::diff, nodeimage, shared::tree::Object,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

/// `/mutate-apps-kruise-io-imagepulljob`
pub(crate) fn mutate_job(request: &Request<'_>, _: &Context) -> Verdict {
    let gets_finalizer = is_old_version(request) && request.operation == "CREATE";
    complete::<imagepulljob::Submitted>(request, &kruise_api::imagepulljob::KIND, |object| {
        imagepulljob::default::default(object, gets_finalizer);
    })
}

/// `/validate-apps-kruise-io-imagepulljob`
pub(crate) fn validate_job(request: &Request<'_>, _: &Context) -> Verdict {
    judge(
        request,
        &kruise_api::imagepulljob::KIND,
        |new, old: Option<imagepulljob::Submitted>| {
            let errors = imagepulljob::validate::validate(new);
            let forbidden = old.and_then(|old| imagepulljob::validate::forbidden(new, &old));
            match forbidden {
                Some(error) if errors.is_empty() => Err(Verdict::refuse(403, error.to_string()).because("Forbidden")),
                _ => Ok(errors),
            }
        },
    )
}

/// `/mutate-apps-kruise-io-imagelistpulljob`
pub(crate) fn mutate_list(request: &Request<'_>, _: &Context) -> Verdict {
    let fills_given = is_old_version(request);
    complete::<imagelistpulljob::Submitted>(request, &kruise_api::imagelistpulljob::KIND, |object| {
        imagelistpulljob::default::default(object, fills_given);
    })
}

/// `/validate-apps-kruise-io-imagelistpulljob`
pub(crate) fn validate_list(request: &Request<'_>, _: &Context) -> Verdict {
    judge(request, &kruise_api::imagelistpulljob::KIND, |new, _| {
        Ok(imagelistpulljob::validate::validate(new))
    })
}

/// `/mutate-apps-kruise-io-nodeimage`
pub(crate) fn mutate_node(request: &Request<'_>, _: &Context) -> Verdict {
    complete::<nodeimage::Submitted>(request, &kruise_api::nodeimage::KIND, |object| {
        nodeimage::default::default(object, Timestamp::now());
    })
}

/// `/validate-apps-kruise-io-nodeimage`
pub(crate) fn validate_node(request: &Request<'_>, _: &Context) -> Verdict {
    judge(request, &kruise_api::nodeimage::KIND, |new, _| {
        Ok(nodeimage::validate::validate(new))
    })
}

/// Whether the request is about one of our objects, and writes it.
fn is_write(request: &Request<'_>, kind: &KindInfo) -> bool {
    matches!(&*request.operation, "CREATE" | "UPDATE") && request.is_about(kind.group, kind.plural)
}

fn is_old_version(request: &Request<'_>) -> bool {
    request.resource.version == "v1alpha1"
}

fn complete<T: DeserializeOwned>(request: &Request<'_>, kind: &KindInfo, default: impl FnOnce(&mut Object)) -> Verdict {
    if !is_write(request, kind) || is_release(request) {
        return Verdict::allow();
    }
    let completed = request.object.ok_or_else(nothing).and_then(|object| {
        read::<T>(object)?;
        let before: Object = read(object)?;
        let mut after = before.clone();
        default(&mut after);
        Ok(Verdict::change(diff(&Value::Object(before), &Value::Object(after))))
    });
    completed.unwrap_or_else(|refusal| refusal)
}

fn judge<T: DeserializeOwned>(
    request: &Request<'_>,
    kind: &KindInfo,
    rules: impl FnOnce(&T, Option<T>) -> Result<FieldErrors, Verdict>,
) -> Verdict {
    if !is_write(request, kind) || is_release(request) {
        return Verdict::allow();
    }
    let judged = request.object.ok_or_else(nothing).and_then(|object| {
        // What was stored before may have been readable to an older release only.
        let old = request.old_object.and_then(|old| read(old).ok());
        let errors = rules(&read(object)?, old)?;
        if errors.is_empty() {
            Ok(Verdict::allow())
        } else {
            Err(Verdict::refuse(400, errors.to_string()))
        }
    });
    judged.unwrap_or_else(|refusal| refusal)
}

fn nothing() -> Verdict {
    Verdict::refuse(400, "there is no object to look at")
}

fn read<T: DeserializeOwned>(object: &RawValue) -> Result<T, Verdict> {
    from_slice(object.get().as_bytes()).map_err(|error| Verdict::refuse(400, error.to_string()))
}

#[cfg(test)]
mod tests;
