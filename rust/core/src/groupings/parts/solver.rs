//! How many candidates the head needs: FINDOPTIMALCHOICES of the ICDE 2016 paper, section IV-A.

/// The smallest d with which no set of frequent keys can overload its candidate workers, by Inequality (3); `workers`
/// if no smaller d works.
///
/// `head_counts` are the counts of the frequent keys in descending order, `total` that of all messages. Powers are
/// computed by squaring in a fixed order, so every machine finds the same d.
///
/// ```
/// use keysplit_core::groupings::solve_choices;
///
/// // One key with a third of the messages on 10 workers: four would do if no two of its candidates coincided.
/// assert_eq!(solve_choices(&[100.0], 300.0, 10, 1e-4), 7);
/// ```
pub fn solve_choices(head_counts: &[f64], total: f64, workers: u32, tolerance: f64) -> u32 {
    let Some(first) = head_counts.first() else { return workers.min(2) };
    let n = f64::from(workers);
    let mut sum = 0.0;
    let prefixes: Vec<f64> = head_counts
        .iter()
        .map(|count| {
            sum += count;
            sum / total
        })
        .collect();
    let head = sum / total;
    let bound = Inequality { head, tail: 1.0 - head, rest: 1.0 - 1.0 / n, slack: 1.0 + n * tolerance };
    let least = ((first * n) / total).ceil().max(2.0);
    // The prefix that rejected one d usually rejects the next one too: it is checked first.
    let mut strict = 0;
    let mut choices = least;
    while choices < n {
        let d = choices as u64;
        let holds = |&h: &usize| bound.holds(prefixes[h], h as u64 + 1, d);
        match std::iter::once(strict).chain(0..prefixes.len()).find(|h| !holds(h)) {
            None => return d as u32,
            Some(refusing) => strict = refusing,
        }
        choices += 1.0;
    }
    workers
}

/// Inequality (3) for one stream: the load of the first h head keys on their candidate workers, against what these
/// workers may take.
struct Inequality {
    /// Share of the head.
    head: f64,
    /// Share of all other keys.
    tail: f64,
    /// (n - 1) / n.
    rest: f64,
    /// 1 + n * tolerance.
    slack: f64,
}

impl Inequality {
    fn holds(&self, prefix: f64, keys: u64, choices: u64) -> bool {
        // x is b_h / n: the expected share of the workers that h keys with d candidates each may go to.
        let x = 1.0 - power(self.rest, keys * choices);
        prefix + power(x, choices) * (self.head - prefix) + power(x, 2) * self.tail <= x * self.slack
    }
}

/// base^exponent by squaring.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        exponent >>= 1;
        if exponent > 0 {
            base *= base;
        }
    }
    result
}
