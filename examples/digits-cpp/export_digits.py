"""Writes the 1,797 handwritten digits that ship inside scikit-learn: 64 pixels (0-16) and the label per row."""

import sys

import numpy
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
numpy.savetxt(sys.argv[1], numpy.column_stack([images, labels]), fmt="%d", delimiter=",")
