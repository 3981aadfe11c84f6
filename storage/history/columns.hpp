// PURE: a chunk as bytes, one compressed text for each key, so that a chart of one key reads no other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "scheduler/model/result.hpp"
#include "storage/history/levels.hpp"

namespace rtrain::history {

std::string pack(const Chunk& chunk);
// The chunk, with the column of `only` or with all; its number is not in the bytes. Fails for bytes that `pack` did not
// make.
Result<Chunk> unpack(const std::string& bytes, std::optional<std::size_t> only = {});

}  // namespace rtrain::history
