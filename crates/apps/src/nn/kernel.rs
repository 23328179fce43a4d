//! Maps of images by kernels: convolutions, pooling, and factors of channels.

/// A linear map between images whose weights depend on the distance of two places alone. Images are
/// `[channels, rows, columns]`, and places outside an image count as zeros.
///
/// Output `(o, y, x)` is the sum over the taps of `o` of the weight times input
/// `(channel, stride[0] y + at[0], stride[1] x + at[1])`. The convolution of a deep network has
/// millions of weights as a matrix, and thousands of taps.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kernel {
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) stride: [usize; 2],
    /// Taps of each output channel, with nonzero weights that read the image, in order of channels and
    /// places.
    pub(super) taps: Vec<Vec<Tap>>,
}

/// See [`Kernel`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    pub(super) channel: usize,
    /// Rows and columns from the place in the output, times the stride, to the place read.
    pub(super) at: [isize; 2],
    pub(super) weight: f64,
}

/// A place that a tap reads for an output, as indices of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) output: usize,
    pub(super) input: usize,
}

impl Kernel {
    /// Returns the product of each channel with its factor.
    pub(super) fn of_factors(shape: [usize; 3], factors: impl Fn(usize) -> f64) -> Self {
        let tap = |channel| Tap { channel, at: [0, 0], weight: factors(channel) };
        let taps = (0..shape[0]).map(|channel| vec![tap(channel)]).collect();
        Self { input: shape, output: shape, stride: [1, 1], taps }.without_idle()
    }

    /// Removes taps that add nothing, because their weight is zero or they read outside the image
    /// alone.
    pub(super) fn without_idle(mut self) -> Self {
        let mut taps = core::mem::take(&mut self.taps);
        let reads =
            |tap: &Tap| [0, 1].iter().all(|&axis| !self.reach(axis, tap.at[axis]).is_empty());
        taps.iter_mut().for_each(|taps| taps.retain(|tap| tap.weight != 0.0 && reads(tap)));
        Self { taps, ..self }
    }

    /// Returns the indices of outputs for which a tap at this distance reads a place of the image,
    /// along an axis: 0 for rows, 1 for columns.
    fn reach(&self, axis: usize, at: isize) -> core::ops::Range<usize> {
        let stride = self.stride[axis];
        let first = if at < 0 { at.unsigned_abs().div_ceil(stride) } else { 0 };
        let end = signed(self.input[1 + axis]) - at;
        let end = if end > 0 { end.unsigned_abs().div_ceil(stride) } else { 0 };
        first..end.min(self.output[1 + axis]).max(first)
    }

    /// Returns the reads of a tap of an output channel that are inside the image.
    pub(super) fn reads(&self, channel: usize, tap: &Tap) -> impl Iterator<Item = Read> {
        let [_, rows, columns] = self.input;
        let [_, down, across] = self.output;
        let [[up, left], [stride, step]] = [tap.at, self.stride.map(signed)];
        let from = tap.channel * rows;
        let to = channel * down;
        let across_reach = self.reach(1, left);
        self.reach(0, up).flat_map(move |y| {
            let row = (from + (signed(y) * stride + up).unsigned_abs()) * columns;
            let line = (to + y) * across;
            across_reach.clone().map(move |x| Read {
                output: line + x,
                input: row + (signed(x) * step + left).unsigned_abs(),
            })
        })
    }

    /// Calls `each` with every read and its weight.
    pub(super) fn each(&self, mut each: impl FnMut(Read, f64)) {
        for (channel, taps) in self.taps.iter().enumerate() {
            for tap in taps {
                self.reads(channel, tap).for_each(|read| each(read, tap.weight));
            }
        }
    }

    /// Adds the product with `x` to `sum`, a row of an image at a time.
    pub(super) fn add_product(&self, x: &[f64], sum: &mut [f64]) {
        let [_, rows, columns] = self.input;
        let [_, down, across] = self.output;
        for (channel, taps) in self.taps.iter().enumerate() {
            for Tap { channel: from, at: [up, left], weight } in taps {
                let reach = self.reach(1, *left);
                let first = (signed(reach.start * self.stride[1]) + left).unsigned_abs();
                for y in self.reach(0, *up) {
                    let row = (signed(y * self.stride[0]) + up).unsigned_abs();
                    let read = &x[(from * rows + row) * columns..][first..columns];
                    let line = (channel * down + y) * across;
                    let sums = sum[line + reach.start..line + reach.end].iter_mut();
                    match self.stride[1] {
                        1 => sums.zip(read).for_each(|(sum, x)| *sum += weight * x),
                        stride => {
                            let read = read.iter().step_by(stride);
                            sums.zip(read).for_each(|(sum, x)| *sum += weight * x);
                        }
                    }
                }
            }
        }
    }

    /// Returns the summands of an output: the indices of inputs with weights, in ascending order.
    pub(super) fn row(&self, output: usize) -> Vec<(usize, f64)> {
        let [_, rows, columns] = self.input;
        let [_, down, across] = self.output;
        let place = [output / across % down, output % across];
        let read = |tap: &Tap| {
            let [y, x] = [0, 1].map(|i| signed(place[i] * self.stride[i]) + tap.at[i]);
            let inside = (0..signed(rows)).contains(&y) && (0..signed(columns)).contains(&x);
            let index = || (tap.channel * rows + y.unsigned_abs()) * columns + x.unsigned_abs();
            inside.then(|| (index(), tap.weight))
        };
        let mut row: Vec<_> = self.taps[output / (down * across)].iter().filter_map(read).collect();
        row.sort_unstable_by_key(|&(input, _)| input);
        row
    }

    /// Returns an upper bound of the number of nonzero weights of the matrix.
    pub(super) fn entries(&self) -> usize {
        let taps: usize = self.taps.iter().map(Vec::len).sum();
        taps.saturating_mul(self.output[1] * self.output[2])
    }

    /// Returns the kernel that applies `first` and then this one, if there is one: places that are
    /// zeros outside the result of `first` must be sums of zeros, or not be read.
    pub(super) fn after(&self, first: &Self) -> Option<Self> {
        if self.input != first.output {
            return None;
        }
        let taps = || self.taps.iter().flatten();
        let inside = [0, 1].iter().all(|&axis| {
            let last = signed((self.output[1 + axis] - 1) * self.stride[axis]);
            taps().all(|tap| (0..signed(self.input[1 + axis]) - last).contains(&tap.at[axis]))
        });
        // Windows side by side from edge to edge read zeros outside it only.
        let tiles = [0, 1].iter().all(|&axis| {
            let stride = signed(first.stride[axis]);
            let covered = first.stride[axis] * first.output[1 + axis];
            let mut taps = first.taps.iter().flatten();
            covered >= first.input[1 + axis] && taps.all(|tap| (0..stride).contains(&tap.at[axis]))
        });
        if !inside && !tiles {
            return None;
        }
        let joined = |taps: &Vec<Tap>| {
            let all = taps.iter().flat_map(|outer| {
                first.taps[outer.channel].iter().map(|inner| Tap {
                    at: [0, 1].map(|i| signed(first.stride[i]) * outer.at[i] + inner.at[i]),
                    weight: outer.weight * inner.weight,
                    ..*inner
                })
            });
            summed(all.collect())
        };
        let joined = Self {
            input: first.input,
            output: self.output,
            stride: [0, 1].map(|i| self.stride[i] * first.stride[i]),
            taps: self.taps.iter().map(joined).collect(),
        };
        Some(joined.without_idle())
    }

    /// Returns the sum with another kernel between the same images, if it has the same stride.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let form = |kernel: &Self| (kernel.input, kernel.output, kernel.stride);
        let both = |(a, b): (&Vec<Tap>, &Vec<Tap>)| summed([&a[..], &b[..]].concat());
        (form(self) == form(other)).then(|| {
            let taps = self.taps.iter().zip(&other.taps).map(both).collect();
            Self { taps, ..self.clone() }.without_idle()
        })
    }
}

/// Returns the stride, with 1 along axes where there is one output and nothing moves.
pub(super) fn moving(stride: [usize; 2], output: [usize; 3]) -> [usize; 2] {
    [0, 1].map(|axis| if output[1 + axis] == 1 { 1 } else { stride[axis] })
}

/// Adds the weights of taps at the same place.
fn summed(mut taps: Vec<Tap>) -> Vec<Tap> {
    taps.sort_by_key(|tap| (tap.channel, tap.at));
    taps.dedup_by(|tap, kept| {
        let same = (tap.channel, tap.at) == (kept.channel, kept.at);
        if same {
            kept.weight += tap.weight;
        }
        same
    });
    taps
}

/// Numbers here are below 2^33: indices of features times strides.
pub(super) fn signed(x: usize) -> isize {
    x as isize
}
