//! What a change of an object would come to, played through before anybody makes it.
//!
//! - The question carries the object as it is to be. It goes the way of a write, through our own defaults and rules, and what these refuse is the answer.
//! - Then the kind's planner plays it through from what the cache shows ([`kruise_core::rehearsal`]). Nothing is written anywhere; Pod templates are checked as always, by a dry run.
//! - Identity and status are those of the object that is there. There need not be one: then the proposal would create it.
//! - One is played through at a time, beside the server and not on its thread.

use super::{Explanations, Question, Refusal, Target, within};
use crate::{
    Context, Request, Verdict,
    descriptor::{Descriptor, Handler, Hook, descriptors},
    review::{self, User},
};
use jiff::Timestamp;
use kruise_api::merge_patch::merge;
use kruise_core::{conversion::convert, json_patch, shared::tree::Object};
use kruise_runtime::{admin::NoPlan, resource::ObjectKey};
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::Semaphore;

static TURN: Semaphore = Semaphore::const_new(1);

/// What stays of an object that is written over.
const IDENTITY: [&str; 6] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "ownerReferences",
];

/// Answers what a proposal would come to.
pub(super) async fn answer(
    explanations: &Explanations,
    question: &Question,
    proposed: &RawValue,
    target: &Target,
    request: &Request<'_>,
    context: &Context,
) -> Result<Value, Refusal> {
    let mut proposed: Value = serde_json::from_str(proposed.get()).map_err(|error| (400, error.to_string()))?;
    let (descriptor, version) = described(&proposed, question, target)?;
    let version = version.to_owned();
    let live = read(question, target, &version, context).await?;
    complete(&mut proposed, live.as_ref(), target);
    let written = Written {
        live: live.as_ref(),
        version: &version,
        name: &question.name,
        target,
        request,
        context,
        descriptor,
    };
    let mut warnings = Vec::new();
    for hook in descriptor.mutate.iter().chain(&descriptor.validate) {
        let verdict = written.pass(hook, &proposed).await?;
        if !verdict.allowed {
            return Ok(json!({"refused": {"code": verdict.code, "message": verdict.message}}));
        }
        warnings.extend(verdict.warnings);
        for operation in &verdict.patch {
            json_patch::apply(&mut proposed, operation);
        }
    }
    if live
        .as_ref()
        .is_some_and(|live| live.get("spec") != proposed.get("spec"))
    {
        let generation = proposed.pointer("/metadata/generation").and_then(Value::as_i64);
        let next = generation.unwrap_or_default().saturating_add(1);
        merge(&mut proposed, &json!({"metadata": {"generation": next}}));
    }
    let completed = changeable(&proposed);
    let proposed = in_stored_version(proposed, target)?;
    let (kind, key) = (target.resource.kind, ObjectKey::new(&target.namespace, &question.name));
    let plans = explanations.explainer.plans.clone();
    let turn = TURN.acquire().await.map_err(|error| (500, error.to_string()))?;
    let played = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        plans.rehearse(kind, &key, &proposed)
    });
    match played.await {
        Ok(Ok(rehearsal)) => Ok(json!({"warnings": warnings, "completed": completed, "rehearsal": rehearsal})),
        Ok(Err(NoPlan::Unknown(why))) => Ok(json!({"warnings": warnings, "completed": completed, "unknown": why})),
        Ok(Err(NoPlan::Failed(why))) => Err((500, why)),
        Err(_) => Err((
            500,
            "it cannot be played through: the planner panicked, see the log".to_owned(),
        )),
    }
}

/// What is known of the kind, and the version of the proposal.
fn described<'p>(
    proposed: &'p Value,
    question: &Question,
    target: &Target,
) -> Result<(&'static Descriptor, &'p str), Refusal> {
    let wrong = |field: &str, why: String| Err((422, format!("spec.proposed.{field}: {why}")));
    let text = |path: &str| proposed.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let resource = target.resource;
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or_default();
    if (group, text("/kind")) != (resource.group, resource.kind) {
        return wrong(
            "kind",
            format!("must be a {} of group {}", resource.kind, resource.group),
        );
    }
    let mut all = descriptors();
    let is_it = |known: &&Descriptor| (known.resource.group(), known.resource.plural()) == (group, resource.plural);
    let Some(descriptor) = all
        .find(is_it)
        .filter(|known| known.resource.versions().contains(&version))
    else {
        return wrong(
            "apiVersion",
            format!("there is no version {version:?} of {}", resource.kind),
        );
    };
    if text("/metadata/name") != question.name {
        return wrong("metadata.name", format!("must be {:?}", question.name));
    }
    let namespace = text("/metadata/namespace");
    if !namespace.is_empty() && namespace != target.namespace {
        return wrong("metadata.namespace", "must be that of the question".to_owned());
    }
    Ok((descriptor, version))
}

/// The object that is there, in the version of the proposal.
async fn read(
    question: &Question,
    target: &Target,
    version: &str,
    context: &Context,
) -> Result<Option<Value>, Refusal> {
    if question.uid.is_empty() {
        return Ok(None);
    }
    let kind = GroupVersionKind::gvk(target.resource.group, version, target.resource.kind);
    let described = ApiResource::from_gvk_with_plural(&kind, target.resource.plural);
    let api: Api<DynamicObject> = if target.namespace.is_empty() {
        Api::all_with(context.client.clone(), &described)
    } else {
        Api::namespaced_with(context.client.clone(), &target.namespace, &described)
    };
    let live = within(api.get(&question.name)).await?;
    let live = serde_json::to_value(live).map_err(|error| (500, error.to_string()))?;
    Ok(Some(live))
}

/// Gives the proposal what a write does not change.
fn complete(proposed: &mut Value, live: Option<&Value>, target: &Target) {
    let new =
        json!({"metadata": {"uid": "proposed", "generation": 1, "creationTimestamp": Timestamp::now().to_string()}});
    let from = live.unwrap_or(&new);
    let field = |field: &&str| {
        (
            (*field).to_owned(),
            from.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default(),
        )
    };
    let mut metadata: Object = IDENTITY.iter().map(field).collect();
    if !target.namespace.is_empty() {
        metadata.insert("namespace".to_owned(), json!(target.namespace));
    }
    // What a proposal says of its status is nothing that a write says.
    merge(proposed, &json!({"metadata": metadata, "status": null}));
    if let Some(status) = from.get("status") {
        merge(proposed, &json!({"status": status}));
    }
}

/// What a write can change of an object: of the proposal, it is what would be stored.
fn changeable(proposed: &Value) -> Value {
    let only = |object: Option<&Value>, fields: &[&str]| -> Object {
        let object = object.and_then(Value::as_object).into_iter().flatten();
        let wanted = object.filter(|(field, _)| fields.contains(&field.as_str()));
        wanted.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    let mut changeable = only(Some(proposed), &["spec"]);
    let metadata = only(proposed.get("metadata"), &["labels", "annotations"]);
    changeable.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(changeable)
}

fn in_stored_version(proposed: Value, target: &Target) -> Result<Value, Refusal> {
    if proposed.get("apiVersion").and_then(Value::as_str) == Some(target.resource.api_version) {
        return Ok(proposed);
    }
    let Value::Object(mut object): Value = proposed else {
        return Err((400, "spec.proposed: must be an object".to_owned()));
    };
    let object: &mut Object = &mut object;
    convert(object, target.resource.api_version).map_err(|error| (422, format!("spec.proposed: {error}")))?;
    Ok(Value::Object(std::mem::take(object)))
}

/// A write as our webhooks would be asked about it.
struct Written<'a> {
    live: Option<&'a Value>,
    version: &'a str,
    name: &'a str,
    target: &'a Target,
    request: &'a Request<'a>,
    context: &'a Context,
    descriptor: &'static Descriptor,
}

impl Written<'_> {
    async fn pass(&self, hook: &Hook, proposed: &Value) -> Result<Verdict, Refusal> {
        let raw = |value: &Value| to_raw_value(value).map_err(|error| (500, error.to_string()));
        let object = raw(proposed)?;
        let old_object = self.live.map(raw).transpose()?;
        let user = &self.request.user_info;
        let request = Request {
            uid: self.request.uid.clone(),
            resource: review::Resource {
                group: self.target.resource.group.into(),
                version: self.version.into(),
                resource: self.target.resource.plural.into(),
            },
            name: self.name.into(),
            namespace: self.target.namespace.as_str().into(),
            operation: if self.live.is_some() { "UPDATE" } else { "CREATE" }.into(),
            user_info: User {
                username: user.username.clone(),
                uid: user.uid.clone(),
                groups: user.groups,
                extra: user.extra,
            },
            object: Some(&object),
            old_object: old_object.as_deref(),
            dry_run: Some(true),
            sub_resource: "".into(),
            options: None,
        };
        if let Some((code, message)) = self.descriptor.gates.missing(self.context.gates) {
            return Ok(Verdict::refuse(code, message));
        }
        Ok(match hook.handler {
            Handler::NotBuilt => Verdict::allow(),
            Handler::Now(decide) => decide(&request, self.context),
            Handler::Later(decide) => decide(&request, self.context, self.descriptor).await,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::{cloneset::v1beta1::CloneSet, kind::Kind as _};

    fn target() -> Target {
        Target {
            resource: CloneSet::RESOURCE,
            namespace: "shop".to_owned(),
        }
    }

    fn question() -> Question {
        serde_json::from_value(json!({"kind": "CloneSet", "name": "web", "uid": "1"})).unwrap()
    }

    #[test]
    fn given_a_proposal_then_it_is_of_the_object_that_is_asked_about() {
        let fault = |proposed: Value| match described(&proposed, &question(), &target()) {
            Ok((descriptor, version)) => format!("{} {version}", descriptor.resource.kind()),
            Err((code, message)) => format!("{code} {message}"),
        };
        let set = |change: Value| {
            let mut set =
                json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"}});
            kruise_api::merge_patch::merge(&mut set, &change);
            set
        };
        for (change, expected) in [
            (json!({}), "CloneSet v1alpha1"),
            (json!({"metadata": {"namespace": "shop"}}), "CloneSet v1alpha1"),
            (
                json!({"metadata": {"namespace": "bank"}}),
                "422 spec.proposed.metadata.namespace: must be that of the question",
            ),
            (
                json!({"metadata": {"name": "api"}}),
                "422 spec.proposed.metadata.name: must be \"web\"",
            ),
            (
                json!({"kind": "Secret"}),
                "422 spec.proposed.kind: must be a CloneSet of group apps.kruise.io",
            ),
            (
                json!({"apiVersion": "v1"}),
                "422 spec.proposed.kind: must be a CloneSet of group apps.kruise.io",
            ),
            (
                json!({"apiVersion": "apps.kruise.io/v9"}),
                "422 spec.proposed.apiVersion: there is no version \"v9\" of CloneSet",
            ),
        ] {
            assert_eq!(fault(set(change.clone())), expected, "{change}");
        }
        assert!(fault(json!("text")).starts_with("422"));
    }

    #[test]
    fn given_a_proposal_then_identity_and_status_are_those_of_the_object() {
        let live =
            json!({"metadata": {"uid": "1", "generation": 4, "resourceVersion": "9"}, "status": {"replicas": 3}});
        let mut proposed = json!({"metadata": {"name": "web", "uid": "2", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}}, "status": {"replicas": 9}});
        complete(&mut proposed, Some(&live), &target());
        let expected = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1", "generation": 4, "resourceVersion": "9", "labels": {"a": "b"}},
            "status": {"replicas": 3},
        });
        assert_eq!(proposed, expected);
        let mut new = json!({"metadata": {"name": "web"}, "status": {}});
        complete(&mut new, None, &target());
        assert_eq!((&new["metadata"]["uid"], new.get("status")), (&json!("proposed"), None));
    }

    #[test]
    fn given_an_older_version_then_the_planner_gets_the_stored_one() {
        let old = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"},
            "spec": {"updateStrategy": {"partition": 1}}});
        let new = in_stored_version(old, &target()).unwrap();
        assert_eq!(new["apiVersion"], "apps.kruise.io/v1beta1");
        assert_eq!(new["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 1);
    }
}
