use super::*;
use k8s_openapi::ByteString;

fn pair(username: &str, password: &str) -> Credentials {
    Credentials {
        username: username.to_owned(),
        password: password.to_owned(),
    }
}

fn ring(keys: &[&str]) -> Keyring {
    let mut ring = Keyring::default();
    for key in keys {
        ring.add(key, pair(key, "p"));
    }
    ring
}

fn users(ring: &Keyring, repository: &str) -> Vec<String> {
    ring.find(repository).into_iter().map(|found| found.username).collect()
}

#[test]
fn given_keys_then_those_that_fit_are_found_the_most_specific_first() {
    let keys = [
        "https://reg.example.com/v1/",
        "reg.example.com/team",
        "*.example.com",
        "reg.example.com:5000",
        "http://other.example.com/v2/",
        "*.com",
    ];
    let ring = ring(&keys);
    for (repository, expected) in [
        ("reg.example.com/team/app", vec![keys[1], keys[0], keys[2]]),
        ("reg.example.com/app", vec![keys[0], keys[2]]),
        ("reg.example.com:5000/app", vec![keys[3]]),
        ("other.example.com/app", vec![keys[4], keys[2]]),
        ("a.b.example.com/app", vec![]),
        ("example.com/app", vec!["*.com"]),
        ("docker.io/library/nginx", vec![]),
    ] {
        assert_eq!(users(&ring, repository), expected, "{repository}");
    }
}

#[test]
fn given_docker_hub_then_its_old_key_is_taken_when_no_other_fits() {
    let hub = ring(&["https://index.docker.io/v1/"]);
    assert_eq!(users(&hub, "docker.io/library/nginx"), ["https://index.docker.io/v1/"]);
    assert!(users(&hub, "quay.io/library/nginx").is_empty());
    let both = ring(&["https://index.docker.io/v1/", "docker.io"]);
    assert_eq!(users(&both, "docker.io/library/nginx"), ["docker.io"]);
}

#[test]
fn given_patterns_then_stars_stand_for_letters_of_one_label() {
    for (pattern, text, fits) in [
        ("", "", true),
        ("*", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*b*c", "aXbYc", true),
        ("a*b*c", "aXcYb", false),
        ("a", "ab", false),
        ("*b", "abc", false),
        ("ab*ba", "aba", false),
    ] {
        assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
    }
}

fn secret(type_: &str, key: &str, content: &str) -> Secret {
    Secret {
        type_: Some(type_.to_owned()),
        data: Some([(key.to_owned(), ByteString(content.as_bytes().to_vec()))].into()),
        ..Secret::default()
    }
}

#[test]
fn given_secrets_of_both_types_then_names_and_passwords_are_read() {
    let auth = STANDARD.encode("u:p:q");
    for (type_, key, content) in [
        (
            CONFIG_JSON.0,
            CONFIG_JSON.1,
            format!(r#"{{"auths":{{"r.io":{{"auth":"{auth}"}}}}}}"#),
        ),
        (
            CONFIG_JSON.0,
            CONFIG_JSON.1,
            r#"{"auths":{"r.io":{"username":"u","password":"p:q"}}}"#.to_owned(),
        ),
        (
            CONFIG.0,
            CONFIG.1,
            format!(r#"{{"https://r.io":{{"auth":"{auth}","email":"x"}}}}"#),
        ),
    ] {
        let mut ring = Keyring::default();
        ring.add_secret(&secret(type_, key, &content)).expect(&content);
        assert_eq!(ring.find("r.io/a"), [pair("u", "p:q")], "{content}");
    }
    for (type_, content) in [
        ("Opaque", "{"),
        (CONFIG_JSON.0, "{}"),
        (CONFIG_JSON.0, r#"{"auths":{"r.io":{}}}"#),
    ] {
        let mut ring = Keyring::default();
        ring.add_secret(&secret(type_, CONFIG_JSON.1, content)).expect(content);
        assert_eq!(ring, Keyring::default(), "{content}");
    }
}

#[test]
fn given_a_broken_secret_then_it_is_an_error_that_tells_nothing_of_its_content() {
    for content in [
        "{\"auths\":{\"r.io\":{\"password\":\"hunter2\"",
        "hunter2",
        "",
        r#"{"auths":{"r.io":{"auth":"hunter2!"}}}"#,
        r#"{"auths":{"r.io":{"auth":"aHVudGVyMg=="}}}"#,
        r#"{"auths":{"r.io":"hunter2"}}"#,
    ] {
        let error = Keyring::default().add_secret(&secret(CONFIG_JSON.0, CONFIG_JSON.1, content));
        let message = error.expect_err(content).to_string();
        assert!(!message.contains("hunter2"), "{message}");
    }
}
