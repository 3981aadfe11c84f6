#!/bin/sh
# What each worker runs: its own copy of the data on the node's scratch disk, then the program.
set -e
data="${RTRAIN_SCRATCH_DIR:-${TMPDIR:-/tmp}}/digits-${RTRAIN_ATTEMPT:-0}-${RANK:-0}.csv"
python export_digits.py "$data"
exec bin/digits "$data"
