// Decides which users may resume from a run's directory, remove it, or read it below cluster://.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/view/view.hpp"

namespace rtrain::head {

class Ownership {
  public:
    Ownership(const View& view, const HeadOptions& options, const state::SqliteJournal& journal)
        : view_(view), options_(options), journal_(journal) {}

    // Returns the users of the runs recorded at this place, and the user in run.json if the head stores the directory.
    // Empty: none is recorded.
    std::set<std::string> users_at(const std::string& run_name, const std::string& storage_path) const;

    // Returns unauthorised for a directory of another user's run, or of one that several users have shared. An admin is
    // allowed. The agent checks directories that only agents can read, by run.json.
    Status may_use_directory(const Caller& caller, const std::string& run_name, const std::string& storage_path) const;

    // Returns true if this person has uploaded the blob, or is an admin. So knowing a hash alone gives no access. A job
    // that an admin submits may name any blob.
    bool has_blob(const Caller& caller, const std::string& sha256) const;

    // Returns true if this person may read `path` below cluster://: the run's user and admins may. Also true for a path
    // that does not exist.
    bool may_read_stored(const Caller& caller, const std::string& path) const;

  private:
    // Returns the user in cluster://<run name>/run.json, read without following a link. Returns nullopt if there is no
    // such directory, and an empty name if its user cannot be determined.
    std::optional<std::string> user_on_disk(const std::string& run_name) const;

    const View& view_;
    const HeadOptions& options_;
    const state::SqliteJournal& journal_;
};

}  // namespace rtrain::head
