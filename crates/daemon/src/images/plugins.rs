//! Credential plugins, the same that the kubelet uses.
//!
//! - A file of kind `CredentialProviderConfig` names programs and the images they know about. No file: no plugins. A file that makes no
//!   sense is told once, and the daemon goes on without it.
//! - A program gets the image on its input and answers with names and passwords on its output, within a minute. One that fails gives
//!   nothing.
//! - Answers are kept as long as they say, for the image, for its registry, or for all images.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kruise_runtime::flags::parse_duration;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::Instant;

use super::keyring::{Keyring, fits};
use kruise_cri::Credentials;

/// Longest time for one program.
const DEADLINE: Duration = Duration::from_mins(1);

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    kind: String,
    providers: Vec<Provider>,
}

/// One plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Provider {
    name: String,
    match_images: Vec<String>,
    default_cache_duration: String,
    api_version: String,
    args: Vec<String>,
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    value: String,
}

/// What a program answers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    cache_key_type: String,
    cache_duration: Option<String>,
    auth: Option<BTreeMap<String, Login>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Login {
    username: String,
    password: String,
}

/// All plugins of the node.
#[derive(Debug, Default)]
pub(super) struct Plugins {
    folder: PathBuf,
    providers: Vec<Provider>,
    known: Mutex<HashMap<(String, String), (Instant, Keyring)>>,
}

impl Plugins {
    /// Reads the file.
    pub(super) fn read(file: &Path, folder: &Path) -> Self {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::default(),
            Err(error) => {
                tracing::warn!(file = %file.display(), "credential plugins are not used: {error}");
                return Self::default();
            }
        };
        match parse(&text) {
            Ok(providers) => Self {
                folder: folder.to_owned(),
                providers,
                known: Mutex::default(),
            },
            Err(why) => {
                tracing::warn!(file = %file.display(), "credential plugins are not used: {why}");
                Self::default()
            }
        }
    }

    /// What the plugins know of an image; `repository` is its name with the registry.
    pub(super) async fn find(&self, repository: &str) -> Vec<Credentials> {
        let mut found = Vec::new();
        let fitting = self
            .providers
            .iter()
            .filter(|provider| provider.match_images.iter().any(|key| fits(key, repository)));
        for provider in fitting {
            if let Some(ring) = self.known(provider, repository) {
                found.extend(ring.find(repository));
                continue;
            }
            match self.ask(provider, repository).await {
                Ok(ring) => found.extend(ring.find(repository)),
                Err(why) => tracing::warn!(plugin = provider.name, "a credential plugin gave nothing: {why}"),
            }
        }
        found
    }

    fn known(&self, provider: &Provider, repository: &str) -> Option<Keyring> {
        let mut known = self.known.lock();
        known.retain(|_, (until, _)| *until > Instant::now());
        let keys = [repository, registry(repository), ""];
        keys.iter()
            .find_map(|key| known.get(&(provider.name.clone(), (*key).to_owned())))
            .map(|(_, ring)| ring.clone())
    }

    async fn ask(&self, provider: &Provider, repository: &str) -> Result<Keyring, String> {
        let request = json!({
            "kind": "CredentialProviderRequest", "apiVersion": provider.api_version, "image": repository,
        });
        let program = self.folder.join(&provider.name);
        let run = execute(&program, provider, request.to_string());
        let output = tokio::time::timeout(DEADLINE, run)
            .await
            .map_err(|_| format!("no answer within {DEADLINE:?}"))??;
        let answer: Answer = serde_json::from_slice(&output)
            .map_err(|error| format!("its answer is no valid JSON at line {}", error.line()))?;
        let mut ring = Keyring::default();
        for (key, login) in answer.auth.unwrap_or_default() {
            ring.add(
                &key,
                Credentials {
                    username: login.username,
                    password: login.password,
                },
            );
        }
        let key = match answer.cache_key_type.as_str() {
            "Image" => repository,
            "Registry" => registry(repository),
            "Global" => "",
            other => return Err(format!("its answer has the cacheKeyType {other:?}")),
        };
        let kept = answer
            .cache_duration
            .as_deref()
            .unwrap_or(&provider.default_cache_duration);
        if let Some(kept) = parse_duration(kept).ok().filter(|kept| !kept.is_zero()) {
            let entry = (Instant::now() + kept, ring.clone());
            self.known.lock().insert((provider.name.clone(), key.to_owned()), entry);
        }
        Ok(ring)
    }
}

fn registry(repository: &str) -> &str {
    repository.split_once('/').map_or(repository, |(registry, _)| registry)
}

async fn execute(program: &Path, provider: &Provider, input: String) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .args(&provider.args)
        .envs(provider.env.iter().map(|variable| (&variable.name, &variable.value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may still answer.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let ended = child.wait_with_output().await.map_err(|error| error.to_string())?;
    if ended.status.success() {
        Ok(ended.stdout)
    } else {
        Err(format!("it ended with {}", ended.status))
    }
}

/// The plugins of a file that can be used.
fn parse(text: &str) -> Result<Vec<Provider>, String> {
    let config: Config = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    if config.kind != "CredentialProviderConfig" {
        return Err(format!("kind is {:?}, not CredentialProviderConfig", config.kind));
    }
    for provider in &config.providers {
        let name = &provider.name;
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', ' ']) {
            return Err(format!("provider {name:?}: the name has to be that of a file"));
        }
        if !provider.api_version.starts_with("credentialprovider.kubelet.k8s.io/v1") {
            return Err(format!(
                "provider {name:?}: apiVersion {:?} is not known",
                provider.api_version
            ));
        }
        if provider.match_images.is_empty() {
            return Err(format!("provider {name:?}: matchImages is empty"));
        }
    }
    Ok(config.providers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const CONFIG: &str = "\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: give
  matchImages: ['*.example.com', 'reg.example.com:5000/a']
  defaultCacheDuration: 5m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [--x]
  env: [{name: WHO, value: me}]
";

    #[test]
    fn given_files_then_only_sensible_ones_are_used() {
        assert_eq!(parse(CONFIG).expect("valid").len(), 1);
        for (from, to, part) in [
            ("CredentialProviderConfig", "Other", "kind is \"Other\""),
            ("name: give", "name: a/b", "\"a/b\": the name has to be that of a file"),
            ("name: give", "name: ''", "\"\": the name has to be that of a file"),
            (
                "credentialprovider.kubelet.k8s.io/v1",
                "v1",
                "apiVersion \"v1\" is not known",
            ),
            (
                "['*.example.com', 'reg.example.com:5000/a']",
                "[]",
                "matchImages is empty",
            ),
            ("providers:", "providers: [", "line 4"),
        ] {
            let error = parse(&CONFIG.replace(from, to)).expect_err(to);
            assert!(error.contains(part), "{part:?} in {error}");
        }
        let nowhere = Plugins::read(Path::new("no-such-file"), Path::new("x"));
        assert!(nowhere.providers.is_empty());
    }

    fn plugin(folder: &Path, script: &str) -> Plugins {
        let program = folder.join("give");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let file = folder.join("config.yaml");
        std::fs::write(&file, CONFIG).expect("written");
        Plugins::read(&file, folder)
    }

    #[tokio::test]
    async fn given_a_program_then_it_is_asked_once_and_its_answer_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let asked = folder.path().join("asked");
        let plugins = plugin(
            folder.path(),
            &format!(
                "cat >> {}\necho '{{\"cacheKeyType\":\"Registry\",\"auth\":{{\"*.example.com\":{{\"username\":\"'$WHO$1'\",\"password\":\"p\"}}}}}}'",
                asked.display()
            ),
        );
        for image in ["reg.example.com/a", "reg.example.com/b"] {
            let found = plugins.find(image).await;
            assert_eq!(found.len(), 1, "{image}");
            assert_eq!(found[0].username, "me--x");
        }
        assert!(plugins.find("other.org/a").await.is_empty());
        let asked = std::fs::read_to_string(asked).expect("asked");
        assert_eq!(asked.matches("CredentialProviderRequest").count(), 1, "{asked}");
        assert!(asked.contains("reg.example.com/a"), "{asked}");
    }

    #[tokio::test]
    async fn given_a_program_that_fails_then_it_gives_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let asked = folder.path().join("asked");
        let good = r#"echo '{"cacheKeyType":"Moon","auth":{"*.example.com":{"username":"u","password":"p"}}}'"#;
        for (script, count) in [
            ("exit 1", 0),
            ("echo hello", 0),
            (good, 0),
            (&format!("{good}; exit 1"), 0),
            (&good.replace("Moon", "Image"), 1),
        ] {
            let script = format!("echo >> {}\n{script}", asked.display());
            let found = plugin(folder.path(), &script).find("reg.example.com/a").await;
            assert_eq!(found.len(), count, "{script}");
        }
        let asked = std::fs::read_to_string(asked).expect("asked");
        assert_eq!(asked.lines().count(), 5, "each was run");
    }
}
