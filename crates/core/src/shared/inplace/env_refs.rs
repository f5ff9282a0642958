//! Environment variables whose value is a label or annotation of the Pod.

use kruise_api::names::env;

/// A label or annotation by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    Label(&'a str),
    Annotation(&'a str),
}

/// What a field path such as `metadata.labels['version']` refers to.
pub(crate) fn reference(field_path: &str) -> Option<Reference<'_>> {
    let key = |prefix: &str| field_path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
    key("metadata.labels")
        .map(Reference::Label)
        .or_else(|| key("metadata.annotations").map(Reference::Annotation))
}

/// Whether a variable of this name is looked at. Those that tell the version of a hot-upgrade sidecar change on another way.
pub(crate) fn is_counted(name: &str) -> bool {
    name != env::SIDECAR_SET_VERSION && name != env::SIDECAR_SET_VERSION_ALT
}
