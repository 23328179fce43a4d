use super::Real;
use std::ops::{Add, Mul, Neg, Sub};

/// `re + i im`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct Complex<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

impl<T> Complex<T> {
    /// `re + i im`.
    #[inline(always)]
    pub const fn new(re: T, im: T) -> Self {
        Self { re, im }
    }
}

/// A real number.
impl From<f64> for Complex<f64> {
    #[inline(always)]
    fn from(re: f64) -> Self {
        Self::new(re, 0.0)
    }
}

impl<T: Copy + Neg<Output = T>> Complex<T> {
    /// `re - i im`.
    #[inline(always)]
    #[must_use]
    pub fn conj(self) -> Self {
        Self::new(self.re, -self.im)
    }

    /// `i` times the number.
    #[inline(always)]
    pub(super) fn mul_i(self) -> Self {
        Self::new(-self.im, self.re)
    }
}

impl<T: Real> Complex<T> {
    /// Product with the conjugate of `y`.
    #[inline(always)]
    pub(super) fn mul_conj(self, y: Self) -> Self {
        Self::new(self.re * y.re + self.im * y.im, self.im * y.re - self.re * y.im)
    }

    /// Product with a power of two.
    #[inline(always)]
    pub(super) fn scale(self, power_of_two: f64) -> Self {
        Self::new(self.re.scale(power_of_two), self.im.scale(power_of_two))
    }
}

impl<T: Add<Output = T>> Add for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn add(self, y: Self) -> Self {
        Self::new(self.re + y.re, self.im + y.im)
    }
}

impl<T: Sub<Output = T>> Sub for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, y: Self) -> Self {
        Self::new(self.re - y.re, self.im - y.im)
    }
}

impl<T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T>> Mul for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, y: Self) -> Self {
        Self::new(self.re * y.re - self.im * y.im, self.re * y.im + self.im * y.re)
    }
}

impl<T: Neg<Output = T>> Neg for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::new(-self.re, -self.im)
    }
}
