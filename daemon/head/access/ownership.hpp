// Decides who may resume from a run's directory, remove it, or read it below cluster://.
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

    // The users of the runs that are recorded at this place, and whom run.json names where the head keeps the
    // directory. Empty: nothing is known to be there.
    std::set<std::string> users_at(const std::string& run_name, const std::string& storage_path) const;

    // Refuses (unauthorised) what is done with the directory of a run that belongs to somebody else, or that several
    // users have shared. An admin may. Directories that only agents see are judged by the agent, from run.json.
    Status may_use_directory(const Caller& caller, const std::string& run_name, const std::string& storage_path) const;

    // Returns whether this person has sent the blob himself, or is an admin. Who only knows a hash learns nothing by
    // it. What an admin submits may name anybody's.
    bool has_blob(const Caller& caller, const std::string& sha256) const;

    // Returns whether this person may read `path` below cluster://: the run's user and admins may. Also true for what
    // is not there.
    bool may_read_stored(const Caller& caller, const std::string& path) const;

  private:
    // The user that cluster://<run name>/run.json names, read without following a link. None: there is no such
    // directory. Empty: the directory is there, and nobody can be made out as its user.
    std::optional<std::string> user_on_disk(const std::string& run_name) const;

    const View& view_;
    const HeadOptions& options_;
    const state::SqliteJournal& journal_;
};

}  // namespace rtrain::head
