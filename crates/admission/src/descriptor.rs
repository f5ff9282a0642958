//! What the platform has to know of each kind, and of each built-in resource that we touch.
//!
//! [`DESCRIPTORS`] is the only list: the paths of the webhook server, both webhook configurations, the rights of the manager, the
//! controllers with their flags, and which CRDs we convert are read from it. A test compares all of these with tables that were copied from the
//! contract.
//!
//! A kind whose rules are not built yet has [`Handler::NotBuilt`]: its path is served and allows everything as it is.

mod builtin;
mod derived;
mod ours;

pub use derived::{Configuration, Installation, Rule, Webhook, controllers, live_paths, reads, rules, webhooks};

use crate::{Context, Request, Verdict};
use futures::future::BoxFuture;
use kruise_api::{
    gates::{Gate, Gates},
    registry::{Conversion, KindInfo},
};
use kruise_runtime::cache::Stores;
use std::fmt;

/// Every kind and every built-in resource that we know.
pub static DESCRIPTORS: &[&[Descriptor]] = &[ours::KINDS, builtin::RESOURCES];

/// All descriptors, ours first.
pub fn descriptors() -> impl Iterator<Item = &'static Descriptor> {
    DESCRIPTORS.iter().copied().flatten()
}

/// What has to be known of one kind.
#[derive(Debug)]
pub struct Descriptor {
    pub resource: Resource,
    /// Changes objects on their way in.
    pub mutate: Option<Hook>,
    /// Allows or refuses what is done to objects.
    pub validate: Option<Hook>,
    /// Without these gates objects of the kind are refused.
    pub gates: Needs,
    /// Status code of a refusal because of the object's fields.
    pub invalid: u16,
    pub controllers: &'static [Controller],
    /// What the manager may do with it.
    pub grants: &'static [Grant],
}

/// What a descriptor is about.
#[derive(Debug, Clone, Copy)]
pub enum Resource {
    /// A kind of ours.
    Ours(&'static KindInfo),
    /// A resource that the API server brings along, or of which there are no objects.
    BuiltIn {
        group: &'static str,
        versions: &'static [&'static str],
        plural: &'static str,
    },
}

impl Resource {
    pub fn group(&self) -> &'static str {
        match self {
            Self::Ours(kind) => kind.group,
            Self::BuiltIn { group, .. } => group,
        }
    }

    /// Returns the name of the kind; of a built-in resource the name in URLs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ours(kind) => kind.kind,
            Self::BuiltIn { plural, .. } => plural,
        }
    }

    pub fn plural(&self) -> &'static str {
        match self {
            Self::Ours(kind) => kind.plural,
            Self::BuiltIn { plural, .. } => plural,
        }
    }

    pub fn versions(&self) -> Vec<&'static str> {
        match self {
            Self::Ours(kind) => kind.versions.iter().map(|version| version.name).collect(),
            Self::BuiltIn { versions, .. } => versions.to_vec(),
        }
    }

    /// Whether our CRD says that we convert between its versions.
    pub fn converts(&self) -> bool {
        matches!(self, Self::Ours(kind) if kind.conversion == Conversion::Webhook)
    }
}

/// Name of the CRD of a kind.
pub fn crd_name(kind: &KindInfo) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// The gates without which a kind is refused, and how.
#[derive(Debug, Clone, Copy)]
pub enum Needs {
    Nothing,
    /// All of these: 403.
    All(&'static [Gate]),
    /// One of these: 400.
    Any(&'static [Gate]),
}

impl Needs {
    /// The status code and message of the refusal, when gates are missing.
    pub fn missing(&self, gates: Gates) -> Option<(u16, String)> {
        match self {
            Self::Nothing => None,
            Self::All(needed) => {
                let missing = needed.iter().find(|gate| !gates.enabled(**gate))?;
                Some((403, format!("feature-gate {missing} is not enabled")))
            }
            Self::Any(needed) if needed.iter().any(|gate| gates.enabled(*gate)) => None,
            Self::Any(needed) => {
                let names: Vec<String> = needed.iter().map(ToString::to_string).collect();
                Some((400, format!("feature-gate {} is not enabled", names.join(" or "))))
            }
        }
    }
}

/// One path of the webhook server.
#[derive(Debug)]
pub struct Hook {
    pub path: &'static str,
    /// Path under which older charts know it.
    pub alias: Option<&'static str>,
    /// Entries of the webhook configuration that lead here.
    pub entries: &'static [Entry],
    pub live: Live,
    pub reach: Reach,
    pub handler: Handler,
    /// What the handler reads from the cache; readiness waits for it.
    pub reads: &'static [Reads],
}

/// Returns the name of a kind that is read while its first list is not complete: `Stores::pending::<Pod>`.
pub type Reads = fn(&Stores) -> Option<String>;

/// One entry of a webhook configuration.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    /// `/eviction`, or nothing for the resource itself.
    pub subresource: &'static str,
    pub operations: &'static [Operation],
    /// Nobody is asked about an object that had none of these annotations before, or is on its way out already; empty: about all. API servers before 1.30 cannot look at
    /// that themselves and ask about all.
    pub annotated: &'static [&'static str],
}

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// When entries that lead to a path are kept in the webhook configurations.
#[derive(Debug, Clone, Copy)]
pub enum Live {
    Always,
    /// With this gate.
    Gated(Gate),
    /// With one gate of each group, and while the CRD of this kind is installed.
    GatedAndServed(&'static [&'static [Gate]], &'static KindInfo),
}

impl Live {
    /// Whether the path is live; `served` tells whether the CRD of this name is installed.
    pub fn is_live(self, gates: Gates, served: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Always => true,
            Self::Gated(gate) => gates.enabled(gate),
            Self::GatedAndServed(groups, kind) => {
                let is_on = |group: &&[Gate]| group.iter().any(|gate| gates.enabled(*gate));
                groups.iter().all(is_on) && served(&crd_name(kind))
            }
        }
    }
}

/// Which objects reach an entry, and what happens when we cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All; the request fails.
    All,
    /// Not those of the system's namespaces and of our own, so that we can always start; the request fails.
    Pods,
    /// Only objects with the protection label, and none of the system's namespace; the request goes on.
    Protected,
}

/// What answers a request.
pub enum Handler {
    /// Nothing yet: everything is allowed as it is.
    NotBuilt,
    /// Decides at once.
    Now(fn(&Request<'_>, &Context) -> Verdict),
    /// May have to ask the API server first. [`crate::admit`] has those of our kinds.
    Later(for<'a> fn(&'a Request<'a>, &'a Context, &'static Descriptor) -> BoxFuture<'a, Verdict>),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBuilt => "NotBuilt",
            Self::Now(_) => "Now",
            Self::Later(_) => "Later",
        })
    }
}

/// A controller of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller {
    /// Its name in metrics, events and the user agent.
    pub name: &'static str,
    /// It runs only with these gates: one of each group.
    pub gates: &'static [&'static [Gate]],
    /// The flag for its workers; some have a fixed number.
    pub workers_flag: Option<&'static str>,
    /// Workers unless the flag says otherwise.
    pub workers: i64,
    /// Whether the `--rate-limiter-*` flags count for it.
    pub rate_limited: bool,
    /// Whether it exists yet.
    pub built: bool,
}

/// A right of the manager. It is given as long as somebody who needs it is built and has its gates.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// `/status` and the like, or nothing for the resource itself.
    pub subresource: &'static str,
    pub verbs: &'static [&'static str],
    pub needed_by: NeededBy,
    pub scope: Scope,
}

/// Who needs a right.
#[derive(Debug, Clone, Copy)]
pub enum NeededBy {
    /// The process itself.
    Process,
    /// The controllers of the kind.
    Own,
    /// These controllers.
    Controllers(&'static [&'static str]),
    /// These controllers, with this gate.
    Gated(Gate, &'static [&'static str]),
    /// The webhooks, with this gate.
    With(Gate),
}

/// Where a right holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Cluster,
    /// In the namespace of the manager.
    System,
    /// In the namespace of the Secrets that daemons read.
    DaemonConfig,
}

#[cfg(test)]
mod tests;
