#!/bin/sh
# Runs a test program if it is of one package: `run_chosen.sh PACKAGE PROGRAM ARGUMENT…`, as a runner of
# Cargo, which sets CARGO_PKG_NAME. So the programs that were built for the whole workspace serve once more;
# choosing a package by an option of Cargo would build others.
package=$1
shift
[ "$CARGO_PKG_NAME" != "$package" ] || exec "$@"
