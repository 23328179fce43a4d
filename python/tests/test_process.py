"""Tests the process: import, threads, Ctrl-C, forks, the command."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest

import sudare

# Some seconds of native work: the setup, and the call.
LONG = {
    "keys": ("", "sudare.Context(15).keys"),
    "encryption of a table": (
        "plan = stats.plan((400_000, 20))\nkeys = plan.make_keys()\nx = np.ones((400_000, 20))",
        "plan.encrypt(x, keys.public)",
    ),
    "operation on an array": (
        "ctx = sudare.Context(4)\nx = ctx.encrypt(np.zeros((32, 16384)))",
        "(x * x).sum(axis=1)",
    ),
    "bootstrapping": (
        "ctx = sudare.Context.preset('n16-boot-real', insecure_log_n=13)\n"
        "x = ctx.encrypt(np.full(100_000, 0.5))\nctx.keys.evaluation",
        "x**1024",
    ),
    "training": (
        "from sudare import LogisticRegression\n"
        "x = np.random.default_rng(0).normal(size=(20_000, 10))",
        "LogisticRegression(insecure_log_n=13).fit(x, x[:, 0] > 0)",
    ),
    "statistics": (
        "plan = stats.plan((100_000, 20))\nkeys = plan.make_keys()\n"
        "table = plan.encrypt(np.random.default_rng(0).random((100_000, 20)), keys.public)",
        "stats.compute(table, keys.evaluation)",
    ),
}
# Maximum seconds on a busy machine. An idle one takes 0.03 for a call, and 0.03 to 0.2 for a process with the end of
# the interpreter.
CALL_SECONDS, PROCESS_SECONDS = 0.6, 0.9


def python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )


def test_import_is_quick() -> None:
    code = (
        "import time, numpy; start = time.perf_counter(); import sudare; "
        "print(time.perf_counter() - start)"
    )
    assert min(float(python(code).stdout) for _ in range(3)) < 0.2
    code = "import sys, sudare; print({'asyncio', 'sklearn'} & set(sys.modules))"
    assert python(code).stdout == "set()\n"


def test_the_lock_is_released_in_long_calls() -> None:
    contexts = [sudare.Context(9), sudare.Context(9)]
    spans: list[tuple[float, float]] = []

    def make(context: sudare.Context) -> None:
        start = time.perf_counter()
        context.keys  # noqa: B018
        spans.append((start, time.perf_counter()))

    threads = [threading.Thread(target=make, args=(context,)) for context in contexts]
    for thread in threads:
        thread.start()
    turns = 0
    while any(thread.is_alive() for thread in threads):
        turns += 1
        time.sleep(0.001)
    (first, second) = spans
    assert max(first[0], second[0]) < min(first[1], second[1]), "one waited for the other"
    assert turns > 10, "Python stood still"


def test_one_context_makes_its_keys_once() -> None:
    context = sudare.Context(3)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(context.keys.public.key_id)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


HEAD = """
import warnings
warnings.simplefilter("ignore")
import os, signal, threading, time
import numpy as np
import sudare
from sudare import stats
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("kind", LONG)
def test_ctrl_c_ends_a_long_call_at_once(kind: str) -> None:
    before, call = LONG[kind]
    code = f"""{HEAD}
{before}
def interrupt():
    time.sleep(0.2)
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    {call}
    print("came to its end")
except KeyboardInterrupt:
    print(time.perf_counter() - sent)
time.sleep(0.5)
start = time.process_time()
time.sleep(0.5)
print(time.process_time() - start)
"""
    run = python(code)
    assert run.returncode == 0, run.stderr
    waited, afterwards = map(float, run.stdout.split("\n")[:2])
    print(f"{kind}: {waited:.3f} s, and {afterwards:.3f} s of work afterwards")
    assert waited < CALL_SECONDS
    assert afterwards < 0.1, "work goes on that nobody waits for"


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("kind", LONG)
def test_an_uncaught_ctrl_c_ends_the_process(kind: str) -> None:
    before, call = LONG[kind]
    code = f"{HEAD}\n{before}\nprint('ready', flush=True)\n{call}"

    def seconds() -> float:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        start = time.perf_counter()
        process.send_signal(2)
        _, message = process.communicate(timeout=30)
        assert "KeyboardInterrupt" in message
        return time.perf_counter() - start

    # Includes the end of the interpreter, which other programs may delay.
    waited = seconds()
    for _ in range(2):
        waited = waited if waited < PROCESS_SECONDS else seconds()
    print(f"{kind}: {waited:.3f} s")
    assert waited < PROCESS_SECONDS


def _key_id() -> str:
    return sudare.Context(1).keys.public.key_id


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_works() -> None:
    _key_id()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_key_id).get(timeout=60)


def test_the_command_comes_with_the_package() -> None:
    command = [sys.executable, "-m", "sudare"]
    run = subprocess.run([*command, "doctor", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["version"] == sudare.__version__
    wrong = subprocess.run([*command, "sing", "--json"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert json.loads(wrong.stderr.splitlines()[-1])["kind"] == "Usage"
