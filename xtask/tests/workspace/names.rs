//! A name of the contract is spelled out in `kruise_api::names` (and `kruise_api::gates`) and nowhere else.
//!
//! Looked at is every string of what is shipped. Not looked at are comments and attributes (derives take no constants
//! there), whatever is compiled for tests only, files `tests.rs` and folders `tests`, `benches`, `bench` and `examples` (which measure), the fixtures, the testkit,
//! and the fake container runtime.
//!
//! Refused is
//!
//! - any string with `kruise.io` in it, unless it is part of a longer word such as a web address, or with `KRUISE_`;
//! - any string that equals a constant whose form is distinctive: a key with a domain (`kubernetes.io/hostname`), an
//!   environment variable (`WEBHOOK_PORT`), dotted or hyphened names of three parts (`io.kubernetes.pod.uid`,
//!   `pod-template-hash`), our objects and controllers (`kruise-system`, `cloneset-controller`), reasons and gates in
//!   words put together (`SuccessfulCreate`, `ImagePullJobGate`), texts with spaces (`failed pod is found`).
//!
//! Not refused are constants that are ordinary words (`template`, `Ordered`, `Failed`, `daemon`): the same string may
//! well mean something else. Nor are names of kinds that are also a gate or a writer, nor our binaries' names.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use kruise_api::gates::Gate;
use proc_macro2::{TokenStream, TokenTree};

use super::{
    files::{refuse, root, rust_files, shown},
    tokens::{self, ident, is_punct, of_file, parse, product_strings},
};

/// Kinds that are also a gate or a writer of a condition, and binaries that are also a user agent or an object.
const AMBIGUOUS: &[&str] = &[
    "WorkloadSpread",
    "ContainerRecreateRequest",
    "kruise-manager",
    "kruise-daemon",
];

/// Each value with the paths of the constants that hold it.
type Constants = BTreeMap<String, Vec<String>>;

#[test]
fn names_are_spelled_out_in_one_place() {
    let constants = constants();
    let mut complaints = Vec::new();
    for file in product_files() {
        for (line, text) in product_strings(of_file(&file)) {
            if let Some(advice) = advice(&text, &constants) {
                complaints.push(format!("{}:{line}: {text:?}: {advice}", shown(&file)));
            }
        }
    }
    refuse(&complaints, "take the constant");
}

/// Sources of what is shipped, without those that define the names.
pub(super) fn product_files() -> Vec<PathBuf> {
    let api = root().join("crates/api/src");
    let homes = ["names", "names.rs", "gates", "gates.rs"].map(|home| api.join(home));
    let all = rust_files();
    let for_tests: Vec<_> = all.iter().flat_map(|file| tokens::test_modules(file)).collect();
    let is_product = |file: &PathBuf| {
        let is_test = |part: &Path| {
            ["tests", "benches", "bench", "examples", "tests.rs"]
                .iter()
                .any(|name| part.ends_with(name))
        };
        !["crates/fixtures", "crates/testkit", "crates/cri/src/fake"]
            .iter()
            .any(|folder| file.starts_with(root().join(folder)))
            && !homes.iter().any(|home| file.starts_with(home))
            && !for_tests
                .iter()
                .any(|module| file.with_extension("").starts_with(module))
            && !file.ancestors().take_while(|part| *part != root()).any(is_test)
    };
    all.into_iter().filter(is_product).collect()
}

/// What to write instead of this string, if it is one that names.rs spells out.
fn advice(text: &str, constants: &Constants) -> Option<String> {
    let exact = constants.get(text);
    if is_ours(text) {
        if let Some(paths) = exact {
            return Some(format!("use {}", paths.join(" or ")));
        }
        let within = constants
            .iter()
            .filter(|(value, _)| is_ours(value) && text.contains(value.as_str()));
        return Some(match within.max_by_key(|(value, _)| value.len()) {
            Some((_, paths)) => format!("build it from {}", paths.join(" or ")),
            None => "give it a constant in kruise_api::names".to_owned(),
        });
    }
    let distinctive = is_distinctive(text) && !AMBIGUOUS.contains(&text);
    exact
        .filter(|_| distinctive)
        .map(|paths| format!("use {}", paths.join(" or ")))
}

/// Whether the text contains one of our domains, not as a part of another word, or the beginning of our variables.
fn is_ours(text: &str) -> bool {
    let domain = text.match_indices("kruise.io").any(|(position, _)| {
        let before = text[..position].chars().next_back();
        !before.is_some_and(|sign| sign.is_alphanumeric() || sign == '-')
    });
    domain || text.contains("KRUISE_")
}

fn is_distinctive(text: &str) -> bool {
    let parts = |separator| text.split(separator).count();
    let all = |allowed: fn(char) -> bool| text.chars().all(allowed);
    let has_domain = text.split_once('/').is_some_and(|(domain, _)| domain.contains('.'));
    let hyphened = parts('-') >= 3 || text.contains("kruise-") || text.ends_with("-controller");
    let capitals = text.chars().filter(char::is_ascii_uppercase).count();
    let put_together = all(|sign| sign.is_ascii_alphabetic())
        && text.starts_with(|sign: char| sign.is_ascii_uppercase())
        && (2..text.len()).contains(&capitals);
    has_domain || hyphened || put_together || parts('_') >= 2 || parts('.') >= 3 || parts(' ') >= 2
}

/// Every constant of the names, and every gate.
fn constants() -> Constants {
    let api = root().join("crates/api/src");
    let mut constants = Constants::new();
    for file in rust_files().iter().filter(|file| file.starts_with(api.join("names"))) {
        let module = file.file_stem().unwrap().to_string_lossy();
        collect(of_file(file), &format!("names::{module}"), &mut constants);
    }
    assert!(constants.len() > 250, "names.rs gave next to no constants");
    for gate in Gate::ALL {
        constants
            .entry(gate.name().to_owned())
            .or_default()
            .push(format!("Gate::{gate}"));
    }
    constants
}

/// Constants of the form `const NAME: &str = "value";`, in inline modules too.
fn collect(stream: TokenStream, module: &str, constants: &mut Constants) {
    let tokens: Vec<_> = stream.into_iter().collect();
    for (position, window) in tokens.windows(3).enumerate() {
        let [keyword, name, third] = window else { continue };
        match (ident(keyword).as_deref(), third) {
            (Some("mod"), TokenTree::Group(body)) => {
                collect(body.stream(), &format!("{module}::{name}"), constants);
            }
            (Some("const"), _) => {
                let value = tokens[position..]
                    .iter()
                    .skip_while(|token| !is_punct(token, '='))
                    .nth(1);
                if let Some(TokenTree::Literal(literal)) = value
                    && let Some(value) = tokens::string(literal)
                {
                    constants.entry(value).or_default().push(format!("{module}::{name}"));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn metadata_keys_are_keys_that_the_api_server_takes() {
    let is_name = |name: &str| {
        let ends = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_alphanumeric());
        name.len() <= 63
            && ends(name.chars().next())
            && ends(name.chars().next_back())
            && name
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || "-_.".contains(sign))
    };
    let is_domain = |domain: &str| {
        domain.len() <= 253
            && !domain.contains('_')
            && domain
                .split('.')
                .all(|part| is_name(part) && part == part.to_lowercase())
    };
    let mut complaints = Vec::new();
    let mut seen = 0;
    for (value, paths) in constants() {
        let is_key = |path: &String| {
            ["label::", "annotation::", "finalizer::"]
                .iter()
                .any(|module| path.contains(module))
        };
        for path in paths.into_iter().filter(is_key) {
            seen += 1;
            // A prefix is completed by what the user, or a container, is called.
            let key = if path.ends_with("_PREFIX") {
                format!("{value}x")
            } else {
                value.clone()
            };
            let good = match key.split_once('/') {
                Some((domain, name)) => is_domain(domain) && is_name(name),
                None => is_name(&key),
            };
            if !good {
                complaints.push(format!("{path} = {value:?}"));
            }
        }
    }
    assert!(seen > 80, "next to no keys were found");
    refuse(&complaints, "not a valid key");
}

#[test]
fn given_a_name_is_spelled_out_then_the_message_says_which_constant_to_use() {
    let constants = constants();
    for (text, expected) in [
        ("apps.kruise.io/specified-delete", "use names::label::SPECIFIED_DELETE"),
        ("apps.kruise.io", "use names::group::APPS"),
        (
            "crr.apps.kruise.io/unready-acquired",
            "use names::annotation::CRR_UNREADY_ACQUIRED or names::finalizer::CRR_UNREADY_ACQUIRED",
        ),
        (
            "unavailable-pod.kruise.io/mine",
            "build it from names::label::UNAVAILABLE_POD_PREFIX",
        ),
        ("{}.apps.kruise.io", "build it from names::group::APPS"),
        ("new.kruise.io/key", "give it a constant in kruise_api::names"),
        ("KRUISE_CONTAINER_PRIORITY", "use names::env::CONTAINER_PRIORITY"),
        ("WEBHOOK_CERT_DIR", "use names::env::WEBHOOK_CERT_DIR"),
        ("kubernetes.io/hostname", "use names::label::NODE_HOSTNAME"),
        ("io.kubernetes.pod.uid", "use names::node::container::POD_UID"),
        ("pod-template-hash", "use names::label::POD_TEMPLATE_HASH"),
        ("kruise-system", "use names::object::SYSTEM_NAMESPACE"),
        ("cloneset-controller", "use names::component::controller::CLONE_SET"),
        ("SuccessfulCreate", "use names::event::SUCCESSFUL_CREATE"),
        ("failed pod is found", "use names::event::FAILED_POD_FOUND"),
        ("ImagePullJobGate", "use Gate::ImagePullJobGate"),
        (
            "SidecarTerminator",
            "use names::event::SIDECAR_TERMINATOR or Gate::SidecarTerminator",
        ),
    ] {
        assert_eq!(advice(text, &constants).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn given_an_ordinary_word_or_somebody_elses_name_then_it_may_be_written() {
    let constants = constants();
    for text in [
        "template",
        "Ordered",
        "Failed",
        "Error",
        "daemon",
        "type",
        "WorkloadSpread",
        "kruise-manager",
        "https://openkruise.io/docs",
        "SomeReason",
        "/mutate-apps-kruise-io-cloneset",
        "",
    ] {
        assert_eq!(advice(text, &constants), None, "{text}");
    }
}

#[test]
fn given_a_module_in_a_file_or_inline_then_its_constants_have_their_path() {
    let mut found = Constants::new();
    let source = "pub const A: &str = \"a\"; pub mod b { /// doc\n pub const C: &str = \"c\"; const N: u8 = 1; }";
    collect(parse(source), "names::x", &mut found);
    let expected = [("a", "names::x::A"), ("c", "names::x::b::C")];
    assert_eq!(
        found,
        expected
            .map(|(value, path)| (value.to_owned(), vec![path.to_owned()]))
            .into()
    );
}
