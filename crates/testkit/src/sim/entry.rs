//! One Pod of the engine: what is known of it and what is to be done next.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::NodeHealth;
use super::life::Life;
use super::script::Script;
use super::status::{self, Addresses};
use super::view::{PodView, Status};
use crate::calls::{Calls, Refused};

/// How soon a Pod is looked at again whose call failed, or that waits for a ConfigMap.
const AGAIN_SOON: Duration = Duration::from_secs(1);
/// How soon a write is tried again that the server found wrong. Something else has to change first.
const AGAIN_LATE: Duration = Duration::from_secs(30);

/// What a Pod has to know of its node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ip: String,
    pub(super) health: NodeHealth,
}

/// What can be asked of the server for a Pod. A patch travels with its fingerprint.
pub(super) enum Call {
    Patch(Value, u64),
    Delete,
    LookUp(BTreeSet<String>),
}

pub(super) enum Answer {
    Patched(Result<u64, Refused>, u64),
    Deleted(Result<(), Refused>),
    Keys(Vec<(String, Keys)>),
}

/// The keys of a ConfigMap, `None` when it does not exist.
type Keys = Result<Option<BTreeSet<String>>, Refused>;

/// Where a Pod stands with the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Resting,
    /// Waits in the queue to be looked at.
    Queued,
    /// A call is in flight. What comes in meanwhile makes the Pod dirty: it is looked at again when the call has ended.
    Calling {
        dirty: bool,
    },
}

/// What to do with a Pod after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Look,
    /// The watch will bring it back.
    Rest,
    Pause(Duration),
}

impl Call {
    pub(super) async fn make(self, calls: &Calls, namespace: &str, name: &str, uid: &str) -> Answer {
        match self {
            Call::Patch(patch, print) => {
                tracing::debug!(pod = format!("{namespace}/{name}"), report = %patch["status"], "reporting");
                Answer::Patched(calls.patch_pod_status(namespace, name, patch).await, print)
            }
            Call::Delete => Answer::Deleted(calls.delete_pod(namespace, name, uid).await),
            Call::LookUp(names) => {
                let mut found = Vec::new();
                for map in names {
                    let keys = calls.config_map_keys(namespace, &map).await;
                    found.push((map, keys));
                }
                Answer::Keys(found)
            }
        }
    }
}

pub(super) struct Entry {
    pub(super) view: PodView,
    script: Result<Arc<Script>, String>,
    life: Life,
    ip: String,
    pub(super) turn: Turn,
    pub(super) wake: Option<Timestamp>,
    /// The version our last write made; older readings are not acted upon.
    written: u64,
    /// Fingerprint of that write. A server that ignores a field must not be asked for it again and again.
    last_patch: u64,
    deleted: bool,
}

impl Entry {
    /// A Pod seen for the first time. It keeps the address it has, or gets `new_ip`.
    pub(super) fn new(view: PodView, defaults: &Arc<Script>, new_ip: String, now: Timestamp) -> Self {
        let script = read_script(defaults, &view);
        Entry {
            life: Life::begin(&view, script.as_deref().unwrap_or(defaults), now),
            ip: view.status.pod_ip.clone().unwrap_or(new_ip),
            script,
            view,
            turn: Turn::Resting,
            wake: None,
            written: 0,
            last_patch: 0,
            deleted: false,
        }
    }

    /// Takes in a newer version.
    pub(super) fn learn(&mut self, view: PodView, defaults: &Arc<Script>) {
        if view.version() < self.view.version() {
            return;
        }
        if self.view.metadata.annotations != view.metadata.annotations {
            self.script = read_script(defaults, &view);
        }
        self.view = view;
    }

    /// Whether the watch has shown everything that was written.
    pub(super) fn is_current(&self) -> bool {
        self.view.version() >= self.written
    }

    /// After a new list nothing older can come any more.
    pub(super) fn trust_view(&mut self) {
        self.written = self.written.min(self.view.version());
    }

    /// The next call for this Pod, and when to look at it again.
    pub(super) fn decide(&mut self, node: &Node, now: Timestamp) -> (Option<Call>, Option<Timestamp>) {
        match node.health {
            NodeHealth::Silent => return (None, None),
            NodeHealth::Unreachable => {
                let report = status::report_unreachable(&self.view, now);
                return (self.patch_to(&report), None);
            }
            NodeHealth::Ready | NodeHealth::NotReady => {}
        }
        if self.deleted {
            return (None, None);
        }
        let wanted = self.life.wanted_config_maps(&self.view);
        if wanted.iter().any(|name| !self.life.config_maps.contains_key(name)) {
            return (Some(Call::LookUp(wanted)), None);
        }
        let script = self.script.as_deref().map_err(String::as_str);
        let mut wake = self.life.advance(&self.view, script, now);
        if !wanted.is_empty() {
            // Something is still missing in them: they are asked for again at the next look.
            self.life.config_maps.retain(|name, _| !wanted.contains(name));
            let soon = now + AGAIN_SOON;
            wake = Some(wake.map_or(soon, |at| at.min(soon)));
        }
        // Nobody sees the last report of a Pod that vanishes with its containers.
        if self.life.stopped && !self.view.has_finalizers() {
            return (Some(Call::Delete), None);
        }
        let addresses = Addresses {
            host: &node.ip,
            pod: &self.ip,
        };
        let report = status::report(&self.view, &self.life, script, addresses, now);
        let call = self
            .patch_to(&report)
            .or_else(|| self.life.stopped.then_some(Call::Delete));
        (call, wake)
    }

    fn patch_to(&self, report: &Status) -> Option<Call> {
        let patch = status::difference(self.view.uid(), &self.view.status, report)?;
        let mut hasher = DefaultHasher::new();
        patch.to_string().hash(&mut hasher);
        let print = hasher.finish();
        let ignored_by_server = print == self.last_patch && self.view.version() <= self.written;
        (!ignored_by_server).then_some(Call::Patch(patch, print))
    }

    /// Takes in what the server answered.
    pub(super) fn take(&mut self, answer: Answer) -> After {
        let mut look = self.turn == Turn::Calling { dirty: true };
        self.turn = Turn::Resting;
        match answer {
            Answer::Patched(Ok(version), print) => {
                self.written = version;
                self.last_patch = print;
            }
            Answer::Deleted(Ok(())) => self.deleted = true,
            Answer::Keys(found) => {
                for (name, keys) in found {
                    match keys {
                        Ok(keys) => drop(self.life.config_maps.insert(name, keys)),
                        Err(refused) => return self.pause_after(&refused),
                    }
                }
                look = true;
            }
            Answer::Patched(Err(refused), _) | Answer::Deleted(Err(refused)) => return self.pause_after(&refused),
        }
        if look || self.is_current() {
            After::Look
        } else {
            After::Rest
        }
    }

    fn pause_after(&self, refused: &Refused) -> After {
        let pod = format!("{}/{}", self.view.namespace(), self.view.name());
        After::Pause(match refused {
            // The watch will tell.
            Refused::Gone => AGAIN_LATE,
            Refused::Conflict => AGAIN_SOON,
            Refused::Invalid(why) => {
                tracing::error!(pod, why, "the server refused what a simulated kubelet wrote");
                AGAIN_LATE
            }
            Refused::Unreachable(why) => {
                tracing::warn!(pod, why, "a simulated kubelet does not reach the server");
                AGAIN_SOON
            }
        })
    }
}

fn read_script(defaults: &Arc<Script>, view: &PodView) -> Result<Arc<Script>, String> {
    if view.metadata.annotations.is_none() {
        return Ok(defaults.clone());
    }
    Script::parse(defaults, view.annotations()).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::{Fixture, pod};

    fn node(health: NodeHealth) -> Node {
        Node {
            ip: "198.18.0.1".to_owned(),
            health,
        }
    }

    fn view(version: u64, status: &Value) -> PodView {
        let builder = pod("a")
            .uid("u")
            .set("/metadata/resourceVersion", version.to_string())
            .set("/status", status);
        serde_json::from_value(builder.json()).unwrap()
    }

    fn entry() -> Entry {
        let empty = serde_json::json!({ "phase": "Pending" });
        Entry::new(
            view(1, &empty),
            &Arc::default(),
            "100.64.0.1".to_owned(),
            Timestamp::UNIX_EPOCH,
        )
    }

    fn patch(entry: &mut Entry) -> Option<(Value, u64)> {
        match entry.decide(&node(NodeHealth::Ready), Timestamp::UNIX_EPOCH).0 {
            Some(Call::Patch(patch, print)) => Some((patch, print)),
            _ => None,
        }
    }

    #[test]
    fn a_pod_rests_until_the_watch_shows_what_was_written() {
        let mut entry = entry();
        let (written, print) = patch(&mut entry).unwrap();
        assert_eq!(entry.take(Answer::Patched(Ok(7), print)), After::Rest);
        assert!(!entry.is_current());
        entry.learn(view(7, &written["status"]), &Arc::default());
        assert!(entry.is_current());
        assert_eq!(patch(&mut entry), None);
        entry.learn(view(3, &serde_json::json!({})), &Arc::default());
        assert_eq!(entry.view.version(), 7, "an old reading does not replace a newer one");
    }

    #[test]
    fn what_came_in_during_a_call_is_looked_at_afterwards() {
        let mut entry = entry();
        let (_, print) = patch(&mut entry).unwrap();
        entry.turn = Turn::Calling { dirty: true };
        assert_eq!(entry.take(Answer::Patched(Ok(7), print)), After::Look);
        assert_eq!(
            entry.take(Answer::Patched(Err(Refused::Conflict), print)),
            After::Pause(AGAIN_SOON)
        );
    }

    #[test]
    fn a_server_that_drops_a_field_is_not_asked_for_it_again_and_again() {
        let mut entry = entry();
        let (mut written, print) = patch(&mut entry).unwrap();
        entry.take(Answer::Patched(Ok(7), print));
        written["status"]["containerStatuses"][0]
            .as_object_mut()
            .unwrap()
            .remove("resources");
        entry.learn(view(7, &written["status"]), &Arc::default());
        let (again, print) = patch(&mut entry).expect("the smaller patch is tried once");
        assert_eq!(again["status"].as_object().unwrap().len(), 1);
        entry.take(Answer::Patched(Ok(7), print));
        assert_eq!(patch(&mut entry), None);
        entry.learn(view(8, &written["status"]), &Arc::default());
        assert!(
            patch(&mut entry).is_some(),
            "another writer's change is a reason to look again"
        );
    }

    #[test]
    fn a_silent_node_does_nothing() {
        let mut entry = entry();
        let (call, wake) = entry.decide(&node(NodeHealth::Silent), Timestamp::UNIX_EPOCH);
        assert!(call.is_none() && wake.is_none());
    }
}
