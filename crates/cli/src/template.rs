//! A Pod template in a user's words, much as `kubectl describe` tells it.

use crate::text::visible;
use serde_json::{Map, Value};

/// Columns at which values begin.
const VALUES_AT: usize = 24;
const STEP: usize = 2;

/// Returns a Pod template as text of several lines.
pub(crate) fn describe(template: &Value) -> String {
    let mut lines = Lines::default();
    lines.line(0, "Pod Template:", "");
    lines.map(1, "Labels", &template["metadata"]["labels"]);
    lines.map(1, "Annotations", &template["metadata"]["annotations"]);
    lines.pod(&template["spec"]);
    lines.text
}

/// Returns the containers of something that has no template, such as a SidecarSet.
pub(crate) fn containers(spec: &Value) -> String {
    let mut lines = Lines::default();
    lines.pod(spec);
    lines.text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn line(&mut self, depth: usize, name: &str, value: &str) {
        let start = format!("{}{}", " ".repeat(depth * STEP), visible(name));
        let line = if value.is_empty() {
            start
        } else {
            format!("{start:VALUES_AT$} {}", visible(value)).trim_end().to_owned()
        };
        self.text.push_str(&line);
        self.text.push('\n');
    }

    /// A value after its name; nothing when there is none.
    fn value(&mut self, depth: usize, name: &str, value: &Value) {
        if !is_empty(value) {
            self.line(depth, &format!("{name}:"), &plain(value));
        }
    }

    /// Keys with their values, one below the other.
    fn map(&mut self, depth: usize, name: &str, value: &Value) {
        let mut name = format!("{name}:");
        for (key, value) in value.as_object().into_iter().flat_map(Map::iter) {
            self.line(depth, &name, &format!("{key}={}", plain(value)));
            name = String::new();
        }
    }

    fn pod(&mut self, spec: &Value) {
        self.value(1, "Service Account", &spec["serviceAccountName"]);
        for (name, field) in [("Init Containers", "initContainers"), ("Containers", "containers")] {
            if is_empty(&spec[field]) {
                continue;
            }
            self.line(1, &format!("{name}:"), "");
            for container in items(&spec[field]) {
                self.container(container);
            }
        }
        if !is_empty(&spec["volumes"]) {
            self.line(1, "Volumes:", "");
            for volume in items(&spec["volumes"]) {
                let source = volume
                    .as_object()
                    .into_iter()
                    .flat_map(Map::iter)
                    .find(|(key, _)| *key != "name");
                let source = source.map_or(String::new(), |(type_, source)| format!("{type_} {}", plain(source)));
                self.line(2, &format!("{}:", text(volume, "name")), &source);
            }
        }
        for (name, field) in [
            ("Node Selectors", "nodeSelector"),
            ("Tolerations", "tolerations"),
            ("Priority Class", "priorityClassName"),
            ("Affinity", "affinity"),
        ] {
            self.value(1, name, &spec[field]);
        }
    }

    fn container(&mut self, container: &Value) {
        self.line(2, &format!("{}:", text(container, "name")), "");
        self.value(3, "Image", &container["image"]);
        let port = |port: &Value| {
            format!(
                "{}/{}",
                plain(&port["containerPort"]),
                port["protocol"].as_str().unwrap_or("TCP")
            )
        };
        let ports: Vec<String> = items(&container["ports"]).map(port).collect();
        if !ports.is_empty() {
            self.line(3, "Ports:", &ports.join(", "));
        }
        for (name, field) in [
            ("Command", "command"),
            ("Args", "args"),
            ("Limits", "limits"),
            ("Requests", "requests"),
            ("Liveness", "livenessProbe"),
            ("Readiness", "readinessProbe"),
            ("Startup", "startupProbe"),
            ("Lifecycle", "lifecycle"),
        ] {
            let value = match field {
                "limits" | "requests" => &container["resources"][field],
                _ => &container[field],
            };
            self.value(3, name, value);
        }
        if !is_empty(&container["env"]) || !is_empty(&container["envFrom"]) {
            self.line(3, "Environment:", "");
        }
        for source in items(&container["envFrom"]) {
            self.line(4, &plain(source), "");
        }
        for variable in items(&container["env"]) {
            let value = match variable.get("valueFrom") {
                Some(source) => format!("<{}>", plain(source)),
                None => text(variable, "value").to_owned(),
            };
            self.line(4, &format!("{}:", text(variable, "name")), &value);
        }
        if !is_empty(&container["volumeMounts"]) {
            self.line(3, "Mounts:", "");
            for mount in items(&container["volumeMounts"]) {
                let line = format!("{} from {}", text(mount, "mountPath"), text(mount, "name"));
                self.line(4, &line, "");
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A text as it is, a flat object as `key=value`, everything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.values().all(|value| !value.is_object() && !value.is_array()) => {
            let pairs = fields.iter().map(|(key, value)| format!("{key}={}", plain(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_template_then_it_is_told_line_by_line() {
        let template = json!({
            "metadata": {"labels": {"app": "web", "tier": "a"}},
            "spec": {
                "containers": [{"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80}], "command": ["a", "b"],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        });
        let expected = "\
Pod Template:
  Labels:                app=web
                         tier=a
  Containers:
    main:
      Image:             nginx:1
      Ports:             80/TCP
      Command:           [\"a\",\"b\"]
      Limits:            cpu=1, memory=1Gi
      Environment:
        A:               1
        B:               <{\"fieldRef\":{\"fieldPath\":\"x\"}}>
      Mounts:
        /data from data
  Volumes:
    data:                emptyDir
";
        assert_eq!(describe(&template), expected);
        assert_eq!(describe(&json!(3)), "Pod Template:\n");
        assert_eq!(
            containers(&json!({"containers": [{"name": "log", "image": "l\u{7}"}]}))
                .lines()
                .count(),
            3
        );
    }
}
