//! A published value: a number, a bound, or the statement that there is none.

use std::fmt;
use std::str::FromStr;

/// A value as a paper gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Exactly this number.
    Exactly(f64),
    /// At least this number.
    AtLeast(f64),
    /// At most this number.
    AtMost(f64),
    /// Less than this number.
    Below(f64),
    /// More than this number.
    Above(f64),
    /// About this number.
    About(f64),
    /// The paper says that the value does not apply or was not measured.
    NotAvailable,
}

impl Value {
    /// Returns the number, also if it is a bound or an approximation. `None` if there is no number.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Exactly(number)
            | Self::AtLeast(number)
            | Self::AtMost(number)
            | Self::Below(number)
            | Self::Above(number)
            | Self::About(number) => Some(number),
            Self::NotAvailable => None,
        }
    }

    /// Returns whether this value is larger than the other, or `None` if the bounds leave that
    /// open.
    pub fn exceeds(self, other: Self) -> Option<bool> {
        let ((low, high), (other_low, other_high)) = (self.range()?, other.range()?);
        // One of two equal ends that its value does not reach.
        let is_open = matches!(self, Self::Above(_)) || matches!(other, Self::Below(_));
        if low > other_high || low == other_high && is_open {
            Some(true)
        } else if high <= other_low {
            Some(false)
        } else {
            None
        }
    }

    /// Returns the range that contains the value.
    fn range(self) -> Option<(f64, f64)> {
        match self {
            Self::Exactly(number) | Self::About(number) => Some((number, number)),
            Self::AtLeast(number) | Self::Above(number) => Some((number, f64::INFINITY)),
            Self::AtMost(number) | Self::Below(number) => Some((f64::NEG_INFINITY, number)),
            Self::NotAvailable => None,
        }
    }
}

impl FromStr for Value {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        if text == "n/a" {
            return Ok(Self::NotAvailable);
        }
        /// The constructor of a value that consists of a sign and a number.
        type Signed = fn(f64) -> Value;
        let (sign, number) = match text.split_once(' ') {
            Some((sign, number)) => (Some(sign), number),
            None => (None, text),
        };
        let value: Signed = match sign {
            None => Self::Exactly,
            Some("≥") => Self::AtLeast,
            Some("≤") => Self::AtMost,
            Some("<") => Self::Below,
            Some(">") => Self::Above,
            Some("≈") => Self::About,
            Some(_) => return Err(Unreadable(text.to_string())),
        };
        match number.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(value(number)),
            _ => Err(Unreadable(text.to_string())),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Exactly(number) => number.to_string(),
            Self::AtLeast(number) => format!("≥ {number}"),
            Self::AtMost(number) => format!("≤ {number}"),
            Self::Below(number) => format!("< {number}"),
            Self::Above(number) => format!("> {number}"),
            Self::About(number) => format!("≈ {number}"),
            Self::NotAvailable => "n/a".to_string(),
        };
        f.pad(&text)
    }
}

/// The error for a text that is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no published value; write a number, one after \"≥ \", \"≤ \", \"< \", \"> \" or \"≈ \", or \"n/a\"",
            self.0
        )
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_and_written_as_printed() {
        for (text, value) in [
            ("1682", Value::Exactly(1682.0)),
            ("73.375", Value::Exactly(73.375)),
            ("≥ 13", Value::AtLeast(13.0)),
            ("≤ 25.375", Value::AtMost(25.375)),
            ("< 480", Value::Below(480.0)),
            ("> 99", Value::Above(99.0)),
            ("≈ 80", Value::About(80.0)),
            ("n/a", Value::NotAvailable),
        ] {
            assert_eq!(text.parse(), Ok(value));
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in [
            "", " 13", "≥13", "~ 13", "thirteen", "inf", "NaN", "N/A", "≥ n/a",
        ] {
            assert_eq!(text.parse::<Value>(), Err(Unreadable(text.to_string())));
        }
    }

    #[test]
    fn bounds_decide_only_what_they_can() {
        let (five, nine) = (Value::Exactly(5.0), Value::Exactly(9.0));
        assert_eq!(nine.exceeds(five), Some(true));
        assert_eq!(five.exceeds(nine), Some(false));
        assert_eq!(five.exceeds(five), Some(false));
        assert_eq!(Value::AtLeast(13.0).exceeds(nine), Some(true));
        assert_eq!(nine.exceeds(Value::AtLeast(13.0)), Some(false));
        assert_eq!(Value::AtLeast(5.0).exceeds(nine), None);
        assert_eq!(Value::Above(9.0).exceeds(nine), Some(true));
        assert_eq!(nine.exceeds(Value::Below(9.0)), Some(true));
        assert_eq!(Value::AtLeast(9.0).exceeds(nine), None);
        assert_eq!(nine.exceeds(Value::Above(9.0)), Some(false));
        assert_eq!(Value::Below(9.0).exceeds(Value::Above(9.0)), Some(false));
        assert_eq!(Value::NotAvailable.exceeds(nine), None);
    }
}
