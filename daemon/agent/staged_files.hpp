// What workers leave in the directories that this agent made for them, on its way into the run's directory. Workers may
// be users of their own and write there until the files are gone: nothing here reads, moves or removes what they name
// elsewhere.
#pragma once

#include <map>
#include <string>

#include "daemon/agent/preparation.hpp"
#include "daemon/agent/user_rights.hpp"

namespace rtrain::agent {

struct StagedEntry {
    std::uint32_t rank = 0;
    std::string stage, name;  // the directory, and the file's name below it
    std::int64_t bytes = 0;
    bool link = false;  // its content is copied
    std::string local() const { return stage + "/" + name; }
};

// Did this agent, or one before it, make the directory for this rank of this attempt?
bool is_stage_of(const AttemptGear& gear, std::uint32_t rank, const std::string& path);

class StagedFiles {
  public:
    explicit StagedFiles(const AttemptGear& gear) : gear_(gear), rights_(gear.user) {}
    // Where ranks have put files into the run's directory themselves: it is renamed into what they staged, a note of
    // it.
    Status take_over(const StagedPaths& staged) const;
    // Every name once, with its lowest rank. A file that the worker's user may not read is an error.
    Result<std::map<std::string, StagedEntry>> list(const StagedPaths& staged) const;
    Result<std::string> hash(const StagedEntry& entry, const storage::Progress& progress) const;
    // Moved or copied to `path` of the store.
    Status give(const StagedEntry& entry, const std::string& path, const storage::Progress& progress = {}) const;

  private:
    Status list_rank(std::uint32_t rank, const std::string& stage, std::map<std::string, StagedEntry>& files) const;
    const AttemptGear& gear_;
    UserRights rights_;
};

}  // namespace rtrain::agent
