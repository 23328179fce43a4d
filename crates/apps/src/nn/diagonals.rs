//! The diagonals of a map between values in slots.

use core::ops::Range;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use sudare::{
    circuits::{
        ckks::ComplexSlots,
        linear::{Diagonals, Offset},
    },
    ckks::Complex,
};

use super::{affine::Stage, kernel::Kernel, layout::Layout, map::Map};

/// The matrix of a part of a stage, between layouts of `from` and `to` slots.
///
/// It is of the size of the larger one. If that is `from`, parts of a row are in slots at distances
/// of `to`, and their sums are the results. If it is `to`, inputs repeat. In both cases offsets
/// count modulo the smaller one.
#[derive(Debug)]
pub(super) struct MapDiagonals {
    from: Layout,
    to: Layout,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Each tap of a kernel has an offset of its own.
    Taps {
        /// Shared with the plan, because weights of a network are large.
        stages: Arc<Vec<Stage>>,
        part: PartNumber,
        /// Output channels and taps by offset.
        at: BTreeMap<usize, Vec<(usize, usize)>>,
    },
    /// Weights, in order of offsets.
    Entries { entries: Vec<Entry>, at: BTreeMap<usize, Range<usize>> },
}

/// The numbers of a stage and of one of its sources.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartNumber {
    pub(super) stage: usize,
    pub(super) source: usize,
}

impl PartNumber {
    fn map(self, stages: &[Stage]) -> &Map {
        &stages[self.stage].affine.maps[self.source]
    }
}

/// A weight with its offset, and its row in the matrix.
#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: usize,
    row: usize,
    weight: f64,
}

impl MapDiagonals {
    /// Takes the diagonals of a part of a stage, between the layouts of two values.
    pub(super) fn new(
        stages: &Arc<Vec<Stage>>,
        part: PartNumber,
        from: &Layout,
        to: &Layout,
    ) -> Self {
        let map = part.map(stages);
        let kind = match (map, from, to) {
            (Map::Kernel(kernel), Layout::Image(a), Layout::Image(b)) if a.leads_to(b, kernel) => {
                let mut at = BTreeMap::<usize, Vec<_>>::new();
                for (channel, taps) in kernel.taps.iter().enumerate() {
                    for (tap, of) in taps.iter().enumerate() {
                        // A tap that is outside the image everywhere has no offset.
                        let Some(read) = kernel.reads(channel, of).next() else { continue };
                        let offset = place(from, to, read.input, read.output).0;
                        at.entry(offset).or_default().push((channel, tap));
                    }
                }
                Kind::Taps { stages: Arc::clone(stages), part, at }
            }
            _ => Kind::of_entries(map, from, to),
        };
        Self { from: from.clone(), to: to.clone(), kind }
    }

    fn size(&self) -> usize {
        self.from.slots().max(self.to.slots())
    }
}

impl Kind {
    fn of_entries(map: &Map, from: &Layout, to: &Layout) -> Self {
        let mut entries = Vec::with_capacity(map.entries());
        map.each(|output, input, weight| {
            let (offset, row) = place(from, to, input, output);
            entries.push(Entry { offset, row, weight });
        });
        entries.sort_unstable_by_key(|entry| (entry.offset, entry.row));
        let mut at = BTreeMap::<usize, Range<usize>>::new();
        for (i, entry) in entries.iter().enumerate() {
            at.entry(entry.offset).or_insert(i..i).end = i + 1;
        }
        Self::Entries { entries, at }
    }
}

/// Returns the offset of the diagonal and the row of the matrix of a weight, from the feature read
/// to the feature written.
fn place(from: &Layout, to: &Layout, input: usize, output: usize) -> (usize, usize) {
    let [slots, rows] = [from.slots(), to.slots()];
    let [slot, row] = [from.slot(input), to.slot(output)];
    // Both are powers of two, so the remainder of a difference below 0 is as expected.
    let offset = slot.wrapping_sub(row) & (slots.min(rows) - 1);
    match slots >= rows {
        true => (offset, slot.wrapping_sub(offset) & (slots - 1)),
        false => (offset, row),
    }
}

impl Diagonals<ComplexSlots> for MapDiagonals {
    fn log_slots(&self) -> u32 {
        self.size().ilog2()
    }

    fn offsets(&self) -> Vec<Offset> {
        match &self.kind {
            Kind::Taps { at, .. } => at.keys().map(|&offset| offset.into()).collect(),
            Kind::Entries { at, .. } => at.keys().map(|&offset| offset.into()).collect(),
        }
    }

    fn diagonal(&self, offset: Offset) -> Option<Cow<'_, [Complex<f64>]>> {
        if offset.conjugated {
            return None;
        }
        let mut diagonal = vec![Complex::new(0.0, 0.0); self.size()];
        let mut add = |row: usize, weight: f64| diagonal[row].re += weight;
        match &self.kind {
            Kind::Taps { stages, part, at } => {
                let taps = at.get(&offset.columns)?;
                let Map::Kernel(kernel) = part.map(stages) else { return None };
                self.each_read(kernel, taps, &mut add);
            }
            Kind::Entries { entries, at } => {
                let entries = &entries[at.get(&offset.columns)?.clone()];
                entries.iter().for_each(|entry| add(entry.row, entry.weight));
            }
        }
        Some(Cow::Owned(diagonal))
    }
}

impl MapDiagonals {
    /// Calls `add` with the row and the weight of all reads of taps.
    fn each_read(
        &self,
        kernel: &Kernel,
        taps: &[(usize, usize)],
        add: &mut impl FnMut(usize, f64),
    ) {
        for &(channel, tap) in taps {
            let tap = &kernel.taps[channel][tap];
            for read in kernel.reads(channel, tap) {
                add(place(&self.from, &self.to, read.input, read.output).1, tap.weight);
            }
        }
    }
}
