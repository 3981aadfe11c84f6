// Moves the files in the staging directories of workers to the run's directory. Workers may be other users, and may
// write there until the files are gone. So all access uses their rights, and a link that leads out of such a directory
// is an error.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/agent/preparation/preparation.hpp"
#include "daemon/agent/workers/user_rights.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::agent {

struct StagedEntry {
    std::uint32_t rank = 0;
    // The staging directory, its path as the rank gave it, and the file's name below it.
    std::string stage, named, name;
    std::int64_t bytes = 0;
    bool link = false;      // a link to a file of the same directory, whose content is copied
    bool in_place = false;  // the file is in its place in the run's directory
    std::string local() const { return stage + "/" + name; }
};

// Returns true if this agent, or an earlier one, made the directory for this rank of this attempt.
bool is_stage_of(const AttemptContext& context, std::uint32_t rank, const std::string& path);

class StagedFiles {
  public:
    explicit StagedFiles(const AttemptContext& context) : context_(context), rights_(context.user) {}
    // Returns the directory of the run into which a rank has stored its files itself, by the rank's note; empty without
    // a note. Fails if two notes differ.
    Result<std::string> in_place(const StagedPaths& staged) const;
    // Returns every file name, with its lowest rank. Fails for a file that the worker's user may not read, and for a
    // link that leads out of the staging directory.
    Result<std::map<std::string, StagedEntry>> list(const StagedPaths& staged) const;
    Result<std::string> hash(const StagedEntry& entry, const storage::Progress& progress) const;
    // Moves or copies the file to `path` of the store. For a store that is not local, calls `sent` with the opened file
    // after the copy, before the staged name is removed.
    using Sent = std::function<void(const storage::Descriptor& file)>;
    Status give(const StagedEntry& entry, const std::string& path, const storage::Progress& progress = {},
                const Sent& sent = {}) const;

  private:
    Result<storage::Descriptor> open_stage(const std::string& stage) const;
    Result<storage::Descriptor> open_entry(const StagedEntry& entry) const;
    Result<storage::Place> place_of(const StagedEntry& entry) const;
    Result<bool> move_there(const StagedEntry& entry, const storage::Descriptor& opened, const std::string& path,
                            const storage::Progress& progress) const;
    Status list_rank(std::uint32_t rank, const std::string& stage, std::map<std::string, StagedEntry>& files) const;
    const AttemptContext& context_;
    UserRights rights_;
};

}  // namespace rtrain::agent
