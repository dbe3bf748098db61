//! The hash of a key, its candidate workers, and the counter-based random draws.
//!
//! Everything here is a contract with users (`docs/routing.md`): equal inputs give equal outputs as long as that page
//! has the same version. Whole numbers take two multiplications, so a column of them vectorises; bytes take XXH3, whose
//! output its author froze.

use crate::types::{KeyHash, Source, Worker};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes 64 bits so that every input bit reaches every output bit; a bijection.
#[inline(always)]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[inline(always)]
fn step(start: u64, steps: u64) -> u64 {
    start.wrapping_add(steps.wrapping_mul(GOLDEN))
}

/// A constant for each (seed, kind of input).
fn domain(seed: u64, tag: u64) -> u64 {
    mix(step(mix(step(seed, 1)), tag))
}

/// Maps 32 bits onto `0..workers` without a division.
#[inline(always)]
pub(crate) fn onto(bits: u32, workers: u32) -> u32 {
    ((u64::from(bits) * u64::from(workers)) >> 32) as u32
}

#[inline(always)]
pub(crate) fn high(x: u64) -> u32 {
    (x >> 32) as u32
}

#[inline(always)]
pub(crate) fn low(x: u64) -> u32 {
    x as u32
}

/// The first candidate of a key: F_1 in the papers.
#[inline(always)]
pub fn first_candidate(hash: KeyHash, workers: u32) -> Worker {
    Worker(onto(high(hash.0), workers))
}

/// Candidates `2 * pair` and `2 * pair + 1` of a key.
#[inline(always)]
pub fn candidate_pair(KeyHash(hash): KeyHash, pair: u64, workers: u32) -> (Worker, Worker) {
    let bits = if pair == 0 { hash } else { mix(step(hash, pair)) };
    both(bits, workers)
}

#[inline(always)]
fn both(bits: u64, workers: u32) -> (Worker, Worker) {
    (Worker(onto(high(bits), workers)), Worker(onto(low(bits), workers)))
}

/// The endless sequence of a key's candidates, repetitions included.
pub fn candidates(hash: KeyHash, workers: u32) -> impl Iterator<Item = Worker> {
    (0..).flat_map(move |pair| {
        let (first, second) = candidate_pair(hash, pair, workers);
        [first, second]
    })
}

/// Hashes keys of every kind under one seed.
#[derive(Debug, Clone)]
pub struct KeyHasher {
    whole: u64,
    large: u64,
    string: u64,
    binary: u64,
    null: u64,
    decimal: u64,
}

impl KeyHasher {
    /// The hasher of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            whole: domain(seed, 1),
            large: domain(seed, 2),
            string: domain(seed, 3),
            binary: domain(seed, 4),
            null: domain(seed, 5),
            decimal: domain(seed, 6),
        }
    }

    /// A whole number that fits a signed 64-bit integer.
    #[inline(always)]
    pub fn whole(&self, value: i64) -> u64 {
        mix(value as u64 ^ self.whole)
    }

    /// A whole number that fits an unsigned 64-bit integer.
    #[inline(always)]
    pub fn unsigned(&self, value: u64) -> u64 {
        mix(value ^ if value >> 63 == 0 { self.whole } else { self.large })
    }

    /// A string, as its UTF-8 bytes.
    #[inline]
    pub fn string(&self, utf8: &[u8]) -> u64 {
        xxh3_64_with_seed(utf8, self.string)
    }

    /// Binary data.
    #[inline]
    pub fn binary(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.binary)
    }

    /// The null key.
    #[inline]
    pub fn null(&self) -> u64 {
        self.null
    }

    /// The decimal `unscaled * 10^-scale`, `unscaled` as 256 bits of little-endian two's complement.
    pub fn decimal(&self, unscaled: [u8; 32], scale: i32) -> u64 {
        let decimal = Decimal::new(unscaled, scale);
        match decimal.whole() {
            Some(value) if value < 0 => self.whole(value as i64),
            Some(value) => self.unsigned(value as u64),
            None => {
                let (unscaled, scale) = decimal.canonical();
                let mut bytes = [0; 36];
                bytes[..32].copy_from_slice(&unscaled);
                bytes[32..].copy_from_slice(&scale.to_le_bytes());
                xxh3_64_with_seed(&bytes, self.decimal)
            }
        }
    }

    /// Hashes a column of signed integers of any width into `hashes`, vectorised.
    pub fn signed_column<T: Copy + Into<i64>>(&self, values: &[T], hashes: &mut [u64]) {
        vectorised(|| {
            for (hash, &value) in hashes.iter_mut().zip(values) {
                *hash = self.whole(value.into());
            }
        });
    }

    /// Hashes a column of unsigned integers of any width into `hashes`, vectorised.
    pub fn unsigned_column<T: Copy + Into<u64>>(&self, values: &[T], hashes: &mut [u64]) {
        vectorised(|| {
            for (hash, &value) in hashes.iter_mut().zip(values) {
                *hash = self.unsigned(value.into());
            }
        });
    }
}

/// Maps a column of hashes to their first candidates, vectorised.
pub(crate) fn first_candidates(hashes: &[u64], workers: u32, out: &mut [u32]) {
    vectorised(|| {
        for (worker, &hash) in out.iter_mut().zip(hashes) {
            *worker = first_candidate(KeyHash(hash), workers).0;
        }
    });
}

/// Runs a loop compiled for the widest vector unit of this processor.
///
/// `benches/vectors.py` measures what that brings: it compiles the loops for less, with `--cfg keysplit_vectors`.
#[inline(always)]
pub(crate) fn vectorised(run: impl FnOnce()) {
    #[cfg(keysplit_vectors = "generic")]
    run();
    #[cfg(keysplit_vectors = "avx2")]
    pulp::x86::V3::try_new().expect("a processor with AVX2").vectorize(run);
    #[cfg(not(any(keysplit_vectors = "generic", keysplit_vectors = "avx2")))]
    pulp::Arch::new().dispatch(run);
}

/// Positions of keys in a table, drawn independently of their candidates.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    domain: u64,
    size: u32,
}

impl Places {
    /// The positions of a tag, each in `0..size`.
    pub(crate) fn new(seed: u64, tag: u64, size: u32) -> Self {
        Self { domain: domain(seed, tag), size }
    }

    /// Position 0 of a key.
    #[inline(always)]
    pub(crate) fn first(&self, hash: KeyHash) -> usize {
        onto(high(mix(hash.0 ^ self.domain)), self.size) as usize
    }

    /// Positions 0 to 3 of a key.
    #[inline(always)]
    pub(crate) fn four(&self, hash: KeyHash) -> [usize; 4] {
        let hash = KeyHash(mix(hash.0 ^ self.domain));
        let ((a, b), (c, d)) = (candidate_pair(hash, 0, self.size), candidate_pair(hash, 1, self.size));
        [a, b, c, d].map(Worker::index)
    }
}

/// The random draws of one source.
#[derive(Debug, Clone)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64, source: Source) -> Self {
        Self(mix(step(domain(seed, 7), source.0.into())))
    }

    /// The 64 bits drawn for the message at `position`.
    #[inline(always)]
    pub(crate) fn bits(&self, position: u64) -> u64 {
        mix(step(self.0, position.wrapping_add(1)))
    }

    /// The 64 bits drawn for each message from `position` on.
    #[inline(always)]
    pub(crate) fn block<const LEN: usize>(&self, position: u64) -> [u64; LEN] {
        let mut draws = [0; LEN];
        for (row, draw) in (0..).zip(&mut draws) {
            *draw = self.bits(position.wrapping_add(row));
        }
        draws
    }

    /// The two workers drawn for the message at `position`.
    #[inline(always)]
    pub(crate) fn pair(&self, position: u64, workers: u32) -> (Worker, Worker) {
        both(self.bits(position), workers)
    }

    /// The first of the two workers drawn for each message from `position` on, and the second.
    #[inline(always)]
    pub(crate) fn pairs<const LEN: usize>(&self, position: u64, workers: u32) -> [[u32; LEN]; 2] {
        let [mut firsts, mut seconds] = [[0; LEN]; 2];
        for (row, (first, second)) in (0..).zip(firsts.iter_mut().zip(&mut seconds)) {
            let pair = self.pair(position.wrapping_add(row), workers);
            (*first, *second) = (pair.0.0, pair.1.0);
        }
        [firsts, seconds]
    }

    /// Where this source starts its round-robin.
    pub(crate) fn first_turn(&self, workers: u32) -> Worker {
        Worker(onto(high(self.0), workers))
    }
}

/// The positions of points on the ring.
#[derive(Debug, Clone)]
pub(crate) struct Points(u64);

impl Points {
    pub(crate) fn new(seed: u64) -> Self {
        Self(domain(seed, 8))
    }

    /// The position of the point with a given number; positions are distinct.
    pub(crate) fn point(&self, number: u64) -> u64 {
        mix(step(self.0, number.wrapping_add(1)))
    }
}

/// A uniform sample of keys, for code that cannot keep all.
#[derive(Debug, Clone)]
pub(crate) struct Sampling(u64);

impl Sampling {
    pub(crate) fn new(seed: u64) -> Self {
        Self(domain(seed, 12))
    }

    /// Whether a level keeps the key, one in 2^level.
    #[inline(always)]
    pub(crate) fn keeps(&self, hash: KeyHash, level: u32) -> bool {
        mix(hash.0 ^ self.0).trailing_zeros() >= level
    }
}

/// A decimal number without trailing zeros: sign, magnitude in 32-bit limbs (lowest first), scale.
struct Decimal {
    negative: bool,
    limbs: [u32; 8],
    scale: i32,
}

impl Decimal {
    fn new(unscaled: [u8; 32], scale: i32) -> Self {
        let negative = unscaled[31] >> 7 == 1;
        let mut limbs = [0; 8];
        for (limb, bytes) in limbs.iter_mut().zip(unscaled.chunks_exact(4)) {
            *limb = bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        }
        if negative {
            limbs = negated(limbs);
        }
        let mut decimal = Self { negative, limbs, scale };
        if decimal.limbs == [0; 8] {
            decimal.scale = 0;
        } else {
            while let (tenth, 0) = divided_by_ten(decimal.limbs) {
                decimal.limbs = tenth;
                decimal.scale = decimal.scale.saturating_sub(1);
            }
        }
        decimal
    }

    /// The value, if it is a whole number from -2^63 to 2^64 - 1.
    fn whole(&self) -> Option<i128> {
        if self.scale > 0 || self.limbs[4..] != [0; 4] {
            return None;
        }
        let magnitude = self.limbs[..4].iter().rev().fold(0u128, |number, &limb| number << 32 | u128::from(limb));
        let power = 10i128.checked_pow(self.scale.unsigned_abs())?;
        let value = i128::try_from(magnitude).ok()?.checked_mul(power)?;
        let value = if self.negative { -value } else { value };
        (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
    }

    /// Unscaled number as little-endian two's complement, and scale.
    fn canonical(&self) -> ([u8; 32], i32) {
        let limbs = if self.negative { negated(self.limbs) } else { self.limbs };
        let mut unscaled = [0; 32];
        for (bytes, limb) in unscaled.chunks_exact_mut(4).zip(limbs) {
            bytes.copy_from_slice(&limb.to_le_bytes());
        }
        (unscaled, self.scale)
    }
}

fn negated(mut limbs: [u32; 8]) -> [u32; 8] {
    let mut carry = true;
    for limb in &mut limbs {
        (*limb, carry) = (!*limb).overflowing_add(carry.into());
    }
    limbs
}

fn divided_by_ten(mut limbs: [u32; 8]) -> ([u32; 8], u32) {
    let mut rest = 0;
    for limb in limbs.iter_mut().rev() {
        let number = u64::from(rest) << 32 | u64::from(*limb);
        *limb = (number / 10) as u32;
        rest = (number % 10) as u32;
    }
    (limbs, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(value: i128) -> [u8; 32] {
        let mut bytes = [if value < 0 { 0xFF } else { 0 }; 32];
        bytes[..16].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    #[test]
    fn a_decimal_hashes_like_the_number_it_equals() {
        let keys = KeyHasher::new(3);
        for (unscaled, scale, whole) in [(0, 7, 0), (1500, 2, 15), (-1500, 2, -15), (7, -3, 7000), (-1, 0, -1)] {
            assert_eq!(keys.decimal(wide(unscaled), scale), keys.whole(whole));
        }
        assert_eq!(keys.decimal(wide(i128::from(u64::MAX)), 0), keys.unsigned(u64::MAX));
        assert_eq!(keys.decimal(wide(150), 2), keys.decimal(wide(15), 1));
        assert_eq!(keys.decimal(wide(10i128.pow(20)), 0), keys.decimal(wide(1), -20));
        assert_ne!(keys.decimal(wide(15), 1), keys.decimal(wide(-15), 1));
        assert_ne!(keys.decimal(wide(15), 1), keys.whole(15));
    }

    #[test]
    fn numbers_of_different_signs_differ() {
        let keys = KeyHasher::new(0);
        assert_eq!(keys.whole(5), keys.unsigned(5));
        assert_ne!(keys.whole(-1), keys.unsigned(u64::MAX));
    }

    #[test]
    fn a_column_hashes_like_its_values() {
        let keys = KeyHasher::new(9);
        let values: Vec<i64> = (-100..100).collect();
        let mut hashes = vec![0; values.len()];
        keys.signed_column(&values, &mut hashes);
        assert_eq!(hashes, values.iter().map(|&value| keys.whole(value)).collect::<Vec<_>>());
        let values: Vec<u64> = (0..100).map(|value| value << 57).collect();
        let mut hashes = vec![0; values.len()];
        keys.unsigned_column(&values, &mut hashes);
        assert_eq!(hashes, values.iter().map(|&value| keys.unsigned(value)).collect::<Vec<_>>());
    }

    #[test]
    fn places_are_candidates_of_another_hash() {
        let (hash, places) = (KeyHash(KeyHasher::new(7).whole(42)), Places::new(7, 10, 999));
        let again: Vec<usize> =
            candidates(KeyHash(mix(hash.0 ^ domain(7, 10))), 999).take(4).map(Worker::index).collect();
        assert_eq!(places.four(hash).to_vec(), again);
        assert_eq!(places.first(hash), again[0]);
        assert_ne!(places.first(hash), first_candidate(hash, 999).index());
    }

    #[test]
    fn candidates_are_drawn_in_pairs() {
        let hash = KeyHash(KeyHasher::new(0).whole(42));
        let first: Vec<Worker> = candidates(hash, 1000).take(6).collect();
        let (a, b) = candidate_pair(hash, 1, 1000);
        assert_eq!(first[0], first_candidate(hash, 1000));
        assert_eq!(first[2..4], [a, b]);
    }
}
