//! The numbers a process tells about itself, under the names dashboards know.
//!
//! One registry per process. It always has `process_*` and `kruise_build_info`; the parts of the process add their own.

mod process;

use prometheus::{Encoder as _, IntGauge, Opts, Registry, TextEncoder};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Returns a registry with what every process of ours tells. `component` is the name of the program.
pub fn registry(component: &str, version: &str) -> prometheus::Result<Registry> {
    let registry = Registry::new();
    registry.register(Box::new(process::ProcessCollector::new()?))?;
    let build = IntGauge::with_opts(
        Opts::new("kruise_build_info", "Always 1; the labels say what is running.")
            .const_label("component", component)
            .const_label("version", version),
    )?;
    build.set(1);
    registry.register(Box::new(build))?;
    Ok(registry)
}

/// Returns all metrics in the Prometheus text format.
pub fn render(registry: &Registry) -> prometheus::Result<String> {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_new_registry_then_it_tells_about_the_process_and_the_build() {
        let registry = registry("kruise-test", "1.2.3").expect("registry");
        let text = render(&registry).expect("text");
        assert!(
            text.contains("kruise_build_info{component=\"kruise-test\",version=\"1.2.3\"} 1\n"),
            "{text}"
        );
        for name in [
            "process_cpu_seconds_total",
            "process_max_fds",
            "process_open_fds",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
            "process_virtual_memory_bytes",
        ] {
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")))
                .unwrap_or_else(|| panic!("{name} is missing in:\n{text}"));
            let value: f64 = value.parse().expect(name);
            assert!(value >= 0.0 && value.is_finite(), "{name} {value}");
        }
    }
}
