//! What a person sees while `up` works: one line per step with its time, and a bar for the long builds.
//!
//! On a terminal the running step is redrawn; elsewhere (CI, a file) a line is printed when a step starts to take long
//! and when it ends, so that a log stays readable.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Prints steps to standard error; standard output stays free for results.
#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    terminal: bool,
}

impl Progress {
    /// For a person or a log.
    pub fn shown() -> Self {
        Self {
            quiet: false,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// For tests that have their own output.
    pub fn quiet() -> Self {
        Self {
            quiet: true,
            terminal: false,
        }
    }

    /// Does `work` as one step: its title is shown while it runs, its outcome and time when it ends.
    pub fn step<T, E>(&self, title: &str, work: impl FnOnce(&Step) -> Result<T, E>) -> Result<T, E> {
        let step = Step::start(title, self);
        let result = work(&step);
        step.end(result.is_ok());
        result
    }

    /// A line of its own between steps.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}

/// The step that is under way.
#[derive(Debug)]
pub struct Step {
    title: String,
    started: Instant,
    quiet: bool,
    terminal: bool,
    bar: ProgressBar,
    last_line: std::cell::Cell<Instant>,
}

/// Outside a terminal a long step speaks up this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

impl Step {
    fn start(title: &str, progress: &Progress) -> Self {
        let target = if progress.terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {prefix} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        let now = Instant::now();
        Self {
            title: title.to_owned(),
            started: now,
            quiet: progress.quiet,
            terminal: progress.terminal,
            bar,
            last_line: std::cell::Cell::new(now),
        }
    }

    /// Shows how far a long build is; a `total` of zero means that it is not known yet.
    pub fn at(&self, done: u64, total: u64, detail: &str) {
        if self.terminal {
            if total > 0 && self.bar.length() != Some(total) {
                self.bar.set_length(total);
                if let Ok(style) =
                    ProgressStyle::with_template("  {spinner} {prefix} {elapsed} [{bar:30}] {pos}/{len} {msg}")
                {
                    self.bar.set_style(style);
                }
            }
            self.bar.set_position(done);
            self.bar.set_message(detail.chars().take(50).collect::<String>());
        } else if !self.quiet && self.last_line.get().elapsed() > LINE_EVERY {
            self.last_line.set(Instant::now());
            let of = if total > 0 { format!("/{total}") } else { String::new() };
            eprintln!("    {} … {} ({done}{of})", self.title, seconds(self.started.elapsed()));
        }
    }

    /// A line of its own while the step goes on.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }

    fn end(self, ok: bool) {
        self.bar.finish_and_clear();
        if !self.quiet {
            let mark = if ok { "✓" } else { "✗" };
            eprintln!("  {mark} {} ({})", self.title, seconds(self.started.elapsed()));
        }
    }
}

/// `1m 05s`, `12.3s`.
pub fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole >= 60 {
        format!("{}m {:02}s", whole / 60, whole % 60)
    } else {
        format!("{:.1}s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!(seconds(Duration::from_millis(1240)), "1.2s");
        assert_eq!(seconds(Duration::from_secs(65)), "1m 05s");
    }

    #[test]
    fn a_step_hands_its_result_through() {
        let progress = Progress::quiet();
        assert_eq!(
            progress.step::<_, ()>("x", |step| {
                step.at(1, 2, "y");
                Ok(7)
            }),
            Ok(7)
        );
        assert_eq!(progress.step::<(), _>("x", |_| Err("no")), Err("no"));
    }
}
