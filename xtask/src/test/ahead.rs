//! The optimised programs that the benchmark and the tests with real nodes need.
//!
//! To build them takes all cores for minutes, and tests on a cluster mostly wait: so it is done beside those, and behind everything else that runs.

use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};
use kruise_testkit::progress::Progress;
use kruise_testkit::shell;

use super::Totals;
use crate::{bench, product};

#[derive(Debug)]
pub(super) struct Ahead(Option<JoinHandle<Result<()>>>);

impl Ahead {
    /// Nothing is built before it is needed.
    pub(super) fn nothing() -> Self {
        Self(None)
    }

    pub(super) fn begin() -> Self {
        Self(Some(thread::spawn(|| {
            // Both, in this order, exactly as they are asked for later: other features would be other builds.
            for build in [product::build_command(product::LOCAL)?, bench::build_command()?] {
                shell::run(&mut product::when_idle(&build))?;
            }
            Ok(())
        })))
    }

    /// Waits until they are there. What cannot be built has failed; whoever needs it will say so once more.
    pub(super) fn end(&mut self, totals: &mut Totals, progress: &Progress) {
        if let Some(build) = self.0.take() {
            totals.check("Building the optimised programs", progress, || {
                build.join().map_err(|_| anyhow!("the build panicked"))?
            });
        }
    }
}
