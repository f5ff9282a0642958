//! Names of images, normalised as the Docker command line does it.
//!
//! - Without a registry an image is Docker Hub's (`docker.io`), and there without a folder it is in `library`.
//! - Without tag and digest the tag is `latest`. With both the tag does not count.
//! - The *familiar* name leaves out what is the default: `nginx`, `foo/bar`, `host:5000/x`. Images of a NodeImage go by it.
//! - A digest stands where a tag stands: `sha256:…`. Put together again, it comes after `@`.

use std::fmt;

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DOMAIN: &str = "index.docker.io";
const DEFAULT_FOLDER: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const LONGEST_PATH: usize = 255;
const LONGEST_TAG: usize = 128;

/// A normalised reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageReference {
    domain: String,
    path: String,
    tag: String,
}

/// Why a text is no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid reference format: {0:?} {1}")]
pub struct InvalidReference(String, &'static str);

impl ImageReference {
    /// Reads a reference.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        let invalid = |why| InvalidReference(text.to_owned(), why);
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(invalid("has a digest that is none"));
        }
        let (domain, rest) = split_domain(rest);
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid("has a tag that is none"));
        }
        if path.len() == 64 && domain == DEFAULT_DOMAIN && path.bytes().all(|sign| sign.is_ascii_hexdigit()) {
            return Err(invalid("is an ID, not a name"));
        }
        if path.chars().any(char::is_uppercase) {
            return Err(invalid("must be in lower case"));
        }
        if path.len() > LONGEST_PATH || !path.split('/').all(is_part) {
            return Err(invalid("has a part that no repository can have"));
        }
        if !is_domain(domain) {
            return Err(invalid("has a registry that is no host name"));
        }
        let folder = if domain == DEFAULT_DOMAIN && !path.contains('/') {
            DEFAULT_FOLDER
        } else {
            ""
        };
        Ok(Self {
            domain: domain.to_owned(),
            path: format!("{folder}{path}"),
            tag: digest.or(tag).unwrap_or(DEFAULT_TAG).to_owned(),
        })
    }

    /// The familiar name, without tag.
    pub fn name(&self) -> String {
        if self.domain != DEFAULT_DOMAIN {
            return self.repository();
        }
        let short = self.path.strip_prefix(DEFAULT_FOLDER);
        short
            .filter(|short| !short.contains('/'))
            .unwrap_or(&self.path)
            .to_owned()
    }

    /// The whole name, without tag.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.domain, self.path)
    }

    /// The tag or the digest.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

/// The familiar form, with tag or digest.
impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.name(), &self.tag))
    }
}

/// A name and a tag or digest as one text.
pub fn joined(name: &str, tag: &str) -> String {
    let between = if tag.contains(':') { '@' } else { ':' };
    format!("{name}{between}{tag}")
}

fn split_domain(text: &str) -> (&str, &str) {
    let is_host = |first: &str| {
        first.contains(['.', ':']) || first == "localhost" || first.chars().any(|sign| sign.is_ascii_uppercase())
    };
    match text.split_once('/') {
        Some((LEGACY_DOMAIN, rest)) => (DEFAULT_DOMAIN, rest),
        Some((first, rest)) if is_host(first) => (first, rest),
        _ => (DEFAULT_DOMAIN, text),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|sign| sign.is_ascii_digit());
    if !port.is_none_or(is_port) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|sign| sign.is_ascii_hexdigit() || sign == b':');
    }
    let plain = |sign: char| sign.is_ascii_alphanumeric();
    let is_label =
        |label: &str| label.starts_with(plain) && label.ends_with(plain) && label.chars().all(|s| plain(s) || s == '-');
    host.split('.').all(is_label)
}

/// Lower-case letters and digits, with separators between them: one dot, one or two underscores, any number of dashes.
fn is_part(part: &str) -> bool {
    let plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    let mut separators = part.split(plain).filter(|between| !between.is_empty());
    part.starts_with(plain)
        && part.ends_with(plain)
        && separators.all(|between| matches!(between, "." | "_" | "__") || between.bytes().all(|sign| sign == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    tag.starts_with(word) && tag.len() <= LONGEST_TAG && tag.chars().all(|sign| word(sign) || ".-".contains(sign))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hash)) = digest.split_once(':') else {
        return false;
    };
    let long_enough = match algorithm {
        "sha256" => hash.len() == 64,
        "sha384" => hash.len() == 96,
        "sha512" => hash.len() == 128,
        _ => hash.len() >= 32,
    };
    let is_name = algorithm.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && algorithm
            .chars()
            .all(|sign| sign.is_ascii_alphanumeric() || "-_+.".contains(sign));
    long_enough && is_name && hash.bytes().all(|sign| sign.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

    #[test]
    fn given_references_then_names_are_familiar_and_tags_are_there() {
        for (text, name, tag, repository) in [
            ("nginx", "nginx", "latest", "docker.io/library/nginx"),
            ("docker.io/library/nginx:1", "nginx", "1", "docker.io/library/nginx"),
            ("index.docker.io/nginx:1", "nginx", "1", "docker.io/library/nginx"),
            ("foo/bar:v1.2", "foo/bar", "v1.2", "docker.io/foo/bar"),
            (
                "library/foo/bar",
                "library/foo/bar",
                "latest",
                "docker.io/library/foo/bar",
            ),
            ("host:5000/x", "host:5000/x", "latest", "host:5000/x"),
            ("localhost/x:1", "localhost/x", "1", "localhost/x"),
            ("[::1]:5000/x:1", "[::1]:5000/x", "1", "[::1]:5000/x"),
            ("a.b/c--d/e__f:1", "a.b/c--d/e__f", "1", "a.b/c--d/e__f"),
            (&format!("nginx@{DIGEST}"), "nginx", DIGEST, "docker.io/library/nginx"),
            (&format!("a/b:1@{DIGEST}"), "a/b", DIGEST, "docker.io/a/b"),
        ] {
            let read = ImageReference::parse(text).expect(text);
            assert_eq!(
                (read.name().as_str(), read.tag(), read.repository().as_str()),
                (name, tag, repository),
                "{text}"
            );
            assert_eq!(ImageReference::parse(&read.to_string()), Ok(read), "{text}");
        }
    }

    #[test]
    fn given_no_reference_then_it_is_an_error() {
        for text in [
            "",
            ":",
            "@",
            "/",
            "nginx:",
            "Nginx",
            "a//b",
            "a b",
            "-a",
            "a..b",
            "a___b",
            "nginx:-",
            "nginx@sha256:12",
            "nginx@",
            "host:port/x",
            "ho_st.x/y",
            "ü",
            "a:b:c",
            &"x".repeat(300),
            &"a".repeat(64),
            &format!("nginx:{}", "t".repeat(129)),
        ] {
            assert!(ImageReference::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn given_a_tag_or_a_digest_then_it_is_put_behind_the_right_sign() {
        assert_eq!(joined("nginx", "1"), "nginx:1");
        assert_eq!(joined("nginx", "sha256:1"), "nginx@sha256:1");
    }
}
