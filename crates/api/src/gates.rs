//! Feature gates: what can be switched on and off for the whole installation.
//!
//! `--feature-gates=A=true,B=false` is the same for the manager and the daemon. What counts, from weak to strong:
//!
//! 1. the gate's default ([`Gate::default_on`]);
//! 2. the legacy variable `CUSTOM_RESOURCE_ENABLE`: set, but without `SidecarSet` in its list, it makes the *default*
//!    of [`Gate::PodWebhook`] false;
//! 3. `AllAlpha=<bool>` and `AllBeta=<bool>`, for every gate of that [`Stage`];
//! 4. the gate's own setting, wherever it stands in the list; given twice, the last one counts;
//! 5. forced values: some gates make no sense without others, and what follows from them overrides the command line.
//!
//! A name that is no gate, or a value that is no boolean, is an error: a typing mistake must not silently leave a
//! protection off.
//!
//! [`Gates::parse`] follows all of these; a caller only looks at [`Gates::enabled`].

mod force;
mod parse;
mod table;

use std::fmt;

pub use force::Forced;
pub use parse::{GateError, Notice};
pub use table::{Gate, Stage};

/// Which gates are on. Small enough to be copied into every decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gates(u64);

// One bit per gate.
const _: () = assert!(Gate::ALL.len() <= 64);

impl Default for Gates {
    /// Every gate at its default; no forced value differs from it.
    fn default() -> Self {
        Gate::ALL
            .iter()
            .fold(Self(0), |gates, gate| gates.with(*gate, gate.default_on()))
    }
}

impl Gates {
    /// Whether this gate is on.
    pub fn enabled(self, gate: Gate) -> bool {
        self.0 & gate.bit() != 0
    }

    /// The same gates with one of them set. What would follow from it is *not* forced: that is [`Gates::parse`]'s.
    #[must_use]
    pub fn with(self, gate: Gate, on: bool) -> Self {
        if on {
            Self(self.0 | gate.bit())
        } else {
            Self(self.0 & !gate.bit())
        }
    }
}

impl fmt::Display for Gates {
    /// Every gate in the form of the flag, in the order of the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, gate) in Gate::ALL.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{gate}={}", self.enabled(*gate))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gates({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_gate_is_set_then_no_other_gate_moves() {
        for gate in Gate::ALL {
            let flipped = Gates::default().with(*gate, !gate.default_on());
            for other in Gate::ALL {
                let moved = flipped.enabled(*other) != Gates::default().enabled(*other);
                assert_eq!(moved, gate == other, "{gate} moved {other}");
            }
        }
    }

    #[test]
    fn given_gates_are_printed_then_the_text_is_a_flag_that_gives_them_back() {
        let gates = Gates::default().with(Gate::CloneSetShortHash, true);
        assert_eq!(Gates::parse(&gates.to_string(), None).unwrap().0, gates);
    }
}
