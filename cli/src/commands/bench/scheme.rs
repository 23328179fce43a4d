//! Operations, circuits and matrices of CKKS.

use super::{
    circuit::Circuit,
    line::{self, Line},
    matrices::{self, Matrices},
    op::Op,
    options::{Args, Numbers, check_log_slots},
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
use sudare_roles::{
    error::{Error, Result},
    sets::Set,
};

const HOISTED: i64 = 8;
/// Of dft if nothing is said.
const DFT_LOG_SLOTS: u32 = 13;

/// Times operations, circuits and matrices under one key pair.
pub(super) fn run(args: &Args, ops: &[Op], output: Output) -> Result<()> {
    let (preset, session) = prepare(args, ops)?;
    let mut lines = Vec::new();
    for (done, &op) in ops.iter().enumerate() {
        let measured = {
            let progress = Progress::new(format!("Timing {}", op.name()), ops.len());
            progress.set(done);
            session.measure(op, args.runs)?
        };
        let line = Line {
            precision_bits: measured.precision_bits,
            bytes: measured.bytes,
            log_slots: measured.log_slots,
            ..Line::new(op.name(), &preset, measured.level, &measured.time, args.runs)
        };
        session.check(&line, measured.log2_scale)?;
        if output.json {
            output.write(&line, |_| String::new())?;
        }
        lines.push(line);
    }
    if output.json { Ok(()) } else { output.write_text(&line::text(&lines)) }
}

/// Plans what the operations need, and makes keys for them; with the name of the parameter set.
fn prepare(args: &Args, ops: &[Op]) -> Result<(String, Session)> {
    let radix = args.radix.unwrap_or_default();
    let log_slots = args.log_slots.as_ref().and_then(Numbers::single);
    let preset = match &args.params {
        Some(name) => Set::named(name)?.into_preset(),
        None => {
            let log_slots = log_slots.unwrap_or(DFT_LOG_SLOTS);
            matrices::smallest(radix.layers(log_slots).len(), log_slots)?
        }
    };
    let params = Params::new(preset.spec)?;
    let level = Level(args.single_level().unwrap_or(params.top().0));
    params.rlwe().check_level(level)?;
    if let (Level(0), Some(op)) = (level, ops.iter().find(|op| op.is_product())) {
        return Err(Error::Usage(format!(
            "{} at level 0 has no level to rescale to: write --level 1 or higher",
            op.name()
        )));
    }
    let mut transforms = Vec::new();
    for &op in ops {
        let matrices = match op {
            Op::LinearTransform => Matrices::random(&params, level)?,
            Op::Dft => {
                let all = if args.params.is_some() { params.log_n() - 1 } else { DFT_LOG_SLOTS };
                let log_slots = log_slots.unwrap_or(all);
                check_log_slots(&preset.name, params.log_n(), log_slots)?;
                Matrices::dft(&params, level, log_slots, radix)?
            }
            _ => continue,
        };
        transforms.push((op, matrices));
    }
    let session = Session::new(&params, level, ops, transforms)?;
    Ok((preset.name, session))
}

struct Measured {
    time: Time,
    level: Level,
    /// Of the result.
    log2_scale: f64,
    precision_bits: Option<f64>,
    bytes: u64,
    log_slots: Option<u32>,
}

/// Keys for the operations asked for, and fresh operands.
struct Session {
    params: Params,
    level: Level,
    scale: Scale,
    parties: Parties,
    x: Vec<Complex<f64>>,
    y: Vec<Complex<f64>>,
    transforms: Vec<(Op, Matrices)>,
}

impl Session {
    fn new(
        params: &Params,
        level: Level,
        ops: &[Op],
        transforms: Vec<(Op, Matrices)>,
    ) -> Result<Self> {
        let log_n = params.log_n();
        let mut request = KeyRequest::new();
        for op in ops {
            request = match op {
                Op::Mul | Op::MulRescale => request.relinearize(level),
                Op::Rotate => request.rotations(log_n, [1], level),
                Op::RotateHoisted8 => request.rotations(log_n, 1..=HOISTED, level),
                Op::Conjugate => request.automorphism(GaloisElement::conjugation(log_n), level),
                Op::Keyswitch => request.automorphism(mixed(log_n), level),
                _ => request,
            };
            if op.is_circuit() {
                request |= Circuit::new(*op, params)?.required_keys();
            }
        }
        for (_, matrices) in &transforms {
            request |= matrices.required_keys();
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
            transforms,
        })
    }

    fn measure(&self, op: Op, runs: u32) -> Result<Measured> {
        match op {
            Op::NttForward | Op::NttInverse => self.transform(op == Op::NttInverse, runs),
            Op::Encode => self.encode(runs),
            Op::Decode => self.decode(runs),
            Op::Encrypt => self.encrypt(runs),
            Op::Decrypt => self.decrypt(runs),
            Op::Add => self.add(runs),
            Op::MulConst => self.mul_const(runs),
            Op::MulPlain => self.mul_plain(runs),
            Op::Mul => self.product(runs, Evaluator::mul),
            Op::MulRescale => self.product(runs, Evaluator::mul_rescale),
            Op::Rescale => self.rescale(runs),
            Op::Rotate => self.image(runs, &self.rotated(1), |e, a| e.rotate(a, 1)),
            Op::Conjugate => self.image(runs, &conjugates(&self.x), Evaluator::conjugate),
            Op::Keyswitch => {
                let g = mixed(self.params.log_n());
                self.image(runs, &conjugates(&self.rotated(1)), |e, a| e.automorphism(a, g))
            }
            Op::RotateHoisted8 => self.rotate_hoisted(runs),
            _ if op.is_circuit() => self.circuit(op, runs),
            _ => self.matrices(op, runs),
        }
    }

    fn encode(&self, runs: u32) -> Result<Measured> {
        let encoder = &self.parties.encoder;
        let (time, plain) = time(runs, || Ok(encoder.encode(&self.x, self.level, self.scale)?))?;
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
        let (a, b) = (self.encrypted(&self.x)?, self.encrypted(&self.y)?);
        let sums: Vec<_> = self.x.iter().zip(&self.y).map(|(&x, &y)| x + y).collect();
        self.ciphertext(runs, &sums, || Ok(self.parties.evaluator.add(&a, &b)?))
    }

    fn mul_const(&self, runs: u32) -> Result<Measured> {
        let (a, half) = (self.encrypted(&self.x)?, Complex { re: 0.5, im: 0.0 });
        let halves: Vec<_> = self.x.iter().map(|&x| x * half).collect();
        let evaluator = &self.parties.evaluator;
        self.ciphertext(runs, &halves, || Ok(evaluator.mul_const(&a, half, self.scale)?))
    }

    fn mul_plain(&self, runs: u32) -> Result<Measured> {
        let (a, b) = (self.encrypted(&self.x)?, self.plain(&self.y)?);
        let evaluator = &self.parties.evaluator;
        self.ciphertext(runs, &self.products(), || Ok(evaluator.mul_plain(&a, &b)?))
    }

    fn product(
        &self,
        runs: u32,
        mul: impl Fn(&Evaluator, &Ciphertext, &Ciphertext) -> sudare::Result<Ciphertext>,
    ) -> Result<Measured> {
        let (a, b) = (self.encrypted(&self.x)?, self.encrypted(&self.y)?);
        self.with_key(runs, &self.products(), || Ok(mul(&self.parties.evaluator, &a, &b)?))
    }

    fn rescale(&self, runs: u32) -> Result<Measured> {
        let evaluator = &self.parties.evaluator;
        let product = evaluator.mul_plain(&self.encrypted(&self.x)?, &self.plain(&self.y)?)?;
        self.ciphertext(runs, &self.products(), || Ok(evaluator.rescale(&product)?))
    }

    /// An operation that moves slots.
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
        let (evaluator, a) = (&self.parties.evaluator, self.encrypted(&self.x)?);
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

    fn circuit(&self, op: Op, runs: u32) -> Result<Measured> {
        let Parties { encoder, encryptor, evaluator, .. } = &self.parties;
        let circuit = Circuit::new(op, &self.params)?;
        let (slots, expected) = circuit.example(&self.x);
        let a =
            encryptor.encrypt(&encoder.encode_real(&slots, circuit.level(), circuit.scale())?)?;
        let found = self.with_key(runs, &expected, || circuit.run(evaluator, &a))?;
        Ok(Measured { level: circuit.level(), ..found })
    }

    fn rotated(&self, k: i64) -> Vec<Complex<f64>> {
        let mut slots = self.x.clone();
        slots.rotate_left(k as usize);
        slots
    }

    fn products(&self) -> Vec<Complex<f64>> {
        self.x.iter().zip(&self.y).map(|(&x, &y)| x * y).collect()
    }

    fn matrices(&self, op: Op, runs: u32) -> Result<Measured> {
        let Some((_, matrices)) = self.transforms.iter().find(|(known, _)| *known == op) else {
            return Err(Error::Bug(format!("{} has no matrices", op.name())));
        };
        let slots = &self.x[..1 << matrices.log_slots()];
        let evaluator = &self.parties.evaluator;
        let (a, prepared) = (self.encrypted(slots)?, matrices.prepare(evaluator)?);
        let run = || matrices.run(evaluator, &prepared, &a);
        let found = self.ciphertext(runs, &matrices.apply(slots), run)?;
        let bytes = matrices.required_keys().bytes(self.params.rlwe())?;
        Ok(Measured { bytes, log_slots: Some(matrices.log_slots()), ..found })
    }

    /// Of a wrong result nobody needs the speed.
    fn check(&self, line: &Line, log2_scale: f64) -> Result<()> {
        let needed =
            self.scale.log2().min(log2_scale) - f64::from(self.params.log_n()) - NOISE_BITS;
        match line.precision_bits {
            Some(bits) if bits.is_nan() || bits < needed => Err(Error::WrongResult(format!(
                "{} has {bits:.1} bits of precision at level {}, {needed:.1} are expected",
                line.op, line.level
            ))),
            _ => Ok(()),
        }
    }

    fn plain(&self, slots: &[Complex<f64>]) -> Result<Plaintext> {
        Ok(self.parties.encoder.encode(slots, self.level, self.scale)?)
    }

    fn encrypted(&self, slots: &[Complex<f64>]) -> Result<Ciphertext> {
        self.parties.encrypt(slots, self.level, self.scale)
    }

    fn ciphertext(
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

    /// As [`Session::ciphertext`], counting the key's bytes.
    fn with_key(
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
        let (level, log2_scale) = (self.level, self.scale.log2());
        Measured { time, level, log2_scale, precision_bits: None, bytes, log_slots: None }
    }

    fn poly_bytes(&self) -> u64 {
        8 * ((self.params.rlwe().limbs(self.level).q() as u64) << self.params.log_n())
    }

    fn key_bytes(&self) -> u64 {
        self.params.rlwe().switching_key_bytes(self.level)
    }

    /// One limb, in place. Forward is checked by Horner's rule, inverse by what it
    /// came from.
    fn transform(&self, inverse: bool, runs: u32) -> Result<Measured> {
        let basis = self.params.rlwe().basis();
        let narrow = basis.tables(basis.all()).filter(|t| t.modulus().bits() <= 50);
        let table = narrow
            .max_by_key(|table| table.modulus().value())
            .unwrap_or_else(|| basis.table(basis.all(), 0));
        let mut stream = self.parties.stream("row");
        let row: Vec<u64> =
            (0..basis.n()).map(|_| table.modulus().reduce(stream.next_u64())).collect();
        // Where rows of ciphertexts are: aligned to vectors.
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
        let session = Session::new(&params, Level(1), &[Op::Add], Vec::new()).unwrap();
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
