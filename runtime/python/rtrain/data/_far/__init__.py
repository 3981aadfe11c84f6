"""Files of object stores: parts of them, fetched side by side and ahead of the reader."""
