//! A kind's CRD.

use schemars::Schema;
use serde_json::{Value, json};

use super::structural::{NotStructural, strip, structural};
use crate::names::object;
use crate::registry::{Column, Conversion, KindInfo, VersionInfo};

/// The structural schema of a version, with our own markers still in it.
pub fn schema(version: &VersionInfo) -> Result<Value, NotStructural> {
    structural(&Schema::to_value((version.schema)()))
}

/// The CRD of a kind.
pub fn definition(kind: &KindInfo) -> Result<Value, NotStructural> {
    let versions = kind
        .versions
        .iter()
        .map(|one| version(kind, one))
        .collect::<Result<Vec<_>, _>>()?;
    let mut names = json!({
        "kind": kind.kind,
        "listKind": kind.list_kind(),
        "plural": kind.plural,
        "singular": kind.singular(),
    });
    if let (false, Some(map)) = (kind.short_names.is_empty(), names.as_object_mut()) {
        map.insert("shortNames".to_owned(), json!(kind.short_names));
    }
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", kind.plural, kind.group) },
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": format!("{:?}", kind.scope),
            "conversion": conversion(kind.conversion),
            "versions": versions,
        },
    }))
}

fn version(kind: &KindInfo, version: &VersionInfo) -> Result<Value, NotStructural> {
    let mut schema = schema(version)?;
    strip(&mut schema);
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        // The apiserver knows what it is and refuses any word about it, even a description.
        *metadata = json!({ "type": "object" });
    }
    let mut subresources = json!({ "status": {} });
    if let (Some(scale), Some(map)) = (version.scale, subresources.as_object_mut()) {
        let paths = json!({
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
            "labelSelectorPath": scale.label_selector,
        });
        map.insert("scale".to_owned(), paths);
    }
    let mut entry = json!({
        "name": version.name,
        "served": true,
        "storage": kind.storage().is_some_and(|storage| storage.name == version.name),
        "subresources": subresources,
        "schema": { "openAPIV3Schema": schema },
    });
    if let (false, Some(map)) = (version.columns.is_empty(), entry.as_object_mut()) {
        map.insert(
            "additionalPrinterColumns".to_owned(),
            version.columns.iter().map(column).collect(),
        );
    }
    Ok(entry)
}

fn column(column: &Column) -> Value {
    let mut entry = json!({ "name": column.name, "type": column.type_, "jsonPath": column.path });
    if let (true, Some(map)) = (column.priority != 0, entry.as_object_mut()) {
        map.insert("priority".to_owned(), column.priority.into());
    }
    entry
}

fn conversion(conversion: Conversion) -> Value {
    match conversion {
        Conversion::None => json!({ "strategy": "None" }),
        // The manager writes the real address and the CA when it runs.
        Conversion::Webhook => json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1", "v1beta1"],
                "clientConfig": {
                    "service": {
                        "namespace": object::SYSTEM_NAMESPACE,
                        "name": object::WEBHOOK_SERVICE,
                        "path": "/convert",
                        "port": 443,
                    },
                },
            },
        }),
    }
}
