//! Numbers and foreign words as the report shows them.

/// What stands where nothing was measured.
pub(super) const NOTHING: &str = "–";

/// Three significant digits; whole numbers and the whole part of bigger ones in full, by thousands.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let short = format!("{value:.2e}");
    // What rounding makes of it decides: 9.999 is shown as 10.0.
    let exponent: i32 = short
        .split_once('e')
        .and_then(|(_, digits)| digits.parse().ok())
        .unwrap_or_default();
    match exponent {
        _ if value == 0.0 => "0".to_owned(),
        15.. | ..=-6 => short,
        0.. if value.fract() == 0.0 => by_thousands(&format!("{value:.0}")),
        2.. => by_thousands(&format!("{value:.0}")),
        _ => {
            let digits = format!("{value:.*}", usize::try_from(2 - exponent).unwrap_or_default());
            // Of a fraction below one, zeros at the end say nothing.
            if exponent < 0 {
                digits.trim_end_matches('0').to_owned()
            } else {
                digits
            }
        }
    }
}

pub(super) fn measured(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), number)
}

/// `4.10×`, `0.28×`.
pub(super) fn ratio(value: f64) -> String {
    if value.abs() < 1.0 {
        let two_digits: f64 = format!("{value:.1e}").parse().unwrap_or(value);
        return format!("{}×", number(two_digits));
    }
    format!("{}×", number(value))
}

fn by_thousands(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Beside an axis there is little room: `250`, `10k`, `2M`.
pub(super) fn short_number(value: f64) -> String {
    let (shown, sign) = match value.abs() {
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Through text and back: no rounding error such as 0.30000000000000004 stays.
    let shown: f64 = format!("{shown:.3e}").parse().unwrap_or(shown);
    format!("{shown}{sign}")
}

/// For text and attributes.
pub(super) fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// For a line or a cell of a table.
pub(super) fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => safe.extend(['\\', letter]),
            '\n' | '\r' => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, wanted) in [
            (0.0, "0"),
            (2.0, "2"),
            (20.0, "20"),
            (0.034_51, "0.0345"),
            (0.9, "0.9"),
            (0.9996, "1.00"),
            (1.0345, "1.03"),
            (9.999, "10.0"),
            (34.56, "34.6"),
            (345.6, "346"),
            (1_000.0, "1,000"),
            (999.6, "1,000"),
            (1_234_567.8, "1,234,568"),
            (-1_234.5, "-1,234"),
            (0.000_012_3, "0.0000123"),
            (0.000_000_123, "1.23e-7"),
            (1.5e18, "1.50e18"),
            (f64::NAN, NOTHING),
            (f64::INFINITY, NOTHING),
        ] {
            assert_eq!(number(value), wanted, "{value}");
        }
    }

    #[test]
    fn ratios_read_well() {
        for (value, wanted) in [
            (4.1, "4.10×"),
            (14.33, "14.3×"),
            (0.2812, "0.28×"),
            (0.0694, "0.069×"),
            (1.0, "1×"),
        ] {
            assert_eq!(ratio(value), wanted);
        }
    }

    #[test]
    fn axes_have_short_numbers() {
        for (value, wanted) in [
            (0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (2_500.0, "2.5k"),
            (10_000.0, "10k"),
            (12_500.0, "12.5k"),
            (2_000_000.0, "2M"),
        ] {
            assert_eq!(short_number(value), wanted, "{value}");
        }
    }

    #[test]
    fn foreign_words_stay_words() {
        assert_eq!(
            html("<b a='1' c=\"2\">&"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;"
        );
        assert_eq!(markdown("a|b\n*c* <d> `e`"), "a\\|b \\*c\\* &lt;d&gt; \\`e\\`");
    }
}
