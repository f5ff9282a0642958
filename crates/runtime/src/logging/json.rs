//! Entries as JSON with the keys that klog uses, so that what collects the logs of Kubernetes understands ours:
//!
//! | key | |
//! |---|---|
//! | `ts` | milliseconds since 1970, with a fraction |
//! | `caller` | file and line |
//! | `msg` | the message |
//! | `v` | the verbosity at which it is said (see [`super`]): 0, 4 or 5; an error has none |
//! | others | what the entry is about |

use std::fmt::{self, Debug};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes entries.
pub(super) struct Entries;

impl<S, N> FormatEvent<S, N> for Entries
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = entry(event.metadata(), now.as_secs_f64() * 1000.0, fields);
        writeln!(writer, "{entry}")
    }
}

fn entry(metadata: &Metadata<'_>, millis: f64, fields: Fields) -> Value {
    let file = metadata.file().map(Path::new).and_then(Path::file_name);
    let file = file.map_or_else(|| "unknown".into(), |file| file.to_string_lossy());
    let mut entry = Map::new();
    entry.insert("ts".to_owned(), json!((millis * 1000.0).round() / 1000.0));
    entry.insert(
        "caller".to_owned(),
        format!("{file}:{}", metadata.line().unwrap_or(0)).into(),
    );
    entry.insert("msg".to_owned(), fields.message.into());
    let verbosity = match *metadata.level() {
        Level::ERROR => None,
        Level::WARN | Level::INFO => Some(0),
        Level::DEBUG => Some(4),
        Level::TRACE => Some(5),
    };
    if let Some(verbosity) = verbosity {
        entry.insert("v".to_owned(), verbosity.into());
    }
    for (name, value) in fields.others {
        entry.entry(name).or_insert(value);
    }
    Value::Object(entry)
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.others.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn given_entries_then_their_keys_are_those_of_klog() {
        let lines = Lines::default();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(Entries)
            .with_writer(lines.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(kind = %"pods", count = 3, msg = "not this", "told {}", "once");
            tracing::debug!(is_it = true, "decided");
            tracing::error!("wrong\nin two lines");
        });
        let text = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("text");
        let mut entries: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for entry in &mut entries {
            let entry = entry.as_object_mut().expect("an object");
            let caller = entry.remove("caller").expect("a caller");
            assert!(
                caller.as_str().is_some_and(|caller| caller.starts_with("json.rs:")),
                "{caller}"
            );
            let ts = entry.remove("ts").and_then(|ts| ts.as_f64()).expect("a time");
            assert!(ts > 1.6e12, "{ts}");
        }
        assert_eq!(
            entries,
            [
                json!({"msg": "told once", "v": 0, "kind": "pods", "count": 3}),
                json!({"msg": "decided", "v": 4, "is_it": true}),
                json!({"msg": "wrong\nin two lines"}),
            ]
        );
    }
}
