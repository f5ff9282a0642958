//! What we depend on may be used by everybody who uses us, and comes from where we think it does.
//!
//! `cargo deny check`, which `cargo xtask test` runs, does the same and more (all platforms, advisories); these tests need nothing built
//! first. They look at what is built on this platform, by the allow-list of `deny.toml`.

use spdx::{Expression, ParseMode};
use toml::Value;

use super::files::{metadata, output, refuse, root, table};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_licence_is_one_we_allow() {
    let allowed = allowed();
    let metadata = metadata(&["--filter-platform", &host()]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "cargo shows next to no dependencies");
    let complaints: Vec<_> = packages
        .iter()
        .filter_map(|package| {
            let licence = package["license"].as_str().unwrap_or_default();
            let complaint = complaint(licence, &allowed)?;
            Some(format!("{} {}: {complaint}", package["name"], package["version"]))
        })
        .collect();
    refuse(&complaints, "deny.toml does not allow the licence of");
}

fn complaint(licence: &str, allowed: &[String]) -> Option<String> {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return Some(format!("{licence:?} is no licence expression"));
    };
    let satisfied = expression.evaluate(|requirement| allowed.contains(&requirement.to_string()));
    (!satisfied).then(|| licence.to_owned())
}

fn allowed() -> Vec<String> {
    let deny = table(&root().join("deny.toml"));
    let list = deny["licenses"]["allow"].as_array().unwrap();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn host() -> String {
    let version = output("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc names its host").to_owned()
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let lock = table(&root().join("Cargo.lock"));
    let foreign: Vec<_> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|package| {
            let source = package.get("source")?.as_str()?;
            (source != CRATES_IO).then(|| format!("{:?} from {source}", package["name"]))
        })
        .collect();
    refuse(&foreign, "only crates.io is a source");
}

#[test]
fn given_choices_and_sums_of_licences_then_one_choice_and_all_summands_have_to_be_allowed() {
    let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned()];
    for good in [
        "MIT",
        "MIT OR GPL-3.0-only",
        "GPL-3.0-only OR (MIT AND Apache-2.0)",
        "Unlicense/MIT",
    ] {
        assert_eq!(complaint(good, &allowed), None, "{good}");
    }
    for bad in [
        "GPL-3.0-only",
        "MIT AND ISC",
        "Apache-2.0 WITH LLVM-exception",
        "",
        "No Such Licence",
    ] {
        assert!(complaint(bad, &allowed).is_some(), "{bad:?}");
    }
}
