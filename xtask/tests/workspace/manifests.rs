//! Every crate inherits what the workspace says: lints, edition, Rust version, licence.

use toml::{Table, Value};

use super::files::{packages, refuse, table};

const INHERITED: &[&str] = &["edition", "rust-version", "license"];

#[test]
fn every_crate_inherits_lints_edition_rust_version_and_licence() {
    let mut complaints = Vec::new();
    for package in packages() {
        let path = package["manifest_path"].as_str().unwrap();
        let manifest = table(path.as_ref());
        for missing in not_inherited(&manifest) {
            complaints.push(format!("{}: {missing}.workspace = true", package["name"]));
        }
    }
    refuse(&complaints, "write into the manifest of");
}

fn not_inherited(manifest: &Table) -> Vec<String> {
    let package = manifest.get("package");
    let mut missing: Vec<_> = INHERITED
        .iter()
        .filter(|key| !says_workspace(package.and_then(|package| package.get(**key))))
        .map(|key| format!("package.{key}"))
        .collect();
    if !says_workspace(manifest.get("lints")) {
        missing.push("lints".to_owned());
    }
    missing
}

fn says_workspace(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

#[test]
fn given_a_manifest_of_its_own_mind_then_it_is_found() {
    let inherits = "[package]\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n";
    let with_lints = format!("{inherits}[lints]\nworkspace = true\n");
    assert!(not_inherited(&with_lints.parse().unwrap()).is_empty());
    assert_eq!(not_inherited(&inherits.parse().unwrap()), ["lints"]);
    let own_edition = with_lints.replace("edition.workspace = true", "edition = \"2021\"");
    assert_eq!(not_inherited(&own_edition.parse().unwrap()), ["package.edition"]);
}
