//! JSON as Go writes it: `<`, `>`, `&` and the two Unicode line separators are escaped. Hashes are made of such bytes.

use serde_json::Value;

/// A value as text, keys in the order of the map (sorted, as everywhere in this workspace).
pub fn to_string(value: &Value) -> String {
    escape(&value.to_string())
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    escape(&Value::from(text).to_string())
}

/// Escapes what Go escapes and we do not. These characters occur only within strings, so the whole text can be gone through.
pub fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for sign in json.chars() {
        match sign {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            sign => out.push(sign),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_signs_that_go_escapes_then_they_are_escaped_and_read_back_the_same() {
        let value = json!({"b": "<c1&>\u{2028}\u{2029}", "a<": "é\n\t\u{1}\"\\"});
        let text = to_string(&value);
        assert_eq!(
            text,
            r#"{"a\u003c":"é\n\t\u0001\"\\","b":"\u003cc1\u0026\u003e\u2028\u2029"}"#
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(quoted("a&b"), r#""a\u0026b""#);
    }
}
