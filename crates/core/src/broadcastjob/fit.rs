//! On which nodes a job runs.
//!
//! A node fits when all of this holds. Other Pods on the node do not count.
//!
//! 1. What the template asks of nodes by name, labels, affinity and tolerations ([`crate::shared::node_eligibility`]); here a taint with the effect
//!    `NoSchedule` also ends the stay of a Pod that is there.
//! 2. It is not cordoned, or the Pod tolerates that.
//! 3. It has what the Pod requests, and room for one Pod at all ([`super::resources`]).
//!
//! For a node that has a Pod of the job, the Pod itself is asked. It names its node instead of the template's affinity, and has tolerations that
//! the API server added: a node that is not ready keeps its Pod, and gets no new one.

use kruise_api::names::node::taint;
use kruise_api::node::{Node, Taint};
use kruise_api::pod::Pod;
use serde_json::Value;

use super::resources::Requests;
use crate::shared::node_eligibility::taints::NO_SCHEDULE;
use crate::shared::node_eligibility::{Fit, Misfit, NodeRequirements};

/// What a Pod asks of a node.
#[derive(Clone, Debug)]
pub struct Fitter {
    requirements: NodeRequirements,
    requests: Requests,
}

/// Why a node does not fit, in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    OtherNode,
    NodeSelector,
    Affinity,
    Taint(String),
    Cordoned,
    Resource(String),
}

impl Cause {
    pub(super) fn text(&self) -> String {
        match self {
            Self::OtherNode => "the template names another node".to_owned(),
            Self::NodeSelector => "they lack labels of nodeSelector".to_owned(),
            Self::Affinity => "they do not match the required node affinity".to_owned(),
            Self::Taint(taint) => format!("the taint {taint} is not tolerated"),
            Self::Cordoned => "they are cordoned".to_owned(),
            Self::Resource(name) => format!("they have too little {name}"),
        }
    }
}

impl Fitter {
    /// What new Pods ask for. Fails with a sentence when the template cannot be read.
    pub fn of_template(template: &Value) -> Result<Self, String> {
        Ok(Self {
            requirements: NodeRequirements::of_template(template)?,
            requests: Requests::of_template(template)?,
        })
    }

    /// What a Pod that is there asks for.
    pub fn of_pod(pod: &Pod) -> Self {
        Self {
            requirements: NodeRequirements::of_pod(pod),
            requests: Requests::of_pod(pod),
        }
    }

    /// Whether a node fits.
    pub fn fits(&self, node: &Node) -> bool {
        self.misfit(node).is_none()
    }

    /// Why a node does not fit; nothing when it does.
    pub(super) fn misfit(&self, node: &Node) -> Option<Cause> {
        let untolerated = |taint: &Taint| Some(Cause::Taint(format!("{}:{}", &*taint.key, &*taint.effect)));
        match self.requirements.fit(node) {
            Fit::Misfit(Misfit::OtherNode) => return Some(Cause::OtherNode),
            Fit::Misfit(Misfit::NodeSelector) => return Some(Cause::NodeSelector),
            Fit::Misfit(Misfit::Affinity) => return Some(Cause::Affinity),
            // The taint says the same, and a person looks for the command they gave.
            _ if node.spec.unschedulable && !self.requirements.tolerates(&cordon()) => return Some(Cause::Cordoned),
            Fit::Misfit(Misfit::Taint(taint)) | Fit::OnlyStays(taint) => return untolerated(taint),
            Fit::Fits => {}
        }
        self.requests.lacking(node).map(Cause::Resource)
    }
}

fn cordon() -> Taint {
    Taint {
        key: taint::UNSCHEDULABLE.into(),
        effect: NO_SCHEDULE.into(),
        ..Taint::default()
    }
}
