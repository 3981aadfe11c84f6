// PURE: writes a chunk as bytes, with one compressed text per key, so that a chart of one key reads no other key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "storage/history/levels.hpp"

namespace rtrain::history {

// Returns a count as the signed 64-bit integer that SQLite stores.
inline std::int64_t as_sql(std::uint64_t count) { return static_cast<std::int64_t>(count); }

std::string pack(const Chunk& chunk);
// Returns the chunk, with only the column of the key `only`, or with all columns. The chunk's number is not part of the
// bytes. Fails for bytes that `pack` has not written.
Result<Chunk> unpack(const std::string& bytes, std::optional<std::size_t> only = {});

}  // namespace rtrain::history
