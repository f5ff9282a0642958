//! What controllers of Pods have in common.

use kruise_api::pod::Pod;
use kruise_runtime::cache::Event;

/// Whether something that we read of a Pod has changed.
pub(super) fn has_changed(event: &Event<'_, Pod>) -> bool {
    let Some((old, new)) = event.old.zip(event.new) else {
        return true;
    };
    let mut before = old.metadata.clone();
    before.resource_version = new.metadata.resource_version;
    before != new.metadata || old.spec != new.spec || old.status != new.status
}
