//! Latencies: exact mean and maximum, percentiles from a histogram of the doubles' leading bits.

/// Low bits of a double that the histogram drops: all but the 10 leading ones of the fraction.
const CUT: u32 = 42;

/// Truncated latencies per exponent.
const OF_EXPONENT: usize = 1 << 10;

/// All latencies so far.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    messages: u64,
    sum: f64,
    max: f64,
    /// By exponent, then by the leading bits of the fraction; allocated on demand.
    counts: Vec<Vec<u64>>,
}

/// Their summary; nan if there are none.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// Sum over number.
    pub mean: f64,
    /// At least half of the messages take no longer, to 0.1 per cent; p95 and p99 likewise.
    pub p50: f64,
    /// 95 per cent.
    pub p95: f64,
    /// 99 per cent.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Latencies {
    /// Records a latency in seconds, at least 0.
    #[inline(always)]
    pub(super) fn add(&mut self, latency: f64) {
        self.messages += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
        let cut = (latency.to_bits() >> CUT) as usize;
        let (exponent, fraction) = (cut / OF_EXPONENT, cut % OF_EXPONENT);
        match self.counts.get_mut(exponent).and_then(|counts| counts.get_mut(fraction)) {
            Some(count) => *count += 1,
            None => self.first_of(exponent, fraction),
        }
    }

    #[cold]
    fn first_of(&mut self, exponent: usize, fraction: usize) {
        self.counts.resize(self.counts.len().max(exponent + 1), Vec::new());
        self.counts[exponent] = vec![0; OF_EXPONENT];
        self.counts[exponent][fraction] = 1;
    }

    pub(super) fn summary(&self) -> Latency {
        if self.messages == 0 {
            return Latency { mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN, max: f64::NAN };
        }
        let messages = self.messages as f64;
        let percentile = |share: f64| self.percentile((share * messages).ceil() as u64);
        Latency {
            mean: self.sum / messages,
            p50: percentile(0.5),
            p95: percentile(0.95),
            p99: percentile(0.99),
            max: self.max,
        }
    }

    /// The smallest truncated latency that at least this many messages do not exceed.
    fn percentile(&self, messages: u64) -> f64 {
        let mut so_far = 0;
        for (exponent, counts) in self.counts.iter().enumerate() {
            for (fraction, count) in counts.iter().enumerate() {
                so_far += count;
                if so_far >= messages {
                    return f64::from_bits(((exponent * OF_EXPONENT + fraction) as u64) << CUT);
                }
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_cut_to_ten_bits() {
        let mut latencies = Latencies::default();
        assert!(latencies.summary().p50.is_nan());
        (1..=1000).rev().for_each(|step| latencies.add(f64::from(step) * 1.1e-3));
        let Latency { mean, p50, p95, p99, max } = latencies.summary();
        assert!((mean - 0.55055).abs() < 1e-12);
        assert_eq!(max, 1.1);
        for (cut, whole) in [(p50, 0.55), (p95, 1.045), (p99, 1.089)] {
            assert!(cut <= whole * 1.000_000_1 && cut > whole * 0.999, "{cut} is not {whole}");
            assert_eq!(cut.to_bits() << 22, 0);
        }
        (0..1000).for_each(|_| latencies.add(0.0));
        assert_eq!(latencies.summary().p50, 0.0);
        assert!(latencies.summary().p95 > 0.98);
    }
}
