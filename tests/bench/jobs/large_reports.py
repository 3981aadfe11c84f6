"""Sends as many reports of one megabyte as its argument says."""

import sys

import rtrain.train

for number in range(int(sys.argv[1])):
    rtrain.train.report({"step": number, "text": "x" * 1_000_000})
