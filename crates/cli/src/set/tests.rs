use super::{env, image, resources, *};
use crate::kinds;

fn object(word: &str, spec: &Value) -> Object {
    let (kind, _) = kinds::resolve(word).unwrap();
    let version = kind.versions()[0];
    let value = json!({"metadata": {"name": "web", "generation": 1}, "spec": spec});
    Object { kind, version, value }
}

fn workload(word: &str) -> Object {
    let pod = json!({"containers": [{"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}, {"name": "side", "image": "log:1"}],
        "initContainers": [{"name": "init", "image": "init:1"}]});
    object(word, &json!({"template": {"spec": pod}}))
}

fn after(object: &Object, decision: Result<Decision>) -> Value {
    match decision.unwrap() {
        Decision::Become(after) => after,
        Decision::Same => object.value.clone(),
        Decision::Stay(text) => panic!("{text}"),
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn words_say_what_to_set_and_on_which_objects() {
    let target = Target {
        words: words(&["cloneset", "web", "main=nginx:2"]),
        ..Target::default()
    };
    let (objects, pairs) = target.split(|word| word.contains('='));
    assert_eq!(
        (objects.words, pairs),
        (words(&["cloneset", "web"]), words(&["main=nginx:2"]))
    );
}

#[test]
fn images_are_set_by_name_or_for_all() {
    let set = workload("clone");
    let read = |pairs: &[&str]| image::read(&words(pairs));
    let one = after(
        &set,
        image::decide(&set, &read(&["main=nginx:2", "init=init:2"]).unwrap()),
    );
    let images = |value: &Value| {
        let pod = &value["spec"]["template"]["spec"];
        let image = |list: &str, at: usize| pod[list][at]["image"].as_str().unwrap().to_owned();
        [
            image("containers", 0),
            image("containers", 1),
            image("initContainers", 0),
        ]
    };
    assert_eq!(images(&one), ["nginx:2", "log:1", "init:2"]);
    let all = after(&set, image::decide(&set, &read(&["*=x:1"]).unwrap()));
    assert_eq!(images(&all), ["x:1", "x:1", "x:1"]);
    let missing = image::decide(&set, &read(&["main=nginx:2", "x=y"]).unwrap()).unwrap_err();
    assert_eq!(missing.to_string(), "unable to find container named \"x\"");
    for (pairs, error) in [
        (&[][..], "at least one image update is required"),
        (&["*=a", "main=b"], "all containers are already specified by *"),
        (&["main="], "is not of the form"),
        (&["=x"], "is not of the form"),
    ] {
        let told = read(pairs).unwrap_err().to_string();
        assert!(told.contains(error), "{told}");
    }
}

#[test]
fn pods_are_found_where_each_kind_has_them() {
    let pod = json!({"containers": []});
    let nested = |name: &str| json!({"template": {name: {"spec": {"template": {"spec": pod}}}}});
    for (word, spec, path) in [
        ("clone", json!({"template": {"spec": pod}}), "/spec/template/spec"),
        ("bcj", json!({"template": {"spec": pod}}), "/spec/template/spec"),
        ("sidecarset", pod.clone(), "/spec"),
        (
            "ud",
            nested("cloneSetTemplate"),
            "/spec/template/cloneSetTemplate/spec/template/spec",
        ),
        (
            "acj",
            nested("broadcastJobTemplate"),
            "/spec/template/broadcastJobTemplate/spec/template/spec",
        ),
    ] {
        assert_eq!(pod_specs(&object(word, &spec)), [path], "{word}");
    }
    let none = object("pub", &json!({}));
    let error = image::decide(&none, &[("a".into(), "b".into())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "podunavailablebudgets.policy.kruise.io \"web\" is not a pod or does not have a pod template"
    );
    assert!(account(&object("sidecarset", &pod), "robot").is_err());
}

#[test]
fn variables_are_set_removed_and_referred_to() {
    let set = workload("asts");
    let wanted = |steps: Vec<env::Step>, containers: &str, overwrite: bool| env::Wanted {
        steps,
        containers: containers.to_owned(),
        overwrite,
    };
    let steps = ["A=9", "B-", "C=x=y"].map(|word| env::step(word).unwrap());
    let changed = after(&set, env::decide(&set, &wanted(steps.to_vec(), "*", true)));
    let pod = &changed["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"][0]["env"],
        json!([{"name": "A", "value": "9"}, {"name": "C", "value": "x=y"}])
    );
    assert_eq!(
        pod["containers"][1]["env"],
        json!([{"name": "A", "value": "9"}, {"name": "C", "value": "x=y"}])
    );
    assert_eq!(pod["initContainers"][0]["env"], Value::Null);
    let put = vec![env::step("A=9").unwrap()];
    let refused = env::decide(&set, &wanted(put.clone(), "*", false)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "'A' already has a value (1), and --overwrite is false"
    );
    assert!(matches!(
        env::decide(&set, &wanted(put, "x*", true)).unwrap(),
        Decision::Same
    ));

    let secret = json!({"data": {"db.user": "", "pass": ""}});
    let steps = env::references(&secret, "secretKeyRef", "login", "X_", &words(&["db.user"]));
    let source = json!({"secretKeyRef": {"name": "login", "key": "db.user"}});
    assert_eq!(steps, [env::Step::Refer("X_DB_USER".to_owned(), source.clone())]);
    let changed = after(&set, env::decide(&set, &wanted(steps, "side", true)));
    assert_eq!(
        changed["spec"]["template"]["spec"]["containers"][1]["env"],
        json!([{"name": "X_DB_USER", "valueFrom": source}])
    );
    assert_eq!(
        env::listed(&set, "*", &env::Sources::new()),
        "# StatefulSet web, container main\nA=1\nB=2\n# StatefulSet web, container side\n"
    );
    let (field, data) = ("secretKeyRef", json!({"data": {"user": "cm9vdA==", "raw": "/w=="}}));
    let mut asks = set.clone();
    let refers = |name: &str, key: &str| json!({"name": format!("{name}-{key}"), "valueFrom": {field: {"name": name, "key": key}}});
    asks.value["spec"]["template"]["spec"]["containers"] = json!([{"name": "main", "env": [
        refers("login", "user"), refers("login", "none"), refers("login", "raw"), refers("other", "a"),
        {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]}]);
    let sources = env::Sources::from([
        ((field, "login".to_owned()), Ok(data)),
        (
            (field, "other".to_owned()),
            Err("secrets \"other\" not found".to_owned()),
        ),
    ]);
    assert_eq!(
        env::listed(&asks, "*", &sources),
        "# StatefulSet web, container main\nlogin-user=root\n# login-none: there is no key none in login\n\
         # login-raw: key raw of login is no text\n# other-a: secrets \"other\" not found\n\
         # P from {\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}\n"
    );
    for odd in ["", "=", "A", "-", "A B=1"] {
        assert!(env::step(odd).is_err(), "{odd}");
    }
    assert_eq!(env::lines("# x\n\nA=1\n").unwrap().len(), 1);
}

#[test]
fn amounts_are_added_and_overwritten_in_the_containers_that_are_meant() {
    let set = workload("ads");
    let wanted = |containers: &str| resources::Wanted {
        containers: containers.to_owned(),
        limits: resources::amounts("cpu=1000m, memory=1024Mi").unwrap(),
        requests: Vec::new(),
    };
    let changed = after(&set, resources::decide(&set, &wanted("m*")));
    let containers = &changed["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        containers[0]["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(containers[1]["resources"], Value::Null);
    let missing = resources::decide(&set, &wanted("x")).unwrap_err();
    assert_eq!(missing.to_string(), "unable to find container named \"x\"");
    for odd in ["cpu", "cpu=lots", "cpu="] {
        assert!(resources::amounts(odd).is_err(), "{odd}");
    }
}

#[test]
fn patterns_stand_for_names() {
    for (name, pattern, is) in [
        ("main", "*", true),
        ("main", "main", true),
        ("main", "m*n", true),
        ("main", "m*x", false),
        ("main", "*a*", true),
        ("ümain", "*main", true),
        ("", "*", true),
        ("main", "", false),
    ] {
        assert_eq!(is_like(name, pattern), is, "{name} {pattern}");
    }
}

#[test]
fn the_account_is_written_alone() {
    let set = workload("clone");
    let changed = after(&set, account(&set, "robot"));
    assert_eq!(
        kruise_api::merge_patch::diff(&set.value, &changed).unwrap(),
        json!({"spec": {"template": {"spec": {"serviceAccountName": "robot"}}}})
    );
}
