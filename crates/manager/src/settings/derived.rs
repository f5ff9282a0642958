//! What parts of the process are told, in their own words.

use super::Settings;
use kruise_admission as admission;
use kruise_api::names::component::MANAGER_USER_AGENT;
use kruise_runtime::{lease::LeaseOptions, queue::Limits};

impl Settings {
    /// How the admission part is set up.
    pub fn admission(&self) -> admission::Settings {
        let environment = &self.environment;
        admission::Settings {
            namespace: environment.namespace.clone(),
            service_name: environment.service_name.clone(),
            secret_name: environment.secret_name.clone(),
            port: environment.webhook_port,
            host: environment.webhook_host.clone(),
            cert_dir: environment.webhook_cert_dir.clone(),
            cert_store: environment.cert_store,
            renew_before: environment.certs_renew_before,
            initialize_timeout: self.flags.process.webhook_initialize_timeout,
            allow_privileged: self.flags.rules.allow_privileged,
            ..admission::Settings::default()
        }
    }

    /// Which lease decides who leads; none when there is no election.
    pub fn lease(&self) -> Option<LeaseOptions> {
        let flags = &self.flags.election;
        let namespace = match flags.leader_election_namespace.as_str() {
            "" => &self.environment.namespace,
            given => given,
        };
        flags.enable_leader_election.then(|| LeaseOptions {
            lease_duration: flags.leader_election_lease_duration,
            renew_deadline: flags.leader_election_renew_deadline,
            retry_period: flags.leader_election_retry_period,
            ..LeaseOptions::new(MANAGER_USER_AGENT, namespace, &flags.leader_election_id)
        })
    }

    /// Writes per second and at once of each controller, when the user asked for a limit. A number that is none means what the original's client library has.
    pub fn rate(&self) -> Option<(f64, u32)> {
        let api = &self.flags.api;
        if api.rest_config_qps.is_none() && api.rest_config_burst.is_none() {
            return None;
        }
        let number = |given: Option<i64>, unless_given: u32, unless_positive: u32| match given {
            None => unless_given,
            Some(number) => u32::try_from(number)
                .ok()
                .filter(|number| *number > 0)
                .unwrap_or(unless_positive),
        };
        let rate = number(api.rest_config_qps, 30, 20);
        Some((f64::from(rate), number(api.rest_config_burst, 50, 30)))
    }

    /// How fast controllers with limits of their own try again.
    pub fn limits(&self) -> Limits {
        let api = &self.flags.api;
        let number = |given: i64| u32::try_from(given.max(0)).unwrap_or(u32::MAX);
        Limits {
            base_delay: api.rate_limiter_base_delay,
            max_delay: api.rate_limiter_max_delay,
            rate: f64::from(number(api.rate_limiter_qps)),
            burst: number(api.rate_limiter_bucket_size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_runtime::flags::parse;
    use std::time::Duration;

    fn settings(args: &[&str], variables: &[(&str, &str)]) -> Settings {
        let flags = parse(["manager"].iter().chain(args)).expect("flags");
        let variable = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        Settings::read(flags, variable).expect("settings")
    }

    #[test]
    fn given_flags_for_requests_then_only_what_was_asked_for_is_a_limit() {
        let rate = |args: &[&str]| settings(args, &[]).rate();
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&["--rest-config-qps=100"]), Some((100.0, 50)));
        assert_eq!(rate(&["--rest-config-burst=7"]), Some((30.0, 7)));
        assert_eq!(
            rate(&["--rest-config-qps=0", "--rest-config-burst=-1"]),
            Some((20.0, 30))
        );
    }

    #[test]
    fn given_the_election_then_the_lease_is_where_the_flags_say_or_in_our_own_namespace() {
        let here = [("POD_NAMESPACE", "here")];
        let place = |args: &[&str]| settings(args, &here).lease().map(|lease| lease.namespace);
        assert_eq!(place(&[]), Some("kruise-system".to_owned()));
        assert_eq!(place(&["--leader-election-namespace="]), Some("here".to_owned()));
        assert_eq!(place(&["--leader-election-namespace=there"]), Some("there".to_owned()));
        assert_eq!(place(&["--enable-leader-election=false"]), None);
        let lease = settings(&["--leader-election-lease-duration=30s"], &here)
            .lease()
            .expect("election");
        assert_eq!(
            (lease.lease_duration, lease.name.as_str()),
            (Duration::from_secs(30), "kruise-manager")
        );
    }

    #[test]
    fn given_flags_and_variables_of_the_webhooks_then_admission_is_told() {
        let variables = [
            ("POD_NAMESPACE", "n"),
            ("SERVICE_NAME", "s"),
            ("SECRET_NAME", "c"),
            ("WEBHOOK_PORT", "443"),
            ("WEBHOOK_HOST", "10.0.0.5"),
            ("CERTS_RENEW_BEFORE", "90d"),
        ];
        let derived = settings(
            &["--webhook-initialize-timeout=5s", "--allow-privileged=false"],
            &variables,
        )
        .admission();
        assert_eq!((derived.namespace.as_str(), derived.service_name.as_str()), ("n", "s"));
        assert_eq!((derived.secret_name.as_str(), derived.port), ("c", 443));
        assert_eq!(derived.host.as_deref(), Some("10.0.0.5"));
        assert_eq!(derived.cert_store, admission::CertStore::Directory);
        assert_eq!(derived.renew_before, Duration::from_hours(90 * 24));
        assert_eq!(derived.initialize_timeout, Duration::from_secs(5));
        assert!(!derived.allow_privileged);
    }
}
