//! The metrics that sources declare: a name, and behind it a sentence that says what it means.
//!
//! A registry tells a family only once it has a sample, and many have none before something happens. So the declarations themselves are read.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Names with what they mean, of these crates.
pub(super) fn metrics(crates: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in crates {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        for file in files(&folder) {
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            declared(product, &mut found);
        }
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    files
}

/// Two texts with nothing but a comma between, of which the first is the name of a metric and the second a sentence.
fn declared(text: &str, found: &mut BTreeMap<String, String>) {
    let mut rest = text;
    while let Some((_, from)) = rest.split_once('"') {
        let Some((name, behind)) = from.split_once('"') else {
            return;
        };
        rest = behind;
        let next = behind.trim_start().strip_prefix(',').map(str::trim_start);
        let Some((help, _)) = next.and_then(|next| next.strip_prefix('"')?.split_once('"')) else {
            continue;
        };
        let is_name = name.contains('_') && name.chars().all(|sign| sign.is_ascii_lowercase() || sign == '_');
        let is_sentence =
            help.ends_with('.') && help.starts_with(|first: char| first.is_uppercase() || first.is_numeric());
        if is_name && is_sentence {
            found.insert(name.to_owned(), help.to_owned());
        }
    }
}

#[test]
fn given_a_declaration_then_its_name_and_its_sentence_are_found_and_nothing_else() {
    let mut found = BTreeMap::new();
    declared(
        "f(\"a_total\",\n  \"How many.\"); g(\"a\", \"B.\"); h(\"not_this\", \"no sentence\"); i(&[\"x_y\"]); Opts::new(\"b_c\", \"1 while.\")",
        &mut found,
    );
    let expected = [("a_total", "How many."), ("b_c", "1 while.")];
    assert_eq!(
        found,
        expected.map(|(name, help)| (name.to_owned(), help.to_owned())).into()
    );
}

/// A group of names, and each name with what it means.
pub(super) type Group = (String, Vec<(String, String)>);

/// The names that a module of `kruise_api::names` spells out, grouped as they are there.
pub(super) fn names(module: &str) -> Vec<Group> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../api/src/names/{module}.rs"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    grouped(&text)
}

fn grouped(text: &str) -> Vec<Group> {
    let constants: BTreeMap<&str, &str> = text.lines().filter_map(constant).collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut meaning = String::new();
    for line in text.lines() {
        if let Some(doc) = line.strip_prefix("///") {
            meaning.push_str(doc);
        } else if let Some((_, value)) = constant(line) {
            let meaning = with_values(std::mem::take(&mut meaning).trim(), &constants);
            if groups.is_empty() {
                groups.push((String::new(), Vec::new()));
            }
            groups.last_mut().expect("a group").1.push((value.to_owned(), meaning));
        } else if let Some(title) = line.strip_prefix("// ") {
            groups.push((title.trim_end_matches('.').to_owned(), Vec::new()));
        }
    }
    groups.retain(|(_, names)| !names.is_empty());
    groups
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("pub const ")?.split_once(": &str = \"")?;
    Some((name, value.strip_suffix("\";")?))
}

/// Puts the names themselves where the text links to constants.
fn with_values(text: &str, constants: &BTreeMap<&str, &str>) -> String {
    let mut out = text.to_owned();
    for (name, value) in constants {
        out = out.replace(&format!("[`{name}`]"), &format!("`{value}`"));
    }
    // What is linked elsewhere is shown as it is spelled.
    out.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

#[test]
fn given_constants_then_they_are_grouped_with_what_they_mean() {
    let text = "//! Head.\n\n// Pods.\n\n/// One, see\n/// [`B`].\npub const A: &str = \"a/b\";\n/// Two.\npub const B: &str = \"c\";\n";
    let pairs = [("a/b", "One, see `c`."), ("c", "Two.")];
    let pairs = pairs.map(|(name, meaning)| (name.to_owned(), meaning.to_owned()));
    assert_eq!(grouped(text), [("Pods".to_owned(), pairs.to_vec())]);
}
