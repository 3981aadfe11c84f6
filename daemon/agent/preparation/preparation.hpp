// Prepares a node for an attempt: reads the spec, finds the user, probes the storage, unpacks the code, reaches the
// peers. On rank 0's node also the claim and the rendezvous port. Blocks; runs on the pool in steps, since nodes wait
// for each other.
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

// The facts about an attempt outside of the machine's state. The loop and the pool share it. It is not changed after it
// was passed on.
struct AttemptContext {
    protocol::Prepare prepare;
    spec::Job job;
    StoragePlace place;
    std::shared_ptr<storage::Store> store;
    WorkerUser user;
    std::string working_dir;           // the unpacked code; empty without code
    std::string driver_file;           // the pickled loop of a Python run; empty without one
    std::string staging;               // folder of the ranks' staging directories
    std::string spool;                 // the same on the node's own disk, used if the storage path has no room
    std::string kept;                  // <data>/checkpoints: kept_checkpoints.hpp
    std::string key;                   // RTRAIN_WORKER_KEY
    std::optional<SetupResult> setup;  // the result of `setup:`
};
using Context = std::shared_ptr<const AttemptContext>;

struct NodeFacts {  // the facts of this agent for the pool
    NodeFiles files;
    std::string node;
    bool may_run_as_root = false, allow_setuid = false;
    std::map<std::string, std::string> inherited;  // the agent's environment
    net::Endpoint head;
    std::shared_ptr<storage::Store> on_head;  // the store of cluster://
    std::string storage_rules{};              // the file of storage rules; empty without one
};

struct Trouble {
    std::string why;
    bool permanent = false;
};
template <class T>
using Try = std::variant<T, Trouble>;

// Whether the storage path is probed. An attempt that was prepared before a restart gets its context without a probe.
enum class Probing { yes, no };
Try<Context> make_context(const NodeFacts& facts, const protocol::Prepare& prepare, Probing probing);
// Returns the context that is needed to deliver the logs and metrics of an ended attempt.
Try<Context> context_of_ended(const NodeFacts& facts, const protocol::Prepare& prepare);
SetupOrder setup_order(const AttemptContext& context, const NodeFacts& facts);
Context with_setup(const AttemptContext& context, const SetupResult& done);

// Nodes of one attempt must see each other's probe files; otherwise their storage path is not shared. A node whose file
// is missing may be late, so it is first asked whether it has written its file.
struct ProbeWait {
    std::int64_t since_ms = 0;                   // when this node's own file was written
    std::int64_t looked_ms = 0, request_ms = 0;  // time of the last look; time of the next request to the missing node
    std::string missing{};                       // the first node whose file was not seen; empty if all were
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

// Opens the store. A directory is accessed with the rights of `user` (user_store.hpp), a bucket with the credentials of
// `access`.
Result<std::shared_ptr<storage::Store>> open_store(const NodeFacts& facts, const StoragePlace& place,
                                                   const WorkerUser& user, const protocol::StorageAccess& access,
                                                   storage::Root look = storage::Root::seen);
// Returns the user whose rights an order about a run's files uses. Fails if root's agent gets no user, or one that this
// machine lacks.
Result<WorkerUser> user_of_order(const NodeFacts& facts, const std::string& storage_path, const std::string& user);
// Opens the store of a run, if the storage rules allow the path.
Result<std::shared_ptr<storage::Store>> open_store_of_run(const NodeFacts& facts, const std::string& storage_path,
                                                          const std::string& user,
                                                          const protocol::StorageAccess& access);
// Returns the directory, below the storage path, for ranks' directories and nodes' probe files. For local stores.
std::string staging_in_store(const protocol::Prepare& prepare);
std::string staging_below(const AttemptContext& context, const NodeFacts& facts);  // removed with the attempt as well

}  // namespace rtrain::agent
