//! The Pod that is meant: one from a file, or those that a workload of a file would make.

use anyhow::{Context as _, Result, bail};
use kruise_api::names::annotation;
use serde_json::{Value, json};

/// Where workloads have the template of their Pods.
const TEMPLATES: [&str; 2] = ["/spec/template", "/spec/jobTemplate/spec/template"];

/// A Pod, and how it is called.
#[derive(Debug, PartialEq)]
pub(super) struct Subject {
    /// `Pod web-0`, `Pods of Deployment web`.
    pub(super) name: String,
    /// The namespace that the file names.
    pub(super) namespace: Option<String>,
    pub(super) pod: Value,
    /// It is in the cluster.
    pub(super) is_live: bool,
}

impl Subject {
    /// The sets that the Pod says were injected.
    pub(super) fn injected(&self) -> &str {
        let annotations = &self.pod["metadata"]["annotations"];
        annotations[annotation::SIDECAR_SET_INJECTED]
            .as_str()
            .unwrap_or_default()
    }
}

/// All Pods of a text in YAML or JSON, which may hold several objects.
pub(super) fn of_text(text: &str) -> Result<Vec<Subject>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("the file is neither YAML nor JSON")?;
    let mut subjects = Vec::new();
    let mut others = Vec::new();
    for document in &documents {
        let items = document["items"].as_array();
        let objects = items.map_or(std::slice::from_ref(document), Vec::as_slice);
        for object in objects.iter().filter(|object| !object.is_null()) {
            match of_object(object) {
                Some(subject) => subjects.push(subject),
                None => others.push(object["kind"].as_str().unwrap_or("something without a kind").to_owned()),
            }
        }
    }
    if subjects.is_empty() {
        let others = if others.is_empty() {
            "nothing".to_owned()
        } else {
            others.join(", ")
        };
        bail!("the file has no Pod and nothing with a Pod template in it, but {others}");
    }
    Ok(subjects)
}

fn of_object(object: &Value) -> Option<Subject> {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str();
    let name = text("name")
        .or_else(|| text("generateName"))
        .unwrap_or("without a name");
    let namespace = text("namespace")
        .filter(|namespace| !namespace.is_empty())
        .map(str::to_owned);
    let subject = |name: String, pod: Value| Subject {
        name,
        namespace,
        pod,
        is_live: false,
    };
    let kind = object["kind"].as_str()?;
    if kind == "Pod" {
        return Some(subject(format!("Pod {name}"), object.clone()));
    }
    let template = TEMPLATES.iter().find_map(|path| object.pointer(path))?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    Some(subject(format!("Pods of {kind} {name}"), pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_file_then_its_pods_and_templates_are_found_and_the_rest_is_passed_over() {
        let text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\nkind: Pod\nmetadata: {name: one, namespace: shop}\n---\n\
                    kind: CronJob\nmetadata: {name: cron}\nspec: {jobTemplate: {spec: {template: {metadata: {labels: {a: b}}, spec: {}}}}}\n---\n\
                    {\"kind\": \"List\", \"items\": [{\"kind\": \"Pod\", \"metadata\": {\"generateName\": \"two-\"}}]}\n";
        let found = of_text(text).unwrap();
        let names: Vec<&str> = found.iter().map(|subject| &*subject.name).collect();
        assert_eq!(names, ["Pod one", "Pods of CronJob cron", "Pod two-"]);
        assert_eq!(found[0].namespace.as_deref(), Some("shop"));
        assert_eq!(found[1].pod["metadata"]["labels"]["a"], "b");
    }

    #[test]
    fn given_nothing_to_plan_then_the_error_says_what_is_there() {
        for (text, said) in [
            ("kind: Service", "Service"),
            ("", "nothing"),
            ("a: [", "neither YAML nor JSON"),
            ("- 1", "something without a kind"),
        ] {
            let error = of_text(text).unwrap_err();
            assert!(format!("{error:#}").contains(said), "{text}: {error:#}");
        }
    }
}
