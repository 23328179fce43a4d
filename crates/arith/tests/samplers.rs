//! Joint laws of samples: of neighbours, of positions and signs, and of streams.

use sudare_arith::{
    prng::{Seed, Stream},
    sample,
};

const DRAWS: usize = 1 << 18;

fn stream(label: &str, index: u64) -> Stream {
    Stream::new(&Seed::from_bytes([9; 32]), label, index)
}

/// Pearson's statistic of `cells` against a uniform law, as standard deviations of its
/// own law above the mean.
fn excess(cells: &[u64]) -> f64 {
    let due = cells.iter().sum::<u64>() as f64 / cells.len() as f64;
    assert!(due >= 10.0);
    let statistic: f64 = cells.iter().map(|&seen| (seen as f64 - due).powi(2) / due).sum();
    let freedom = (cells.len() - 1) as f64;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn neighbouring_ternary_values_are_independent() {
    let mut values = vec![0i8; DRAWS];
    sample::ternary(&mut stream("ternary", 0), &mut values);
    for lag in [1, 2, 8, 64, 512] {
        let mut cells = [0; 9];
        for (x, y) in values.iter().zip(&values[lag..]) {
            cells[((x + 1) * 3 + y + 1) as usize] += 1;
        }
        assert!(excess(&cells).abs() < 6.0, "lag {lag}: {cells:?}");
    }
}

#[test]
fn uniform_residues_have_their_moments_and_independent_neighbours() {
    // Hardly any rejections, half of the words rejected, and a prime of a chain.
    for q in [(1 << 50) - 27, (1 << 50) + 5, 3 << 59, 0x1_fff8_0001] {
        let mut values = vec![0; DRAWS];
        sample::uniform(q, &mut stream("uniform", q), &mut values);
        let unit: Vec<f64> = values.iter().map(|&x| x as f64 / q as f64).collect();
        let n = DRAWS as f64;
        let mean = unit.iter().sum::<f64>() / n;
        let variance = unit.iter().map(|x| (x - 0.5).powi(2)).sum::<f64>() / n;
        // Standard errors: of the mean sqrt(1/12 / n), of the variance sqrt(1/180 / n).
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / n).sqrt(), "{q}: mean {mean}");
        assert!((variance - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / n).sqrt(), "{q}: {variance}");
        for lag in [1, 2, 512] {
            let mut cells = vec![0; 64 * 64];
            for (x, y) in unit.iter().zip(&unit[lag..]) {
                cells[(x * 64.0) as usize * 64 + (y * 64.0) as usize] += 1;
            }
            let found = excess(&cells);
            assert!(found.abs() < 6.0, "{q}, lag {lag}: {found}");
        }
    }
}

#[test]
fn positions_and_signs_of_fixed_weight_are_independent() {
    const LEN: usize = 64;
    const WEIGHT: usize = 21;
    let mut stream = stream("weight", 0);
    let mut signs = [0; 2 * LEN];
    let mut pairs = [0; 4];
    for _ in 0..1 << 13 {
        let mut values = [0i8; LEN];
        sample::fixed_weight(&mut stream, WEIGHT, &mut values).unwrap();
        let mut last = None;
        for (i, &x) in values.iter().enumerate().filter(|(_, x)| **x != 0) {
            let negative = usize::from(x < 0);
            signs[2 * i + negative] += 1;
            if let Some(last) = last.replace(negative) {
                pairs[2 * last + negative] += 1;
            }
        }
    }
    // Positions without replacement vary less than independent ones.
    let found = excess(&signs);
    assert!(found < 6.0 && found > -20.0, "{found}");
    assert!(excess(&pairs).abs() < 6.0, "{pairs:?}");
    assert_eq!(signs.iter().sum::<u64>(), (WEIGHT as u64) << 13);
}

#[test]
fn streams_of_other_labels_and_indices_are_unrelated() {
    let draw = |label: &str, index| {
        let mut values = vec![0i8; DRAWS];
        sample::cbd21(&mut stream(label, index), &mut values);
        values
    };
    let first = draw("error", 0);
    assert_eq!(first, draw("error", 0));
    for other in [draw("error", 1), draw("error", 1 << 63), draw("errors", 0), draw("", 0)] {
        let product: i64 =
            first.iter().zip(&other).map(|(&x, &y)| i64::from(x) * i64::from(y)).sum();
        let correlation = product as f64 / 10.5 / DRAWS as f64;
        assert!(correlation.abs() < 5.0 / (DRAWS as f64).sqrt(), "{correlation}");
    }
}
