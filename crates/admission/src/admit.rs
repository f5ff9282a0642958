//! The way of an object of ours through its two webhooks, the same for all kinds. The rules are those of each kind ([`kruise_core::admission::Admit`]).
//!
//! - Only objects themselves are looked at, not their subresources.
//! - What cannot be read is answered 400. An old object that cannot be read counts as none: what was stored may have been readable to another release only.
//! - An object that is being deleted can always be released: a change of its metadata alone is neither completed nor validated.
//! - What breaks a rule is answered with the code of the kind, and everything that is wrong with it.
//! - Pod templates are checked by the API server ([`crate::Templates`]). One that it cannot even read is answered 400.
//! - Other objects are looked up in the cache where it has them ([`crate::LookUp`]). It may be behind: before a request is refused for what the cache says, the
//!   API server is asked.
//! - What a user is warned of is in the log, too.
//! - A protected deletion is answered 403 and written down ([`crate::AuditLog`]). Nobody is kept from deleting what cannot be read.

use crate::{
    Context, Request, TemplateCheck, Verdict,
    descriptor::Descriptor,
    dispatch::is_release,
    look_up::{Found, Freshness},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kruise_core::{
    admission::{Admit, Env, Lookups, Needs, Operation, Refusal, Template, Version},
    field_error::FieldError,
    json_patch::diff,
    shared::tree::Object,
};
use serde_json::{Value, value::RawValue};

/// Rounds of looking up: an object, what it names, and what that names.
const ROUNDS: usize = 3;

/// The mutating path of a kind.
pub(crate) fn mutate<'a, A: Admit>(
    request: &'a Request<'a>,
    context: &'a Context,
    descriptor: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    let call = Call {
        request,
        context,
        descriptor,
    };
    Box::pin(async move {
        if !call.is_write() || is_release(request) {
            return Verdict::allow();
        }
        call.default_object::<A>().await.unwrap_or_else(|refusal| refusal)
    })
}

/// The validating path of a kind.
pub(crate) fn validate<'a, A: Admit>(
    request: &'a Request<'a>,
    context: &'a Context,
    descriptor: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    let call = Call {
        request,
        context,
        descriptor,
    };
    Box::pin(async move {
        if call.is_ours() && request.operation == "DELETE" {
            return call.protect::<A>().await;
        }
        if !call.is_write() || is_release(request) {
            return Verdict::allow();
        }
        match call.validate_object::<A>().await {
            Ok(warnings) => warnings.into_iter().fold(Verdict::allow(), Verdict::warn),
            Err(refusal) => refusal,
        }
    })
}

/// One request about an object of a kind.
#[derive(Clone, Copy)]
struct Call<'a> {
    request: &'a Request<'a>,
    context: &'a Context,
    descriptor: &'static Descriptor,
}

impl Call<'_> {
    fn is_ours(&self) -> bool {
        let resource = &self.descriptor.resource;
        self.request.is_about(resource.group(), resource.plural())
    }

    fn is_write(&self) -> bool {
        self.is_ours() && matches!(&*self.request.operation, "CREATE" | "UPDATE")
    }

    fn env(&self) -> Result<Env, Verdict> {
        let (name, resource) = (&*self.request.resource.version, &self.descriptor.resource);
        let served = resource.versions().contains(&name);
        let version = Version::by_name(name).filter(|_| served);
        Ok(Env {
            operation: if self.request.operation == "CREATE" {
                Operation::Create
            } else {
                Operation::Update
            },
            version: version
                .ok_or_else(|| Verdict::refuse(400, format!("there is no version {name} of {}", resource.kind())))?,
            gates: self.context.gates,
            now: Timestamp::now(),
        })
    }

    /// The object as it is to be.
    fn object(&self) -> Result<&RawValue, Verdict> {
        let object = self.request.object;
        object.ok_or_else(|| Verdict::refuse(400, "there is no object to look at"))
    }

    async fn default_object<A: Admit>(&self) -> Result<Verdict, Verdict> {
        let (env, object) = (self.env()?, self.object()?);
        let new: A = read(object, env.version)?;
        if self.descriptor.validate.is_none() {
            drop(self.validate_object::<A>().await?);
        }
        let before = fields(object)?;
        let old = self.request.old_object.map(fields).transpose()?;
        let default = |found: &Lookups| {
            let mut after = before.clone();
            A::default(&mut after, old.as_ref(), &env, found).map(|()| after)
        };
        let needs = |found: &Lookups| new.needs_to_default(&env, found);
        let after = self.decide(Vec::new(), needs, default).await?;
        Ok(Verdict::change(diff(&Value::Object(before), Value::Object(after))))
    }

    /// Returns what the user is to be warned of.
    async fn validate_object<A: Admit>(&self) -> Result<Vec<String>, Verdict> {
        let env = self.env()?;
        let new: A = read(self.object()?, env.version)?;
        let old: Option<A> = self.request.old_object.and_then(|old| read(old, env.version).ok());
        let old = old.as_ref();
        let mut template_errors = self.check_templates(new.templates(old)).await?;
        let needs = |found: &Lookups| new.needs_to_validate(old, &env, found);
        if A::LOOKS_UP_TEMPLATES {
            let found = self.look_up(Vec::new(), needs, Freshness::Cached).await;
            let templates = new.templates_of_others(old, &found.lookups);
            template_errors.extend(self.check_templates(templates).await?);
        }
        let validate = |found: &Lookups| {
            let valid = match old {
                Some(old) => new.validate_update(old, &env, found),
                None => new.validate(&env, found),
            };
            valid.map(|()| new.warnings(&env, found))
        };
        let warnings = self.decide(template_errors, needs, validate).await?;
        let (kind, namespace, name) = (
            self.descriptor.resource.kind(),
            &self.request.namespace,
            &self.request.name,
        );
        for warning in &warnings {
            tracing::info!(kind, %namespace, %name, "a user is warned: {warning}");
        }
        Ok(warnings)
    }

    async fn check_templates(&self, templates: Vec<Template>) -> Result<Vec<FieldError>, Verdict> {
        let mut errors = Vec::new();
        for template in templates {
            let (namespace, path) = (&self.request.namespace, &template.path);
            match self
                .context
                .templates
                .check_pod(namespace, &template.template, path)
                .await
            {
                TemplateCheck::Good | TemplateCheck::Unchecked(_) => {}
                TemplateCheck::Invalid(found) => errors.extend(found.0),
                TemplateCheck::Malformed(reason) => return Err(Verdict::refuse(400, format!("{path}: {reason}"))),
            }
        }
        Ok(errors)
    }

    /// Decides by what the cache has, and once more by what the API server says before a refusal.
    async fn decide<T>(
        &self,
        template_errors: Vec<FieldError>,
        needs: impl Fn(&Lookups) -> Needs,
        decide: impl Fn(&Lookups) -> Result<T, Refusal>,
    ) -> Result<T, Verdict> {
        let mut freshness = Freshness::Cached;
        loop {
            let found = self.look_up(template_errors.clone(), &needs, freshness).await;
            match decide(&found.lookups) {
                Err(_) if found.is_cached => freshness = Freshness::Live,
                decided => return decided.map_err(|refusal| self.refused(refusal)),
            }
        }
    }

    async fn look_up(
        &self,
        template: Vec<FieldError>,
        needs: impl Fn(&Lookups) -> Needs,
        freshness: Freshness,
    ) -> Found {
        let mut found = Found::default();
        found.lookups.template = template;
        for _ in 0..ROUNDS {
            let missing = found.lookups.missing(needs(&found.lookups));
            if missing.is_empty() {
                break;
            }
            let namespace = &self.request.namespace;
            let new = self.context.lookup.look_up(namespace, missing, freshness).await;
            found.lookups.pods.extend(new.lookups.pods);
            found.lookups.objects.extend(new.lookups.objects);
            found.is_cached |= new.is_cached && freshness == Freshness::Cached;
        }
        found
    }

    async fn protect<A: Admit>(&self) -> Verdict {
        let old = self.env().ok().and_then(|env| {
            let old = self.request.old_object?;
            read::<A>(old, env.version).ok()
        });
        match old.and_then(|old| old.refuse_deletion(self.context.gates)) {
            None => Verdict::allow(),
            Some(reason) => {
                let kind = self.descriptor.resource.kind();
                self.context.audit.deletion_refused(kind, self.request).await;
                Verdict::refuse(403, reason)
            }
        }
    }

    fn refused(&self, refusal: Refusal) -> Verdict {
        Verdict::refuse(refusal.code.unwrap_or(self.descriptor.invalid), refusal.message).because(refusal.reason)
    }
}

fn read<A: Admit>(object: &RawValue, version: Version) -> Result<A, Verdict> {
    A::read(object.get().as_bytes(), version).map_err(|error| Verdict::refuse(400, error.to_string()))
}

fn fields(object: &RawValue) -> Result<Object, Verdict> {
    serde_json::from_str(object.get()).map_err(|error| Verdict::refuse(400, error.to_string()))
}

#[cfg(test)]
mod tests;
