// The start directory of a rank. Files of the archive are copied to it, so that a rank's writes do not reach the
// unpacked code, which later runs with the same content use too. Blocks; call it on the pool.
#pragma once

#include <string>

#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

// Makes the files read-only and gives each a unique modification time. A file with the size and time of the code's file
// is then unchanged code.
Status seal_code(const std::string& directory);

// The list beside a start directory of its first contents. `Checkpoint.from_directory(".")` uses it to find the files
// that the worker made. Only the worker's user may read it. Records end with NUL: "d PATH", "f BYTES MTIME_NS PATH", "l
// PATH" and its target.
inline constexpr const char* code_list_name = "/code.list";

// Makes the start directory of a rank, once in an attempt, atomically. Files are copied (with shared blocks if the file
// system can) and keep their times. Directories belong to the rank. Files of `setup:` become links, since they may be
// large, but its empty directories become real ones. Returns its path.
Result<std::string> start_directory(const AttemptContext& context, const NodeFacts& facts, std::uint32_t rank);
Status start_directories(const AttemptContext& context, const NodeFacts& facts);  // for all ranks on this node
void remove_start_directories(const AttemptContext& context, const NodeFacts& facts);

}  // namespace rtrain::agent
