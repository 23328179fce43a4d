#!/bin/sh
# Runs a test program if it is of one package: `run_if_package.sh PACKAGE PROGRAM ARGUMENT…`, as
# a runner of Cargo, which says in CARGO_PKG_NAME what it runs. So the programs that were built for the whole
# workspace serve once more; with `--package`, Cargo would build others.
package=$1
shift
if [ "$CARGO_PKG_NAME" = "$package" ]; then
  exec "$@"
fi
