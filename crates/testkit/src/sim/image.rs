//! Names of images, and ids made from them.

use sha2::{Digest, Sha256};

/// An image without tag or digest means `:latest`. A colon before the last slash belongs to a port.
pub(super) fn tagged(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

/// The same image name always gives the same id, another name another one.
pub(super) fn image_id(image: &str) -> String {
    if image.contains("@sha256:") {
        return image.to_owned();
    }
    let tagged = tagged(image);
    let repository = tagged
        .rsplit_once(':')
        .map_or(tagged.as_str(), |(repository, _)| repository);
    format!("{repository}@sha256:{}", sha256_hex(&tagged))
}

pub(super) fn sha256_hex(text: &str) -> String {
    use std::fmt::Write;
    Sha256::digest(text.as_bytes())
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_ids_follow_the_image_name() {
        assert_eq!(image_id("nginx"), image_id("nginx:latest"));
        assert_ne!(image_id("nginx:1"), image_id("nginx:2"));
        assert!(image_id("host:5000/a/nginx:1").starts_with("host:5000/a/nginx@sha256:"));
        assert!(image_id("host:5000/nginx").starts_with("host:5000/nginx@sha256:"));
        assert_eq!(image_id("nginx@sha256:ab"), "nginx@sha256:ab");
        assert_eq!(tagged("host:5000/nginx"), "host:5000/nginx:latest");
    }
}
