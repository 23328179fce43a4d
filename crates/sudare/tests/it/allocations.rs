//! A steady workload takes nothing new from the pool.

use crate::session::Session;
use sudare::{
    ckks::{Ciphertext, Complex, Params, Spec},
    rlwe::{GaloisElement, KeyRequest, Level, Raise},
};
use sudare_arith::par;

fn session() -> Session {
    let spec = Spec { insecure: true, ..Spec::uniform(12, 50.0, 3, 40.0, vec![48.0, 48.0]) };
    let params = Params::new(spec).unwrap();
    let log_n = params.log_n();
    let top = params.top();
    let request = KeyRequest::new()
        .relinearize(top)
        .rotations(log_n, [1, 5], top)
        .automorphism(GaloisElement::conjugation(log_n), top)
        .raise(Raise::to(top));
    Session::new(params, &request)
}

/// Steps that these tests share.
trait Steady {
    fn after_the_first<T>(&self, what: &str, work: impl Fn() -> T);
    fn encrypt(&self) -> Ciphertext;
}

impl Steady for Session {
    /// Runs `work` until the pool has what it needs: on one thread, once. On more, how
    /// many buffers are out at a time depends on the schedule; a buffer that does not
    /// come back would be missed in every run.
    fn after_the_first<T>(&self, what: &str, work: impl Fn() -> T) {
        let pool = self.params.rlwe().basis().pool();
        pool.trim();
        let allocations = || {
            let before = pool.allocations();
            drop(work());
            pool.allocations() - before
        };
        assert!(allocations() > 0, "{what}: the count does not see it");
        let later: Vec<_> = (0..16).map(|_| allocations()).collect();
        match par::threads() {
            1 => assert!(later.iter().all(|&count| count == 0), "{what}: {later:?}"),
            _ => assert!(later.contains(&0), "{what}: {later:?}"),
        }
    }

    fn encrypt(&self) -> Ciphertext {
        let top = self.params.top();
        let plain =
            self.encoder.encode_real_at(&[0.5; 64], top, self.params.scale_at(top)).unwrap();
        self.encryptor.encrypt(&plain).unwrap()
    }
}

#[test]
fn operations_reuse_their_buffers() {
    let s = session();
    let a = s.encrypt();
    let ev = &s.evaluator;
    let low = ev.drop_to(&a, Level(1)).unwrap();
    let plain = s.encoder.encode_real_at(&[0.25; 64], a.level(), a.scale()).unwrap();
    let half = Complex { re: 0.5, im: 0.0 };
    for threads in [1, 2] {
        par::with_threads(threads, || {
            s.after_the_first("add", || ev.add(&a, &a).unwrap());
            s.after_the_first("mul", || ev.mul(&a, &a).unwrap());
            s.after_the_first("mul_rescale", || ev.mul_rescale(&a, &a).unwrap());
            s.after_the_first("mul_rescale below", || ev.mul_rescale(&low, &a).unwrap());
            s.after_the_first("rescale", || ev.rescale(&a).unwrap());
            s.after_the_first("rotate", || ev.rotate(&a, 1).unwrap());
            s.after_the_first("rotate below", || ev.rotate(&low, 5).unwrap());
            s.after_the_first("conjugate", || ev.conjugate(&a).unwrap());
            s.after_the_first("hoisted rotations", || {
                let hoisted = ev.hoist(&a).unwrap();
                [1, 5].map(|k| ev.rotate_hoisted(&hoisted, k).unwrap())
            });
            let images = [0, 1, 5].map(|k| GaloisElement::rotation(s.params.log_n(), k));
            s.after_the_first("sum of images", || {
                ev.sum_automorphisms(&a, &[&images, &images[1..]]).unwrap()
            });
            s.after_the_first("mod_raise", || ev.mod_raise(&low, a.level()).unwrap());
            s.after_the_first("mul_plain", || ev.mul_plain(&a, &plain).unwrap());
            s.after_the_first("mul_const", || ev.mul_const(&a, half, a.scale()).unwrap());
            s.after_the_first("encrypt", || s.encrypt());
            s.after_the_first("decrypt", || s.decryptor.decrypt(&a).unwrap());
        })
        .unwrap();
    }
}

#[test]
fn a_circuit_of_several_levels_reuses_its_buffers() {
    let s = session();
    let a = s.encrypt();
    let ev = &s.evaluator;
    s.after_the_first("circuit", || {
        let mut x = a.clone();
        while x.level() > Level(0) {
            x = ev.mul_rescale(&x, &ev.rotate(&x, 1).unwrap()).unwrap();
            x = ev.add(&x, &ev.conjugate(&x).unwrap()).unwrap();
        }
        x
    });
}
