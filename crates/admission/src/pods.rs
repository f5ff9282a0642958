//! Pods on their way into the cluster.
//!
//! The steps of [`kruise_core::pod`] see the cache of the process through a [`view::CacheView`]. What it lacks is read from the API server, within the time of the
//! request, and the Pod is then judged again from the beginning. A Pod is not refused for what the cache says of a SidecarSet before the set has been read
//! once more. A step that has to note something is answered in the same way: it is noted, once, and the Pod judged again.

mod index;
mod view;

pub use index::{MARKERS_BY_NAMESPACE, REVISIONS_BY_SIDECAR_SET, SETS_BY_POD, SPREADS_BY_NAMESPACE, STATES_BY_TARGET};

use crate::{Context, Request, Verdict, descriptor::Descriptor};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kruise_core::admission::ObjectRef;
use kruise_core::pod::{self, Env, PodError};
use kruise_core::sidecarset::inject::InjectError;
use view::CacheView;

/// How often something may be missing before a Pod is refused: every step, with a few objects each.
const ROUNDS: usize = 32;

/// `/mutate-pod`: runs all steps on new Pods.
pub(crate) fn mutate<'a>(
    request: &'a Request<'a>,
    context: &'a Context,
    _: &'static Descriptor,
) -> BoxFuture<'a, Verdict> {
    Box::pin(async move {
        if request.operation != "CREATE" || !request.is_about("", "pods") {
            return Verdict::allow();
        }
        let Some(object) = request.object else {
            return Verdict::refuse(400, "there is no object to create");
        };
        decide(object.get(), request, context).await
    })
}

async fn decide(pod: &str, request: &Request<'_>, context: &Context) -> Verdict {
    let suffix = name_suffix();
    let (now, chance) = (Timestamp::now(), fastrand::u64(..));
    let mut view = CacheView::new(context, &request.namespace);
    for _ in 0..ROUNDS {
        let env = Env {
            gates: context.gates,
            now,
            chance,
            view: &view,
            namespace: &request.namespace,
            dry_run: request.dry_run.unwrap_or_default(),
            name_suffix: &suffix,
        };
        let error = match pod::mutate(pod, &env) {
            Ok(patch) => return Verdict::change(patch),
            Err(error) => error,
        };
        if let PodError::Unplaced(ask) = &error {
            match view.place(ask).await {
                Ok(()) => continue,
                Err(reason) => return Verdict::refuse(500, reason),
            }
        }
        let to_read = match &error {
            PodError::Missing(missing) => vec![missing.0.clone()],
            PodError::Sidecars(error) => view.unread(doubtful(error)),
            _ => Vec::new(),
        };
        if to_read.is_empty() {
            return Verdict::refuse(error.code(), error.to_string());
        }
        for object in to_read {
            if let Err(reason) = view.read(object.clone()).await {
                return Verdict::refuse(500, format!("{object} cannot be read: {reason}"));
            }
        }
    }
    Verdict::refuse(500, "what decides about this Pod changes too fast")
}

/// What the cache may have too old, where it is the reason of a refusal.
fn doubtful(error: &InjectError) -> Vec<ObjectRef> {
    let Some(set) = error.set() else {
        return Vec::new();
    };
    let mut objects = vec![ObjectRef::SidecarSet(set.to_owned())];
    if matches!(error, InjectError::NoRevision { .. }) {
        objects.push(ObjectRef::RevisionsOfSidecarSet(set.to_owned()));
    }
    objects
}

/// Signs that make no words and are not mistaken for each other, as in every name that Kubernetes generates.
const SIGNS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn name_suffix() -> String {
    let sign = || {
        SIGNS
            .get(fastrand::usize(..SIGNS.len()))
            .copied()
            .map_or('x', char::from)
    };
    std::iter::repeat_with(sign).take(5).collect()
}

#[cfg(test)]
mod tests;
