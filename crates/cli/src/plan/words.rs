//! What a change comes to, in words.

use super::{Answer, Report, proposal::Change};
use crate::text::{visible, visible_lines};
use kruise_core::{
    plan::words::reasons,
    rehearsal::{Rehearsal, SubsetChange, SubsetShare, Wave},
};
use serde_json::{Value, json};

/// Changed fields and steps that are shown; `-o json` has all.
const FIELDS: usize = 20;
const STEPS: usize = 30;
/// Names that are shown of a longer list.
const NAMES: usize = 5;
/// Longer values are not shown.
const VALUE: usize = 60;

pub(super) fn text(report: &Report) -> String {
    let mut text = format!("{}: {}\n", visible(&report.object), headline(report));
    if !report.changes.is_empty() {
        let mut fields: Vec<String> = report.changes.iter().take(FIELDS).map(change).collect();
        more(&mut fields, report.changes.len(), "fields");
        paragraph(&mut text, "What is changed", &fields);
    }
    match &report.answer {
        Answer::Unknown(why) => text.push_str(&format!("\nWhat it does cannot be told: {}\n", visible_lines(why))),
        Answer::NoManager(why) => text.push_str(&format!("\nThe manager cannot be asked: {}\n", visible_lines(why))),
        Answer::Proposal { proposal, by } => {
            for warning in proposal["warnings"].as_array().into_iter().flatten() {
                text.push_str(&format!(
                    "\nWarning: {}\n",
                    visible(warning.as_str().unwrap_or_default())
                ));
            }
            let refused = &proposal["refused"]["message"];
            if let Some(why) = refused.as_str() {
                text.push_str(&format!("\nIt would be refused: {}\n", visible_lines(why)));
            } else if let Some(why) = proposal["unknown"].as_str() {
                text.push_str(&format!("\nIt would be accepted, but {}.\n", visible(why)));
            } else {
                play(&mut text, &proposal["rehearsal"]);
            }
            text.push_str(&format!("\nAsked: {}. Nothing was written.\n", visible(by)));
        }
    }
    text
}

fn headline(report: &Report) -> &'static str {
    match &report.answer {
        _ if report.is_new => "would be created",
        Answer::Unknown(_) => "unknown",
        _ if report.changes.is_empty() => "nothing would be changed",
        _ => "would be changed",
    }
}

fn change(change: &Change) -> String {
    let value = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let text = value.to_string();
            if text.chars().count() > VALUE {
                "…".to_owned()
            } else {
                text
            }
        }
    };
    format!("{}: {} → {}", change.path, value(&change.from), value(&change.to))
}

fn play(text: &mut String, rehearsal: &Value) {
    // A manager that is newer may have reasons that are not known here.
    let last = reasons(&json!({"why": rehearsal["atLast"]}));
    let mut rehearsal = rehearsal.clone();
    if let Some(fields) = rehearsal.as_object_mut() {
        fields.retain(|field, _| !matches!(field.as_str(), "atFirst" | "atLast"));
    }
    let Ok(rehearsal) = serde_json::from_value::<Rehearsal>(rehearsal) else {
        text.push_str("\nThe answer is not understood: the manager is of another release than this plugin.\n");
        return;
    };
    if rehearsal.subsets.is_empty() {
        play_pods(text, &rehearsal);
    } else {
        text.push_str("\nWhat becomes of the subsets, whose own controllers then see to the Pods:\n");
        for change in &rehearsal.subsets {
            text.push_str(&format!("  {}\n", visible(&subset(change))));
        }
    }
    if !last.is_empty() && !rehearsal.is_cut_short {
        paragraph(text, "What holds it back then", &last);
    }
}

/// What becomes of the workload of a subset.
fn subset(change: &SubsetChange) -> String {
    let pods = |count: i32| pods(usize::try_from(count).unwrap_or_default());
    let (before, after) = match (&change.before, &change.after) {
        (None, None) => return format!("{}: nothing", change.subset),
        (None, Some(after)) => return format!("{}: is made, with {}", change.subset, pods(after.replicas)),
        (Some(before), None) => return format!("{}: is deleted, with its {}", change.subset, pods(before.replicas)),
        (Some(before), Some(after)) => (before, after),
    };
    let mut parts = Vec::new();
    if before.replicas != after.replicas {
        parts.push(format!("{} → {}", before.replicas, pods(after.replicas)));
    }
    if change.template_changes {
        parts.push("gets the new template".to_owned());
    }
    let partition = |share: &SubsetShare| share.partition.unwrap_or_default();
    if partition(before) != partition(after) {
        parts.push(format!("partition {} → {}", partition(before), partition(after)));
    } else if change.template_changes && partition(after) > 0 {
        parts.push(format!("{} stay as they are by its partition", pods(partition(after))));
    }
    if parts.is_empty() {
        parts.push(format!("stays as it is, with {}", pods(after.replicas)));
    }
    format!("{}: {}", change.subset, parts.join(", "))
}

fn play_pods(text: &mut String, rehearsal: &Rehearsal) {
    let total = |count: fn(&Wave) -> usize| rehearsal.waves.iter().map(count).sum::<usize>();
    let totals = [
        (total(|wave| wave.in_place.len()), "updated in place"),
        (total(|wave| wave.deleted.len()), "deleted"),
        (total(|wave| wave.created), "made"),
        (total(|wave| wave.released.len()), "let go"),
    ];
    let totals: Vec<String> = totals
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", pods(*count)))
        .collect();
    let totals = if totals.is_empty() {
        "nothing".to_owned()
    } else {
        totals.join(", ")
    };
    text.push_str(&format!("\nWhat becomes of Pods: {totals}\n"));
    let steps = rehearsal.waves.iter().take(STEPS).enumerate();
    let mut steps: Vec<String> = steps
        .map(|(number, wave)| format!("{}. {}", number + 1, step(wave)))
        .collect();
    more(&mut steps, rehearsal.waves.len(), "steps");
    if !steps.is_empty() {
        text.push_str("\nIn this order, each when the Pods of the one before are ready:\n");
        for step in steps {
            text.push_str(&format!("  {}\n", visible(&step)));
        }
        text.push_str(&format!(
            "\nBudget: {} of {} are ready now; it never gets fewer than {}, and there are never more than {}.\n",
            rehearsal.before.ready,
            pods(rehearsal.before.pods),
            rehearsal.least_ready,
            pods(rehearsal.most_pods)
        ));
    }
    for also in &rehearsal.also {
        let plural = if also.count == 1 { "" } else { "s" };
        let line = format!("\nBesides: {} {} {}{plural}\n", also.verb, also.count, also.kind);
        text.push_str(&visible_lines(&line));
    }
    if rehearsal.is_cut_short {
        text.push_str("\nIt goes on like this. The rest was not played through.\n");
        return;
    }
    text.push_str(&format!(
        "\nAt the end: {}, {} ready, {} at the revision of the change.\n",
        pods(rehearsal.after.pods),
        rehearsal.after.ready,
        rehearsal.updated
    ));
}

fn step(wave: &Wave) -> String {
    let mut parts = Vec::new();
    if !wave.assumed_ready.is_empty() {
        parts.push(format!(
            "once {} became ready, which is not so now",
            names(&wave.assumed_ready)
        ));
    }
    if !wave.hooks_answered.is_empty() {
        parts.push(format!(
            "once the hooks of {} have answered",
            names(&wave.hooks_answered)
        ));
    }
    for (verb, pods, how) in [
        ("update", &wave.in_place, " in place"),
        ("delete", &wave.deleted, ""),
        ("let go", &wave.released, ""),
    ] {
        if !pods.is_empty() {
            parts.push(format!("{verb} {}{how}", names(pods)));
        }
    }
    if wave.created > 0 {
        let places = if wave.places.is_empty() {
            String::new()
        } else {
            format!(": {}", names(&wave.places))
        };
        parts.push(format!("make {}{places}", pods(wave.created)));
    }
    parts.join("; ")
}

fn names(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMES)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn pods(count: usize) -> String {
    format!("{count} Pod{}", if count == 1 { "" } else { "s" })
}

fn more(lines: &mut Vec<String>, all: usize, what: &str) {
    let rest = all.saturating_sub(lines.len());
    if rest > 0 {
        lines.push(format!("… and {rest} more {what}; -o json has all"));
    }
}

fn paragraph(text: &mut String, title: &str, lines: &[String]) {
    text.push_str(&format!("\n{title}:\n"));
    for line in lines {
        text.push_str(&format!("  - {}\n", visible(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_core::{
        plan::{Why, why},
        rehearsal::{Also, Counts},
    };

    fn told(proposal: Value) -> Report {
        Report {
            object: "CloneSet shop/web".to_owned(),
            is_new: false,
            changes: vec![Change {
                path: "spec.replicas".to_owned(),
                from: Some(json!(3)),
                to: None,
            }],
            answer: Answer::Proposal {
                proposal,
                by: "m-1".to_owned(),
            },
        }
    }

    #[test]
    fn given_a_rehearsal_then_order_budget_and_end_are_told() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rehearsal = Rehearsal {
            before: Counts { pods: 3, ready: 2 },
            after: Counts { pods: 3, ready: 3 },
            updated: 2,
            least_ready: 2,
            most_pods: 4,
            waves: vec![
                Wave {
                    in_place: list(&["a", "b", "c", "d", "e", "f"]),
                    ..Wave::default()
                },
                Wave {
                    assumed_ready: list(&["a"]),
                    ..Wave::default()
                },
                Wave {
                    deleted: list(&["b"]),
                    created: 1,
                    places: list(&["on n1"]),
                    ..Wave::default()
                },
            ],
            also: vec![Also {
                verb: "create".to_owned(),
                kind: "PersistentVolumeClaim".to_owned(),
                count: 2,
            }],
            at_last: vec![Why::Rollout(why::Rollout::Partition { keeps: 1 })],
            ..Rehearsal::default()
        };
        let answer = told(json!({"warnings": ["think"], "rehearsal": rehearsal}));
        assert_eq!(
            text(&answer),
            "CloneSet shop/web: would be changed\n\n\
             What is changed:\n  - spec.replicas: 3 → nothing\n\n\
             Warning: think\n\n\
             What becomes of Pods: 6 Pods updated in place, 1 Pod deleted, 1 Pod made\n\n\
             In this order, each when the Pods of the one before are ready:\n  \
             1. update a, b, c, d, e and 1 more in place\n  \
             2. once a became ready, which is not so now\n  \
             3. delete b; make 1 Pod: on n1\n\n\
             Budget: 2 of 3 Pods are ready now; it never gets fewer than 2, and there are never more than 4 Pods.\n\n\
             Besides: create 2 PersistentVolumeClaims\n\n\
             At the end: 3 Pods, 3 ready, 2 at the revision of the change.\n\n\
             What holds it back then:\n  - The partition keeps 1 Pod at the old revision.\n\n\
             Asked: m-1. Nothing was written.\n"
        );
    }

    #[test]
    fn given_subsets_then_it_is_told_what_each_becomes() {
        let share = |replicas, partition| {
            Some(SubsetShare {
                replicas,
                partition: Some(partition),
            })
        };
        let change = |subset: &str, before, after, template_changes| SubsetChange {
            subset: subset.to_owned(),
            before,
            after,
            template_changes,
        };
        let rehearsal = Rehearsal {
            subsets: vec![
                change("a", share(3, 0), share(5, 1), true),
                change("b", share(2, 2), share(2, 2), true),
                change("c", share(2, 0), share(2, 0), false),
                change("d", None, share(1, 0), false),
                change("e", share(4, 0), None, false),
            ],
            ..Rehearsal::default()
        };
        let answer = text(&told(json!({"warnings": [], "rehearsal": rehearsal})));
        let (_, said) = answer.split_once("spec.replicas: 3 → nothing\n\n").unwrap();
        assert_eq!(
            said,
            "What becomes of the subsets, whose own controllers then see to the Pods:\n  \
             a: 3 → 5 Pods, gets the new template, partition 0 → 1\n  \
             b: gets the new template, 2 Pods stay as they are by its partition\n  \
             c: stays as it is, with 2 Pods\n  \
             d: is made, with 1 Pod\n  \
             e: is deleted, with its 4 Pods\n\n\
             Asked: m-1. Nothing was written.\n"
        );
    }

    #[test]
    fn given_a_refusal_or_no_answer_then_it_is_said() {
        let refused = text(&told(
            json!({"refused": {"code": 422, "message": "spec.replicas: Invalid\u{1b}"}}),
        ));
        assert!(
            refused.contains("\nIt would be refused: spec.replicas: Invalid\\u001b\n"),
            "{refused}"
        );
        let unknown = text(&told(
            json!({"unknown": "what becomes of a SidecarSet cannot be played through yet"}),
        ));
        assert!(
            unknown.contains("\nIt would be accepted, but what becomes of a SidecarSet"),
            "{unknown}"
        );
        let nobody = Report {
            answer: Answer::NoManager("nobody".to_owned()),
            ..told(Value::Null)
        };
        assert!(text(&nobody).contains("\nThe manager cannot be asked: nobody\n"));
        let idle = Report {
            changes: Vec::new(),
            ..told(json!({"rehearsal": {}}))
        };
        assert!(
            text(&idle).starts_with("CloneSet shop/web: nothing would be changed\n\nWhat becomes of Pods: nothing\n")
        );
    }
}
