"""The process around: import, threads, Ctrl-C, forks, the command."""

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

# Some seconds of native work.
LONG = "sudare.Context(15).keys"


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


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_ends_a_long_call_at_once() -> None:
    code = f"""
import os, signal, threading, time, sudare
def interrupt():
    time.sleep(0.3)
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    {LONG}
    print("came to its end")
except KeyboardInterrupt:
    print(time.perf_counter() - sent)
"""
    start = time.perf_counter()
    run = python(code)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 0.2
    assert time.perf_counter() - start < 5


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_uncaught_ctrl_c_ends_the_process() -> None:
    code = f"import sudare; print('ready', flush=True); {LONG}"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.perf_counter()
    process.send_signal(2)
    _, message = process.communicate(timeout=30)
    assert time.perf_counter() - start < 0.5
    assert "KeyboardInterrupt" in message


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
