//! Which values quotas may have.

use super::Quotas;
use crate::limits::{SettingCheck, SettingsError};

impl Quotas {
    /// Checks that these quotas are usable; `table` is the path of their table in the settings, for the error.
    ///
    /// 0 is refused where it would lock the principal out: remove its token instead. `queued_evals_max = 0` is accepted:
    /// an eval then runs immediately or not at all.
    pub fn check(&self, table: &str) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new(table);
        let counts = [("sessions_max", self.sessions_max), ("memory_bytes_max", self.memory_bytes_max)];
        for (name, value) in counts {
            if let Some(value) = value {
                check.count(name, value, usize::MAX);
            }
        }
        let numbers = [
            ("cpu_seconds_per_minute", self.cpu_seconds_per_minute),
            ("messages_per_second", self.messages_per_second),
            ("messages_burst", self.messages_burst),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                check.positive_number(name, value);
            }
        }
        check.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_number(name: &str, value: f64) -> Quotas {
        let mut quotas = Quotas::default();
        let field = match name {
            "cpu_seconds_per_minute" => &mut quotas.cpu_seconds_per_minute,
            "messages_per_second" => &mut quotas.messages_per_second,
            _ => &mut quotas.messages_burst,
        };
        *field = Some(value);
        quotas
    }

    #[test]
    fn quota_that_is_not_a_positive_number_is_refused() {
        Quotas::default().check("quotas").unwrap();
        for name in ["cpu_seconds_per_minute", "messages_per_second", "messages_burst"] {
            for (value, shown) in [
                (f64::NAN, "NaN"),
                (-f64::NAN, "NaN"),
                (f64::INFINITY, "inf"),
                (f64::NEG_INFINITY, "-inf"),
                (-1.0, "-1"),
                (0.0, "0"),
                (-0.0, "-0"),
            ] {
                let error = with_number(name, value).check("quotas").unwrap_err().to_string();
                assert_eq!(error, format!("quotas.{name}: expected a positive number, got {shown}"));
            }
            for value in [f64::MIN_POSITIVE, 0.001, f64::MAX] {
                with_number(name, value).check("quotas").unwrap();
            }
        }
    }

    #[test]
    fn quota_of_zero_is_refused_where_nothing_is_served() {
        let quotas = Quotas {
            sessions_max: Some(0),
            memory_bytes_max: Some(0),
            queued_evals_max: Some(0),
            ..Quotas::default()
        };
        assert_eq!(
            quotas.check("at.quotas").unwrap_err().to_string(),
            "at.quotas.sessions_max: expected at least 1, got 0\n\
             at.quotas.memory_bytes_max: expected at least 1, got 0"
        );
    }
}
