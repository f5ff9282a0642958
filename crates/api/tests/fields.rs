//! The CRDs say what the contract says: `fixtures/fields` has every field of every version, one line each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kruise_api::registry::KINDS;
use kruise_api::schema::{crd, tree};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fields")
}

/// The first line that differs, as `- contract` and `+ ours`.
fn first_difference(contract: &str, ours: &str) -> Option<String> {
    let (contract, ours): (BTreeSet<_>, BTreeSet<_>) = (contract.lines().collect(), ours.lines().collect());
    let missing = contract.difference(&ours).map(|line| format!("- {line}"));
    let extra = ours.difference(&contract).map(|line| format!("+ {line}"));
    missing
        .chain(extra)
        .min_by_key(|line| line.get(2..).map(ToOwned::to_owned))
}

#[test]
fn every_version_has_the_fields_of_the_contract() {
    for kind in KINDS {
        for version in kind.versions {
            let name = format!("{}.{}.txt", kind.plural, version.name);
            let contract = fs::read_to_string(fixtures().join(&name)).unwrap();
            let ours = tree::fields(kind, version, &crd::schema(version).unwrap());
            assert!(contract == ours, "{name}: {:?}", first_difference(&contract, &ours));
        }
    }
}
