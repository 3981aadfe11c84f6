// Files on their way to a run's directory.
#include "daemon/agent/delivery/uploads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/kept_logs.hpp"
#include "daemon/agent/delivery/named_logs.hpp"
#include "daemon/agent/delivery/staged_files.hpp"
#include "daemon/agent/disk/kept_checkpoints.hpp"
#include "daemon/agent/preparation/handing_over.hpp"
#include "daemon/agent/preparation/storage_access.hpp"
#include "storage/checkpoint/layout.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
constexpr std::int64_t reserve_bytes = std::int64_t{64} << 20;

std::string attempt_folder(std::uint32_t number) {
    char text[16];
    std::snprintf(text, sizeof text, "%06u", number);
    return text;
}

std::string text_of(const Error& error) { return error.message + (error.next.empty() ? "" : "; " + error.next); }

// Returns the free bytes of a directory. A file system that reports none counts as empty, since a write will show it.
std::int64_t free_bytes(const std::string& directory, const WorkerUser& user = {}) {
    std::error_code failed;
    const UserRights rights(user);
    const UserRights::Worn worn(rights);
    const auto space = fs::space(directory, failed);
    constexpr std::uintmax_t most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(failed ? most : std::min<std::uintmax_t>(space.available, most));
}

std::string explain(const Error& error, const AttemptContext& context) {
    if (error.code == ErrorCode::unauthorised) return text_of(error);
    if (error.code != ErrorCode::full || !context.store->local()) return error.message;
    return "no space left on " + context.prepare.storage_path + " (" +
           std::to_string(free_bytes(context.store->local_path(""), context.user)) + " bytes free): " + error.message;
}

// Adds up the bytes that were moved or sent over the files of a checkpoint, and reports the sum once a second at most.
// Hashing reports the sum too, as a sign of life, and adds nothing: the storage has not answered by then.
class Moving {
  public:
    explicit Moving(const UploadProgress& report) : report_(report) {}
    storage::Progress of_file() {
        return [this](std::int64_t done, std::int64_t) { report(before_ + done); };
    }
    storage::Progress of_hash() {
        return [this](std::int64_t, std::int64_t) { report(before_); };
    }
    void done(std::int64_t bytes) { before_ += bytes; }

  private:
    void report(std::int64_t bytes) {
        const auto now = std::chrono::steady_clock::now();
        if (!report_ || now - reported_at_ < std::chrono::seconds(1)) return;
        reported_at_ = now;
        report_(bytes);
    }
    const UploadProgress& report_;
    std::int64_t before_ = 0;
    std::chrono::steady_clock::time_point reported_at_{};
};

json listed(const std::vector<protocol::StagedFile>& files) {
    json list = json::array();
    for (const auto& file : files)
        list.push_back({{"rank", file.rank}, {"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
    return list;
}

// Determines the files of a checkpoint and stores the list before the first file moves. An interrupted try leaves some
// files here and some there, and the next try must find all of them.
Result<std::vector<protocol::StagedFile>> settled_files(const StagedFiles& staged,
                                                        const std::map<std::string, StagedEntry>& entries,
                                                        const std::set<std::string>& skip, const std::string& kept_at,
                                                        Moving& moving) {
    std::vector<protocol::StagedFile> files;
    if (const auto kept = read_whole(kept_at)) {
        const json list = parse_json(*kept);
        if (!list.is_array()) return Error{ErrorCode::damaged, kept_at + " is not a list of files", ""};
        for (const json& file : list)
            files.push_back({file.value("rank", 0u), file.value("path", ""), file.value("bytes", std::int64_t{0}),
                             file.value("sha256", "")});
        return files;
    }
    for (const auto& [name, file] : entries) {
        if (skip.contains(name)) continue;
        auto hash = staged.hash(file, moving.of_hash());
        if (!hash) return hash.error();
        files.push_back({.rank = file.rank, .path = name, .bytes = file.bytes, .sha256 = *hash});
    }
    if (Status kept = write_whole(kept_at, json_text(listed(files)), 0600, Durable::no); !kept) return kept.error();
    return files;
}

// Returns a file name for a checkpoint's directory, which may contain slashes. No part of its path contains a '\\'.
std::string one_name(std::string directory) {
    std::replace(directory.begin(), directory.end(), '/', '\\');
    return directory;
}

// Removes the lists of earlier checkpoints. At most one checkpoint is being uploaded.
void drop_lists(const std::string& spool, const std::string& kept) {
    std::error_code failed;
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(spool, failed))
        if (entry.path().extension() == ".files" && entry.path() != kept) old.push_back(entry.path());
    for (const fs::path& path : old) ::unlink(path.c_str());
}

// Returns true if an earlier agent committed this very checkpoint and died before it reported that. A name with another
// committed manifest is an error, since a commit is never changed.
Result<bool> committed_before(const AttemptContext& context, const Upload& order,
                              const std::vector<protocol::StagedFile>& files) {
    const std::string place = context.prepare.run_name + "/" + order.directory;
    const auto text = context.store->get(place + "/" + std::string(storage::manifest_name));
    if (!text && text.error().code == ErrorCode::not_found) return false;
    if (!text) return text.error();
    const auto manifest = storage::decode_manifest(*text);
    const bool same = manifest && manifest->report == order.index &&
                      std::all_of(files.begin(), files.end(), [&](const protocol::StagedFile& file) {
                          return std::any_of(manifest->files.begin(), manifest->files.end(), [&](const auto& there) {
                              return there.path == file.path && there.sha256 == file.sha256;
                          });
                      });
    if (same) return true;
    return Error{ErrorCode::conflict, "checkpoint " + place + " is committed already, with other files", ""};
}

// Returns the directory that keeps the sent files of a checkpoint until its commit; empty if they are not kept.
std::string begin_sent_of(const AttemptContext& context, std::uint64_t report) {
    if (context.store->local()) return "";
    const std::string sent = sent_below(context.spool, report);
    const Status begun = begin_sent(context.spool, sent);
    if (!begun) warn("this checkpoint is not kept on the node: " + begun.error().message);
    return begun ? sent : "";
}

// Keeps a sent file for the next attempt. If that fails, the next attempt downloads the file.
void keep_for_restart(const storage::Descriptor& file, const std::string& sent, const std::string& sha256) {
    if (sent.empty()) return;
    if (const Status kept = keep_sent(file, sent, sha256); !kept)
        warn("a file of a checkpoint is not kept on the node: " + kept.error().message);
}

// Puts links first, since the target of a link may be moved.
std::vector<protocol::StagedFile> links_first(std::vector<protocol::StagedFile> files,
                                              const std::map<std::string, StagedEntry>& entries) {
    std::stable_partition(files.begin(), files.end(), [&](const protocol::StagedFile& file) {
        const auto here = entries.find(file.path);
        return here != entries.end() && here->second.link;
    });
    return files;
}

Status list_sizes(const AttemptContext& context, const std::string& below, std::map<std::string, std::int64_t>& sizes) {
    auto listed = context.store->list(below.substr(0, below.size() - 1));
    if (!listed) return listed.error();
    for (const auto& entry : *listed) sizes[entry.path] = static_cast<std::int64_t>(entry.bytes);
    return Done{};
}

// Returns whether run.json names the run of the order. Whatever its users made of that file, it is read without an
// exception.
bool named_in(const json& header, const protocol::Clear& order) {
    if (!header.is_object() || !header.contains("cluster_id") || !header.contains("run_id")) return false;
    if (header["cluster_id"] != json(order.cluster_id)) return false;
    if (!order.user.empty() && header.value("user", json()) != json(order.user)) return false;
    return order.run_ids.empty() || std::any_of(order.run_ids.begin(), order.run_ids.end(),
                                                [&](const std::string& id) { return header["run_id"] == json(id); });
}

// Removes a run from a bucket. A bucket has no rename, so run.json is removed last. Until then the name stays taken,
// and an interrupted removal can be repeated.
Status remove_objects(storage::Store& store, const std::string& run_name) {
    const auto entries = store.list(run_name);
    if (!entries) return entries.error();
    std::set<std::string> tops;
    for (const storage::StoreEntry& entry : *entries)
        tops.insert(entry.path.substr(0, entry.path.find('/', run_name.size() + 1)));
    tops.erase(run_name + "/run.json");
    for (const std::string& top : tops)
        if (Status gone = store.remove_tree(top); !gone) return gone;
    return store.remove_tree(run_name);
}

constexpr unsigned int stage_mode = 0755;

// Makes a staging directory on storage with the user's rights, so it is the user's from the beginning.
Status make_on_storage(const AttemptContext& context, const std::string& place) {
    const UserRights rights(context.user);
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return worn.taken();
    const std::string root = context.store->local_path("");
    const auto top = context.store->top();
    if (!top) return top.error();
    const auto stage = storage::make_beneath(*top, place.substr(root.size()), stage_mode);
    return stage ? Status(Done{}) : stage.error();
}

// Makes a staging directory in the agent's own spool, and changes its owner by the descriptor.
Status make_in_spool(const AttemptContext& context, const std::string& name) {
    const auto spool = storage::open_top(context.spool);
    if (!spool) return spool.error();
    const auto stage = storage::make_beneath(*spool, name, context.user.uid >= 0 ? 0700 : stage_mode);
    if (!stage) return stage.error();
    if (context.user.uid >= 0 &&
        ::fchown(stage->number(), static_cast<uid_t>(context.user.uid), static_cast<gid_t>(context.user.gid)) != 0)
        return Error{
            ErrorCode::io,
            "giving " + context.spool + "/" + name + " to user " + context.user.name + ": " + std::strerror(errno), ""};
    return Done{};
}

// Removes a directory below the storage path if it is empty. Other directories of the run may be in it.
void remove_if_empty(storage::Store& store, const std::string& path) {
    const auto top = store.top();
    if (!top) return;
    if (const auto place = storage::place_beneath(*top, path))
        ::unlinkat(place->directory.number(), place->name.c_str(), AT_REMOVEDIR);
}

}  // namespace

std::string storage_reason(ErrorCode code) {
    switch (code) {
        case ErrorCode::full:
            return "storage_full";
        case ErrorCode::unreachable:
        case ErrorCode::timed_out:
            return "storage_unreachable";
        case ErrorCode::unauthorised:
            return "storage_refused";
        case ErrorCode::not_found:
            return "storage_gone";
        case ErrorCode::usage:
        case ErrorCode::invalid:
        case ErrorCode::conflict:
        case ErrorCode::unplaceable:
        case ErrorCode::io:
        case ErrorCode::damaged:
        case ErrorCode::internal:
            break;
    }
    return "storage_failed";
}

// Returns where ranks stage. The storage path is used while it has room for twice the last checkpoint, and at least for
// a small reserve, since others write there too.
StagePlace place_to_stage(std::int64_t expected, std::optional<std::int64_t> storage_free, std::int64_t node_free) {
    if (storage_free && *storage_free >= std::max(reserve_bytes, 2 * expected)) return StagePlace::storage;
    return expected <= node_free / 5 ? StagePlace::spool : StagePlace::nowhere;
}

Result<std::string> make_stage(const AttemptContext& context, std::uint32_t rank, const std::string& unique,
                               std::int64_t expected) {
    std::optional<std::int64_t> storage_free;
    if (context.store->local()) storage_free = free_bytes(context.store->local_path(""), context.user);
    if (Status status = make_directory(context.spool, 0711); !status) return status.error();
    StagePlace chosen = place_to_stage(expected, storage_free, free_bytes(context.spool));
    if (chosen == StagePlace::nowhere && drop_all_kept(context.kept))
        chosen = place_to_stage(expected, storage_free, free_bytes(context.spool));
    if (chosen == StagePlace::nowhere)
        return Error{ErrorCode::full,
                     "no room to stage a checkpoint of some " + std::to_string(expected >> 20) + " MiB" +
                         (storage_free ? " on " + context.prepare.storage_path : "") +
                         ", and more than a fifth of what is free below " + context.spool,
                     "make room on one of the two"};
    const std::string name = rank_text(rank) + "-" + unique;
    const Status status = chosen == StagePlace::spool ? make_in_spool(context, name)
                                                      : make_on_storage(context, context.staging + "/" + name);
    if (!status) return status.error();
    return (chosen == StagePlace::spool ? context.spool : context.staging) + "/" + name;
}

namespace {

// Files that lie in the run already: the rank has claimed the directory for this very report.
Result<std::string> claimed_place(const AttemptContext& context, const ListStaged& order) {
    auto place = StagedFiles(context).in_place(order.staged);
    if (!place || place->empty()) return place;
    const Status ours = storage::check_owner(*context.store, context.prepare.run_name, *place,
                                             {.attempt = order.number, .report = order.index});
    return ours ? std::move(place) : ours.error();
}

// Claims the requested name. If the storage cannot store the claim now, the checkpoint is stored later under a name
// with its attempt.
bool claimed(const AttemptContext& context, const ListStaged& order) {
    const auto ours = storage::claim_directory(*context.store, context.prepare.run_name, order.name,
                                               {.attempt = order.number, .report = order.index});
    if (!ours) warn("the name '" + order.name + "' of a checkpoint could not be claimed: " + text_of(ours.error()));
    return ours && *ours;
}

}  // namespace

StagedListed list_staged(const AttemptContext& context, const ListStaged& order) {
    StagedListed answer{.attempt = order.attempt, .index = order.index};
    auto place = claimed_place(context, order);
    auto files = place ? StagedFiles(context).list(order.staged) : place.error();
    if (!files) {
        answer.why = text_of(files.error());
        answer.reason = storage_reason(files.error().code);
        return answer;
    }
    for (const auto& [name, file] : *files)
        answer.files.push_back({.rank = file.rank, .path = name, .bytes = file.bytes});
    answer.in_place = std::move(*place);
    answer.exact = !answer.in_place.empty() || order.name.empty() || (order.claim && claimed(context, order));
    return answer;
}

Uploaded upload(const AttemptContext& context, const Upload& order, const UploadProgress& moved) {
    Uploaded answer{.attempt = order.attempt, .index = order.index};
    const std::string below = context.prepare.run_name + "/" + order.directory + "/";
    const auto fail = [&](const Error& error) {
        answer.why = explain(error, context);
        answer.reason = storage_reason(error.code);
        answer.files.clear();
        return answer;
    };
    // The directory's name comes from rank 0's node, so this node checks its owner on the storage.
    const Status ours = storage::check_owner(*context.store, context.prepare.run_name, order.directory,
                                             {.attempt = order.number, .report = order.index});
    if (!ours) return fail(ours.error());
    const StagedFiles staged(context);
    const auto in_place = staged.in_place(order.staged);
    if (!in_place) return fail(in_place.error());
    if (!in_place->empty() && *in_place != order.directory) {
        fail({ErrorCode::invalid, "files lie in " + *in_place + ", and the checkpoint is " + order.directory,
              "of one report all ranks bring the same directory of the run"});
        answer.reason = name_taken;  // a permanent failure
        return answer;
    }
    auto entries = staged.list(order.staged);
    if (!entries) return fail(entries.error());
    const std::string kept_at = context.spool + "/" + one_name(order.directory) + ".files";
    if (Status status = make_directory(context.spool, 0711); !status) return fail(status.error());
    drop_lists(context.spool, kept_at);
    Moving moving(moved);
    auto files = settled_files(staged, *entries, order.skip, kept_at, moving);
    if (!files) return fail(files.error());
    const auto before = committed_before(context, order, *files);
    if (!before) {
        fail(before.error());
        if (before.error().code == ErrorCode::conflict) answer.reason = name_taken;
        return answer;
    }
    const std::string sent = begin_sent_of(context, order.index);
    std::map<std::string, std::int64_t> there;
    for (const protocol::StagedFile& file : links_first(*files, *entries)) {
        if (*before) break;
        const auto here = entries->find(file.path);
        if (here == entries->end()) {  // an earlier try has moved the file
            if (there.empty())
                if (Status listed = list_sizes(context, below, there); !listed) return fail(listed.error());
            const auto came = there.find(below + file.path);
            if (came == there.end() || came->second != file.bytes)
                return fail({ErrorCode::damaged, "the staged file " + file.path + " is gone", ""});
            moving.done(file.bytes);
            continue;
        }
        const auto keep = [&](const storage::Descriptor& opened) { keep_for_restart(opened, sent, file.sha256); };
        if (Status given = staged.give(here->second, below + file.path, moving.of_file(), keep); !given)
            return fail(given.error());
        moving.done(file.bytes);
    }
    answer.files = std::move(*files);
    drop_staged(context, order.staged);
    // The list stays until the next checkpoint, since this agent may die before it has reported the files.
    return answer;
}

ManifestWritten commit(const AttemptContext& context, const WriteManifest& order) {
    ManifestWritten answer{.attempt = order.attempt, .index = order.manifest.report};
    if (Status written = storage::write_manifest(*context.store, context.prepare.run_name, order.manifest); !written) {
        answer.why = explain(written.error(), context);
        answer.reason = written.error().code == ErrorCode::conflict ? name_taken : storage_reason(written.error().code);
    }
    return answer;
}

// Removes staging directories, on the storage with the user's rights, in the agent's spool with its own.
void drop_staged(const AttemptContext& context, const StagedPaths& staged) {
    const std::string root = context.store->local() ? context.store->local_path("") : "";
    for (const auto& [rank, directory] : staged) {
        if (root.empty() || !directory.starts_with(context.staging + "/")) {
            remove_tree(directory);
            continue;
        }
        if (const Status gone = context.store->remove_tree(directory.substr(root.size())); !gone)
            warn("staged files stay: " + gone.error().message);
    }
}

void drop_staging(const AttemptContext& context) {
    remove_tree(context.spool);
    if (!context.store->local()) return remove_tree(context.staging);
    const std::string below = staging_in_store(context.prepare);
    Status gone = context.store->remove_tree(context.staging.substr(context.store->local_path("").size()));
    if (gone && context.prepare.claim) gone = context.store->remove_tree(below + "/nodes");
    if (!gone) warn("staged files stay: " + gone.error().message);
    const UserRights rights(context.user);
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return;
    for (const std::string& directory : {below, context.prepare.run_name + "/.staging"})
        remove_if_empty(*context.store, directory);
}

// Returns a journal line. A rank's metrics are valid JSON, checked in the worker's frame, but may contain line breaks,
// which become spaces.
std::string journal_line(const JournalMetrics& metrics) {
    std::string line = R"({"index":)" + std::to_string(metrics.index) + R"(,"metrics":{)";
    for (const auto& [rank, text] : metrics.metrics_json) {
        if (line.back() != '{') line += ',';
        line += '"' + std::to_string(rank) + "\":" + text;
    }
    line += R"(},"wall_ms":)" + std::to_string(metrics.wall_ms) + "}";
    std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return line + '\n';
}

Status deliver(Journal& journal, const AttemptContext& context, std::uint32_t number) {
    const std::string path = context.prepare.run_name + "/attempts/" + attempt_folder(number) + "/metrics-000001.jsonl";
    return journal.deliver([&](const std::string& lines) { return context.store->append(path, lines); });
}

namespace {

bool is_log(const fs::path& name) {
    const std::string stream = name.extension();
    return name.string().starts_with("rank-") && (stream == ".out" || stream == ".err" || stream == ".setup");
}

}  // namespace

Status copy_logs(const AttemptContext& context, const NodeFacts& facts, std::uint32_t number) {
    const std::string folder = context.prepare.run_name + "/logs/attempt-" + attempt_folder(number);
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(facts.files.logs(key_of(context.prepare.attempt)), failed)) {
        if (!is_log(entry.path().filename())) continue;  // other files may appear and disappear meanwhile
        std::error_code gone;
        if (!entry.is_regular_file(gone) || entry.file_size(gone) == 0 || gone) continue;
        const std::string to = folder + "/" + entry.path().filename().string();
        if (Status copied = put_log(*context.store, entry.path().string(), to); !copied) return copied;
    }
    return copy_named_logs(context, facts.files.scratch(key_of(context.prepare.attempt)), folder);
}

CheckpointGone remove_checkpoint(const NodeFacts& facts, const protocol::Delete& order) {
    CheckpointGone answer{.run = order.run, .directory = order.directory};
    auto store = open_store_of_run(facts, order.storage_path, order.user, order.access);
    if (!store) {
        answer.why = store.error().message;
        return answer;
    }
    auto claims = (*store)->list(order.run_name + "/attempts");
    if (!claims) {
        answer.why = claims.error().message;
        return answer;
    }
    for (const auto& entry : *claims) {
        const auto number = static_cast<std::uint32_t>(std::strtoul(fs::path(entry.path).stem().c_str(), nullptr, 10));
        if (fs::path(entry.path).extension() == ".json" && number > order.newest_attempt) {
            answer.why = "attempt " + std::to_string(number) + " has begun elsewhere and may start from it";
            return answer;
        }
    }
    if (Status gone = storage::delete_checkpoint(**store, order.run_name, order.directory); !gone)
        answer.why = gone.error().message;
    return answer;
}

namespace {

// Removes the run's directory with the rights of its user. The directory stays open from the check of its run.json on,
// so that an exchanged name cannot redirect the removal. An interrupted removal can be repeated.
Result<bool> clear_directory(storage::Store& store, const WorkerUser& owner, const protocol::Clear& order) {
    const Status handed = hand_over_run(store, order.run_name, owner, order.access.user);
    const UserRights rights(owner);
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return worn.taken().error();
    const auto top = store.top();
    if (!top) return top.error().code == ErrorCode::not_found ? Result<bool>(false) : top.error();
    const auto run = storage::open_beneath(*top, order.run_name, O_RDONLY | O_DIRECTORY);
    if (!run && run.error().code != ErrorCode::not_found) return run.error();
    if (!run) return storage::remove_aside(*top, order.run_name);
    const std::string name = store.local_path(order.run_name + "/run.json");
    const auto header = storage::open_beneath(*run, "run.json", O_RDONLY | O_NONBLOCK);
    if (!header && header.error().code != ErrorCode::not_found) return header.error();
    if (!header) return storage::remove_aside(*top, order.run_name);
    const auto text = storage::read_opened(*header, name);
    if (!text) return text.error();
    if (!named_in(parse_json(*text), order)) return false;
    if (!handed) return handed.error();
    if (const auto aside = storage::set_aside(*top, order.run_name, *run); !aside) return aside.error();
    return storage::remove_aside(*top, order.run_name);
}

Result<bool> clear_bucket(storage::Store& store, const protocol::Clear& order) {
    const auto text = store.get(order.run_name + "/run.json");
    if (!text && text.error().code == ErrorCode::not_found) return false;
    if (!text) return text.error();
    if (!named_in(parse_json(*text), order)) return false;
    if (Status gone = remove_objects(store, order.run_name); !gone) return gone.error();
    return true;
}

}  // namespace

protocol::Cleared clear_run(const NodeFacts& facts, const protocol::Clear& order) {
    const auto removed = [&]() -> Result<bool> {
        const auto uri = storage::parse_uri(order.storage_path);
        if (!uri) return uri.error();
        if (uri->scheme == storage::Scheme::cluster) return false;  // the head removes its own runs
        const auto owner = user_of_order(facts, order.storage_path, order.access.user);
        if (!owner) return owner.error();
        const auto store = open_store_of_run(facts, order.storage_path, order.access.user, order.access);
        if (!store) return store.error();
        return (*store)->local() ? clear_directory(**store, *owner, order) : clear_bucket(**store, order);
    }();
    return {.id = order.id, .removed = removed && *removed, .error = removed ? "" : removed.error().message};
}

// Writes result.json. The head orders it for refused runs as well, and for runs that another run has resumed: their
// result is not written, since the directory is not theirs.
Status write_result_file(const NodeFacts& facts, const protocol::Result_& order) {
    const json result = parse_json(order.result_json);
    auto store = open_store_of_run(facts, order.storage_path, order.user, order.access);
    if (!store) return store.error();
    const auto claim = storage::newest_claim(**store, order.run_name);
    const bool ours = claim && result.is_object() && result.value("run_id", json()) == json(claim->run_id);
    if (!ours) return Done{};
    return (*store)->put(order.run_name + "/result.json", order.result_json);
}

}  // namespace rtrain::agent
