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
/// [`Modulus::mul_sum_packed`] unpacks on the way.
pub struct PackedPolys {
    limbs: LimbSet,
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
        par::for_each(self.next_rows().zip(poly.rows()), |((m, out), row)| m.pack(out, row));
    }

    /// Returns the packed polynomials.
    #[must_use]
    pub fn finish(self) -> PackedPolys {
        let Self { limbs, starts, buf, count, .. } = self;
        PackedPolys { limbs, starts, bytes: buf.into(), count }
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
        let starts = self.packed_starts(limbs);
        let words = (count * starts[limbs.count()]).div_ceil(8);
        Packer { basis: self, limbs, starts, buf: self.pool().take(words), count: 0 }
    }

    /// Interprets `bytes` as polynomials modulo the primes of `limbs`. Residues must be below their
    /// primes.
    #[must_use]
    pub fn packed(&self, limbs: LimbSet, bytes: Bytes) -> PackedPolys {
        let starts = self.packed_starts(limbs);
        let count = bytes.len() / starts[limbs.count()];
        PackedPolys { limbs, starts, bytes, count }
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
        let mut out = vec![0; 32];
        for k in 0..2 {
            for i in 0..3 {
                assert!(basis.modulus(basis.all(), i).unpack(&mut out, packed.row(k, i)));
                assert_eq!(out, poly(k as u64).row(i));
            }
        }
    }
}
