use super::{Eval, LimbSet, RnsBasis, RnsPoly};
use sudare_arith::{
    Modulus, NttTable,
    mem::{Buf, Bytes},
    par,
};

/// Read-only polynomials modulo the same primes. Each residue has the minimum number of whole bytes
/// for its prime. The order is polynomial by polynomial and row by row, as in files.
///
/// Keys and matrices are large and are read from memory at each use. Packing makes that faster, and
/// [`Modulus::mul_sum_packed`] unpacks on the way. Rows that consist of runs of equal groups of
/// words may store one group of each run; see [`RepeatPacker`].
pub struct PackedPolys {
    limbs: LimbSet,
    /// `log2` of the groups in a run.
    log_repeats: u32,
    /// Offsets of the rows in a polynomial, in bytes. The last is the polynomial's length.
    starts: Vec<usize>,
    bytes: Bytes,
    count: usize,
}

impl core::fmt::Debug for PackedPolys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PackedPolys({} of {} primes)", self.count, self.limbs.count())
    }
}

impl PackedPolys {
    /// The primes of each polynomial.
    #[must_use]
    pub fn limbs(&self) -> LimbSet {
        self.limbs
    }

    /// Number of polynomials.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// `log2` of the length of runs of equal groups of eight words; see [`NttTable::log_repeats`].
    /// Rows have one group of each run.
    #[must_use]
    pub fn log_repeats(&self) -> u32 {
        self.log_repeats
    }

    /// Packed residues of polynomial `k` modulo the `i`-th prime.
    #[must_use]
    pub fn row(&self, k: usize, i: usize) -> &[u8] {
        let poly = k * self.poly_bytes();
        &self.bytes()[poly + self.starts[i]..poly + self.starts[i + 1]]
    }

    /// The bytes of all rows.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // A buffer consists of whole words and may end after the last row.
        &self.bytes[..self.count * self.poly_bytes()]
    }

    /// Bytes of memory in use: 0 if the polynomials are in a file.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        if self.bytes.is_mapped() { 0 } else { self.bytes().len() as u64 }
    }

    fn poly_bytes(&self) -> usize {
        self.starts[self.limbs.count()]
    }
}

/// Fills [`PackedPolys`], one polynomial after the other.
pub struct Packer<'a> {
    basis: &'a RnsBasis,
    limbs: LimbSet,
    log_repeats: u32,
    starts: Vec<usize>,
    buf: Buf,
    count: usize,
}

impl core::fmt::Debug for Packer<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Packer({} of {} primes)", self.count, self.limbs.count())
    }
}

impl<'a> Packer<'a> {
    /// Returns the modulus and the row of each prime of the next polynomial. Fill every row.
    pub fn next_rows(&mut self) -> impl Iterator<Item = (&'a Modulus, &mut [u8])> {
        let poly_bytes = self.starts[self.limbs.count()];
        let mut rest = &mut self.buf.as_bytes_mut()[self.count * poly_bytes..];
        self.count += 1;
        let rows = self.starts.windows(2).map(move |pair| {
            let (row, after) = core::mem::take(&mut rest).split_at_mut(pair[1] - pair[0]);
            rest = after;
            row
        });
        self.basis.tables(self.limbs).map(|table| table.modulus()).zip(rows)
    }

    /// Packs the next polynomial.
    pub fn push(&mut self, poly: &RnsPoly<Eval>) {
        debug_assert_eq!(poly.limbs(), self.limbs);
        let run = NttTable::GROUP << self.log_repeats;
        let repeats = self.log_repeats > 0;
        par::for_each(self.next_rows().zip(poly.rows()), |((m, out), row)| match repeats {
            false => m.pack(out, row),
            true => {
                let groups = row.chunks_exact(run).flat_map(|run| &run[..NttTable::GROUP]);
                m.pack(out, &groups.copied().collect::<Vec<_>>());
            }
        });
    }

    /// Returns the packed polynomials.
    #[must_use]
    pub fn finish(self) -> PackedPolys {
        let Self { limbs, log_repeats, starts, buf, count, .. } = self;
        PackedPolys { limbs, log_repeats, starts, bytes: buf.into(), count }
    }
}

/// Packs polynomials whose rows consist of runs of equal groups of words, with one group of each
/// run: as long runs as all polynomials have. These are the plaintexts of vectors with a short
/// period, which lie in a subring.
#[derive(Debug)]
pub struct RepeatPacker<'a> {
    basis: &'a RnsBasis,
    limbs: LimbSet,
    most: usize,
    packer: Option<Packer<'a>>,
}

impl RepeatPacker<'_> {
    /// Packs the next polynomial. If its runs are shorter than in the polynomials before,
    /// these are stored by shorter runs as well.
    pub fn push(&mut self, poly: &RnsPoly<Eval>) {
        let found = par::map(poly.rows(), NttTable::found_repeats).into_iter().min().unwrap_or(0);
        let mut packer = match self.packer.take() {
            None => self.basis.packer_of_runs(self.limbs, self.most, found),
            Some(packer) if packer.log_repeats <= found => packer,
            Some(packer) => {
                let shorter = self.basis.packer_of_runs(self.limbs, self.most, found);
                shorter.holding(&packer.finish())
            }
        };
        packer.push(poly);
        self.packer = Some(packer);
    }

    /// Returns the packed polynomials.
    #[must_use]
    pub fn finish(self) -> PackedPolys {
        let empty = || self.basis.packer(self.limbs, 0);
        self.packer.unwrap_or_else(empty).finish()
    }
}

impl Packer<'_> {
    /// Copies polynomials with longer runs.
    fn holding(mut self, polys: &PackedPolys) -> Self {
        let times = 1 << (polys.log_repeats - self.log_repeats);
        for k in 0..polys.count {
            for (i, (m, out)) in self.next_rows().enumerate() {
                let group = NttTable::GROUP * m.packed_bytes();
                let stored = polys.row(k, i).chunks_exact(group);
                for (out, stored) in out.chunks_exact_mut(times * group).zip(stored) {
                    out.chunks_exact_mut(group).for_each(|out| out.copy_from_slice(stored));
                }
            }
        }
        self
    }
}

impl RnsBasis {
    /// Bytes of a packed polynomial modulo the primes of `limbs`.
    #[must_use]
    pub fn packed_bytes(&self, limbs: LimbSet) -> u64 {
        let residue: usize = self.tables(limbs).map(|t| t.modulus().packed_bytes()).sum();
        (residue as u64) << self.log_n()
    }

    /// Bytes of a packed row of a prime, given by its table.
    pub(crate) fn packed_row_bytes(&self, table: &NttTable) -> usize {
        table.modulus().packed_bytes() << self.log_n()
    }

    /// Makes a packer for up to `count` polynomials modulo the primes of `limbs`.
    #[must_use]
    pub fn packer(&self, limbs: LimbSet, count: usize) -> Packer<'_> {
        self.packer_of_runs(limbs, count, 0)
    }

    /// Makes a packer for up to `count` polynomials modulo the primes of `limbs`, by the runs of
    /// their rows.
    #[must_use]
    pub fn repeat_packer(&self, limbs: LimbSet, count: usize) -> RepeatPacker<'_> {
        RepeatPacker { basis: self, limbs, most: count, packer: None }
    }

    fn packer_of_runs(&self, limbs: LimbSet, count: usize, log_repeats: u32) -> Packer<'_> {
        let starts: Vec<_> =
            self.packed_starts(limbs).into_iter().map(|start| start >> log_repeats).collect();
        let words = (count * starts[limbs.count()]).div_ceil(8);
        let buf = self.pool().take(words);
        Packer { basis: self, limbs, log_repeats, starts, buf, count: 0 }
    }

    /// Interprets `bytes` as polynomials modulo the primes of `limbs`. Residues must be below their
    /// primes.
    #[must_use]
    pub fn packed(&self, limbs: LimbSet, bytes: Bytes) -> PackedPolys {
        let starts = self.packed_starts(limbs);
        let count = bytes.len() / starts[limbs.count()];
        PackedPolys { limbs, log_repeats: 0, starts, bytes, count }
    }

    fn packed_starts(&self, limbs: LimbSet) -> Vec<usize> {
        let ends = self.tables(limbs).scan(0, |end, table| {
            *end += self.packed_row_bytes(table);
            Some(*end)
        });
        core::iter::once(0).chain(ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Coeff;

    /// Polynomials in `X^8`, `X^16`, `X^16` and `X`, one after the other, are stored as shortly as
    /// the last of them needs.
    #[test]
    fn runs_are_stored_once_while_every_polynomial_has_them() {
        let log_n = 7;
        let basis = RnsBasis::new(log_n, &[257, 65_537], &[769]).unwrap();
        let poly = |log_gap: u32| {
            let mut poly: RnsPoly<Coeff> = basis.zero(basis.all());
            for row in poly.rows_mut() {
                row.iter_mut().step_by(1 << log_gap).zip(3..).for_each(|(x, j)| *x = j);
            }
            basis.into_eval(poly)
        };
        let gaps = [4, 5, 3, 5, 0];
        for count in 0..=gaps.len() {
            let polys: Vec<_> = gaps[..count].iter().map(|&gap| poly(gap)).collect();
            let mut packer = basis.repeat_packer(basis.all(), gaps.len());
            polys.iter().for_each(|poly| packer.push(poly));
            let packed = packer.finish();
            let log_repeats = gaps[..count].iter().map(|gap| gap.max(&3) - 3).min().unwrap_or(0);
            assert_eq!((packed.count(), packed.log_repeats()), (count, log_repeats));
            assert_eq!(packed.bytes().len(), (count * 128 * (2 + 3 + 2)) >> log_repeats);
            for (k, poly) in polys.iter().enumerate() {
                for i in 0..3 {
                    let mut out = vec![0; 128 >> log_repeats];
                    assert!(basis.modulus(basis.all(), i).unpack(&mut out, packed.row(k, i)));
                    let times = 1 << log_repeats;
                    let full: Vec<_> =
                        out.chunks(8).flat_map(|group| group.repeat(times)).collect();
                    assert_eq!(full, poly.row(i));
                }
            }
        }
    }

    #[test]
    fn rows_have_the_bytes_of_their_primes() {
        let basis = RnsBasis::new(5, &[193, 65_537], &[257]).unwrap();
        assert_eq!(basis.packed_bytes(LimbSet::chain(1)), 32);
        assert_eq!(basis.packed_bytes(basis.all()), 32 * (1 + 3 + 2));
        let poly = |k: u64| {
            let mut poly: RnsPoly<Eval> = basis.take(basis.all());
            for (i, row) in poly.rows_mut().enumerate() {
                row.iter_mut().zip(0..).for_each(|(x, j)| *x = (j + 40 * k + 60 * i as u64) % 193);
            }
            poly
        };
        let mut packer = basis.packer(basis.all(), 3);
        (0..2).for_each(|k| packer.push(&poly(k)));
        let packed = packer.finish();
        assert_eq!((packed.count(), packed.bytes().len()), (2, 2 * 32 * 6));
        assert_eq!(packed.log_repeats(), 0);
        let mut out = vec![0; 32];
        for k in 0..2 {
            for i in 0..3 {
                assert!(basis.modulus(basis.all(), i).unpack(&mut out, packed.row(k, i)));
                assert_eq!(out, poly(k as u64).row(i));
            }
        }
    }
}
