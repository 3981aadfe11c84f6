// What a run needs beside its record: the hash of its code archive and whether it may go on from anybody's files (two
// settings), and its secrets' values (a file of the owner alone, gone when the run ends).
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

    void count(const state::SqliteJournal& journal);  // what is there, for its users; the runs are known by name

    struct Files {
        std::string user, code_sha256, secrets_json;
        std::string lines_json;     // where the fields of the job's file stand; empty: not told
        bool for_any_user = false;  // an admin submitted it
    };
    Status save(const std::string& key, const Files& files);  // the settings are durable with the run itself
    std::string code(const std::string& key) const;           // empty: it has none
    bool any_user(const std::string& key) const;
    std::map<std::string, std::string> secrets(const Run& run) const;
    void forget_secrets(const Run& run);
    void forget_setting(const std::string& setting);  // of a run that was removed

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
