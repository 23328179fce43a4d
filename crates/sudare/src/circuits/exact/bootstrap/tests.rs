use super::*;
use crate::exact::{Ciphertext, Spec, tests::Session};
use sudare_arith::prng::Stream;

const LOG_N: u32 = 6;

/// `|I| <= 3` under a secret of weight 6, always.
fn spec(p: u64, r: u32, log_slots: u32) -> BootstrapSpec {
    let layers = log_slots - 1;
    let split: Vec<u32> =
        [layers / 2, layers - layers / 2].into_iter().filter(|&k| k > 0).collect();
    BootstrapSpec {
        modulus: Modulus::new(p, r).unwrap(),
        log_slots,
        ephemeral_weight: 6,
        bound: 3,
        slots_to_coeffs: split.clone(),
        coeffs_to_slots: split,
    }
}

/// A chain with a few usable levels.
fn chain(log_n: u32, t: Modulus) -> Spec {
    Spec { insecure: true, ..Spec::uniform(log_n, t, 52.0, 13, 50.0, vec![55.0; 3]) }
}

struct Bootstrapping {
    session: Session,
    encoder: BatchEncoder,
    bootstrapper: Bootstrapper<exact::Evaluator>,
}

impl Bootstrapping {
    fn new(spec: &BootstrapSpec, chain: Spec, seed: u8) -> Self {
        let params = Params::new(chain.clone()).unwrap();
        let plan = spec.plan(&params, Params::factor_at).unwrap();
        let session = Session::with_keys(chain, seed, plan.required_keys());
        let encoder =
            BatchEncoder::with_slots(spec.modulus, params.log_n(), spec.log_slots).unwrap();
        let bootstrapper = plan.prepare(&session.evaluator).unwrap();
        Self { session, encoder, bootstrapper }
    }

    fn encrypt(&mut self, values: &[u128], level: Level, factor: Unit) -> Ciphertext {
        let plain = self.encoder.encode_unsigned(values).unwrap();
        self.session.encrypt_at(&plain, level, factor)
    }

    fn decrypt(&self, a: &Ciphertext) -> Vec<u128> {
        let plain = self.session.decryptor.decrypt(a).unwrap();
        self.session.assert_holds(a, &plain);
        self.encoder.decode_unsigned(&plain).unwrap()
    }

    fn random(&mut self) -> Vec<u128> {
        let t = self.encoder.modulus();
        let value = |stream: &mut Stream| t.reduce(stream.next_u64().into());
        (0..self.encoder.slots()).map(|_| value(&mut self.session.stream)).collect()
    }
}

#[test]
fn every_slot_comes_back() {
    for (p, r, log_slots) in
        [(257, 1, 6), (257, 2, 6), (17, 1, 3), (97, 2, 4), (65537, 1, 6), (13, 1, 1)]
    {
        let spec = spec(p, r, log_slots);
        let mut b = Bootstrapping::new(&spec, chain(LOG_N, spec.modulus), 3);
        let (t, plan) = (spec.modulus, b.bootstrapper.plan().clone());
        assert!(plan.usable_levels() > 0);
        assert_eq!(plan.log2_failure(), f64::NEG_INFINITY);
        let slots = b.encoder.slots();
        let highest = t.value() - 1;
        let mut cases = vec![vec![0; slots], vec![highest; slots], vec![1; slots]];
        cases.extend((0..4).map(|_| b.random()));
        for values in cases {
            for level in [plan.input_level(), b.session.params.top()] {
                let factor = b.session.params.factor_at(level, t).unwrap();
                let a = b.encrypt(&values, level, factor);
                let e = &b.session.evaluator;
                let fresh = b.bootstrapper.run(e, &a).unwrap();
                assert_eq!(fresh.level(), plan.output_level());
                assert_eq!(b.decrypt(&fresh), values, "{p}^{r}, level {level}");
                // What is left computes.
                let square = e.mul_rescale(&fresh, &fresh).unwrap();
                let squares: Vec<u128> = values.iter().map(|&x| t.mul(x, x)).collect();
                assert_eq!(b.decrypt(&square), squares);
                if level == plan.input_level() {
                    let out = b.session.params.factor_at(fresh.level(), t).unwrap();
                    assert!(fresh.factor().matches(out));
                }
            }
        }
    }
}
