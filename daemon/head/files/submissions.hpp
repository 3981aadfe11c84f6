// The data of a run that is not in its record: the hash of its code archive, whether it may resume from any user's
// files (both are settings), and the values of its secrets (a file that only the head can read, removed at the run's
// end).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/head/base/options.hpp"
#include "daemon/head/loop/intake.hpp"
#include "daemon/head/view/view.hpp"

namespace rtrain::head {

class Submissions {
  public:
    Submissions(const HeadOptions& options, const View& view, Intake events, UserBytes& bytes)
        : options_(options), view_(view), events_(events), bytes_(bytes) {}
    // Loads the settings into memory. Orders are made from them, so that no order waits for the disk.
    void recall(const state::SqliteJournal& journal);

    // Counts the existing data for the users of the runs. Requires that the runs are known by name.
    void count(const state::SqliteJournal& journal);

    struct Files {
        std::string user, code_sha256, secrets_json;
        std::string lines_json;     // line numbers of the fields in the job's file, as JSON; empty: unknown
        bool for_any_user = false;  // true: an admin submitted the run, so it may resume from any user's files
    };
    // stores the data; the settings become durable together with the run's record
    Status save(const std::string& key, const Files& files);
    std::string code(const std::string& key) const;  // hash of the code archive; empty: the run has none
    bool any_user(const std::string& key) const;
    std::map<std::string, std::string> secrets(const Run& run) const;
    void forget_secrets(const Run& run);
    void forget_setting(const std::string& setting);  // removes a setting of a run that was removed

  private:
    std::string secrets_path(const std::string& key) const;
    void count_setting(const std::string& user, const std::string& setting, const std::string& value);
    void count_secrets(const std::string& user, const std::string& key, std::uintmax_t bytes);

    const HeadOptions& options_;
    const View& view_;
    const Intake events_;
    UserBytes& bytes_;
    std::map<std::string, std::string> settings_;  // keys: "code/<key>" and "any_user/<key>"
};

}  // namespace rtrain::head
