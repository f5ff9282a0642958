//! Which objects are meant, in the words of kubectl.
//!
//! - `TYPE NAME…`, `TYPE/NAME…`, `-f FILE`, or a type with `-l` or `--all`; several types are divided by commas. `-A` takes all namespaces.
//! - A file gives kind, version, name and namespace; what counts is the object in the cluster. A kustomization (`-k`) is built by kubectl.
//! - An object that is missing is told, and does not keep the others from being found.

use crate::{
    kinds::{self, Kind},
    server::{Object, Refusal, Server, not_served},
    text::visible_lines,
};
use anyhow::{Context as _, Error, Result, bail};
use kruise_api::resource::Scope;
use serde_json::Value;
use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

/// Objects, as a user names them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Objects {
    /// `TYPE NAME`, `TYPE/NAME`, or several of them
    #[arg(value_name = "TYPE NAME")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
}

/// Objects that are chosen otherwise than by their names.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Chosen {
    /// A file or folder with the objects; `-` is the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Look into folders of folders, too
    #[arg(short = 'R', long, requires = "files")]
    pub(crate) recursive: bool,
    /// A folder with a kustomization of the objects
    #[arg(short = 'k', long, value_name = "DIR", conflicts_with = "files")]
    pub(crate) kustomize: Option<PathBuf>,
    /// Labels of the objects, as `key=value,…`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// All objects of the type
    #[arg(long)]
    pub(crate) all: bool,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// A kind, and which of its objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) version: Option<&'static str>,
    /// That of the file.
    pub(crate) namespace: Option<String>,
    /// One by its name, or all that the labels choose.
    pub(crate) name: Option<String>,
}

/// What was found, and what was not.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) objects: Vec<Object>,
    pub(crate) errors: Vec<Error>,
}

impl Found {
    /// Returns the only object.
    ///
    /// # Errors
    /// When there is none or more than one.
    pub(crate) fn only(self, what: &str) -> Result<Object> {
        if let Some(error) = self.errors.into_iter().next() {
            return Err(error);
        }
        let count = self.objects.len();
        match <[Object; 1]>::try_from(self.objects) {
            Ok([object]) => Ok(object),
            Err(_) => bail!("{what} is only supported on individual resources - {count} resources were found"),
        }
    }
}

/// Reads words as types and names.
pub(crate) fn requests(words: &[String]) -> Result<Vec<Request>> {
    let request = |word: &str, name: Option<&str>| {
        let (kind, version) = kinds::resolve(word)?;
        let name = name.map(checked).transpose()?;
        Ok(Request {
            kind,
            version,
            namespace: None,
            name: name.map(str::to_owned),
        })
    };
    if words.iter().any(|word| word.contains('/')) {
        let pair = |word: &String| match word.split_once('/') {
            Some((kind, name)) => request(kind, Some(name)),
            None => bail!("there is no need to say a type besides TYPE/NAME: what is {word:?}?"),
        };
        return words.iter().map(pair).collect();
    }
    let Some((types, names)) = words.split_first() else {
        return Ok(Vec::new());
    };
    let types: Vec<&str> = types.split(',').collect();
    if names.is_empty() {
        return types.into_iter().map(|word| request(word, None)).collect();
    }
    let all = types
        .into_iter()
        .flat_map(|word| names.iter().map(move |name| request(word, Some(name))));
    all.collect()
}

/// A name as it may stand in an address.
pub(crate) fn checked(name: &str) -> Result<&str> {
    let fits = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.' | '_' | ':');
    if name.is_empty() || !name.chars().all(fits) || name.chars().all(|sign| sign == '.') {
        bail!("{name:?} is not a name");
    }
    Ok(name)
}

/// The objects of a text in YAML or JSON.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("the file is neither YAML nor JSON")?;
    let mut objects = Vec::new();
    for mut document in documents {
        match document["items"].take() {
            Value::Array(items) => objects.extend(items),
            _ if document.is_null() => {}
            _ => {
                if let Some(fields) = document.as_object_mut() {
                    fields.remove("items");
                }
                objects.push(document);
            }
        }
    }
    Ok(objects)
}

fn of_document(document: &Value) -> Result<Request> {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = kinds::of_file(text("/apiVersion"), text("/kind"))?;
    let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    Ok(Request {
        kind,
        version,
        namespace: namespace.map(checked).transpose()?.map(str::to_owned),
        name: Some(checked(text("/metadata/name"))?.to_owned()),
    })
}

/// All objects of files and folders.
pub(crate) fn of_files(files: &[PathBuf], recursive: bool) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files {
        if file == Path::new("-") {
            objects.extend(documents(&contents_of(file)?)?);
            continue;
        }
        for file in unfolded(file, recursive)? {
            let named = || format!("cannot read {}", file.display());
            objects.extend(documents(&contents_of(&file)?).with_context(named)?);
        }
    }
    if objects.is_empty() && !files.is_empty() {
        bail!("there are no objects in the files");
    }
    Ok(objects)
}

/// What kubectl makes of a kustomization.
fn built(folder: &Path) -> Result<String> {
    let kubectl = Command::new("kubectl").arg("kustomize").arg(folder).output();
    let built = kubectl.context("kubectl, which builds kustomizations, cannot be run")?;
    if !built.status.success() {
        bail!("{}", visible_lines(String::from_utf8_lossy(&built.stderr).trim_end()));
    }
    String::from_utf8(built.stdout).context("what kubectl has built is no text")
}

/// What a file has; `-` is the standard input.
pub(crate) fn contents_of(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read the standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// A file, or the files of a folder by their names.
fn unfolded(file: &Path, recursive: bool) -> Result<Vec<PathBuf>> {
    if !file.is_dir() {
        return Ok(vec![file.to_owned()]);
    }
    let named = || format!("cannot read {}", file.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(file).with_context(named)? {
        entries.push(entry.with_context(named)?.path());
    }
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let ending = entry.extension().and_then(|ending| ending.to_str());
        if entry.is_dir() {
            if recursive {
                files.extend(unfolded(&entry, true)?);
            }
        } else if matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(entry);
        }
    }
    Ok(files)
}

impl Chosen {
    /// The objects of the files, or of the kustomization.
    fn documents(&self) -> Result<Vec<Value>> {
        let Some(folder) = &self.kustomize else {
            return of_files(&self.files, self.recursive);
        };
        let objects = documents(&built(folder)?)?;
        if objects.is_empty() {
            bail!("there are no objects in the kustomization");
        }
        Ok(objects)
    }

    fn has_files(&self) -> bool {
        !self.files.is_empty() || self.kustomize.is_some()
    }
}

impl Objects {
    /// What is asked for. A type alone stands for all its objects only when `alone_is_all`, with labels or with `--all`.
    fn requests(&self, alone_is_all: bool) -> Result<Vec<Request>> {
        let Chosen {
            selector,
            all,
            all_namespaces,
            ..
        } = &self.chosen;
        if *all && selector.is_some() {
            bail!("cannot set --all and --selector at the same time");
        }
        let mut requests = requests(&self.words)?;
        if self.chosen.has_files() && (!requests.is_empty() || *all || selector.is_some()) {
            bail!("when files are given, types, names, --selector and --all cannot be");
        }
        for document in self.chosen.documents()? {
            requests.push(of_document(&document)?);
        }
        if requests.is_empty() {
            bail!("required resource not specified: name one, for example cloneset/web");
        }
        let by_name = requests.iter().any(|request| request.name.is_some());
        if by_name && selector.is_some() {
            bail!("name cannot be provided when a selector is specified");
        }
        if by_name && *all {
            bail!("setting --all needs a type without names");
        }
        if by_name && *all_namespaces {
            bail!("a resource cannot be retrieved by name across all namespaces");
        }
        if !by_name && !alone_is_all && !*all && selector.is_none() {
            bail!("say which: a name, --selector, or --all");
        }
        Ok(requests)
    }

    /// The objects as they are in the files.
    ///
    /// # Errors
    /// When files are not all that is given.
    pub(crate) fn local(&self) -> Result<Found> {
        if !self.words.is_empty() {
            bail!("cannot specify resource arguments when --local is set");
        }
        let mut found = Found::default();
        for value in self.chosen.documents()? {
            let Request { kind, version, .. } = of_document(&value)?;
            let version = version.or_else(|| kind.versions().first().copied()).unwrap_or_default();
            found.objects.push(Object { kind, version, value });
        }
        Ok(found)
    }

    /// Finds the objects that are to be changed.
    pub(crate) async fn find(&self, server: &Server) -> Result<Found> {
        self.found(server, &self.requests(false)?).await
    }

    /// Finds the objects that are to be shown: all of a type that stands alone.
    pub(crate) async fn find_all(&self, server: &Server) -> Result<Found> {
        self.found(server, &self.requests(true)?).await
    }

    async fn found(&self, server: &Server, requests: &[Request]) -> Result<Found> {
        let mut found = Found::default();
        for request in requests {
            let namespace = request.namespace.as_deref().unwrap_or(&server.namespace);
            if let Some(name) = &request.name {
                match server.get(request.kind, request.version, namespace, name).await {
                    Ok(object) => found.objects.push(object),
                    Err(Refusal::Other(error)) => found.errors.push(error),
                    Err(refusal) => found.errors.push(refusal.into()),
                }
                continue;
            }
            let within = (!self.chosen.all_namespaces && request.kind.scope == Scope::Namespaced).then_some(namespace);
            let labels = self.chosen.selector.as_deref();
            match server.list(request.kind, request.version, within, labels).await {
                Ok(Some(objects)) => found.objects.extend(objects),
                Ok(None) => found.errors.push(not_served(request.kind, request.version)),
                Err(Refusal::Other(error)) => found.errors.push(error),
                Err(refusal) => found.errors.push(refusal.into()),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn read(text: &str) -> Vec<(String, Option<String>)> {
        let all = requests(&words(text)).unwrap();
        all.into_iter()
            .map(|request| (request.kind.full(), request.name))
            .collect()
    }

    #[test]
    fn objects_are_named_as_with_kubectl() {
        let cloneset = |name: &str| ("CloneSet.apps.kruise.io".to_owned(), Some(name.to_owned()));
        assert_eq!(read("cloneset web"), [cloneset("web")]);
        assert_eq!(read("clone a b"), [cloneset("a"), cloneset("b")]);
        assert_eq!(
            read("clone/a deploy/b"),
            [cloneset("a"), ("Deployment.apps".to_owned(), Some("b".to_owned()))]
        );
        assert_eq!(
            read("clone,sts"),
            [
                ("CloneSet.apps.kruise.io".to_owned(), None),
                ("StatefulSet.apps".to_owned(), None)
            ]
        );
        assert_eq!(read("clone,ads x").len(), 2);
        assert_eq!(read(""), []);
        for (text, error) in [
            ("clone/a b", "what is \"b\"?"),
            ("clone/", "is not a name"),
            ("clone/a/b", "is not a name"),
            ("clone a?b", "is not a name"),
            ("clone ..", "is not a name"),
            ("nothing x", "there is no resource type \"nothing\""),
        ] {
            let told = requests(&words(text)).unwrap_err().to_string();
            assert!(told.contains(error), "{text}: {told}");
        }
    }

    fn asked(text: &str, chosen: Chosen) -> Result<usize> {
        let objects = Objects {
            words: words(text),
            chosen,
        };
        objects.requests(false).map(|requests| requests.len())
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let none = Chosen::default;
        let labels = || Chosen {
            selector: Some("a=b".into()),
            ..none()
        };
        let all = || Chosen { all: true, ..none() };
        let everywhere = || Chosen {
            all_namespaces: true,
            ..none()
        };
        assert_eq!(asked("clone a", none()).unwrap(), 1);
        assert_eq!(asked("clone", labels()).unwrap(), 1);
        assert_eq!(asked("clone", all()).unwrap(), 1);
        for (text, chosen, error) in [
            ("", none(), "required resource not specified"),
            ("clone", none(), "say which"),
            ("clone", everywhere(), "say which"),
            ("clone a", labels(), "name cannot be provided"),
            ("clone a", all(), "without names"),
            ("clone a", everywhere(), "across all namespaces"),
            (
                "clone",
                Chosen { all: true, ..labels() },
                "cannot set --all and --selector",
            ),
        ] {
            let told = asked(text, chosen).unwrap_err().to_string();
            assert!(told.contains(error), "{text}: {told}");
        }
    }

    #[test]
    fn files_may_hold_several_objects_and_lists() {
        let text = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: a, namespace: shop}\n---\n\
                    kind: List\nitems: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}]\n---\n";
        let all: Vec<Request> = documents(text)
            .unwrap()
            .iter()
            .map(|document| of_document(document).unwrap())
            .collect();
        assert_eq!(
            (all[0].version, all[0].namespace.as_deref()),
            (Some("v1alpha1"), Some("shop"))
        );
        assert_eq!((all[1].kind.kind, all[1].name.as_deref()), ("Deployment", Some("b")));
        assert!(documents("{").is_err());
        let nameless = documents("apiVersion: apps/v1\nkind: Deployment\n").unwrap();
        assert!(of_document(&nameless[0]).is_err());
    }
}
