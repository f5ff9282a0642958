//! What is printed. Much of it was written by others, so that no control character gets to the terminal: it could hide or forge what is told.

use kruise_core::plan::words::{reasons, steps};
use serde_json::Value;
use std::fmt::Write as _;

/// A text with its control characters made visible, in the manner of JSON.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same for a text of several lines.
pub(crate) fn visible_lines(text: &str) -> String {
    escaped(text, |c| c == '\n')
}

fn escaped(text: &str, is_fine: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !is_fine(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// All that is known of one object.
#[derive(Debug)]
pub(crate) struct Explanation<'a> {
    /// `CloneSet shop/web`.
    pub(crate) object: String,
    pub(crate) summary: String,
    /// What the object says of itself.
    pub(crate) description: Vec<String>,
    /// The plans of the manager, or why there are none.
    pub(crate) plans: Result<&'a Value, String>,
    pub(crate) by: &'a str,
}

impl Explanation<'_> {
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}: {}\n", visible(&self.object), visible(&self.summary));
        match &self.plans {
            Err(reason) => {
                text.push_str("\nThe manager cannot be asked, so this is only what the object says of itself.\n");
                text.push_str(&format!("  {}\n", visible_lines(reason)));
                paragraph(&mut text, "Status", &self.description, "Nothing is left to do.");
            }
            Ok(plans) => {
                let plans = plans.as_object();
                let several = plans.is_some_and(|plans| plans.len() > 1);
                for (controller, plan) in plans.into_iter().flatten() {
                    if several {
                        text.push_str(&format!("\n{}\n", visible(controller)));
                    }
                    paragraph(&mut text, "What holds it back", &reasons(plan), "Nothing.");
                    paragraph(
                        &mut text,
                        "What comes next",
                        &steps(plan),
                        "Nothing: it is as it should be, or waits.",
                    );
                }
                text.push_str(&format!("\nAsked: {}\n", visible(self.by)));
            }
        }
        text
    }
}

fn paragraph(text: &mut String, title: &str, lines: &[String], nothing: &str) {
    text.push_str(&format!("\n{title}:\n"));
    if lines.is_empty() {
        text.push_str(&format!("  {nothing}\n"));
    }
    for line in lines {
        text.push_str(&format!("  - {}\n", visible(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn explanation(plans: Result<&Value, String>) -> String {
        Explanation {
            object: "CloneSet shop/web".into(),
            summary: "5 wanted".into(),
            description: vec!["1 of 5 Pods are not ready.".into()],
            plans,
            by: "Pod kruise-system/m-1",
        }
        .text()
    }

    #[test]
    fn given_a_plan_then_it_is_told_in_paragraphs() {
        let plans = json!({"cloneset-controller": {"why": [{"reason": "partition", "keeps": 2}]}});
        assert_eq!(
            explanation(Ok(&plans)),
            "CloneSet shop/web: 5 wanted\n\n\
             What holds it back:\n  - The partition keeps 2 Pods at the old revision.\n\n\
             What comes next:\n  Nothing: it is as it should be, or waits.\n\n\
             Asked: Pod kruise-system/m-1\n"
        );
    }

    #[test]
    fn given_control_characters_then_they_are_shown_and_do_nothing() {
        let shown = |text: &str| {
            let mut all = String::new();
            paragraph(&mut all, "Status", &[text.to_owned()], "");
            all
        };
        assert_eq!(
            shown("a\u{1b}[2Jb\r\nc\u{9b}d"),
            "\nStatus:\n  - a\\u001b[2Jb\\u000d\\u000ac\\u009bd\n"
        );
        assert_eq!(visible_lines("a\nb\u{7}"), "a\nb\\u0007");
    }

    #[test]
    fn given_several_controllers_then_each_has_its_name_above_its_plan() {
        let plans = json!({"a-controller": {}, "b-controller": {"wakeAfter": "1s"}});
        let text = explanation(Ok(&plans));
        assert!(
            text.contains("\na-controller\n\nWhat holds it back:\n  Nothing.\n"),
            "{text}"
        );
        assert!(text.contains("\nb-controller\n"), "{text}");
        assert!(text.contains("  - look again after 1s\n"), "{text}");
    }

    #[test]
    fn given_no_manager_then_it_says_so_and_shows_what_the_object_tells() {
        assert_eq!(
            explanation(Err("nobody leads".into())),
            "CloneSet shop/web: 5 wanted\n\n\
             The manager cannot be asked, so this is only what the object says of itself.\n  nobody leads\n\n\
             Status:\n  - 1 of 5 Pods are not ready.\n"
        );
    }
}
