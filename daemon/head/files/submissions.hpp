// The data of a run beside its record: the hash of its code archive and whether it may resume from any user's files
// (two settings), and the values of its secrets (a file for the owner alone, removed at the run's end).
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
    // Reads the settings, from which orders are made later: no order waits for the disk.
    void recall(const state::SqliteJournal& journal);

    // Counts the existing data for their users; the runs are known by name.
    void count(const state::SqliteJournal& journal);

    struct Files {
        std::string user, code_sha256, secrets_json;
        std::string lines_json;     // the lines of the fields in the job's file; empty: unknown
        bool for_any_user = false;  // an admin submitted it
    };
    Status save(const std::string& key, const Files& files);  // the settings become durable with the run itself
    std::string code(const std::string& key) const;           // empty: it has none
    bool any_user(const std::string& key) const;
    std::map<std::string, std::string> secrets(const Run& run) const;
    void forget_secrets(const Run& run);
    void forget_setting(const std::string& setting);  // forgets a setting of a run that was removed

  private:
    std::string secrets_path(const std::string& key) const;
    void count_setting(const std::string& user, const std::string& setting, const std::string& value);
    void count_secrets(const std::string& user, const std::string& key, std::uintmax_t bytes);

    const HeadOptions& options_;
    const View& view_;
    const Intake events_;
    UserBytes& bytes_;
    std::map<std::string, std::string> settings_;  // "code/<key>" and "any_user/<key>"
};

}  // namespace rtrain::head
