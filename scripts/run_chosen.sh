#!/bin/sh
# Runs a test program if it is of one package, and among those that are named if any are:
# `run_chosen.sh PACKAGE "NAME…" PROGRAM ARGUMENT…`, as a runner of Cargo, which says in CARGO_PKG_NAME
# what it runs. So the programs that were built for the whole workspace serve once more; choosing them by
# options of Cargo would build others.
package=$1
names=$2
shift 2
[ "$CARGO_PKG_NAME" = "$package" ] || exit 0
# Cargo adds a hash.
name=$(basename "$1" | sed 's/-[0-9a-f]*$//')
case " ${names:-$name} " in
  *" $name "*) exec "$@" ;;
esac
