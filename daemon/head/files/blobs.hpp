// Blobs (code archives, what drivers hand to their workers): who may use them, and which nobody needs any more.
// A run that has ended keeps its code beside its checkpoints, so the head's copy of it serves only runs that may still
// start an attempt; other blobs are kept as long as a run that names them is known here. Settings of runs that are gone
// go with them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/head/files/submissions.hpp"
#include "daemon/net/loop/background.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

std::string blob_setting(const std::string& sha256, const std::string& user);  // this user has sent that blob
// The blob counts for every user who has sent it.
void count_blob(UserBytes& bytes, const HeadOptions& options, const std::string& sha256, const std::string& user);

class Blobs {
  public:
    struct Uses {
        net::Background background;
        Intake events;
        std::function<void(std::function<void()>)> behind_commits;  // on the thread of the commits, in order
        const View& view;
        const HeadOptions& options;
        state::SqliteJournal& journal;
        Submissions& submissions;
        UserBytes& bytes;
    };
    explicit Blobs(Uses uses) : uses_(std::move(uses)) {}

    // Records the users of blobs from before that was remembered, once in a database: the users whose runs name them.
    Status recall_users();
    void count();  // those that are there, for each user who has sent them
    // An admin's runs may use what others have sent; so may their workers.
    void let_use(const std::string& job_json, const std::string& code_sha256, const std::string& user);
    void collect();  // looks for what no run needs, on the pool, and removes it

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
