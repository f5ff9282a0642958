//! Rendering the chart with Helm.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use kruise_testkit::{kubernetes, progress::Progress};
use serde_json::Value;

/// The tag of the image, unless a test has another.
pub(super) const TAG: &str = "mine";

/// The chart in the workspace.
pub(super) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/kruise")
}

/// Helm: the program `KRUISE_HELM` names, the one on the PATH, or the one `cargo xtask` builds for itself.
fn helm() -> PathBuf {
    if let Some(named) = env::var_os("KRUISE_HELM") {
        return named.into();
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths)
        .map(|folder| folder.join("helm"))
        .find(|program| program.is_file())
        .unwrap_or_else(|| {
            kubernetes::helm(&Progress::quiet()).unwrap_or_else(|error| {
                panic!("Helm is needed: install it, or name it in KRUISE_HELM, or install Go so that it can be built ({error:#})")
            })
        })
}

/// What Helm makes of a chart, or what it complains about.
pub(super) fn try_render(chart: &Path, values: &Value, args: &[&str]) -> Result<Vec<Value>, String> {
    try_render_as_it_is(chart, &with_a_tag(values.clone()), args)
}

/// The chart is under development, so that somebody has to say which image is meant.
fn with_a_tag(mut values: Value) -> Value {
    let tag = &mut values["manager"]["image"]["tag"];
    if tag.is_null() {
        *tag = TAG.into();
    }
    values
}

/// The same with no more values than these.
pub(super) fn try_render_as_it_is(chart: &Path, values: &Value, args: &[&str]) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let output = Command::new(helm())
        .args(["template", "rel", "--namespace", "elsewhere", "--values"])
        .arg(&file)
        .args(args)
        .arg(chart)
        .env("HELM_CACHE_HOME", folder.path())
        .env("HELM_CONFIG_HOME", folder.path())
        .env("HELM_DATA_HOME", folder.path())
        .output()
        .unwrap_or_else(|error| panic!("Helm ({}) does not start: {error}", helm().display()));
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// The objects of the release with these values.
pub(super) fn render(values: &Value) -> Vec<Value> {
    try_render(&chart(), values, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// The objects with the default values on a Kubernetes version.
pub(super) fn render_on(kubernetes: &str, values: &Value) -> Vec<Value> {
    try_render(&chart(), values, &["--kube-version", kubernetes]).unwrap_or_else(|error| panic!("{error}"))
}

/// One object, if it is there.
pub(super) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

/// One object that has to be there.
pub(super) fn get<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    find(objects, kind, name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

/// The strings of a list.
pub(super) fn strings(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}
