//! Decisions know no clock, no chance and no network.
//!
//! Two tests keep `kruise-core` that way:
//!
//! - *What it is built from.* The closure of its normal dependencies contains no async runtime, no HTTP, no client, no
//!   source of chance and no clock crate. The closure is what `cargo tree -p kruise-core -e normal` prints: resolved for
//!   this package alone with its default features on the host platform, proc-macros and their dependencies included
//!   (they run at build time; that they are listed too only makes the test stricter). In a build of the whole workspace
//!   features of shared crates unite, but no crate enters the closure that is not in it here.
//!   `jiff` is in the closure because the time fields of Kubernetes' types are made of it; therefore:
//! - *What it says.* No path in its sources ends in `::now`, nothing asks `.elapsed()`, nothing begins with `rand::`.
//!   This holds for its tests as well: a decision's test that depends on the time of day is a flaky one.

use proc_macro2::{TokenStream, TokenTree};

use super::{
    files::{cargo, refuse, root, rust_files, shown},
    tokens::{Scope, ident, is_punct, line, of_file, parse, walk},
};

const IMPURE: &[&str] = &[
    // Async runtimes and threads.
    "async-std",
    "mio",
    "rayon",
    "smol",
    "tokio",
    "tokio-util",
    // Network and clients.
    "axum",
    "h2",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "reqwest",
    "rustls",
    "socket2",
    "tonic",
    "tower",
    // Chance.
    "ahash",
    "fastrand",
    "getrandom",
    "oorandom",
    "rand",
    "rand_chacha",
    "rand_core",
    "uuid",
    // Clocks.
    "chrono",
    "coarsetime",
    "instant",
    "minstant",
    "quanta",
    "time",
    "web-time",
];

#[test]
fn nothing_impure_is_in_the_closure_of_core() {
    let tree = cargo(&[
        "tree",
        "--package",
        "kruise-core",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--locked",
        "--offline",
    ]);
    let closure: Vec<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(
        closure.contains(&"kruise-api") && closure.contains(&"serde"),
        "this is not the closure of core: {tree}"
    );
    let impure: Vec<_> = IMPURE
        .iter()
        .filter(|name| closure.contains(name))
        .map(|name| format!("{name} (see `cargo tree -p kruise-core -e normal -i {name}`)"))
        .collect();
    refuse(&impure, "kruise-core takes decisions only; it must not be built from");
}

#[test]
fn no_decision_asks_a_clock_or_a_die() {
    let sources = root().join("crates/core/src");
    let mut complaints = Vec::new();
    for file in rust_files().iter().filter(|file| file.starts_with(&sources)) {
        for (line, what) in impure_calls(of_file(file)) {
            complaints.push(format!("{}:{line}: {what}", shown(file)));
        }
    }
    refuse(&complaints, "in kruise-core time and chance are arguments");
}

fn impure_calls(stream: TokenStream) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    walk(stream, Scope::Everything, &mut |tokens| {
        for (position, token) in tokens.iter().enumerate() {
            let after_path = preceded_by(tokens, position, "::");
            let before_path = tokens.get(position + 1).is_some_and(|next| is_punct(next, ':'))
                && tokens.get(position + 2).is_some_and(|next| is_punct(next, ':'));
            let call = match ident(token).as_deref() {
                Some("now") if after_path => "::now",
                Some("elapsed") if preceded_by(tokens, position, ".") => ".elapsed",
                Some("rand") if before_path => "rand::",
                _ => continue,
            };
            found.push((line(token), call.to_owned()));
        }
    });
    found
}

fn preceded_by(tokens: &[TokenTree], position: usize, signs: &str) -> bool {
    let Some(start) = position.checked_sub(signs.len()) else {
        return false;
    };
    tokens[start..position]
        .iter()
        .zip(signs.chars())
        .all(|(token, sign)| is_punct(token, sign))
}

#[test]
fn given_a_clock_or_a_die_in_a_source_then_it_is_found_and_nothing_else() {
    for bad in [
        "fn f() { SystemTime::now(); }",
        "fn f() { std::time::Instant::now() }",
        "fn f() { let t = T::now; }",
        "fn f() { started.elapsed() }",
        "use rand::Rng;",
    ] {
        assert_eq!(impure_calls(parse(bad)).len(), 1, "{bad}");
    }
    for good in [
        "fn f(env: &Env) { env.now; let now = 1; g(now) }",
        "// Timestamp::now()\nfn f() { say(\"rand::Rng\") }",
        "fn rand(a: i32) {}",
    ] {
        assert!(impure_calls(parse(good)).is_empty(), "{good}");
    }
}
