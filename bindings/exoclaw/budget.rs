//! How many tokens may be used: in a session, in a day, in a month.
//!
//! A message is refused before any model is called, by what is used already and an estimate of what it adds. Days and
//! months are those of UTC. What was used is kept by the store; here is only the arithmetic.

use serde::Deserialize;

use super::route::SessionId;

/// The limits of a gateway; what is absent has none.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Budgets {
    pub(crate) session: Option<u64>,
    pub(crate) daily: Option<u64>,
    pub(crate) monthly: Option<u64>,
}

/// What was used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) session: u64,
    pub(crate) daily: u64,
    pub(crate) monthly: u64,
}

/// Which budget is used up.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("token budget exceeded ({scope}: {used}/{limit})")]
pub(crate) struct Exceeded {
    scope: String,
    used: u64,
    limit: u64,
}

impl Budgets {
    /// Whether `estimate` more tokens may be used.
    pub(crate) fn check(&self, session: &SessionId, used: &Used, estimate: u64) -> Result<(), Exceeded> {
        let scopes = [
            (self.session, used.session, format!("session:{session}")),
            (self.daily, used.daily, "daily".to_owned()),
            (self.monthly, used.monthly, "monthly".to_owned()),
        ];
        for (limit, used, scope) in scopes {
            if let Some(limit) = limit
                && used.saturating_add(estimate) > limit
            {
                return Err(Exceeded { scope, used, limit });
            }
        }
        Ok(())
    }
}

/// Roughly how many tokens texts are: four bytes each, and one for what is rounded away.
pub(crate) fn estimate<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = texts.fold(0_u64, |sum, text| sum.saturating_add(text.len() as u64));
    (bytes / 4).saturating_add(1)
}

/// The day and the month of a moment, as numbers that never come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Periods {
    /// Days since 1970.
    pub(crate) day: i64,
    /// Months since the year 0.
    pub(crate) month: i64,
}

const SECONDS_PER_DAY: i64 = 86_400;

impl Periods {
    /// Those of a moment, given in seconds since 1970.
    ///
    /// Years are counted from March, so that the day that comes and goes is their last, in cycles of 400 years, which
    /// all have the same number of days.
    pub(crate) fn at(seconds: i64) -> Self {
        const DAYS_PER_CYCLE: i64 = 146_097;
        const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;
        let day = seconds.div_euclid(SECONDS_PER_DAY);
        let from_march_0 = day + DAYS_FROM_MARCH_0_TO_1970;
        let (cycle, of_cycle) =
            (from_march_0.div_euclid(DAYS_PER_CYCLE), from_march_0.rem_euclid(DAYS_PER_CYCLE));
        let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
        let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let months_from_march = (5 * of_year + 2) / 153;
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
    fn a_budget_may_be_used_up_to_its_limit_and_not_past_it() {
        let budgets = Budgets { session: Some(10), ..Budgets::default() };
        let used = |session| Used { session, ..Used::default() };
        assert_eq!(budgets.check(&session(), &used(8), 2), Ok(()));
        let exceeded = budgets.check(&session(), &used(8), 3).unwrap_err();
        assert_eq!(exceeded.to_string(), "token budget exceeded (session:default:w:a:main: 8/10)");
        assert!(budgets.check(&session(), &used(u64::MAX), 1).is_err());
    }

    #[test]
    fn the_narrowest_budget_that_is_used_up_is_named() {
        let budgets = Budgets { session: None, daily: Some(5), monthly: Some(7) };
        let text = |daily, monthly| {
            budgets
                .check(&session(), &Used { session: 99, daily, monthly }, 1)
                .map_err(|error| error.to_string())
        };
        assert_eq!(text(5, 7), Err("token budget exceeded (daily: 5/5)".to_owned()));
        assert_eq!(text(0, 7), Err("token budget exceeded (monthly: 7/7)".to_owned()));
        assert_eq!(text(4, 6), Ok(()));
    }

    #[test]
    fn four_bytes_are_a_token_and_there_is_at_least_one() {
        assert_eq!(estimate(std::iter::empty()), 1);
        assert_eq!(estimate(["abc", "abcde"].into_iter()), 3);
    }

    #[test]
    fn months_begin_on_their_first_day() {
        let month = |days: i64| Periods::at(days * SECONDS_PER_DAY).month;
        assert_eq!(month(0), 1970 * 12);
        assert_eq!((month(30), month(31)), (1970 * 12, 1970 * 12 + 1));
        // 2024-02-28, 2024-02-29, 2024-03-01
        assert_eq!((month(19_781), month(19_782), month(19_783)), (24_289, 24_289, 24_290));
        assert_eq!(Periods::at(-1), Periods { day: -1, month: 1970 * 12 - 1 });
    }

    proptest! {
        #[test]
        fn from_day_to_day_the_month_stays_or_is_the_next(day in -1_000_000_i64..1_000_000) {
            let (one, other) = (Periods::at(day * SECONDS_PER_DAY), Periods::at((day + 1) * SECONDS_PER_DAY));
            prop_assert!(other.month == one.month || other.month == one.month + 1);
            let month_later = Periods::at((day + 31) * SECONDS_PER_DAY);
            prop_assert!(month_later.month > one.month);
            prop_assert_eq!(other.day, one.day + 1);
        }
    }
}
