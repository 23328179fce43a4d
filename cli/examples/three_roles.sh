#!/bin/sh
# Three roles that exchange files: an owner encrypts a table, a server trains on it, and a reader
# uses the released model. Each role has a directory of its own, and `cp` stands for sending.
#
# sh cli/examples/three_roles.sh [TABLE.csv [TARGET]]
set -eu

examples=$(cd "$(dirname "$0")" && pwd)
table=$(realpath "${1:-$examples/../../crates/apps/data/lbw.csv}")
target=${2:-y}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir owner server reader

# The owner makes keys for this job alone. `--share 6` plans for weights that others may see.
cd owner
cp "$table" table.csv
sudare keygen --params auto --for train:table.csv --target "$target" --iterations 3 --share 6 \
  --out keys
sudare encrypt --secret keys/secret.key --data table.csv --target "$target" --hold-out 0.2 \
  -o table.ct
cp keys/evaluation.key table.ct ../server

# The server has two files, and learns no value. `info` shows the rest.
cd ../server
sudare info table.ct
sudare train --evaluation-key evaluation.key -i table.ct -o model.ct
cp model.ct ../owner

# The owner measures the model on the rows that were left out, and releases it: noise hides the
# errors of weights, which depend on the secret key.
cd ../owner
sudare decrypt --secret keys/secret.key -i model.ct --table table.ct --calibrate table.csv \
  -o private.json
sudare evaluate --model private.json --data table.csv --held-out
sudare decrypt --secret keys/secret.key -i model.ct --table table.ct --share 6 -o released.json
cp released.json ../reader

# The reader has rows, and the released model.
cd ../reader
head -6 "$table" > rows.csv
sudare predict --model released.json --data rows.csv -o scores.csv
cat scores.csv
