//! What controllers read of a Pod's status.

use serde::{Deserialize, Deserializer};

use crate::meta::CompactTimestamp;
use crate::meta::compact::ContainerId;
use crate::pod::Resources;
use crate::text::{Common, Text};
use crate::wire::or_empty;

words! {
    /// Where a Pod is in its life.
    pub enum PodPhase { Pending, Running, Succeeded, Failed, Unknown }
}

/// What controllers read of a Pod's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Where the Pod is in its life.
    #[serde(deserialize_with = "or_empty")]
    pub phase: PodPhase,
    /// Why, in one word; `Evicted` for example.
    #[serde(deserialize_with = "or_empty")]
    pub reason: Text,
    /// Address of the Pod.
    #[serde(rename = "podIP", deserialize_with = "or_empty")]
    pub pod_ip: Box<str>,
    #[serde(deserialize_with = "or_empty")]
    pub conditions: Box<[PodCondition]>,
    /// How the containers are.
    #[serde(deserialize_with = "or_empty")]
    pub container_statuses: Box<[ContainerStatus]>,
    /// How the init containers are.
    #[serde(deserialize_with = "or_empty")]
    pub init_container_statuses: Box<[ContainerStatus]>,
    /// How the containers are that were put into the Pod while it was there.
    #[serde(deserialize_with = "or_empty")]
    pub ephemeral_container_statuses: Box<[ContainerStatus]>,
}

impl PodStatus {
    /// Returns a condition by type.
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// True when there is such a condition, and it holds.
    pub fn is_true(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == Holds::True)
    }

    /// Returns how a container is, by name, also among the init containers.
    pub fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.container_statuses
            .iter()
            .chain(&self.init_container_statuses)
            .find(|status| status.name == name)
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Holds {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// What the condition is about.
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub type_: Text,
    /// Whether it holds.
    #[serde(deserialize_with = "or_empty")]
    pub status: Holds,
    /// When that last changed.
    pub last_transition_time: Option<CompactTimestamp>,
    /// Why, in one word.
    #[serde(deserialize_with = "or_empty")]
    pub reason: Text,
    /// Details; some of our conditions keep data here.
    #[serde(deserialize_with = "or_empty")]
    pub message: Text,
}

/// How a container is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    #[serde(deserialize_with = "or_empty")]
    pub name: Text,
    /// Image it runs, as the runtime names it.
    #[serde(deserialize_with = "or_empty")]
    pub image: Text,
    #[serde(rename = "imageID", deserialize_with = "or_empty")]
    pub image_id: Text,
    /// ID of the container; a restart gives another.
    #[serde(rename = "containerID", deserialize_with = "or_empty")]
    pub container_id: ContainerId,
    /// True when it passes its readiness probe.
    #[serde(deserialize_with = "or_empty")]
    pub ready: bool,
    /// True when it has passed its startup probe.
    #[serde(deserialize_with = "or_empty")]
    pub started: bool,
    /// Restarts so far.
    #[serde(deserialize_with = "or_empty")]
    pub restart_count: i32,
    /// What it does now.
    #[serde(deserialize_with = "or_empty")]
    pub state: ContainerState,
    /// Resources it runs with, as far as the kubelet says so.
    #[serde(deserialize_with = "resources")]
    pub resources: Option<Common<Resources>>,
}

fn resources<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Common<Resources>>, D::Error> {
    Ok(Option::<Resources>::deserialize(from)?.map(Common::from))
}

/// What a container does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireState")]
pub enum ContainerState {
    /// Nothing is known.
    #[default]
    Unknown,
    /// It has not started.
    Waiting {
        /// Why, in one word.
        reason: Text,
    },
    /// It runs.
    Running {
        /// Since when.
        started_at: Option<CompactTimestamp>,
    },
    /// It has ended.
    Terminated {
        /// Its exit code.
        exit_code: i32,
        /// Why, in one word.
        reason: Text,
        /// When.
        finished_at: Option<CompactTimestamp>,
    },
}

/// The wire form of [`ContainerState`]: one of the three is given.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireState {
    waiting: Option<WireWaiting>,
    running: Option<WireRunning>,
    terminated: Option<WireTerminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireWaiting {
    #[serde(deserialize_with = "or_empty")]
    reason: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireRunning {
    started_at: Option<CompactTimestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTerminated {
    #[serde(deserialize_with = "or_empty")]
    exit_code: i32,
    #[serde(deserialize_with = "or_empty")]
    reason: Text,
    finished_at: Option<CompactTimestamp>,
}

impl From<WireState> for ContainerState {
    fn from(wire: WireState) -> Self {
        if let Some(ended) = wire.terminated {
            let WireTerminated {
                exit_code,
                reason,
                finished_at,
            } = ended;
            Self::Terminated {
                exit_code,
                reason,
                finished_at,
            }
        } else if let Some(running) = wire.running {
            Self::Running {
                started_at: running.started_at,
            }
        } else if let Some(waiting) = wire.waiting {
            Self::Waiting { reason: waiting.reason }
        } else {
            Self::Unknown
        }
    }
}
