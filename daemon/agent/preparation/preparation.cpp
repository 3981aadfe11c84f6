// The steps of a preparation, the cheapest first.
#include "daemon/agent/preparation/preparation.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hex.hpp"
#include "base/json_text.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/kept_checkpoints.hpp"
#include "daemon/agent/preparation/handing_over.hpp"
#include "daemon/agent/preparation/key_locks.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/preparation/storage_access.hpp"
#include "daemon/agent/preparation/unused.hpp"
#include "daemon/agent/preparation/user_store.hpp"
#include "daemon/protocol/metric_numbers.hpp"
#include "daemon/security/security.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using storage::Store;

constexpr std::int64_t request_after_ms = 2'000, request_every_ms = 1'000, answer_patience_ms = 2'000,
                       unseen_patience_ms = 15'000, late_patience_ms = 60'000;
constexpr const char* driver_variable = "RTRAIN_DRIVER_SHA256";  // the Python driver sets it in the job's env

// Classifies an error. A storage that does not answer or is full may recover before the next attempt. The user must fix
// other errors.
Trouble trouble(const Error& error, const std::string& node, const std::string& doing) {
    const bool passing =
        error.code == ErrorCode::full || error.code == ErrorCode::unreachable || error.code == ErrorCode::timed_out;
    return {node + ": " + doing + ": " + error.message + (error.next.empty() ? "" : "; " + error.next), !passing};
}

Try<WorkerUser> user_of(const NodeFacts& facts, const std::string& name) {
    if (::geteuid() != 0) return WorkerUser{};
    std::vector<char> space(16'384);
    passwd entry{};
    passwd* account = nullptr;
    ::getpwnam_r(name.c_str(), &entry, space.data(), space.size(), &account);
    if (account && account->pw_uid != 0)
        return WorkerUser{.uid = account->pw_uid,
                          .gid = account->pw_gid,
                          .name = name,
                          .home = account->pw_dir,
                          .groups = storage::groups_of(name, account->pw_gid)};
    if (facts.may_run_as_root) return WorkerUser{};
    const std::string why = account ? "workers of user '" + name + "' would run as root"
                                    : "there is no user '" + name + "' on this machine";
    return Trouble{facts.node + ": " + why +
                       "; create the account, submit as a user who has one (rtrain token create --user NAME), or start "
                       "the agent with --allow-root-workers",
                   true};
}

KeyLocks code_locks;  // key: the archive's hash; concurrent attempts fetch an archive once

// Returns true if the code is present, and marks it as used so that it is not removed meanwhile.
bool is_there_and_used(const std::string& path) {
    const std::lock_guard lock(code_mutex);
    std::error_code unseen;
    if (!fs::exists(path, unseen)) return false;
    used_now(path);
    return true;
}

// Downloads the code archive from the head unless it is present. The caller holds the lock of its hash.
Status fetch_code(const NodeFacts& facts, const std::string& sha256, const std::string& archive) {
    std::error_code unseen;
    if (fs::exists(archive, unseen)) return Done{};
    const std::string aside = archive + ".new";
    auto answer = net::Client(facts.head).call({.target = "/v1/blobs/" + sha256, .save_to = aside});
    if (!answer) return answer.error();
    if (answer->status != 200)
        return Error{ErrorCode::io,
                     "the head has no code " + sha256 + " (status " + std::to_string(answer->status) + ")",
                     "submit the run again"};
    auto hash = storage::hash_file(aside);
    if (!hash) return hash.error();
    if (*hash != sha256)
        return Error{ErrorCode::damaged, "the code archive is damaged: its hash is " + *hash, "submit the run again"};
    if (::rename(aside.c_str(), archive.c_str()) != 0)
        return Error{ErrorCode::io, "keeping " + archive + ": " + std::strerror(errno), ""};
    return Done{};
}

Result<std::string> unpacked_code(const NodeFacts& facts, const std::string& sha256) {
    if (sha256.empty()) return std::string{};
    if (!storage::is_hex(sha256)) return Error{ErrorCode::invalid, "'" + sha256 + "' is not a hash", ""};
    const auto held = code_locks.hold(sha256);
    const std::string place = facts.files.code(sha256);
    if (is_there_and_used(place)) return place;
    if (Status status = make_directory(facts.files.data_dir + "/code", 0700); !status) return status.error();
    const std::string archive = place + ".tar.zst";
    is_there_and_used(archive);
    if (Status fetched = fetch_code(facts, sha256, archive); !fetched) return fetched.error();
    if (Status unpacked = spec::unpack_archive(archive, place, seal_code); !unpacked) return unpacked.error();
    return place;
}

std::string probes_in_store(const AttemptContext& context) { return staging_in_store(context.prepare) + "/nodes"; }

bool shared_path(const AttemptContext& context) { return context.store->local() && context.prepare.nodes.size() > 1; }

// Returns a node whose probe file is missing. Lists the directory instead of opening the name, since an NFS client
// caches missing names with the directory, but reads the directory anew when it is opened.
std::string missing_probe(const AttemptContext& context) {
    std::set<std::string> there;
    if (const auto probes = context.store->list(probes_in_store(context)))
        for (const storage::StoreEntry& probe : *probes) there.insert(fs::path(probe.path).filename().string());
    for (const protocol::PeerNode& peer : context.prepare.nodes)
        if (!there.contains(peer.node)) return peer.node;
    return {};
}

net::Endpoint endpoint_of(const NodeFacts& facts, const protocol::PeerNode& peer) {
    net::Endpoint endpoint = facts.head;
    endpoint.host = peer.address;
    endpoint.port = peer.port;
    endpoint.expected_name = "node:" + peer.node;
    return endpoint;
}

// Returns true if the node has written its probe file. An older agent does not report that; it counts as written, since
// it has had the time.
bool has_written(const NodeFacts& facts, const protocol::Prepare& prepare, const std::string& node) {
    for (const protocol::PeerNode& peer : prepare.nodes) {
        if (peer.node != node) continue;
        net::Endpoint endpoint = endpoint_of(facts, peer);
        endpoint.connect_timeout_ms = endpoint.answer_timeout_ms = answer_patience_ms;
        const auto answer =
            net::Client(endpoint).call({.target = "/v1/probe?run=" + std::to_string(prepare.attempt.run) +
                                                  "&incarnation=" + std::to_string(prepare.attempt.incarnation)});
        if (!answer || answer->status != 200) return false;
        const auto reply = parse_json(answer->body);
        return reply.is_object() && reply.value("probed", true);
    }
    return false;
}

Try<Done> probe_storage(const NodeFacts& facts, const AttemptContext& context) {
    const std::string path = context.prepare.storage_path.empty() ? "cluster://" : context.prepare.storage_path;
    const std::string& run = context.prepare.run_name;
    // An existing run may lie in a directory in which its user cannot make others.
    const auto there = context.store->local() ? context.store->get(run + "/run.json") : Result<std::string>(Error{});
    Status fine = storage::probe(*context.store, run + "-" + facts.node, there ? run : "");
    if (fine && shared_path(context))
        fine = context.store->put(probes_in_store(context) + "/" + facts.node, facts.node);
    if (fine) return Done{};
    if (context.user.uid < 0 || !context.store->local() || fine.error().code != ErrorCode::unauthorised)
        return trouble(fine.error(), facts.node, "storage path " + path);
    const std::string& user = context.user.name;
    return Trouble{facts.node + ": storage path " + path + ": user '" + user + "' may not write there: " +
                       fine.error().message + "; let the administrator make it writable to '" + user +
                       "', or name a storage_path that '" + user + "' may write, or leave it out (cluster://)",
                   true};
}

// Fails unless the run's user owns the directory to resume from. A run that has claimed attempts there passed before.
Status may_go_on(Store& store, const protocol::Prepare& prepare, const storage::RunHeader& header) {
    if (prepare.any_user || (header.user == prepare.user && !header.user.empty())) return Done{};
    const auto claim = storage::newest_claim(store, prepare.run_name);
    if (claim && claim->cluster_id == prepare.cluster_id && claim->run_id == prepare.run_id) return Done{};
    return Error{ErrorCode::unauthorised,
                 "the run '" + prepare.run_name + "' at " + prepare.storage_path + " is " +
                     (header.user.empty() ? "nobody's" : header.user + "'s") + ", and this one is " + prepare.user +
                     "'s",
                 "ask an admin to go on from it, or take another name"};
}

Status claim_name(Store& store, const protocol::Prepare& prepare, std::int64_t wall_ms) {
    auto header = storage::read_run(store, prepare.run_name);
    if (!header && header.error().code == ErrorCode::not_found) {
        auto created = storage::create_run(store, {.name = prepare.run_name,
                                                   .cluster_id = prepare.cluster_id,
                                                   .run_id = prepare.run_id,
                                                   .user = prepare.user,
                                                   .job_json = prepare.job_json,
                                                   .code_sha256 = prepare.code_sha256,
                                                   .wall_ms = wall_ms});
        if (!created) return created.error();
        if (*created) return Done{};
        header = storage::read_run(store, prepare.run_name);
    }
    if (!header) return header.error();
    const bool ours = header->cluster_id == prepare.cluster_id && header->run_id == prepare.run_id;
    if (ours) return Done{};
    if (prepare.resume) return may_go_on(store, prepare, *header);
    return Error{ErrorCode::conflict,
                 "a run named '" + prepare.run_name + "' exists at " + prepare.storage_path + " already",
                 "go on from it with `rtrain submit --resume`, or take another name (--new)"};
}

// Stores the working directory's archive beside the checkpoints, since a restore needs it.
Status keep_code(Store& store, const NodeFacts& facts, const protocol::Prepare& prepare) {
    if (prepare.code_sha256.empty()) return Done{};
    const std::string path = prepare.run_name + "/code/" + prepare.code_sha256 + ".tar.zst";
    auto there = store.list(prepare.run_name + "/code");
    if (there)
        for (const auto& entry : *there)
            if (entry.path == path) return Done{};
    return store.put_file(facts.files.code(prepare.code_sha256) + ".tar.zst", path, false, {});
}

constexpr std::int64_t driver_most = std::int64_t{512} << 20;  // bound on driver.pkl, which may contain the user's data

// Finds the pickled loop of a Python run: a blob of the head, or an earlier attempt's copy in the run's directory
// (after a restore on another cluster).
Result<std::string> driver_file_here(const NodeFacts& facts, Store& store, const protocol::Prepare& prepare,
                                     const std::string& sha256) {
    if (sha256.size() != 64 || !storage::is_hex(sha256))
        return Error{ErrorCode::invalid, std::string(driver_variable) + "='" + sha256 + "' is not a hash", ""};
    const auto held = code_locks.hold(sha256 + ".pkl");
    const std::string place = facts.files.code(sha256) + ".pkl";
    if (is_there_and_used(place)) return place;
    if (Status status = make_directory(facts.files.data_dir + "/code", 0700); !status) return status.error();
    const Status fetched = fetch_code(facts, sha256, place);
    if (fetched) return place;
    auto kept = store.get(prepare.run_name + "/driver.pkl", driver_most);
    if (!kept) return fetched.error();
    if (Status written = write_whole(place, *kept, 0644, Durable::no); !written) return written.error();
    auto hash = storage::hash_file(place);
    if (hash && *hash == sha256) return place;
    ::unlink(place.c_str());
    return Error{ErrorCode::damaged, "driver.pkl of '" + prepare.run_name + "' is not what the job names",
                 "run it again"};
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(const NodeFacts& facts, const StoragePlace& place, const WorkerUser& user,
                                          const protocol::StorageAccess& access, storage::Root look) {
    const auto uri = storage::parse_uri(place.path.empty() ? "cluster://" : place.path);
    if (!uri) return uri.error();
    if (uri->scheme == storage::Scheme::cluster) return facts.on_head;
    if (uri->scheme == storage::Scheme::file) return open_user_store(place.path, user, look, place.links);
    auto store = open_bucket(access, place.path);
    if (!store) return store.error();
    return std::shared_ptr<Store>(std::move(*store));
}

Result<WorkerUser> user_of_order(const NodeFacts& facts, const std::string& storage_path, const std::string& user) {
    const auto uri = storage::parse_uri(storage_path.empty() ? "cluster://" : storage_path);
    if (!uri) return uri.error();
    if (::geteuid() != 0 || uri->scheme != storage::Scheme::file) return WorkerUser{};
    if (user.empty())
        return Error{ErrorCode::unauthorised, "the head does not say whose run it is, and root removes nothing unasked",
                     "update the head to the version of its agents"};
    auto account = user_of(facts, user);
    if (const auto* why = std::get_if<Trouble>(&account)) return Error{ErrorCode::unauthorised, why->why, ""};
    return std::get<WorkerUser>(account);
}

Result<std::shared_ptr<Store>> open_store_of_run(const NodeFacts& facts, const std::string& storage_path,
                                                 const std::string& user, const protocol::StorageAccess& access) {
    const auto owner = user_of_order(facts, storage_path, user);
    if (!owner) return owner.error();
    const auto place = may_use_storage(facts.storage_rules, access, storage_path, *owner);
    if (!place) return place.error();
    return open_store(facts, *place, *owner, access);
}

std::string staging_below(const AttemptContext& context, const NodeFacts& facts) {
    const AttemptKey key = key_of(context.prepare.attempt);
    if (!context.store->local()) return facts.files.spool(key);
    return context.store->local_path(staging_in_store(context.prepare)) + "/" + facts.node;
}

std::string staging_in_store(const protocol::Prepare& prepare) {
    return prepare.run_name + "/.staging/" + std::to_string(prepare.attempt.incarnation);
}

namespace {

Try<std::shared_ptr<AttemptContext>> context_for_storage(const NodeFacts& facts, const protocol::Prepare& prepare,
                                                         Probing probing, storage::Root look) {
    auto context = std::make_shared<AttemptContext>();
    context->prepare = prepare;
    auto read = spec::job_from_json(prepare.job_json, spec::JsonFrom::record);
    if (!read.job) {
        const std::string first = read.problems.empty()
                                      ? "it cannot be read"
                                      : read.problems.front().path + ": " + read.problems.front().message;
        return Trouble{facts.node + ": the job: " + first, true};
    }
    context->job = std::move(*read.job);
    auto user = user_of(facts, prepare.user);
    if (auto* why = std::get_if<Trouble>(&user)) return *why;
    context->user = std::get<WorkerUser>(user);
    protocol::StorageAccess& access = context->prepare.access;
    access.user = prepare.user;
    access.queue = context->job.queue;
    take_kept_credentials(access, facts.files.attempt(key_of(prepare.attempt)));
    context->place = kept_place(prepare.storage_path, facts.files.attempt(key_of(prepare.attempt)));
    if (probing == Probing::yes) {
        auto may = may_use_storage(facts.storage_rules, access, prepare.storage_path, context->user);
        if (!may) return trouble(may.error(), facts.node, "storage path " + prepare.storage_path);
        context->place = std::move(*may);
    }
    auto store = open_store(facts, context->place, context->user, access, look);
    if (!store) return trouble(store.error(), facts.node, "storage path " + prepare.storage_path);
    context->store = *store;
    return context;
}

}  // namespace

Try<Context> context_of_ended(const NodeFacts& facts, const protocol::Prepare& prepare) {
    auto begun = context_for_storage(facts, prepare, Probing::no, storage::Root::seen);
    if (auto* why = std::get_if<Trouble>(&begun)) return *why;
    return Context(std::get<std::shared_ptr<AttemptContext>>(begun));
}

Try<Context> make_context(const NodeFacts& facts, const protocol::Prepare& prepare, Probing probing) {
    // Without a probe, the loop makes this call at the agent's start, and must not wait for a mount that hangs.
    const auto look = probing == Probing::yes ? storage::Root::seen : storage::Root::unseen;
    auto begun = context_for_storage(facts, prepare, probing, look);
    if (auto* why = std::get_if<Trouble>(&begun)) return *why;
    const auto context = std::get<std::shared_ptr<AttemptContext>>(begun);
    context->staging = staging_below(*context, facts);
    context->spool = facts.files.spool(key_of(prepare.attempt));
    context->kept = facts.files.checkpoints();
    if (probing == Probing::yes) {
        if (context->store->local())
            if (Status fine = hand_over_run(*context->store, prepare.run_name, context->user, prepare.user); !fine)
                return trouble(fine.error(), facts.node, "storage path " + prepare.storage_path);
        auto probed = probe_storage(facts, *context);
        if (auto* why = std::get_if<Trouble>(&probed)) return *why;
    }
    auto code = unpacked_code(facts, prepare.code_sha256);
    if (!code) return trouble(code.error(), facts.node, "the working directory");
    context->working_dir = *code;
    if (const auto driver = context->job.env.find(driver_variable); driver != context->job.env.end()) {
        auto place = driver_file_here(facts, *context->store, prepare, driver->second);
        if (!place) return trouble(place.error(), facts.node, "the pickled training function");
        context->driver_file = *place;
    }
    if (!context->job.setup.empty())
        if (const auto kept = kept_setup(setups_below(facts.files.data_dir), setup_order(*context, facts)))
            *context = *with_setup(*context, *kept);
    const AttemptKey key = key_of(prepare.attempt);
    const std::string key_file = facts.files.attempt(key) + "/key";
    if (Status status = make_directory(facts.files.attempt(key), 0711); !status)
        return trouble(status.error(), facts.node, "the attempt's directory");
    Status kept_storage = keep_place(context->place, facts.files.attempt(key));
    if (!kept_storage) return trouble(kept_storage.error(), facts.node, "the attempt's directory");
    if (Status kept = keep_credentials(context->prepare.access, facts.files.attempt(key)); !kept)
        return trouble(kept.error(), facts.node, "the attempt's directory");
    if (auto kept = read_whole(key_file)) {
        context->key = *kept;
    } else {
        context->key = security::random_hex(16);
        if (Status kept_now = write_whole(key_file, context->key, 0600, Durable::no); !kept_now)
            return trouble(kept_now.error(), facts.node, "the attempt's directory");
    }
    return Context(context);
}

SetupOrder setup_order(const AttemptContext& context, const NodeFacts& facts) {
    const protocol::Prepare& prepare = context.prepare;
    SetupOrder order{
        .attempt = key_of(prepare.attempt),
        .token_user = prepare.user,
        .command = context.job.setup,
        .interpreter = context.job.interpreter,
        .code_archive = prepare.code_sha256.empty() ? "" : facts.files.code(prepare.code_sha256) + ".tar.zst",
        .code_sha256 = prepare.code_sha256,
        .inherited = facts.inherited,
        .variables = context.job.env,
        .user = context.user,
        .allow_setuid = facts.allow_setuid,
        .log_file = ""};
    for (const protocol::PeerNode& peer : prepare.nodes)
        if (peer.node == facts.node && !peer.ranks.empty())
            order.log_file = facts.files.log(order.attempt, peer.ranks.front(), "setup");
    return order;
}

Context with_setup(const AttemptContext& context, const SetupResult& done) {
    auto out = std::make_shared<AttemptContext>(context);
    out->setup = done;
    out->working_dir = done.working_dir;
    return out;
}

ProbeWait look_for_probes(const AttemptContext& context, const NodeFacts& facts, ProbeWait wait, std::int64_t now_ms) {
    const std::string missing = shared_path(context) ? missing_probe(context) : std::string{};
    if (missing != wait.missing) wait.written_ms.reset();
    wait.missing = missing;
    wait.looked_ms = now_ms;
    if (missing.empty() || wait.written_ms || now_ms - wait.since_ms < request_after_ms || now_ms < wait.request_ms)
        return wait;
    wait.request_ms = now_ms + request_every_ms;
    if (has_written(facts, context.prepare, missing)) wait.written_ms = now_ms;
    return wait;
}

ProbeVerdict verdict(const ProbeWait& wait) {
    if (wait.missing.empty()) return ProbeVerdict::look_again;
    if (wait.written_ms && wait.looked_ms - *wait.written_ms >= unseen_patience_ms) return ProbeVerdict::not_shared;
    if (!wait.written_ms && wait.looked_ms - wait.since_ms >= late_patience_ms) return ProbeVerdict::late;
    return ProbeVerdict::look_again;
}

Trouble trouble_of(const ProbeWait& wait, const AttemptContext& context, const std::string& node) {
    const std::string& path = context.prepare.storage_path;
    if (verdict(wait) == ProbeVerdict::not_shared)
        return {node + " does not see what " + wait.missing + " writes below " + path +
                    ": the path is not shared between the nodes; use a shared mount, or leave storage_path out "
                    "(cluster://)",
                true};
    return {node + " has waited " + std::to_string(late_patience_ms / 1000) + " s for " + wait.missing +
                " to try the storage path " + path + ": " + wait.missing +
                " is busy, or its agent cannot be reached from here; see that agent's log",
            false};
}

Try<Done> reach_peers(const NodeFacts& facts, const protocol::Prepare& prepare) {
    for (const protocol::PeerNode& peer : prepare.nodes) {
        if (peer.node == facts.node) continue;
        const auto answer = net::Client(endpoint_of(facts, peer)).call({.target = "/v1/probe"});
        if (answer && answer->status == 200) continue;
        const std::string why = answer ? "status " + std::to_string(answer->status) : answer.error().message;
        return Trouble{facts.node + " cannot reach " + peer.node + " at " + peer.address + ":" +
                           std::to_string(peer.port) + ": " + why,
                       false};
    }
    return Done{};
}

Try<Done> make_start_directories(const AttemptContext& context, const NodeFacts& facts) {
    const Status status = start_directories(context, facts);
    if (!status) return trouble(status.error(), facts.node, "the directories that its workers start in");
    return Done{};
}

Try<storage::ClaimAnswer> claim(const AttemptContext& context, const NodeFacts& facts, std::int64_t wall_ms) {
    const protocol::Prepare& prepare = context.prepare;
    Store& store = *context.store;
    if (Status named = claim_name(store, prepare, wall_ms); !named)
        return trouble(named.error(), facts.node, "claiming the run's name");
    if (Status kept = keep_code(store, facts, prepare); !kept)
        return trouble(kept.error(), facts.node, "keeping the working directory beside the run");
    if (!context.driver_file.empty())
        if (Status kept = store.put_file(context.driver_file, prepare.run_name + "/driver.pkl", false, {}); !kept)
            return trouble(kept.error(), facts.node, "keeping driver.pkl beside the run");
    storage::Claim claim{.number = prepare.attempt.number,
                         .cluster_id = prepare.cluster_id,
                         .run_id = prepare.run_id,
                         .from = {},
                         .world_size = prepare.world_size,
                         .nodes = {},
                         .job_json = prepare.job_json,
                         .wall_ms = wall_ms,
                         .code_sha256 = prepare.code_sha256,
                         .array = prepare.array,
                         .array_index = prepare.array_index};
    for (const protocol::PeerNode& peer : prepare.nodes) claim.nodes.push_back(peer.node);
    const std::string restored = facts.files.restored(key_of(prepare.attempt));
    if (Status own = own_directory(restored); !own) return trouble(own.error(), facts.node, "the attempt's directory");
    // Files that are downloaded for the check, or are on this node, are those from which the workers start.
    // `fetch_checkpoint` finds them there.
    KeptFiles kept(context.kept, prepare.run_id);
    const bool relies = prepare.nodes.size() < 2 || kept.first_claim();
    auto claimed =
        storage::claim_attempt(store, prepare.run_name, claim, prepare.restore_from, restored, kept.copies(relies));
    if (!claimed) return trouble(claimed.error(), facts.node, "claiming an attempt of '" + prepare.run_name + "'");
    if (const std::string used = kept.text(); !used.empty())
        log_info("read on this node, not downloaded: " + used + " of checkpoint " + claimed->from + " of run " +
                 prepare.run_name);
    return *claimed;
}

std::vector<protocol::EarlierCheckpoint> history(const storage::ClaimAnswer& claimed, const std::string& score) {
    // Keeps the message small; the score is the needed metric.
    constexpr std::size_t numbers_most = 32, name_most = 128;
    std::vector<protocol::EarlierCheckpoint> earlier;
    const auto& all = claimed.earlier;
    for (std::size_t i = all.size() - std::min(all.size(), protocol::earlier_most); i < all.size(); ++i) {
        const storage::Manifest& manifest = all[i].manifest;
        auto numbers = protocol::numbers_of(manifest.metrics_json, score);
        const bool many = numbers.size() > numbers_most;
        std::erase_if(numbers, [&](const auto& number) {
            return number.first != score && (many || number.first.size() > name_most);
        });
        earlier.push_back({.directory = manifest.directory,
                           .metrics_json = json_text(nlohmann::json(numbers)),
                           .attempt = manifest.attempt,
                           .world_size = manifest.world_size,
                           .report = manifest.report,
                           .bytes = manifest.bytes(),
                           .wall_ms = manifest.wall_ms,
                           .counts = all[i].counts});
    }
    return earlier;
}

}  // namespace rtrain::agent
