//! Places in a document, with what the schema says of each.

use serde_json::{Value, json};

/// One step into a document.
#[derive(Clone, Debug)]
enum Step {
    /// A field of a structure.
    Field(String),
    /// An entry of a map; all entries are alike, and so all have the same key here.
    Entry,
    /// The first item of a list.
    Item,
}

const KEY: &str = "key";

/// What the schema lets a place hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    DateTime,
    Int32,
    Int64,
    IntOrText,
    Flag,
    List,
    Map,
    /// Fields that are known, and no others.
    Struct,
    /// Some fields that are known, others are kept.
    Open,
    /// Kept as it comes.
    Anything,
}

impl Shape {
    fn of(schema: &Value) -> Self {
        let open = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return Self::IntOrText;
        }
        match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("string"), Some("date-time")) => Self::DateTime,
            (Some("string"), _) => Self::Text,
            (Some("integer"), Some("int64")) => Self::Int64,
            (Some("integer"), _) => Self::Int32,
            (Some("boolean"), _) => Self::Flag,
            (Some("array"), _) => Self::List,
            (Some("object"), _) if schema.get("additionalProperties").is_some() => Self::Map,
            (Some("object"), _) if schema.get("properties").is_some() => {
                if open {
                    Self::Open
                } else {
                    Self::Struct
                }
            }
            // Metadata has no fields in a schema, but a type that knows them.
            (Some("object"), _) if !open => Self::Struct,
            _ if open => Self::Anything,
            other => panic!("{other:?}"),
        }
    }

    /// Values that cannot be read here.
    pub(crate) fn wrong_values(self) -> Vec<Value> {
        match self {
            Self::Text => vec![json!(7), json!(true), json!({}), json!([])],
            Self::DateTime => vec![json!("yesterday"), json!(7), json!({})],
            Self::Int32 => vec![json!("7"), json!(7.5), json!(3_000_000_000_i64), json!(true), json!({})],
            Self::Int64 => vec![json!("7"), json!(7.5), json!(u64::MAX), json!(true), json!({})],
            Self::IntOrText => vec![json!(true), json!(7.5), json!(3_000_000_000_i64), json!({}), json!([])],
            Self::Flag => vec![json!("true"), json!(1), json!({})],
            Self::List => vec![json!({ "a": 1 }), json!("a"), json!(7)],
            Self::Map | Self::Struct | Self::Open => vec![json!("a"), json!(7), json!(true), json!([]), json!([{}])],
            Self::Anything => vec![],
        }
    }
}

/// A place in a document.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    steps: Vec<Step>,
    pub(crate) shape: Shape,
}

impl Place {
    /// The path as errors show it: `spec.images.key.tags[0].tag`.
    pub(crate) fn path(&self) -> String {
        let steps = self.steps.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Entry => format!(".{KEY}"),
            Step::Item => "[0]".to_owned(),
        });
        steps.collect::<String>().trim_start_matches('.').to_owned()
    }

    /// A field, not an item of a list or map.
    pub(crate) fn is_field(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Field(_)))
    }

    /// A document that has only this, or lacks this.
    pub(crate) fn alone(&self, value: Option<Value>) -> Value {
        let inside_out = self.steps.iter().rev();
        let document = inside_out.fold(value, |inner, step| {
            Some(match (step, inner) {
                (Step::Field(name), Some(inner)) => json!({ name: inner }),
                (Step::Entry, Some(inner)) => json!({ KEY: inner }),
                (Step::Item, Some(inner)) => json!([inner]),
                (Step::Field(_) | Step::Entry, None) => json!({}),
                (Step::Item, None) => json!([]),
            })
        });
        document.unwrap()
    }

    /// The value in a document.
    pub(crate) fn of<'a>(&self, document: &'a mut Value) -> &'a mut Value {
        self.steps.iter().fold(document, |value, step| match step {
            Step::Field(name) => &mut value[name],
            Step::Entry => &mut value[KEY],
            Step::Item => &mut value[0],
        })
    }
}

/// Every place of a field that its schema knows.
pub(crate) fn places(field: &str, schema: &Value) -> Vec<Place> {
    let mut places = Vec::new();
    visit(&mut vec![Step::Field(field.to_owned())], schema, &mut places);
    places
}

fn visit(steps: &mut Vec<Step>, schema: &Value, places: &mut Vec<Place>) {
    places.push(Place {
        steps: steps.clone(),
        shape: Shape::of(schema),
    });
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, schema)| (Step::Field(name.clone()), schema));
    let entry = schema.get("additionalProperties").map(|schema| (Step::Entry, schema));
    let item = schema.get("items").map(|schema| (Step::Item, schema));
    for (step, schema) in fields.chain(entry).chain(item) {
        steps.push(step);
        visit(steps, schema, places);
        steps.pop();
    }
}

/// A document with every field that its schema knows.
pub(crate) fn sample(schema: &Value) -> Value {
    match Shape::of(schema) {
        Shape::Text => schema["enum"][0].as_str().map_or(json!("text"), |word| json!(word)),
        Shape::DateTime => json!("2024-03-01T10:00:00Z"),
        Shape::Int32 | Shape::Int64 => json!(3),
        Shape::IntOrText => json!("30%"),
        Shape::Flag => json!(true),
        Shape::List => json!([sample(&schema["items"])]),
        Shape::Map => json!({ KEY: sample(&schema["additionalProperties"]) }),
        Shape::Struct | Shape::Open => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.map(|(name, field)| (name.clone(), sample(field))).collect()
        }
        Shape::Anything => json!({ "name": "text" }),
    }
}
