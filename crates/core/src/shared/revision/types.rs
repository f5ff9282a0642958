//! How the Kubernetes types of a Pod template and a claim are written.
//!
//! The original holds templates in Go types and hashes what these write. To get the same bytes we need to know of each field whether it is known at
//! all, whether it is left out when empty, and in which order it comes. That is the table `types.txt`.
//!
//! Fields that Kubernetes 1.32 does not know are dropped, as the original drops them: whoever switches must not see every Pod restarted because of a
//! field that was not counted before. What has another type than it should is kept as it is; the API server will complain about it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::shared::quantity;

/// One field of a type.
struct Field {
    name: &'static str,
    omit_empty: bool,
    form: Form,
}

/// What a field holds.
enum Form {
    Text,
    Number,
    Flag,
    Quantity,
    NumberOrText,
    Time,
    Anything,
    Struct(&'static str),
    Optional(Box<Form>),
    List(Box<Form>),
    MapOf(Box<Form>),
}

/// Fields by name of the type, in the order in which they are written.
static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(read_type).collect()
});

fn read_type(line: &'static str) -> Option<(&'static str, Vec<Field>)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let field = |word: &'static str| {
        let (name, form) = word.split_once(':')?;
        Some(Field {
            name: name.trim_end_matches('?'),
            omit_empty: name.ends_with('?'),
            form: read_form(form),
        })
    };
    Some((name, words.filter_map(field).collect()))
}

fn read_form(text: &'static str) -> Form {
    let inner = |from: usize| text.get(from..text.len() - 1).unwrap_or_default();
    match text.as_bytes() {
        b"s" => Form::Text,
        b"n" => Form::Number,
        b"b" => Form::Flag,
        b"q" => Form::Quantity,
        b"i" => Form::NumberOrText,
        b"t" => Form::Time,
        b"x" => Form::Anything,
        [b'*', ..] => Form::Optional(Box::new(read_form(text.trim_start_matches('*')))),
        [b'[', ..] => Form::List(Box::new(read_form(inner(1)))),
        [b'{', ..] => Form::MapOf(Box::new(read_form(inner(1)))),
        _ => Form::Struct(text),
    }
}

/// A value as the type of this name writes it, with keys sorted.
pub(crate) fn normal(type_name: &str, value: &Value) -> Value {
    Value::Object(written(type_name, value).into_iter().collect())
}

/// The fields as the type writes them, in its order.
pub(super) fn written(type_name: &str, value: &Value) -> Vec<(String, Value)> {
    let empty = Map::new();
    let given = value.as_object().unwrap_or(&empty);
    let fields = TYPES.get(type_name).into_iter().flatten();
    let written = fields.filter_map(|field| {
        let value = given.get(field.name).unwrap_or(&Value::Null);
        let value = field.form.normal(value, field.omit_empty)?;
        Some((field.name.to_owned(), value))
    });
    written.collect()
}

/// A value as text with the fields in the order of the types, as Go writes it before keys are sorted.
pub(crate) fn in_type_order(type_name: &str, value: &Value) -> String {
    let fields = TYPES.get(type_name).into_iter().flatten();
    let given = normal(type_name, value);
    let texts: Vec<String> = fields
        .filter_map(|field| {
            let text = field.form.in_order(given.get(field.name)?);
            Some(format!("\"{}\":{text}", field.name))
        })
        .collect();
    format!("{{{}}}", texts.join(","))
}

impl Form {
    /// The value as it is written; `None` when it is left out.
    fn normal(&self, value: &Value, omit_empty: bool) -> Option<Value> {
        match self {
            Self::Optional(_) if value.is_null() => (!omit_empty).then_some(Value::Null),
            Self::Optional(inner) => inner.normal(value, false),
            Self::Struct(name) if value.is_object() || value.is_null() => Some(normal(name, value)),
            Self::List(inner) => match value {
                Value::Array(items) if !items.is_empty() => Some(items.iter().map(|item| inner.item(item)).collect()),
                other => (!omit_empty).then(|| other.clone()),
            },
            Self::MapOf(inner) => match value {
                Value::Object(map) if !map.is_empty() => {
                    let entries = map.iter().map(|(key, value)| (key.clone(), inner.item(value)));
                    Some(Value::Object(entries.collect()))
                }
                other => (!omit_empty).then(|| other.clone()),
            },
            Self::Time => Some(value.clone()),
            Self::Quantity => Some(amount(value)),
            Self::Anything => (!value.is_null()).then(|| value.clone()),
            scalar => {
                let zero = scalar.zero();
                let empty = value.is_null() || *value == zero;
                match (empty, omit_empty) {
                    (true, true) => None,
                    (true, false) => Some(zero),
                    (false, _) => Some(through_float(value)),
                }
            }
        }
    }

    fn item(&self, value: &Value) -> Value {
        self.normal(value, false).unwrap_or_default()
    }

    fn zero(&self) -> Value {
        match self {
            Self::Text => json!(""),
            Self::Flag => json!(false),
            Self::Number | Self::NumberOrText => json!(0),
            _ => Value::Null,
        }
    }

    fn in_order(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Struct(name), Value::Object(_)) => in_type_order(name, value),
            (Self::Optional(inner), value) => inner.in_order(value),
            (Self::List(inner), Value::Array(items)) => {
                let items: Vec<String> = items.iter().map(|item| inner.in_order(item)).collect();
                format!("[{}]", items.join(","))
            }
            (_, value) => crate::shared::go_json::to_string(value),
        }
    }
}

/// An amount in its canonical form; 0 when there is none. What is no quantity stays as it is.
fn amount(value: &Value) -> Value {
    let text = match value {
        Value::Null => return json!("0"),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return other.clone(),
    };
    quantity::canonical(text.trim()).map_or_else(|| value.clone(), Value::String)
}

/// Numbers lose what a 64-bit float cannot hold, because the original's pass through one.
fn through_float(value: &Value) -> Value {
    match value.as_number().and_then(serde_json::Number::as_f64) {
        Some(float) if float.fract() == 0.0 && float.abs() < 1e21 => {
            // As text, because a float would be written with a decimal point.
            serde_json::from_str(&format!("{float}")).unwrap_or_else(|_| value.clone())
        }
        _ => value.clone(),
    }
}
