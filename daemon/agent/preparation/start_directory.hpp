// Where a rank starts: a directory of its own. What came in the archive lies there as copies, so nothing that a rank
// writes reaches the unpacked code, which later runs with the same content start from too. Blocking: runs on the pool.
#pragma once

#include <string>

#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

// Files that are not written by accident, each with a time of modification of its own: what has the code's size and
// time is the code.
Status seal_code(const std::string& directory);

// Beside a start directory: what it held at first, so that `Checkpoint.from_directory(".")` knows what the worker made.
// Only the worker's user may read it. Records end with NUL: "d PATH", "f BYTES MTIME_NS PATH", "l PATH" and its target.
inline constexpr const char* code_list_name = "/code.list";

// Makes the start directory of a rank, once in an attempt, whole or not at all. Files are copied (the blocks shared
// where the file system can) and keep their times; directories are the rank's own. What `setup:` made is a link, since
// it may be large; but an empty directory is one to write into. Returns its path.
Result<std::string> start_directory(const AttemptContext& context, const NodeFacts& facts, std::uint32_t rank);
Status start_directories(const AttemptContext& context, const NodeFacts& facts);  // of all ranks on this node
void remove_start_directories(const AttemptContext& context, const NodeFacts& facts);

}  // namespace rtrain::agent
