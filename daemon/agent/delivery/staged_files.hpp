// What workers leave in the directories that this agent made for them, on its way into the run's directory. Workers may
// be users of their own and write there until the files are gone: all is done with their rights, and a link that leads
// out of such a directory is refused by name.
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
    std::string stage, named, name;  // the directory, what its rank calls it, and the file's name below it
    std::int64_t bytes = 0;
    bool link = false;      // to a file of the same directory: its content is copied
    bool in_place = false;  // it lies where it belongs, in the run's directory
    std::string local() const { return stage + "/" + name; }
};

// Did this agent, or one before it, make the directory for this rank of this attempt?
bool is_stage_of(const AttemptContext& context, std::uint32_t rank, const std::string& path);

class StagedFiles {
  public:
    explicit StagedFiles(const AttemptContext& context) : context_(context), rights_(context.user) {}
    // The directory of the run into which a rank has put its files itself, as the note that it staged says. Empty:
    // none has. An error where two name different ones.
    Result<std::string> in_place(const StagedPaths& staged) const;
    // Every name once, with its lowest rank. A file that the worker's user may not read is an error, and so is a link
    // that leads out of the staged directory.
    Result<std::map<std::string, StagedEntry>> list(const StagedPaths& staged) const;
    Result<std::string> hash(const StagedEntry& entry, const storage::Progress& progress) const;
    // Moved or copied to `path` of the store. `sent` gets the opened file once it is on a store that is not local,
    // before its staged name goes.
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
