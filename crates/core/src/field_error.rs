//! Errors about fields of a user's object, worded as Kubernetes words them:
//! `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
//!
//! - The path names the field from the root of the object, list items by index (`spec.containers[0].image`), map entries by key (`spec.selector[app]`).
//! - What is wrong comes next, then the value that was given where it helps, then the detail.
//! - Several errors are told together in brackets, each once, in the order in which they were found.

use serde_json::Value;
use std::fmt;

/// Where a field is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A field at the root of the object.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The object itself.
    pub fn root() -> Self {
        Self(String::new())
    }

    /// A field below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let dot = if self.0.is_empty() { "" } else { "." };
        Self(format!("{}{dot}{name}", self.0))
    }

    /// An item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Forbidden,
    Duplicate,
    NotFound,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

const KINDS: [(FieldErrorKind, &str, &str); 10] = [
    (FieldErrorKind::Required, "FieldValueRequired", "Required value"),
    (FieldErrorKind::Invalid, "FieldValueInvalid", "Invalid value"),
    (
        FieldErrorKind::NotSupported,
        "FieldValueNotSupported",
        "Unsupported value",
    ),
    (FieldErrorKind::Forbidden, "FieldValueForbidden", "Forbidden"),
    (FieldErrorKind::Duplicate, "FieldValueDuplicate", "Duplicate value"),
    (FieldErrorKind::NotFound, "FieldValueNotFound", "Not found"),
    (FieldErrorKind::TooLong, "FieldValueTooLong", "Too long"),
    (FieldErrorKind::TooMany, "FieldValueTooMany", "Too many"),
    (FieldErrorKind::TypeInvalid, "FieldValueTypeInvalid", "Invalid value"),
    (FieldErrorKind::Internal, "InternalError", "Internal error"),
];

impl FieldErrorKind {
    fn row(self) -> (&'static str, &'static str) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self);
        row.map_or(("InternalError", "Internal error"), |(_, reason, text)| (reason, text))
    }

    /// The name in `details.causes[].reason` of a refusal.
    pub fn reason(self) -> &'static str {
        self.row().0
    }

    /// The kind of this name.
    pub fn by_reason(reason: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, _)| *known == reason).map(|row| row.0)
    }
}

/// One error about one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub path: String,
    pub kind: FieldErrorKind,
    /// What is said after the path.
    pub body: String,
}

impl FieldError {
    /// The field has to be there.
    pub fn required(path: &Path, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    /// The value cannot be used.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.into()), detail)
    }

    /// The value is none of those that are known.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let known: Vec<_> = supported.iter().map(|value| quoted(value)).collect();
        let detail = match known.as_slice() {
            [] => String::new(),
            known => format!("supported values: {}", known.join(", ")),
        };
        Self::new(path, FieldErrorKind::NotSupported, Some(value.into()), &detail)
    }

    /// The field may not be set, or not be changed, under these circumstances.
    pub fn forbidden(path: &Path, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    /// The value is there twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, Some(value.into()), "")
    }

    /// What the value names does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::NotFound, Some(value.into()), "")
    }

    /// The value has more than `most` bytes; it is not repeated.
    pub fn too_long(path: &Path, most: usize) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {most} {unit}");
        Self::new(path, FieldErrorKind::TooLong, None, &detail)
    }

    /// The list has more than `most` items.
    pub fn too_many(path: &Path, count: usize, most: usize) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {unit}");
        Self::new(path, FieldErrorKind::TooMany, Some(count.into()), &detail)
    }

    /// The value could not be judged; not the user's fault.
    pub fn internal(path: &Path, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Internal, None, detail)
    }

    fn new(path: &Path, kind: FieldErrorKind, value: Option<Value>, detail: &str) -> Self {
        let mut body = kind.row().1.to_owned();
        if let Some(value) = value {
            body.push_str(": ");
            body.push_str(&shown(&value));
        }
        if !detail.is_empty() {
            body.push_str(": ");
            body.push_str(detail);
        }
        Self {
            path: path.0.clone(),
            kind,
            body,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body)
    }
}

/// All that is wrong with an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        self.0.extend(errors);
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::with_capacity(self.0.len());
        for error in &self.0 {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [one] => f.write_str(one),
            [] => Ok(()),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

/// Text in quotes, anything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Text in double quotes, with what cannot be printed written as Go writes it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for sign in text.chars() {
        match sign {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            sign if sign.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(sign))),
            '\'' => out.push('\''),
            // What Rust would have to escape cannot be printed.
            sign if sign.escape_debug().count() == 1 => out.push(sign),
            sign if u32::from(sign) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(sign))),
            sign => out.push_str(&format!("\\U{:08x}", u32::from(sign))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_read_as_those_of_kubernetes() {
        let path = Path::new("spec").child("items").index(2).key("a/b").child("name");
        let text_of = |error: FieldError| error.to_string().replace("spec.items[2][a/b].name", "_");
        for (error, text) in [
            (FieldError::required(&path, ""), "_: Required value"),
            (FieldError::required(&path, "say it"), "_: Required value: say it"),
            (
                FieldError::invalid(&path, -1, "too low"),
                "_: Invalid value: -1: too low",
            ),
            (FieldError::invalid(&path, true, ""), "_: Invalid value: true"),
            (FieldError::invalid(&path, Value::Null, ""), "_: Invalid value: null"),
            (
                FieldError::invalid(&path, json!({"b": [1], "a": "x"}), "odd"),
                "_: Invalid value: {\"a\":\"x\",\"b\":[1]}: odd",
            ),
            (
                FieldError::not_supported(&path, "C", &["A", "B"]),
                "_: Unsupported value: \"C\": supported values: \"A\", \"B\"",
            ),
            (
                FieldError::not_supported(&path, "C", &[]),
                "_: Unsupported value: \"C\"",
            ),
            (FieldError::forbidden(&path, "no"), "_: Forbidden: no"),
            (FieldError::duplicate(&path, "x"), "_: Duplicate value: \"x\""),
            (FieldError::not_found(&path, "x"), "_: Not found: \"x\""),
            (
                FieldError::too_long(&path, 63),
                "_: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_long(&path, 1),
                "_: Too long: may not be more than 1 byte",
            ),
            (
                FieldError::too_many(&path, 3, 2),
                "_: Too many: 3: must have at most 2 items",
            ),
            (FieldError::internal(&path, "broken"), "_: Internal error: broken"),
        ] {
            assert_eq!(text_of(error), text);
        }
    }

    #[test]
    fn given_several_errors_then_each_is_told_once_in_order() {
        let (a, b) = (
            FieldError::required(&Path::new("a"), ""),
            FieldError::required(&Path::new("b"), ""),
        );
        let text =
            |errors: &[&FieldError]| FieldErrors(errors.iter().map(|error| (*error).clone()).collect()).to_string();
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[&a]), "a: Required value");
        assert_eq!(text(&[&a, &a]), "a: Required value");
        assert_eq!(text(&[&b, &a, &b]), "[b: Required value, a: Required value]");
    }

    #[test]
    fn given_text_that_cannot_be_printed_then_it_is_quoted_as_go_does() {
        for (text, expected) in [
            ("plain 'x' ü", "\"plain 'x' ü\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("\n\t\r\u{7}\u{8}\u{b}\u{c}", "\"\\n\\t\\r\\a\\b\\v\\f\""),
            ("\u{1}\u{7f}", "\"\\x01\\x7f\""),
            ("\u{200b}\u{e0001}", "\"\\u200b\\U000e0001\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn every_kind_is_found_by_its_reason() {
        for (kind, reason, _) in KINDS {
            assert_eq!(FieldErrorKind::by_reason(reason), Some(kind));
            assert_eq!(kind.reason(), reason);
        }
        assert_eq!(FieldErrorKind::by_reason("Conflict"), None);
    }
}
