use super::*;
use crate::{
    Error,
    circuits::{Ops, exact::LinearPlan},
    exact::{
        BatchEncoder, Ciphertext, Modulus, Params, Spec, Unit,
        tests::{Session, chain, modulus},
    },
    rlwe::{KeyRequest, Level},
};
use sudare_arith::prng::{Seed, Stream};

type Map = fn(&IntegerEncoder, &[u32]) -> Result<Vec<LinearTransform>>;

/// Returns every list of positive numbers with this sum.
fn schedules(sum: u32) -> Vec<Vec<u32>> {
    if sum == 0 {
        return vec![vec![]];
    }
    let with_first = |first| {
        let rest = schedules(sum - first).into_iter();
        rest.map(move |rest| [vec![first], rest].concat())
    };
    (1..=sum).flat_map(with_first).collect()
}

fn random(t: Modulus, count: usize) -> Vec<u128> {
    let mut stream = Stream::new(&Seed::from_bytes([9; 32]), "dft test", count as u64);
    let mut word = || u128::from(stream.next_u64());
    (0..count).map(|_| t.reduce(word() << 64 | word())).collect()
}

fn apply(factors: &[LinearTransform], x: &PlainPoly) -> PlainPoly {
    factors.iter().fold(x.clone(), |x, m| m.apply(&x).unwrap())
}

/// A vector and the plaintext whose slots are its coefficients, computed by the encoder alone.
struct Pair {
    plain: PlainPoly,
    coeffs_in_slots: PlainPoly,
}

impl Pair {
    fn new(encoder: &IntegerEncoder) -> Self {
        let slots = encoder.slots();
        let t = encoder.modulus();
        let n = 1usize << encoder.log_n();
        let few = random(t, slots);
        let mut coeffs = vec![0; n];
        coeffs.iter_mut().step_by(n / slots).zip(&few).for_each(|(c, &x)| *c = x);
        let plain = PlainPoly::new(t, coeffs).unwrap();
        let columns = slots / 2;
        let mut values = vec![0; slots];
        for k in 0..columns {
            let place = bit_reversed(columns.ilog2(), k);
            values[place] = t.centered(few[k]);
            values[columns + place] = t.centered(few[k + columns]);
        }
        Self { plain, coeffs_in_slots: encoder.encode(&values).unwrap() }
    }

    fn check(&self, encoder: &IntegerEncoder, radices: &[u32]) {
        let there = apply(&coeffs_to_slots(encoder, radices).unwrap(), &self.plain);
        let back = apply(&slots_to_coeffs(encoder, radices).unwrap(), &self.coeffs_in_slots);
        let case = (encoder.modulus(), encoder.slots(), radices);
        assert!(there == self.coeffs_in_slots, "{case:?}");
        assert!(back == self.plain, "{case:?}");
    }
}

#[test]
fn slots_and_coefficients_are_those_of_the_encoder() {
    for p in [17, 97, 257, 7681, 65537, 786_433, 7, 23, 31, 47] {
        for exponent in 1..=3 {
            let t = modulus(p, exponent);
            let most = IntegerEncoder::most_slots(t, 5).unwrap();
            let slim = p % 4 == 3;
            for log_slots in if slim { most } else { 1 }..=most {
                // With all slots, and with rows that repeat twice and four times; in Galois rings
                // of degree 2, 4, 8.
                let log_n = log_slots + exponent - u32::from(!slim);
                let encoder = IntegerEncoder::new(t, log_n, log_slots).unwrap();
                let pair = Pair::new(&encoder);
                for radices in schedules(log_slots - 1) {
                    pair.check(&encoder, &radices);
                }
            }
        }
    }
}

#[test]
fn every_schedule_of_many_columns_is_the_encoder() {
    for (p, exponent, log_n, log_slots) in
        [(257, 1, 8, 7), (786_433, 2, 7, 7), (127, 1, 7, 6), (127, 3, 9, 6)]
    {
        let encoder = IntegerEncoder::new(modulus(p, exponent), log_n, log_slots).unwrap();
        let pair = Pair::new(&encoder);
        for radices in schedules(log_slots - 1) {
            pair.check(&encoder, &radices);
        }
    }
}

#[test]
fn maps_are_those_of_the_encoder_at_full_size() {
    for exponent in [1, 2] {
        let encoder = IntegerEncoder::new(modulus(65537, exponent), 15, 15).unwrap();
        let pair = Pair::new(&encoder);
        let there = apply(&coeffs_to_slots(&encoder, &[2, 3, 3, 3, 3]).unwrap(), &pair.plain);
        assert!(there == pair.coeffs_in_slots);
        assert!(apply(&slots_to_coeffs(&encoder, &[3, 3, 3, 2, 3]).unwrap(), &there) == pair.plain);
    }
}

/// Coefficients can be rounded between the two maps, which are modulo two powers.
#[test]
fn maps_modulo_powers_reduce_to_those_modulo_lower_ones() {
    for p in [17, 97, 257, 7681, 65537, 786_433] {
        let [low, high] = [1, 3].map(|exponent| modulus(p, exponent));
        for log_order in 1..=BatchEncoder::most_slots(low, 16).unwrap() + 1 {
            let [root, lift] = [low, high].map(|t| t.root_of_unity(log_order).unwrap());
            assert_eq!(low.reduce(lift), root);
            assert_eq!(high.pow(lift, 1 << (log_order - 1)), high.value() - 1);
        }
        let [low, high] = [low, high].map(|t| IntegerEncoder::new(t, 3, 3).unwrap());
        for map in [slots_to_coeffs as Map, coeffs_to_slots] {
            let [low, high] = [&low, &high].map(|encoder| map(encoder, &[1, 1]).unwrap());
            for (low, high) in low.iter().zip(&high) {
                assert!(low.diagonals().keys().eq(high.diagonals().keys()));
                for (low, high) in low.diagonals().values().zip(high.diagonals().values()) {
                    let reduced = high.coeffs().iter().map(|&c| low.modulus().reduce(c));
                    assert!(reduced.eq(low.coeffs().iter().copied()));
                }
            }
        }
        // Slots of multiples of p^2 modulo p^3, from coefficients modulo p.
        let Pair { plain, coeffs_in_slots } = Pair::new(&low);
        let there = apply(&slots_to_coeffs(&low, &[2]).unwrap(), &coeffs_in_slots);
        assert!(there == plain);
        let raised = there.relabelled(high.modulus()).unwrap();
        let back = apply(&coeffs_to_slots(&high, &[2]).unwrap(), &raised);
        assert!(back.relabelled(low.modulus()).unwrap() == coeffs_in_slots);
    }
}

#[test]
fn schedules_that_do_not_fit_are_refused() {
    let encoder = IntegerEncoder::new(modulus(257, 1), 6, 4).unwrap();
    let bad: [&[u32]; 5] = [&[], &[1, 1], &[2, 2], &[3, 0], &[u32::MAX, 4]];
    for radices in bad {
        for map in [slots_to_coeffs as Map, coeffs_to_slots] {
            assert!(matches!(map(&encoder, radices), Err(Error::Circuit(_))), "{radices:?}");
        }
    }
}

/// Counts for each factor: diagonals, key products before giant steps, and giant steps.
fn counts(factors: &[LinearTransform], params: &Params, t: Modulus) -> Vec<[usize; 3]> {
    let log_n = params.log_n();
    let level = params.top();
    let one = Unit::one(t);
    let chain = params.chain(t).unwrap();
    let count = |factor: &LinearTransform| {
        let plan = factor.plan(log_n, &chain, level, one, one).unwrap();
        let sum = plan.sum();
        let keys = sum.baby.iter().filter(|g| g.0 != 1).count();
        [factor.diagonals().len(), keys, sum.stages - 1]
    };
    factors.iter().map(count).collect()
}

#[test]
fn counts_at_full_size() {
    let t = modulus(65537, 1);
    let encoder = IntegerEncoder::new(t, 15, 15).unwrap();
    let spec = Spec { insecure: true, ..Spec::uniform(15, t, 50.0, 1, 50.0, vec![51.0]) };
    let params = Params::new(spec).unwrap();
    let found = |map: Map, radices| counts(&map(&encoder, radices).unwrap(), &params, t);
    assert_eq!(found(slots_to_coeffs, &[6, 8]), [[254, 26, 9], [256, 25, 9]]);
    assert_eq!(found(coeffs_to_slots, &[5, 5, 4]), [[32, 7, 3], [63, 13, 4], [62, 16, 3]]);
}

/// Applies matrices to ciphertexts from the top level down, each at factor 1.
struct Circuit {
    plans: Vec<LinearPlan>,
    keys: KeyRequest,
}

impl Circuit {
    fn new(matrices: &[LinearTransform], params: &Params, t: Modulus) -> Self {
        let log_n = params.log_n();
        let chain = params.chain(t).unwrap();
        let one = Unit::one(t);
        let plan = |(matrix, down): (&LinearTransform, u32)| {
            let level = Level(params.top().0 - down);
            matrix.plan(log_n, &chain, level, one, one).unwrap()
        };
        let plans: Vec<_> = matrices.iter().zip(0..).map(plan).collect();
        let mut keys = KeyRequest::new();
        plans.iter().for_each(|plan| keys |= plan.required_keys().clone());
        Self { plans, keys }
    }

    /// Returns the values between matrices, and the last.
    fn run(&self, s: &Session, x: &Ciphertext) -> Vec<Ciphertext> {
        let mut found = vec![x.clone()];
        for plan in &self.plans {
            let matrix = s.evaluator.prepare(plan).unwrap();
            let next = plan.run(&s.evaluator, &matrix, &found[found.len() - 1]).unwrap();
            found.push(next);
        }
        found
    }
}

/// With all slots of the ring, and with some.
#[test]
fn encrypted_vectors_go_to_coefficients_and_back() {
    let cases: [([u32; 4], [&[u32]; 2]); 7] = [
        ([257, 1, 6, 6], [&[2, 3], &[3, 2]]),
        ([97, 1, 6, 4], [&[2, 1], &[1, 2]]),
        ([17, 3, 5, 3], [&[1, 1], &[2]]),
        ([7681, 2, 5, 5], [&[4], &[2, 2]]),
        ([17, 1, 4, 1], [&[], &[]]),
        ([31, 1, 6, 4], [&[2, 1], &[1, 2]]),
        ([47, 2, 5, 3], [&[2], &[1, 1]]),
    ];
    for ([p, exponent, log_n, log_slots], [there, back]) in cases {
        let t = modulus(p.into(), exponent);
        let encoder = IntegerEncoder::new(t, log_n, log_slots).unwrap();
        let mut matrices = slots_to_coeffs(&encoder, there).unwrap();
        let middle = matrices.len();
        matrices.extend(coeffs_to_slots(&encoder, back).unwrap());
        let spec = Spec { insecure: true, ..chain(log_n, t, matrices.len()) };
        let params = Params::new(spec.clone()).unwrap();
        let circuit = Circuit::new(&matrices, &params, t);
        let mut s = Session::with_keys(spec, 5, &circuit.keys);
        let Pair { plain, coeffs_in_slots } = Pair::new(&encoder);
        let x = s.encrypt_at(&coeffs_in_slots, params.top(), Unit::one(t));
        let found = circuit.run(&s, &x);
        s.assert_holds(&found[middle], &plain);
        s.assert_holds(&found[matrices.len()], &coeffs_in_slots);
        assert_eq!(found[matrices.len()].level(), Level(0));
    }
}
