//! Token budgets per session, day and month.
//!
//! A message that would exceed a budget is rejected before any model is called, by the tokens used
//! so far and an estimate of what it adds. Days and months are in UTC. The store counts the tokens;
//! this file only does arithmetic.

use serde::Deserialize;

use super::route::SessionId;

/// The limits of a gateway; an absent one means unlimited.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Budgets {
    pub(crate) session: Option<u64>,
    pub(crate) daily: Option<u64>,
    pub(crate) monthly: Option<u64>,
}

/// Tokens used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsageTotals {
    pub(crate) session: u64,
    pub(crate) daily: u64,
    pub(crate) monthly: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("token budget exceeded ({scope}: {used}/{limit})")]
pub(crate) struct BudgetExceeded {
    scope: String,
    used: u64,
    limit: u64,
}

impl Budgets {
    /// Checks whether `estimate` more tokens may be used.
    pub(crate) fn check(
        &self,
        session: &SessionId,
        used: &UsageTotals,
        estimate: u64,
    ) -> Result<(), BudgetExceeded> {
        let scopes = [
            (self.session, used.session, format!("session:{session}")),
            (self.daily, used.daily, "daily".to_owned()),
            (self.monthly, used.monthly, "monthly".to_owned()),
        ];
        for (limit, used, scope) in scopes {
            if let Some(limit) = limit
                && used.saturating_add(estimate) > limit
            {
                return Err(BudgetExceeded { scope, used, limit });
            }
        }
        Ok(())
    }
}

/// Estimates one token per four bytes, and one more for the remainder.
pub(crate) fn estimate_tokens<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = texts.fold(0_u64, |sum, text| sum.saturating_add(text.len() as u64));
    (bytes / 4).saturating_add(1)
}

/// The day and the month of a time, as consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Periods {
    /// Days since 1970.
    pub(crate) day: i64,
    /// Months since the year 0.
    pub(crate) month: i64,
}

const SECONDS_PER_DAY: i64 = 86_400;

impl Periods {
    /// `seconds` are since 1970.
    ///
    /// Years start in March here, so that a leap day is the last day of its year. Cycles of 400
    /// years all have the same number of days.
    pub(crate) fn at(seconds: i64) -> Self {
        const DAYS_PER_CYCLE: i64 = 146_097;
        const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;
        let day = seconds.div_euclid(SECONDS_PER_DAY);
        let from_march_0 = day + DAYS_FROM_MARCH_0_TO_1970;
        let (cycle, day_of_cycle) =
            (from_march_0.div_euclid(DAYS_PER_CYCLE), from_march_0.rem_euclid(DAYS_PER_CYCLE));
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let months_from_march = (5 * day_of_year + 2) / 153;
        Self { day, month: (cycle * 400 + year_of_cycle) * 12 + months_from_march + 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn session() -> SessionId {
        let name = |text: &str| text.to_owned();
        SessionId {
            principal: name("p"),
            agent: name("default"),
            channel: name("w"),
            account: name("a"),
            peer: name("main"),
        }
    }

    #[test]
    fn message_past_the_budget_is_rejected() {
        let budgets = Budgets { session: Some(10), ..Budgets::default() };
        let used = |session| UsageTotals { session, ..UsageTotals::default() };
        assert_eq!(budgets.check(&session(), &used(8), 2), Ok(()));
        let exceeded = budgets.check(&session(), &used(8), 3).unwrap_err();
        assert_eq!(exceeded.to_string(), "token budget exceeded (session:default:w:a:main: 8/10)");
        assert!(budgets.check(&session(), &used(u64::MAX), 1).is_err());
    }

    #[test]
    fn narrowest_exceeded_budget_is_reported() {
        let budgets = Budgets { session: None, daily: Some(5), monthly: Some(7) };
        let text = |daily, monthly| {
            budgets
                .check(&session(), &UsageTotals { session: 99, daily, monthly }, 1)
                .map_err(|error| error.to_string())
        };
        assert_eq!(text(5, 7), Err("token budget exceeded (daily: 5/5)".to_owned()));
        assert_eq!(text(0, 7), Err("token budget exceeded (monthly: 7/7)".to_owned()));
        assert_eq!(text(4, 6), Ok(()));
    }

    #[test]
    fn estimate_is_a_token_per_four_bytes_plus_one() {
        assert_eq!(estimate_tokens(std::iter::empty()), 1);
        assert_eq!(estimate_tokens(["abc", "abcde"].into_iter()), 3);
    }

    #[test]
    fn month_changes_on_its_first_day() {
        let month = |days: i64| Periods::at(days * SECONDS_PER_DAY).month;
        assert_eq!(month(0), 1970 * 12);
        assert_eq!((month(30), month(31)), (1970 * 12, 1970 * 12 + 1));
        // 2024-02-28, 2024-02-29, 2024-03-01
        assert_eq!((month(19_781), month(19_782), month(19_783)), (24_289, 24_289, 24_290));
        assert_eq!(Periods::at(-1), Periods { day: -1, month: 1970 * 12 - 1 });
    }

    proptest! {
        #[test]
        fn month_of_the_next_day_is_the_same_or_the_next(day in -1_000_000_i64..1_000_000) {
            let (one, other) = (Periods::at(day * SECONDS_PER_DAY), Periods::at((day + 1) * SECONDS_PER_DAY));
            prop_assert!(other.month == one.month || other.month == one.month + 1);
            let month_later = Periods::at((day + 31) * SECONDS_PER_DAY);
            prop_assert!(month_later.month > one.month);
            prop_assert_eq!(other.day, one.day + 1);
        }
    }
}
