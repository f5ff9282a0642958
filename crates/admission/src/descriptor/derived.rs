//! What follows from the descriptors.

use super::{Controller, Descriptor, Entry, Grant, Hook, NeededBy, Reach, Reads, Scope, descriptors};
use kruise_api::{
    gates::{Gate, Gates},
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
pub struct Installation<'a> {
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
    pub fn manifest(&self, installation: &Installation<'_>) -> Value {
        let resource = &self.descriptor.resource;
        let operations: Vec<_> = self.entry.operations.iter().map(|operation| operation.name()).collect();
        let mut entry = json!({
            "name": self.entry.name,
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"service": {"namespace": installation.namespace, "name": installation.service, "path": self.hook.path}},
            "failurePolicy": "Fail",
            "rules": [{
                "apiGroups": [resource.group()],
                "apiVersions": resource.versions(),
                "operations": operations,
                "resources": [format!("{}{}", resource.plural(), self.entry.subresource)],
            }],
            "sideEffects": "None",
            "timeoutSeconds": installation.timeout,
        });
        if let (annotated @ [_, ..], Some(fields)) = (self.entry.annotated, entry.as_object_mut()) {
            let keys: Vec<_> = annotated.iter().map(|key| format!("'{key}'")).collect();
            let expression = format!(
                "!has(oldObject.metadata.deletionTimestamp) && has(oldObject.metadata.annotations) && [{}].exists(key, key in oldObject.metadata.annotations)",
                keys.join(", ")
            );
            let condition = json!({"name": "concerned", "expression": expression});
            fields.insert("matchConditions".into(), json!([condition]));
        }
        let not_in = |key: &str, values: &[&str]| json!({"key": key, "operator": "NotIn", "values": values});
        let Some(fields) = entry.as_object_mut() else {
            return entry;
        };
        match self.hook.reach {
            Reach::All => {}
            Reach::Pods => {
                let namespaces = json!({"matchExpressions": [
                    not_in(label::CONTROL_PLANE, &["openkruise"]),
                    not_in(label::NAMESPACE_NAME, &["kube-system", installation.namespace]),
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

/// What handlers read from the cache.
pub fn reads() -> Vec<Reads> {
    let hooks = descriptors().flat_map(|descriptor| descriptor.mutate.iter().chain(&descriptor.validate));
    hooks.flat_map(|hook| hook.reads).copied().collect()
}

/// All controllers of the manager.
pub fn controllers() -> impl Iterator<Item = &'static Controller> {
    descriptors().flat_map(|descriptor| descriptor.controllers)
}

/// One rule of a role of the manager: several resources of a group with the same verbs, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resources: Vec<String>,
    pub verbs: &'static [&'static str],
    pub scope: Scope,
    /// The gates of whoever needs it; empty means that it is always needed.
    pub when: Vec<Vec<Vec<Gate>>>,
}

impl Rule {
    /// Whether somebody needs it with these gates.
    pub fn is_needed(&self, gates: Gates) -> bool {
        let has_one = |group: &Vec<Gate>| group.iter().any(|gate| gates.enabled(*gate));
        self.when.is_empty() || self.when.iter().any(|groups| groups.iter().all(has_one))
    }
}

/// What the manager may do as far as it is built, sorted.
pub fn rules() -> Vec<Rule> {
    let mut rules: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for descriptor in descriptors() {
        let resource = &descriptor.resource;
        for grant in descriptor.grants {
            if let Some(when) = needed_when(descriptor, grant) {
                let rule = (grant.scope, resource.group(), grant.verbs, when);
                let name = format!("{}{}", resource.plural(), grant.subresource);
                rules.entry(rule).or_default().push(name);
            }
        }
    }
    let rule = |((scope, group, verbs, when), mut resources): (_, Vec<String>)| {
        resources.sort_unstable();
        // Several may need the same for the same reason.
        resources.dedup();
        Rule {
            group,
            resources,
            verbs,
            scope,
            when,
        }
    };
    rules.into_iter().map(rule).collect()
}

/// With which gates a right is needed; nothing when nobody who needs it is built.
fn needed_when(descriptor: &Descriptor, grant: &Grant) -> Option<Vec<Vec<Vec<Gate>>>> {
    let by_name = |names: &'static [&'static str]| {
        controllers().filter(move |controller| controller.built && names.contains(&controller.name))
    };
    let (users, gate): (Vec<&Controller>, _) = match grant.needed_by {
        NeededBy::Process => return Some(Vec::new()),
        NeededBy::With(gate) => return Some(vec![vec![vec![gate]]]),
        NeededBy::Own => (descriptor.controllers.iter().filter(|own| own.built).collect(), None),
        NeededBy::Controllers(names) => (by_name(names).collect(), None),
        NeededBy::Gated(gate, names) => (by_name(names).collect(), Some(gate)),
    };
    let mut when = BTreeSet::new();
    for user in &users {
        let own = user.gates.iter().map(|group| group.to_vec());
        let groups: Vec<_> = own.chain(gate.map(|gate| vec![gate])).collect();
        if groups.is_empty() {
            return Some(Vec::new());
        }
        when.insert(groups);
    }
    (!users.is_empty()).then(|| when.into_iter().collect())
}
