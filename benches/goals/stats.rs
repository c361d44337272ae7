//! Samples of one quantity, and their statistics.

use std::time::Duration;

/// Samples in rounds. Times are in nanoseconds, memory in bytes.
#[derive(Default)]
pub(crate) struct Samples {
    rounds: Vec<Vec<f64>>,
}

/// A figure of the table: a value, and the middle half of what it was taken from.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) quartiles: Option<(f64, f64)>,
}

impl Samples {
    /// Starts a round; later samples belong to it.
    pub(crate) fn start_round(&mut self) {
        self.rounds.push(Vec::new());
    }

    pub(crate) fn add(&mut self, sample: f64) {
        if self.rounds.is_empty() {
            self.start_round();
        }
        if let Some(round) = self.rounds.last_mut() {
            round.push(sample);
        }
    }

    pub(crate) fn add_time(&mut self, time: Duration) {
        self.add(nanoseconds(time));
    }

    /// The median over all rounds, with the quartiles.
    pub(crate) fn median(&self) -> Figure {
        let all = sorted(self.rounds.iter().flatten().copied());
        let quartiles = Some((quantile(&all, 0.25), quantile(&all, 0.75)));
        Figure { value: quantile(&all, 0.5), quartiles }
    }

    /// The median of the round that was disturbed least.
    pub(crate) fn best_round(&self) -> Figure {
        let medians = sorted(self.rounds.iter().map(|round| quantile(&sorted(round.iter().copied()), 0.5)));
        Figure::exact(quantile(&medians, 0.0))
    }

    /// The median of the round in which most was done, where more is better.
    pub(crate) fn highest_round(&self) -> Figure {
        let medians = sorted(self.rounds.iter().map(|round| quantile(&sorted(round.iter().copied()), 0.5)));
        Figure::exact(quantile(&medians, 1.0))
    }

    /// The time that only one in a hundred exceeds.
    pub(crate) fn p99(&self) -> Figure {
        Figure::exact(quantile(&sorted(self.rounds.iter().flatten().copied()), 0.99))
    }
}

impl Figure {
    /// A figure that is not a statistic.
    pub(crate) fn exact(value: f64) -> Self {
        Self { value, quartiles: None }
    }

    /// The same for one of `count` that make it up.
    pub(crate) fn per(self, count: f64) -> Self {
        let quartiles = self.quartiles.map(|(low, high)| (low / count, high / count));
        Self { value: self.value / count, quartiles }
    }
}

pub(crate) fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

fn sorted(samples: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut samples: Vec<f64> = samples.collect();
    samples.sort_by(f64::total_cmp);
    samples
}

/// The sample at this share of the sorted ones; NaN of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * share).round() as usize).copied().unwrap_or(f64::NAN)
}
