//! Cleaning up where nothing can be awaited.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Longer than any clean-up that works, shorter than a person's patience.
const PATIENCE: Duration = Duration::from_secs(15);

/// Runs a clean-up from a `Drop`. On a runtime with several threads ([`crate::eventually::run_test`] makes one) it has ended when this returns, also
/// while a panic unwinds; on a runtime with one thread it can only be begun, and ends with the runtime.
pub(crate) fn finish_before_drop(clean_up: impl Future<Output = ()> + Send + 'static) {
    let Ok(handle) = Handle::try_current() else { return };
    let clean_up = async {
        if tokio::time::timeout(PATIENCE, clean_up).await.is_err() {
            tracing::warn!("a clean-up did not end within {PATIENCE:?}");
        }
    };
    match handle.runtime_flavor() {
        RuntimeFlavor::CurrentThread => drop(handle.spawn(clean_up)),
        _ => tokio::task::block_in_place(|| handle.block_on(clean_up)),
    }
}
