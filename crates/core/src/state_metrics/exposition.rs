//! The page of one kind.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::family::Read;
use super::samples::{push_escaped, push_label};
use super::{Options, Sampled, Samples};

/// Writes the page of one kind.
pub struct Exposition<K: 'static> {
    options: Arc<Options>,
    families: Vec<Shown<K>>,
}

/// A family that is on the page.
struct Shown<K: 'static> {
    name: String,
    header: String,
    read: &'static Read<K>,
}

/// A value of an object that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unreadable {
    /// Whole name of the family that lacks a sample.
    pub family: String,
    /// Namespace of the object; empty for objects of the cluster.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl<K: Sampled> Exposition<K> {
    /// Prepares the page of a kind.
    pub fn new(options: &Arc<Options>) -> Self {
        let families = K::FAMILIES.iter().filter_map(|family| {
            let name = family.name();
            options.shows_family(&name).then(|| Shown {
                header: format!("# HELP {name} {}\n# TYPE {name} gauge\n", family.help),
                read: &family.read,
                name,
            })
        });
        Self {
            options: options.clone(),
            families: families.collect(),
        }
    }

    /// Writes what there is to say about these objects, and returns what could not be read.
    pub fn write<O: Deref<Target = K>>(&self, objects: &[O], out: &mut String) -> Vec<Unreadable> {
        let kind = K::KIND.to_ascii_lowercase();
        let mut unreadable = Vec::new();
        let (mut head, mut written) = (String::new(), Vec::new());
        for Shown { name, header, read } in &self.families {
            out.push_str(header);
            for object in objects {
                head.clear();
                head.push_str("{namespace=\"");
                push_escaped(&mut head, object.namespace());
                head.push('"');
                push_label(&mut head, &kind, object.name());
                written.clear();
                let mut samples = Samples {
                    out: &mut *out,
                    options: &self.options,
                    name,
                    head: &head,
                    written: &mut written,
                    is_unreadable: false,
                };
                match read {
                    Read::Value(value) => {
                        if let Some(value) = value(object) {
                            samples.number(value);
                        }
                    }
                    Read::Samples(all) => all(object, &mut samples),
                }
                if samples.is_unreadable {
                    unreadable.push(Unreadable {
                        family: name.clone(),
                        namespace: object.namespace().to_owned(),
                        name: object.name().to_owned(),
                    });
                }
                samples.finish();
            }
        }
        unreadable
    }
}

impl<K> fmt::Debug for Exposition<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.families.iter().map(|family| &family.name);
        f.debug_list().entries(names).finish()
    }
}
