//! Which credentials fit an image.
//!
//! - A key names a host, and perhaps a path: `registry.example.com/team`. A scheme does not count, nor do the paths `/v1/` and `/v2/`.
//! - It fits when the ports are equal, the host has as many labels and each label fits (`*` stands for any letters), and the
//!   path of the image begins with the key's path.
//! - All keys that fit are candidates, the most specific first. An image of Docker Hub for which none fits takes the entry
//!   `index.docker.io`.
//! - Names and passwords come from Secrets of the two Docker types and from files of the same content.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use k8s_openapi::api::core::v1::Secret;
use kruise_cri::Credentials;
use serde::Deserialize;

const DOCKER_HUB: &str = "docker.io/";
const DOCKER_HUB_KEY: &str = "index.docker.io";
const CONFIG_JSON: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");
const CONFIG: (&str, &str) = ("kubernetes.io/dockercfg", ".dockercfg");

/// Credentials by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keyring(BTreeMap<String, Vec<Credentials>>);

/// Why credentials cannot be read. Says nothing of their content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credentials in {place} cannot be read: {why}")]
pub(super) struct BadCredentials {
    place: String,
    why: String,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: Option<BTreeMap<String, Entry>>,
}

/// Credentials of one key.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    username: Option<String>,
    password: Option<String>,
    auth: Option<String>,
}

impl Keyring {
    /// Adds what a Secret holds. Other types of Secrets hold nothing for us.
    pub(super) fn add_secret(&mut self, secret: &Secret) -> Result<(), BadCredentials> {
        let (namespace, name) = (&secret.metadata.namespace, &secret.metadata.name);
        let place = format!(
            "secret {}/{}",
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default()
        );
        let type_ = secret.type_.as_deref().unwrap_or_default();
        let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
        if type_ == CONFIG_JSON.0 {
            data(CONFIG_JSON.1).map_or(Ok(()), |bytes| self.add_config_json(&place, &bytes.0))
        } else if type_ == CONFIG.0 {
            data(CONFIG.1).map_or(Ok(()), |bytes| self.add_config(&place, &bytes.0))
        } else {
            Ok(())
        }
    }

    /// Adds the content of a `config.json`.
    pub(super) fn add_config_json(&mut self, place: &str, content: &[u8]) -> Result<(), BadCredentials> {
        let config: Config = read(place, content)?;
        self.add_entries(place, config.auths.unwrap_or_default())
    }

    /// Adds the content of a `.dockercfg`.
    pub(super) fn add_config(&mut self, place: &str, content: &[u8]) -> Result<(), BadCredentials> {
        self.add_entries(place, read(place, content)?)
    }

    /// Adds one pair for a key.
    pub(super) fn add(&mut self, key: &str, credentials: Credentials) {
        let known = self.0.entry(normal(key)).or_default();
        if !known.contains(&credentials) {
            known.push(credentials);
        }
    }

    fn add_entries(&mut self, place: &str, entries: BTreeMap<String, Entry>) -> Result<(), BadCredentials> {
        for (key, entry) in entries {
            if let Some(credentials) = entry.credentials(place)? {
                self.add(&key, credentials);
            }
        }
        Ok(())
    }

    /// The credentials for a repository, given with its registry, the best first.
    pub(super) fn find(&self, repository: &str) -> Vec<Credentials> {
        // Keys with more to say sort later.
        let fitting = self.0.iter().rev().filter(|(key, _)| fits(key, repository));
        let found: Vec<_> = fitting.flat_map(|(_, credentials)| credentials).cloned().collect();
        if found.is_empty() && repository.starts_with(DOCKER_HUB) {
            return self.0.get(DOCKER_HUB_KEY).cloned().unwrap_or_default();
        }
        found
    }
}

impl Entry {
    /// Nothing when the entry is empty, as some tools leave them.
    fn credentials(self, place: &str) -> Result<Option<Credentials>, BadCredentials> {
        let bad = |why: &str| BadCredentials {
            place: place.to_owned(),
            why: why.to_owned(),
        };
        let (username, password) = match self.auth.filter(|auth| !auth.is_empty()) {
            None => (self.username.unwrap_or_default(), self.password.unwrap_or_default()),
            Some(auth) => {
                let decoded = STANDARD
                    .decode(auth.trim())
                    .or_else(|_| STANDARD_NO_PAD.decode(auth.trim()));
                let decoded = decoded.map_err(|_| bad("auth is not base64"))?;
                let text = String::from_utf8(decoded).map_err(|_| bad("auth is no text"))?;
                let (username, password) = text.split_once(':').ok_or_else(|| bad("auth has no colon"))?;
                (username.to_owned(), password.trim_end_matches('\0').to_owned())
            }
        };
        Ok((!username.is_empty() || !password.is_empty()).then_some(Credentials { username, password }))
    }
}

fn read<T: for<'a> Deserialize<'a>>(place: &str, content: &[u8]) -> Result<T, BadCredentials> {
    serde_json::from_slice(content).map_err(|error| BadCredentials {
        place: place.to_owned(),
        // The kind and place of the mistake, never the text around it.
        why: format!("no valid JSON at line {} column {}", error.line(), error.column()),
    })
}

/// A key without what does not count.
fn normal(key: &str) -> String {
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = path.trim_end_matches('/');
    if matches!(path, "" | "v1" | "v2") {
        return host.to_owned();
    }
    format!("{host}/{path}")
}

/// Whether a key fits a repository.
pub(super) fn fits(key: &str, repository: &str) -> bool {
    let split = |text: &str| -> (String, String, String) {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let ((key_host, key_port, key_path), (host, port, path)) = (split(key), split(repository));
    let (key_labels, labels): (Vec<_>, Vec<_>) = (key_host.split('.').collect(), host.split('.').collect());
    key_port == port
        && path.starts_with(&key_path)
        && key_labels.len() == labels.len()
        && key_labels
            .iter()
            .zip(&labels)
            .all(|(pattern, label)| glob(pattern, label))
}

/// `*` stands for any number of letters.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
