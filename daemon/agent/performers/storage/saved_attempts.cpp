#include "daemon/agent/performers/storage/saved_attempts.hpp"

#include <cstdio>
#include <string>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/workers/environment.hpp"

namespace rtrain::agent {

void SavedAttempts::save(const KeepAttempt& out) {
    const AttemptKey key = key_of(out.saved.prepare.attempt);
    if (LiveAttempt* attempt = attempts_.change(key)) attempt->number = out.saved.number;
    const std::string path = node_.files.attempt(key) + "/" + live_attempt_file;
    if (Status kept = write_whole(path, encode(out.saved), 0600, Durable::no); !kept)
        warn("attempt " + attempt_text(out.saved.prepare, out.saved.number) +
             " would not be adopted after a restart: " + kept.error().message);
}

void SavedAttempts::mark_ended(AttemptKey key) {
    const std::string folder = node_.files.attempt(key);
    ::rename((folder + "/" + live_attempt_file).c_str(), (folder + "/" + ended_attempt_file).c_str());
}

}  // namespace rtrain::agent
