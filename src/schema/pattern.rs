//! What a regular expression costs: bytes when it is compiled, steps when it is matched.
//!
//! Measured on the automata that the validator's engine is going to build, with a limit on their size, before it does.
//! That engine is linear in the text, but a step takes up to all states of the pattern, unless the pattern is small
//! enough to become deterministic. Look-around and back-references need another engine, which backtracks.

use regex_automata::dfa::{StartKind, dense};
use regex_automata::nfa::thompson::{Config, NFA, WhichCaptures};
use regex_syntax::ast::ErrorKind;

/// Longest pattern, in bytes. Reading one takes time with its length; people write some dozens.
pub(crate) const PATTERN_TEXT_BYTES_MAX: usize = 8 << 10;

/// Most control escapes (`\cA`) of one pattern: the translation reads the pattern again for each.
const CONTROL_ESCAPES_MAX: usize = 16;

/// Largest automaton of one pattern of a client.
/// `^\p{L}{1,20}$` takes two thirds of it; what repeats large classes more often belongs in `maxLength`.
pub(crate) const CLIENT_PATTERN_BYTES_MAX: usize = 1 << 20;

/// Largest automaton of one pattern of the operator, whose schemas are not charged.
pub(crate) const PATTERN_BYTES_MAX: usize = 10 << 20;

/// Most backtracking steps of one pattern on one string, where the operator uses look-around.
/// Each may look through the whole text, which is why the text counts twice (`PatternCost::is_backtracking`).
pub(crate) const PATTERN_BACKTRACKS_MAX: usize = 50_000;

/// Cache of states that the engine fills while it matches.
pub(super) const STATE_CACHE_BYTES_MAX: usize = 128 << 10;

/// Above this many states a pattern is taken for one that does not become deterministic in reasonable size.
const DETERMINISTIC_STATES_MAX: usize = 256;

/// Largest deterministic automaton that is tried; below the cache, so that the engine never has to evict states.
/// To try is most of the time that a client's pattern takes at registration, and it grows with this number.
const DETERMINISTIC_BYTES_MAX: usize = 16 << 10;

/// What the engine takes for any pattern. Measured: 8 to 10 KiB.
const ENGINE_BYTES: usize = 10 << 10;

/// Steps are counted in eighths (a step is about 10 ns): a deterministic byte takes one or two nanoseconds.
pub(super) const EIGHTHS: u64 = 8;

/// What one state costs on one byte in the worst case.
const STATE_EIGHTHS: u64 = 4;

/// What a pattern costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternCost {
    /// Compiled, with its caches.
    pub(super) compiled_bytes: usize,
    /// Eighths of a step for a byte of text.
    pub(super) per_byte: u64,
    /// Whether it backtracks: then it may look through the rest of the text at every byte.
    pub(super) is_backtracking: bool,
}

/// Which patterns are accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatternRules {
    pub(super) automaton_bytes_max: usize,
    pub(super) allows_look_around: bool,
}

/// Measures a pattern in the syntax of ECMA-262, or returns why it is refused.
pub(super) fn measure(pattern: &str, rules: PatternRules) -> Result<PatternCost, String> {
    if pattern.len() > PATTERN_TEXT_BYTES_MAX {
        return Err(format!("expected a pattern of at most {PATTERN_TEXT_BYTES_MAX} bytes"));
    }
    if pattern.matches("\\c").count() > CONTROL_ESCAPES_MAX {
        return Err(format!("expected at most {CONTROL_ESCAPES_MAX} control escapes in a pattern"));
    }
    let plain = |per_byte| PatternCost {
        compiled_bytes: ENGINE_BYTES + pattern.len(),
        per_byte,
        is_backtracking: false,
    };
    // The validator compares literals without an engine.
    if jsonschema_regex::analyze_pattern(pattern).is_some() {
        return Ok(plain(1));
    }
    let malformed = || format!("expected a regular expression, got {}", super::failure::quoted_text(pattern));
    let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| malformed())?;
    let syntax = match regex_syntax::parse(&translated) {
        Ok(syntax) => syntax,
        Err(error) if needs_backtracking(&error) => {
            return if rules.allows_look_around {
                Ok(PatternCost { is_backtracking: true, ..plain(1) })
            } else {
                Err("look-around and back-references are not supported in the schemas of a client".to_owned())
            };
        }
        Err(_) => return Err(malformed()),
    };
    let too_large = |_| {
        let pattern = super::failure::quoted_text(pattern);
        format!("expected a regular expression of reasonable size, got {pattern}")
    };
    let config = Config::new().nfa_size_limit(Some(rules.automaton_bytes_max));
    let forward = NFA::compiler().configure(config.clone()).build_from_hir(&syntax).map_err(too_large)?;
    let reverse = config.reverse(true).which_captures(WhichCaptures::None);
    let reverse = NFA::compiler().configure(reverse).build_from_hir(&syntax).map_err(too_large)?;
    let automata_bytes = forward.memory_usage() + reverse.memory_usage();
    let deterministic_bytes = deterministic_bytes(&forward);
    let states = u64::try_from(forward.states().len()).unwrap_or(u64::MAX);
    Ok(PatternCost {
        // Half as much again for the sets of states that the engine keeps while it matches.
        compiled_bytes: ENGINE_BYTES
            + automata_bytes
            + automata_bytes / 2
            + deterministic_bytes.map_or(STATE_CACHE_BYTES_MAX, |bytes| bytes * 2),
        per_byte: if deterministic_bytes.is_some() { 1 } else { states.saturating_mul(STATE_EIGHTHS) },
        is_backtracking: false,
    })
}

fn needs_backtracking(error: &regex_syntax::Error) -> bool {
    match error {
        regex_syntax::Error::Parse(error) => {
            matches!(error.kind(), ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference)
        }
        _ => false,
    }
}

/// The size of the deterministic automaton, if it is small.
fn deterministic_bytes(nfa: &NFA) -> Option<usize> {
    if nfa.states().len() > DETERMINISTIC_STATES_MAX {
        return None;
    }
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(DETERMINISTIC_BYTES_MAX))
        .determinize_size_limit(Some(DETERMINISTIC_BYTES_MAX));
    dense::Builder::new().configure(config).build_from_nfa(nfa).ok().map(|dfa| dfa.memory_usage())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: PatternRules =
        PatternRules { automaton_bytes_max: CLIENT_PATTERN_BYTES_MAX, allows_look_around: false };
    const OPERATOR: PatternRules =
        PatternRules { automaton_bytes_max: PATTERN_BYTES_MAX, allows_look_around: true };

    #[test]
    fn plain_patterns_cost_one_eighth_a_byte() {
        for plain in ["^[a-z]+$", r"^\d{4}-\d{2}-\d{2}$", "^abc$", "^[A-Za-z0-9+/]*={0,2}$", r"^\w+@\w+\.com"]
        {
            let cost = measure(plain, CLIENT).unwrap();
            assert_eq!(cost.per_byte, 1, "{plain}");
            assert!(cost.compiled_bytes < 32 << 10, "{plain}: {cost:?}");
        }
    }

    #[test]
    fn pattern_without_small_automaton_costs_its_states() {
        let cost = measure("(a|b)*a(a|b){18}c", CLIENT).unwrap();
        assert!(cost.per_byte > 100, "{cost:?}");
        let letters = measure(r"^\p{L}{1,20}$", CLIENT).unwrap();
        assert!(letters.per_byte > 1000 && letters.compiled_bytes > 1 << 20, "{letters:?}");
    }

    #[test]
    fn look_around_is_accepted_from_the_operator_only() {
        for pattern in ["(?=.*x)(?=.*y)a", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1"] {
            assert!(measure(pattern, CLIENT).is_err(), "{pattern}");
            assert!(measure(pattern, OPERATOR).unwrap().is_backtracking, "{pattern}");
        }
    }

    #[test]
    fn automata_past_the_limit_are_refused() {
        for pattern in [r"\p{L}{1,240}", "(((a{1,99}){1,99}){1,99}){1,99}", "(?:){999999999}a{99999}"] {
            let error = measure(pattern, CLIENT).unwrap_err();
            assert!(error.contains("reasonable size"), "{pattern}: {error}");
        }
    }

    #[test]
    fn malformed_patterns_and_long_ones_are_refused() {
        for pattern in ["(", "[a", "a{", "(?P<"] {
            assert!(
                measure(pattern, OPERATOR).unwrap_err().contains("expected a regular expression"),
                "{pattern}"
            );
        }
        let long = |bytes: usize| "a?".repeat(bytes / 2);
        assert!(measure(&long(PATTERN_TEXT_BYTES_MAX), CLIENT).is_ok());
        assert!(measure(&long(PATTERN_TEXT_BYTES_MAX + 2), CLIENT).unwrap_err().contains("at most"));
        assert!(measure(&r"\ca".repeat(CONTROL_ESCAPES_MAX), CLIENT).is_ok());
        assert!(
            measure(&r"\ca".repeat(CONTROL_ESCAPES_MAX + 1), CLIENT).unwrap_err().contains("control escapes")
        );
        assert!(measure(&"(".repeat(PATTERN_TEXT_BYTES_MAX), OPERATOR).is_err());
    }
}
