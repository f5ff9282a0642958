//! Where the workspace is, and what is in it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use toml::Table;

/// The root of the workspace.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// A file as text; a test that cannot read it has failed.
pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A TOML file.
pub(super) fn table(path: &Path) -> Table {
    read(path)
        .parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file's path as the messages show it.
pub(super) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Every hand-written Rust file, sorted. Generated ones lie below a folder `generated`.
pub(super) fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root().join(folder), &mut files);
    }
    assert!(files.len() > 10, "the search for sources found next to nothing");
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default();
            if name != "generated" && name != "target" {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The crates of the workspace as cargo sees them, without what they depend on.
pub(super) fn packages() -> Vec<Value> {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 5, "cargo shows next to no crates");
    packages.clone()
}

/// `cargo metadata`, without network and without a changed lock file.
pub(super) fn metadata(args: &[&str]) -> Value {
    let all = [&["metadata", "--format-version", "1", "--locked", "--offline"], args].concat();
    serde_json::from_str(&cargo(&all)).unwrap()
}

/// What a cargo command prints.
pub(super) fn cargo(args: &[&str]) -> String {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    output(&cargo, args)
}

/// What a command prints.
pub(super) fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Fails with one line per complaint, at the test that complains.
#[track_caller]
pub(super) fn refuse(complaints: &[String], rule: &str) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}
