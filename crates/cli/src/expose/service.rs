//! The Service of an object.

use super::Expose;
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

/// Longest name of a Service.
const NAME: usize = 63;

/// A port of a Service.
#[derive(Debug, PartialEq)]
struct Port {
    number: u16,
    protocol: String,
}

/// Returns the Service of an object of this kind.
pub(super) fn of(kind: &str, object: &Value, args: &Expose) -> Result<Value> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let service_name: String = args.name.as_deref().unwrap_or(name).chars().take(NAME).collect();
    let labels = if args.labels.is_empty() {
        object["metadata"]["labels"].clone()
    } else {
        map(&args.labels)
    };
    let selector = if args.selector.is_empty() {
        selector(kind, object)?
    } else {
        map(&args.selector)
    };
    let mut spec = json!({"selector": selector, "ports": ports(kind, object, args)?});
    for (field, value) in [
        ("type", args.service_type.as_deref().unwrap_or_default()),
        ("loadBalancerIP", &args.load_balancer_ip),
        ("sessionAffinity", &args.session_affinity),
        ("clusterIP", &args.cluster_ip),
    ] {
        if !value.is_empty() {
            spec[field] = json!(value);
        }
    }
    if !args.external_ip.is_empty() {
        spec["externalIPs"] = json!(args.external_ip);
    }
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service_name}, "spec": spec});
    if labels.is_object() {
        service["metadata"]["labels"] = labels;
    }
    Ok(service)
}

fn map(pairs: &[(String, String)]) -> Value {
    let pairs = pairs.iter().map(|(key, value)| (key.clone(), json!(value)));
    Value::Object(pairs.collect())
}

fn selector(kind: &str, object: &Value) -> Result<Value> {
    let labels = match kind {
        "Pod" => &object["metadata"]["labels"],
        "Service" | "ReplicationController" => &object["spec"]["selector"],
        _ => {
            let selector = &object["spec"]["selector"];
            if selector["matchExpressions"]
                .as_array()
                .is_some_and(|list| !list.is_empty())
            {
                bail!(
                    "couldn't convert expressions - {} to map-based selector format",
                    selector["matchExpressions"]
                );
            }
            &selector["matchLabels"]
        }
    };
    match labels.as_object().filter(|labels| !labels.is_empty()) {
        Some(labels) => Ok(Value::Object(labels.clone())),
        None => bail!("the {kind} has no labels to select Pods by: say them with --selector"),
    }
}

fn ports(kind: &str, object: &Value, args: &Expose) -> Result<Value> {
    let there = there(kind, object);
    let ports: Vec<Port> = if args.port.is_empty() {
        there
    } else {
        let of = |number: u16| {
            // The one of a container is asked for its protocol.
            let target = args.target_port.as_deref().and_then(|target| target.parse().ok());
            let known = there.iter().find(|port| port.number == target.unwrap_or(number));
            known.map_or_else(|| "TCP".to_owned(), |port| port.protocol.clone())
        };
        let port = |number: &u16| Port {
            number: *number,
            protocol: of(*number),
        };
        args.port.iter().map(port).collect()
    };
    let is_without_ports = args.service_type.as_deref() == Some("ExternalName") || args.cluster_ip == "None";
    if ports.is_empty() && !is_without_ports {
        bail!("couldn't find port via --port flag or introspection: no container of the {kind} names a port");
    }
    let several = ports.len() > 1;
    let target = args.target_port.as_deref();
    let target = target.map(|text| text.parse::<u16>().map_or_else(|_| json!(text), |number| json!(number)));
    let one = |(place, port): (usize, &Port)| {
        let mut json = Map::new();
        if several {
            json.insert("name".to_owned(), json!(format!("port-{}", place + 1)));
        }
        let protocol = args.protocol.as_deref().unwrap_or(&port.protocol);
        json.insert("port".to_owned(), json!(port.number));
        json.insert("protocol".to_owned(), json!(protocol));
        json.insert(
            "targetPort".to_owned(),
            target.clone().unwrap_or_else(|| json!(port.number)),
        );
        Value::Object(json)
    };
    Ok(ports.iter().enumerate().map(one).collect())
}

/// The ports that an object names.
fn there(kind: &str, object: &Value) -> Vec<Port> {
    let (lists, field): (Vec<&Value>, _) = if kind == "Service" {
        (vec![&object["spec"]["ports"]], "port")
    } else {
        let spec = if kind == "Pod" {
            &object["spec"]
        } else {
            &object["spec"]["template"]["spec"]
        };
        let containers = spec["containers"].as_array().into_iter().flatten();
        let lists = containers.map(|container| &container["ports"]).collect();
        (lists, "containerPort")
    };
    let mut ports = Vec::new();
    for port in lists.into_iter().filter_map(Value::as_array).flatten() {
        let number = port[field].as_u64().and_then(|number| u16::try_from(number).ok());
        let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
        if let Some(number) = number {
            let port = Port { number, protocol };
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        expose: Expose,
    }

    fn expose(kind: &str, object: &Value, words: &str) -> Result<Value> {
        let words = words.split(' ').filter(|word| !word.is_empty());
        let words = Words::try_parse_from(["expose", "cloneset", "web"].into_iter().chain(words))?;
        of(kind, object, &words.expose)
    }

    fn set() -> Value {
        json!({
            "metadata": {"name": "web", "labels": {"team": "a"}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [
                {"name": "main", "ports": [{"containerPort": 8080}]}, {"name": "dns", "ports": [{"containerPort": 53, "protocol": "UDP"}]}, {"name": "plain"},
            ]}}},
        })
    }

    #[test]
    fn given_a_set_then_ports_labels_and_selector_are_its_own() {
        let expected = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "a"}},
            "spec": {"selector": {"app": "web"}, "ports": [
                {"name": "port-1", "port": 8080, "protocol": "TCP", "targetPort": 8080},
                {"name": "port-2", "port": 53, "protocol": "UDP", "targetPort": 53},
            ]},
        });
        assert_eq!(expose("CloneSet", &set(), "").unwrap(), expected);
    }

    #[test]
    fn given_flags_then_they_count() {
        let words = "--port 80 --target-port http --protocol TCP --name front --type NodePort --external-ip 1.2.3.4 --selector a=b -l c=d --session-affinity ClientIP --cluster-ip 10.0.0.9";
        let expected = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "front", "labels": {"c": "d"}},
            "spec": {"selector": {"a": "b"}, "type": "NodePort", "sessionAffinity": "ClientIP", "clusterIP": "10.0.0.9", "externalIPs": ["1.2.3.4"],
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}]},
        });
        assert_eq!(expose("CloneSet", &set(), words).unwrap(), expected);
        let known = expose("CloneSet", &set(), "--port 5353 --target-port 53").unwrap();
        assert_eq!(
            known["spec"]["ports"],
            json!([{"port": 5353, "protocol": "UDP", "targetPort": 53}])
        );
        let long = format!("--name {}", "a".repeat(70));
        assert_eq!(
            expose("CloneSet", &set(), &long).unwrap()["metadata"]["name"],
            "a".repeat(63)
        );
    }

    #[test]
    fn given_other_kinds_then_pods_are_selected_as_they_do() {
        let pod = json!({"metadata": {"name": "web", "labels": {"app": "x"}}, "spec": {"containers": [{"ports": [{"containerPort": 1}]}]}});
        assert_eq!(
            expose("Pod", &pod, "").unwrap()["spec"]["selector"],
            json!({"app": "x"})
        );
        let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "y"}, "ports": [{"port": 443, "targetPort": 8443}]}});
        let again = expose("Service", &service, "").unwrap();
        assert_eq!(
            (&again["spec"]["selector"], &again["spec"]["ports"][0]["port"]),
            (&json!({"app": "y"}), &json!(443))
        );
    }

    #[test]
    fn given_what_cannot_be_exposed_then_it_is_said_why() {
        let mut without = set();
        without["spec"]["template"]["spec"]["containers"] = json!([{"name": "main"}]);
        let error = |object: &Value, words: &str| expose("CloneSet", object, words).unwrap_err().to_string();
        assert!(error(&without, "").contains("couldn't find port via --port flag or introspection"));
        assert!(expose("CloneSet", &without, "--cluster-ip None").is_ok());
        let mut expressions = set();
        expressions["spec"]["selector"]["matchExpressions"] = json!([{"key": "a", "operator": "Exists"}]);
        assert!(error(&expressions, "").contains("couldn't convert expressions - "));
        assert!(error(&json!({"spec": {}}), "--port 80").contains("--selector"));
    }
}
