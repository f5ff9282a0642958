//! How keys and values of labels, keys of annotations and names of objects have to be written. The wording is that of Kubernetes.

/// Most bytes of a label's value, and of a key without its prefix.
const MOST: usize = 63;
/// Most bytes of a DNS subdomain.
const MOST_OF_SUBDOMAIN: usize = 253;

const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
    (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIXED: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
    alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
    and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
    alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with the key of a label or annotation.
pub fn key_faults(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, name)) if name.contains('/') => return vec![PREFIXED.to_owned()],
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => faults.extend(
            subdomain_faults(prefix)
                .iter()
                .map(|fault| format!("prefix part {fault}")),
        ),
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > MOST {
        faults.push(format!("name part {}", too_long(MOST)));
    }
    if !is_word(name) {
        faults.push(format!("name part {KEY}"));
    }
    faults
}

/// What is wrong with the value of a label.
pub fn value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > MOST {
        faults.push(too_long(MOST));
    }
    if !value.is_empty() && !is_word(value) {
        faults.push(VALUE.to_owned());
    }
    faults
}

/// What is wrong with a name that has to be a DNS label, as names of namespaces have to be.
pub fn label_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > MOST {
        faults.push(too_long(MOST));
    }
    let is_inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
    if name.is_empty() || !name.bytes().all(is_inner) || name.starts_with('-') || name.ends_with('-') {
        faults.push(LABEL.to_owned());
    }
    faults
}

/// What is wrong with a name that has to be a DNS subdomain.
pub fn subdomain_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > MOST_OF_SUBDOMAIN {
        faults.push(too_long(MOST_OF_SUBDOMAIN));
    }
    if !name.split('.').all(is_dns_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// What is wrong with a name that has to be a DNS label, as those of containers have.
pub fn dns_label_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > MOST {
        faults.push(too_long(MOST));
    }
    if !is_dns_label(name) {
        faults.push(DNS_LABEL.to_owned());
    }
    faults
}

fn is_dns_label(text: &str) -> bool {
    let is_inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
    text.bytes().all(is_inner) && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// Letters and digits, with `-`, `_` and `.` between them.
fn is_word(text: &str) -> bool {
    let is_inner = |sign: u8| sign.is_ascii_alphanumeric() || matches!(sign, b'-' | b'_' | b'.');
    let is_end = |sign: Option<u8>| sign.is_some_and(|sign| sign.is_ascii_alphanumeric());
    text.bytes().all(is_inner) && is_end(text.bytes().next()) && is_end(text.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_keys_then_what_kubernetes_accepts_is_accepted() {
        let long = "a".repeat(63);
        for good in [
            "a",
            "A_b.c-9",
            "example.com/a",
            "x.y/Z",
            &long,
            &format!("{}/{long}", "b".repeat(253)),
        ] {
            assert_eq!(key_faults(good), Vec::<String>::new(), "{good}");
        }
        for (bad, fault) in [
            ("", "name part must be non-empty"),
            ("a b", "name part must consist of"),
            ("-a", "name part must consist of"),
            ("a.", "name part must consist of"),
            ("/a", "prefix part must be non-empty"),
            ("A/a", "prefix part a lowercase RFC 1123 subdomain"),
            ("a/", "name part must be non-empty"),
            ("a/b/c", "a qualified name must consist of"),
            ("ä", "name part must consist of"),
            (&"a".repeat(64), "name part must be no more than 63 bytes"),
            (
                &format!("{}/a", "b".repeat(254)),
                "prefix part must be no more than 253 bytes",
            ),
        ] {
            let faults = key_faults(bad);
            assert!(faults.iter().any(|said| said.starts_with(fault)), "{bad}: {faults:?}");
        }
    }

    #[test]
    fn given_values_and_names_then_what_kubernetes_accepts_is_accepted() {
        for good in ["", "a", "1.2_3-x", &"a".repeat(63)] {
            assert!(value_faults(good).is_empty(), "{good}");
        }
        for bad in ["b c", "-bad-", "_", &"a".repeat(64)] {
            assert!(!value_faults(bad).is_empty(), "{bad}");
        }
        for good in ["a", "a-b", "0", &"a".repeat(63)] {
            assert!(label_faults(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a.b", "-a", "a-", "a_b", "ä"] {
            assert_eq!(label_faults(bad), [LABEL], "{bad}");
        }
        assert_eq!(label_faults(&"a".repeat(64)).len(), 1);
        for good in ["a", "a.b", "a-b.9", "0"] {
            assert!(subdomain_faults(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a..b", "a.", "-a", "a-", "a_b", "ä"] {
            assert_eq!(subdomain_faults(bad), [SUBDOMAIN], "{bad}");
            assert_eq!(dns_label_faults(bad), [DNS_LABEL], "{bad}");
        }
        assert!(dns_label_faults("a-9").is_empty());
        assert_eq!(dns_label_faults("a.b"), [DNS_LABEL]);
        assert_eq!(dns_label_faults(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
