// Reads the flags of `head start` and `node join`, which `head install` and `node install` accept too.
#pragma once

#include <vector>

#include "cmd/daemons/node_entry.hpp"
#include "cmd/line/command.hpp"
#include "cmd/line/invocation.hpp"
#include "daemon/head/head.hpp"

namespace rtrain::cmd {

std::vector<Flag> head_start_flags();
std::vector<Flag> node_join_flags();
Flag token_file_flag();
// Returns the head's options from the flags. Files are read below `root`, which is empty for this machine.
Result<HeadOptions> head_options(Invocation& call, const std::string& root = "");
Result<NodeOptions> node_options(const Arguments& arguments);  // `arguments` has HOST:PORT of the head as an argument

}  // namespace rtrain::cmd
