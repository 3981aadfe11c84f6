// Where an agent keeps things on its node, and small files written whole.
//   <data>/identity/node.json   name, cluster, certificate and its key, authority (0600)
//   <data>/outbox.jsonl         news not yet acknowledged
//   <data>/peer-port            where other agents dialled last, when any port would do
//   <data>/code/<sha256>/       working directories, unpacked once; for the agent alone
//   <data>/setups/<key>/        what `setup:` commands made
//   <data>/checkpoints/<run>/   what this node has brought of the run's newest checkpoint: kept_checkpoints.hpp
//   <data>/caches/<entry>/      code that torch.compile and Triton have compiled: preparation/compile_caches.hpp
//   <data>/home/                of workers whose user id has no name and no home
//   <data>/short-directory      where links to scratch directories lie: short_names.hpp
//   <data>/attempts/<run>-<incarnation>/
//       image.json  journal/00000001.jsonl  logs/rank-00000.{out,err}  rank-00000/{started,exit,code.list,cwd/}
//   <data>/scratch/<run>-<incarnation>/   TMPDIR of its workers leads here, emptied with the attempt; with --scratch
//   DIR below
//                                         DIR/rtrain-<cluster>-<node>/, a name that no other user can take
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

struct NodeFiles {
    std::string data_dir, scratch_dir;

    std::string attempts() const { return data_dir + "/attempts"; }
    std::string attempt(AttemptKey key) const;
    std::string worker(AttemptKey key, std::uint32_t rank) const;
    std::string logs(AttemptKey key) const { return attempt(key) + "/logs"; }
    std::string log(AttemptKey key, std::uint32_t rank, const std::string& stream) const;
    std::string scratch(AttemptKey key) const;
    std::string code(const std::string& sha256) const { return data_dir + "/code/" + sha256; }
    // The checkpoint from which the attempt starts.
    std::string restored(AttemptKey key) const { return attempt(key) + "/restore"; }
    std::string checkpoints() const { return data_dir + "/checkpoints"; }
    std::string revoked() const { return data_dir + "/revoked"; }
    // Metrics that are not in the run's journal yet.
    std::string journal(AttemptKey key) const { return attempt(key) + "/journal"; }
    std::string pending_delivery(AttemptKey key) const {
        return attempt(key) + "/undelivered";
    }  // the time since which metrics or logs are undelivered
    std::string spool(AttemptKey key) const { return attempt(key) + "/spool"; }
    std::string driver(AttemptKey key) const { return attempt(key) + "/driver.pkl"; }  // the user's copy of the loop
};

std::string rank_text(std::uint32_t rank);  // "rank-00003"

enum class Durable { yes, no };  // no: the file survives the end of this process, but not a crash of the machine
Status write_whole(const std::string& path, const std::string& bytes, std::uint32_t mode, Durable durable);
Result<std::string> read_whole(const std::string& path);
Status make_directory(const std::string& path, std::uint32_t mode);  // makes parents too
// Removes the tree at `path`. An agent of root removes a user's directories with the user's rights, and uses root's own
// only for the rest. Follows no link. Logs a warning for anything that remains.
void remove_tree(const std::string& path);
// Removes the other entries of the directory.
void remove_all_but(const std::string& directory, const std::string& name);
// Reads lines "name value"; empty if the file is missing.
std::map<std::string, std::string> read_values(const std::string& path);

// Returns the attempts from before a restart. An unreadable one is added to `damaged` and not changed.
std::string encode(const SavedAttempt& saved);
Result<SavedAttempt> decode_saved_attempt(const std::string& text);
inline constexpr const char* live_attempt_file = "image.json";
inline constexpr const char* ended_attempt_file = "ended.json";  // no process is left, but the head may lack some logs
std::vector<SavedAttempt> kept_attempts(const NodeFiles& files, const std::string& file_name,
                                        std::vector<std::string>& damaged);

// News on disk, one line each, appended before they are sent. The file is rewritten when most of it is acknowledged.
// There is no fsync: after a power loss the node has no workers to report about.
class Outbox {
  public:
    static Result<Outbox> open(const std::string& path);
    Outbox(Outbox&&) noexcept;
    Outbox& operator=(Outbox&&) = delete;
    ~Outbox();
    std::map<std::uint64_t, protocol::News> kept() const;  // parsed from the lines
    std::uint64_t next() const { return next_; }
    Status keep(const protocol::News& news);  // on an error the news are in memory alone until `mend` succeeds
    Status drop(std::uint64_t up_to);
    Status mend();  // does nothing if all news are on disk
    bool torn() const { return torn_; }

  private:
    explicit Outbox(std::string path) : path_(std::move(path)) {}
    Status rewrite();
    std::string path_;
    int descriptor_ = -1;
    std::map<std::uint64_t, std::string> kept_;  // lines
    std::uint64_t next_ = 1;
    std::size_t dropped_ = 0;
    bool torn_ = false;  // the last line may be incomplete after a full disk, so the next write rewrites the file
};

}  // namespace rtrain::agent
