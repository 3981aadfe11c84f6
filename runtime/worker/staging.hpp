// Brings a checkpoint directory into the directory that the agent made for it on the target's file system. It is moved
// if the caller gives it away, else copied, by reflink if the file system can. The agent computes hashes and calls
// fsync.
#pragma once

#include <string>

namespace rtrain::worker {

struct StagingFault {
    int error = 0;        // errno; 0: success
    std::string message;  // the failed operation and the file
    bool full() const;    // true: no space left, or over a quota
};

// Requires that `to` exists and is empty. Links are followed, so that nothing points out of the checkpoint. A manifest
// of an older checkpoint at the top is left out, because the new checkpoint gets its own. After a fault `to` is empty
// again.
StagingFault copy_tree(const std::string& from, const std::string& to);

// Renames `from` over the empty directory `to`. Copies and removes it between file systems, and if renaming is not
// permitted.
StagingFault move_tree(const std::string& from, const std::string& to);

}  // namespace rtrain::worker
