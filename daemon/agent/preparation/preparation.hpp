// Makes a node ready for an attempt: spec read, user found, storage probed, code unpacked, peers reached; on rank 0's
// node also the claim and the rendezvous port. Blocking: runs on the pool, in steps, since nodes wait for each other.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/peers/identity.hpp"
#include "daemon/agent/preparation/setup.hpp"
#include "daemon/agent/preparation/storage_access.hpp"
#include "daemon/agent/workers/launcher.hpp"
#include "storage/job_spec/job.hpp"
#include "storage/uri/files/store.hpp"
#include "storage/uri/open_store.hpp"

namespace rtrain::agent {

// What is known of an attempt beside the machine's state; shared between the loop and the pool, written before it is
// handed on and never after.
struct AttemptContext {
    protocol::Prepare prepare;
    spec::Job job;
    StoragePlace place;
    std::shared_ptr<storage::Store> store;
    WorkerUser user;
    std::string working_dir;           // unpacked code; empty: none
    std::string driver_file;           // the pickled loop of a Python run; empty: none
    std::string staging;               // where ranks' staged directories are made
    std::string spool;                 // the same on the node's own disk, for when the storage path has no room
    std::string kept;                  // <data>/checkpoints: kept_checkpoints.hpp
    std::string key;                   // RTRAIN_WORKER_KEY
    std::optional<SetupResult> setup;  // `setup:` carried out
};
using Context = std::shared_ptr<const AttemptContext>;

struct NodeFacts {  // of this agent, for the pool
    NodeFiles files;
    std::string node;
    bool may_run_as_root = false, allow_setuid = false;
    std::map<std::string, std::string> inherited;  // the agent's environment
    net::Endpoint head;
    std::shared_ptr<storage::Store> on_head;  // cluster://
    std::string storage_rules{};              // the file; empty: none
};

struct Trouble {
    std::string why;
    bool permanent = false;
};
template <class T>
using Try = std::variant<T, Trouble>;

// Whether the storage path is probed. An attempt that was prepared before a restart gets its context without.
enum class Probing { yes, no };
Try<Context> make_context(const NodeFacts& facts, const protocol::Prepare& prepare, Probing probing);
// Returns what the logs and metrics of an attempt that has ended need to come to its run.
Try<Context> context_of_ended(const NodeFacts& facts, const protocol::Prepare& prepare);
SetupOrder setup_order(const AttemptContext& context, const NodeFacts& facts);
Context with_setup(const AttemptContext& context, const SetupResult& done);

// Nodes of one attempt see each other's probe files, or their storage path is not shared. A node that is late is not
// taken for that: it is asked whether it has written its file at all.
struct ProbeWait {
    std::int64_t since_ms = 0;                   // this node's own is written
    std::int64_t looked_ms = 0, request_ms = 0;  // the last look; when the missing one is asked next
    std::string missing{};                       // the first node whose file was not seen; empty: all are there
    std::optional<std::int64_t> written_ms;      // since when that node is known to have written it
};
enum class ProbeVerdict { look_again, late, not_shared };
ProbeWait look_for_probes(const AttemptContext& context, const NodeFacts& facts, ProbeWait wait, std::int64_t now_ms);
ProbeVerdict verdict(const ProbeWait& wait);
Trouble trouble_of(const ProbeWait& wait, const AttemptContext& context, const std::string& node);

Try<Done> reach_peers(const NodeFacts& facts, const protocol::Prepare& prepare);
Try<Done> make_start_directories(const AttemptContext& context, const NodeFacts& facts);  // see start_directory.hpp
Try<storage::ClaimAnswer> claim(const AttemptContext& context, const NodeFacts& facts, std::int64_t wall_ms);
// Returns the newest `earlier_most` checkpoints of the earlier runs of the name, the oldest of these first.
std::vector<protocol::EarlierCheckpoint> history(const storage::ClaimAnswer& claimed, const std::string& score);

// A directory is read and written with the rights of `user` (user_store.hpp), a bucket with the credentials of
// `access`.
Result<std::shared_ptr<storage::Store>> open_store(const NodeFacts& facts, const StoragePlace& place,
                                                   const WorkerUser& user, const protocol::StorageAccess& access,
                                                   storage::Root look = storage::Root::seen);
// Returns the user with whose rights an order about a run's files is carried out. An Error where root's agent is told
// of none, or of one that this machine does not have.
Result<WorkerUser> user_of_order(const NodeFacts& facts, const std::string& storage_path, const std::string& user);
// The store of a run at a path that the storage rules allow to it.
Result<std::shared_ptr<storage::Store>> open_store_of_run(const NodeFacts& facts, const std::string& storage_path,
                                                          const std::string& user,
                                                          const protocol::StorageAccess& access);
// Returns the path, below the storage path, where ranks' directories are made and nodes leave their probes. Local
// stores.
std::string staging_in_store(const protocol::Prepare& prepare);
std::string staging_below(const AttemptContext& context, const NodeFacts& facts);  // also removed with the attempt

}  // namespace rtrain::agent
