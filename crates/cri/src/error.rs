//! What can go wrong with a call to the runtime.

use std::time::Duration;

use tonic::{Code, Status};

/// Why a call gave no result. Texts are those of Go's gRPC, which users know from the kubelet's events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The runtime answered with an error, or the connection broke (`Unavailable`).
    #[error("rpc error: code = {} desc = {message}", name(*code))]
    Answer {
        /// The class of the error.
        code: Code,
        /// What the runtime says.
        message: String,
    },
    /// The runtime did not answer in time.
    #[error("rpc error: code = DeadlineExceeded desc = {call} was not answered within {within:?}")]
    Silent {
        call: &'static str,
        /// Its deadline.
        within: Duration,
    },
    /// The runtime's answer is longer than we are ready to read.
    #[error("rpc error: code = ResourceExhausted desc = {call} was answered with more than {most} bytes")]
    TooLong {
        call: &'static str,
        /// The longest answer that is read.
        most: usize,
    },
    /// The runtime answered something that makes no sense.
    #[error("the container runtime answered {call} without {what}")]
    Empty {
        call: &'static str,
        /// What is missing.
        what: &'static str,
    },
}

impl Error {
    /// Whether the runtime says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Answer {
                code: Code::NotFound,
                ..
            }
        )
    }

    /// Whether our own side of the connection refused to read the answer.
    pub(crate) fn is_refused_as_too_long(&self) -> bool {
        matches!(self, Self::Answer { code: Code::OutOfRange, message } if message.contains("decoded message length too large"))
    }

    /// Whether the call ended because its time was over.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Self::Silent { .. }
                | Self::Answer {
                    code: Code::DeadlineExceeded,
                    ..
                }
        )
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let mut message = status.message().to_owned();
        // tonic says only "transport error" when it cannot reach the socket; the cause says why.
        let mut cause = std::error::Error::source(&status);
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        Self::Answer {
            code: status.code(),
            message,
        }
    }
}

/// The name of a code as Go prints it.
fn name(code: Code) -> String {
    match code {
        Code::Cancelled => "Canceled".to_owned(),
        Code::Ok => "OK".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_an_answer_then_it_reads_as_in_the_kubelets_events() {
        let error = Error::from(Status::not_found("docker.io/library/nginx:nope: not found"));
        assert_eq!(
            error.to_string(),
            "rpc error: code = NotFound desc = docker.io/library/nginx:nope: not found"
        );
        assert!(error.is_not_found() && !error.is_timeout());
        assert!(
            Error::from(Status::cancelled("gone"))
                .to_string()
                .contains("code = Canceled")
        );
        assert!(Error::from(Status::deadline_exceeded("late")).is_timeout());
    }
}
