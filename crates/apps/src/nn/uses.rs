//! Lifetimes of values.

/// The last stage that uses each value. Value 0 is the sample, `k + 1` the result of stage `k`.
pub(super) struct LastUses(Vec<Option<usize>>);

impl LastUses {
    /// Finds the last uses in `stages` stages, from pairs of a stage and a value that it uses, in
    /// the order of stages.
    pub(super) fn new(stages: usize, uses: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut last = vec![None; stages + 1];
        uses.into_iter().for_each(|(stage, value)| last[value] = Some(stage));
        Self(last)
    }

    /// Returns whether a stage after this one uses the value.
    pub(super) fn is_after(&self, stage: usize, value: usize) -> bool {
        // A value without uses compares as lower than any stage.
        self.0[value] > Some(stage)
    }

    /// Frees the values that no stage after this one uses.
    pub(super) fn free<T>(&self, stage: usize, values: &mut [Vec<T>]) {
        for (value, xs) in values.iter_mut().enumerate() {
            if !self.is_after(stage, value) {
                *xs = Vec::new();
            }
        }
    }
}
