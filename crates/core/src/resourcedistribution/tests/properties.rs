//! Whatever happens in whatever order: copies end where they should be, nobody else's object is touched, and nothing is written after the end.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Label(usize, bool),
    Terminate(usize),
    Remove(usize),
    Foreign(usize),
    Tamper(usize),
    DeleteCopy(usize),
    Close(usize),
    Open,
    Content(u8),
    Targets(Value),
    Round,
    Crash(usize),
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "kube-system"];

fn any_targets() -> impl Strategy<Value = Value> {
    let list = || prop::collection::vec(0..NAMES.len(), 0..4);
    (any::<bool>(), any::<bool>(), list(), list()).prop_map(|(all, by_label, included, excluded)| {
        let names = |list: Vec<usize>| {
            json!({"list": list.into_iter().map(|place| json!({"name": NAMES[place]})).collect::<Vec<_>>()})
        };
        let selector = if by_label { json!({"matchLabels": {"team": "a"}}) } else { json!({}) };
        json!({
            "allNamespaces": all, "namespaceSelector": selector,
            "includedNamespaces": names(included), "excludedNamespaces": names(excluded),
        })
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    let place = || 0..NAMES.len();
    prop_oneof![
        2 => (place(), any::<bool>()).prop_map(|(place, on)| Change::Label(place, on)),
        1 => place().prop_map(Change::Terminate),
        1 => place().prop_map(Change::Remove),
        1 => place().prop_map(Change::Foreign),
        1 => place().prop_map(Change::Tamper),
        1 => place().prop_map(Change::DeleteCopy),
        1 => place().prop_map(Change::Close),
        1 => Just(Change::Open),
        1 => (0..3_u8).prop_map(Change::Content),
        2 => any_targets().prop_map(Change::Targets),
        3 => Just(Change::Round),
        2 => (0..4_usize).prop_map(Change::Crash),
    ]
}

fn foreign(namespace: &str) -> Value {
    json!({"metadata": {"name": NAME, "namespace": namespace, "uid": format!("foreign-{namespace}")}, "data": {"k": "v1"}})
}

fn make(world: &mut World, change: Change) {
    match change {
        Change::Label(place, on) => {
            world.namespace(NAMES[place], &if on { json!({"team": "a"}) } else { json!({}) });
        }
        Change::Terminate(place) => world.terminate(NAMES[place]),
        Change::Remove(place) => {
            world.namespaces.remove(NAMES[place]);
            world.copies.remove(NAMES[place]);
        }
        Change::Foreign(place) if world.namespaces.contains_key(NAMES[place]) => {
            world.put(NAMES[place], foreign(NAMES[place]));
        }
        Change::Foreign(_) => {}
        Change::Tamper(place) => world.edit(NAMES[place], |copy| copy["data"] = json!({"k": "tampered"})),
        Change::DeleteCopy(place) => drop(world.copies.remove(NAMES[place])),
        Change::Close(place) => world.closed.push(NAMES[place].to_owned()),
        Change::Open => world.closed.clear(),
        Change::Content(number) => world.respec(|spec| spec["resource"]["data"] = json!({"k": format!("v{number}")})),
        Change::Targets(targets) => world.respec(|spec| spec["targets"] = targets),
        Change::Round => drop(world.round()),
        Change::Crash(writes) => {
            let plan = world.plan();
            world.apply(&plan, writes);
            world.last = Outcome::default();
        }
    }
}

fn is_foreign(copy: &Value) -> bool {
    copy["metadata"].get("ownerReferences").is_none()
}

/// What there has to be, told from the objects alone.
fn expected(world: &World) -> (Vec<String>, Vec<String>) {
    let spec = &world.distribution["spec"]["targets"];
    let lists = |field: &str, name: &str| {
        spec[field]["list"]
            .as_array()
            .is_some_and(|list| list.iter().any(|item| item["name"] == name))
    };
    let mut with_copy = Vec::new();
    let mut failed = Vec::new();
    for name in NAMES {
        let namespace = world.namespaces.get(name);
        let by_label = spec["namespaceSelector"] != json!({})
            && namespace.is_some_and(|namespace| namespace["metadata"]["labels"]["team"] == "a");
        let is_target = (lists("includedNamespaces", name) && spec["allNamespaces"] != true
            || namespace.is_some() && (spec["allNamespaces"] == true || by_label))
            && !lists("excludedNamespaces", name)
            && name != "kube-system";
        if !is_target {
            continue;
        }
        let is_open = namespace.is_some_and(|namespace| namespace["metadata"].get("deletionTimestamp").is_none());
        if is_open && !world.copies.get(name).is_some_and(is_foreign) {
            with_copy.push(name.to_owned());
        } else {
            failed.push(name.to_owned());
        }
    }
    (with_copy, failed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn given_any_changes_in_any_order_then_copies_end_where_they_should_be(
        targets in any_targets(), changes in prop::collection::vec(any_change(), 0..14)
    ) {
        let mut world = World::new(&targets);
        for change in changes {
            let foreign: BTreeMap<_, _> = world.copies.iter().filter(|(_, copy)| is_foreign(copy)).map(|(name, copy)| (name.clone(), copy.clone())).collect();
            let is_ours = matches!(change, Change::Round | Change::Crash(_));
            prop_assert_eq!(world.plan(), world.plan());
            make(&mut world, change);
            if is_ours {
                for (name, copy) in foreign {
                    prop_assert_eq!(world.copies.get(&name), Some(&copy), "somebody else's");
                }
            }
        }
        world.closed.clear();
        world.settle();
        let (with_copy, failed) = expected(&world);
        let data = world.distribution["spec"]["resource"]["data"].clone();
        let is_open = |name: &str| world.namespaces[name]["metadata"].get("deletionTimestamp").is_none();
        let ours = world.copies.iter().filter(|(name, copy)| !is_foreign(copy) && is_open(name));
        let found: Vec<_> = ours.clone().map(|(name, _)| name.clone()).collect();
        prop_assert_eq!(&found, &with_copy);
        for (name, copy) in ours {
            prop_assert_eq!(&copy["data"], &data, "{}", name);
        }
        let (desired, succeeded, not, _) = world.summary();
        prop_assert_eq!(desired, i64::try_from(with_copy.len() + failed.len()).unwrap());
        prop_assert_eq!((succeeded, not), (desired - i64::try_from(failed.len()).unwrap(), i64::try_from(failed.len()).unwrap()));
        let writes = world.writes;
        prop_assert!(world.round().is_idle());
        prop_assert_eq!(world.writes, writes);
    }

    #[test]
    fn given_any_json_as_resource_then_nothing_panics(text in r#"[\[\]{}":,a-z0-9 ]{0,40}"#, targets in any_targets()) {
        let mut world = World::new(&targets);
        if let Ok(resource) = serde_json::from_str::<Value>(&text) {
            world.respec(|spec| spec["resource"] = resource);
        }
        world.round();
    }
}
