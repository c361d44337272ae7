//! What the keywords of one subschema cost on one value.
//!
//! A step is about 10 ns: the visit of a subschema, a lookup of a name, a comparison of scalars. Texts cost by the
//! byte, in eighths of a step. Estimates are from above: they decide what is refused, never what is valid.

use serde_json::{Number, Value};

use super::pattern::PatternCost;

/// Bytes that are compared or hashed in one step.
const BYTES_PER_STEP: usize = 16;

/// What finding one name in an object costs. Measured: 10 to 75 ns, depending on how much of the value is in the cache.
const LOOKUP_STEPS: usize = 4;

/// What one `multipleOf` with a fraction costs on a number. Measured: 0.1 us.
const DIVISION_STEPS: u64 = 16;

/// The same where the quotient does not fit 128 bits: fractions of any length. Measured: up to 46 us.
const LONG_DIVISION_STEPS: u64 = 4_000;

/// Divisors of at least this and numbers up to `SHORT_DIVIDEND_MAX` never need a long division: both have at most 26
/// decimal places, so that either one, written as an integer of the smaller unit, is at most 10^38.
const SHORT_DIVISOR_MIN: f64 = 1e-9;
const SHORT_DIVIDEND_MAX: f64 = 1e12;

/// Costs add up over the subschemas that visit a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Steps, whatever the value.
    pub(super) steps: u64,
    /// Eighths of a step for a byte, if the value is a text.
    pub(super) per_byte: u64,
    /// Eighths of a step for a byte of the names of its properties.
    pub(super) per_name_byte: u64,
    /// Patterns that may go through the rest of a text at every byte of it.
    pub(super) backtracking: u64,
    /// The same on the names of its properties.
    pub(super) name_backtracking: u64,
    /// How often all items are compared with each other.
    pub(super) unique: u64,
    /// Steps if the value is a number of ordinary size.
    pub(super) per_number: u64,
    /// Steps if the value is a number past `SHORT_DIVIDEND_MAX`.
    pub(super) per_large_number: u64,
}

impl Cost {
    pub(super) fn plus(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    pub(super) fn max(self, other: Self) -> Self {
        self.combine(other, u64::max)
    }

    fn combine(self, other: Self, by: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            steps: by(self.steps, other.steps),
            per_byte: by(self.per_byte, other.per_byte),
            per_name_byte: by(self.per_name_byte, other.per_name_byte),
            backtracking: by(self.backtracking, other.backtracking),
            name_backtracking: by(self.name_backtracking, other.name_backtracking),
            unique: by(self.unique, other.unique),
            per_number: by(self.per_number, other.per_number),
            per_large_number: by(self.per_large_number, other.per_large_number),
        }
    }

    /// What it adds for one number.
    pub(super) fn number_steps(&self, number: &Number) -> u64 {
        let is_short = number.as_f64().is_some_and(|number| number.abs() <= SHORT_DIVIDEND_MAX);
        if is_short { self.per_number } else { self.per_large_number }
    }

    fn steps(steps: usize) -> Self {
        Self { steps: steps as u64, ..Self::default() }
    }
}

pub(super) fn of_pattern(pattern: PatternCost) -> Cost {
    Cost {
        steps: 1,
        per_byte: pattern.per_byte,
        backtracking: u64::from(pattern.is_backtracking),
        ..Cost::default()
    }
}

pub(super) fn of_name_pattern(pattern: PatternCost) -> Cost {
    Cost {
        per_name_byte: pattern.per_byte,
        name_backtracking: u64::from(pattern.is_backtracking),
        ..Cost::default()
    }
}

/// Of every keyword but those with patterns. What leads to subschemas costs only its own lookups here.
///
/// Without a cost of their own are comparisons of a number or a count (`minimum`, `maxItems`, `minContains`) and `type`:
/// they are part of the visit. `format` and `contentEncoding` are annotations in Draft 2020-12, and other drafts, which
/// assert them, are refused.
pub(super) fn of_keyword(keyword: &str, value: &Value) -> Cost {
    match (keyword, value) {
        ("minLength" | "maxLength", _) => Cost { per_byte: 1, ..Cost::default() },
        ("enum", Value::Array(options))
            if options.iter().all(|option| option.is_string() || option.is_null()) =>
        {
            // A hash of the text, or a few comparisons.
            Cost { per_byte: 1, ..Cost::steps(2) }
        }
        ("enum" | "const", _) => Cost { per_byte: 1, ..Cost::steps(comparison_steps(value)) },
        ("multipleOf", Value::Number(divisor)) => of_division(divisor),
        ("uniqueItems", Value::Bool(true)) => Cost { unique: 1, ..Cost::default() },
        ("required", Value::Array(names)) => {
            Cost::steps(names.iter().filter_map(Value::as_str).map(lookup_steps).sum())
        }
        ("properties" | "dependentSchemas", Value::Object(members)) => {
            Cost::steps(members.keys().map(|name| lookup_steps(name)).sum())
        }
        ("dependentRequired" | "dependencies", Value::Object(members)) => {
            let of = |(name, names): (&String, &Value)| {
                let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
                lookup_steps(name) + names.map(lookup_steps).sum::<usize>()
            };
            Cost::steps(members.iter().map(of).sum())
        }
        _ => Cost::default(),
    }
}

/// Integers divide in a nanosecond; a fraction is compared digit by digit, and by long division where that overflows.
fn of_division(divisor: &Number) -> Cost {
    let divisor = divisor.as_f64().unwrap_or(0.0);
    if divisor.fract() == 0.0 && divisor >= 1.0 {
        return Cost::default();
    }
    let per_number = if divisor >= SHORT_DIVISOR_MIN { DIVISION_STEPS } else { LONG_DIVISION_STEPS };
    Cost { per_number, per_large_number: LONG_DIVISION_STEPS, ..Cost::default() }
}

fn lookup_steps(name: &str) -> usize {
    LOOKUP_STEPS + name.len() / BYTES_PER_STEP
}

/// Comparing something with a value that stands in the schema takes at most as long as going through that.
pub(super) fn comparison_steps(value: &Value) -> usize {
    let mut steps = 0;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        steps += 1;
        match value {
            Value::Object(members) => {
                steps += members.keys().map(|name| lookup_steps(name)).sum::<usize>();
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            Value::String(text) => steps += text.len() / BYTES_PER_STEP,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    steps
}
