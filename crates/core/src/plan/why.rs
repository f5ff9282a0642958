//! What holds an object back, for machines and, as a sentence, for people.
//!
//! Reasons are in families, each with its sentences: those of any object ([`General`]), of a workload ([`Rollout`]), of its Pods ([`Pods`]) with their
//! ordinals ([`Ordinals`]) and claims ([`Claims`]), of nodes that have no Pod ([`Nodes`]), of what daemons do ([`Images`]), of budgets ([`Budgets`]), of jobs
//! ([`Jobs`]), of copies ([`Distribution`]), of what is remembered of Pods ([`Topology`]), of subsets ([`Subsets`]), of probes ([`Probes`]), and of spreads
//! ([`Spreads`]). A kind with reasons of its own adds a family. In JSON nobody sees the families: a reason has a name, `reason`, that no other has.
//!
//! Reasons that hold for many Pods name the first few and count the rest ([`PodNames`]), so that a plan for thousands
//! of Pods stays readable.

mod budgets;
mod claims;
mod distribution;
mod general;
mod images;
mod jobs;
mod nodes;
mod ordinals;
mod pods;
mod probes;
mod rollout;
mod spreads;
mod subsets;
mod topology;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use budgets::Budgets;
pub use claims::Claims;
pub use distribution::Distribution;
pub use general::General;
pub use images::Images;
pub use jobs::Jobs;
pub use nodes::Nodes;
pub use ordinals::{OrdinalState, Ordinals};
pub use pods::{Hook, Pods};
pub use probes::Probes;
pub use rollout::Rollout;
pub use spreads::Spreads;
pub use subsets::Subsets;
pub use topology::Topology;

/// Why not more is done now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Why {
    /// What can hold back any object.
    General(General),
    /// What holds back a workload.
    Rollout(Rollout),
    /// What Pods wait for.
    Pods(Pods),
    /// What their claims wait for.
    Claims(Claims),
    /// What Pods with ordinals wait for.
    Ordinals(Ordinals),
    /// What holds back the daemons.
    Images(Images),
    /// What keeps Pods away from nodes.
    Nodes(Nodes),
    /// What a PodUnavailableBudget keeps from happening.
    Budgets(Budgets),
    /// What holds back jobs.
    Jobs(Jobs),
    /// What keeps copies from namespaces.
    Distribution(Distribution),
    /// What a PersistentPodState does not remember.
    Topology(Topology),
    /// What holds back probes.
    Probes(Probes),
    /// What holds back the subsets of a workload.
    Subsets(Subsets),
    /// What keeps Pods out of their subsets.
    Spreads(Spreads),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::General(why) => fmt::Display::fmt(why, f),
            Self::Rollout(why) => fmt::Display::fmt(why, f),
            Self::Pods(why) => fmt::Display::fmt(why, f),
            Self::Claims(why) => fmt::Display::fmt(why, f),
            Self::Ordinals(why) => fmt::Display::fmt(why, f),
            Self::Images(why) => fmt::Display::fmt(why, f),
            Self::Nodes(why) => fmt::Display::fmt(why, f),
            Self::Budgets(why) => fmt::Display::fmt(why, f),
            Self::Jobs(why) => fmt::Display::fmt(why, f),
            Self::Distribution(why) => fmt::Display::fmt(why, f),
            Self::Topology(why) => fmt::Display::fmt(why, f),
            Self::Probes(why) => fmt::Display::fmt(why, f),
            Self::Subsets(why) => fmt::Display::fmt(why, f),
            Self::Spreads(why) => fmt::Display::fmt(why, f),
        }
    }
}

impl From<General> for Why {
    fn from(why: General) -> Self {
        Self::General(why)
    }
}

impl From<Rollout> for Why {
    fn from(why: Rollout) -> Self {
        Self::Rollout(why)
    }
}

impl From<Pods> for Why {
    fn from(why: Pods) -> Self {
        Self::Pods(why)
    }
}

impl From<Claims> for Why {
    fn from(why: Claims) -> Self {
        Self::Claims(why)
    }
}

impl From<Ordinals> for Why {
    fn from(why: Ordinals) -> Self {
        Self::Ordinals(why)
    }
}

impl From<Images> for Why {
    fn from(why: Images) -> Self {
        Self::Images(why)
    }
}

impl From<Nodes> for Why {
    fn from(why: Nodes) -> Self {
        Self::Nodes(why)
    }
}

impl From<Budgets> for Why {
    fn from(why: Budgets) -> Self {
        Self::Budgets(why)
    }
}

impl From<Jobs> for Why {
    fn from(why: Jobs) -> Self {
        Self::Jobs(why)
    }
}

impl From<Distribution> for Why {
    fn from(why: Distribution) -> Self {
        Self::Distribution(why)
    }
}

impl From<Topology> for Why {
    fn from(why: Topology) -> Self {
        Self::Topology(why)
    }
}

impl From<Probes> for Why {
    fn from(why: Probes) -> Self {
        Self::Probes(why)
    }
}

impl From<Subsets> for Why {
    fn from(why: Subsets) -> Self {
        Self::Subsets(why)
    }
}

impl From<Spreads> for Why {
    fn from(why: Spreads) -> Self {
        Self::Spreads(why)
    }
}

/// Pods by name: the first few, and how many more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodNames {
    /// The first few, in the order in which they were added.
    pub names: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl PodNames {
    const SHOWN: usize = 10;

    /// Adds a Pod.
    pub fn push(&mut self, name: &str) {
        if self.names.len() < Self::SHOWN {
            self.names.push(name.to_owned());
        } else {
            self.more += 1;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len() + self.more
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<'a> FromIterator<&'a str> for PodNames {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut pods = Self::default();
        pods.extend(names);
        pods
    }
}

impl<'a> Extend<&'a str> for PodNames {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, names: I) {
        for name in names {
            self.push(name);
        }
    }
}

/// `a, b and 3 more`.
impl fmt::Display for PodNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))?;
        if self.more > 0 {
            write!(f, " and {} more", self.more)?;
        }
        Ok(())
    }
}

/// `1 Pod`, `2 Pods`.
struct Count(i32);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Pod{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}
