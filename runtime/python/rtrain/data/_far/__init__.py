"""Reads files of object stores: several parts of a file at the same time, and ahead of the reader."""
