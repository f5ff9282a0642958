//! From the text of `--feature-gates` to the gates that are on.

use std::{collections::BTreeMap, fmt};

use thiserror::Error;

use super::{Forced, Gate, Gates, Stage, force::force};

/// Sets every [`Stage::Alpha`] gate that has no setting of its own.
const ALL_ALPHA: &str = "AllAlpha";
/// Sets every [`Stage::Beta`] gate that has no setting of its own.
const ALL_BETA: &str = "AllBeta";

/// Names that were published in documents but never worked: they killed the original. We take them for what was meant.
const ALIASES: &[(&str, Gate)] = &[(
    "ForceDeleteTimeoutExpectationFeatureGate",
    Gate::ForceDeleteTimeoutExpectationGate,
)];

/// The kind that `CUSTOM_RESOURCE_ENABLE` has to list to keep the pod webhook.
const POD_WEBHOOK_KIND: &str = "SidecarSet";

/// What is wrong with `--feature-gates`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GateError {
    /// There is no such gate.
    #[error(
        "feature gate {name:?} is not known; known are AllAlpha, AllBeta, {}",
        names_of_all()
    )]
    Unknown {
        /// What was written.
        name: String,
    },
    /// The value is no boolean.
    #[error("feature gate {name} cannot be {value:?}; write {name}=true or {name}=false")]
    NotBoolean {
        /// The gate.
        name: String,
        /// What was written.
        value: String,
    },
    /// There is no value.
    #[error("feature gate {name:?} has no value; write {name}=true or {name}=false")]
    NoValue {
        /// What was written.
        name: String,
    },
}

/// Something a user should see in the log although it is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A name was written that is not the gate's, but meant it.
    Alias {
        /// What was written.
        written: &'static str,
        /// What it was taken for.
        gate: Gate,
    },
    /// A gate has another value than asked for, because it depends on another gate.
    Forced(Forced),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Alias { written, gate } => write!(f, "feature gate {written} is called {gate}; please correct it"),
            Notice::Forced(Forced {
                gate,
                on,
                because,
                because_on,
            }) => {
                write!(
                    f,
                    "feature gate {gate} is set to {on} because {because} is {because_on}"
                )
            }
        }
    }
}

impl Gates {
    /// The gates that `--feature-gates=<flag>` gives, and what the user should be told about them.
    ///
    /// A flag that is given several times is the same as one whose texts are joined by commas.
    /// `custom_resource_enable` is the legacy environment variable of that name, if it is set.
    pub fn parse(flag: &str, custom_resource_enable: Option<&str>) -> Result<(Gates, Vec<Notice>), GateError> {
        let settings = Settings::read(flag)?;
        let mut gates = defaults(custom_resource_enable);
        for gate in Gate::ALL.iter().copied() {
            if let Some(on) = settings.of(gate) {
                gates = gates.with(gate, on);
            }
        }
        let (gates, forced) = force(gates);
        let mut notices = settings.notices;
        notices.extend(forced.into_iter().map(Notice::Forced));
        Ok((gates, notices))
    }
}

/// The flag as it was written: nothing decided yet.
#[derive(Default)]
struct Settings {
    explicit: BTreeMap<Gate, bool>,
    all_alpha: Option<bool>,
    all_beta: Option<bool>,
    notices: Vec<Notice>,
}

impl Settings {
    fn read(flag: &str) -> Result<Self, GateError> {
        let mut settings = Settings::default();
        for item in flag.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()))
                .ok_or_else(|| GateError::NoValue { name: item.to_owned() })?;
            settings.add(name, value)?;
        }
        Ok(settings)
    }

    /// The name is judged before the value: for a wrong name no value is right.
    fn add(&mut self, name: &str, value: &str) -> Result<(), GateError> {
        let on = || {
            boolean(value).ok_or_else(|| GateError::NotBoolean {
                name: name.to_owned(),
                value: value.to_owned(),
            })
        };
        match name {
            ALL_ALPHA => self.all_alpha = Some(on()?),
            ALL_BETA => self.all_beta = Some(on()?),
            _ => {
                let gate = match Gate::by_name(name) {
                    Some(gate) => gate,
                    None => self.by_alias(name)?,
                };
                self.explicit.insert(gate, on()?);
            }
        }
        Ok(())
    }

    fn by_alias(&mut self, name: &str) -> Result<Gate, GateError> {
        let (written, gate) = ALIASES
            .iter()
            .copied()
            .find(|(alias, _)| *alias == name)
            .ok_or_else(|| GateError::Unknown { name: name.to_owned() })?;
        self.notices.push(Notice::Alias { written, gate });
        Ok(gate)
    }

    /// What the flag says about this gate: its own setting before that of its stage.
    fn of(&self, gate: Gate) -> Option<bool> {
        let by_stage = match gate.stage() {
            Stage::Alpha => self.all_alpha,
            Stage::Beta => self.all_beta,
        };
        self.explicit.get(&gate).copied().or(by_stage)
    }
}

fn defaults(custom_resource_enable: Option<&str>) -> Gates {
    let kinds = custom_resource_enable.unwrap_or_default();
    let keeps_pod_webhook = kinds.is_empty() || kinds.split(',').any(|kind| kind.trim() == POD_WEBHOOK_KIND);
    let gates = Gates::default();
    if keeps_pod_webhook {
        gates
    } else {
        gates.with(Gate::PodWebhook, false)
    }
}

/// The spellings of a boolean that the original's flags take.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn names_of_all() -> String {
    let mut names: Vec<_> = Gate::ALL.iter().map(|gate| gate.name()).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests;
