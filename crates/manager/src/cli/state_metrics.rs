//! The flags of the state metrics: those of `kruise-state-metrics` that shape its pages.

use kruise_core::state_metrics::{Options, OptionsError};
use kruise_runtime::flags::{Bind, parse_bind};

/// What is told about objects, and where.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "State metrics")]
pub struct StateMetricsFlags {
    /// Where /metrics tells about the objects of our kinds, for example :8081; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_bind)]
    pub state_metrics_addr: Bind,
    /// Kinds to tell about, as plurals with commas between; empty means all
    #[arg(long, value_name = "PLURALS", default_value = "")]
    pub resources: String,
    /// Families to tell, as regular expressions with commas between; any part of the name may match
    #[arg(long, value_name = "EXPRESSIONS", default_value = "")]
    pub metric_allowlist: String,
    /// Families not to tell; cannot be used with the allow list
    #[arg(long, value_name = "EXPRESSIONS", default_value = "")]
    pub metric_denylist: String,
    /// Labels of objects that their labels family has: `clonesets=[team,app],statefulsets=[*]`
    #[arg(long, value_name = "KEYS", default_value = "")]
    pub metric_labels_allowlist: String,
    /// Annotations of objects that their annotations family has, in the same form
    #[arg(long, value_name = "KEYS", default_value = "")]
    pub metric_annotations_allowlist: String,
}

impl StateMetricsFlags {
    /// Reads the flags that shape pages; an error comes with the flag that is wrong.
    pub(crate) fn options(&self) -> Result<Options, (&'static str, OptionsError)> {
        let at = |flag: &'static str| move |error: OptionsError| (flag, error);
        Options::default()
            .resources(&self.resources)
            .map_err(at("--resources"))?
            .families(&self.metric_allowlist, &self.metric_denylist)
            .map_err(at("--metric-allowlist, --metric-denylist"))?
            .allow_labels(&self.metric_labels_allowlist)
            .map_err(at("--metric-labels-allowlist"))?
            .allow_annotations(&self.metric_annotations_allowlist)
            .map_err(at("--metric-annotations-allowlist"))
    }
}
