//! Single operations of CKKS, and other tasks under the same key pair.

use super::{
    line::{self, Line},
    op::{Op, Operation},
    parties::Parties,
    timing::{Time, time},
    values::{NOISE_BITS, horner, precision},
};
use crate::{output::Output, progress::Progress};
use sudare::{
    ckks::{Ciphertext, Complex, Evaluator, Params, Plaintext, Scale},
    rlwe::{GaloisElement, KeyRequest, Level},
};
use sudare_arith::mem::Pool;
use sudare_roles::error::{Error, Result};

const HOISTED: i64 = 8;

/// Work on encrypted slots that is timed.
pub trait Task {
    /// Returns the name on the command line.
    fn name(&self) -> String;

    /// Returns the keys that the task needs on operands at `level`.
    ///
    /// # Errors
    /// If the parameters do not fit the task.
    fn required_keys(&self, params: &Params, level: Level) -> Result<KeyRequest>;

    /// Times the task and compares its result with that in the clear.
    ///
    /// # Errors
    /// If the parameters do not fit the task, or a result is wrong.
    fn measure(&self, session: &Session, runs: u32) -> Result<Measured>;
}

/// Parameters under which tasks are timed.
pub struct Job<'a> {
    /// Name of the parameter set.
    pub set: &'a str,
    /// Parameters of that set.
    pub params: &'a Params,
    /// Level of the operands.
    pub level: Level,
    /// Timed runs of each task.
    pub runs: u32,
}

/// Times tasks under one key pair, and writes a line for each.
///
/// # Errors
/// If a task cannot run, or a result is wrong.
pub fn run(job: &Job<'_>, tasks: &[&dyn Task], output: Output) -> Result<()> {
    let session = Session::new(job.params, job.level, tasks)?;
    let mut lines = Vec::new();
    for (done, task) in tasks.iter().enumerate() {
        let measured = {
            let progress = Progress::new(format!("Timing {}", task.name()), tasks.len());
            progress.set(done);
            task.measure(&session, job.runs)?
        };
        let line = Line {
            precision_bits: measured.precision_bits,
            bytes: measured.bytes,
            log_slots: measured.log_slots,
            ..Line::new(task.name(), job.set, measured.level, &measured.time, job.runs)
        };
        // Before the line is written: a wrong result must not appear as a measurement.
        session.check(&line, measured.log2_scale)?;
        if output.json {
            output.write(&line, |_| String::new())?;
        }
        lines.push(line);
    }
    if output.json { Ok(()) } else { output.write_text(&line::text(&lines)) }
}

/// Finds the level of the operands: `level`, or the highest.
///
/// # Errors
/// If the parameters have no such level, or one of `ops` has no level below to rescale to.
pub fn level(params: &Params, level: Option<u32>, ops: &[Op]) -> Result<Level> {
    let level = Level(level.unwrap_or(params.top().0));
    params.rlwe().check_level(level)?;
    match (level, ops.iter().find(|op| op.is_product())) {
        // The scale of a product is the product of two scales, and level 0 has no room for it.
        (Level(0), Some(op)) => Err(Error::Usage(format!(
            "{} at level 0 has no level to rescale to: pass --level 1 or higher",
            op.name()
        ))),
        _ => Ok(level),
    }
}

/// A time, and facts about the result.
pub struct Measured {
    /// Time of one operation.
    pub time: Time,
    /// Level of the operands.
    pub level: Level,
    /// `log2` of the scale of the result.
    pub log2_scale: f64,
    /// `-log2` of the largest error of a slot; nothing for exact operations.
    pub precision_bits: Option<f64>,
    /// Bytes of the key that the operation reads, else of the object that it makes.
    pub bytes: u64,
    /// `log2` of the number of slots, where not all are used.
    pub log_slots: Option<u32>,
}

/// Keys for the tasks, and fresh operands.
pub struct Session {
    /// Parameters of all operands.
    pub params: Params,
    /// Level of the operands, unless a task has its own.
    pub level: Level,
    /// Scale of operands at that level.
    pub scale: Scale,
    /// Owner and server.
    pub parties: Parties,
    /// Slots of the first operand.
    pub x: Vec<Complex<f64>>,
    /// Slots of the second operand.
    pub y: Vec<Complex<f64>>,
}

impl Task for Op {
    fn name(&self) -> String {
        Operation::name(*self)
    }

    fn required_keys(&self, params: &Params, level: Level) -> Result<KeyRequest> {
        let log_n = params.log_n();
        let request = KeyRequest::new();
        Ok(match self {
            Self::Mul | Self::MulRescale => request.relinearize(level),
            Self::Rotate => request.rotations(log_n, [1], level),
            Self::RotateHoisted8 => request.rotations(log_n, 1..=HOISTED, level),
            Self::Conjugate => request.automorphism(GaloisElement::conjugation(log_n), level),
            Self::Keyswitch => request.automorphism(mixed(log_n), level),
            _ => request,
        })
    }

    fn measure(&self, session: &Session, runs: u32) -> Result<Measured> {
        match self {
            Self::NttForward | Self::NttInverse => {
                session.transform(*self == Self::NttInverse, runs)
            }
            Self::Encode => session.encode(runs),
            Self::Decode => session.decode(runs),
            Self::Encrypt => session.encrypt(runs),
            Self::Decrypt => session.decrypt(runs),
            Self::Add => session.add(runs),
            Self::MulConst => session.mul_const(runs),
            Self::MulPlain => session.mul_plain(runs),
            Self::Mul => session.product(runs, Evaluator::mul),
            Self::MulRescale => session.product(runs, Evaluator::mul_rescale),
            Self::Rescale => session.rescale(runs),
            Self::Rotate => session.image(runs, &session.rotated(1), |e, a| e.rotate(a, 1)),
            Self::Conjugate => session.image(runs, &conjugates(&session.x), Evaluator::conjugate),
            Self::Keyswitch => {
                let g = mixed(session.params.log_n());
                let expected = conjugates(&session.rotated(1));
                session.image(runs, &expected, |e, a| e.automorphism(a, g))
            }
            Self::RotateHoisted8 => session.rotate_hoisted(runs),
            // Other operations belong to other families, which have programs of their own.
            _ => Err(Error::Bug(format!("{} is not a single operation", Operation::name(*self)))),
        }
    }
}

impl Session {
    fn new(params: &Params, level: Level, tasks: &[&dyn Task]) -> Result<Self> {
        let mut request = KeyRequest::new();
        for task in tasks {
            request |= task.required_keys(params, level)?;
        }
        let parties = Parties::new(params, &request)?;
        let slots = params.max_slots();
        Ok(Self {
            params: params.clone(),
            level,
            scale: params.scale_at(level),
            x: parties.uniform("x", slots),
            y: parties.uniform("y", slots),
            parties,
        })
    }

    fn encode(&self, runs: u32) -> Result<Measured> {
        let encoder = &self.parties.encoder;
        let (time, plain) = time(runs, || Ok(encoder.encode_at(&self.x, self.level, self.scale)?))?;
        self.measured(time, &encoder.decode(&plain)?, &self.x, self.poly_bytes())
    }

    fn decode(&self, runs: u32) -> Result<Measured> {
        let plain = self.plain(&self.x)?;
        let (time, slots) = time(runs, || Ok(self.parties.encoder.decode(&plain)?))?;
        self.measured(time, &slots, &self.x, self.poly_bytes())
    }

    fn encrypt(&self, runs: u32) -> Result<Measured> {
        let plain = self.plain(&self.x)?;
        self.ciphertext(runs, &self.x, || Ok(self.parties.encryptor.encrypt(&plain)?))
    }

    fn decrypt(&self, runs: u32) -> Result<Measured> {
        let a = self.encrypted(&self.x)?;
        let (time, plain) = time(runs, || Ok(self.parties.decryptor.decrypt(&a)?))?;
        let found = self.parties.encoder.decode(&plain)?;
        self.measured(time, &found, &self.x, 2 * self.poly_bytes())
    }

    fn add(&self, runs: u32) -> Result<Measured> {
        let a = self.encrypted(&self.x)?;
        let b = self.encrypted(&self.y)?;
        let sums: Vec<_> = self.x.iter().zip(&self.y).map(|(&x, &y)| x + y).collect();
        self.ciphertext(runs, &sums, || Ok(self.parties.evaluator.add(&a, &b)?))
    }

    fn mul_const(&self, runs: u32) -> Result<Measured> {
        let a = self.encrypted(&self.x)?;
        // Its product with any slot is exact in `f64`, so only errors of the scheme are measured.
        let half = Complex { re: 0.5, im: 0.0 };
        let halves: Vec<_> = self.x.iter().map(|&x| x * half).collect();
        let evaluator = &self.parties.evaluator;
        self.ciphertext(runs, &halves, || Ok(evaluator.mul_const(&a, half, self.scale)?))
    }

    fn mul_plain(&self, runs: u32) -> Result<Measured> {
        let a = self.encrypted(&self.x)?;
        let b = self.plain(&self.y)?;
        let evaluator = &self.parties.evaluator;
        self.ciphertext(runs, &self.products(), || Ok(evaluator.mul_plain(&a, &b)?))
    }

    fn product(
        &self,
        runs: u32,
        mul: impl Fn(&Evaluator, &Ciphertext, &Ciphertext) -> sudare::Result<Ciphertext>,
    ) -> Result<Measured> {
        let a = self.encrypted(&self.x)?;
        let b = self.encrypted(&self.y)?;
        self.with_key(runs, &self.products(), || Ok(mul(&self.parties.evaluator, &a, &b)?))
    }

    fn rescale(&self, runs: u32) -> Result<Measured> {
        let evaluator = &self.parties.evaluator;
        let product = evaluator.mul_plain(&self.encrypted(&self.x)?, &self.plain(&self.y)?)?;
        self.ciphertext(runs, &self.products(), || Ok(evaluator.rescale(&product)?))
    }

    /// Times an operation that moves slots.
    fn image(
        &self,
        runs: u32,
        expected: &[Complex<f64>],
        image: impl Fn(&Evaluator, &Ciphertext) -> sudare::Result<Ciphertext>,
    ) -> Result<Measured> {
        let a = self.encrypted(&self.x)?;
        self.with_key(runs, expected, || Ok(image(&self.parties.evaluator, &a)?))
    }

    fn rotate_hoisted(&self, runs: u32) -> Result<Measured> {
        let evaluator = &self.parties.evaluator;
        let a = self.encrypted(&self.x)?;
        let (time, all) = time(runs, || {
            let hoisted = evaluator.hoist(&a)?;
            let rotation = |k| evaluator.rotate_hoisted(&hoisted, k);
            Ok((1..=HOISTED).map(rotation).collect::<sudare::Result<Vec<_>>>()?)
        })?;
        let mut worst = f64::INFINITY;
        for (k, found) in (1..).zip(&all) {
            worst = worst.min(precision(&self.parties.open(found)?, &self.rotated(k)));
        }
        let bytes = HOISTED as u64 * self.key_bytes();
        Ok(Measured { precision_bits: Some(worst), ..self.exact(time, bytes) })
    }

    fn rotated(&self, k: i64) -> Vec<Complex<f64>> {
        let mut slots = self.x.clone();
        slots.rotate_left(k as usize);
        slots
    }

    fn products(&self) -> Vec<Complex<f64>> {
        self.x.iter().zip(&self.y).map(|(&x, &y)| x * y).collect()
    }

    /// Rejects a wrong result, whatever its speed.
    fn check(&self, line: &Line, log2_scale: f64) -> Result<()> {
        // The smaller scale bounds the precision: of the operands or of the result.
        let needed =
            self.scale.log2().min(log2_scale) - f64::from(self.params.log_n()) - NOISE_BITS;
        match line.precision_bits {
            // NaN is below nothing, so it needs its own test.
            Some(bits) if bits.is_nan() || bits < needed => Err(Error::WrongResult(format!(
                "{} has {bits:.1} bits of precision at level {}, {needed:.1} are expected",
                line.op, line.level
            ))),
            _ => Ok(()),
        }
    }

    fn plain(&self, slots: &[Complex<f64>]) -> Result<Plaintext> {
        Ok(self.parties.encoder.encode_at(slots, self.level, self.scale)?)
    }

    /// Encrypts slots at the level and scale of the operands.
    ///
    /// # Errors
    /// Same as [`Parties::encrypt`].
    pub fn encrypted(&self, slots: &[Complex<f64>]) -> Result<Ciphertext> {
        self.parties.encrypt(slots, self.level, self.scale)
    }

    /// Times work whose result is a ciphertext of the slots `expected`.
    ///
    /// # Errors
    /// If the work or the decryption fails.
    pub fn ciphertext(
        &self,
        runs: u32,
        expected: &[Complex<f64>],
        work: impl FnMut() -> Result<Ciphertext>,
    ) -> Result<Measured> {
        let (time, a) = time(runs, work)?;
        let measured =
            self.measured(time, &self.parties.open(&a)?, expected, 2 * self.poly_bytes())?;
        Ok(Measured { log2_scale: a.scale().log2(), ..measured })
    }

    /// Times work as [`Session::ciphertext`] does, and counts the bytes of a key.
    ///
    /// # Errors
    /// Same as [`Session::ciphertext`].
    pub fn with_key(
        &self,
        runs: u32,
        expected: &[Complex<f64>],
        work: impl FnMut() -> Result<Ciphertext>,
    ) -> Result<Measured> {
        Ok(Measured { bytes: self.key_bytes(), ..self.ciphertext(runs, expected, work)? })
    }

    fn measured(
        &self,
        time: Time,
        found: &[Complex<f64>],
        expected: &[Complex<f64>],
        bytes: u64,
    ) -> Result<Measured> {
        let precision_bits = Some(precision(found, expected));
        Ok(Measured { precision_bits, ..self.exact(time, bytes) })
    }

    fn exact(&self, time: Time, bytes: u64) -> Measured {
        let level = self.level;
        let log2_scale = self.scale.log2();
        Measured { time, level, log2_scale, precision_bits: None, bytes, log_slots: None }
    }

    fn poly_bytes(&self) -> u64 {
        8 * ((self.params.rlwe().limbs(self.level).q() as u64) << self.params.log_n())
    }

    fn key_bytes(&self) -> u64 {
        self.params.rlwe().switching_key_bytes(self.level)
    }

    /// Times the transform of one limb, in place. Horner's rule checks the forward transform. The inverse must
    /// give back the row.
    fn transform(&self, inverse: bool, runs: u32) -> Result<Measured> {
        let basis = self.params.rlwe().basis();
        let narrow = basis.tables(basis.all()).filter(|t| t.modulus().bits() <= 50);
        let table = narrow
            .max_by_key(|table| table.modulus().value())
            // A set may have wide primes only.
            .unwrap_or_else(|| basis.table(basis.all(), 0));
        let mut stream = self.parties.stream("row");
        let row: Vec<u64> =
            (0..basis.n()).map(|_| table.modulus().reduce(stream.next_u64())).collect();
        // From the pool, as rows of ciphertexts: memory there is aligned to vectors.
        let mut work = Pool::new(0).take(basis.n());
        work.copy_from_slice(&row);
        let (time, ()) = time(runs, || {
            if inverse {
                table.inverse(&mut work)
            } else {
                table.forward(&mut work)
            }
            Ok(())
        })?;
        let mut evaluations = row.clone();
        table.forward(&mut evaluations);
        // Horner's rule takes N products a place, so a few places stand for all.
        let places = (0..16).map(|_| stream.next_u64() as usize % basis.n());
        let wrong =
            places.filter(|&place| evaluations[place] != horner(table, &row, place)).count();
        table.inverse(&mut evaluations);
        if wrong > 0 || evaluations != row {
            let what = format!("transform modulo {}", table.modulus().value());
            return Err(Error::WrongResult(what));
        }
        let bytes = 8 * basis.n() as u64;
        Ok(self.exact(time, bytes))
    }
}

fn conjugates(slots: &[Complex<f64>]) -> Vec<Complex<f64>> {
    slots.iter().map(|v| v.conj()).collect()
}

/// Rotates by one and conjugates.
fn mixed(log_n: u32) -> GaloisElement {
    GaloisElement((2 << log_n) - GaloisElement::rotation(log_n, 1).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::ckks;

    #[test]
    fn a_wrong_result_is_an_error() {
        let params = Params::new(ckks::preset("n13").unwrap().spec).unwrap();
        let session = Session::new(&params, Level(1), &[&Op::Add]).unwrap();
        let time = Time { median_ms: 1.0, min_ms: 1.0 };
        let line = |precision_bits| Line {
            precision_bits,
            ..Line::new("add".into(), "n13", Level(1), &time, 1)
        };
        assert!(session.check(&line(Some(18.0)), 40.0).is_ok());
        assert!(session.check(&line(None), 40.0).is_ok());
        // A result of a smaller scale has fewer bits.
        assert!(session.check(&line(Some(3.0)), 25.0).is_ok());
        for bits in [12.0, -3.0, f64::NAN] {
            assert_eq!(session.check(&line(Some(bits)), 40.0).unwrap_err().exit_code(), 1);
        }
    }
}
