//! Logistic regression in double precision in the clear: the algorithm of the encrypted training,
//! step by step.

use super::{
    prepare::{Pass, Prepared},
    sigmoid::horner,
    spec::{TrainError, TrainSpec, schedule},
};
use crate::Result;
use sudare_arith::real;

/// Trains in the clear with the polynomial sigmoid. Returns the weights of each model, in the
/// coordinates of the training.
///
/// # Errors
/// [`Error::Train`](crate::Error::Train) for an invalid spec, or if training diverges.
pub fn train(rows: &Prepared<'_>, spec: &TrainSpec) -> Result<Vec<Vec<f64>>> {
    Ok(ranges(rows, spec)?.weights)
}

/// Trains as [`train`] does, with the true sigmoid in place of the polynomial.
///
/// # Errors
/// The errors of [`train`].
pub fn train_exact(rows: &Prepared<'_>, spec: &TrainSpec) -> Result<Vec<Vec<f64>>> {
    let models = 0..spec.models();
    let slope = |u: f64| 1.0 / (1.0 + real::exp(u)) - 0.5;
    let all = models.map(|model| descend(rows, spec, model, slope, |_| ()));
    all.map(|ranges| Ok(ranges?.weights)).collect()
}

/// Returns the weights of each model after each iteration of [`train`], by iteration.
///
/// # Errors
/// The errors of [`train`].
pub fn history(rows: &Prepared<'_>, spec: &TrainSpec) -> Result<Vec<Vec<Vec<f64>>>> {
    let slope = polynomial(spec)?;
    let mut history = vec![Vec::new(); spec.iterations as usize];
    for model in 0..spec.models() {
        let mut after = history.iter_mut();
        let keep = |weights: &[f64]| {
            if let Some(kept) = after.next() {
                kept.push(weights.to_vec());
            }
        };
        descend(rows, spec, model, &slope, keep)?;
    }
    Ok(history)
}

/// Sizes of the quantities in a training, and its result. Sizes are the largest over all models.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    /// The trained weights of each model.
    pub weights: Vec<Vec<f64>>,
    /// Largest `|x_i . v|` over the rows of the batch, for the initial `v` of each iteration.
    /// The polynomial is valid for values up to its range.
    pub inner: Vec<f64>,
    /// The largest entry of `|w|` after each iteration.
    pub weight: Vec<f64>,
    /// The largest entry of `|v|` after each iteration.
    pub momentum: Vec<f64>,
}

/// Trains as [`train`] does and records the ranges that a plan for encrypted training needs.
///
/// # Errors
/// The errors of [`train`].
pub fn ranges(rows: &Prepared<'_>, spec: &TrainSpec) -> Result<Ranges> {
    let slope = polynomial(spec)?;
    let zeros = || vec![0.0; spec.iterations as usize];
    let mut all =
        Ranges { weights: Vec::new(), inner: zeros(), weight: zeros(), momentum: zeros() };
    for model in 0..spec.models() {
        let of_model = descend(rows, spec, model, &slope, |_| ())?;
        all.weights.push(of_model.weights);
        let lists = [
            (&mut all.inner, of_model.inner),
            (&mut all.weight, of_model.weight),
            (&mut all.momentum, of_model.momentum),
        ];
        for (all, of_model) in lists {
            // One plan serves all models of a target, so each iteration has room for the largest of
            // them.
            all.iter_mut().zip(of_model).for_each(|(all, found)| *all = f64::max(*all, found));
        }
    }
    Ok(all)
}

/// Returns `s(u) - 1/2` with the polynomial `s` in place of `sigmoid(-u)`.
fn polynomial(spec: &TrainSpec) -> Result<impl Fn(f64) -> f64 + Sync> {
    let mut coefficients = spec.sigmoid.coefficients()?;
    // The constant 1/2 is part of the sums of labels, which the owner computes in the clear.
    coefficients[0] = 0.0;
    Ok(move |u| horner(&coefficients, u))
}

/// The [`Ranges`] of one model.
struct OfModel {
    weights: Vec<f64>,
    inner: Vec<f64>,
    weight: Vec<f64>,
    momentum: Vec<f64>,
}

/// Runs Nesterov's descent for one model with `slope(u)` in place of `sigmoid(-u) - 1/2`. `after`
/// is called with the weights after each iteration.
fn descend(
    rows: &Prepared<'_>,
    spec: &TrainSpec,
    model: usize,
    slope: impl Fn(f64) -> f64 + Sync,
    mut after: impl FnMut(&[f64]),
) -> Result<OfModel> {
    spec.check()?;
    let batches = rows.batches;
    let models = spec.models();
    let label_means: Vec<Vec<f64>> = (0..rows.label_batches(spec.iterations))
        .map(|batch| rows.label_mean(batch, model, models))
        .collect();
    let penalty = rows.transform.penalty();
    let mut w = vec![0.0; penalty.len()];
    let mut v = w.clone();
    let mut found = OfModel { weights: vec![], inner: vec![], weight: vec![], momentum: vec![] };
    for (iteration, step) in (0..).zip(schedule(spec)) {
        let batch = batches.of(iteration);
        // There is a mean of labels for each batch, or one for all batches.
        let labels = &label_means[batch.min(label_means.len() - 1)];
        let weighted = |row, inner| rows.weight(row) * slope(inner);
        // All inner products are still 0 here, and so are the slopes of rows.
        let Pass { sum, largest } = match iteration < spec.label_iterations() {
            true => Pass { sum: vec![0.0; w.len()], largest: 0.0 },
            false => rows.pass(batches.rows(batch), &v, weighted),
        };
        // By the planned rows, since the server divides by a public number.
        let planned = rows.planned.rows(batch).len() as f64;
        for (j, (w, v)) in w.iter_mut().zip(&mut v).enumerate() {
            let next = *v + step.gamma * (labels[j] + sum[j] / planned - penalty[j] * *v);
            *v = (1.0 - step.eta) * next + step.eta * *w;
            *w = next;
        }
        // Before the ranges are recorded: a maximum would hide NaN.
        if !w.iter().chain(&v).all(|value| value.is_finite()) {
            let largest = found.inner.last().copied().unwrap_or(0.0);
            return Err(TrainError::Diverged { iteration, largest }.into());
        }
        after(&w);
        found.inner.push(largest);
        found.weight.push(max_abs(&w));
        found.momentum.push(max_abs(&v));
    }
    found.weights = w;
    Ok(found)
}

fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

#[cfg(test)]
mod tests;
