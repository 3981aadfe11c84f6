// What a run needs beside its record: the hash of its code archive and whether it may go on from anybody's files (two
// settings), and its secrets' values (a file of the owner alone, gone when the run ends).
#pragma once

#include <map>
#include <string>

#include "daemon/head/base/options.hpp"
#include "daemon/head/loop/intake.hpp"
#include "daemon/head/view/view.hpp"

namespace rtrain::head {

class Submissions {
  public:
    Submissions(const HeadOptions& options, const View& view, Intake events)
        : options_(options), view_(view), events_(events) {}
    // Reads the settings, from which orders are made later: no order waits for the disk.
    void recall(const state::SqliteJournal& journal);

    struct Files {
        std::string code_sha256, secrets_json;
        bool for_any_user = false;  // an admin submitted it
    };
    Status save(const std::string& key, const Files& files);  // the settings are durable with the run itself
    std::string code(const std::string& key) const;           // empty: it has none
    bool any_user(const std::string& key) const;
    std::map<std::string, std::string> secrets(const Run& run) const;
    void forget_secrets(const Run& run) const;
    void forget_setting(const std::string& setting) { settings_.erase(setting); }  // of a run that was removed

  private:
    std::string secrets_path(const std::string& key) const;

    const HeadOptions& options_;
    const View& view_;
    const Intake events_;
    std::map<std::string, std::string> settings_;  // "code/<key>" and "any_user/<key>"
};

}  // namespace rtrain::head
