//! Wide normal integers from narrow ones, by convolution.

use crate::prng::Stream;
use zeroize::Zeroizing;

/// `log2` of the standard deviation of the values of [`gaussian`].
pub const GAUSSIAN_LOG2_DEVIATION: u32 = 63;

/// Maximum number of bits of a value of [`gaussian`], without the sign.
pub const GAUSSIAN_BITS: u32 = 68;

/// Number of narrow values in a wide one, minus one.
const SUMMANDS: usize = 30;

/// Cumulative probabilities that a narrow value is 0 in magnitude, at most 1, at most 2 and so on,
/// times `2^127` and each rounded to the nearest. The weight of 0 is halved here, because both
/// signs stand for 0.
const TABLE: [u128; 135] = [
    0x04f1be49_3fb839d4_332a9176_82883013,
    0x0ec9642e_e2c24cbb_224a8b4b_4f5bcbfd,
    0x187ddad3_f257bf06_d2001d66_d2d6f04b,
    0x21f8c406_241a2b53_6d3b3a5a_0ab86688,
    0x2b2555ff_a7477269_c8be9af2_975c4fe4,
    0x33f0e300_e0aa32b9_cc3e7960_0a787771,
    0x3c4b48c4_5800392d_b03b89e1_b3ded073,
    0x44274399_f04005b7_117070c3_932761d7,
    0x4b7aa2ae_6d52a0b7_80291065_6dae15af,
    0x523e5cd0_6750992f_b3e430a3_8a65ce78,
    0x586e86c1_e84080a2_113ca076_9a279d09,
    0x5e0a2db6_d66fa238_14b82f0c_8715ae36,
    0x631319ea_5f4f8195_8eb41c39_48e061be,
    0x678d7e26_bcf068e7_1afc3ae7_3d007cda,
    0x6b7f99a9_5e10465c_4a3a7583_88651946,
    0x6ef151f8_cc10ad50_9071aab2_4efccaba,
    0x71ebca10_b0b17b13_b4c467ee_7dcdd811,
    0x7478fbc8_a8ac0fcf_5bb3d1d7_7a1b9277,
    0x76a3579e_500ea4ab_9828d8ce_18aee76e,
    0x78756e26_d88ba114_6b45e96c_a30c47b1,
    0x79f9a575_95954f66_63bce6c3_d4289427,
    0x7b39fbce_db55f9bd_bf4104b4_9c7ee0cc,
    0x7c3fd81a_023e7d31_a215d718_f2210331,
    0x7d13e7bf_1ceec9e3_c66191f9_4966afe8,
    0x7dbe08fd_55207208_f519e7b9_7cf8e6b7,
    0x7e454051_fdc0aa7b_be633f09_1128efdf,
    0x7eafb73e_4babfe12_ba430433_568ba22c,
    0x7f02c297_2ee1a7c5_9b4d3cbd_d4d9c5d0,
    0x7f42ee8a_726da83d_22d4717c_82a47bda,
    0x7f740e9f_2793e42c_753aa1aa_bfd7ec3b,
    0x7f995025_eba43f3f_92ff900a_d7d1550f,
    0x7fb54dc8_73fe098e_d7b61c39_ac78961d,
    0x7fca2328_589b27a8_601d1a93_269b754e,
    0x7fd97fbd_cd21fab7_123a65df_ba84f6d1,
    0x7fe4b863_a07f964e_9125425b_65fcb803,
    0x7fecd733_8c207e82_1ee32abd_c989a4c5,
    0x7ff2a982_e9d184fb_5a82873b_8ab8b01f,
    0x7ff6cbf3_b33bb61c_81dc21b6_e05cffe1,
    0x7ff9b4a8_6c93b8a2_828e6cc0_8b6370f9,
    0x7ffbbbbc_190fa699_c202785c_31edeb75,
    0x7ffd222a_bbfa8acb_629161f0_3bc44860,
    0x7ffe175c_8984e640_10f5fcb5_30a91445,
    0x7ffebd87_1ffeca01_e95d5422_67a67fe5,
    0x7fff2d16_2e8a14c2_e6237aa0_aa4f3570,
    0x7fff7748_e99d06c0_4ba55b4f_ac4b6ffb,
    0x7fffa82c_7d97edce_a2afe814_1d383ea1,
    0x7fffc816_05c27bff_d7ffd620_e65feebf,
    0x7fffdcb8_eab3f016_54953c8c_a5e43e1a,
    0x7fffe9f1_44159e26_3f202ab5_afd9b00a,
    0x7ffff255_21683a35_82f72c24_7d6346a8,
    0x7ffff79b_8b878990_8d7ab706_27b1474a,
    0x7ffffae4_a92f388c_dd64befd_227083a0,
    0x7ffffceb_aae9aab0_c036defb_98bb8805,
    0x7ffffe28_ee1a75aa_fc17e0d8_1eace6d1,
    0x7ffffee9_0f1ef69e_e7102973_f9e46b40,
    0x7fffff5c_52d48219_e5b3f4b0_ca8c4fb6,
    0x7fffffa0_d449c896_dc52f645_68ffda5c,
    0x7fffffc9_2a26485d_be21bec4_5f078109,
    0x7fffffe0_b12bce7f_cca104ab_68fbba53,
    0x7fffffee_49960fd6_d635bebd_3d777da1,
    0x7ffffff6_11fc029b_683e1900_74d7fca8,
    0x7ffffffa_7be8e575_c0f36746_e43e5f6d,
    0x7ffffffc_f6bb4732_38ca70fb_775b0ced,
    0x7ffffffe_5810274b_8fe0ebbe_5ed48d62,
    0x7fffffff_1ae2fc37_073b9d4c_44380602,
    0x7fffffff_854ede23_ae3a23f8_4a3e3471,
    0x7fffffff_bee5d6fe_ec13b234_c4ad6d51,
    0x7fffffff_ddc58624_8c146ddd_9841f9a5,
    0x7fffffff_ee2b2393_9c9d280c_a4803c8d,
    0x7fffffff_f6cbac4f_ab89d874_3f5e878e,
    0x7fffffff_fb4ad433_afe8563f_9bcfa05d,
    0x7fffffff_fd9d3f70_585ee739_fe4a6e97,
    0x7fffffff_fecd526f_b47d7a59_893495a7,
    0x7fffffff_ff676b58_f4364ee8_35d713b5,
    0x7fffffff_ffb4c889_3191a75b_cef228c9,
    0x7fffffff_ffdb42e1_6d516e68_bedf253b,
    0x7fffffff_ffee3859_c9987495_ce978acb,
    0x7fffffff_fff77971_26311d72_df4f156f,
    0x7fffffff_fffbf30f_46223207_07faba57,
    0x7fffffff_fffe17df_f55894b5_6b36b96c,
    0x7fffffff_ffff1c55_b6a4cb4b_88adbdcd,
    0x7fffffff_ffff96ca_c2da9568_906730ed,
    0x7fffffff_ffffcfd4_381d45ba_dffcb86a,
    0x7fffffff_ffffea25_af692844_9e2f7cdd,
    0x7fffffff_fffff62d_818462b1_7c8bc579,
    0x7fffffff_fffffba0_3657a04c_a470a7c6,
    0x7fffffff_fffffe11_ea725940_e7aa690e,
    0x7fffffff_ffffff28_0115ec7a_0e8bf086,
    0x7fffffff_ffffffa2_71e656a0_229da204,
    0x7fffffff_ffffffd7_da0e3319_8878d08e,
    0x7fffffff_ffffffee_ee014c5f_21ac2f87,
    0x7fffffff_fffffff8_cf197db1_b0dd8f0e,
    0x7fffffff_fffffffc_ffa8fe6c_6c5c94ec,
    0x7fffffff_fffffffe_c246d06f_0592edd7,
    0x7fffffff_ffffffff_7dd40764_e6f1e316,
    0x7fffffff_ffffffff_cb2931cd_b224d3bd,
    0x7fffffff_ffffffff_eabff07a_19dc0f81,
    0x7fffffff_ffffffff_f788638a_d0b3343d,
    0x7fffffff_ffffffff_fca849e0_f5e8c1bc,
    0x7fffffff_ffffffff_feb14fbf_e5886a3c,
    0x7fffffff_ffffffff_ff7e4e42_115d7a93,
    0x7fffffff_ffffffff_ffce3507_cc1ff177,
    0x7fffffff_ffffffff_ffed0f61_1655aacc,
    0x7fffffff_ffffffff_fff8dcc4_5586c31d,
    0x7fffffff_ffffffff_fffd55c4_10fae309,
    0x7fffffff_ffffffff_ffff03a1_89f9cdb6,
    0x7fffffff_ffffffff_ffffa382_39662a68,
    0x7fffffff_ffffffff_ffffde6a_973b17e1,
    0x7fffffff_ffffffff_fffff3eb_2cb0b33e,
    0x7fffffff_ffffffff_fffffbb1_b0aacd7b,
    0x7fffffff_ffffffff_fffffe7a_c3d6a79b,
    0x7fffffff_ffffffff_ffffff77_d4a53044,
    0x7fffffff_ffffffff_ffffffd0_cdd0171b,
    0x7fffffff_ffffffff_ffffffef_cb20ff44,
    0x7fffffff_ffffffff_fffffffa_7c876e38,
    0x7fffffff_ffffffff_fffffffe_24422bd1,
    0x7fffffff_ffffffff_ffffffff_6122b328,
    0x7fffffff_ffffffff_ffffffff_cb7129aa,
    0x7fffffff_ffffffff_ffffffff_eec5ed52,
    0x7fffffff_ffffffff_ffffffff_fa67eabe,
    0x7fffffff_ffffffff_ffffffff_fe334575,
    0x7fffffff_ffffffff_ffffffff_ff6d262f,
    0x7fffffff_ffffffff_ffffffff_ffd1a09e,
    0x7fffffff_ffffffff_ffffffff_fff17e05,
    0x7fffffff_ffffffff_ffffffff_fffb80da,
    0x7fffffff_ffffffff_ffffffff_fffe9e83,
    0x7fffffff_ffffffff_ffffffff_ffff9476,
    0x7fffffff_ffffffff_ffffffff_ffffdf96,
    0x7fffffff_ffffffff_ffffffff_fffff652,
    0x7fffffff_ffffffff_ffffffff_fffffd23,
    0x7fffffff_ffffffff_ffffffff_ffffff29,
    0x7fffffff_ffffffff_ffffffff_ffffffc2,
    0x7fffffff_ffffffff_ffffffff_ffffffee,
    0x7fffffff_ffffffff_ffffffff_fffffffb,
    0x7fffffff_ffffffff_ffffffff_ffffffff,
];

/// Draws discrete normal integers of mean 0 and standard deviation `2^63`, in constant time.
///
/// A narrow value `y` has probability proportional to `exp(-3 y^2 / 640)`, hence variance
/// `320 / 3`. It is drawn from 127 bits and a sign by comparison with every entry of a table. A
/// wide value is `y_0 + 3 (y_1 + 4 y_2 + ... + 4^29 y_30)`, of variance `2^126 + 128 / 3`. Its
/// statistical distance from the discrete normal distribution of that variance is below `2^-115`
/// (`docs/notes/release-noise.md`). Each value uses 62 words.
///
/// The method follows Micciancio and Walter, "Gaussian Sampling over the Integers: Efficient,
/// Generic, Constant-Time" (CRYPTO 2017), with fixed weights, so that all sums are exact.
pub fn gaussian(stream: &mut Stream, out: &mut [i128]) {
    let mut words = Zeroizing::new([0; 2 * (SUMMANDS + 1)]);
    for value in out {
        stream.fill(&mut *words);
        let mut narrow = words
            .chunks_exact(2)
            .map(|pair| narrow_of(u128::from(pair[0]) << 64 | u128::from(pair[1])));
        let wide = narrow.by_ref().take(SUMMANDS).fold(0, |sum, y| 4 * sum + i128::from(y));
        *value = narrow.fold(3 * wide, |sum, y| sum + i128::from(y));
    }
}

fn narrow_of(word: u128) -> i64 {
    let uniform = word >> 1;
    let sign = (word & 1) as i64;
    let magnitude: i64 = TABLE.iter().map(|&below| i64::from(uniform >= below)).sum();
    // Negates without a branch.
    (magnitude ^ -sign) + sign
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{DRAWS, chi_square, digest, stream};
    use num_bigint::BigUint;

    /// `exp(-3 z^2 / 640)` for `z = 0, 1, ...`, in units of `2^-512`.
    fn weights() -> impl Iterator<Item = BigUint> {
        const BITS: u32 = 512;
        // exp(-3/640) by its series, whose terms alternate.
        let one = BigUint::from(1u32) << BITS;
        let mut root = one.clone();
        let mut term = one.clone();
        for k in 1..200u32 {
            term = term * 3u32 / (640 * k);
            if k % 2 == 1 { root -= &term } else { root += &term }
        }
        // Weights from z^2 to (z + 1)^2 by the powers 2 z + 1.
        let square = (&root * &root) >> BITS;
        let step = (one, root);
        core::iter::successors(Some(step), move |(weight, power)| {
            Some(((weight * power) >> BITS, (power * &square) >> BITS))
        })
        .map(|(weight, _)| weight)
    }

    #[test]
    fn table_is_that_of_big_integers() {
        let mut weights: Vec<BigUint> = weights().take(400).collect();
        weights[0] >>= 1;
        let total: BigUint = weights.iter().sum();
        let mut below = BigUint::ZERO;
        let one = BigUint::from(1u32) << 127;
        let expected = weights.iter().map(|weight| {
            below += weight;
            (((&below << 128) / &total) + 1u32) >> 1
        });
        let expected: Vec<BigUint> = expected.take_while(|entry| *entry < one).collect();
        assert_eq!(TABLE.map(BigUint::from).to_vec(), expected);
    }

    /// Checks the bounds of the note from the constants here.
    #[test]
    fn distance_from_the_normal_law() {
        // A sum A + k B of such values is again such a value, except for a factor of its
        // probabilities within 1 +- 2 exp(-2 pi^2 t^2), 1 / t^2 = k^2 / var A + 1 / var B.
        let narrow: f64 = 320.0 / 3.0;
        let mut variance = narrow;
        let mut factor = 3.0;
        let mut smoothing = 0.0;
        for _ in 0..SUMMANDS {
            let t2 = 1.0 / (factor * factor / variance + 1.0 / narrow);
            smoothing += 2.0 * (-2.0 * core::f64::consts::PI.powi(2) * t2).exp();
            variance += factor * factor * narrow;
            factor *= 4.0;
        }
        let deviation = f64::from(GAUSSIAN_LOG2_DEVIATION).exp2();
        assert!((variance.sqrt() / deviation - 1.0).abs() < 1e-15);
        // Rounding changes each probability of a narrow value by at most 2^-128.
        let cells = 2.0 * (TABLE.len() + 1) as f64;
        let rounding = (SUMMANDS + 1) as f64 * cells / 2.0 * (-128f64).exp2();
        let distance = smoothing + rounding;
        assert!(smoothing < (-180f64).exp2() && distance < (-115f64).exp2(), "{distance:e}");
    }

    #[test]
    fn extreme_words() {
        assert_eq!((narrow_of(0), narrow_of(1)), (0, 0));
        assert_eq!((narrow_of(u128::MAX), narrow_of(u128::MAX - 1)), (-135, 135));
        let below = TABLE[9] << 1;
        assert_eq!((narrow_of(below - 2), narrow_of(below), narrow_of(below + 1)), (9, 10, -10));
        let largest = 135 * (1 + 3 * ((1i128 << (2 * SUMMANDS)) - 1) / 3);
        assert!(largest < 1 << GAUSSIAN_BITS);
    }

    #[test]
    fn narrow_values_have_their_law() {
        let mut counts = vec![0; 2 * TABLE.len() + 1];
        let mut stream = stream("narrow");
        for _ in 0..DRAWS {
            let word = u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
            counts[(narrow_of(word) + TABLE.len() as i64) as usize] += 1;
        }
        let weight = |i: usize| (-3.0 / 640.0 * (i as f64 - TABLE.len() as f64).powi(2)).exp();
        let weights: Vec<f64> = (0..counts.len()).map(weight).collect();
        let total: f64 = weights.iter().sum();
        let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let fit = chi_square(&counts, &law);
        assert!(fit < 1.0, "{fit}");
    }

    /// Draws, with mean and variance in units of the distribution, and Pearson's statistic over its
    /// limit in cells of a quarter of a deviation.
    fn fit(draws: usize) -> [f64; 3] {
        const CELLS: usize = 48;
        let deviation = f64::from(GAUSSIAN_LOG2_DEVIATION).exp2();
        let density = |x: f64| (-x * x / 2.0).exp() / core::f64::consts::TAU.sqrt();
        let edge = |i: usize| (i as f64 - CELLS as f64 / 2.0) / 4.0;
        // By Simpson's rule.
        let cell = |i: usize| {
            let a = edge(i);
            let b = edge(i + 1);
            (b - a) / 6.0 * (density(a) + 4.0 * density((a + b) / 2.0) + density(b))
        };
        let law: Vec<f64> = (0..CELLS).map(cell).collect();
        let mut counts = vec![0; CELLS];
        let mut sum = 0.0;
        let mut squares = 0.0;
        let mut products = 0.0;
        let mut stream = stream("wide");
        let mut block = [0; 1 << 10];
        for _ in 0..draws / block.len() {
            gaussian(&mut stream, &mut block);
            let values = block.map(|x| x as f64 / deviation);
            for x in values {
                let place = (4.0 * x + CELLS as f64 / 2.0).floor();
                counts[place.clamp(0.0, CELLS as f64 - 1.0) as usize] += 1;
            }
            sum += values.iter().sum::<f64>();
            squares += values.iter().map(|x| x * x).sum::<f64>();
            products += values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        }
        let n = draws as f64;
        assert!((products / n).abs() < 5.0 / n.sqrt(), "neighbours depend: {products}");
        [sum / n, squares / n, chi_square(&counts, &law)]
    }

    #[test]
    fn wide_values_have_their_law() {
        let [mean, variance, fit] = fit(DRAWS / 4);
        // Five deviations of each.
        let n = (DRAWS / 4) as f64;
        assert!(mean.abs() < 5.0 / n.sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{variance}");
        assert!(fit < 1.0, "{fit}");
    }

    #[test]
    #[ignore = "minutes: 2^24 draws"]
    fn wide_values_have_their_law_in_many_draws() {
        let [mean, variance, fit] = fit(1 << 24);
        assert!(mean.abs() < 5.0 * (-12f64).exp2(), "{mean}");
        assert!((variance - 1.0).abs() < 0.0017, "{variance}");
        assert!(fit < 1.0, "{fit}");
    }

    #[test]
    fn known_answers() {
        let mut values = vec![0; 256];
        gaussian(&mut stream("known answers"), &mut values);
        assert_eq!(
            digest(values.iter().flat_map(|x| x.to_le_bytes())),
            "bcd70aaf1ea02d7d0bf859c06d72672e45d135b800f10a2a51f591fcc8158ff7"
        );
        // In two reads as in one.
        let mut again = vec![0; 256];
        let mut stream = stream("known answers");
        let (first, second) = again.split_at_mut(101);
        gaussian(&mut stream, first);
        gaussian(&mut stream, second);
        assert_eq!(values, again);
    }
}
