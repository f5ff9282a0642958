//! New Pods.
//!
//! A Pod is made from the newest template. It tolerates what would otherwise take it off a node in trouble, and says its node: by an affinity to nothing but this
//! node, which takes the place of the template's required node affinity (preferences and affinity to Pods stay); or, with `--assign-pods-by-scheduler=false`, by
//! being bound to it at once. Sets that update in place give their Pods the readiness gate that this needs.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::names::event;
use kruise_api::names::object::DAEMON_SET_SCHEDULER;
use kruise_api::raw::VolumeClaimTemplates;
use serde_json::{Map, Value, json};

use super::counts::is_in_place;
use super::snapshot::Snapshot;
use crate::plan::{Chain, Event, IdSource, Write};
use crate::shared::node_eligibility::affinity::NAME_FIELD;
use crate::shared::node_eligibility::taints::add_daemon_tolerations;
use crate::shared::pod_factory::{Additions, PodFactory, PodIdentity};
use crate::shared::tree::child_or_new;

/// Characters that a name begins with before the five that are its own.
const PREFIX_LENGTH: usize = 58;

/// The Pod of a node.
struct NodePod<'n> {
    name: String,
    node: &'n str,
    skips_scheduler: bool,
}

impl PodIdentity for NodePod<'_> {
    fn pod_name(&self) -> String {
        self.name.clone()
    }

    /// There are no claim templates.
    fn claim_name(&self, template: &str) -> String {
        template.to_owned()
    }

    fn pod_labels(&self) -> Map<String, Value> {
        Map::new()
    }

    fn spec(&self) -> Map<String, Value> {
        if self.skips_scheduler {
            return Map::from_iter([
                ("nodeName".to_owned(), json!(self.node)),
                ("schedulerName".to_owned(), json!(DAEMON_SET_SCHEDULER)),
            ]);
        }
        let this = json!([{ "matchFields": [{ "key": NAME_FIELD, "operator": "In", "values": [self.node] }] }]);
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": this } });
        Map::from_iter([("affinity".to_owned(), json!({ "nodeAffinity": required }))])
    }
}

/// The writes that make a Pod on each of these nodes.
pub(super) fn new_pods(snapshot: &Snapshot<'_>, nodes: &[&str]) -> Vec<Chain> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let claim_templates = VolumeClaimTemplates::default();
    let factory = PodFactory {
        owner: &snapshot.owner,
        namespace: snapshot.namespace(),
        claim_templates: &claim_templates,
        claim_labels: None,
    };
    // Not from the revision's data: that has only the fields which count for its hash.
    let mut template = snapshot.set.spec.template.value();
    if let Some(spec) = template
        .as_object_mut()
        .and_then(|template| child_or_new(template, "spec"))
    {
        add_daemon_tolerations(spec);
    }
    let gates: &[&str] = if is_in_place(&snapshot.set.spec) {
        &[IN_PLACE_UPDATE_READY]
    } else {
        &[]
    };
    let additions = Additions {
        labels: snapshot.pod_labels(),
        annotations: BTreeMap::new(),
        readiness_gates: gates,
    };
    let prototype = factory.prototype(&template, additions);
    let mut names = Names::of(snapshot);
    let chain = |node: &&str| {
        let identity = NodePod {
            name: names.next(),
            node,
            skips_scheduler: snapshot.env.settings.daemon_pods_skip_scheduler,
        };
        let new = factory.pod(&prototype, &identity, |_| true);
        let text = format!("Created pod: {}", new.name);
        Chain::of(
            Write::from(new.pod)
                .then(Event::normal(event::SUCCESSFUL_CREATE, text))
                .or_else(Event::warning(event::FAILED_CREATE, "Error creating")),
        )
    };
    nodes.iter().map(chain).collect()
}

/// Names that no Pod of the set has.
struct Names<'s> {
    prefix: String,
    ids: IdSource,
    taken: BTreeSet<&'s str>,
    given: BTreeSet<String>,
}

impl<'s> Names<'s> {
    fn of(snapshot: &'s Snapshot<'_>) -> Self {
        let prefix = format!("{}-", snapshot.owner.name);
        Self {
            prefix: prefix.chars().take(PREFIX_LENGTH).collect(),
            ids: snapshot.env.ids.clone(),
            taken: snapshot.observed.pods.iter().map(|pod| &*pod.metadata.name).collect(),
            given: BTreeSet::new(),
        }
    }

    fn next(&mut self) -> String {
        // There are 14 million: one that is taken is rare, and the bound is never met.
        for _ in 0..64 {
            let name = format!("{}{}", self.prefix, self.ids.next_id());
            if !self.taken.contains(&*name) && self.given.insert(name.clone()) {
                return name;
            }
        }
        format!("{}{}", self.prefix, self.ids.next_id())
    }
}
