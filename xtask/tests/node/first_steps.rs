//! The first steps that `up` proposes: a CloneSet is updated in place, and its Pods are looked at before and after.

use std::collections::BTreeMap;

/// The commands at the end of what `up` says, without the one that prepares the shell.
pub(crate) fn proposed(text: &str) -> Vec<&str> {
    let steps: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with("kubectl ") || line.starts_with("sed "))
        .collect();
    assert!(steps.len() > 3, "no first steps in:\n{text}");
    steps
}

/// The tables show the same Pods twice; only image and restarts differ.
pub(crate) fn were_an_update_in_place(text: &str) {
    let tables: Vec<BTreeMap<&str, Vec<&str>>> = text.split("\nNAME ").skip(1).filter_map(pods).collect();
    let [before, after] = &tables[..] else {
        panic!("not two tables of Pods in:\n{text}");
    };
    assert_eq!(before.len(), 3, "{text}");
    for (table, tag, restarts) in [(before, ":1.20", "0"), (after, ":1.21", "1")] {
        for pod in table.values() {
            assert!(pod[2].ends_with(tag) && pod[3] == restarts, "{text}");
        }
    }
    // Names, UIDs and addresses.
    let who = |table: &BTreeMap<&str, Vec<&str>>| -> Vec<String> {
        table
            .iter()
            .map(|(name, pod)| format!("{name} {} {}", pod[0], pod[1]))
            .collect()
    };
    assert_eq!(who(before), who(after), "{text}");
}

/// The Pods of a table, by name, if it is one of those that are looked for.
fn pods(table: &str) -> Option<BTreeMap<&str, Vec<&str>>> {
    let mut lines = table.lines();
    if lines.next()?.split_whitespace().ne(["UID", "IP", "IMAGE", "RESTARTS"]) {
        return None;
    }
    lines.take_while(|line| line.starts_with("hello-")).map(pod).collect()
}

/// A row: the name, and what stands in the other columns.
fn pod(row: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = row.split_once(' ')?;
    Some((name, rest.split_whitespace().collect()))
}
