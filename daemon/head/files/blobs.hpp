// Blobs (code archives, drivers' files for their workers): the users who may use them, and the removal of unused ones.
// An ended run has its code beside its checkpoints. So the head's copy of code serves only runs that may still start an
// attempt. Other blobs are kept while a run that names them is recorded. Settings of removed runs are removed with
// them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/head/files/submissions.hpp"
#include "daemon/net/loop/background.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

// key of the setting which says that this user has uploaded that blob
std::string blob_setting(const std::string& sha256, const std::string& user);
// Counts the blob for the user. It counts for every user who has uploaded it.
void count_blob(UserBytes& bytes, const HeadOptions& options, const std::string& sha256, const std::string& user);

class Blobs {
  public:
    struct Uses {
        net::Background background;
        Intake events;
        // runs a task on the thread that commits, after all earlier commits
        std::function<void(std::function<void()>)> behind_commits;
        const View& view;
        const HeadOptions& options;
        state::SqliteJournal& journal;
        Submissions& submissions;
        UserBytes& bytes;
    };
    explicit Blobs(Uses uses) : uses_(std::move(uses)) {}

    // Done once in a database of an earlier version, which has no record of who uploaded a blob: gives each blob to the
    // users whose runs name it.
    Status recall_users();
    void count();  // counts the existing blobs for each user who has uploaded them
    // Lets an admin's run, and therefore its workers, use a blob that another user has uploaded.
    void let_use(const std::string& job_json, const std::string& code_sha256, const std::string& user);
    void collect();  // finds blobs that no run needs, on the pool, and removes them

  private:
    struct Naming;
    struct Unneeded;
    static Unneeded unneeded(const std::vector<Naming>& runs, const state::SqliteJournal& journal,
                             const std::string& blobs);
    void keep_what_came(Unneeded& garbage) const;
    void remove_unneeded(Unneeded garbage);

    const Uses uses_;
};

}  // namespace rtrain::head
