//! A hash of hashes for tables that adversarial keys must not crowd: nobody can tell where it puts a key.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

/// Drawn once per process.
///
/// It hashes twice. One round is a multiplication by the secret: where keys differ by a constant step, so do their
/// places, and for one secret in about fifty these lie together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secret(DefaultHashBuilder);

impl Secret {
    #[inline(always)]
    pub(crate) fn place(&self, key: impl Hash) -> u64 {
        self.0.hash_one(self.0.hash_one(key).rotate_left(32))
    }
}
