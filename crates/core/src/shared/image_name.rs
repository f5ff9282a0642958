//! Names of images, as the Docker command line reads them.
//!
//! - Without a registry Docker's own is meant; without a folder there, its official images: `nginx` is `docker.io/library/nginx`.
//! - Without tag and digest the tag `latest` is meant. With both, the digest counts and the tag is dropped.
//! - A digest stands where a tag stands, and says by its colon that it is one; a full name is put together accordingly
//!   ([`Image::reference`]): `nginx:1.25`, but `nginx@sha256:…`.

use std::fmt;

/// An image: its short name and its tag, under which a NodeImage lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Image {
    /// The name without what Docker adds by itself: `nginx`, `team/app`, `registry.local:5000/app`.
    pub name: String,
    /// The tag, or a digest such as `sha256:0123…`.
    pub tag: String,
}

impl Image {
    /// Reads an image as users write it.
    pub fn parse(text: &str) -> Result<Self, BadImage> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let (domain, remainder) = split_domain(rest);
        let (path, tag) = match remainder.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (remainder, None),
        };
        if path.chars().any(char::is_uppercase) {
            return Err(BadImage::Uppercase);
        }
        let is_sound = is_domain(domain)
            && path.split('/').all(is_path_part)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest)
            && domain.len() + 1 + path.len() <= LONGEST_NAME;
        if !is_sound || is_identifier(rest) {
            return Err(BadImage::Format);
        }
        let official = path.strip_prefix(OFFICIAL).filter(|rest| !rest.contains('/'));
        let name = match domain {
            DOCKER => official.unwrap_or(path).to_owned(),
            other => format!("{other}/{path}"),
        };
        Ok(Self {
            name,
            tag: digest.or(tag).unwrap_or("latest").to_owned(),
        })
    }

    /// The name with what Docker adds by itself, without tag: `docker.io/library/nginx`.
    pub fn repository(&self) -> String {
        match split_domain(&self.name) {
            (DOCKER, path) if path.contains('/') => format!("{DOCKER}/{path}"),
            (DOCKER, path) => format!("{DOCKER}/{OFFICIAL}{path}"),
            _ => self.name.clone(),
        }
    }

    /// The full name: `nginx:1.25`, or `nginx@sha256:…` for a digest.
    pub fn reference(&self) -> String {
        reference(&self.name, &self.tag)
    }
}

/// The full name of an image whose name and tag a NodeImage has.
pub fn reference(name: &str, tag: &str) -> String {
    let sign = if tag.contains(':') { '@' } else { ':' };
    format!("{name}{sign}{tag}")
}

/// Why a text names no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadImage {
    /// It is not built as names of images are.
    Format,
    /// Only the registry may have capital letters.
    Uppercase,
}

impl std::error::Error for BadImage {}

impl fmt::Display for BadImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "invalid reference format",
            Self::Uppercase => "invalid reference format: repository name must be lowercase",
        })
    }
}

const DOCKER: &str = "docker.io";
const OFFICIAL: &str = "library/";
const LONGEST_NAME: usize = 255;

/// The registry, and what follows. Docker's own is meant when the first part does not look like a host.
fn split_domain(text: &str) -> (&str, &str) {
    let looks_like_host =
        |part: &str| part.contains(['.', ':']) || part == "localhost" || part.chars().any(char::is_uppercase);
    match text.split_once('/') {
        Some(("index.docker.io", rest)) => (DOCKER, rest),
        Some((first, rest)) if looks_like_host(first) => (first, rest),
        _ => (DOCKER, text),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_part = |part: &str| {
        let plain = |sign: char| sign.is_ascii_alphanumeric();
        part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|sign| plain(sign) || sign == '-')
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = address.map_or_else(
        || host.split('.').all(is_part),
        |address| !address.is_empty() && address.chars().all(|sign| sign.is_ascii_hexdigit() || sign == ':'),
    );
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Lower-case letters and digits; between them one dot, one or two underscores, or any number of dashes.
fn is_path_part(part: &str) -> bool {
    let plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    let is_separator =
        |run: &str| matches!(run, "." | "_" | "__") || (!run.is_empty() && run.chars().all(|c| c == '-'));
    let mut rest = part.trim_start_matches(plain);
    if rest.len() == part.len() {
        return false;
    }
    while !rest.is_empty() {
        let words = rest.trim_start_matches(|sign| !plain(sign));
        let run = rest.get(..rest.len() - words.len()).unwrap_or_default();
        if words.is_empty() || !is_separator(run) {
            return false;
        }
        rest = words.trim_start_matches(plain);
    }
    true
}

fn is_tag(tag: &str) -> bool {
    let word = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    tag.starts_with(word) && tag.len() <= 128 && tag.chars().all(|sign| word(sign) || ".-".contains(sign))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hash)) = digest.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hash.len() == length && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The ID of an image, which names none.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_repository_says_what_docker_adds() {
        for (text, repository) in [
            ("nginx", "docker.io/library/nginx"),
            ("index.docker.io/nginx:1", "docker.io/library/nginx"),
            ("foo/bar:v1.2", "docker.io/foo/bar"),
            ("library/foo/bar", "docker.io/library/foo/bar"),
            ("host:5000/x", "host:5000/x"),
            ("localhost/x:1", "localhost/x"),
            ("[::1]:5000/x:1", "[::1]:5000/x"),
        ] {
            assert_eq!(Image::parse(text).expect(text).repository(), repository, "{text}");
        }
    }

    const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

    #[test]
    fn images_are_read_as_docker_reads_them() {
        for (text, name, tag) in [
            ("nginx", "nginx", "latest"),
            ("docker.io/library/nginx:1", "nginx", "1"),
            ("index.docker.io/library/nginx:1", "nginx", "1"),
            ("docker.io/team/app", "team/app", "latest"),
            ("library/nginx", "nginx", "latest"),
            ("library/a/b", "library/a/b", "latest"),
            ("localhost/a:2", "localhost/a", "2"),
            ("host:5000/x", "host:5000/x", "latest"),
            ("host.example:5000/x/y:1", "host.example:5000/x/y", "1"),
            ("HOST/x", "HOST/x", "latest"),
            ("[2001:db8::1]:5000/x:1", "[2001:db8::1]:5000/x", "1"),
            ("a__b/c-d---e.f:V_1.0-x", "a__b/c-d---e.f", "V_1.0-x"),
            (&format!("nginx@{DIGEST}"), "nginx", DIGEST),
            (&format!("a/b:1@{DIGEST}"), "a/b", DIGEST),
        ] {
            let image = Image::parse(text).unwrap_or_else(|bad| panic!("{text}: {bad}"));
            assert_eq!((&*image.name, &*image.tag), (name, tag), "{text}");
            assert_eq!(Image::parse(&image.reference()).as_ref(), Ok(&image), "{text}");
        }
    }

    #[test]
    fn what_names_no_image_is_refused() {
        let long = format!("a{}", "/b".repeat(130));
        let identifier = "0123456789".repeat(6) + "abcd";
        for text in [
            "",
            " nginx",
            "nginx:a b",
            "nginx::1",
            "nginx:",
            "nginx@sha256:abc",
            "nginx@md5:0",
            "a//b",
            "-a",
            "a-",
            "a..b",
            "a___b",
            "host:port/x",
            "-.example/x",
            "nginx:-1",
            "ü",
            "nginx@",
            &long,
            &identifier,
        ] {
            assert_eq!(Image::parse(text), Err(BadImage::Format), "{text}");
        }
        for text in ["NGINX", "a/B", "host.io/Nginx:1"] {
            assert_eq!(Image::parse(text), Err(BadImage::Uppercase), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged_and_what_is_read_is_read_again(text in "[a-zA-Z0-9./:@_ \\[\\]ü-]{0,40}") {
            if let Ok(image) = Image::parse(&text) {
                prop_assert_eq!(Image::parse(&image.reference()), Ok(image));
            }
        }
    }
}
