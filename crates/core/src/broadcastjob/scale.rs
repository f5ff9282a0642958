//! Which Pods are made and deleted.
//!
//! - `parallelism` is how many Pods may be active. A text is a share of the desired nodes, rounded up, with or without `%`. When more are active,
//!   nobody is deleted, and people are told.
//! - The name of a Pod follows from the job and the node, so that the API server refuses a second one for the same node, however old our picture is.
//! - The scheduler places the Pod: its required node affinity is replaced by its one node. Everything else of the template stays.

use std::collections::BTreeMap;

use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::names::{event, label};
use kruise_api::pod::Pod;
use kruise_api::raw::VolumeClaimTemplates;
use kruise_api::resource::Preconditions;
use kruise_api::shared::IntOrPercent;
use serde_json::{Map, Value, json};

use super::Observed;
use super::counts::Counts;
use crate::plan::why;
use crate::plan::{Action, Chain, Event, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::node_eligibility::affinity::NAME_FIELD;
use crate::shared::owner::Owner;
use crate::shared::pod_factory::{Additions, PodFactory, PodIdentity};

/// How many Pods may be active; what is wrong with `parallelism` when it is no number.
pub(super) fn parallelism(given: Option<&IntOrPercent>, desired: i32) -> Result<i64, String> {
    let count = match given {
        None => Ok(i32::MAX),
        Some(IntOrPercent::Int(count)) => Ok(*count),
        Some(IntOrPercent::Text(text)) => {
            let share = format!("{}%", text.strip_suffix('%').unwrap_or(text));
            IntOrPercent::from(share.as_str()).ceil_of(desired)
        }
    };
    count
        .map(i64::from)
        .map_err(|error| format!("spec.parallelism: {error}"))
}

/// Makes Pods on nodes that wait, as many as may run.
pub(super) fn create(observed: &Observed, template: &Value, counts: &Counts<'_>, plan: &mut Plan) {
    let job = &*observed.job;
    let active = i32::try_from(counts.active.len()).unwrap_or(i32::MAX);
    let limit = match parallelism(job.spec.parallelism.as_ref(), counts.desired) {
        Ok(limit) => limit,
        Err(message) => {
            plan.because(why::General::Invalid { message });
            return;
        }
    };
    let room = limit - i64::from(active);
    if room < 0 {
        let message = format!("{active} pods are active, and {limit} may be");
        plan.events.push(Event::warning(event::TOO_MANY_ACTIVE_PODS, message));
    }
    if active > 0 || !counts.waiting.is_empty() {
        plan.because(why::Jobs::JobRunning {
            active,
            waiting: i32::try_from(counts.waiting.len()).unwrap_or(i32::MAX),
            parallelism: limit,
        });
    }
    let owner = Owner::of::<BroadcastJob>(&job.metadata);
    let claims = VolumeClaimTemplates::default();
    let factory = PodFactory {
        owner: &owner,
        namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
        claim_templates: &claims,
        claim_labels: None,
    };
    let labels = [
        (label::BROADCAST_JOB_NAME, &owner.name),
        (label::BROADCAST_JOB_UID, &owner.uid),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.clone()));
    let additions = Additions {
        labels: BTreeMap::from(labels),
        ..Additions::default()
    };
    let prototype = factory.prototype(template, additions);
    let mut made = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::GoOn);
    let room = usize::try_from(room).unwrap_or_default();
    for node in counts.waiting.iter().take(room) {
        let identity = OnNode {
            owner: &owner,
            node: &node.metadata.name,
            is_scheduled: observed.is_scheduled,
        };
        let new = factory.pod(&prototype, &identity, |_| true);
        let write = Write::from(new.pod)
            .then(Event::normal(
                event::SUCCESSFUL_CREATE,
                format!("Created pod: {}", new.name),
            ))
            .or_else(Event::warning(event::FAILED_CREATE, "Error creating"));
        made.push(Chain::of(write));
    }
    plan.push(made);
}

/// The Pod of a job on one node.
struct OnNode<'a> {
    owner: &'a Owner,
    node: &'a str,
    is_scheduled: bool,
}

impl PodIdentity for OnNode<'_> {
    fn pod_name(&self) -> String {
        pod_name(&self.owner.name, &self.owner.uid, self.node)
    }

    fn claim_name(&self, template: &str) -> String {
        template.to_owned()
    }

    fn pod_labels(&self) -> Map<String, Value> {
        Map::new()
    }

    fn spec(&self) -> Map<String, Value> {
        let mut spec = Map::new();
        if self.is_scheduled {
            let field = json!({"key": NAME_FIELD, "operator": "In", "values": [self.node]});
            let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
            spec.insert(
                "affinity".to_owned(),
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
            );
        } else {
            spec.insert("nodeName".to_owned(), json!(self.node));
        }
        spec
    }
}

/// Characters of generated names: no vowels and no look-alikes, so that no words arise.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// So many of them keep the nodes of the largest cluster apart.
const SUFFIX: usize = 10;
/// A name that is longer is no host name.
const LONGEST: usize = 63;

/// The name of the Pod of a job on a node.
fn pod_name(job: &str, uid: &str, node: &str) -> String {
    let mut hash = fnv64([uid, "/", node].iter().flat_map(|part| part.bytes()));
    let mut suffix = String::with_capacity(SUFFIX);
    for _ in 0..SUFFIX {
        let at = (hash % ALPHABET.len() as u64) as usize;
        hash /= ALPHABET.len() as u64;
        suffix.extend(ALPHABET.get(at).map(|byte| char::from(*byte)));
    }
    let begin: String = job.chars().take(LONGEST - SUFFIX - 1).collect();
    format!("{begin}-{suffix}")
}

/// FNV-1a, 64 bits, with its high bits mixed in: what is divided by looks at the low ones first.
fn fnv64(bytes: impl Iterator<Item = u8>) -> u64 {
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Deletes the Pods that are active.
pub(super) fn delete_active(counts: &Counts<'_>, plan: &mut Plan) {
    delete_running(&counts.active, plan);
}

/// Deletes Pods whose node no longer fits.
pub(super) fn delete_misplaced(counts: &Counts<'_>, plan: &mut Plan) {
    delete_running(&counts.misplaced, plan);
}

/// Deletes Pods.
pub(super) fn delete_running(pods: &[&Pod], plan: &mut Plan) {
    let mut deleted = Step::new(Phase::Claims, Pace::Bounded, OnFailure::GoOn);
    for pod in pods {
        let done = Event::normal(event::SUCCESSFUL_DELETE, format!("Delete pod: {}", pod.metadata.name));
        let write = Write::from(Action::delete(Target::of(*pod), Preconditions::same(*pod))).then(done);
        deleted.push(Chain::of(write));
    }
    plan.push(deleted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn given_many_nodes_then_names_differ_and_are_host_names() {
        let names: BTreeSet<String> = (0..20_000)
            .map(|n| pod_name("job", "u-1", &format!("node-{n}")))
            .collect();
        assert_eq!(names.len(), 20_000);
        assert_ne!(pod_name("job", "u-1", "a"), pod_name("job", "u-2", "a"));
        let long = pod_name(&"x".repeat(63), "u", "n");
        assert_eq!(long.len(), 63);
    }

    #[test]
    fn given_parallelism_then_a_text_is_always_a_share_rounded_up() {
        for (given, expected) in [
            (None, Ok(i64::from(i32::MAX))),
            (Some(IntOrPercent::Int(2)), Ok(2)),
            (Some(IntOrPercent::Int(-1)), Ok(-1)),
            (Some(IntOrPercent::from("34%")), Ok(2)),
            (Some(IntOrPercent::from("5")), Ok(1)),
            (Some(IntOrPercent::from("200%")), Ok(6)),
            (Some(IntOrPercent::from("many")), Err(())),
        ] {
            assert_eq!(parallelism(given.as_ref(), 3).map_err(drop), expected, "{given:?}");
        }
    }
}
