//! Changing objects: read, decide, send the smallest patch, tell.
//!
//! - What is to change is decided by a pure function over the object as it is. The patch is what differs: a merge patch as long as no list is touched; else a JSON patch, as a
//!   merge patch would replace the whole list. A JSON patch names places in lists, so it begins with a test that the spec is still the one that was read.
//! - When that test fails, or the server says that somebody else was faster, it is read and decided again, a few times.
//! - `--dry-run=client` sends nothing, `--dry-run=server` lets the server say what would come of it.
//! - Each object is changed for itself: an error is told, and the others are changed all the same.

use crate::{
    args::Connection,
    complain,
    explain::{Completeness, print},
    follow::say,
    print::{Format, Written, items},
    select::{Found, Objects},
    server::{Object, Patch, Refusal, Server},
};
use anyhow::{Error, Result, anyhow, bail};
use clap::ValueEnum;
use kruise_api::merge_patch;
use kruise_core::json_patch;
use serde_json::{Value, json};

/// How often it is tried when others change the object, too.
const ATTEMPTS: u32 = 5;

/// Whether it is written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    #[default]
    None,
    Client,
    Server,
}

impl DryRun {
    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// How it is written, and what is told.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Writing {
    /// Whether it is only tried: `client` sends nothing, `server` lets the API server check it
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "none",
        num_args = 0..=1,
        default_missing_value = "client",
        require_equals = true
    )]
    pub(crate) dry_run: DryRun,
    /// Print the objects instead of what was done
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Written>,
}

/// What becomes of an object.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is to be like this.
    Become(Value),
    /// It stays as it is, and that is told.
    Stay(String),
    /// It stays as it is, and nobody needs to know.
    Same,
}

/// The patch that makes `after` of `before`; none when they are the same.
pub(crate) fn patch(before: &Value, after: &Value) -> Option<Patch> {
    let merge = merge_patch::diff(before, after)?;
    if !has_list(&merge) {
        return Some(Patch::Merge(merge));
    }
    let mut steps = Vec::new();
    if let Some(generation) = before.pointer("/metadata/generation") {
        steps.push(json!({"op": "test", "path": "/metadata/generation", "value": generation}));
    }
    let changes = json_patch::diff(before, after.clone());
    steps.extend(changes.iter().filter_map(|step| serde_json::to_value(step).ok()));
    Some(Patch::Json(Value::Array(steps)))
}

fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        _ => false,
    }
}

/// A command that changes objects.
pub(crate) struct Change<'a> {
    /// What was done, for the sentence that is printed.
    pub(crate) done: &'a str,
    /// A line that comes before it; none when empty.
    pub(crate) preface: &'a str,
    pub(crate) writing: &'a Writing,
}

impl<'a> Change<'a> {
    pub(crate) fn new(done: &'a str, writing: &'a Writing) -> Self {
        Self {
            done,
            preface: "",
            writing,
        }
    }

    /// Changes all objects that are meant.
    pub(crate) async fn run(
        &self,
        connection: &Connection,
        objects: &Objects,
        decide: impl Fn(&Object) -> Result<Decision>,
    ) -> Result<Completeness> {
        let server = Server::connect(connection).await?;
        let found = objects.find(&server).await?;
        if found.objects.is_empty() && found.errors.is_empty() {
            eprintln!("No resources found.");
        }
        self.all(&server, found, decide).await
    }

    /// Changes objects that were found.
    pub(crate) async fn all(
        &self,
        server: &Server,
        found: Found,
        decide: impl Fn(&Object) -> Result<Decision>,
    ) -> Result<Completeness> {
        let mut errors = found.errors;
        for object in found.objects {
            if let Err(error) = self.one(server, object, &decide).await {
                errors.push(error);
            }
        }
        for error in &errors {
            complain(error);
        }
        Ok(if errors.is_empty() {
            Completeness::All
        } else {
            Completeness::Failed
        })
    }

    /// Changes what is in files, and only prints it.
    ///
    /// # Errors
    /// When the server is to be asked all the same.
    pub(crate) fn local(
        &self,
        objects: &Objects,
        decide: impl Fn(&Object) -> Result<Decision>,
    ) -> Result<Completeness> {
        if self.writing.dry_run == DryRun::Server {
            bail!("cannot specify --local and --dry-run=server");
        }
        for mut object in objects.local()?.objects {
            if let Decision::Become(after) = decide(&object)? {
                object.value = after;
            }
            self.print(&object, self.done)?;
        }
        Ok(Completeness::All)
    }

    /// Changes an object, and tells it.
    pub(crate) async fn one(
        &self,
        server: &Server,
        mut object: Object,
        decide: impl Fn(&Object) -> Result<Decision>,
    ) -> Result<()> {
        let mut attempts = 0;
        loop {
            let after = match decide(&object)? {
                Decision::Become(after) => after,
                Decision::Stay(text) => return self.print(&object, &text),
                Decision::Same => return self.print(&object, ""),
            };
            let Some(patch) = patch(&object.value, &after) else {
                return self.print(&object, "");
            };
            match self.send(server, &object, &patch, after).await {
                Ok(value) => {
                    object.value = value;
                    if !self.preface.is_empty() && self.writing.output.is_none() {
                        say(self.preface)?;
                    }
                    let done = format!("{}{}", self.done, self.writing.dry_run.suffix());
                    return self.print(&object, &done);
                }
                Err(Refusal::Changed) if attempts < ATTEMPTS => {
                    attempts += 1;
                    let (kind, version) = (object.kind, Some(object.version));
                    object = server
                        .get(kind, version, object.namespace(), object.name())
                        .await
                        .map_err(plain)?;
                }
                Err(Refusal::Changed) => bail!("{} was changed by somebody else at the same time", object.quoted()),
                Err(refusal) => return Err(plain(refusal)),
            }
        }
    }

    async fn send(&self, server: &Server, object: &Object, patch: &Patch, after: Value) -> Result<Value, Refusal> {
        match self.writing.dry_run {
            DryRun::Client => Ok(after),
            dry_run => {
                let is_dry = dry_run == DryRun::Server;
                server.patch(object, "", patch, is_dry).await
            }
        }
    }

    /// Prints the object, or a sentence about it when there is one.
    fn print(&self, object: &Object, text: &str) -> Result<()> {
        match self.writing.output {
            Some(format) => print(&items(std::slice::from_ref(object), Format::from(format))?),
            None if text.is_empty() => Ok(()),
            None => say(&format!("{} {text}", object.printed())),
        }
    }
}

fn plain(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Other(error) => error,
        refusal => anyhow!("{refusal}"),
    }
}

/// Sets a field, and makes the objects around it as far as they are missing.
pub(crate) fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, around)) = path.split_last() else {
        *object = value;
        return;
    };
    let mut place = object;
    for field in around {
        if !place[*field].is_object() {
            place[*field] = json!({});
        }
        place = &mut place[*field];
    }
    place[*last] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(generation: i64, containers: &Value) -> Value {
        json!({"metadata": {"generation": generation}, "spec": {"template": {"spec": {"containers": containers}}}})
    }

    #[test]
    fn given_a_change_of_a_list_then_only_the_item_is_written_and_the_spec_has_to_be_the_one_that_was_read() {
        let before = object(
            3,
            &json!([{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]),
        );
        let mut after = before.clone();
        after["spec"]["template"]["spec"]["containers"][1]["image"] = json!("y:2");
        let expected = json!([
            {"op": "test", "path": "/metadata/generation", "value": 3},
            {"op": "replace", "path": "/spec/template/spec/containers/1/image", "value": "y:2"},
        ]);
        assert_eq!(patch(&before, &after), Some(Patch::Json(expected)));
        assert_eq!(patch(&before, &before), None);
    }

    #[test]
    fn given_no_list_then_the_patch_is_as_small_and_needs_no_test() {
        let before = json!({"metadata": {"generation": 3}, "spec": {"paused": true}});
        let mut after = before.clone();
        set(
            &mut after,
            &["spec", "updateStrategy", "rollingUpdate", "partition"],
            json!(2),
        );
        after["spec"].as_object_mut().unwrap().remove("paused");
        let expected = json!({"spec": {"paused": null, "updateStrategy": {"rollingUpdate": {"partition": 2}}}});
        assert_eq!(patch(&before, &after), Some(Patch::Merge(expected)));
    }

    #[test]
    fn given_an_odd_object_then_a_field_is_set_all_the_same() {
        let mut odd = json!({"spec": 3});
        set(&mut odd, &["spec", "a", "b"], json!(1));
        assert_eq!(odd, json!({"spec": {"a": {"b": 1}}}));
    }
}
