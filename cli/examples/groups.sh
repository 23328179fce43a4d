#!/bin/sh
# Statistics by groups that you may publish: counts and means of births by smoking, computed on an
# encrypted table, and released with noise.
#
# sh cli/examples/groups.sh
set -eu

examples=$(cd "$(dirname "$0")" && pwd)
table=$(realpath "$examples/../../crates/apps/data/lbw.csv")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir owner server

# The owner: 189 rows, nine columns and two groups. `--share 8` plans for the release. The server
# learns these numbers, and neither the size nor the members of a group.
cd owner
sudare keygen --params auto --for groups:189x9x2 --share 8 --out keys
sudare encrypt --secret keys/secret.key --data "$table" --by smoke -o births.ct
cp keys/evaluation.key births.ct ../server

# The server.
cd ../server
sudare stats --evaluation-key evaluation.key -i births.ct -o groups.ct
cp groups.ct ../owner

# The owner reads values in full precision, with a test of the difference between the groups 0 and 1.
cd ../owner
sudare decrypt --secret keys/secret.key -i groups.ct --table births.ct --t-test 0,1 -o private.json

# Others get released values. Each release counts: a key has 1024.
sudare decrypt --secret keys/secret.key -i groups.ct --table births.ct --share 8 -o released.csv
cat released.csv
