//! Pods on their way into the cluster.

mod index;

pub use index::{REVISIONS_BY_SIDECAR_SET, SETS_BY_POD};

use crate::{Context, Request, Verdict};
use kruise_core::pod::{self, Env};

/// `/mutate-pod`: runs all steps of [`kruise_core::pod`] on new Pods.
pub(crate) fn mutate(request: &Request<'_>, context: &Context) -> Verdict {
    if request.operation != "CREATE" || !request.is_about("", "pods") {
        return Verdict::allow();
    }
    let Some(object) = request.object else {
        return Verdict::refuse(400, "there is no object to create");
    };
    let suffix = name_suffix();
    let env = Env {
        gates: context.gates,
        namespace: &request.namespace,
        dry_run: request.dry_run.unwrap_or_default(),
        name_suffix: &suffix,
    };
    match pod::mutate(object.get(), &env) {
        Ok(patch) => Verdict::change(patch),
        Err(error) => Verdict::refuse(error.code(), error.to_string()),
    }
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
