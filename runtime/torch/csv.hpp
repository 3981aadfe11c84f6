// Numbers from a text file, for small data sets: one row per line, commas between, no header.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

// LibTorch for ranks in C++: groups, data parallel training, samplers and files.
namespace rtrain::ddp {

// Returns the numbers of the file `path` as a float64 tensor, rows x columns, on the CPU. Empty lines are skipped.
// Throws std::runtime_error when the file cannot be read, is empty, or a row is unlike the first; it names file and
// row.
at::Tensor read_csv(const std::string& path);

}  // namespace rtrain::ddp
