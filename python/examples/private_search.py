"""Private search: the documents nearest to a query, from a server that sees neither.

Owner and server exchange the files in a directory. Run `python python/examples/private_search.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sudare import search


def owner_encrypts(documents: np.ndarray, private: Path, shared: Path) -> search.Keys:
    """Makes keys, and encrypts an index with room for 500 documents."""
    plan = search.plan(500, documents.shape[1])
    keys = plan.make_keys(private / "keys")
    (shared / "evaluation.key").write_bytes(keys.evaluation.read_bytes())
    search.Index.build(shared / "index", keys.secret, documents)
    return keys


def server_searches(query: bytes, shared: Path) -> bytes:
    """Answers a query with the encrypted similarity of every document."""
    return search.Server(shared / "evaluation.key").compute(query, shared / "index")


def main() -> None:
    # In your program, vectors come from an embedding model.
    rng = np.random.default_rng(7)
    topics = rng.normal(size=(10, 16))
    documents = topics[np.arange(200) % 10] + 0.3 * rng.normal(size=(200, 16))
    question = topics[3] + 0.3 * rng.normal(size=16)

    with TemporaryDirectory() as private, TemporaryDirectory() as shared:
        keys = owner_encrypts(documents, Path(private), Path(shared))
        # Query and answer are bytes, which you send in any way.
        answer = server_searches(keys.secret.encrypt(question), Path(shared))
        scores = keys.secret.decrypt(answer)
    assert isinstance(scores, search.Scores)
    rows, similarities = scores.top_k(3)
    print("nearest", rows, similarities.round(3))

    norms = np.linalg.norm(documents, axis=1) * np.linalg.norm(question)
    cosines = documents @ question / norms
    assert rows[0] == cosines.argmax()
    assert np.allclose(scores.values, cosines, atol=1e-3)


if __name__ == "__main__":
    main()
