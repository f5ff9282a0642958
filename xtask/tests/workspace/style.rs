//! The house style, as far as a test can see it: short files, no `mod.rs`, nothing left to do, no test that is not run,
//! a head that tells what a crate is for, and no panic from input where input arrives.

use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

use super::{
    files::{packages, read, refuse, root, rust_files, shown},
    tokens::{Scope, ident, is_punct, line, of_file, parse, walk},
};

const MOST_LINES: usize = 600;

/// Crates that handle what users and the API server send: nothing in it may bring the process down.
const NEVER_PANIC: &[&str] = &["crates/api", "crates/core", "crates/admission"];
const PANICS: &[&str] = &["unwrap_used", "expect_used", "indexing_slicing", "panic"];

#[test]
fn files_are_short_and_none_is_called_mod() {
    let mut complaints = Vec::new();
    for file in rust_files() {
        let lines = read(&file).lines().count();
        if lines > MOST_LINES {
            complaints.push(format!("{}: {lines} lines, split it by theme", shown(&file)));
        }
        if file.ends_with("mod.rs") {
            complaints.push(format!("{}: put `foo.rs` beside `foo/`", shown(&file)));
        }
    }
    refuse(&complaints, "a file is a thought");
}

#[test]
fn nothing_is_left_to_do_and_every_test_runs() {
    let mut complaints = Vec::new();
    for file in rust_files() {
        for (line, what) in unfinished(of_file(&file)) {
            complaints.push(format!("{}:{line}: {what}", shown(&file)));
        }
    }
    refuse(&complaints, "finish it or leave it out");
}

/// Macros that stand for missing code, and tests that are not run.
fn unfinished(stream: TokenStream) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    walk(stream, Scope::Everything, &mut |tokens| {
        for window in tokens.windows(3) {
            let [name, bang, TokenTree::Group(_)] = window else {
                continue;
            };
            if is_punct(bang, '!')
                && let Some(name_text) = ident(name).filter(|name| name == "todo" || name == "unimplemented")
            {
                found.push((line(name), format!("{name_text}!")));
            }
        }
        for window in tokens.windows(2) {
            if let [hash, TokenTree::Group(attribute)] = window
                && is_punct(hash, '#')
                && mentions(attribute.stream(), "ignore")
            {
                found.push((line(hash), "#[ignore]".to_owned()));
            }
        }
    });
    found
}

/// Whether an attribute is this word, or brings it in by a condition.
fn mentions(attribute: TokenStream, word: &str) -> bool {
    let tokens: Vec<_> = attribute.into_iter().collect();
    match tokens.first().and_then(ident).as_deref() {
        Some("cfg_attr") => {
            let mut found = false;
            for token in &tokens {
                if let TokenTree::Group(group) = token {
                    found = group
                        .stream()
                        .into_iter()
                        .filter_map(|token| ident(&token))
                        .any(|name| name == word);
                }
            }
            found
        }
        Some(first) => first == word,
        None => false,
    }
}

#[test]
fn given_something_unfinished_then_it_is_found_and_nothing_else() {
    for bad in [
        "fn f() { todo!() }",
        "fn f() { g(|| unimplemented!(\"later\")) }",
        "#[test]\n#[ignore]\nfn f() {}",
        "#[ignore = \"slow\"] fn f() {}",
        "#[cfg_attr(windows, ignore)] fn f() {}",
    ] {
        assert_eq!(unfinished(parse(bad)).len(), 1, "{bad}");
    }
    for good in [
        "// todo!()\nfn f() { say(\"todo!()\") }",
        "fn f() { if todo != (1) { ignore() } }",
        "#[derive(Debug)] struct Ignore;",
        "#[doc(alias = \"ignore\")] fn f() {}",
    ] {
        assert!(unfinished(parse(good)).is_empty(), "{good}");
    }
}

#[test]
fn every_crate_says_what_it_is_for() {
    let mut complaints = Vec::new();
    for root_file in crate_roots() {
        if !read(&root_file).starts_with("//!") {
            complaints.push(format!("{}: begin with a `//!` head", shown(&root_file)));
        }
    }
    refuse(&complaints, "a crate tells what it is for");
}

/// The root files of all libraries, binaries, tests and benches.
fn crate_roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for package in packages() {
        for target in package["targets"].as_array().unwrap() {
            let file = Path::new(target["src_path"].as_str().unwrap());
            if !file.ends_with("build.rs") {
                roots.push(file.to_owned());
            }
        }
    }
    roots
}

#[test]
fn crates_that_take_input_deny_every_panic() {
    let mut complaints = Vec::new();
    for folder in NEVER_PANIC {
        let file = root().join(folder).join("src/lib.rs");
        let denied = denied_lints(of_file(&file));
        for lint in PANICS
            .iter()
            .filter(|lint| !denied.iter().any(|denied| denied == *lint))
        {
            complaints.push(format!("{}: add #![deny(clippy::{lint})]", shown(&file)));
        }
    }
    refuse(&complaints, "nothing a request contains may panic");
}

/// Clippy lints that inner attributes of a crate's root deny.
fn denied_lints(stream: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = stream.into_iter().collect();
    let mut lints = Vec::new();
    for window in tokens.windows(3) {
        let [hash, bang, TokenTree::Group(attribute)] = window else {
            continue;
        };
        let inside: Vec<_> = attribute.stream().into_iter().collect();
        if let [level, TokenTree::Group(list)] = inside.as_slice()
            && is_punct(hash, '#')
            && is_punct(bang, '!')
            && ident(level).is_some_and(|level| level == "deny" || level == "forbid")
        {
            lints.extend(
                list.stream()
                    .into_iter()
                    .filter_map(|token| ident(&token))
                    .filter(|name| name != "clippy"),
            );
        }
    }
    lints
}

#[test]
fn given_lints_are_only_warned_about_then_they_are_not_denied() {
    assert_eq!(
        denied_lints(parse("#![deny(clippy::panic, clippy::unwrap_used)]")),
        ["panic", "unwrap_used"]
    );
    assert!(denied_lints(parse("#![warn(clippy::panic)]")).is_empty());
    assert!(denied_lints(parse("// #![deny(clippy::panic)]\n#[deny(clippy::panic)] fn f() {}")).is_empty());
}
