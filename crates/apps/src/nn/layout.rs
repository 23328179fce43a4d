//! Places of features in the slots of a ciphertext.
//!
//! A stride leaves gaps between the features of an image. If channels fill the gaps, the distance
//! from an input of a kernel to its output is the same at all places, so a tap of a kernel is one
//! rotation, and no level is spent on moving features together.
//!
//! Reference: Lee et al., "Low-Complexity Deep Convolutional Neural Networks on Fully Homomorphic
//! Encryption Using Multiplexed Parallel Convolutions"
//! ([2021/1688](https://eprint.iacr.org/2021/1688)), section 4. Deviation: kernels read and write
//! any layouts in one level, by their diagonals.

use super::{affine::Stage, kernel::Kernel, map::Map};

/// The slot of each feature of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// This number of features, one after the other.
    Line(usize),
    Image(ImageLayout),
}

/// Places of an image. Feature `(c, y, x)` is in plane `c div cells` with `cells` the product of
/// gaps, at row `gap[0] y + (c mod cells) div gap[1]` and column `gap[1] x + c mod gap[1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageLayout {
    /// Channels, rows and columns.
    pub(super) shape: [usize; 3],
    /// Distance of neighbouring features, in rows and in columns.
    pub(super) gap: [usize; 2],
    /// Slots of a row.
    pub(super) row: usize,
    /// Slots of a plane, a power of two.
    pub(super) plane: usize,
}

impl Layout {
    /// Returns the number of slots after which slots repeat, a power of two.
    pub(super) fn slots(&self) -> usize {
        match self {
            Self::Line(features) => features.next_power_of_two(),
            Self::Image(image) => image.planes().next_power_of_two() * image.plane,
        }
    }

    /// Returns the slot of a feature.
    pub(super) fn slot(&self, feature: usize) -> usize {
        match self {
            Self::Line(_) => feature,
            Self::Image(image) => image.slot(feature),
        }
    }

    /// Returns the slots of a value, with zeros where no feature is.
    pub(super) fn spread(&self, features: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let mut slots = vec![0.0; self.slots()];
        features.into_iter().enumerate().for_each(|(i, x)| slots[self.slot(i)] = x);
        slots
    }
}

impl ImageLayout {
    /// Returns the layout without gaps.
    fn new(shape: [usize; 3]) -> Self {
        let [_, rows, columns] = shape;
        Self { shape, gap: [1, 1], row: columns, plane: (rows * columns).next_power_of_two() }
    }

    fn planes(&self) -> usize {
        self.shape[0].div_ceil(self.gap[0] * self.gap[1])
    }

    fn slot(&self, feature: usize) -> usize {
        let [_, rows, columns] = self.shape;
        let channel = feature / (rows * columns);
        let cell = channel % (self.gap[0] * self.gap[1]);
        let y = self.gap[0] * (feature / columns % rows) + cell / self.gap[1];
        let x = self.gap[1] * (feature % columns) + cell % self.gap[1];
        channel / (self.gap[0] * self.gap[1]) * self.plane + y * self.row + x
    }

    /// Returns the layout of the result of a kernel, if there is one with a constant distance for
    /// each tap.
    fn after(&self, kernel: &Kernel) -> Option<Self> {
        let gap = [0, 1].map(|i| self.gap[i] * kernel.stride[i]);
        let [_, rows, columns] = kernel.output;
        let fits = gap[1] * columns <= self.row && gap[0] * rows * self.row <= self.plane;
        let known = self.shape == kernel.input && fits;
        known.then(|| Self { shape: kernel.output, gap, ..self.clone() })
    }

    /// Returns whether each tap of a kernel between these layouts has a constant distance.
    pub(super) fn leads_to(&self, other: &Self, kernel: &Kernel) -> bool {
        self.after(kernel).as_ref() == Some(other)
    }
}

/// Returns the layout of each value of a network: of samples, and of the result of each stage.
pub(super) fn layouts(stages: &[Stage]) -> Vec<Layout> {
    let inputs = stages.iter().flat_map(Stage::parts).find(|part| part.source.value == 0);
    let width = inputs.map_or(0, |part| part.source.width);
    let mut layouts = vec![read_as(stages, 0).unwrap_or(Layout::Line(width))];
    for (number, stage) in stages.iter().enumerate() {
        let written =
            stage.parts().find_map(|part| match (&layouts[part.source.value], part.map) {
                (Layout::Image(from), Map::Kernel(kernel)) => from.after(kernel).map(Layout::Image),
                _ => None,
            });
        let layout = written.or_else(|| read_as(stages, number + 1));
        layouts.push(layout.unwrap_or(Layout::Line(stage.affine.outputs())));
    }
    layouts
}

/// Returns the layout of the image that a kernel reads from a value, if one does.
fn read_as(stages: &[Stage], value: usize) -> Option<Layout> {
    let mut parts = stages.iter().flat_map(Stage::parts);
    parts.find_map(|part| match part.map {
        Map::Kernel(kernel) if part.source.value == value => {
            Some(Layout::Image(ImageLayout::new(kernel.input)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_slot_of_its_own() {
        for (shape, gap, row, plane) in [
            ([3, 32, 32], [1, 1], 32, 1024),
            ([32, 16, 16], [2, 2], 32, 1024),
            ([5, 8, 8], [4, 4], 32, 1024),
            ([7, 9, 28], [3, 1], 28, 1024),
            ([10, 3, 5], [2, 3], 17, 128),
            ([1, 1, 1], [1, 1], 1, 1),
        ] {
            let layout = Layout::Image(ImageLayout { shape, gap, row, plane });
            let mut taken = vec![false; layout.slots()];
            for feature in 0..shape.iter().product() {
                assert!(!core::mem::replace(&mut taken[layout.slot(feature)], true), "{layout:?}");
            }
        }
    }
}
