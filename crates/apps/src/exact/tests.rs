use super::*;
use std::sync::LazyLock;
use sudare::{
    Error,
    exact::{BatchEncoder, Decryptor, Encryptor, Modulus, Params, Spec, preset},
    rlwe::KeyGenerator,
};

pub(super) struct Session {
    pub(super) setting: Setting,
    pub(super) encryptor: Encryptor,
    pub(super) decryptor: Decryptor,
    pub(super) engine: Engine,
}

impl Session {
    fn new(spec: Spec, scheme: Scheme) -> Self {
        Self::of(Setting::new(Params::new(spec).unwrap(), scheme, true).unwrap())
    }

    pub(super) fn of(setting: Setting) -> Self {
        let params = setting.params().clone();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = keygen.evaluation_keys(&secret, &setting.required_keys().unwrap()).unwrap();
        Self {
            encryptor: Encryptor::new(&params, public).unwrap(),
            engine: Engine::new(&setting, Arc::new(keys)).unwrap(),
            decryptor: Decryptor::new(&params, Arc::new(secret)).unwrap(),
            setting,
        }
    }

    pub(super) fn encrypt(&self, plain: &PlainIntegers) -> IntegerArray {
        encrypt(&self.encryptor, &self.setting, plain).unwrap()
    }

    pub(super) fn expect(
        &self,
        found: &IntegerArray,
        shape: &[usize],
        expected: impl Fn(usize) -> i128,
    ) {
        let t = self.setting.modulus();
        let opened = decrypt(&self.decryptor, &self.setting, found).unwrap();
        assert_eq!(opened.shape, shape);
        let expected = (0..found.layout().elements()).map(expected);
        let expected: Vec<i64> = expected.map(|x| t.centered(t.reduce_i128(x)) as i64).collect();
        assert_eq!(opened.values, expected, "{found:?}");
    }
}

/// 256 slots modulo 7681, 4 levels.
fn spec() -> Spec {
    preset("toy-n8").unwrap().spec
}

static SESSIONS: LazyLock<[Session; 2]> =
    LazyLock::new(|| [Scheme::Bgv, Scheme::Bfv].map(|scheme| Session::new(spec(), scheme)));

pub(super) fn values(shape: &[usize], salt: i64) -> PlainIntegers {
    let count = shape.iter().product::<usize>() as i64;
    let value = |i: i64| (i * i * 31 + salt * i + 5 * salt) % 3800;
    PlainIntegers::new(shape, (0..count).map(value).collect())
}

pub(super) fn at(plain: &PlainIntegers, i: usize) -> i128 {
    plain.values[i].into()
}

const SHAPES: [&[usize]; 7] = [&[], &[1], &[2], &[3, 5], &[2, 128], &[300], &[2, 2, 128]];

#[test]
fn elements_are_added_and_multiplied() {
    for s in SESSIONS.iter() {
        for shape in SHAPES {
            let a = values(shape, 3);
            let b = values(shape, -7);
            let x = s.encrypt(&a);
            let y = s.encrypt(&b);
            let e = &s.engine;
            s.expect(&x, shape, |i| at(&a, i));
            s.expect(&e.add(&x, &y).unwrap(), shape, |i| at(&a, i) + at(&b, i));
            s.expect(&e.sub(&x, &y).unwrap(), shape, |i| at(&a, i) - at(&b, i));
            s.expect(&e.neg(&x).unwrap(), shape, |i| -at(&a, i));
            s.expect(&e.add_plain(&x, &b).unwrap(), shape, |i| at(&a, i) + at(&b, i));
            let product = e.mul(&x, &y).unwrap();
            assert_eq!(product.level().0, 3);
            s.expect(&product, shape, |i| at(&a, i) * at(&b, i));
            s.expect(&e.mul_plain_array(&x, &b).unwrap(), shape, |i| at(&a, i) * at(&b, i));
            // A product of three levels.
            let sum = e.add(&e.mul(&product, &product).unwrap(), &x).unwrap();
            assert_eq!(sum.level().0, 2);
            s.expect(&sum, shape, |i| (at(&a, i) * at(&b, i)).pow(2) + at(&a, i));
            s.expect(&e.mul(&x, &sum).unwrap(), shape, |i| {
                ((at(&a, i) * at(&b, i)).pow(2) + at(&a, i)) * at(&a, i)
            });
        }
    }
}

#[test]
fn all_levels_are_for_products() {
    for s in SESSIONS.iter() {
        let a = values(&[20], 11);
        let mut x = s.encrypt(&a);
        let mut expected: Vec<i128> = (0..20).map(|i| at(&a, i)).collect();
        let t = s.setting.modulus();
        for _ in 0..4 {
            x = s.engine.mul(&x, &x).unwrap();
            expected.iter_mut().for_each(|v| *v = t.reduce_i128(*v * *v) as i128);
        }
        assert_eq!(x.level(), Level(0));
        s.expect(&x, &[20], |i| expected[i]);
        assert!(budget(&s.decryptor, &x).unwrap() > 0.0);
        for refused in [
            s.engine.mul(&x, &x),
            s.engine.mul_plain_array(&x, &a),
            s.engine.power(&x, 3),
            s.engine.matmul_left(&a, &x),
            s.engine.polynomial(&x, &[0, 1]),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, ArrayError::Library(Error::LevelExhausted { .. })), "{error}");
        }
    }
}

#[test]
fn scalars_and_single_elements_go_with_all() {
    for s in SESSIONS.iter() {
        let a = values(&[2, 3], 2);
        let e = &s.engine;
        let x = s.encrypt(&a);
        let y = s.encrypt(&PlainIntegers::scalar(-9));
        for c in [0, 1, -1, 16, -17, 3000, -7680, 7680] {
            let scalar = PlainIntegers::scalar(c);
            let product = e.mul_plain_array(&x, &scalar).unwrap();
            s.expect(&product, &[2, 3], |i| at(&a, i) * i128::from(c));
            assert_eq!(product.level().0, if c == 3000 || c == -17 { 3 } else { 4 }, "{c}");
            let sum = e.add_plain(&x, &scalar).unwrap();
            s.expect(&sum, &[2, 3], |i| at(&a, i) + i128::from(c));
            assert_eq!(sum.padding_is_zero(), c == 0);
            // Values added to padding do not count.
            let total: i128 = (0..6).map(|i| at(&a, i) + i128::from(c)).sum();
            s.expect(&e.sum(&sum).unwrap(), &[], |_| total);
        }
        s.expect(&e.add(&x, &y).unwrap(), &[2, 3], |i| at(&a, i) - 9);
        s.expect(&e.mul(&y, &x).unwrap(), &[2, 3], |i| at(&a, i) * -9);
        let row = values(&[3], 5);
        s.expect(&e.add_plain(&x, &row).unwrap(), &[2, 3], |i| at(&a, i) + at(&row, i % 3));
        s.expect(&e.mul_plain_array(&y, &a).unwrap(), &[2, 3], |i| at(&a, i) * -9);
        let refused = e.add(&x, &s.encrypt(&row)).unwrap_err();
        assert!(matches!(refused, ArrayError::Argument { .. }), "{refused}");
        let refused = e.add(&x, &s.encrypt(&values(&[4], 1))).unwrap_err();
        assert!(matches!(refused, ArrayError::Shapes { .. }), "{refused}");
    }
}

#[test]
fn elements_are_summed() {
    for s in SESSIONS.iter() {
        for shape in SHAPES {
            let a = values(shape, 4);
            let total: i128 = a.values.iter().map(|&x| i128::from(x)).sum();
            let sum = s.engine.sum(&s.encrypt(&a)).unwrap();
            s.expect(&sum, &[], |_| total);
            // The errors are the errors of a sum. A product lowers the level first.
            let square = s.engine.mul(&sum, &sum).unwrap();
            s.expect(&square, &[], |_| total * total);
        }
    }
}

#[test]
fn rows_are_rotated_and_swapped() {
    for s in SESSIONS.iter() {
        for (shape, columns) in
            [(&[2, 1][..], 1), (&[2, 4], 4), (&[2, 128], 128), (&[3, 2, 128], 128), (&[1, 2, 8], 8)]
        {
            let a = values(shape, 6);
            let e = &s.engine;
            let x = s.encrypt(&a);
            for k in [0, 1, -1, 5, 127, 1_000_000_007] {
                let rotated = |i: usize| {
                    let column = (i % columns) as i64 + k;
                    i - i % columns + column.rem_euclid(columns as i64) as usize
                };
                s.expect(&e.rotate(&x, k).unwrap(), shape, |i| at(&a, rotated(i)));
            }
            let swapped = |i: usize| {
                let block = i / (2 * columns) * 2 * columns;
                block + (i - block + columns) % (2 * columns)
            };
            s.expect(&e.swap_rows(&x).unwrap(), shape, |i| at(&a, swapped(i)));
        }
        for shape in [&[][..], &[4], &[2, 3], &[4, 2], &[3, 2, 4]] {
            let x = s.encrypt(&values(shape, 1));
            let refused = s.engine.rotate(&x, 1).unwrap_err();
            assert!(refused.to_string().contains("(…, 2, 128)"), "{refused}");
            assert!(matches!(s.engine.swap_rows(&x), Err(ArrayError::SlotRows { .. })));
        }
    }
}

/// Entry `(i, j)` of a product of matrices.
fn product(a: &PlainIntegers, b: &PlainIntegers, (n, width): (usize, usize), i: usize) -> i128 {
    (0..n).map(|k| at(a, i / width * n + k) * at(b, k * width + i % width)).sum()
}

#[test]
fn plain_matrices_multiply_on_both_sides() {
    for s in SESSIONS.iter() {
        for (m, n, k) in [(1, 1, 1), (1, 5, 1), (5, 1, 3), (4, 4, 1), (3, 8, 2), (7, 30, 1)] {
            let a = values(&[m, n], 8);
            let b = values(&[n, k], -3);
            let shape = [m, k];
            let entry = |i| product(&a, &b, (n, k), i);
            let left = s.engine.matmul_left(&a, &s.encrypt(&b)).unwrap();
            s.expect(&left, &shape, entry);
            assert_eq!(left.level().0, 3);
            s.expect(&s.engine.matmul_right(&s.encrypt(&a), &b).unwrap(), &shape, entry);
        }
        // Vectors lose their axis.
        let a = values(&[3, 8], 8);
        let b = values(&[8], -3);
        let x = s.encrypt(&b);
        let found = s.engine.matmul_left(&a, &x).unwrap();
        s.expect(&found, &[3], |i| product(&a, &b, (8, 1), i));
        s.expect(&s.engine.matmul_left(&b, &x).unwrap(), &[], |_| product(&b, &b, (8, 1), 0));
        let found = s.engine.matmul_right(&x, &values(&[8, 2], 1)).unwrap();
        s.expect(&found, &[2], |i| product(&b, &values(&[8, 2], 1), (8, 2), i));
        let nothing = PlainIntegers::new(&[2, 8], vec![0; 16]);
        s.expect(&s.engine.matmul_left(&nothing, &x).unwrap(), &[2], |_| 0);
        let refused = s.engine.matmul_left(&values(&[8, 3], 1), &x).unwrap_err();
        assert!(matches!(refused, ArrayError::Shapes { .. }), "{refused}");
    }
}

/// From one ciphertext to several and back.
#[test]
fn matrices_reach_over_blocks() {
    let s = &SESSIONS[0];
    let a = values(&[300, 2], 8);
    let b = values(&[2], 4);
    let wide = s.engine.matmul_left(&a, &s.encrypt(&b)).unwrap();
    s.expect(&wide, &[300], |i| product(&a, &b, (2, 1), i));
    let row = values(&[1, 300], 3);
    let x = values(&[300], -5);
    let found = s.engine.matmul_left(&row, &s.encrypt(&x)).unwrap();
    s.expect(&found, &[1], |_| product(&row, &x, (300, 1), 0));
}

#[test]
fn polynomials_and_powers() {
    for s in SESSIONS.iter() {
        let a = values(&[5], 9);
        let x = s.encrypt(&a);
        let t = s.setting.modulus();
        for coeffs in [&[3][..], &[0, 1], &[1, -2, 3], &[0, 5, 0, 7], &[7, 0, 0, 0, 0, 0, 0, -1]] {
            let found = s.engine.polynomial(&x, coeffs).unwrap();
            s.expect(&found, &[5], |i| {
                let power = |n: usize| t.pow(t.reduce_i128(at(&a, i)), n as u128) as i128;
                coeffs.iter().enumerate().map(|(n, &c)| i128::from(c) * power(n)).sum()
            });
            assert_eq!(found.padding_is_zero(), coeffs[0] == 0);
        }
        for exponent in [1, 2, 3, 7, 16] {
            let power = s.engine.power(&x, exponent).unwrap();
            s.expect(&power, &[5], |i| t.pow(t.reduce_i128(at(&a, i)), exponent.into()) as i128);
        }
        let too_deep = [s.engine.power(&x, 17), s.engine.polynomial(&x, &[1; 17])];
        for refused in too_deep {
            let error = refused.unwrap_err();
            assert!(
                matches!(
                    error,
                    ArrayError::Library(Error::LevelExhausted { needed: 5, level: Level(4), .. })
                ),
                "{error}"
            );
        }
        assert!(matches!(s.engine.power(&x, 0), Err(ArrayError::Argument { .. })));
        assert!(matches!(s.engine.polynomial(&x, &[]), Err(ArrayError::Argument { .. })));
    }
}

/// If plaintexts have fewer slots than the ring has coefficients, they repeat.
#[test]
fn few_slots_are_enough() {
    let t = Modulus::new(17, 2).unwrap();
    let spec = Spec { insecure: true, ..Spec::uniform(8, t, 40.0, 2, 36.0, vec![40.0]) };
    let s = Session::new(spec, Scheme::Bgv);
    assert_eq!(s.setting.slots(), 8);
    let a = values(&[2, 4], 5);
    let a = PlainIntegers::new(&[2, 4], a.values.iter().map(|x| x % 140).collect());
    let x = s.encrypt(&a);
    s.expect(&s.engine.mul(&x, &x).unwrap(), &[2, 4], |i| at(&a, i).pow(2));
    s.expect(&s.engine.rotate(&x, 1).unwrap(), &[2, 4], |i| at(&a, i / 4 * 4 + (i + 1) % 4));
    let total: i128 = (0..8).map(|i| at(&a, i)).sum();
    s.expect(&s.engine.sum(&x).unwrap(), &[], |_| total);
    let error = encrypt(&s.encryptor, &s.setting, &PlainIntegers::scalar(145)).unwrap_err();
    assert!(error.to_string().contains("from -144 to 144"), "{error}");
}

#[test]
fn parameters_are_planned_or_a_prime_is_named() {
    let choice = plan(65537, 2).unwrap();
    assert_eq!(choice.spec.q_bits.len(), 3);
    for t in [2, 127, 1 << 16] {
        let error = plan(t, 1).unwrap_err();
        assert!(matches!(error, Error::NoSlots { .. }), "{error}");
        assert!(error.to_string().contains("65537"), "{error}");
    }
    assert!(matches!(plan(1000, 1), Err(Error::PlaintextModulusNotPrime { .. })));
    // Named primes are near the number, and are accepted.
    for t in [36, 1000, 196_611, 1_000_000, 1 << 20, 127u128.pow(3), 1_048_573, 1 << 32] {
        let text = plan(t, 1).unwrap_err().to_string();
        let named: Vec<u128> = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .filter(|&n| n != t && n > 30_000 && Modulus::from_value(n).is_ok())
            .collect();
        assert_eq!(named.len(), 2, "{text}");
        for prime in named {
            let log_n = plan(prime, 1).unwrap().spec.log_n;
            let prime_modulus = Modulus::from_value(prime).unwrap();
            assert!(BatchEncoder::most_slots(prime_modulus, log_n) >= Some(12), "{text}");
            assert!(prime < 4 * t.max(200_000), "{text}");
        }
    }
    for (t, exponent) in [(36, 1), (1000, 1), (1_000_000, 1), (127, 3), (2, 32)] {
        let value = u128::pow(t, exponent);
        let text = plan(value, 1).unwrap_err().to_string();
        let name = if exponent == 1 { t.to_string() } else { format!("{t}^{exponent}") };
        assert!(text.contains(&format!("{name} ")), "{text}");
    }
    // Few slots are accepted if no prime of the size has more.
    for t in [17, 257, 257 * 257, 7681, 12289, 40961] {
        assert!(plan(t, 1).is_ok(), "{t}");
    }
    assert!(matches!(plan(257u128.pow(8), 1), Err(Error::InvalidSpec { field: "t", .. })));
    assert!(matches!(plan(65537, 1000), Err(Error::InvalidSpec { field: "depth", .. })));
    assert!("ckks".parse::<Scheme>().is_err());
    assert_eq!("bfv".parse::<Scheme>(), Ok(Scheme::Bfv));
}

/// This includes operations that have nothing to compute.
#[test]
fn arrays_of_another_key_are_refused() {
    for scheme in [Scheme::Bgv, Scheme::Bfv] {
        let [own, other] = [(); 2].map(|()| Session::new(spec(), scheme));
        let [one, few, rows] = [&[][..], &[5], &[2, 4]].map(|shape| own.encrypt(&values(shape, 3)));
        let e = &other.engine;
        let plain = PlainIntegers::scalar(1);
        let zero = PlainIntegers::scalar(0);
        let identity = PlainIntegers::new(&[5, 5], (0..25).map(|i| (i % 6 == 0).into()).collect());
        let results = [
            e.neg(&few),
            e.add(&few, &few),
            e.sub(&few, &few),
            e.add_plain(&few, &zero),
            e.mul(&few, &few),
            e.mul_plain_array(&few, &plain),
            e.mul_plain_array(&few, &values(&[5], 1)),
            e.power(&few, 1),
            e.power(&few, 40),
            e.polynomial(&few, &[0]),
            e.polynomial(&few, &[0, 1]),
            e.sum(&one),
            e.sum(&few),
            e.rotate(&rows, 0),
            e.rotate(&rows, 4),
            e.swap_rows(&rows),
            e.matmul_left(&identity, &few),
            e.matmul_right(&few, &identity),
            e.add(&other.encrypt(&values(&[5], 1)), &few),
        ];
        for (number, result) in results.into_iter().enumerate() {
            let refused = result.unwrap_err();
            let mismatch = matches!(refused, ArrayError::Library(Error::KeyMismatch { .. }));
            assert!(mismatch, "{number}: {refused}");
        }
    }
}

#[test]
fn blocks_of_another_array_are_refused() {
    let [bgv, bfv] = &*SESSIONS;
    let a = bgv.encrypt(&values(&[300], 1));
    let layout = bgv.setting.layout(&[300]).unwrap();
    let read = |setting: &Setting, blocks: Vec<Ciphertext>| {
        IntegerArray::from_blocks(setting, layout.clone(), blocks, true)
    };
    assert!(read(&bgv.setting, a.blocks().to_vec()).is_ok());
    assert!(matches!(read(&bgv.setting, vec![]), Err(ArrayError::Blocks { .. })));
    let low = bgv.engine.mul(&a, &a).unwrap();
    let mixed = vec![a.blocks()[0].clone(), low.blocks()[1].clone()];
    assert!(matches!(read(&bgv.setting, mixed), Err(ArrayError::Blocks { .. })));
    // Fresh arrays are the same in both schemes, products are not.
    assert!(read(&bfv.setting, a.blocks().to_vec()).is_ok());
    let refused = read(&bfv.setting, low.blocks().to_vec()).unwrap_err();
    assert!(matches!(refused, ArrayError::Library(Error::FactorMismatch { .. })), "{refused}");
}
