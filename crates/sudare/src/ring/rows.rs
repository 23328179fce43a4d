//! Work on single rows, in pieces that fit a cache.

use sudare_arith::{NttTable, Permutation, par::Within};

/// The image of `row` under an automorphism.
pub(super) fn permute(within: Within, g: &Permutation, out: &mut [u64], row: &[u64]) {
    let words = Permutation::block_words(out.len().ilog2());
    within.for_blocks(
        out.chunks_mut(words).enumerate(),
        || (),
        |(), (block, out)| {
            g.apply_block(block, out, &row[g.source_block(block) * words..][..words]);
        },
    );
}

/// The second half of the transform of a row.
pub(crate) fn finish(within: Within, table: &NttTable, half: &[u64], out: &mut [u64]) {
    let words = Permutation::block_words(table.log_n());
    within.for_blocks(
        out.chunks_mut(words).enumerate(),
        || (),
        |(), (block, out)| table.forward_lines(half, block, out, &[]),
    );
}

/// Cuts rows into pieces of `width` words and groups the pieces by place:
/// `(first word, pieces)`.
pub(crate) fn columns<'a>(
    rows: impl Iterator<Item = &'a mut [u64]>,
    width: usize,
) -> impl Iterator<Item = (usize, Vec<&'a mut [u64]>)> {
    let mut pieces: Vec<_> = rows.map(|row| row.chunks_mut(width)).collect();
    let count = pieces.first().map_or(0, ExactSizeIterator::len);
    (0..count).map(move |k| (k * width, pieces.iter_mut().filter_map(Iterator::next).collect()))
}
