//! Names are words that a maintainer of Kubernetes would search for.
//!
//! Sources once had private words for common things. Each was replaced by the word of the field, and must not come back as the name of a type, a
//! function, a variable, a module or a file. Only words with a single meaning are refused everywhere: `place` may well be the right word somewhere. Words that
//! say who heard of something and not what it is are refused in what serves a cluster; the plugin and tests tell people things.
//!
//! `CONTRIBUTING.md` has the glossary. What it names exists.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;

use super::{
    files::{read, refuse, root, rust_files, shown},
    names::product_files,
    tokens::{Scope, ident, line, of_file, parse, walk},
};

/// Words that were replaced, and by what.
const REPLACED: &[(&str, &str)] = &[
    ("Anybody", "AcceptAnyCertificate"),
    ("Farewell", "DrainOptions"),
    ("Film", "PodHistory"),
    ("Handout", "CaInjector"),
    ("House", "SharedManager"),
    ("Judgement", "TemplateCheck"),
    ("Killer", "ContainerStopper"),
    ("Maker", "PodFactory"),
    ("Means", "PullContext"),
    ("Moment", "CompactTimestamp"),
    ("Mould", "PodPrototype"),
    ("Scene", "Scenario"),
    ("Shelf", "ObjectTable"),
    ("Showing", "ServingState"),
    ("Switches", "CountOptions"),
    ("Tape", "Recording"),
    ("Told", "an event, a report or a text"),
    ("Unread", "RawObject"),
    ("Upkeep", "CertificateReconciler"),
    ("Victim", "StopRequest"),
    ("Workplace", "ControllerContext"),
    ("bring_back", "cancel_preparing_delete"),
    ("crowds", "spread_ranks"),
    ("goes_back", "is_rollback"),
    ("hand_over", "transfer_to_pod"),
    ("handout", "ca_injector"),
    ("harm", "cmp_for_update"),
    ("hear", "on_progress or on_event"),
    ("killer", "stopper"),
    ("mould", "prototype"),
    ("on_the_way", "updating"),
    ("shelf", "table"),
    ("strangers", "released_pods"),
    ("surroundings", "env_now"),
    ("take_in", "handle_event or push"),
    ("upkeep", "certificate_reconciler or cleanup"),
    ("workplace", "context"),
    ("young_for", "remaining_grace"),
];

/// Words that were replaced in what serves a cluster.
const REPLACED_IN_SERVERS: &[(&str, &str)] = &[
    ("hears", "push or on_event"),
    ("said", "text, value or what it is"),
    ("tell", "record, report or what it does"),
    ("told", "event, text, reported or what it is"),
];

#[test]
fn replaced_words_do_not_come_back() {
    let plugin = root().join("crates/cli");
    let servers: BTreeSet<_> = product_files()
        .into_iter()
        .filter(|file| !file.starts_with(&plugin))
        .collect();
    let mut complaints = Vec::new();
    for file in rust_files() {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let in_path = advice(REPLACED, &stem).map(|advice| format!("{}: {advice}", shown(&file)));
        complaints.extend(in_path);
        let mut lines = replaced(REPLACED, of_file(&file), Scope::Everything);
        if servers.contains(&file) {
            lines.extend(replaced(REPLACED_IN_SERVERS, of_file(&file), Scope::Product));
        }
        for (line, advice) in lines {
            complaints.push(format!("{}:{line}: {advice}", shown(&file)));
        }
    }
    refuse(&complaints, "take the word of the glossary in CONTRIBUTING.md");
}

/// Lines with replaced words, and what to write instead.
fn replaced(words: &[(&str, &str)], stream: TokenStream, scope: Scope) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    walk(stream, scope, &mut |tokens| {
        for token in tokens {
            if let Some(advice) = ident(token).as_deref().and_then(|name| advice(words, name)) {
                found.push((line(token), advice));
            }
        }
    });
    found.sort();
    found
}

/// What to say about a name.
fn advice(words: &[(&str, &str)], name: &str) -> Option<String> {
    let (_, new) = words.iter().find(|(old, _)| *old == name)?;
    Some(format!("`{name}` was replaced by {new}"))
}

/// The rows of the glossary: a word, and what it means.
fn glossary() -> Vec<(String, String)> {
    let text = read(&root().join("CONTRIBUTING.md"));
    let table = text.split_once("## Glossary").map_or("", |(_, rest)| rest);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (word, rest) = row.split_once("` | ")?;
        Some((word.to_owned(), rest.trim_end_matches([' ', '|']).to_owned()))
    })
    .collect()
}

#[test]
fn the_glossary_names_what_there_is() {
    let glossary = glossary();
    assert!(glossary.len() >= 30, "the glossary has {} words", glossary.len());
    let mut names = BTreeSet::new();
    for file in rust_files() {
        walk(of_file(&file), Scope::Everything, &mut |tokens| {
            names.extend(tokens.iter().filter_map(ident));
        });
    }
    let missing = glossary.iter().filter(|(word, _)| !names.contains(word.as_str()));
    let missing: Vec<_> = missing.map(|(word, _)| format!("{word}: no such name")).collect();
    refuse(&missing, "keep the glossary true");
    let words: Vec<_> = glossary.iter().map(|(word, _)| word.to_lowercase()).collect();
    assert!(words.is_sorted(), "the glossary is sorted");
    assert!(glossary.iter().all(|(_, meaning)| !meaning.is_empty()));
}

#[test]
fn given_a_replaced_word_then_the_message_says_which_word_to_use() {
    let source = "/// A Shelf in a comment.\nstruct Shelf;\nfn f() { let shelf = \"Mould\"; }\nfn showing(film: u8) {}";
    let expected = [
        (2, "`Shelf` was replaced by ObjectTable"),
        (3, "`shelf` was replaced by table"),
    ];
    assert_eq!(
        replaced(REPLACED, parse(source), Scope::Everything),
        expected.map(|(line, text)| (line, text.to_owned()))
    );
    assert!(
        REPLACED.is_sorted() && REPLACED_IN_SERVERS.is_sorted(),
        "each word is found in its place"
    );
}
