//! Figures of many measurements: quantiles and how they are written.

use std::time::Duration;

/// Durations of one thing, measured many times.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// One more.
    pub fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value below which this share (0 to 1) of them lies; zero of none.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        // The nearest rank: with 100 samples p99 is the second largest.
        let last = sorted.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank among few samples"
        )]
        let rank = (share * sorted.len() as f64) as usize;
        sorted.get(rank.min(last)).copied().unwrap_or_default()
    }

    /// Half of them are faster.
    pub fn p50(&self) -> f64 {
        ms(self.quantile(0.5))
    }

    /// One in a hundred is slower.
    pub fn p99(&self) -> f64 {
        ms(self.quantile(0.99))
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<T: IntoIterator<Item = Duration>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

/// In milliseconds.
pub fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// How many per second.
pub fn rate(count: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / took.as_secs_f64().max(1e-9)
}

/// The middle one of several figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let samples: Samples = (1..=100).map(Duration::from_millis).collect();
        assert_eq!((samples.p50(), samples.p99()), (51.0, 100.0));
        assert_eq!(Samples::default().p99(), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(rate(10, Duration::from_secs(2)), 5.0);
    }
}
