//! What the process says and how.
//!
//! - `--v=N` is the only flag that changes how much is said: 0–3 informs, 4 (what the chart sets) adds the decisions of
//!   kruise itself, 5 adds every step of kruise, 6 and more adds the client library, 10 everything.
//! - The format is `text` or `json`, one line per entry on standard error. JSON has the keys of Kubernetes' own components, see [`json`].
//! - What users wrote into their objects is logged from 5 on only.
//! - The other klog flags are accepted, so that existing manifests start, and ignored: there is one stream, and files are
//!   the business of the container runtime.

mod json;
mod klog;

pub use klog::KlogFlags;

use std::{io, str::FromStr};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// How an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("--logging-format={0}: unknown format, use text or json")]
    Format(String),
    #[error("logging was set up twice: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

impl FromStr for Format {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(LoggingError::Format(other.to_owned())),
        }
    }
}

/// Starts logging for the whole process; to be called once.
pub fn start(verbosity: i32, format: Format) -> Result<(), LoggingError> {
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match format {
        Format::Text => lines.with_ansi(false).boxed(),
        Format::Json => lines.event_format(json::Entries).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter(verbosity)))
        .try_init()?;
    Ok(())
}

/// What a verbosity lets through: our own crates, the client library, the rest.
fn filter(verbosity: i32) -> Targets {
    let (ours, client, rest) = match verbosity {
        i32::MIN..=3 => (LevelFilter::INFO, LevelFilter::WARN, LevelFilter::WARN),
        4 => (LevelFilter::DEBUG, LevelFilter::WARN, LevelFilter::WARN),
        5 => (LevelFilter::TRACE, LevelFilter::INFO, LevelFilter::WARN),
        6..=9 => (LevelFilter::TRACE, LevelFilter::DEBUG, LevelFilter::INFO),
        10.. => (LevelFilter::TRACE, LevelFilter::TRACE, LevelFilter::TRACE),
    };
    Targets::new()
        .with_default(rest)
        .with_target("kruise", ours)
        .with_target("helm_hook", ours)
        .with_target("kube", client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn given_a_verbosity_then_our_own_lines_and_those_of_libraries_open_step_by_step() {
        let table = [
            (-1, Level::INFO, Level::WARN, Level::WARN),
            (0, Level::INFO, Level::WARN, Level::WARN),
            (4, Level::DEBUG, Level::WARN, Level::WARN),
            (5, Level::TRACE, Level::INFO, Level::WARN),
            (6, Level::TRACE, Level::DEBUG, Level::INFO),
            (99, Level::TRACE, Level::TRACE, Level::TRACE),
        ];
        for (verbosity, ours, client, rest) in table {
            let filter = filter(verbosity);
            for (target, most) in [
                ("kruise_manager::run", ours),
                ("kube_client::client", client),
                ("hyper::proto", rest),
            ] {
                for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                    assert_eq!(
                        filter.would_enable(target, &level),
                        level <= most,
                        "--v={verbosity} {target} {level}"
                    );
                }
            }
        }
    }

    #[test]
    fn given_a_format_then_only_text_and_json_are_known() {
        assert_eq!("text".parse::<Format>().ok(), Some(Format::Text));
        assert_eq!("json".parse::<Format>().ok(), Some(Format::Json));
        let message = "xml".parse::<Format>().expect_err("unknown").to_string();
        assert_eq!(message, "--logging-format=xml: unknown format, use text or json");
    }
}
