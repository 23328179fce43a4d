//! Products and rotations of BGV and BFV.

use super::{
    line::{self, Line as OfAll},
    op::{Op, Operation},
    timing::time,
};
use crate::{output::Output, progress};
use serde::Serialize;
use std::sync::Arc;
use sudare::{
    bfv,
    exact::{self, BatchEncoder, Ciphertext, Decryptor, Encryptor, Params},
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_arith::prng::{Seed, Stream};
use sudare_roles::error::{Error, Result};

/// One line; results are exact, so there is no precision.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    of_all: OfAll,
    plaintext_modulus: String,
    slots: usize,
    /// `log2` of the largest coefficient of the error of the result, measured and bounded.
    noise_bits: f64,
    predicted_noise_bits: f64,
}

/// Operations to time.
pub(super) struct Options<'a> {
    pub params: &'a str,
    /// The highest if none.
    pub level: Option<u32>,
    pub ops: &'a [Op],
    pub runs: u32,
}

pub(super) fn run(options: &Options<'_>, output: Output) -> Result<()> {
    let preset = exact::preset(options.params)?;
    let params = Params::new(preset.spec)?;
    let level = Level(options.level.unwrap_or(params.top().0));
    params.rlwe().check_chain_level(level)?;
    let session = Session::new(&params, level, options.ops)?;
    let mut lines = Vec::new();
    for (done, &op) in options.ops.iter().enumerate() {
        let line = {
            let progress =
                progress::Progress::new(format!("Timing {}", op.name()), options.ops.len());
            progress.set(done);
            session.measure(op, options.runs, &preset.name)?
        };
        if output.json {
            output.write(&line, |_| String::new())?;
        }
        lines.push(line.of_all);
    }
    if output.json { Ok(()) } else { output.write_text(&line::text(&lines)) }
}

/// Owner and server in one process, under fresh keys, with random inputs in all slots.
struct Session {
    params: Params,
    level: Level,
    encoder: BatchEncoder,
    evaluator: bfv::Evaluator,
    decryptor: Decryptor,
    x: Vec<u128>,
    encrypted: [Ciphertext; 2],
    /// Products of both, slot by slot.
    products: Vec<u128>,
}

impl Session {
    fn new(params: &Params, level: Level, ops: &[Op]) -> Result<Self> {
        let t = params.plaintext_modulus();
        let encoder = BatchEncoder::new(t, params.log_n())?;
        let request = ops.iter().fold(KeyRequest::new(), |request, op| match op.is_rotation() {
            true => request.rotations(params.log_n(), [1], level),
            false => request.relinearize(level),
        });
        let mut generator = KeyGenerator::new(params.rlwe())?;
        let secret = generator.secret_key()?;
        let encryptor = Encryptor::new(params, Arc::new(generator.public_key(&secret)?))?;
        let keys = progress::evaluation_keys("Making keys", &mut generator, &secret, &request)?;
        let seed = Seed::random().map_err(sudare::Error::from)?;
        let random = |label: &str| -> Vec<u128> {
            let mut stream = Stream::new(&seed, label, 0);
            (0..encoder.slots()).map(|_| t.reduce(stream.next_u64().into())).collect()
        };
        let x = random("x");
        let y = random("y");
        // With this factor the scale of BFV is 1, so that both schemes share operands.
        let factor = params.fresh_factor(level, t)?;
        let encrypt = |slots: &[u128]| -> Result<Ciphertext> {
            Ok(encryptor.encrypt_at(&encoder.encode_unsigned(slots)?, level, factor)?)
        };
        Ok(Self {
            encrypted: [encrypt(&x)?, encrypt(&y)?],
            evaluator: bfv::Evaluator::new(params, Arc::new(keys))?,
            decryptor: Decryptor::new(params, Arc::new(secret))?,
            products: x.iter().zip(&y).map(|(&x, &y)| t.mul(x, y)).collect(),
            params: params.clone(),
            level,
            encoder,
            x,
        })
    }

    fn measure(&self, op: Op, runs: u32, params: &str) -> Result<Line> {
        let ([a, b], exact) = (&self.encrypted, self.evaluator.exact());
        let (time, found) = time(runs, || {
            Ok(match op {
                Op::BfvMul => self.evaluator.mul(a, b)?,
                Op::BgvMul => exact.mul(a, b)?,
                // Both schemes rotate alike, so one key and one call serve both names.
                _ => exact.rotate(a, 1)?,
            })
        })?;
        self.check(op, &found)?;
        let t = self.params.plaintext_modulus();
        Ok(Line {
            of_all: OfAll {
                bytes: self.params.rlwe().switching_key_bytes(self.level),
                ..OfAll::new(op.name(), params, self.level, &time, runs)
            },
            plaintext_modulus: t.to_string(),
            slots: self.encoder.slots(),
            noise_bits: self.decryptor.noise(&found)?,
            predicted_noise_bits: found.noise().log2(),
        })
    }

    /// Rejects a wrong result, whatever its speed.
    fn check(&self, op: Op, found: &Ciphertext) -> Result<()> {
        let expected = match op.is_rotation() {
            true => {
                let mut rotated = self.x.clone();
                // Slots form two rows, and a rotation moves within each.
                rotated.chunks_mut(self.x.len() / 2).for_each(|row| row.rotate_left(1));
                rotated
            }
            false => self.products.clone(),
        };
        match self.encoder.decode_unsigned(&self.decryptor.decrypt(found)?)? == expected {
            true => Ok(()),
            false => Err(Error::WrongResult(format!("{} of random integers", op.name()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_right_and_wrong_ones_are_errors() {
        let params = Params::new(exact::preset("toy-n5").unwrap().spec).unwrap();
        let ops = [Op::BfvMul, Op::BfvRotate, Op::BgvMul, Op::BgvRotate];
        for level in [Level(2), params.top()] {
            let mut session = Session::new(&params, level, &ops).unwrap();
            for op in ops {
                let line = session.measure(op, 1, "toy-n5").unwrap();
                assert!(line.noise_bits < line.predicted_noise_bits, "{}", op.name());
                assert_eq!((line.of_all.level, line.slots), (level.0, 32));
            }
            session.x[3] = (session.x[3] + 1) % 257;
            session.products[3] = (session.products[3] + 1) % 257;
            for op in ops {
                let wrong = session.measure(op, 1, "toy-n5").err().unwrap();
                assert_eq!(wrong.exit_code(), 1);
            }
        }
    }
}
