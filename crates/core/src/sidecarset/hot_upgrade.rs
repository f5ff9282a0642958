//! Sidecars that are never away: two containers take turns.
//!
//! Of the two one works, and the other is spare and has the empty image. An update goes through these states:
//!
//! | state | X-1 | X-2 | working | version 1 / 2 | version of the other 1 / 2 |
//! |---|---|---|---|---|---|
//! | injected | v1 | empty | X-1 | 1 / 0 | 0 / 1 |
//! | updated | v1 | v2 | X-2 | 1 / R | R / 1 |
//! | reset | empty | v2 | X-2 | 0 / R | R / 0 |
//! | updated again | v3 | v2 | X-1 | S / R | R / S |
//!
//! R and S are versions of the set at those times. Sidecars read them from annotations of their Pod and hand over to each other.
//!
//! - The new image goes to the one that is empty. If none is, because an earlier update did not end, it goes beside the one that runs well; so the one that does not is
//!   replaced, and the other goes on working. Where that one has the image already, because an update was taken back, it works from now on, and what was begun is reset.
//! - The spare is reset when all other containers of the set run what they should, and the Pod is ready, or all its containers but the spare ones are.
//!   That is not limited by anything but a pause, and by the budgets of the Pods: it is an update like any other.

use std::collections::BTreeMap;

use kruise_api::kind::Kind as _;
use kruise_api::names::{annotation, event};
use kruise_api::pod::Pod;

use super::records::{self, LastStatus, UpdateState};
use super::snapshot::{Member, Snapshot, is_running_and_ready};
use super::update;
use crate::plan::{About, Action, Event, Plan, Write};
use crate::shared::pod_change::{Guard, PodChange};
use crate::shared::seconds::to_the_second;

/// The two containers that a sidecar is in Pods.
pub(super) struct Pair<'a> {
    pub(super) names: [String; 2],
    pub(super) empty_image: &'a str,
}

impl Pair<'_> {
    /// The one that works.
    fn working(&self, member: &Member<'_>, sidecar: &str) -> &str {
        let [one, two] = &self.names;
        if member.working.get(sidecar) == Some(one) {
            one
        } else {
            two
        }
    }

    /// The one that does not.
    pub(super) fn spare(&self, member: &Member<'_>, sidecar: &str) -> &str {
        self.other(self.working(member, sidecar))
    }

    fn other(&self, name: &str) -> &str {
        let [one, two] = &self.names;
        if name == one { two } else { one }
    }

    /// The one that gets the next image.
    fn next(&self, member: &Member<'_>, sidecar: &str) -> &str {
        let [one, two] = &self.names;
        let is_empty = |name: &str| member.image(name) == self.empty_image;
        if is_empty(one) {
            return one;
        }
        if is_empty(two) {
            return two;
        }
        let is_well = |name: &str| member.is_container_ready(name) && member.runs(|known| known == name);
        match (is_well(one), is_well(two)) {
            (true, false) => two,
            (false, true) => one,
            _ => self.spare(member, sidecar),
        }
    }

    /// Gives the next image to one of the two; nothing when it is there already. Returns the name of the container that changes.
    pub(super) fn update(
        &self,
        snapshot: &Snapshot<'_>,
        member: &Member<'_>,
        (sidecar, image): (&str, &str),
        working: &mut BTreeMap<String, String>,
        change: &mut PodChange,
    ) -> Option<String> {
        let next = self.next(member, sidecar);
        let other = self.other(next);
        if member.image(other) == image {
            working.insert(sidecar.to_owned(), other.to_owned());
            return None;
        }
        let version = snapshot.set.metadata.resource_version.clone().unwrap_or_default();
        let before = member.pod.metadata.annotation(&version_key(other)).unwrap_or_default();
        change.images.insert(next.to_owned(), image.to_owned());
        working.insert(sidecar.to_owned(), next.to_owned());
        change.set_annotation(&version_alt_key(next), before);
        change.set_annotation(&version_key(next), version.clone());
        change.set_annotation(&version_alt_key(other), version);
        Some(next.to_owned())
    }
}

fn version_key(container: &str) -> String {
    format!("{}{container}", annotation::SIDECAR_VERSION_PREFIX)
}

fn version_alt_key(container: &str) -> String {
    format!("{}{container}", annotation::SIDECAR_VERSION_ALT_PREFIX)
}

/// Resets the spare containers of Pods whose update has come to its end. Returns true when there are such Pods; those that a budget has just refused do not count,
/// so that others are updated meanwhile.
pub(super) fn reset(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let mut step = update::disturbing(snapshot);
    let mut resets = false;
    for member in &snapshot.members {
        let backs_off = snapshot.observed.last.backs_off(member.pod, snapshot.env.now);
        if let Some(rest) = backs_off {
            plan.wake(rest);
        } else if let Some(change) = reset_one(snapshot, member) {
            resets |= !update::was_refused(snapshot, member);
            let requests = change.requests(member.pod, Guard::Version, true);
            let write = |request| {
                Write::from(Action::patch_pod(member.pod, request))
                    .then(about(
                        member.pod,
                        Event::normal(
                            event::RESET_CONTAINER_SUCCEED,
                            "reset sidecar container image empty successfully",
                        ),
                    ))
                    .or_else(about(
                        member.pod,
                        Event::warning(
                            event::RESET_CONTAINER_FAILED,
                            "reset sidecar container image empty failed",
                        ),
                    ))
            };
            step.push(update::asked(
                snapshot,
                member,
                requests.into_iter().map(write).collect(),
            ));
        }
    }
    plan.push(step);
    resets
}

fn reset_one(snapshot: &Snapshot<'_>, member: &Member<'_>) -> Option<PodChange> {
    let pairs = || {
        snapshot
            .sidecars
            .iter()
            .filter(|sidecar| member.has_brought(sidecar.name))
            .filter_map(|sidecar| Some((sidecar.name, sidecar.pair.as_ref()?)))
    };
    let due: Vec<(&str, &Pair<'_>)> = pairs()
        .filter(|(sidecar, pair)| member.image(pair.spare(member, sidecar)) != pair.empty_image)
        .collect();
    let is_spare = |name: &str| pairs().any(|(sidecar, pair)| pair.spare(member, sidecar) == name);
    let is_ours = |name: &str| snapshot.sidecars.iter().any(|sidecar| sidecar.has(name));
    let mut statuses = member.pod.status.container_statuses.iter();
    let is_well = is_running_and_ready(member.pod) || statuses.all(|status| status.ready || is_spare(&status.name));
    if due.is_empty() || !is_well || !member.runs(|name| is_ours(name) && !is_spare(name)) {
        return None;
    }
    let mut states = records::update_states(member.pod).ok()?;
    let state = states.entry(snapshot.name.to_owned()).or_insert_with(|| UpdateState {
        revision: snapshot.hashes.hash.clone(),
        update_timestamp: Some(to_the_second(snapshot.env.now)),
        last_container_statuses: BTreeMap::new(),
    });
    let mut change = PodChange::default();
    for (sidecar, pair) in due {
        let (working, spare) = (pair.working(member, sidecar), pair.spare(member, sidecar));
        change.images.insert(spare.to_owned(), pair.empty_image.to_owned());
        change.set_annotation(&version_key(spare), "0");
        change.set_annotation(&version_alt_key(working), "0");
        let before = LastStatus {
            image_id: member.image_id(spare),
        };
        state.last_container_statuses.insert(spare.to_owned(), before);
    }
    change.set_annotation(annotation::SIDECAR_SET_IN_PLACE_STATE, records::written(&states));
    Some(change)
}

fn about(pod: &Pod, event: Event) -> Event {
    Event {
        about: Some(About {
            api_version: Pod::API_VERSION.to_owned(),
            kind: Pod::KIND.to_owned(),
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.to_string(),
            uid: pod.metadata.uid.to_string(),
        }),
        ..event
    }
}
