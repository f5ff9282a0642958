//! Limits and requests of containers.

use super::{Target, containers, is_like, pod_specs_or_error};
use crate::{
    change::{Decision, set},
    server::Object,
};
use anyhow::{Result, bail};
use kruise_core::shared::quantity;
use serde_json::json;

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise set resources cloneset/web --limits cpu=1,memory=1Gi --requests cpu=500m\n  \
                  kubectl kruise set resources asts/db -c main --requests memory=2Gi"
)]
pub(crate) struct Resources {
    #[command(flatten)]
    pub(super) target: Target,
    /// Containers by name, in which `*` stands for anything
    #[arg(short, long, value_name = "PATTERN", default_value = "*")]
    containers: String,
    /// What containers may use at most, as `cpu=1,memory=1Gi`
    #[arg(long, value_name = "RESOURCES", default_value = "")]
    limits: String,
    /// What containers ask for, as `cpu=1,memory=1Gi`
    #[arg(long, value_name = "RESOURCES", default_value = "")]
    requests: String,
}

/// What is wanted of which containers.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) containers: String,
    pub(super) limits: Vec<(String, String)>,
    pub(super) requests: Vec<(String, String)>,
}

impl Resources {
    /// # Errors
    /// When an amount cannot be read, or there is none.
    pub(super) fn read(&self) -> Result<Wanted> {
        let wanted = Wanted {
            containers: self.containers.clone(),
            limits: amounts(&self.limits)?,
            requests: amounts(&self.requests)?,
        };
        if wanted.limits.is_empty() && wanted.requests.is_empty() {
            bail!("you must specify an update to requests or limits (in the form of --requests/--limits)");
        }
        Ok(wanted)
    }
}

/// Reads `cpu=1,memory=1Gi`.
pub(super) fn amounts(text: &str) -> Result<Vec<(String, String)>> {
    let mut amounts = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, amount)) = pair.split_once('=') else {
            bail!("{pair:?} is not of the form RESOURCE=AMOUNT");
        };
        let Some(amount) = quantity::canonical(amount.trim()) else {
            bail!("{amount:?} is not an amount, such as 500m, 2 or 1Gi");
        };
        amounts.push((name.trim().to_owned(), amount));
    }
    Ok(amounts)
}

/// The object with these amounts; others stay as they are.
///
/// # Errors
/// When no container is meant.
pub(super) fn decide(object: &Object, wanted: &Wanted) -> Result<Decision> {
    let mut after = object.value.clone();
    let mut is_found = false;
    for pod in pod_specs_or_error(object)? {
        for container in containers(&mut after, &pod, "containers") {
            let name = container["name"].as_str().unwrap_or_default();
            if !is_like(name, &wanted.containers) {
                continue;
            }
            is_found = true;
            for (field, amounts) in [("limits", &wanted.limits), ("requests", &wanted.requests)] {
                for (name, amount) in amounts {
                    set(container, &["resources", field, name], json!(amount));
                }
            }
        }
    }
    if !is_found {
        bail!("unable to find container named {:?}", wanted.containers);
    }
    Ok(Decision::Become(after))
}
