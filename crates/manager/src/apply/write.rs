//! One write: how each action becomes a call of the writer, and what is remembered of it.

use kruise_api::resource::Preconditions;
use kruise_core::plan::{self, Action};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::expectations::{Expectations, View as _};
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::writer::{DeleteOptions, Patch, Target};

use super::views::View;
use super::{Execution, replace, secret};

impl Execution<'_> {
    /// Makes a write, and remembers it until the cache shows it.
    pub(super) async fn write(&self, action: &Action) -> Result<(), Error> {
        let writer = self.applier.context.writer();
        let object = action.object();
        let target = Target::new(object.resource, &object.namespace, &object.name);
        match action {
            Action::Create { body, .. } => {
                let unanswered = Unanswered::new(|| {
                    self.expect(object, |expectations, view, key| {
                        expectations.maybe_created(self.key, view, key);
                    });
                });
                let created = writer.create(target.resource, target.namespace, body.text()).await;
                unanswered.answered();
                self.expect(object, |expectations, view, key| match &created {
                    Ok(written) => expectations.created(self.key, view, &object.namespace, written),
                    Err(error) if error.may_have_applied() || error.is_already_exists() => {
                        expectations.maybe_created(self.key, view, key);
                    }
                    Err(_) => {}
                });
                let created = created?;
                if self.applier.views.of(object.resource).is_none() {
                    self.unwatched.lock().push((object.clone(), created.uid));
                }
                Ok(())
            }
            Action::Patch {
                subresource,
                patch,
                preconditions,
                ..
            } => {
                self.refuse_if_changed(object, preconditions)?;
                let target = target.part(*subresource);
                let patch = match patch.clone() {
                    plan::Patch::Merge(document) => Patch::Merge(document),
                    plan::Patch::Strategic(document) => Patch::Strategic(document),
                };
                let written = writer.patch(&target, patch, preconditions).await?;
                self.expect(object, |expectations, view, _| {
                    expectations.changed(self.key, view, &object.namespace, &written);
                });
                Ok(())
            }
            Action::Replace {
                body, preconditions, ..
            } => {
                let written = replace::replace(&self.applier.context, object, body, preconditions).await?;
                self.expect(object, |expectations, view, _| {
                    expectations.changed(self.key, view, &object.namespace, &written);
                });
                Ok(())
            }
            Action::CopySecret {
                from,
                annotations,
                preconditions,
                ..
            } => {
                let copy = secret::Copy {
                    object,
                    from: from.as_ref(),
                    annotations,
                    preconditions: preconditions.as_ref(),
                };
                if let Some(written) = copy.write(&self.applier.context).await? {
                    self.expect(object, |expectations, view, _| {
                        expectations.changed(self.key, view, &object.namespace, &written);
                    });
                }
                Ok(())
            }
            Action::Delete { preconditions, .. } | Action::Evict { preconditions, .. } => {
                // What belongs to the object follows. It is the default, but for Jobs of Kubernetes.
                let options = DeleteOptions {
                    preconditions: preconditions.clone(),
                    propagation: Some("Background"),
                    ..DeleteOptions::default()
                };
                let uid = preconditions.uid.as_deref().unwrap_or_default();
                let unanswered = Unanswered::new(|| {
                    self.expect(object, |expectations, view, key| {
                        expectations.maybe_deleted(self.key, view, key, uid);
                    });
                });
                let deleted = if matches!(action, Action::Evict { .. }) {
                    writer.evict(&target, &options).await
                } else {
                    writer.delete(&target, &options).await
                };
                unanswered.answered();
                self.expect(object, |expectations, view, key| match &deleted {
                    Ok(_) => expectations.deleted(self.key, view, key, uid),
                    Err(error) if error.may_have_applied() => expectations.maybe_deleted(self.key, view, key, uid),
                    Err(_) => {}
                });
                deleted.map(drop)
            }
        }
    }

    /// A conflict, if the cache shows a later version than the one that the write is for: the API server would say the same. Many writes of a plan wait for their
    /// turn, and meanwhile nodes write as well.
    fn refuse_if_changed(&self, object: &plan::Target, preconditions: &Preconditions) -> Result<(), Error> {
        let wanted = preconditions.resource_version.as_ref();
        let wanted: Option<u64> = wanted.and_then(|version| version.parse().ok());
        let seen = (self.applier.views.of(object.resource)).and_then(|view| view.seen(&object.namespace, &object.name));
        match (wanted, seen) {
            (Some(wanted), Some(seen)) if seen.resource_version > wanted => {
                let message = format!("{} {} has been modified", object.resource.kind, object.name);
                Err(Error::new(Class::Conflict, message))
            }
            _ => Ok(()),
        }
    }

    fn expect(&self, object: &plan::Target, remember: impl FnOnce(&Expectations, &View, &ObjectKey)) {
        if let Some(view) = self.applier.views.of(object.resource) {
            let key = ObjectKey::new(&object.namespace, &object.name);
            remember(self.applier.context.expectations(), view, &key);
        }
    }
}

/// A write that is on its way. If it is dropped before the answer is there, because the application was cut off, the write is remembered as one that may
/// have happened.
struct Unanswered<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Unanswered<F> {
    fn new(remember: F) -> Self {
        Self(Some(remember))
    }

    fn answered(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for Unanswered<F> {
    fn drop(&mut self) {
        if let Some(remember) = self.0.take() {
            remember();
        }
    }
}
