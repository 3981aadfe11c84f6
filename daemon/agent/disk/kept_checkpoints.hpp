// Files that this node has brought to a storage which it does not mount, kept on its own disk for the next attempt of
// their run: of its newest committed checkpoint alone.
//   <spool of the attempt>/sent-<report>/<sha256>               stored, not committed yet; goes with the attempt
//   <data>/checkpoints/<run id>/<attempt>-<report>/<sha256>     committed
// The directories are the agent's alone. The files are the very ones that the ranks staged: their user owns them, and a
// process of his may hold one open. So nobody is given such a file, but a copy, which is hashed after it was made.
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
// Gives the opened file one more name: its hash, below `sent`. What that name led to before stays.
Status keep_sent(const storage::Descriptor& file, const std::string& sent, const std::string& sha256);

// A checkpoint below <data>/checkpoints. `directory`: <run id>/<attempt>-<report>.
struct KeptCheckpoint {
    std::string directory;
    std::int64_t bytes = 0, kept_wall_ms = 0;
    bool operator==(const KeptCheckpoint&) const = default;
};
// The checkpoint is committed: what was sent of it is its run's kept one. It renames directories and waits for nothing
// else.
Status keep_committed(const std::string& kept, const std::string& directory, const std::string& sent);
// Removes what a newer checkpoint of its run replaces, and then what has no room. It blocks: it runs on the pool.
void drop_replaced(const std::string& kept, const std::string& directory);
// Returns the kept checkpoints that must go, so that the rest takes a fifth at most of what is free without them: first
// whatever takes more by itself, then the oldest.
std::vector<std::string> beyond_room(std::vector<KeptCheckpoint> all, std::int64_t free_bytes);
void drop_kept(const std::string& kept, const std::string& run_id);  // of a run that has ended
// Removes all of it, of every run: the room is needed. False: there was nothing.
bool drop_all_kept(const std::string& kept);

// The kept files of a run, for one restore. It blocks: it runs on the pool.
class KeptFiles {
  public:
    KeptFiles(std::string kept, std::string run_id) : kept_(std::move(kept)), run_id_(std::move(run_id)) {}
    storage::NearerCopies copies(bool relied_on = true);  // as long as this lives; not relied on: they only make room
    // True once for each kept checkpoint. The claim of several nodes relies on this node's copies once; were the files
    // on storage damaged, another node would find it so, and the next claim has to hash those.
    bool first_claim() const;
    std::string text() const;  // "3 files of 1048576 bytes"; empty: none was used

  private:
    bool put(const storage::ManifestFile& file, const std::string& target);
    void refuse(const storage::ManifestFile& file);

    std::string kept_, run_id_;
    std::int64_t bytes_ = 0, files_ = 0;
};

}  // namespace rtrain::agent
