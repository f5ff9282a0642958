//! Which version of each object there is, from watches that carry metadata only.

use crate::{
    Settings,
    descriptor::{Configuration, Resource, crd_name, descriptors},
};
use futures::{FutureExt as _, Stream, StreamExt as _, stream::SelectAll, stream::select_all};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource as _,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    pin::Pin,
};
use tracing::debug;

/// An object that we care for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Object {
    Secret,
    Configuration(Configuration),
    /// By name.
    Crd(String),
}

/// One of the watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Secret,
    Configuration(Configuration),
    Crds,
}

const SOURCES: [Source; 4] = [
    Source::Secret,
    Source::Configuration(Configuration::Mutating),
    Source::Configuration(Configuration::Validating),
    Source::Crds,
];

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "the certificate Secret",
            Self::Configuration(configuration) => configuration.kind(),
            Self::Crds => "CustomResourceDefinitions",
        })
    }
}

/// An event with what counts: name and version.
type Change = Result<Event<(String, String)>, String>;
type Changes = Pin<Box<dyn Stream<Item = (Source, Change)> + Send>>;

/// What there is, and what changes.
pub(super) struct World {
    changes: SelectAll<Changes>,
    pub(super) seen: Seen,
}

/// What there is.
pub(super) struct Seen {
    versions: HashMap<Object, String>,
    /// What a new list has named so far.
    listing: HashMap<Source, BTreeSet<String>>,
    listed: Vec<Source>,
    trouble: HashMap<Source, String>,
    ours: BTreeSet<String>,
}

impl World {
    pub(super) fn watch(client: &Client, settings: &Settings) -> Self {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), &settings.namespace);
        let mutating = Api::<PartialObjectMeta<MutatingWebhookConfiguration>>::all(client.clone());
        let validating = Api::<PartialObjectMeta<ValidatingWebhookConfiguration>>::all(client.clone());
        let crds = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
        let ours = |resource: &Resource| match resource {
            Resource::Ours(kind) => Some(crd_name(kind)),
            Resource::BuiltIn { .. } => None,
        };
        Self {
            changes: select_all([
                changes(secrets, named(&settings.secret_name), Source::Secret),
                changes(
                    mutating,
                    named(&settings.mutating_configuration),
                    Source::Configuration(Configuration::Mutating),
                ),
                changes(
                    validating,
                    named(&settings.validating_configuration),
                    Source::Configuration(Configuration::Validating),
                ),
                changes(crds, watcher::Config::default(), Source::Crds),
            ]),
            seen: Seen {
                versions: HashMap::new(),
                listing: HashMap::new(),
                listed: Vec::new(),
                trouble: HashMap::new(),
                ours: descriptors()
                    .filter_map(|descriptor| ours(&descriptor.resource))
                    .collect(),
            },
        }
    }

    /// Waits until something is different, and takes in all that has arrived by then.
    pub(super) async fn changed(&mut self) {
        let mut different = false;
        loop {
            let next = if different {
                self.changes.next().now_or_never()
            } else {
                Some(self.changes.next().await)
            };
            match next {
                Some(Some((source, change))) => different |= self.seen.take(source, change),
                // Nothing more for now. The streams themselves never end.
                None | Some(None) => return,
            }
        }
    }
}

impl Seen {
    /// Whether every watch has told what there is.
    pub(super) fn is_complete(&self) -> bool {
        SOURCES.iter().all(|source| self.listed.contains(source))
    }

    /// What keeps it from being complete.
    pub(super) fn missing(&self) -> String {
        let missing = SOURCES.iter().filter(|source| !self.listed.contains(source));
        let with_reason = missing.map(|source| match self.trouble.get(source) {
            Some(reason) => format!("{source} ({reason})"),
            None => source.to_string(),
        });
        format!("cannot watch {}", with_reason.collect::<Vec<_>>().join(", "))
    }

    pub(super) fn version(&self, object: &Object) -> Option<&str> {
        self.versions.get(object).map(String::as_str)
    }

    /// Whether the CRD of this name is installed.
    pub(super) fn has_crd(&self, name: &str) -> bool {
        self.version(&Object::Crd(name.to_owned())).is_some()
    }

    /// Names of our CRDs that are installed, sorted.
    pub(super) fn crds(&self) -> Vec<String> {
        self.ours.iter().filter(|name| self.has_crd(name)).cloned().collect()
    }

    /// Takes in one event. Says whether it makes a difference.
    fn take(&mut self, source: Source, change: Change) -> bool {
        match change {
            Err(reason) => {
                debug!("watch of {source}: {reason}");
                self.trouble.insert(source, reason.clone()) != Some(reason)
            }
            Ok(Event::Init) => {
                self.listing.insert(source, BTreeSet::new());
                false
            }
            Ok(Event::InitApply((name, version))) => {
                let different = self.put(source, &name, version);
                self.listing.entry(source).or_default().insert(name);
                different
            }
            Ok(Event::InitDone) => {
                self.trouble.remove(&source);
                let listed = self.listing.remove(&source).unwrap_or_default();
                let gone: Vec<_> = self
                    .versions
                    .keys()
                    .filter(|object| belongs(object, source) && !is_listed(object, &listed))
                    .cloned()
                    .collect();
                let first = !self.listed.contains(&source);
                if first {
                    self.listed.push(source);
                }
                let lost = !gone.is_empty();
                for object in &gone {
                    self.versions.remove(object);
                }
                first || lost
            }
            Ok(Event::Apply((name, version))) => {
                self.trouble.remove(&source);
                self.put(source, &name, version)
            }
            Ok(Event::Delete((name, _))) => {
                let object = self.object(source, &name);
                object.is_some_and(|object| self.versions.remove(&object).is_some())
            }
        }
    }

    fn put(&mut self, source: Source, name: &str, version: String) -> bool {
        let Some(object) = self.object(source, name) else {
            return false;
        };
        let before = self.versions.insert(object.clone(), version);
        before.as_ref() != self.versions.get(&object)
    }

    fn object(&self, source: Source, name: &str) -> Option<Object> {
        match source {
            Source::Secret => Some(Object::Secret),
            Source::Configuration(configuration) => Some(Object::Configuration(configuration)),
            Source::Crds => self.ours.contains(name).then(|| Object::Crd(name.to_owned())),
        }
    }
}

fn belongs(object: &Object, source: Source) -> bool {
    match (object, source) {
        (Object::Secret, Source::Secret) | (Object::Crd(_), Source::Crds) => true,
        (Object::Configuration(one), Source::Configuration(other)) => *one == other,
        _ => false,
    }
}

fn is_listed(object: &Object, listed: &BTreeSet<String>) -> bool {
    match object {
        Object::Crd(name) => listed.contains(name),
        // Those watches are for one object only.
        Object::Secret | Object::Configuration(_) => !listed.is_empty(),
    }
}

fn changes<K>(api: Api<PartialObjectMeta<K>>, config: watcher::Config, source: Source) -> Changes
where
    K: kube::Resource<DynamicType = ()> + Clone + fmt::Debug + Send + 'static,
    PartialObjectMeta<K>: kube::Resource<DynamicType = ()>,
{
    let brief = |object: PartialObjectMeta<K>| {
        let metadata = object.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&metadata.name), text(&metadata.resource_version))
    };
    let events = watcher(api, config).default_backoff();
    events
        .map(move |event| {
            let change = event.map_err(|error| error.to_string()).map(|event| match event {
                Event::Apply(object) => Event::Apply(brief(object)),
                Event::Delete(object) => Event::Delete(brief(object)),
                Event::Init => Event::Init,
                Event::InitApply(object) => Event::InitApply(brief(object)),
                Event::InitDone => Event::InitDone,
            });
            (source, change)
        })
        .boxed()
}
