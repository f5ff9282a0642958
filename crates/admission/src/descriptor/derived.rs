//! What follows from the descriptors.

use super::{Controller, Descriptor, Entry, Hook, Reach, descriptors};
use kruise_api::{
    gates::Gates,
    names::{label, object},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One of the two webhook configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Configuration {
    Mutating,
    Validating,
}

impl Configuration {
    pub const BOTH: [Self; 2] = [Self::Mutating, Self::Validating];

    /// Name of the object.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutating => object::MUTATING_WEBHOOKS,
            Self::Validating => object::VALIDATING_WEBHOOKS,
        }
    }

    /// Kind of the object.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }

    /// The path of a descriptor in this configuration.
    pub fn hook(self, descriptor: &'static Descriptor) -> Option<&'static Hook> {
        match self {
            Self::Mutating => descriptor.mutate.as_ref(),
            Self::Validating => descriptor.validate.as_ref(),
        }
    }
}

/// An entry of a webhook configuration, and what it leads to.
#[derive(Debug, Clone, Copy)]
pub struct Webhook {
    pub descriptor: &'static Descriptor,
    pub hook: &'static Hook,
    pub entry: &'static Entry,
}

/// Where the manager is installed, as the manifests say it. A chart may put its own expressions here.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    pub namespace: &'a str,
    pub service: &'a str,
    /// Value of `timeoutSeconds`.
    pub timeout: Value,
}

/// All entries of a configuration.
pub fn webhooks(configuration: Configuration) -> impl Iterator<Item = Webhook> {
    descriptors()
        .filter_map(move |descriptor| configuration.hook(descriptor).map(|hook| (descriptor, hook)))
        .flat_map(|(descriptor, hook)| {
            hook.entries.iter().map(move |entry| Webhook {
                descriptor,
                hook,
                entry,
            })
        })
}

impl Webhook {
    /// The entry as a manifest has it. There is no CA bundle: the manager writes it, and applying the manifest again leaves it alone.
    pub fn manifest(&self, place: &Place<'_>) -> Value {
        let resource = &self.descriptor.resource;
        let operations: Vec<_> = self.entry.operations.iter().map(|operation| operation.name()).collect();
        let mut entry = json!({
            "name": self.entry.name,
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"service": {"namespace": place.namespace, "name": place.service, "path": self.hook.path}},
            "failurePolicy": "Fail",
            "rules": [{
                "apiGroups": [resource.group()],
                "apiVersions": resource.versions(),
                "operations": operations,
                "resources": [format!("{}{}", resource.plural(), self.entry.subresource)],
            }],
            "sideEffects": "None",
            "timeoutSeconds": place.timeout,
        });
        let not_in = |key: &str, values: &[&str]| json!({"key": key, "operator": "NotIn", "values": values});
        let Some(fields) = entry.as_object_mut() else {
            return entry;
        };
        match self.hook.reach {
            Reach::All => {}
            Reach::Pods => {
                let namespaces = json!({"matchExpressions": [
                    not_in(label::CONTROL_PLANE, &["openkruise"]),
                    not_in(label::NAMESPACE_NAME, &["kube-system", place.namespace]),
                ]});
                fields.insert("namespaceSelector".into(), namespaces);
            }
            Reach::Protected => {
                fields.insert("failurePolicy".into(), "Ignore".into());
                let namespaces = json!({"matchExpressions": [not_in(label::NAMESPACE_NAME, &["kube-system"])]});
                fields.insert("namespaceSelector".into(), namespaces);
                let objects = json!({"matchExpressions": [{"key": label::DELETE_PROTECTION, "operator": "Exists"}]});
                fields.insert("objectSelector".into(), objects);
            }
        }
        entry
    }
}

/// The paths whose entries are kept, older ones too; `served` tells whether the CRD of this name is installed.
pub fn live_paths(gates: Gates, served: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let hooks = descriptors().flat_map(|descriptor| descriptor.mutate.iter().chain(&descriptor.validate));
    hooks
        .filter(|hook| hook.live.is_live(gates, &served))
        .flat_map(|hook| std::iter::once(hook.path).chain(hook.alias))
        .collect()
}

/// All controllers of the manager.
pub fn controllers() -> impl Iterator<Item = &'static Controller> {
    descriptors().flat_map(|descriptor| descriptor.controllers)
}

/// One rule of the manager's role: several resources of a group with the same verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resources: Vec<String>,
    pub verbs: &'static [&'static str],
}

/// What the manager may do, sorted.
pub fn rules() -> Vec<Rule> {
    let mut rules: BTreeMap<(&str, &[&str]), Vec<String>> = BTreeMap::new();
    for descriptor in descriptors() {
        let resource = &descriptor.resource;
        for grant in descriptor.grants {
            rules.entry((resource.group(), grant.verbs)).or_default().push(format!(
                "{}{}",
                resource.plural(),
                grant.subresource
            ));
        }
    }
    let rule = |((group, verbs), mut resources): (_, Vec<String>)| {
        resources.sort_unstable();
        Rule {
            group,
            resources,
            verbs,
        }
    };
    rules.into_iter().map(rule).collect()
}
