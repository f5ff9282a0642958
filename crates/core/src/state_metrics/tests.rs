//! The rules of the page, kind by kind.

mod format;
mod kinds;
mod strict;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Exposition, Options, Sampled, Unreadable};

/// The page of these objects.
fn page_of<K: Sampled + DeserializeOwned>(options: Options, objects: &[Value]) -> (String, Vec<Unreadable>) {
    let objects: Vec<Box<K>> = objects
        .iter()
        .map(|object| Box::new(serde_json::from_value(object.clone()).expect("an object of the kind")))
        .collect();
    let mut page = String::new();
    let unreadable = Exposition::<K>::new(&Arc::new(options)).write(&objects, &mut page);
    (page, unreadable)
}

/// The page of one object `default/sample` with this spec and status.
fn page<K: Sampled + DeserializeOwned>(spec: Value, status: Value) -> String {
    let mut object = json!({"metadata": {"name": "sample", "namespace": "default"}});
    object["spec"] = spec;
    object["status"] = status;
    let (page, unreadable) = page_of::<K>(Options::default(), &[object]);
    assert_eq!(unreadable, []);
    strict::check(&page);
    page
}

/// Lines without comments that are of a family, without what all samples of the object begin with.
fn samples<'a>(page: &'a str, family: &str) -> Vec<&'a str> {
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix(family)?.strip_prefix('{'));
    lines.collect()
}
