// Files that this node has sent to a storage which it does not mount. They are kept on its disk for the next attempt of
// their run, for the run's newest committed checkpoint alone.
//  <spool of the attempt>/sent-<report>/<sha256>               stored, not committed yet; removed with the attempt
//  <data>/checkpoints/<run id>/<attempt>-<report>/<sha256>     committed
// Only the agent can access the directories. The files are those that the ranks staged: their user owns them, and a
// process of the user may have one open. So a worker gets a copy of a kept file, which is hashed after it was made.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::agent {

std::string sent_below(const std::string& spool, std::uint64_t report);

// Makes the directory for a checkpoint that is sent now, and removes those of checkpoints before it.
Status begin_sent(const std::string& spool, const std::string& sent);
// Links the opened file under its hash in `sent`. An existing file with that name stays.
Status keep_sent(const storage::Descriptor& file, const std::string& sent, const std::string& sha256);

// A checkpoint below <data>/checkpoints. `directory`: <run id>/<attempt>-<report>.
struct KeptCheckpoint {
    std::string directory;
    std::int64_t bytes = 0, kept_wall_ms = 0;
    bool operator==(const KeptCheckpoint&) const = default;
};
// Makes the sent files of a committed checkpoint the kept ones of their run. Only renames directories.
Status keep_committed(const std::string& kept, const std::string& directory, const std::string& sent);
// Removes the kept checkpoints that a newer one of their run replaces, then those without room. Blocks; call it on the
// pool.
void drop_replaced(const std::string& kept, const std::string& directory);
// Returns the kept checkpoints to remove, so that the rest takes at most a fifth of the bytes that would be free
// without them. First come those that exceed this bound alone, then the oldest.
std::vector<std::string> beyond_room(std::vector<KeptCheckpoint> all, std::int64_t free_bytes);
// Removes the kept checkpoints of a run that has ended.
void drop_kept(const std::string& kept, const std::string& run_id);
// Removes the kept checkpoints of all runs, to free space. Returns false if there were none.
bool drop_all_kept(const std::string& kept);

// The kept files of a run, for one restore. Blocks; use it on the pool.
class KeptFiles {
  public:
    KeptFiles(std::string kept, std::string run_id) : kept_(std::move(kept)), run_id_(std::move(run_id)) {}
    // Valid during the life of this object; without `relied_on` they only save space.
    storage::NearerCopies copies(bool relied_on = true);
    // Returns true once for each kept checkpoint. A claim of several nodes relies on this node's copies only once. If
    // the files on the storage are damaged, another node finds that, and the next claim must hash them.
    bool first_claim() const;
    std::string text() const;  // "3 files of 1048576 bytes"; empty if none was used

  private:
    bool put(const storage::ManifestFile& file, const std::string& target);
    void refuse(const storage::ManifestFile& file);

    std::string kept_, run_id_;
    std::int64_t bytes_ = 0, files_ = 0;
};

}  // namespace rtrain::agent
