use super::*;

const CA: &str = "Q0E=";

fn host() -> Endpoint {
    Endpoint::Host {
        host: "10.0.0.5".into(),
        port: 9876,
    }
}

fn service() -> Endpoint {
    Endpoint::Service {
        namespace: "ours".into(),
        name: "hooks".into(),
    }
}

/// An entry as in a manifest.
fn manifest(name: &str, path: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": {"service": {"namespace": "elsewhere", "name": "placeholder", "path": path}},
        "rules": [{"apiGroups": ["g"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
    })
}

/// What the API server makes of it.
fn stored(mut entry: Value) -> Value {
    if let Some(service) = entry["clientConfig"].get_mut("service") {
        service["port"] = json!(443);
    }
    entry["rules"][0]["scope"] = json!("*");
    for (field, value) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(10)),
    ] {
        if entry.get(field).is_none() {
            entry[field] = value;
        }
    }
    entry
}

fn fresh(entries: &[Value]) -> Entries {
    Entries {
        webhooks: entries.iter().cloned().map(stored).collect(),
        template: None,
        hash: None,
    }
}

struct World {
    endpoint: Endpoint,
    ca: &'static str,
    live: BTreeSet<&'static str>,
}

impl World {
    fn new(live: &[&'static str]) -> Self {
        Self {
            endpoint: service(),
            ca: CA,
            live: live.iter().copied().collect(),
        }
    }

    /// The configuration after we looked at it.
    fn settle(&self, entries: &Entries) -> Entries {
        let mut settled = entries.rewritten(self.wanted()).unwrap_or_else(|| entries.clone());
        settled.webhooks = settled.webhooks.into_iter().map(stored).collect();
        assert_eq!(settled.rewritten(self.wanted()), None, "there is nothing more to do");
        settled
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            endpoint: &self.endpoint,
            ca_bundle: self.ca,
            live: &self.live,
        }
    }
}

fn names(entries: &Entries) -> Vec<&str> {
    entries.webhooks.iter().map(name).collect()
}

#[test]
fn given_a_fresh_manifest_then_live_entries_are_filled_in_and_others_taken_out() {
    let world = World::new(&["/a", "/b"]);
    let settled = world.settle(&fresh(&[
        manifest("a", "/a"),
        manifest("x", "/validate-foo"),
        manifest("b", "/b"),
    ]));
    assert_eq!(names(&settled), ["a", "b"]);
    for entry in &settled.webhooks {
        assert_eq!(entry["clientConfig"]["caBundle"], CA);
        assert_eq!(entry["clientConfig"]["service"]["namespace"], "ours");
        assert_eq!(entry["clientConfig"]["service"]["name"], "hooks");
    }
    let template: Vec<Value> = serde_json::from_str(settled.template.as_ref().unwrap()).unwrap();
    assert_eq!(template.iter().map(name).collect::<Vec<_>>(), ["a", "x", "b"]);
    assert_eq!(
        template[0]["clientConfig"]["service"]["namespace"], "elsewhere",
        "the manifest as it was"
    );
}

#[test]
fn given_a_host_then_entries_have_a_url() {
    let mut world = World::new(&["/a"]);
    world.endpoint = host();
    let settled = world.settle(&fresh(&[manifest("a", "/a")]));
    assert_eq!(
        settled.webhooks[0]["clientConfig"],
        json!({"caBundle": CA, "url": "https://10.0.0.5:9876/a"})
    );
    // And back to the Service.
    world.endpoint = service();
    let back = world.settle(&settled);
    assert_eq!(back.webhooks[0]["clientConfig"]["service"]["path"], "/a");
}

#[test]
fn given_the_bundle_is_wiped_or_wrong_then_it_is_written_again_and_the_template_stays() {
    let world = World::new(&["/a", "/b"]);
    let settled = world.settle(&fresh(&[manifest("a", "/a"), manifest("b", "/b"), manifest("x", "/x")]));
    for wrong in [json!(null), json!(""), json!("AAAA")] {
        let mut wiped = settled.clone();
        wiped.webhooks[1]["clientConfig"]["caBundle"] = wrong;
        assert_eq!(world.settle(&wiped), settled);
    }
    let mut moved = settled.clone();
    moved.webhooks[0]["clientConfig"]["service"]["namespace"] = json!("nowhere");
    assert_eq!(world.settle(&moved), settled);
}

#[test]
fn given_a_gate_is_switched_on_again_then_its_entry_comes_back() {
    let manifests = [manifest("a", "/a"), manifest("pod", "/pod")];
    let without = World::new(&["/a"]).settle(&fresh(&manifests));
    assert_eq!(names(&without), ["a"]);
    let with = World::new(&["/a", "/pod"]).settle(&without);
    assert_eq!(names(&with), ["a", "pod"]);
    assert_eq!(with.template, without.template);
}

#[test]
fn given_the_same_manifest_is_applied_again_then_it_is_recognised() {
    let world = World::new(&["/a"]);
    let settled = world.settle(&fresh(&[manifest("a", "/a"), manifest("x", "/x")]));
    let mut again = settled.clone();
    // Applying merges by name: our entry keeps its bundle, the one we took out is back.
    again.webhooks[0]["clientConfig"]["service"]["namespace"] = json!("elsewhere");
    again.webhooks.push(stored(manifest("x", "/x")));
    assert_eq!(world.settle(&again), settled);
}

#[test]
fn given_a_newer_manifest_is_applied_then_its_entries_count() {
    let world = World::new(&["/a", "/b", "/c"]);
    let settled = world.settle(&fresh(&[manifest("a", "/a"), manifest("b", "/b"), manifest("x", "/x")]));
    let mut newer = settled.clone();
    newer.webhooks[0]["timeoutSeconds"] = json!(30);
    newer.webhooks[1] = stored(manifest("c", "/c"));
    let rebuilt = world.settle(&newer);
    assert_eq!(names(&rebuilt), ["a", "c"], "what the manifest removed stays removed");
    assert_eq!(rebuilt.webhooks[0]["timeoutSeconds"], 30);
    // What we had taken out ourselves may come back one day.
    assert_eq!(
        names(&World::new(&["/a", "/c", "/x"]).settle(&rebuilt)),
        ["a", "c", "x"]
    );
}

#[test]
fn given_only_an_entry_is_removed_by_a_newer_manifest_then_it_stays_removed() {
    let world = World::new(&["/a", "/b"]);
    let mut newer = world.settle(&fresh(&[manifest("a", "/a"), manifest("b", "/b")]));
    newer.webhooks.remove(1);
    assert_eq!(names(&world.settle(&newer)), ["a"]);
}

#[test]
fn given_the_chart_resets_the_template_then_the_live_entries_are_the_manifest() {
    let world = World::new(&["/a", "/b"]);
    let mut upgraded = world.settle(&fresh(&[manifest("a", "/a"), manifest("former", "/b")]));
    upgraded.template = Some(String::new());
    upgraded.webhooks = vec![stored(manifest("a", "/a"))];
    let settled = world.settle(&upgraded);
    assert_eq!(names(&settled), ["a"]);
    assert!(!settled.template.unwrap().contains("former"));
}

#[test]
fn given_the_original_was_here_then_its_template_counts_also_for_entries_it_did_not_know() {
    let entries = [manifest("a", "/a"), manifest("older", "/older"), manifest("x", "/x")];
    let template = Value::from(entries.iter().cloned().map(stored).collect::<Vec<_>>()).to_string();
    let taken_over = Entries {
        webhooks: vec![stored(entries[0].clone())],
        template: Some(template.clone()),
        hash: None,
    };
    let settled = World::new(&["/a", "/older"]).settle(&taken_over);
    assert_eq!(names(&settled), ["a", "older"]);
    assert_eq!(settled.template, Some(template));
}

#[test]
fn given_a_broken_template_then_the_live_entries_are_the_manifest() {
    for broken in ["{", "{}", "[]", "null", "[1]"] {
        let mut entries = fresh(&[manifest("a", "/a")]);
        entries.template = Some(broken.to_owned());
        let settled = World::new(&["/a"]).settle(&entries);
        assert_eq!(names(&settled), ["a"], "{broken}");
    }
}

#[test]
fn given_another_ca_then_only_the_bundle_changes() {
    let mut world = World::new(&["/a"]);
    let settled = world.settle(&fresh(&[manifest("a", "/a")]));
    world.ca = "TkVX";
    let mut changed = world.settle(&settled);
    assert_eq!(changed.webhooks[0]["clientConfig"]["caBundle"], "TkVX");
    changed.webhooks[0]["clientConfig"]["caBundle"] = json!(CA);
    assert_eq!(changed, settled);
}
