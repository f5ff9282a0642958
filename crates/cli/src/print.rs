//! How objects are printed: by name, as JSON or as YAML; and colours, which are for terminals only.

use crate::{server::Object, text::visible_lines};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use kruise_core::view::Tone;
use serde_json::{Value, json};

/// How to print objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
    Name,
    Wide,
}

/// How to print objects that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Written {
    Json,
    Yaml,
    Name,
}

impl From<Written> for Format {
    fn from(format: Written) -> Self {
        match format {
            Written::Json => Self::Json,
            Written::Yaml => Self::Yaml,
            Written::Name => Self::Name,
        }
    }
}

/// Several objects in one document; only one of them stands alone.
pub(crate) fn many(objects: &[Object], format: Format, is_one: bool) -> Result<String> {
    match objects {
        _ if matches!(format, Format::Name | Format::Wide) => items(objects, format),
        [object] if is_one => items(std::slice::from_ref(object), format),
        objects => {
            let items: Vec<Value> = objects.iter().map(plain).collect();
            document(
                &json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}),
                format,
            )
        }
    }
}

/// Each object for itself.
pub(crate) fn items(objects: &[Object], format: Format) -> Result<String> {
    let mut text = String::new();
    for (place, object) in objects.iter().enumerate() {
        if format == Format::Yaml && place > 0 {
            text.push_str("---\n");
        }
        text.push_str(&match format {
            Format::Name | Format::Wide => visible_lines(&format!("{}\n", object.printed())),
            format => document(&plain(object), format)?,
        });
    }
    Ok(text)
}

/// An object without what nobody reads.
fn plain(object: &Object) -> Value {
    let mut value = object.value.clone();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    value
}

/// A document of JSON or YAML. Both write control characters as escapes.
pub(crate) fn document(value: &Value, format: Format) -> Result<String> {
    let text = match format {
        Format::Yaml => serde_saphyr::to_string(value).context("it cannot be written as YAML")?,
        _ => format!("{value:#}\n"),
    };
    Ok(visible_lines(&text))
}

/// Whether there are colours: on a terminal, unless the user wants none.
pub(crate) fn is_coloured(is_terminal: bool) -> bool {
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !wants_none && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A text in the colour of its tone.
pub(crate) fn paint(tone: Tone, text: &str) -> String {
    let colour = match tone {
        Tone::Good => 32,
        Tone::Busy => 36,
        Tone::Held => 33,
        Tone::Bad => 31,
        Tone::Quiet => 90,
    };
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn object(name: &str) -> Object {
        let value = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": name, "managedFields": [{}]}});
        Object {
            kind: kinds::resolve("clone").unwrap().0,
            version: "v1beta1",
            value,
        }
    }

    #[test]
    fn objects_are_printed_as_kubectl_prints_them() {
        let (one, two) = (object("a"), object("b"));
        let both = [one.clone(), two];
        assert_eq!(
            many(&both, Format::Name, false).unwrap(),
            "cloneset.apps.kruise.io/a\ncloneset.apps.kruise.io/b\n"
        );
        let read = |text: String| -> Value { serde_saphyr::from_str(&text).unwrap() };
        for format in [Format::Json, Format::Yaml] {
            let alone = read(many(std::slice::from_ref(&one), format, true).unwrap());
            assert_eq!(alone["metadata"], json!({"name": "a"}));
            let list = read(many(std::slice::from_ref(&one), format, false).unwrap());
            assert_eq!(
                (&list["kind"], list["items"].as_array().unwrap().len()),
                (&json!("List"), 1)
            );
        }
        assert!(items(&both, Format::Yaml).unwrap().contains("\n---\n"));
    }

    #[test]
    fn colours_are_for_terminals() {
        assert!(!is_coloured(false));
        assert_eq!(paint(Tone::Bad, "Failed"), "\u{1b}[31mFailed\u{1b}[0m");
    }
}
