// Brings a checkpoint directory into the directory that the agent made for it on the target's file system: moved when
// the caller gives it away, else copied, by reflink where the file system can. fsync and hashes are the agent's work.
#pragma once

#include <string>

namespace rtrain::worker {

struct StagingFault {
    int error = 0;        // errno; 0: success
    std::string message;  // what failed on which file
    bool full() const;    // no room, or over a quota
};

// `to` exists and is empty. Links are followed, so that nothing points out of the checkpoint. A manifest of an older
// checkpoint at the top is left out: the new one gets its own. On a fault `to` is emptied again.
StagingFault copy_tree(const std::string& from, const std::string& to);

// Renames `from` over the empty directory `to`; between file systems, and where it may not, it copies and removes.
StagingFault move_tree(const std::string& from, const std::string& to);

}  // namespace rtrain::worker
