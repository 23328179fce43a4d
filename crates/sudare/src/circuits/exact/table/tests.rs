use super::*;
use crate::{
    Error,
    circuits::exact::sim,
    exact::{BatchEncoder, Form, Spec, tests::Session},
    rlwe::KeyRequest,
};

const LOG_N: u32 = 8;

fn session(t: Modulus, levels: usize) -> Session {
    let spec = Spec::uniform(LOG_N, t, 50.0, levels, 42.0, vec![50.0; 3]);
    Session::new(Spec { insecure: true, ..spec }, 11)
}

/// Evaluates tables on every point, encrypted and simulated, which must agree. Returns the number
/// of relinearisations.
fn check(s: &mut Session, t: Modulus, points: &[i128], functions: &[Vec<i128>]) -> usize {
    let tables = Tables::new(t, points, functions).unwrap();
    for (i, &x) in points.iter().enumerate() {
        let values: Vec<u128> = functions.iter().map(|f| t.reduce_i128(f[i])).collect();
        assert_eq!(tables.evaluate(x), values, "{x}");
    }
    let encoder = BatchEncoder::new(t, LOG_N).unwrap();
    let chain = s.params.chain(t).unwrap();
    let top = s.params.top();
    let factor = s.params.fresh_factor(top, t).unwrap();
    let plan = tables.plan(&chain, top, factor, |_| Ok(Unit::one(t))).unwrap();
    assert_eq!(plan.depth(), tables.depth());
    assert_eq!(plan.relinearizations(), tables.relinearizations());
    let sim = sim::Evaluator::new(&s.params, &KeyRequest::new());
    let forms = plan.run(&sim, &sim.encrypt(top, factor).unwrap()).unwrap();
    assert_eq!(sim.counts().products, plan.products() as u64);
    let slots = encoder.slots();
    let chunks: Vec<Vec<i128>> = (points.chunks(slots))
        .map(|part| {
            part.iter().map(|&x| t.centered(t.reduce_i128(x))).cycle().take(slots).collect()
        })
        .collect();
    let xs: Vec<_> = chunks.iter().map(|x| s.encrypt(&encoder.encode(x).unwrap())).collect();
    let found = plan.run_many(&s.evaluator, &xs).unwrap();
    assert_eq!(found.len(), functions.len());
    for (place, values) in functions.iter().enumerate() {
        for (number, part) in values.chunks(slots).enumerate() {
            let y = &found[place][number];
            assert_eq!(y.form(), forms[place]);
            let plain = s.decryptor.decrypt(y).unwrap();
            let opened = encoder.decode_unsigned(&plain).unwrap();
            let expected: Vec<u128> =
                part.iter().cycle().take(slots).map(|&y| t.reduce_i128(y)).collect();
            assert_eq!(opened, expected, "function {place}");
        }
    }
    plan.relinearizations()
}

/// Numbers below `most` that look random.
fn numbers(count: usize, most: u64) -> Vec<i128> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i128::from((state >> 33) % most)
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn every_table_of_eight_points() {
    let t = Modulus::new(7681, 1).unwrap();
    let mut s = session(t, 3);
    let points: Vec<i128> = (0..8).collect();
    let all: Vec<Vec<i128>> =
        (0..256).map(|f| points.iter().map(|&x| f >> x & 1).collect()).collect();
    // All share the powers 2, 3 and 4. Each takes at most two relinearisations more: its product
    // with the power 4, and a product inside the quotient.
    let count = check(&mut s, t, &points, &all);
    assert!(count <= 3 + 2 * 256, "{count}");
}

#[test]
fn tables_of_nibbles_and_bytes_on_their_whole_range() {
    let t = Modulus::new(7681, 1).unwrap();
    let mut s = session(t, 8);
    for (low, count, relinearizations) in [(0, 16, [7, 10, 19]), (-100, 256, [29, 40, 73])] {
        let points: Vec<i128> = (low..low + count as i128).collect();
        let random = numbers(count, 7681);
        let step = points.iter().map(|&x| i128::from(x >= low + 5)).collect();
        let first = points.iter().map(|&x| i128::from(x == low)).collect();
        let last = points.iter().map(|&x| i128::from(x == low + count as i128 - 1)).collect();
        let all = [random, step, first, last, numbers(count, 2)];
        let counts = [1, 2, 5].map(|n| check(&mut s, t, &points, &all[..n]));
        assert_eq!(counts, relinearizations);
    }
}

#[test]
fn parity_about_the_middle_halves_the_cost() {
    let t = Modulus::new(65537, 1).unwrap();
    let mut s = session(t, 9);
    let points: Vec<i128> = (-255..=255).collect();
    let is_zero = points.iter().map(|&x| i128::from(x == 0)).collect();
    let sign = points.iter().map(|x| x.signum()).collect();
    let less = points.iter().map(|&x| i128::from(x < 0)).collect();
    let around: Vec<i128> = (-256..=255).collect();
    let less_around = around.iter().map(|&x| i128::from(x < 0)).collect();
    let counts = [
        check(&mut s, t, &points, &[less]),
        check(&mut s, t, &points, &[is_zero]),
        check(&mut s, t, &points, &[sign]),
        // One point more, and the step is odd about -1/2.
        check(&mut s, t, &around, &[less_around]),
    ];
    assert_eq!(counts, [37, 30, 33, 34]);
}

/// A set that is no range, and the power of a prime.
#[test]
fn points_may_be_any_that_differ_modulo_the_prime() {
    let t = Modulus::new(7681, 1).unwrap();
    let mut s = session(t, 4);
    let points = [-257, 5, 1000, 44_444, 12];
    check(&mut s, t, &points, &[vec![1, 40_000, -3, 0, 9]]);
    let square = Modulus::new(257, 2).unwrap();
    let tables = Tables::new(square, &points, &[vec![1, 40_000, -3, 0, 9]]).unwrap();
    let found = points.map(|x| square.centered(tables.evaluate(x)[0]));
    assert_eq!(found, [1, 40_000 - 257 * 257, -3, 0, 9]);
    let refused = |points: &[i128], values: usize| {
        Tables::new(t, points, &[vec![0; values]]).unwrap_err().to_string()
    };
    assert!(refused(&[3, 7684], 2).contains("differ modulo 7681"));
    assert!(refused(&[3, 4], 1).contains("1 values for 2 points"));
    assert!(refused(&[], 0).contains("0 points"));
    let many: Vec<i128> = (0..4097).collect();
    assert!(refused(&many, 4097).contains("4097 points"));
    // Constants need neither level nor key.
    assert_eq!(Tables::new(t, &[1, 2], &[vec![3, 3]]).unwrap().depth(), 0);
}

#[test]
fn too_few_levels_and_too_large_errors_are_refused() {
    let t = Modulus::new(7681, 1).unwrap();
    let points: Vec<i128> = (0..256).collect();
    let tables = Tables::new(t, &points, &[numbers(256, 7681)]).unwrap();
    let s = session(t, 8);
    let chain = s.params.chain(t).unwrap();
    let plan = |level| tables.plan(&chain, level, Unit::one(t), |_| Ok(Unit::one(t)));
    let exhausted = plan(Level(7)).unwrap_err();
    assert!(matches!(exhausted, Error::LevelExhausted { needed: 8, .. }), "{exhausted}");
    // The simulator finds before any computation that an error is too large.
    let sim = sim::Evaluator::new(&s.params, &KeyRequest::new());
    let plan = plan(Level(8)).unwrap();
    let fresh = sim.encrypt(Level(8), Unit::one(t)).unwrap();
    assert!(plan.run(&sim, &fresh).is_ok());
    let noisy = |copies| -> Form {
        let forms = vec![(&fresh, 1, Unit::one(t)); copies];
        crate::circuits::Ops::mul_const_sum(&sim, &forms).unwrap()
    };
    let refused = plan.run(&sim, &noisy(1 << 14)).unwrap_err();
    assert!(matches!(refused, Error::NoiseExhausted { .. }), "{refused}");
}
