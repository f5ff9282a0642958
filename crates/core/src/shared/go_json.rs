//! JSON as Go writes it: `<`, `>`, `&` and the two Unicode line separators are escaped. Hashes are made of such bytes.

use serde_json::Value;

/// A value as text, keys sorted. That does not rely on the order of a JSON map, which a feature of its crate could change.
pub fn to_string(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let field = |(key, value): &(&String, &Value)| format!("{}:{}", quoted(key), to_string(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(to_string).collect::<Vec<_>>().join(",")),
        scalar => escape(&scalar.to_string()),
    }
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    escape(&Value::from(text).to_string())
}

/// Escapes what Go escapes and we do not. These characters occur only within strings, so the whole text can be gone through.
pub fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    // The separators begin with this byte; most texts have none of all these, and are copied as a whole.
    let may_be_escaped = |byte: u8| matches!(byte, b'<' | b'>' | b'&' | 0xE2);
    while let Some((plain, behind)) = rest.bytes().position(may_be_escaped).map(|place| rest.split_at(place)) {
        out.push_str(plain);
        let mut signs = behind.chars();
        match signs.next() {
            Some('<') => out.push_str("\\u003c"),
            Some('>') => out.push_str("\\u003e"),
            Some('&') => out.push_str("\\u0026"),
            Some('\u{2028}') => out.push_str("\\u2028"),
            Some('\u{2029}') => out.push_str("\\u2029"),
            sign => out.extend(sign),
        }
        rest = signs.as_str();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_signs_that_go_escapes_then_they_are_escaped_and_read_back_the_same() {
        let value = json!({"b": "<c1&>\u{2028}…\u{2029}", "a<": "é\n\t\u{1}\"\\"});
        let text = to_string(&value);
        assert_eq!(
            text,
            r#"{"a\u003c":"é\n\t\u0001\"\\","b":"\u003cc1\u0026\u003e\u2028…\u2029"}"#
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(quoted("a&b"), r#""a\u0026b""#);
    }
}
