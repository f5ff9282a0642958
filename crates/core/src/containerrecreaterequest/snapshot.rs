//! What the kubelet says about the containers of a request, copied into its status.
//!
//! Only containers that run and started after the request was made count, to the second. What was said once is kept while nothing new is said.

use jiff::Timestamp;
use kruise_api::containerrecreaterequest::v1beta1::{
    ContainerRecreateRequest, ContainerRecreateRequestStatus, ContainerStatusSnapshot,
};
use kruise_api::pod::Pod;
use kruise_api::pod::status::ContainerState;
use kruise_api::resource::{Preconditions, Subresource};
use serde_json::json;

use super::{single, target};
use crate::plan::{Action, Plan};

pub(super) fn plan(
    request: &ContainerRecreateRequest,
    status: &ContainerRecreateRequestStatus,
    pod: &Pod,
    made: Timestamp,
    plan: &mut Plan,
) {
    let seen: Vec<ContainerStatusSnapshot> = request
        .spec
        .containers
        .iter()
        .filter_map(|container| {
            let seen = pod
                .status
                .container_statuses
                .iter()
                .find(|known| *known.name == *container.name)?;
            let ContainerState::Running {
                started_at: Some(started),
            } = seen.state
            else {
                return None;
            };
            (started.timestamp().as_second() >= made.as_second()).then(|| ContainerStatusSnapshot {
                name: container.name.clone(),
                ready: seen.ready,
                restart_count: seen.restart_count,
                container_id: seen.container_id.to_string(),
            })
        })
        .collect();
    if seen.is_empty() || seen == status.container_status_snapshot {
        return;
    }
    let patch = json!({"status": {"containerStatusSnapshot": seen}});
    let same = Preconditions::same(request);
    plan.push(single(Action::merge(
        target(request),
        Some(Subresource::Status),
        patch,
        same,
    )));
}
