//! Dependencies point one way: `api ← core ← manager, daemon`, `runtime ← manager, daemon, admission`.
//!
//! The table says for each crate which crates of the workspace it may use. A new crate has to be entered here, which is
//! the moment to think about where it belongs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::files::{cargo, packages, refuse};

const FIXTURES: &str = "kruise-fixtures";
const TESTKIT: &str = "kruise-testkit";

/// What each crate may depend on. In tests every crate may use the fixtures and the testkit as well.
const MAY_USE: &[(&str, &[&str])] = &[
    ("kruise-api", &[]),
    ("kruise-core", &["kruise-api"]),
    ("kruise-runtime", &["kruise-api", "kruise-core"]),
    ("kruise-admission", &["kruise-api", "kruise-core", "kruise-runtime"]),
    ("kruise-cri", &[]),
    (
        "kruise-manager",
        &["kruise-api", "kruise-core", "kruise-runtime", "kruise-admission"],
    ),
    (
        "kruise-daemon",
        &["kruise-api", "kruise-core", "kruise-runtime", "kruise-cri"],
    ),
    ("kruise-cli", &["kruise-api", "kruise-core"]),
    (FIXTURES, &[]),
    (TESTKIT, &["kruise-api", FIXTURES]),
    (
        "xtask",
        &[
            "kruise-api",
            "kruise-core",
            "kruise-runtime",
            "kruise-admission",
            "kruise-cri",
            TESTKIT,
        ],
    ),
];

/// One arrow: who depends on whom, and for what (`normal`, `dev` or `build`).
type Arrow<'a> = (&'a str, &'a str, &'a str);

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    let names: Vec<_> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let arrows: Vec<Arrow<'_>> = packages
        .iter()
        .flat_map(|package| arrows_of(package).into_iter())
        .filter(|(_, to, _)| names.contains(to))
        .collect();
    refuse(
        &complaints(&names, &arrows),
        "the workspace has an arrow that should not be there",
    );
}

fn arrows_of(package: &Value) -> Vec<Arrow<'_>> {
    let from = package["name"].as_str().unwrap();
    let dependencies = package["dependencies"].as_array().unwrap();
    dependencies
        .iter()
        .map(|dependency| {
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            (from, dependency["name"].as_str().unwrap(), kind)
        })
        .collect()
}

fn complaints(names: &[&str], arrows: &[Arrow<'_>]) -> Vec<String> {
    let table: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let unknown = names
        .iter()
        .filter(|name| !table.contains_key(*name))
        .map(|name| format!("{name}: say in MAY_USE what this crate may depend on"));
    let wrong = arrows
        .iter()
        .filter(|(from, to, kind)| {
            let allowed = table.get(from).is_some_and(|allowed| allowed.contains(to));
            // A crate's tests may use the crate itself, to switch a feature of it on.
            let for_tests = *kind == "dev" && ([FIXTURES, TESTKIT].contains(to) || to == from);
            !(allowed && *kind != "build" || for_tests)
        })
        .map(|(from, to, kind)| format!("{from} must not depend on {to} ({kind})"));
    unknown.chain(wrong).collect()
}

#[test]
fn given_an_arrow_turns_round_or_leaves_its_place_then_it_is_refused() {
    let names = [
        "kruise-api",
        "kruise-core",
        "kruise-manager",
        "kruise-cri",
        "kruise-daemon",
        FIXTURES,
        TESTKIT,
        "xtask",
    ];
    for bad in [
        ("kruise-api", "kruise-core", "normal"),
        ("kruise-core", "kruise-runtime", "normal"),
        ("kruise-core", "kruise-runtime", "dev"),
        ("kruise-manager", "kruise-cri", "normal"),
        ("kruise-manager", TESTKIT, "normal"),
        ("kruise-core", FIXTURES, "normal"),
        ("kruise-manager", "xtask", "dev"),
        ("kruise-daemon", "kruise-cri", "build"),
    ] {
        assert_eq!(complaints(&names, &[bad]).len(), 1, "{bad:?}");
    }
    for good in [
        ("kruise-core", "kruise-api", "normal"),
        ("kruise-core", FIXTURES, "dev"),
        ("kruise-manager", TESTKIT, "dev"),
        ("kruise-daemon", "kruise-cri", "normal"),
        ("xtask", TESTKIT, "normal"),
    ] {
        assert!(complaints(&names, &[good]).is_empty(), "{good:?}");
    }
    assert_eq!(complaints(&["kruise-novelty"], &[]).len(), 1);
}

/// Crates with their versions, and the features that they have there.
fn crates(of: &[&str]) -> BTreeSet<(String, String)> {
    let plain = "tree --prefix none --locked --offline".split(' ');
    let all: Vec<&str> = plain
        .chain(["--format", "{p} with {f}"])
        .chain(of.iter().copied())
        .collect();
    let tree = cargo(&all);
    let lines = tree
        .lines()
        .filter_map(|line| line.trim_end_matches(" (*)").split_once(" with"));
    let crates: BTreeSet<_> = lines
        .map(|(name, features)| (name.to_owned(), features.to_owned()))
        .collect();
    assert!(crates.len() > 50, "next to no crates: {crates:?}");
    crates
}

/// Crates of the one that the other has as well, but never with these features.
fn differing(one: &BTreeSet<(String, String)>, other: &BTreeSet<(String, String)>) -> Vec<String> {
    let names: BTreeSet<&str> = other.iter().map(|(name, _)| name.as_str()).collect();
    let differ = one.difference(other).filter(|(name, _)| names.contains(name.as_str()));
    differ
        .map(|(name, features)| format!("{name} with{features}"))
        .collect()
}

#[test]
fn given_what_is_built_in_one_folder_then_its_crates_have_the_same_features() {
    let program = crates(&["--package", "xtask", "--edges", "normal,build"]);
    let tests = crates(&["--workspace", "--all-features", "--edges", "normal,build,dev"]);
    let advice = "these would be compiled twice, with all that stands on them: see the features in xtask/Cargo.toml";
    refuse(&differing(&program, &tests), advice);
    let measuring = crates(&["--package", "xtask", "--no-default-features", "--edges", "normal,build"]);
    let product = crates(&[
        "--package",
        "kruise-manager",
        "--package",
        "kruise-daemon",
        "--edges",
        "normal,build",
    ]);
    refuse(&differing(&product, &measuring), advice);
}

#[test]
fn no_dependency_is_a_wildcard() {
    let packages = packages();
    let mut wildcards = Vec::new();
    for package in &packages {
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["path"].is_null() && dependency["req"] == "*" {
                wildcards.push(format!("{} of {}", dependency["name"], package["name"]));
            }
        }
    }
    refuse(&wildcards, "a dependency needs a version");
}
