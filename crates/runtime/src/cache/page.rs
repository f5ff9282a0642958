//! Taking a page of a list apart while it arrives.
//!
//! A page can be hundreds of megabytes when objects are big. It is never held as a whole: bytes go in as they come, objects come out one by one, and
//! what is around them (the list's own metadata) is kept for the end.

use serde::Deserialize;

/// A page that is arriving.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "where in the text of a list the next byte stands"
)]
pub(super) struct Page {
    /// Everything outside of the items.
    around: Vec<u8>,
    /// The item that is arriving.
    item: Vec<u8>,
    depth: u32,
    is_in_items: bool,
    is_in_text: bool,
    is_escaped: bool,
    /// The beginning of the last text that stood around the items.
    name: Vec<u8>,
    is_items_next: bool,
}

/// What a list says about itself.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ListHead {
    pub(super) metadata: ListMeta,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: String,
}

impl Page {
    /// Takes in more bytes, and hands out each item that is complete by now.
    pub(super) fn push(&mut self, bytes: &[u8], mut item: impl FnMut(&[u8])) {
        // The first byte that is not kept yet.
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if !self.is_in_items {
                self.outside(*byte);
                if self.is_in_items {
                    self.around.extend_from_slice(&bytes[from..=at]);
                    from = at + 1;
                }
            } else if !self.is_in_text && self.depth == 2 && matches!(byte, b',' | b']') {
                self.item.extend_from_slice(&bytes[from..at]);
                let whole = self.item.trim_ascii();
                if !whole.is_empty() {
                    item(whole);
                }
                self.item.clear();
                from = at + 1;
                if *byte == b']' {
                    self.is_in_items = false;
                    self.depth = 1;
                    from = at;
                }
            } else {
                self.step(*byte);
            }
        }
        let rest = if self.is_in_items {
            &mut self.item
        } else {
            &mut self.around
        };
        rest.extend_from_slice(&bytes[from..]);
    }

    /// What was around the items.
    pub(super) fn end(&self) -> serde_json::Result<ListHead> {
        serde_json::from_slice(&self.around)
    }

    fn outside(&mut self, byte: u8) {
        const ITEMS: &[u8] = b"\"items\"";
        let was_in_text = self.is_in_text;
        self.step(byte);
        if self.is_in_text && !was_in_text {
            self.name.clear();
        }
        if (self.is_in_text || was_in_text) && self.name.len() <= ITEMS.len() {
            self.name.push(byte);
        }
        match byte {
            b'"' if !self.is_in_text => self.is_items_next = self.depth == 1 && self.name == ITEMS,
            b',' if !was_in_text => self.is_items_next = false,
            b'[' if !was_in_text && self.depth == 2 => self.is_in_items = std::mem::take(&mut self.is_items_next),
            _ => {}
        }
    }

    fn step(&mut self, byte: u8) {
        if self.is_in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.is_in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// How many objects to ask for. It follows what they weigh, so that neither side has to deal with too much at a time.
#[derive(Debug)]
pub(super) struct PageSize {
    most: u32,
    objects: u32,
}

/// A page should be about that big.
const BYTES: u64 = 8 << 20;
/// Objects of the first page, of which nothing is known.
const FIRST: u32 = 25;

impl PageSize {
    /// Never more than `most` objects.
    pub(super) fn at_most(most: u32) -> Self {
        Self {
            most: most.max(1),
            objects: FIRST.min(most.max(1)),
        }
    }

    pub(super) fn objects(&self) -> u32 {
        self.objects
    }

    /// Learns from a page.
    pub(super) fn was(&mut self, objects: u32, bytes: u64) {
        if objects > 0 {
            let each = (bytes / u64::from(objects)).max(1);
            let fit = u32::try_from(BYTES / each).unwrap_or(u32::MAX);
            self.objects = fit.clamp(1, self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn parts(text: &str, chunk: usize) -> (Vec<Value>, serde_json::Result<ListHead>) {
        let mut page = Page::default();
        let mut items = Vec::new();
        for bytes in text.as_bytes().chunks(chunk.max(1)) {
            page.push(bytes, |item| items.push(serde_json::from_slice(item).expect("an item")));
        }
        (items, page.end())
    }

    #[test]
    fn given_lists_as_servers_write_them_then_items_and_metadata_are_found_wherever_they_stand() {
        let built_in = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":"],["},{"b":{"items":[1]}}]}"#;
        let custom = r#"{"apiVersion":"v1","items":[{"a":"],["} , {"b":{"items":[1]}}],"kind":"items","metadata":{"continue":"x","resourceVersion":"7"}}"#;
        let expected = vec![json!({ "a": "],[" }), json!({ "b": { "items": [1] } })];
        for text in [built_in, custom] {
            let (items, head) = parts(text, 5);
            assert_eq!(items, expected, "{text}");
            let meta = head.expect("a list").metadata;
            assert_eq!((meta.resource_version.as_str(), meta.next.as_str()), ("7", "x"));
        }
        assert_eq!(parts(r#"{"metadata":{},"items":null}"#, 3).0, Vec::<Value>::new());
        assert_eq!(parts(r#"{"items":[ ],"metadata":{}}"#, 1).0, Vec::<Value>::new());
    }

    #[test]
    fn given_a_page_that_breaks_off_or_is_none_then_that_is_an_error() {
        for text in ["", "no JSON", r#"{"items":[{"a":1},"#, r#"{"items":[{"a":1}]"#] {
            assert!(parts(text, 4).1.is_err(), "{text}");
        }
    }

    #[test]
    fn given_what_objects_weigh_then_pages_are_neither_too_heavy_nor_too_many() {
        let mut size = PageSize::at_most(250);
        assert_eq!(size.objects(), 25);
        for (objects, bytes, next) in [
            (25, 25 * 1_400_000, 5),
            (5, 5 * 20_000_000, 1),
            (1, 1000, 250),
            (0, 50, 250),
        ] {
            size.was(objects, bytes);
            assert_eq!(size.objects(), next);
        }
        assert_eq!(PageSize::at_most(10).objects(), 10);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\\PC\\\\\"\\[\\]{},:]{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\]{0,5}|items", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn given_any_list_in_any_pieces_then_its_items_come_out(
            items in prop::collection::vec(any_json(), 0..5), other in any_json(), chunk in 1_usize..40, pretty in any::<bool>()
        ) {
            let list = json!({ "aOther": other.clone(), "items": items.clone(), "metadata": { "resourceVersion": "3" }, "zOther": other });
            let text = if pretty { format!("{list:#}") } else { list.to_string() };
            let (found, head) = parts(&text, chunk);
            prop_assert_eq!(found, items);
            prop_assert_eq!(head.expect("a list").metadata.resource_version, "3");
        }

        #[test]
        fn given_any_bytes_then_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut page = Page::default();
            page.push(&bytes, |_| {});
            let _ = page.end();
        }
    }
}
