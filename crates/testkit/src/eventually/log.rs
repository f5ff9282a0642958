//! What a test logged, kept for the case that it fails.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Dispatch;
use tracing_subscriber::EnvFilter;

/// The last lines are the interesting ones.
const MOST_LINES: usize = 2_000;

#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    lines: VecDeque<String>,
    left_out: usize,
}

impl Log {
    /// A receiver for everything the test's threads log. `RUST_LOG` chooses as usual; without it our crates speak at debug level.
    pub(super) fn dispatch(&self) -> Dispatch {
        let filter = EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| EnvFilter::new("info,kube=warn,kube_runtime=warn,hyper=warn,tower=warn,kruise=debug"));
        let log = self.clone();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .with_writer(move || Line {
                log: log.clone(),
                text: Vec::new(),
            })
            .into()
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.lines.len() == MOST_LINES {
            lines.lines.pop_front();
            lines.left_out += 1;
        }
        lines.lines.push_back(line);
    }

    pub(super) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = match lines.left_out {
            0 => String::new(),
            n => format!("({n} earlier lines left out)\n"),
        };
        lines.lines.iter().for_each(|line| text.push_str(line));
        text
    }
}

/// One event; it arrives in pieces.
struct Line {
    log: Log,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.log.push(String::from_utf8_lossy(&self.text).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_the_loss_is_told() {
        let log = Log::default();
        (0..MOST_LINES + 3).for_each(|n| log.push(format!("line {n}\n")));
        let text = log.text();
        assert!(
            text.starts_with("(3 earlier lines left out)\nline 3\n"),
            "{}",
            &text[..60]
        );
        assert!(text.ends_with(&format!("line {}\n", MOST_LINES + 2)));
    }
}
