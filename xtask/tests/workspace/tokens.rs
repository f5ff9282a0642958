//! Rust sources as tokens: comments are gone, strings are strings, attributes and tests can be told apart.

use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};

use super::files::{read, shown};

/// The tokens of a source text.
pub(super) fn parse(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The tokens of a file.
pub(super) fn of_file(path: &Path) -> TokenStream {
    read(path)
        .parse()
        .unwrap_or_else(|error| panic!("{}: {error}", shown(path)))
}

/// What [`walk`] leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Nothing.
    Everything,
    /// Attributes (doc comments among them) and whatever is compiled for tests only.
    Product,
}

/// Calls `visit` with each list of neighbouring tokens, outer lists first.
pub(super) fn walk(stream: TokenStream, scope: Scope, visit: &mut impl FnMut(&[TokenTree])) {
    let mut tokens: Vec<_> = stream.into_iter().collect();
    if scope == Scope::Product {
        tokens = without_attributes_and_tests(&tokens);
    }
    visit(&tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            walk(group.stream(), scope, visit);
        }
    }
}

fn without_attributes_and_tests(tokens: &[TokenTree]) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut rest = tokens;
    while let Some((first, after_first)) = rest.split_first() {
        match attribute(rest) {
            Some(Attribute { inner: true, group, .. }) if is_for_tests(&group) => return Vec::new(),
            Some(Attribute { group, after, .. }) if is_for_tests(&group) => rest = after_item(after),
            Some(Attribute { after, .. }) => rest = after,
            None => {
                kept.push(first.clone());
                rest = after_first;
            }
        }
    }
    kept
}

struct Attribute<'a> {
    inner: bool,
    group: Group,
    after: &'a [TokenTree],
}

/// The attribute at the beginning of `tokens`.
fn attribute(tokens: &[TokenTree]) -> Option<Attribute<'_>> {
    let after_hash = tokens.split_first().filter(|(first, _)| is_punct(first, '#'))?.1;
    let after_bang = after_hash.split_first().filter(|(first, _)| is_punct(first, '!'));
    let (inner, at_group) = after_bang.map_or((false, after_hash), |(_, rest)| (true, rest));
    match at_group.split_first()? {
        (TokenTree::Group(group), after) if group.delimiter() == Delimiter::Bracket => Some(Attribute {
            inner,
            group: group.clone(),
            after,
        }),
        _ => None,
    }
}

/// `cfg(test)` in any combination but a negated one, and the marks of test functions.
fn is_for_tests(attribute: &Group) -> bool {
    let tokens: Vec<_> = attribute.stream().into_iter().collect();
    let Some(TokenTree::Ident(first)) = tokens.first() else {
        return false;
    };
    if first == "cfg" {
        let mut idents = Vec::new();
        walk(attribute.stream(), Scope::Everything, &mut |tokens| {
            idents.extend(tokens.iter().filter_map(ident));
        });
        return idents.iter().any(|name| name == "test") && !idents.iter().any(|name| name == "not");
    }
    let path_end = tokens
        .iter()
        .take_while(|token| !matches!(token, TokenTree::Group(_)))
        .filter_map(ident)
        .last();
    path_end.is_some_and(|name| name == "test")
}

/// What comes after the item (and its further attributes) at the beginning of `tokens`.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let mut rest = tokens;
    while let Some(attribute) = attribute(rest) {
        rest = attribute.after;
    }
    let ends_item = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    };
    let end = rest
        .iter()
        .position(ends_item)
        .map_or(rest.len(), |position| position + 1);
    &rest[end..]
}

/// The text of an identifier.
pub(super) fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

/// Whether the token is this sign.
pub(super) fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// The line on which a token begins.
pub(super) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// What stands between the quotes of a string literal of any form. Escapes stay as they are written.
pub(super) fn string(literal: &Literal) -> Option<String> {
    let text = literal.to_string();
    let inside = text.trim_start_matches(['b', 'c', 'r']).trim_matches('#');
    Some(inside.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// The string literals of what is shipped, with their lines.
pub(super) fn product_strings(stream: TokenStream) -> Vec<(usize, String)> {
    let mut strings = Vec::new();
    walk(stream, Scope::Product, &mut |tokens| {
        for token in tokens {
            if let TokenTree::Literal(literal) = token
                && let Some(text) = string(literal)
            {
                strings.push((line(token), text));
            }
        }
    });
    strings.sort();
    strings
}

/// Modules in files of their own that a file declares for tests only: `#[cfg(test)] mod fixtures;`.
pub(super) fn test_modules(file: &Path) -> Vec<PathBuf> {
    let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main") => file.parent().unwrap().to_owned(),
        _ => file.with_extension(""),
    };
    let tokens: Vec<_> = of_file(file).into_iter().collect();
    let mut modules = Vec::new();
    for (position, _) in tokens.iter().enumerate() {
        let Some(found) = attribute(&tokens[position..]).filter(|found| is_for_tests(&found.group)) else {
            continue;
        };
        if let [keyword, name, end, ..] = found.after
            && ident(keyword).is_some_and(|word| word == "mod")
            && is_punct(end, ';')
        {
            modules.push(folder.join(name.to_string()));
        }
    }
    modules
}

#[test]
fn given_strings_of_every_form_then_those_of_the_product_are_found_with_their_lines() {
    let source = r##"
//! not "this"
/// nor "that"
#[serde(rename = "attribute")]
const A: &str = "one"; // "comment"
fn f() { println!(r#"two"#); g(b"three") }
"##;
    let found = product_strings(parse(source));
    assert_eq!(found, [(5, "one".into()), (6, "three".into()), (6, "two".into())]);
}

#[test]
fn given_code_for_tests_then_its_strings_are_not_of_the_product() {
    let source = r#"
#[cfg(test)]
mod tests { const A: &str = "a"; }
#[cfg(any(test, feature = "x"))]
#[allow(dead_code)]
const B: &str = "b";
#[tokio::test(flavor = "multi_thread")]
async fn c() { f("c") }
#[cfg(not(test))]
const KEPT: &str = "kept";
#[cfg(feature = "test-data")]
const TOO: &str = "too";
"#;
    let found: Vec<_> = product_strings(parse(source))
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(found, ["kept", "too"]);
    assert!(product_strings(parse("#![cfg(test)] const A: &str = \"a\";")).is_empty());
}
