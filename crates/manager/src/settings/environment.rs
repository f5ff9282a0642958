//! The environment variables of the manager. An empty variable counts as absent.

use super::SettingsError;
use kruise_admission::CertStore;
use kruise_api::names::{env, object};
use std::{path::PathBuf, time::Duration};

/// A variable, for the documentation.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    pub name: &'static str,
    pub default: &'static str,
    pub meaning: &'static str,
}

const fn variable(name: &'static str, default: &'static str, meaning: &'static str) -> Variable {
    Variable { name, default, meaning }
}

/// All variables the manager knows.
pub const VARIABLES: [Variable; 12] = [
    variable(
        env::POD_NAMESPACE,
        object::SYSTEM_NAMESPACE,
        "own namespace: certificate Secret, webhook Service and configuration are there",
    ),
    variable(
        env::DAEMON_CONFIG_NAMESPACE,
        object::DAEMON_CONFIG_NAMESPACE,
        "namespace that receives copies of pull Secrets",
    ),
    variable(
        env::WEBHOOK_PORT,
        "9876",
        "port of the webhook server; anything but a port number is fatal",
    ),
    variable(
        env::WEBHOOK_CERT_DIR,
        "/tmp/kruise-webhook-certs",
        "directory of the serving certificate",
    ),
    variable(
        env::WEBHOOK_HOST,
        "",
        "host under which the API server reaches the webhooks; empty means through the Service",
    ),
    variable(
        env::WEBHOOK_CERT_WRITER,
        "",
        "where certificates are kept: `fs` or `secret`; empty means `fs` with WEBHOOK_HOST and `secret` without",
    ),
    variable(
        env::SECRET_NAME,
        object::WEBHOOK_CERTS,
        "name of the certificate Secret",
    ),
    variable(
        env::SERVICE_NAME,
        object::WEBHOOK_SERVICE,
        "name of the webhook Service",
    ),
    variable(
        env::CERTS_RENEW_BEFORE,
        "180d",
        "how long before its end a certificate is renewed: days `d`, months of 30 days `m`, years of 365 days `y`",
    ),
    variable(
        env::CUSTOM_RESOURCE_ENABLE,
        "",
        "legacy list of kinds; set and without SidecarSet, the default of gate PodWebhook is false",
    ),
    variable(env::CACHE_MUTATION_DETECTOR, "", "accepted and ignored"),
    variable(env::KUBECONFIG, "", "kubeconfig files; `--kubeconfig` comes first"),
];

/// What the environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    pub namespace: String,
    pub daemon_config_namespace: String,
    pub webhook_port: u16,
    pub webhook_cert_dir: PathBuf,
    pub webhook_host: Option<String>,
    pub cert_store: CertStore,
    pub secret_name: String,
    pub service_name: String,
    pub certs_renew_before: Duration,
    pub custom_resource_enable: Option<String>,
}

impl Environment {
    pub(super) fn read(
        variable: impl Fn(&str) -> Option<String>,
        notices: &mut Vec<String>,
    ) -> Result<Self, SettingsError> {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let text = |name| given(name).unwrap_or_else(|| default_of(name).to_owned());
        let webhook_host = given(env::WEBHOOK_HOST);
        Ok(Self {
            namespace: text(env::POD_NAMESPACE),
            daemon_config_namespace: text(env::DAEMON_CONFIG_NAMESPACE),
            webhook_port: port(text(env::WEBHOOK_PORT))?,
            webhook_cert_dir: text(env::WEBHOOK_CERT_DIR).into(),
            cert_store: cert_store(
                given(env::WEBHOOK_CERT_WRITER).as_deref(),
                webhook_host.is_some(),
                notices,
            ),
            webhook_host,
            secret_name: text(env::SECRET_NAME),
            service_name: text(env::SERVICE_NAME),
            certs_renew_before: renew_before(&text(env::CERTS_RENEW_BEFORE), notices),
            custom_resource_enable: given(env::CUSTOM_RESOURCE_ENABLE),
        })
    }
}

fn default_of(name: &str) -> &'static str {
    VARIABLES
        .iter()
        .find(|variable| variable.name == name)
        .map_or("", |variable| variable.default)
}

fn port(value: String) -> Result<u16, SettingsError> {
    match value.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(SettingsError::Variable {
            name: env::WEBHOOK_PORT,
            value,
            rule: "must be a port number from 1 to 65535",
        }),
    }
}

fn cert_store(writer: Option<&str>, has_host: bool, notices: &mut Vec<String>) -> CertStore {
    match writer {
        Some("fs") => CertStore::Directory,
        None if has_host => CertStore::Directory,
        None | Some("secret") => CertStore::Secret,
        Some(other) => {
            notices.push(format!(
                "{}={other:?} is neither fs nor secret; secret is used",
                env::WEBHOOK_CERT_WRITER
            ));
            CertStore::Secret
        }
    }
}

const DAY: u64 = 24 * 60 * 60;

fn renew_before(text: &str, notices: &mut Vec<String>) -> Duration {
    let asked = [("d", 1), ("m", 30), ("y", 365)]
        .into_iter()
        .find_map(|(suffix, days)| {
            let number: u64 = text.strip_suffix(suffix)?.parse().ok()?;
            number
                .checked_mul(days)?
                .checked_mul(DAY)
                .filter(|seconds| *seconds > 0)
        });
    Duration::from_secs(asked.unwrap_or_else(|| {
        notices.push(format!(
            "{}={text:?} is not a number of days (90d), months (3m) or years (1y); 180 days are used",
            env::CERTS_RENEW_BEFORE
        ));
        180 * DAY
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Result<Environment, SettingsError>, Vec<String>) {
        let mut notices = Vec::new();
        let environment = Environment::read(
            |name| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            },
            &mut notices,
        );
        (environment, notices)
    }

    #[test]
    fn given_nothing_or_empty_variables_then_defaults() {
        let expected = Environment {
            namespace: "kruise-system".to_owned(),
            daemon_config_namespace: "kruise-daemon-config".to_owned(),
            webhook_port: 9876,
            webhook_cert_dir: "/tmp/kruise-webhook-certs".into(),
            webhook_host: None,
            cert_store: CertStore::Secret,
            secret_name: "kruise-webhook-certs".to_owned(),
            service_name: "kruise-webhook-service".to_owned(),
            certs_renew_before: Duration::from_secs(180 * DAY),
            custom_resource_enable: None,
        };
        assert_eq!(read(&[]), (Ok(expected.clone()), vec![]));
        let empty = VARIABLES.map(|variable| (variable.name, ""));
        assert_eq!(read(&empty), (Ok(expected), vec![]));
    }

    #[test]
    fn given_a_port_then_only_port_numbers_will_do() {
        assert_eq!(
            read(&[(env::WEBHOOK_PORT, "443")]).0.map(|read| read.webhook_port),
            Ok(443)
        );
        for bad in ["https", "0", "65536", "-1", "98 76"] {
            let message = read(&[(env::WEBHOOK_PORT, bad)]).0.expect_err(bad).to_string();
            assert_eq!(
                message,
                format!("WEBHOOK_PORT={bad:?}: must be a port number from 1 to 65535")
            );
        }
    }

    #[test]
    fn given_host_and_writer_then_certificates_are_kept_where_the_table_says() {
        let table = [
            ("", "", CertStore::Secret, 0),
            ("10.0.0.5", "", CertStore::Directory, 0),
            ("10.0.0.5", "secret", CertStore::Secret, 0),
            ("", "fs", CertStore::Directory, 0),
            ("", "disk", CertStore::Secret, 1),
        ];
        for (host, writer, store, notes) in table {
            let (environment, notices) = read(&[(env::WEBHOOK_HOST, host), (env::WEBHOOK_CERT_WRITER, writer)]);
            assert_eq!(
                environment.map(|read| read.cert_store),
                Ok(store),
                "{host:?} {writer:?}"
            );
            assert_eq!(notices.len(), notes, "{notices:?}");
        }
    }

    #[test]
    fn given_renewal_times_then_days_months_and_years_are_read_and_the_rest_is_180_days_with_a_notice() {
        let days = |text: &str| {
            let (environment, notices) = read(&[(env::CERTS_RENEW_BEFORE, text)]);
            (
                environment.map(|read| read.certs_renew_before.as_secs() / DAY),
                notices.len(),
            )
        };
        assert_eq!(days("90d"), (Ok(90), 0));
        assert_eq!(days("3m"), (Ok(90), 0));
        assert_eq!(days("1y"), (Ok(365), 0));
        for bad in [
            "0d",
            "-1d",
            "90",
            "d",
            "1w",
            "1.5y",
            "99999999999999999999y",
            "999999999999999999y",
        ] {
            assert_eq!(days(bad), (Ok(180), 1), "{bad}");
        }
    }
}
