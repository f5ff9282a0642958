//! One field of a schedule.
//!
//! A list with commas. Each item is `*` or `?` for all, a number or a name, or a range `from-to`; `/step` takes every so many of it. A number with a step
//! goes on to the end: `5/15` is 5, 20, 35 and 50.

/// What a field can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    least: u32,
    most: u32,
    /// Names of its numbers, the least first.
    names: &'static [&'static str],
}

impl Bounds {
    pub(super) const MINUTE: Self = Self::numbers(0, 59);
    pub(super) const HOUR: Self = Self::numbers(0, 23);
    pub(super) const DAY: Self = Self::numbers(1, 31);
    pub(super) const MONTH: Self = Self {
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        ..Self::numbers(1, 12)
    };
    pub(super) const WEEKDAY: Self = Self {
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        ..Self::numbers(0, 6)
    };

    const fn numbers(least: u32, most: u32) -> Self {
        Self {
            least,
            most,
            names: &[],
        }
    }

    fn number(self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(place) = named {
            return Ok(self.least + place as u32);
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number);
        number.ok_or_else(|| format!("{text:?} is no number"))
    }
}

/// The numbers of a field, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    is_star: bool,
}

impl Field {
    pub(super) fn parse(text: &str, bounds: Bounds) -> Result<Self, String> {
        let mut field = Self {
            bits: 0,
            is_star: false,
        };
        for item in text.split(',').filter(|item| !item.is_empty()) {
            field.add(item, bounds)?;
        }
        if field.bits == 0 {
            return Err(format!("{text:?} names nothing"));
        }
        Ok(field)
    }

    fn add(&mut self, item: &str, bounds: Bounds) -> Result<(), String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(Bounds::numbers(0, 0).number(step)?)),
            None => (item, None),
        };
        let is_star = matches!(range, "*" | "?");
        let (from, to) = if is_star {
            (bounds.least, bounds.most)
        } else if let Some((from, to)) = range.split_once('-') {
            (bounds.number(from)?, bounds.number(to)?)
        } else {
            let from = bounds.number(range)?;
            (from, if step.is_some() { bounds.most } else { from })
        };
        let step = step.unwrap_or(1);
        if from < bounds.least {
            return Err(format!(
                "beginning of range ({from}) below minimum ({}): {item}",
                bounds.least
            ));
        }
        if to > bounds.most {
            return Err(format!("end of range ({to}) above maximum ({}): {item}", bounds.most));
        }
        if from > to {
            return Err(format!(
                "beginning of range ({from}) beyond end of range ({to}): {item}"
            ));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {item}"));
        }
        self.is_star |= is_star && step == 1;
        for number in (from..=to).step_by(step as usize) {
            self.bits |= 1 << number;
        }
        Ok(())
    }

    /// Whether a number is in it.
    pub(super) fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits.checked_shr(number).unwrap_or(0) & 1 == 1)
    }

    /// Whether it says nothing.
    pub(super) fn is_star(self) -> bool {
        self.is_star
    }
}
