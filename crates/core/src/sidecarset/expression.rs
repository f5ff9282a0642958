//! The language in which the resources of a sidecar are told by those of other containers: `max(cpu*50%, 50m)`.
//!
//! ```text
//! expr   := term (('+'|'-') term)*
//! term   := factor (('*'|'/') factor)*
//! factor := NUMBER | QUANTITY | variable | '(' expr ')' | ('max'|'min') '(' expr ',' expr ')' | '-' factor
//! ```
//!
//! - There is one variable, `cpu` or `memory`. Its name and those of the functions may be written in capitals.
//! - A number may have a fraction, an exponent, and `%` for hundredths. With `m k M G T P Ki Mi Gi Ti Pi` behind it, it is a quantity. Any other
//!   suffix is a mistake; the original takes such a thing for nothing.
//! - Quantities are added and compared exactly. One is multiplied or divided by a plain number in thousandths, what is finer is cut off. Two quantities are
//!   never multiplied, and nothing is divided by a quantity or by nothing.
//! - A plain number beside a quantity counts in thousandths as well. Of two equal ones the left is taken.
//! - The result is not negative. Nothing overflows, and nothing nests deeper than [`DEEPEST`]: that is a mistake, too.

use crate::shared::quantity::Amount;
use std::iter::Peekable;
use std::str::CharIndices;
use thiserror::Error;

/// How deep an expression may nest.
pub const DEEPEST: usize = 64;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpressionError {
    #[error("{found:?} is not expected at position {at}")]
    Unexpected { found: String, at: usize },
    #[error("it ends too early")]
    TooShort,
    #[error("{0:?} is not a number or quantity")]
    NotANumber(String),
    #[error("{0:?} is neither a function nor the variable of this resource")]
    Unknown(String),
    #[error("it nests deeper than {DEEPEST}")]
    TooDeep,
    #[error("two quantities cannot be multiplied")]
    QuantityTimesQuantity,
    #[error("nothing can be divided by a quantity")]
    DividedByQuantity,
    #[error("nothing can be divided by 0")]
    DividedByZero,
    #[error("a number in it is too large")]
    TooLarge,
    #[error("its value {0} is negative")]
    Negative(String),
}

/// A plain number or a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Plain(f64),
    Quantity(Amount),
}

use Number::{Plain, Quantity};

/// The variable of an expression.
#[derive(Clone, Copy, Debug)]
pub struct Variable<'a> {
    /// `cpu` or `memory`.
    pub name: &'a str,
    pub value: Number,
}

/// Returns the value of an expression.
///
/// # Errors
/// When it is not well formed, or has no value.
pub fn evaluate(expression: &str, variable: Variable<'_>) -> Result<Amount, ExpressionError> {
    let mut reader = Reader {
        text: expression,
        signs: expression.char_indices().peekable(),
        variable,
        depth: 0,
    };
    let value = reader.expr()?;
    if let Some((at, found)) = reader.next_sign() {
        return Err(unexpected(at, found));
    }
    let amount = amount(value)?;
    if amount.nanos() < 0 {
        return Err(ExpressionError::Negative(amount.text().unwrap_or_default()));
    }
    // Told now, so that whoever writes it has no error left.
    amount.text().map(|_| amount).ok_or(ExpressionError::TooLarge)
}

struct Reader<'a> {
    text: &'a str,
    signs: Peekable<CharIndices<'a>>,
    variable: Variable<'a>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn expr(&mut self) -> Result<Number, ExpressionError> {
        let mut value = self.term()?;
        loop {
            if self.takes('+') {
                value = sum(value, self.term()?)?;
            } else if self.takes('-') {
                value = sum(value, negated(self.term()?))?;
            } else {
                return Ok(value);
            }
        }
    }

    fn term(&mut self) -> Result<Number, ExpressionError> {
        let mut value = self.factor()?;
        loop {
            if self.takes('*') {
                value = product(value, self.factor()?)?;
            } else if self.takes('/') {
                value = quotient(value, self.factor()?)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self) -> Result<Number, ExpressionError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ExpressionError::TooDeep);
        }
        let value = self.nested_factor()?;
        self.depth -= 1;
        Ok(value)
    }

    fn nested_factor(&mut self) -> Result<Number, ExpressionError> {
        if self.takes('-') {
            return self.factor().map(negated);
        }
        if self.takes('(') {
            let value = self.expr()?;
            self.must_take(')')?;
            return Ok(value);
        }
        match self.peek() {
            Some((_, sign)) if sign.is_ascii_digit() || sign == '.' => self.number(),
            Some((_, sign)) if sign.is_ascii_alphabetic() || sign == '_' => self.named(),
            Some((at, found)) => Err(unexpected(at, found)),
            None => Err(ExpressionError::TooShort),
        }
    }

    fn named(&mut self) -> Result<Number, ExpressionError> {
        let name = self.word(|sign| sign.is_ascii_alphanumeric() || sign == '_');
        if name.eq_ignore_ascii_case(self.variable.name) {
            return Ok(self.variable.value);
        }
        let wants_larger = match &*name.to_ascii_lowercase() {
            "max" => true,
            "min" => false,
            _ => return Err(ExpressionError::Unknown(name.to_owned())),
        };
        self.must_take('(')?;
        let left = self.expr()?;
        self.must_take(',')?;
        let right = self.expr()?;
        self.must_take(')')?;
        choose(left, right, wants_larger)
    }

    fn number(&mut self) -> Result<Number, ExpressionError> {
        let start = self.peek().map_or(0, |(at, _)| at);
        let digits = self.word(|sign| sign.is_ascii_digit() || sign == '.');
        let is_number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let suffix = self.word(|sign| sign.is_ascii_alphanumeric());
        let mut end = start + digits.len() + suffix.len();
        let exponent = suffix.strip_prefix(['e', 'E']);
        if exponent == Some("") && (self.takes_next('+') || self.takes_next('-')) {
            end += 1 + self.word(|sign| sign.is_ascii_alphanumeric()).len();
        }
        let text = self.text.get(start..end).unwrap_or_default();
        let wrong = || ExpressionError::NotANumber(text.to_owned());
        match suffix {
            "m" | "k" | "M" | "G" | "T" | "P" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" => {
                Amount::read(text).map(Quantity).ok_or_else(wrong)
            }
            _ if suffix.is_empty() || exponent.is_some() => {
                let number = is_number(text).ok_or_else(wrong)?;
                Ok(Plain(if self.takes_next('%') { number / 100.0 } else { number }))
            }
            _ => Err(wrong()),
        }
    }

    /// The signs from here on that belong together.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let start = self.signs.peek().map_or(self.text.len(), |(at, _)| *at);
        while self.signs.next_if(|(_, sign)| belongs(*sign)).is_some() {}
        let end = self.signs.peek().map_or(self.text.len(), |(at, _)| *at);
        self.text.get(start..end).unwrap_or_default()
    }

    /// The next sign that is no space.
    fn peek(&mut self) -> Option<(usize, char)> {
        while self.signs.next_if(|(_, sign)| sign.is_whitespace()).is_some() {}
        self.signs.peek().copied()
    }

    fn next_sign(&mut self) -> Option<(usize, char)> {
        self.peek()?;
        self.signs.next()
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.peek();
        self.takes_next(wanted)
    }

    /// As [`Reader::takes`], without a space in between.
    fn takes_next(&mut self, wanted: char) -> bool {
        self.signs.next_if(|(_, sign)| *sign == wanted).is_some()
    }

    fn must_take(&mut self, wanted: char) -> Result<(), ExpressionError> {
        match self.next_sign() {
            Some((_, sign)) if sign == wanted => Ok(()),
            Some((at, found)) => Err(unexpected(at, found)),
            None => Err(ExpressionError::TooShort),
        }
    }
}

fn unexpected(at: usize, found: char) -> ExpressionError {
    ExpressionError::Unexpected {
        found: found.to_string(),
        at,
    }
}

/// A plain number in whole thousandths; what is finer is cut off.
fn thousandths(number: f64) -> Result<i64, ExpressionError> {
    // Both bounds are powers of two and exact; `as` would not tell of anything beyond.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    let cut = number.trunc();
    if (-BOUND..BOUND).contains(&cut) {
        Ok(cut as i64)
    } else {
        Err(ExpressionError::TooLarge)
    }
}

fn amount(value: Number) -> Result<Amount, ExpressionError> {
    match value {
        Plain(number) => thousandths(number * 1000.0).map(Amount::of_thousandths),
        Quantity(amount) => Ok(amount),
    }
}

fn plain(number: f64) -> Result<Number, ExpressionError> {
    if number.is_finite() {
        Ok(Plain(number))
    } else {
        Err(ExpressionError::TooLarge)
    }
}

fn negated(value: Number) -> Number {
    match value {
        Plain(number) => Plain(-number),
        Quantity(amount) => Quantity(amount.negated()),
    }
}

fn sum(left: Number, right: Number) -> Result<Number, ExpressionError> {
    if let (Plain(left), Plain(right)) = (left, right) {
        return plain(left + right);
    }
    let sum = amount(left)?.plus(amount(right)?);
    sum.map(Quantity).ok_or(ExpressionError::TooLarge)
}

fn product(left: Number, right: Number) -> Result<Number, ExpressionError> {
    match (left, right) {
        (Plain(left), Plain(right)) => plain(left * right),
        (Quantity(amount), Plain(times)) | (Plain(times), Quantity(amount)) => scaled(amount, |milli| milli * times),
        (Quantity(_), Quantity(_)) => Err(ExpressionError::QuantityTimesQuantity),
    }
}

fn quotient(left: Number, right: Number) -> Result<Number, ExpressionError> {
    match (left, right) {
        (_, Quantity(_)) => Err(ExpressionError::DividedByQuantity),
        (_, Plain(0.0)) => Err(ExpressionError::DividedByZero),
        (Plain(left), Plain(right)) => plain(left / right),
        (Quantity(amount), Plain(by)) => scaled(amount, |milli| milli / by),
    }
}

// Kubernetes' own amounts in thousandths are 64-bit numbers that the original makes floats of, too.
#[allow(clippy::cast_precision_loss)]
fn scaled(amount: Amount, scale: impl Fn(f64) -> f64) -> Result<Number, ExpressionError> {
    let scaled = thousandths(scale(amount.thousandths() as f64))?;
    Ok(Quantity(amount.with_thousandths(scaled)))
}

fn choose(left: Number, right: Number, wants_larger: bool) -> Result<Number, ExpressionError> {
    if let (Plain(one), Plain(other)) = (left, right) {
        let takes_right = if wants_larger { other > one } else { other < one };
        return Ok(if takes_right { right } else { left });
    }
    let (one, other) = (amount(left)?, amount(right)?);
    let takes_right = if wants_larger {
        other.nanos() > one.nanos()
    } else {
        other.nanos() < one.nanos()
    };
    Ok(Quantity(if takes_right { other } else { one }))
}

#[cfg(test)]
mod tests;
