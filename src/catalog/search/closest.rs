//! Names like one that is not there, to be suggested when a script calls it.

use super::split_words;

/// Names longer than this are not compared letter by letter: the work grows with the square.
const COMPARED_BYTES_MAX: usize = 64;

/// Letters that may differ before two names are no longer taken for one.
const EDITS_MAX: usize = 3;

/// Names that a writer of `missing` may have meant, likeliest first.
///
/// Tells apart, in this order: the same letters (`get_order`), a last part of a dotted name (`transact`), the same
/// words in another order (`order.get`), a few letters off (`getOrdr`).
pub(crate) fn closest<'a>(
    names: impl IntoIterator<Item = &'a str>,
    missing: &str,
    limit: usize,
) -> Vec<String> {
    if missing.is_empty() || missing.len() > COMPARED_BYTES_MAX {
        return Vec::new();
    }
    let wanted = Likeness::of(missing);
    let mut rows = Rows::default();
    let mut ranked: Vec<(usize, &str)> =
        names.into_iter().filter_map(|name| Some((wanted.distance(name, &mut rows)?, name))).collect();
    ranked.sort_unstable();
    ranked.truncate(limit);
    ranked.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// What of a mistyped name is compared, prepared once for all candidates.
struct Likeness {
    letters: Vec<u8>,
    words: Vec<String>,
}

impl Likeness {
    fn of(missing: &str) -> Self {
        Self { letters: letters(missing), words: sorted_words(missing) }
    }

    fn distance(&self, name: &str, rows: &mut Rows) -> Option<usize> {
        if name.len() > COMPARED_BYTES_MAX {
            return None;
        }
        let candidate = letters(name);
        if candidate == self.letters {
            return Some(0);
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        if letters(last) == self.letters {
            return Some(1);
        }
        let same_length = candidate.len() == self.letters.len();
        if same_length && self.words.len() > 1 && sorted_words(name) == self.words {
            return Some(2);
        }
        // A short name is another name after one letter.
        let edits_max = EDITS_MAX.min(self.letters.len() / 3);
        let whole = edits(&self.letters, &candidate, edits_max, rows);
        let tail = if last == name { None } else { edits(&self.letters, &letters(last), edits_max, rows) };
        whole.into_iter().chain(tail).min().map(|edits| 2 + edits)
    }
}

fn letters(name: &str) -> Vec<u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn sorted_words(name: &str) -> Vec<String> {
    let mut words = split_words(name);
    words.sort_unstable();
    words
}

/// The three lines of the table of distances that are needed at a time, kept from one name to the next.
#[derive(Default)]
struct Rows {
    before_last: Vec<usize>,
    last: Vec<usize>,
    current: Vec<usize>,
}

/// Letters to insert, drop, replace or swap with their neighbour to come from `a` to `b`, if at most `max`.
fn edits(a: &[u8], b: &[u8], max: usize, rows: &mut Rows) -> Option<usize> {
    if a.len().abs_diff(b.len()) > max {
        return None;
    }
    rows.before_last.clear();
    rows.last.clear();
    rows.last.extend(0..=b.len());
    let mut left_of_a = None;
    for (row, &from) in a.iter().enumerate() {
        rows.current.clear();
        rows.current.push(row + 1);
        let mut left_of_b = None;
        for (column, &to) in b.iter().enumerate() {
            let cost_at = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = cost_at(&rows.last, column) + usize::from(from != to);
            let dropped = cost_at(&rows.last, column + 1) + 1;
            let inserted = cost_at(&rows.current, column) + 1;
            let mut cost = replaced.min(dropped).min(inserted);
            if left_of_a == Some(to) && left_of_b == Some(from) {
                cost = cost.min(cost_at(&rows.before_last, column.saturating_sub(1)) + 1);
            }
            rows.current.push(cost);
            left_of_b = Some(to);
        }
        if rows.current.iter().all(|cost| *cost > max) {
            return None;
        }
        std::mem::swap(&mut rows.before_last, &mut rows.last);
        std::mem::swap(&mut rows.last, &mut rows.current);
        left_of_a = Some(from);
    }
    rows.last.last().copied().filter(|cost| *cost <= max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meant(missing: &str) -> Vec<String> {
        let names = ["getOrder", "listOrders", "memory.transact", "kv.get", "kv.delete", "order.close"];
        closest(names, missing, 3)
    }

    #[test]
    fn mistyped_name_suggests_the_intended_one() {
        for missing in ["getorder", "get_order", "getOrdr", "getOredr", "Order.get", "getOrders"] {
            assert_eq!(meant(missing).first().map(String::as_str), Some("getOrder"), "{missing}");
        }
        assert_eq!(meant("transact"), ["memory.transact"]);
        assert_eq!(meant("delete"), ["kv.delete"]);
    }

    #[test]
    fn unrelated_names_are_not_suggested() {
        assert!(meant("foo").is_empty());
        assert!(meant("").is_empty());
        assert!(meant("x").is_empty());
        assert!(meant(&"getOrder".repeat(100)).is_empty());
    }

    #[test]
    fn suggestions_are_sorted_and_limited() {
        let names = ["getUser2", "getUser", "getUsers", "getUse"];
        assert_eq!(closest(names, "getuser", 3), ["getUser", "getUse", "getUser2"]);
    }

    #[test]
    fn names_past_the_length_limit_are_not_compared() {
        let at_limit = "a".repeat(COMPARED_BYTES_MAX);
        let past_limit = "a".repeat(COMPARED_BYTES_MAX + 1);
        assert_eq!(closest([at_limit.as_str()], &at_limit, 1), [at_limit.as_str()]);
        assert!(closest([past_limit.as_str()], &past_limit, 1).is_empty());
    }

    proptest! {
        #[test]
        fn edits_are_the_same_both_ways(a in "[abc]{0,8}", b in "[abc]{0,8}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let mut rows = Rows::default();
            let there = edits(a, b, 8, &mut rows);
            prop_assert_eq!(there, edits(b, a, 8, &mut rows));
            prop_assert_eq!(there == Some(0), a == b);
        }

        #[test]
        fn closest_accepts_any_text(missing in "\\PC{0,80}") {
            prop_assert!(closest(["a.b", missing.as_str()], &missing, 1).len() <= 1);
        }
    }
}
