//! Test binaries side by side.
//!
//! A lane is what binaries run on one after the other, a control plane for example, so that nobody shares it with another binary at the same time. Each lane
//! takes the next binary that it can, those first that took longest the last time. What a binary says is kept apart and told when it has ended.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use kruise_testkit::progress::{Progress, seconds};

use super::binaries::{Binary, Outcome};

/// Where binaries run one after the other.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) environment: Vec<(String, String)>,
    /// Which of them can run here.
    pub(super) takes: fn(&Binary) -> bool,
}

impl Lane {
    /// For any binary.
    pub(super) fn with(environment: &[(&str, &str)]) -> Self {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            environment: environment.collect(),
            takes: |_| true,
        }
    }

    /// Only for some.
    pub(super) fn only(self, takes: fn(&Binary) -> bool) -> Self {
        Self { takes, ..self }
    }
}

/// Runs all of them, and tells each as soon as it has ended.
pub(super) fn run(
    title: &str,
    wanted: Vec<&Binary>,
    filter: Option<&str>,
    lanes: &[Lane],
    progress: &Progress,
    mut ended: impl FnMut(&Binary, Outcome),
) {
    let total = wanted.len() as u64;
    let waiting = Mutex::new(wanted);
    let next = |lane: &Lane| {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waiting.iter().position(|binary| (lane.takes)(binary))?;
        Some(waiting.remove(place))
    };
    let ended_all = progress.step(title, |step| {
        let mut done = 0;
        thread::scope(|scope| {
            let (sender, outcomes) = mpsc::channel();
            for lane in lanes {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(binary) = next(lane) {
                        let outcome = binary.run(filter, &lane.environment);
                        // The other end listens until all lanes have ended.
                        let _ = sender.send((binary, outcome));
                    }
                });
            }
            drop(sender);
            for (binary, outcome) in outcomes {
                done += 1;
                let mark = if outcome.failed > 0 { "✗" } else { "✓" };
                step.say(&format!("  {mark} {binary} ({})", seconds(outcome.took)));
                step.at(done, total, &binary.to_string());
                ended(binary, outcome);
            }
        });
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(()) = ended_all;
}
