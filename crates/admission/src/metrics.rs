//! The numbers of the webhook server and of its certificates.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// All of them. The names that do not begin with `kruise` are the original's; dashboards know them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    latency: HistogramVec,
    requests: IntCounterVec,
    in_flight: IntGaugeVec,
    pub(crate) panics: IntCounter,
    pub(crate) connections: IntGauge,
    closed: IntCounterVec,
    pub(crate) expiry: IntGaugeVec,
    pub(crate) passes: IntCounterVec,
    pub(crate) repairs: IntCounterVec,
    pub(crate) template_checks: IntCounterVec,
    pub(crate) protected_workloads: IntCounterVec,
    pub(crate) protected_namespaces: IntCounterVec,
    pub(crate) protected_definitions: IntCounterVec,
    pub(crate) budget_refusals: IntCounterVec,
}

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauges = |name, help, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        let counters = |name, help, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let metrics = Self {
            latency: HistogramVec::new(
                Opts::new(
                    "controller_runtime_webhook_latency_seconds",
                    "How long admission requests took.",
                )
                .into(),
                &["webhook"],
            )?,
            requests: counters(
                "controller_runtime_webhook_requests_total",
                "Admission requests by HTTP status code.",
                &["webhook", "code"],
            )?,
            in_flight: gauges(
                "controller_runtime_webhook_requests_in_flight",
                "Admission requests that are being answered.",
                &["webhook"],
            )?,
            panics: IntCounter::new(
                "controller_runtime_webhook_panics_total",
                "Admission requests whose handler panicked.",
            )?,
            connections: IntGauge::new("kruise_webhook_connections", "Open connections of the webhook server.")?,
            closed: counters(
                "kruise_webhook_connections_closed_total",
                "Connections that the webhook server closed: idle for too long, crowded out by others, or refused.",
                &["reason"],
            )?,
            expiry: gauges(
                "kruise_webhook_certificate_expiry_timestamp_seconds",
                "When the certificates of the webhook server end.",
                &["certificate"],
            )?,
            passes: counters(
                "kruise_webhook_certificate_passes_total",
                "How often certificates and CA bundles were looked at.",
                &["result"],
            )?,
            repairs: counters(
                "kruise_webhook_ca_bundle_repairs_total",
                "How often the CA bundle of an object had to be written.",
                &["object"],
            )?,
            template_checks: counters(
                "kruise_webhook_template_checks_total",
                "Templates that were checked: by the API server, from memory, or not at all because it could not be asked.",
                &["result"],
            )?,
            protected_workloads: counters(
                "workload_deletion_protection",
                "Deletions of workloads that were refused because they are protected.",
                &["kind_namespace_name", "username"],
            )?,
            protected_namespaces: counters(
                "namespace_deletion_protection",
                "Deletions of namespaces that were refused because they are protected.",
                &["name", "username"],
            )?,
            protected_definitions: counters(
                "crd_deletion_protection",
                "Deletions of CRDs that were refused because they are protected.",
                &["name", "username"],
            )?,
            budget_refusals: counters(
                "pod_unavailable_budget",
                "Operations on Pods that a PodUnavailableBudget refused.",
                &["kind_namespace_name", "username"],
            )?,
        };
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.panics.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.expiry.clone()))?;
        for counters in [
            &metrics.requests,
            &metrics.closed,
            &metrics.passes,
            &metrics.repairs,
            &metrics.template_checks,
            &metrics.protected_workloads,
            &metrics.protected_namespaces,
            &metrics.protected_definitions,
            &metrics.budget_refusals,
        ] {
            registry.register(Box::new(counters.clone()))?;
        }
        Ok(metrics)
    }

    /// Counts a connection that we closed.
    pub(crate) fn closed(&self, reason: &str) {
        self.closed.with_label_values(&[reason]).inc();
    }

    /// The metrics of one path, looked up once.
    pub(crate) fn of_path(&self, path: &'static str) -> PathMetrics {
        PathMetrics {
            path,
            latency: self.latency.with_label_values(&[path]),
            in_flight: self.in_flight.with_label_values(&[path]),
            answered: self.requests.with_label_values(&[path, "200"]),
            requests: self.requests.clone(),
        }
    }
}

/// The metrics of one path.
#[derive(Debug)]
pub(crate) struct PathMetrics {
    path: &'static str,
    pub(crate) latency: Histogram,
    pub(crate) in_flight: IntGauge,
    answered: IntCounter,
    requests: IntCounterVec,
}

impl PathMetrics {
    pub(crate) fn count(&self, code: u16) {
        if code == 200 {
            self.answered.inc();
        } else {
            self.requests.with_label_values(&[self.path, &code.to_string()]).inc();
        }
    }
}
