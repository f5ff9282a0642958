//! Image references, as far as the pull policy depends on them.

/// Whether the same reference may name another image tomorrow: it has the tag `latest`, or neither tag nor digest.
/// What is no image reference at all is left to the container runtime to complain about.
pub(super) fn may_change_under_its_name(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let tag = name
        .get(last..)
        .and_then(|last| last.split_once(':'))
        .map(|(_, tag)| tag);
    let repository = tag.map_or(name, |tag| name.get(..name.len() - tag.len() - 1).unwrap_or_default());
    if !is_repository(repository) || !tag.is_none_or(is_tag) {
        return false;
    }
    match (tag, digest) {
        (None, None) => true,
        (tag, _) => tag == Some("latest"),
    }
}

fn is_repository(repository: &str) -> bool {
    let (host, path) = match repository.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), path),
        _ => (None, repository),
    };
    let in_host = |sign: char| sign.is_ascii_alphanumeric() || ".-:[]".contains(sign);
    host.is_none_or(|host| host.chars().all(in_host)) && path.split('/').all(is_path_part)
}

/// Lower-case letters and digits, with single separators between them.
fn is_path_part(part: &str) -> bool {
    let plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    part.starts_with(plain)
        && part.ends_with(plain)
        && part.chars().all(|sign| plain(sign) || "._-".contains(sign))
        && !part.contains("..")
        && !part.contains("___")
}

fn is_tag(tag: &str) -> bool {
    let word = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    tag.starts_with(word) && tag.len() <= 128 && tag.chars().all(|sign| word(sign) || ".-".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::may_change_under_its_name;

    #[test]
    fn only_latest_and_untagged_images_may_change() {
        let digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123";
        for image in [
            "busybox",
            "busybox:latest",
            "a/b",
            "localhost/a",
            "registry.local:5000/a/b_c",
            "registry.local:5000/a:latest",
            &format!("busybox:latest@{digest}"),
        ] {
            assert!(may_change_under_its_name(image), "{image}");
        }
        for image in [
            "",
            "busybox:1",
            "registry.local:5000/a:v1",
            &format!("busybox@{digest}"),
            &format!("busybox:1@{digest}"),
            "Busybox",
            "a//b",
            "a b",
            "busybox:",
            "busybox:-",
            "-a",
            "ü",
        ] {
            assert!(!may_change_under_its_name(image), "{image}");
        }
    }
}
