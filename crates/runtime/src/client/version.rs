//! The API server's version, as far as decisions depend on it.
//!
//! Vendors add to it (`v1.32+xyz.1`, `v1.28.3-gke.100`): each of the first three dotted parts counts with its leading digits.
//! A version that cannot be read counts as older than any other.

use std::fmt;

/// Major, minor and patch of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

impl ServerVersion {
    /// Pod resources are changed through the `resize` subresource from here on.
    const POD_RESIZE: Self = Self {
        major: 1,
        minor: 32,
        patch: 0,
    };

    /// Reads `gitVersion`.
    pub fn parse(git_version: &str) -> Self {
        let text = git_version.trim();
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let Some((major, minor)) = leading_digits(parts.next()).zip(leading_digits(parts.next())) else {
            return Self::default();
        };
        let patch = leading_digits(parts.next()).unwrap_or(0);
        Self { major, minor, patch }
    }

    /// Returns whether resources of a running Pod must be changed through its `resize` subresource.
    pub fn has_pod_resize(self) -> bool {
        self >= Self::POD_RESIZE
    }
}

fn leading_digits(part: Option<&str>) -> Option<u32> {
    let part = part?;
    let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
    part.get(..end)?.parse().ok()
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_versions_of_servers_and_vendors_then_resize_is_known_from_1_32_on() {
        let table = [
            ("v1.31.9", "1.31.9", false),
            ("v1.32.0", "1.32.0", true),
            ("v1.32+xyz.1", "1.32.1", true),
            ("v1.32.0-rc.1", "1.32.0", true),
            ("v1.28.3-gke.100", "1.28.3", false),
            ("1.34.4", "1.34.4", true),
            ("v1.33", "1.33.0", true),
            ("v2.0.0", "2.0.0", true),
            ("", "0.0.0", false),
            ("v1", "0.0.0", false),
            ("vx.y.z", "0.0.0", false),
            ("v99999999999.1.1", "0.0.0", false),
        ];
        for (text, shown, resize) in table {
            let version = ServerVersion::parse(text);
            assert_eq!(
                (version.to_string().as_str(), version.has_pod_resize()),
                (shown, resize),
                "{text}"
            );
        }
    }
}
