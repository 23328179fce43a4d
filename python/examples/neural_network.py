"""A network of scikit-learn on encrypted samples: the server has the weights, and sees no sample.

Run `python python/examples/neural_network.py`. It needs scikit-learn.
"""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sudare import nn


def server_computes(
    network: nn.Network, ranges: dict[str, object], keys: bytes, samples: bytes, count: int
) -> bytes:
    """Runs the network. The same network and ranges lead to the owner's plan."""
    plan = nn.plan(network, batch=count, ranges=ranges)
    batch = plan.batch_from_bytes(samples, samples=count)
    return plan.to_bytes(plan.compute(plan.keys_from_bytes(keys), batch))


def main() -> None:
    flowers, species = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(flowers))
    train, new = order[:110], order[110:]
    network = MLPClassifier((8,), "logistic", solver="lbfgs", alpha=1.0, random_state=0)
    model = make_pipeline(StandardScaler(), network).fit(flowers[train], species[train])
    # The scaling of columns becomes part of the first layer.
    network = nn.Network.from_sklearn(model)

    # The owner plans for ranges of samples like the new ones, and encrypts.
    plan = nn.plan(network, batch=len(new), calibration=flowers)
    explained = plan.explain()
    print(f"N = 2^{explained.log_n}, {explained.keys} keys")
    secret, keys = plan.make_keys()
    samples = plan.to_bytes(plan.encrypt(secret, flowers[new]))

    answer = server_computes(network, plan.ranges, plan.to_bytes(keys), samples, len(new))

    # The owner again.
    results = plan.decrypt(secret, plan.batch_from_bytes(answer, samples=len(new)))
    found = results.argmax(axis=1)
    print("accuracy", (found == species[new]).mean().round(3))
    assert (found == model.predict(flowers[new])).mean() > 0.97


if __name__ == "__main__":
    main()
