// PURE: a chunk as bytes, one compressed text for each key, so that a chart of one key reads no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/model/result.hpp"
#include "storage/history/levels.hpp"

namespace rtrain::history {

// Returns a count as SQLite keeps it: signed, of 64 bits.
inline std::int64_t as_sql(std::uint64_t count) { return static_cast<std::int64_t>(count); }

std::string pack(const Chunk& chunk);
// The chunk, with the column of `only` or with all; its number is not in the bytes. Fails for bytes that `pack` did not
// make.
Result<Chunk> unpack(const std::string& bytes, std::optional<std::size_t> only = {});

}  // namespace rtrain::history
