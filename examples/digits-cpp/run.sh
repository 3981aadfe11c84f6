#!/bin/sh
# Each worker runs this script: it copies the data to the node's scratch disk and then starts the program.
set -e
data="${RTRAIN_SCRATCH_DIR:-${TMPDIR:-/tmp}}/digits-${RTRAIN_ATTEMPT:-0}-${RANK:-0}.csv"
python export_digits.py "$data"
exec bin/digits "$data"
