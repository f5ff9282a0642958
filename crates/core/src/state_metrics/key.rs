//! Keys of labels and annotations as names of Prometheus labels.
//!
//! What is neither a letter nor a digit becomes `_`, a capital after a small letter or a digit gets `_` before it, and all is lower case. Keys that become the same name
//! are numbered, in their order: `label_a_b_conflict1`, `label_a_b_conflict2`.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the names of sorted keys, none of them twice.
pub(super) fn label_names<'a>(prefix: &str, keys: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<_> = keys.map(|key| label_name(prefix, key)).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &names {
        *uses.entry(name).or_default() += 1;
    }
    let is_alone = |name: &str| uses.get(name) == Some(&1);
    // A key may look like a numbered one.
    let mut taken: BTreeSet<String> = names.iter().filter(|name| is_alone(name)).cloned().collect();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let unique = names.iter().map(|name| {
        if is_alone(name) {
            return name.clone();
        }
        let number = numbers.entry(name).or_default();
        loop {
            *number += 1;
            let numbered = format!("{name}_conflict{number}");
            if taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    });
    unique.collect()
}

fn label_name(prefix: &str, key: &str) -> String {
    let mut name = prefix.to_owned();
    let mut before = ' ';
    for sign in key.chars() {
        if sign.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            name.push('_');
        }
        name.push(if sign.is_ascii_alphanumeric() {
            sign.to_ascii_lowercase()
        } else {
            '_'
        });
        before = sign;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_keys_then_their_names_are_those_that_boards_know() {
        for (key, name) in [
            ("app.kubernetes.io/name", "l_app_kubernetes_io_name"),
            ("appVersion", "l_app_version"),
            ("a1B", "l_a1_b"),
            ("HTTPServer", "l_httpserver"),
            ("ä", "l__"),
            ("", "l_"),
        ] {
            assert_eq!(label_name("l_", key), name);
        }
    }

    #[test]
    fn given_keys_that_become_the_same_then_each_is_numbered_and_none_is_there_twice() {
        let names = |keys: &[&str]| label_names("l_", keys.iter().copied());
        assert_eq!(
            names(&["a-b", "a.b", "c"]),
            ["l_a_b_conflict1", "l_a_b_conflict2", "l_c"]
        );
        let natural = names(&["a-b", "a.b", "a_b_conflict1"]);
        assert_eq!(natural, ["l_a_b_conflict2", "l_a_b_conflict3", "l_a_b_conflict1"]);
    }
}
