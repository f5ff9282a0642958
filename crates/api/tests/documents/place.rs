//! Places in a document, with what the schema says of each.

use serde_json::{Value, json};

/// One step into a document.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Key(String),
    Item(usize),
}

/// What the schema lets a place hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Moment,
    Int32,
    Int64,
    IntOrText,
    Flag,
    List,
    Map,
    Struct,
    Anything,
}

impl Shape {
    fn of(schema: &Value) -> Self {
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return Self::IntOrText;
        }
        if schema.get("x-kubernetes-preserve-unknown-fields").is_some() && schema.get("properties").is_none() {
            return Self::Anything;
        }
        match (schema["type"].as_str().unwrap(), schema["format"].as_str()) {
            ("string", Some("date-time")) => Self::Moment,
            ("string", _) => Self::Text,
            ("integer", Some("int64")) => Self::Int64,
            ("integer", _) => Self::Int32,
            ("boolean", _) => Self::Flag,
            ("array", _) => Self::List,
            ("object", _) if schema.get("additionalProperties").is_some() => Self::Map,
            ("object", _) if schema.get("properties").is_some() => Self::Struct,
            // Metadata: the API server knows it.
            ("object", _) => Self::Anything,
            other => panic!("{other:?}"),
        }
    }

    /// Values that cannot be read here.
    pub(crate) fn wrong_values(self) -> Vec<Value> {
        match self {
            Self::Text => vec![json!(7), json!(true), json!({}), json!([])],
            Self::Moment => vec![json!("yesterday"), json!(7), json!({})],
            Self::Int32 => vec![json!("7"), json!(7.5), json!(3_000_000_000_i64), json!(true), json!({})],
            Self::Int64 => vec![json!("7"), json!(7.5), json!(u64::MAX), json!(true), json!({})],
            Self::IntOrText => vec![json!(true), json!(7.5), json!(3_000_000_000_i64), json!({}), json!([])],
            Self::Flag => vec![json!("true"), json!(1), json!({})],
            Self::List => vec![json!({ "a": 1 }), json!("a"), json!(7)],
            Self::Map | Self::Struct => vec![json!("a"), json!(7), json!(true)],
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
    /// `spec.images.nginx.tags[0].tag`
    pub(crate) fn path(&self) -> String {
        self.written(|key| format!(".{key}"), |index| format!("[{index}]"))
    }

    /// `spec.images{}.tags[].tag`
    pub(crate) fn line(&self) -> String {
        self.written(|_| "{}".to_owned(), |_| "[]".to_owned())
    }

    fn written(&self, key: impl Fn(&str) -> String, item: impl Fn(usize) -> String) -> String {
        let steps = self.steps.iter().map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Key(name) => key(name),
            Step::Item(index) => item(*index),
        });
        steps.collect::<String>().trim_start_matches('.').to_owned()
    }

    /// A field, not an item of a list or map.
    pub(crate) fn is_field(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Field(_)))
    }

    /// `apiVersion`, `kind`, `metadata`, which follow rules of their own.
    pub(crate) fn is_head(&self) -> bool {
        matches!(self.path().as_str(), "apiVersion" | "kind" | "metadata")
    }

    /// The value in a document.
    pub(crate) fn of<'a>(&self, document: &'a mut Value) -> &'a mut Value {
        self.steps.iter().fold(document, |value, step| match step {
            Step::Field(name) | Step::Key(name) => &mut value[name],
            Step::Item(index) => &mut value[index],
        })
    }

    /// Takes a field out of a document.
    pub(crate) fn remove_from(&self, document: &mut Value) {
        let (last, parents) = self.steps.split_last().unwrap();
        let parent = Self {
            steps: parents.to_vec(),
            shape: Shape::Struct,
        };
        let Step::Field(name) = last else {
            panic!("{} is not a field", self.path())
        };
        parent.of(document).as_object_mut().unwrap().remove(name);
    }
}

/// Every place of a document that its schema knows.
pub(crate) fn places(document: &Value, schema: &Value) -> Vec<Place> {
    let mut places = Vec::new();
    visit(&mut Vec::new(), document, schema, &mut places);
    places
}

fn visit(steps: &mut Vec<Step>, value: &Value, schema: &Value, places: &mut Vec<Place>) {
    let shape = Shape::of(schema);
    if !steps.is_empty() {
        places.push(Place {
            steps: steps.clone(),
            shape,
        });
    }
    let mut step = |step: Step, value: &Value, schema: &Value| {
        steps.push(step);
        visit(steps, value, schema, places);
        steps.pop();
    };
    match (shape, value) {
        (Shape::Struct, Value::Object(fields)) => {
            for (name, field) in fields {
                let schema = schema["properties"]
                    .get(name)
                    .unwrap_or_else(|| panic!("no field {name}"));
                step(Step::Field(name.clone()), field, schema);
            }
        }
        (Shape::Map, Value::Object(entries)) => {
            for (key, entry) in entries {
                step(Step::Key(key.clone()), entry, &schema["additionalProperties"]);
            }
        }
        (Shape::List, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                step(Step::Item(index), item, &schema["items"]);
            }
        }
        _ => {}
    }
}
