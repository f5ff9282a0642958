//! A plan in sentences, from its JSON: for the plugin and for the live page.
//!
//! The plugin may be older or newer than the manager: what it does not know it shows as it came.

use super::Why;
use serde_json::Value;

/// Names that are shown of a longer list.
const SHOWN: usize = 5;

/// Returns what holds the object back.
pub fn reasons(plan: &Value) -> Vec<String> {
    list(&plan["why"])
        .map(|why| match serde_json::from_value::<Why>(why.clone()) {
            Ok(why) => why.to_string(),
            Err(_) => unknown(why),
        })
        .collect()
}

fn unknown(why: &Value) -> String {
    let mut rest = why.clone();
    let reason = rest.as_object_mut().and_then(|fields| fields.remove("reason"));
    match (reason.as_ref().and_then(Value::as_str), &rest) {
        (Some(reason), Value::Object(fields)) if fields.is_empty() => reason.to_owned(),
        (Some(reason), rest) => format!("{reason}: {rest}"),
        (None, _) => why.to_string(),
    }
}

/// Returns what is done next, in order.
pub fn steps(plan: &Value) -> Vec<String> {
    let mut sentences = Vec::new();
    for step in list(&plan["actions"]) {
        let chains = list(&step["chains"]);
        let writes = chains
            .flat_map(|chain| list(&chain["writes"]))
            .map(|write| &write["action"]);
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for action in writes {
            let (verb, name) = (verb(action), action["name"].as_str().unwrap_or_default());
            match groups.iter_mut().find(|(known, _)| *known == verb) {
                Some((_, names)) => names.push(name),
                None => groups.push((verb, vec![name])),
            }
        }
        sentences.extend(groups.iter().map(|(verb, names)| format!("{verb} {}", named(names))));
    }
    if plan["status"].is_object() {
        sentences.push("write the status".to_owned());
    }
    if let Some(after) = plan["wakeAfter"].as_str() {
        sentences.push(format!("look again after {after}"));
    }
    sentences
}

fn verb(action: &Value) -> String {
    let text = |field: &str| action[field].as_str().unwrap_or_default();
    let kind = text("kind");
    match (text("verb"), text("part")) {
        ("patch", "status") => format!("change the status of {kind}"),
        ("patch", "resize") => format!("resize {kind}"),
        ("patch", _) => format!("change {kind}"),
        (verb, _) => format!("{verb} {kind}"),
    }
}

fn named(names: &[&str]) -> String {
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::why;
    use crate::plan::{Action, Chain, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Target};
    use kruise_api::{
        kind::Kind as _,
        pod::Pod,
        resource::{Preconditions, Subresource},
    };
    use serde_json::json;
    use std::time::Duration;

    fn pods() -> PodNames {
        (0..12).map(|_| "web-a").collect()
    }

    #[test]
    fn given_the_reasons_of_a_manager_then_their_sentences_are_those_of_the_manager() {
        let why = vec![
            Why::General(why::General::Deleting),
            Why::Rollout(why::Rollout::Partition { keeps: 3 }),
            Why::Rollout(why::Rollout::UpdateBudget {
                allowed: 1,
                unavailable: 1,
                waiting: 4,
            }),
            Why::Pods(why::Pods::HookWaiting {
                hook: Hook::PreDelete,
                pods: pods(),
            }),
            Why::Rollout(why::Rollout::Recreating {
                pods: PodNames::from_iter(["web-b"]),
                because: "spec.containers[0].env".to_owned(),
            }),
            Why::Pods(why::Pods::InGrace {
                pods: pods(),
                until: "2026-01-01T00:00:00Z".parse().unwrap(),
            }),
            Why::General(why::General::Failed {
                phase: Phase::Scale,
                object: "Pod web-c".to_owned(),
                message: "quota".to_owned(),
            }),
        ];
        let expected: Vec<_> = why.iter().map(ToString::to_string).collect();
        let plan = serde_json::to_value(Plan { why, ..Plan::default() });
        assert_eq!(reasons(&plan.unwrap()), expected);
    }

    #[test]
    fn given_reasons_of_a_newer_manager_then_they_are_shown_as_they_came() {
        let plan = json!({"why": [
            {"reason": "moonPhase"}, {"reason": "moonPhase", "phase": "full"}, {"odd": 1}, "text",
            {"reason": "partition", "keeps": "many"},
        ]});
        assert_eq!(
            reasons(&plan),
            [
                "moonPhase",
                "moonPhase: {\"phase\":\"full\"}",
                "{\"odd\":1}",
                "\"text\"",
                "partition: {\"keeps\":\"many\"}"
            ]
        );
    }

    #[test]
    fn given_steps_then_writes_of_one_sort_are_told_together_and_in_order() {
        let target = |name: &str| Target::new(Pod::RESOURCE, "shop", name);
        let mut scale = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::Stop);
        for number in 0..7 {
            scale.push(Chain::of(
                Action::create(target(&format!("new-{number}")), json!({})).into(),
            ));
        }
        let mut update = Step::new(Phase::Update, Pace::InOrder, OnFailure::Stop);
        let patch = |name: &str, part| Action::patch(target(name), part, json!({}), Preconditions::default());
        update.push(Chain::of(patch("a", Some(Subresource::Status)).into()));
        update.push(Chain::of(patch("a", None).into()));
        update.push(Chain::of(patch("b", None).into()));
        let mut plan = Plan::default();
        plan.push(scale);
        plan.push(update);
        plan.status = Some(patch("web", Some(Subresource::Status)));
        plan.wake(Duration::from_secs(5));
        assert_eq!(
            steps(&serde_json::to_value(&plan).unwrap()),
            [
                "create Pod new-0, new-1, new-2, new-3, new-4 and 2 more",
                "change the status of Pod a",
                "change Pod a, b",
                "write the status",
                "look again after 5s",
            ]
        );
        assert_eq!(steps(&json!({})), Vec::<String>::new());
        assert_eq!(
            steps(&json!({"actions": [{"chains": 1}, 2], "status": null})),
            Vec::<String>::new()
        );
    }
}
