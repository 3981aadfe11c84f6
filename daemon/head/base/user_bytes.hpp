// Counts the bytes that the head stores for each user, and limits them. The counts are computed from the records and
// files at each start. The loop changes them. Threads that receive uploads may read them, and count their own.
// Invariant: the sum of a user = the sum of the user's parts, by kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain::head {

// The kinds of stored data. The kind `submissions` is the secrets of a submission, and the settings that belong to its
// runs.
enum class Kept {
    runs,
    attempts,
    checkpoints,
    submissions,
    events,
    reports,
    audit,
    values,
    archives,
    uploads,
    logs,
    stored
};
inline constexpr int kept_kinds = 12;
const char* to_text(Kept kind);

struct KeptBytes {
    std::int64_t memory = 0, database = 0, files = 0;
    std::int64_t storage = 0;  // bytes of files below the storage root (cluster://), which may be on another disk
    KeptBytes& operator+=(const KeptBytes& more);
    KeptBytes operator-() const { return {-memory, -database, -files, -storage}; }
    bool operator==(const KeptBytes&) const = default;
};

class UserBytes {
  public:
    explicit UserBytes(KeptBytes limit) : limit_(limit) {}

    // ---- limits
    void limit_all(KeptBytes limit);  // sets the limit of users without a limit of their own
    // sets the user's own limit; nullopt: the common limit holds
    void limit(const std::string& user, const std::optional<KeptBytes>& own);
    KeptBytes limit_of(const std::string& user) const;
    // Sets the reasons why no user's files, and no user's rows, are accepted, while only the disk's reserve is left.
    // nullopt: they are accepted.
    void no_room(std::optional<Error> for_files, std::optional<Error> for_rows);
    bool scarce_for_files() const;
    bool scarce_for_rows() const;
    bool scarce() const { return scarce_for_files() || scarce_for_rows(); }

    // ---- bytes of a run; `forget` removes all of them. `part` distinguishes several of one kind.
    void begin(RunId run, const std::string& user);
    // replaces the earlier value of this run, kind and part
    void put(RunId run, Kept kind, KeptBytes now, std::uint64_t part = 0);
    void add(RunId run, Kept kind, KeptBytes more);
    void forget(RunId run);
    std::string user_of(RunId run) const;  // empty if the run is unknown

    // ---- data of a user beside the runs
    void put(const std::string& user, Kept kind, const std::string& name, KeptBytes now);
    void add(const std::string& user, Kept kind, KeptBytes more);
    void forget(Kept kind, const std::string& name);  // removes the entry for every user
    void clear(Kept kind);  // removes the kind for every user, as far as it was added without a run

    // ---- queries
    // Returns `full` if the user would exceed a limit by so much more, or if only the disk's reserve is left. The error
    // names the user, the kind, the stored bytes, the limit, and a remedy.
    Status may_add(const std::string& user, Kept kind, const KeptBytes& more) const;
    // Checks only the user's limits, not the space on the disk.
    Status within_limit(const std::string& user, Kept kind, const KeptBytes& more) const;
    // Like may_add, and also counts the bytes at once, so that no other thread uses the same space. To undo it, call
    // `add` with the negative value.
    Status reserve(const std::string& user, Kept kind, const KeptBytes& more);
    Status may_add(RunId run, Kept kind, const KeptBytes& more) const { return may_add(user_of(run), kind, more); }
    struct Account {
        std::map<Kept, KeptBytes> kinds;  // bytes of each kind; contains no entry whose bytes are all 0
        KeptBytes sum;
    };
    Account of(const std::string& user) const;
    std::map<std::string, Account> all() const;
    std::map<std::string, KeptBytes> own_limits() const;

    // ---- streams: answers that go on, such as followed logs
    void limit_streams_of_all(std::size_t most);  // sets the limit of users without a limit of their own
    // sets the user's own limit; nullopt: the common limit holds
    void limit_streams(const std::string& user, std::optional<std::size_t> own);
    std::size_t streams_limit_of(const std::string& user) const;
    std::optional<std::size_t> own_streams_limit(const std::string& user) const;
    // Opens a stream of the user. The stream counts as open while the result exists. Returns null if the user is at the
    // limit.
    std::shared_ptr<const void> open_stream(const std::string& user);
    std::size_t streams_of(const std::string& user) const;

  private:
    using Parts = std::map<std::pair<Kept, std::uint64_t>, KeptBytes>;
    struct OfRun {
        std::string user;
        Parts parts;
    };
    // The functions below require `guard_`.
    void count(const std::string& user, Kept kind, const KeptBytes& more);
    Status room_for(const std::string& user, Kept kind, const KeptBytes& more) const;
    Status compare(const std::string& user, Kept kind, const KeptBytes& more) const;

    mutable std::mutex guard_;
    KeptBytes limit_;
    std::optional<Error> no_room_for_files_, no_room_for_rows_;
    std::map<std::string, KeptBytes> own_limits_;
    std::size_t streams_limit_ = ~std::size_t{0};
    std::map<std::string, std::size_t> own_streams_limits_;
    std::map<std::string, Account> accounts_;
    std::map<RunId, OfRun> runs_;
    // key: kind and name of the data; value: bytes by user
    std::map<std::pair<Kept, std::string>, std::map<std::string, KeptBytes>> named_;
    std::map<std::pair<Kept, std::string>, KeptBytes> beside_;  // key: kind and user
    // key: the user; value: number of open streams
    std::map<std::string, std::shared_ptr<std::atomic<std::size_t>>> streams_;
};

}  // namespace rtrain::head
