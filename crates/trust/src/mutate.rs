//! Alters bytes, derived from a seed.

/// A pseudorandom generator that repeats for the same seed (`SplitMix64`, Steele, Lea and Flood
/// 2014). It only selects test cases.
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a random word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        // The small bias does not matter for test cases.
        (self.word() % n.max(1) as u64) as usize
    }

    /// Returns a random element.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns a word that is likely to break readers.
    pub fn edge(&mut self) -> u64 {
        let bit = self.word() % 64;
        let any = self.word();
        self.one_of(&[0, 1, u64::MAX, 1 << 63, 1 << bit, (1 << bit) - 1, any, any % 100, any >> 32])
    }

    /// Returns a number that is likely to break readers.
    pub fn number(&mut self) -> f64 {
        let any = f64::from_bits(self.word());
        let power = (self.below(2000) as f64 - 1000.0).exp2();
        let size = 8.0 + self.below(600) as f64 / 10.0;
        let subnormal = f64::MIN_POSITIVE / 8.0;
        let special = [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        match self.below(4) {
            0 => self.one_of(&special),
            1 => self.one_of(&[subnormal, f64::MAX, 1e300, 1e-300, any, power]),
            // Half of the numbers are sizes of primes in bits, so that many inputs pass the first
            // checks.
            _ => size,
        }
    }
}

/// Alters, copies, removes or inserts a few bytes.
pub fn bytes(data: &mut Vec<u8>, words: &[&[u8]], rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(data.len());
        match rng.below(9) {
            0..=1 if !data.is_empty() => data[at] ^= 1 << rng.below(8),
            2..=3 if !data.is_empty() => data[at] = rng.one_of(&[0, 1, 0x7f, 0x80, 0xff, b'9']),
            4 if at + 8 <= data.len() => {
                let word = rng.edge().to_le_bytes();
                data[at..at + 8].copy_from_slice(&word);
            }
            5 if !data.is_empty() => {
                let end = data.len().min(at + 1 + rng.below(16));
                data.drain(at..end);
            }
            6 => {
                let end = data.len().min(at + rng.below(64));
                let part = data[at..end].to_vec();
                let to = rng.below(data.len() + 1);
                data.splice(to..to, part);
            }
            // Rarely, because readers refuse a truncated file at its size.
            7 if rng.below(4) == 0 => data.truncate(at),
            _ if !words.is_empty() => {
                let word = rng.one_of(words).to_vec();
                let to = rng.below(data.len() + 1);
                data.splice(to..to, word);
            }
            _ => data.insert(at, rng.word() as u8),
        }
    }
}
