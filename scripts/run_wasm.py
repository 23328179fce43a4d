"""Runs a test program for WASI by Wasmtime, as a runner of Cargo: `run_wasm.py PROGRAM ARGUMENT…`."""

import sys

import wasmtime


def main() -> None:
    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    config = wasmtime.WasiConfig()
    config.argv = sys.argv[1:]
    config.inherit_stdout()
    config.inherit_stderr()
    store.set_wasi(config)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
    try:
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as end:
        sys.exit(end.code)


if __name__ == "__main__":
    main()
