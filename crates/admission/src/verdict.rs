//! What a handler decides.

use kruise_core::json_patch::Operation;

/// A decision about one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub(crate) allowed: bool,
    pub(crate) code: u16,
    pub(crate) message: String,
    pub(crate) reason: &'static str,
    pub(crate) patch: Vec<Operation>,
    pub(crate) warnings: Vec<String>,
}

impl Verdict {
    /// Let it pass as it is.
    pub fn allow() -> Self {
        Self {
            allowed: true,
            code: 200,
            message: String::new(),
            reason: "",
            patch: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Let it pass with changes; without any it is [`Verdict::allow`].
    pub fn change(patch: Vec<Operation>) -> Self {
        Self { patch, ..Self::allow() }
    }

    /// Refuse it, with the status code and message that the user gets to see.
    pub fn refuse(code: u16, message: impl Into<String>) -> Self {
        Self {
            allowed: false,
            code,
            message: message.into(),
            ..Self::allow()
        }
    }

    /// Gives a refusal a reason in one word.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    /// Tells the user something without refusing.
    #[must_use]
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }
}
