//! Eight numbers side by side, in plain arrays that compile to vector instructions.

use super::Complex;
use crate::dd::Dd;

/// Eight numbers side by side.
pub trait Lanes: Copy + Default + std::fmt::Debug + Send + Sync {
    /// Type of one number.
    type Scalar;
    fn get(&self, lane: usize) -> Self::Scalar;
    fn set(&mut self, lane: usize, x: Self::Scalar);
    /// Splits the 16 numbers of two `Lanes` that follow each other in memory into the numbers of
    /// even index and of odd index.
    fn unzip(block: (Self, Self)) -> (Self, Self);
    /// Inverse of `unzip`.
    fn zip(even_odd: (Self, Self)) -> (Self, Self);
    /// Moves lane `i` of row `j` to lane `j` of row `i`.
    fn transpose(rows: &[Self; 8]) -> [Self; 8];
}

/// Eight `f64`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(transparent)]
pub struct F64x8(pub [f64; 8]);

/// Eight `Dd`, all leading words first.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct DdX8 {
    pub hi: F64x8,
    pub lo: F64x8,
}

impl Lanes for F64x8 {
    type Scalar = f64;
    #[inline(always)]
    fn get(&self, lane: usize) -> f64 {
        self.0[lane]
    }
    #[inline(always)]
    fn set(&mut self, lane: usize, x: f64) {
        self.0[lane] = x;
    }
    #[inline(always)]
    fn unzip((Self(a), Self(b)): (Self, Self)) -> (Self, Self) {
        (
            Self([a[0], a[2], a[4], a[6], b[0], b[2], b[4], b[6]]),
            Self([a[1], a[3], a[5], a[7], b[1], b[3], b[5], b[7]]),
        )
    }
    #[inline(always)]
    fn zip((Self(a), Self(b)): (Self, Self)) -> (Self, Self) {
        (
            Self([a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]]),
            Self([a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]]),
        )
    }
    #[inline(always)]
    fn transpose(rows: &[Self; 8]) -> [Self; 8] {
        let mut columns = [Self::default(); 8];
        for (l, column) in columns.iter_mut().enumerate() {
            for (lane, row) in column.0.iter_mut().zip(rows) {
                *lane = row.0[l];
            }
        }
        columns
    }
}

impl Lanes for DdX8 {
    type Scalar = Dd;
    #[inline(always)]
    fn get(&self, lane: usize) -> Dd {
        Dd::from_parts((self.hi.0[lane], self.lo.0[lane]))
    }
    #[inline(always)]
    fn set(&mut self, lane: usize, x: Dd) {
        (self.hi.0[lane], self.lo.0[lane]) = (x.hi(), x.lo());
    }
    #[inline(always)]
    fn unzip((a, b): (Self, Self)) -> (Self, Self) {
        let (hi_front, lo_front) = F64x8::unzip((a.hi, a.lo));
        let (hi_back, lo_back) = F64x8::unzip((b.hi, b.lo));
        let (hi_even, hi_odd) = F64x8::unzip((hi_front, hi_back));
        let (lo_even, lo_odd) = F64x8::unzip((lo_front, lo_back));
        (Self { hi: hi_even, lo: lo_even }, Self { hi: hi_odd, lo: lo_odd })
    }
    #[inline(always)]
    fn zip((even, odd): (Self, Self)) -> (Self, Self) {
        let (hi_front, hi_back) = F64x8::zip((even.hi, odd.hi));
        let (lo_front, lo_back) = F64x8::zip((even.lo, odd.lo));
        let (front_hi, front_lo) = F64x8::zip((hi_front, lo_front));
        let (back_hi, back_lo) = F64x8::zip((hi_back, lo_back));
        (Self { hi: front_hi, lo: front_lo }, Self { hi: back_hi, lo: back_lo })
    }
    #[inline(always)]
    fn transpose(rows: &[Self; 8]) -> [Self; 8] {
        let hi = F64x8::transpose(&rows.map(|row| row.hi));
        let lo = F64x8::transpose(&rows.map(|row| row.lo));
        std::array::from_fn(|i| Self { hi: hi[i], lo: lo[i] })
    }
}

impl<L: Lanes> Complex<L> {
    #[inline(always)]
    pub(super) fn get(&self, lane: usize) -> Complex<L::Scalar> {
        Complex::new(self.re.get(lane), self.im.get(lane))
    }

    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, x: Complex<L::Scalar>) {
        self.re.set(lane, x.re);
        self.im.set(lane, x.im);
    }

    /// Reorders numbers one after the other to real parts before imaginary parts.
    #[inline(always)]
    pub(super) fn deinterleave(&mut self) {
        (self.re, self.im) = L::unzip((self.re, self.im));
    }

    /// Inverse of [`deinterleave`](Self::deinterleave).
    #[inline(always)]
    pub(super) fn interleave(&mut self) {
        (self.re, self.im) = L::zip((self.re, self.im));
    }

    #[inline(always)]
    pub(super) fn transpose(rows: &[Self; 8]) -> [Self; 8] {
        let re = L::transpose(&rows.map(|row| row.re));
        let im = L::transpose(&rows.map(|row| row.im));
        std::array::from_fn(|i| Self { re: re[i], im: im[i] })
    }
}
