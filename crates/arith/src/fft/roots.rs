use super::Complex;
use crate::dd::Dd;

/// Powers of `exp(2 pi i / 2^log_order)`, each the product of two of `2^(log_order/2)` tabulated
/// powers, within `2^-100`.
pub(super) struct Roots {
    log_order: u32,
    log_fine: u32,
    fine: Vec<Complex<Dd>>,
    coarse: Vec<Complex<Dd>>,
}

impl Roots {
    pub(super) fn new(log_order: u32) -> Self {
        let log_fine = log_order / 2;
        let table = |len: usize, step: u32| {
            (0..len as u64)
                .map(|k| {
                    let turns = Dd::from(k << step).mul_pow2(-(log_order as i32));
                    let (im, re) = turns.sin_cos_turns();
                    Complex { re, im }
                })
                .collect()
        };
        // Angles up to an eighth of a turn suffice. Symmetry yields the others.
        let coarse_len = (1 << (log_order - log_fine)) / 8 + 1;
        Self {
            log_order,
            log_fine,
            fine: table(1 << log_fine, 0),
            coarse: table(coarse_len, log_fine),
        }
    }

    /// Returns the power with exponent `index` modulo `2^log_order`.
    pub(super) fn power(&self, index: u32) -> Complex<Dd> {
        let order = 1u64 << self.log_order;
        let index = u64::from(index) % order;
        // Nearest quarter turn, and the signed rest.
        let quarters = (4 * index + order / 2) / order;
        let rest = index.abs_diff(quarters * order / 4) as usize;
        let mut root =
            self.coarse[rest >> self.log_fine] * self.fine[rest & ((1 << self.log_fine) - 1)];
        if index < quarters * order / 4 {
            root = root.conj();
        }
        for _ in 0..quarters % 4 {
            root = root.mul_i();
        }
        root
    }
}
