//! How long values are needed.

/// The last stage that takes each value: value 0 is the sample, `k + 1` what stage `k` gives.
pub(super) struct LastUses(Vec<Option<usize>>);

impl LastUses {
    /// Of so many stages, from pairs of stages and values that they take, in the order of stages.
    pub(super) fn new(stages: usize, uses: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut last = vec![None; stages + 1];
        uses.into_iter().for_each(|(stage, value)| last[value] = Some(stage));
        Self(last)
    }

    /// Whether a stage after this one takes the value.
    pub(super) fn is_after(&self, stage: usize, value: usize) -> bool {
        self.0[value] > Some(stage)
    }

    /// Frees what no stage after this one takes.
    pub(super) fn free<T>(&self, stage: usize, values: &mut [Vec<T>]) {
        for (value, xs) in values.iter_mut().enumerate() {
            if !self.is_after(stage, value) {
                *xs = Vec::new();
            }
        }
    }
}
