// The rtrain binary: head, agent, shim, keeper and command line in one.
#include <cstring>

#include "cmd/dispatch/dispatch.hpp"
#include "daemon/agent/warm/keeper.h"
#include "daemon/agent/workers/shim.h"

int main(int argc, char** argv) {
    // Shims and keepers are started directly, without the command table: there is one shim per rank, so its start must
    // be fast.
    if (argc > 1 && std::strcmp(argv[1], "__shim") == 0) return shim_main(argc, argv);
    if (argc > 1 && std::strcmp(argv[1], "__keeper") == 0) return keeper_main(argc, argv);
    return rtrain::cmd::run(argc, argv);
}
