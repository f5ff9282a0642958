//! ContainerRecreateRequests on their way into the cluster.
//!
//! A new one is completed from the Pod as the API server has it now, or refused with 400; 500 when the Pod or its node cannot be asked for. A change
//! of what cannot be changed is answered 403. The rules are those of [`kruise_core::containerrecreaterequest::admit`].

use crate::{Context, Request, Verdict};
use futures::future::BoxFuture;
use kruise_api::read::from_slice;
use kruise_core::{
    containerrecreaterequest::admit::{self, Submitted, Target},
    field_error::FieldError,
    json_patch::diff,
    shared::tree::Object,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

/// `/mutate-apps-kruise-io-containerrecreaterequest`
pub(crate) fn mutate<'a>(request: &'a Request<'a>, context: &'a Context) -> BoxFuture<'a, Verdict> {
    Box::pin(async move {
        let kind = &kruise_api::containerrecreaterequest::KIND;
        if !request.is_about(kind.group, kind.plural) {
            return Verdict::allow();
        }
        let verdict = match &*request.operation {
            "CREATE" => create(request, context).await,
            "UPDATE" => update(request),
            _ => Ok(Verdict::allow()),
        };
        verdict.unwrap_or_else(|refusal| refusal)
    })
}

async fn create(request: &Request<'_>, context: &Context) -> Result<Verdict, Verdict> {
    let object = request.object.ok_or_else(nothing)?;
    let sent: Submitted = read(object)?;
    let errors = admit::check(&sent);
    if !errors.is_empty() {
        return Err(Verdict::refuse(400, errors.to_string()));
    }
    let name = &sent.spec.pod_name;
    let unknown = |what: &str, reason: String| Verdict::refuse(500, format!("{what} cannot be looked up: {reason}"));
    let pod = context.objects.pod(&request.namespace, name).await;
    let pod = pod.map_err(|reason| unknown(&format!("Pod {name}"), reason))?;
    let target = Target::of(name, pod.as_ref()).map_err(refused)?;
    let node = context.objects.node(target.node).await;
    let node = node.map_err(|reason| unknown(&format!("Node {}", target.node), reason))?;
    let node = node.ok_or_else(|| refused(admit::no_node(name, target.node)))?;
    let before: Object = read(object)?;
    let mut after = before.clone();
    admit::complete(&mut after, &target, &node).map_err(refused)?;
    Ok(Verdict::change(diff(&Value::Object(before), &Value::Object(after))))
}

fn update(request: &Request<'_>) -> Result<Verdict, Verdict> {
    let new: Submitted = read(request.object.ok_or_else(nothing)?)?;
    let old: Submitted = read(request.old_object.ok_or_else(nothing)?)?;
    match admit::forbidden(&new, &old, request.resource.version == "v1alpha1") {
        Some(error) => Err(Verdict::refuse(403, error.to_string())),
        None => Ok(Verdict::allow()),
    }
}

// By value, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
fn refused(error: FieldError) -> Verdict {
    Verdict::refuse(400, error.to_string())
}

fn nothing() -> Verdict {
    Verdict::refuse(400, "there is no object to look at")
}

fn read<T: DeserializeOwned>(object: &RawValue) -> Result<T, Verdict> {
    from_slice(object.get().as_bytes()).map_err(|error| Verdict::refuse(400, error.to_string()))
}

#[cfg(test)]
mod tests;
