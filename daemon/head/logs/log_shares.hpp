// How much of the disk each user's logs have. A user who has more than the share loses the middle of the largest logs
// of the largest runs: the first lines and the newest ones stay, and a note says how much is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

// Bytes of logs that each user may have: an eighth of the file system.
std::uint64_t logs_of_user(const std::string& directory);

// Returns the bytes on disk of a run's logs and of their indexes. Parts that were cut count nothing.
std::uint64_t logs_bytes(const std::string& directory, RunId run);

// For the thread that writes logs.
class LogShares {
  public:
    using ShareOfUser = std::function<std::uint64_t(const std::string& directory)>;
    LogShares(std::string directory, ShareOfUser share) : directory_(std::move(directory)), share_(std::move(share)) {}
    // `bytes` came to a log of the user's run. The user's logs are within the share afterwards.
    void came(const std::string& user, RunId run, std::uint64_t bytes);
    void gone(RunId run);  // its logs were removed
    // Returns the bytes of each run whose logs changed since the last call.
    std::map<RunId, std::uint64_t> changed_sizes() { return std::exchange(changed_, {}); }

  private:
    struct Owner {
        std::map<RunId, std::uint64_t> runs{};  // bytes of each
        std::uint64_t bytes = 0;                // of all
    };
    void find_owners();
    void hold(const std::string& user);
    std::uint64_t hold_run(RunId run, std::uint64_t most);

    std::string directory_;
    ShareOfUser share_;
    std::map<RunId, std::uint64_t> changed_;
    std::optional<std::map<std::string, Owner>> owners_;  // once they were looked for
};

}  // namespace rtrain::head
