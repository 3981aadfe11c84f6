// Numbers from a text file, for small data sets: one row per line, commas between, no header.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace rtrain::ddp {

// Float64, rows x columns. Throws std::runtime_error that names file and line.
at::Tensor read_csv(const std::string& path);

}  // namespace rtrain::ddp
