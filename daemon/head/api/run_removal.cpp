// Removes a run: its record, and with ?files=true its directory. The head removes a directory that it can read. If only
// agents can read the storage path, the agents of the run's nodes remove it one after the other: on shared storage the
// first removes all files, on local disks each removes its own part. In this case the files are removed before the
// record, so that a failed removal can be repeated. A directory may belong to several runs, one after the other
// (--resume). Only the newest of them may remove it, and run.json names the first.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "daemon/head/access/ownership.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/events/news.hpp"
#include "daemon/head/events/orders.hpp"
#include "daemon/head/files/run_header.hpp"
#include "daemon/head/files/stored_files.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/sessions/sessions.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/file_rights.hpp"
#include "storage/uri/files/removal.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t patience_ms = 45'000;  // ms for all nodes together; less than the time limit of the command line

bool on_cluster(const Run& run) { return run.storage_path.empty() || run.storage_path.starts_with("cluster://"); }

// A run's directory on this machine. The directory stays open from the check of its run.json until its removal. So a
// user who renames directories meanwhile cannot cause the removal of another directory.
struct Directory {
    std::string path;  // path of the directory, for messages
    storage::Descriptor base, itself;
    std::string name;
    // facts about the owner of run.json; a root head removes the directory with the owner's rights
    struct stat owner{};
};
using Held = std::shared_ptr<Directory>;  // null: this machine cannot read the directory

Held local_directory(const HeadOptions& options, const Run& run) {
    const auto uri = storage::parse_uri(on_cluster(run) ? "cluster://" : run.storage_path);
    if (!uri || (uri->scheme != storage::Scheme::cluster && uri->scheme != storage::Scheme::file)) return nullptr;
    const std::string base = uri->scheme == storage::Scheme::cluster ? options.storage_root : uri->path;
    auto top = storage::open_top(base);
    if (!top) return nullptr;
    auto itself = storage::open_beneath(*top, run.name, O_RDONLY | O_DIRECTORY);
    if (!itself) return nullptr;
    return std::make_shared<Directory>(
        Directory{base + "/" + run.name, std::move(*top), std::move(*itself), run.name, {}});
}

// Returns the runs that have had the same name at the same storage path, including `run`; the oldest is first.
std::vector<RunId> in_the_same_place(const View& view, const Run& run) {
    std::vector<RunId> out;
    for (const RunId id : view.names.named(run.name))
        if (storage::same_place(view.cluster.runs.at(id).storage_path, run.storage_path)) out.push_back(id);
    return out;
}

// Returns true if an attempt of the run has claimed its directory. Otherwise the directory has no file of the run.
bool has_claimed(const View& view, const Run& run) {
    for (const Attempt* attempt : attempts_of(view.cluster, run.id))
        if (attempt->master_port != 0) return true;  // the port is set by the node that claimed the attempt
    return run.checkpoints > 0;
}

// Returns the ids that run.json may contain: those of the runs that used the directory. Returns an empty list if any
// run of this cluster is allowed, since the record of an earlier run may have been removed.
std::vector<std::string> names_in_header(const View& view, const Run& run) {
    std::vector<std::string> out;
    if (run.resume && has_claimed(view, run)) return out;
    for (const RunId id : in_the_same_place(view, run)) out.push_back(view.run_id(id));
    return out;
}

// Returns true if the directory's run.json names this run. Unless `user` is empty, run.json must also name that user.
bool is_of(const View& view, const Run& run, Directory& directory, const std::string& user) {
    const auto [header, owner] = run_header(directory.itself);
    directory.owner = owner;
    if (!header.is_object() || !header.contains("cluster_id") || !header.contains("run_id")) return false;
    if (header["cluster_id"] != json(view.cluster.meta.cluster_id)) return false;
    if (!user.empty() && header.value("user", json()) != json(user)) return false;
    const auto names = names_in_header(view, run);
    return names.empty() || std::any_of(names.begin(), names.end(),
                                        [&](const std::string& name) { return header["run_id"] == json(name); });
}

// Returns an error if the files belong to another run: it uses the directory now, or has used it after this run.
std::optional<Error> of_another(const View& view, const Run& run) {
    const Run* owner = nullptr;
    for (const RunId id : in_the_same_place(view, run)) {
        const Run& other = view.cluster.runs.at(id);
        if (id == run.id || (terminal(other.state) && id < run.id)) continue;
        if (owner == nullptr || terminal(owner->state)) owner = &other;
    }
    if (owner == nullptr) return std::nullopt;
    const std::string id = view.run_id(owner->id), own = view.run_id(run.id);
    const bool ended = terminal(owner->state);
    return Error{ErrorCode::conflict,
                 "run " + id + ", of the same name, " + (ended ? "went" : "goes") + " on from the files of run " + own +
                     (ended ? ": they are its by now" : std::string(" and is ") + to_text(owner->state)),
                 (ended ? "rtrain runs rm " + id + " --files removes them" : "rtrain stop " + id + " first") +
                     "; rtrain runs rm " + own + " without --files removes the record alone"};
}

// Returns the run's attempts by node. Agents delete their data of these attempts, including logs not yet sent.
std::vector<std::pair<std::string, protocol::AttemptRef>> attempts_on_nodes(const View& view, RunId run) {
    std::vector<std::pair<std::string, protocol::AttemptRef>> out;
    for (const Attempt* attempt : attempts_of(view.cluster, run)) {
        std::set<std::string> nodes;
        for (const Worker& worker : attempt->workers) nodes.insert(worker.seat.node.value);
        for (const std::string& node : nodes) out.emplace_back(node, reference(*attempt));
    }
    return out;
}

struct Removal {
    Exchange exchange;
    const HeadOptions& options;
    Sessions& sessions;
    StoredFiles& stored;
    RunId run;
    std::string name, run_path;
    json answer;
    std::vector<std::pair<std::string, protocol::AttemptRef>> held;
    std::vector<std::string> nodes;  // nodes of the run that are connected, and have not received the order yet
    std::string asked;               // names of all the run's nodes, for messages
    bool removed = false;            // true if a node has removed files
    std::int64_t deadline_ms = 0;    // time at which the removal fails; monotonic clock
    protocol::Clear order;
};
using Shared = std::shared_ptr<Removal>;

struct SetAside {  // name of the renamed directory; empty: nothing was renamed
    Held directory;
    std::string name;
};

// Runs `work` with the rights of the directory's owner. Called on a thread that may wait for a disk.
template <class Work>
auto as_owner(const Directory& directory, const Work& work) -> decltype(work()) {
    const storage::WornRights rights(storage::other_owner(directory.owner));
    if (!rights.taken()) return rights.taken().error();
    return work();
}

void put_back(const Exchange& exchange, const SetAside& aside) {
    exchange.background.offload(
        [aside] {
            (void)as_owner(*aside.directory, [&]() -> Status {
                storage::put_back(aside.directory->base, aside.name, aside.directory->name);
                return Done{};
            });
        },
        [] {});
}

void remove_record(const Shared& removal, const SetAside& aside, std::function<void()> then) {
    const Auditing scope(removal->exchange.events, removal->exchange.audit);
    removal->exchange.events.take(RunRemoved{removal->run},
                                  [removal, aside, then = std::move(then)](const Decision& decision) {
                                      if (decision.refused) {
                                          if (!aside.name.empty()) put_back(removal->exchange, aside);
                                          return refuse(removal->exchange, *decision.refused);
                                      }
                                      forget_values(removal->options, removal->run);
                                      for (const auto& [node, attempt] : removal->held)
                                          removal->sessions.send(node, protocol::Forget{attempt});
                                      then();
                                  });
}

void remove_on_nodes(const Shared& removal);

void node_answered(const Shared& removal, const std::string& node, const protocol::Cleared& answer) {
    if (!answer.error.empty())
        return refuse(removal->exchange,
                      {ErrorCode::io, "node " + node + " could not remove " + removal->run_path + ": " + answer.error,
                       "rtrain runs rm " + removal->name + " --files again, or without --files"});
    removal->removed = removal->removed || answer.removed;
    remove_on_nodes(removal);
}

// Returns an error if the files may no longer be removed, because another run may have resumed from them since the
// request.
std::optional<Error> in_the_way(const Removal& removal) {
    const View& view = removal.exchange.view;
    const auto run = view.cluster.runs.find(removal.run);
    if (run != view.cluster.runs.end()) return of_another(view, run->second);
    return Error{ErrorCode::not_found, "run " + removal.name + " was removed meanwhile", "rtrain runs --all"};
}

// Removes a directory on this machine. Renames it first, then removes the record, then the files, so that the name is
// free as soon as a new run may take it.
void remove_here(const Shared& removal, const Held& directory) {
    const auto set_aside = [directory] {
        return as_owner(*directory,
                        [&] { return storage::set_aside(directory->base, directory->name, directory->itself); });
    };
    const auto remove = [directory] {
        return as_owner(*directory, [&] { return storage::remove_aside(directory->base, directory->name); });
    };
    on_pool(removal->exchange, set_aside,
            [removal, directory, remove](Exchange& kept, const Result<std::string>& aside) {
                if (!aside) return refuse(kept, aside.error());
                if (const auto other = in_the_way(*removal)) {
                    if (!aside->empty()) put_back(kept, {directory, *aside});
                    return refuse(kept, *other);
                }
                remove_record(removal, {directory, *aside}, [removal, remove] {
                    on_pool(removal->exchange, remove, [removal](Exchange& again, const Result<bool>& gone) {
                        if (!gone) removal->answer["files_error"] = gone.error().message;
                        removal->stored.recount(removal->name);
                        reply_json(again, 200, removal->answer);
                    });
                });
            });
}

void remove_on_nodes(const Shared& removal) {
    if (removal->nodes.empty()) {
        removal->answer["files"] = removal->removed ? json(removal->run_path) : json();
        removal->answer["files_kept"] = removal->removed ? json() : json(removal->run_path);
        if (!removal->removed)
            removal->answer["files_error"] = "neither the head nor " + removal->asked + " sees " + removal->run_path;
        return remove_record(removal, {}, [removal] { reply_json(removal->exchange, 200, removal->answer); });
    }
    if (const auto other = in_the_way(*removal)) return refuse(removal->exchange, *other);
    const std::string node = removal->nodes.back();
    removal->nodes.pop_back();
    removal->sessions.clear(node, removal->order, removal->deadline_ms - monotonic_ms(),
                            [removal, node](const protocol::Cleared& answer) { node_answered(removal, node, answer); });
}

// Chooses the nodes that remove the files. Nodes that have left the cluster are left out. Refuses the request, and
// returns false, if all have left.
bool choose_nodes(Removal& removal) {
    const View& view = removal.exchange.view;
    std::set<std::string> ran;
    for (const auto& [node, attempt] : removal.held) ran.insert(node);
    std::string away;
    for (const std::string& node : ran) {
        if (removal.sessions.connected(node))
            removal.nodes.push_back(node);
        else if (view.cluster.nodes.contains(NodeId{node}))
            away += (away.empty() ? "" : ", ") + node;
        removal.asked += (removal.asked.empty() ? "" : ", ") + node;
    }
    if (away.empty() && (!removal.nodes.empty() || ran.empty())) return true;
    refuse(removal.exchange,
           {ErrorCode::conflict,
            "the head does not see " + removal.run_path + ", and of the nodes that ran " + removal.name +
                (away.empty() ? " (" + removal.asked + ") none is in the cluster any more"
                              : " these are not connected: " + away + "; their files would stay behind"),
            (away.empty() ? "" : "start their agents, or rtrain node leave what is gone for good; or ") +
                std::string("rtrain runs rm ") + removal.name + " without --files, and remove the directory there"});
    return false;
}

Shared removal_of(const Exchange& exchange, const HeadOptions& options, Sessions& sessions, StoredFiles& stored,
                  const Run& run, const Held& directory) {
    const View& view = exchange.view;
    auto removal = std::make_shared<Removal>(Removal{.exchange = exchange,
                                                     .options = options,
                                                     .sessions = sessions,
                                                     .stored = stored,
                                                     .run = run.id,
                                                     .name = run.name,
                                                     .run_path = run_json(view, run, JobWords::shown)["run_path"],
                                                     .answer = {},
                                                     .held = attempts_on_nodes(view, run.id),
                                                     .nodes = {},
                                                     .asked = {},
                                                     .deadline_ms = monotonic_ms() + patience_ms,
                                                     .order = {}});
    removal->order = {.cluster_id = view.cluster.meta.cluster_id,
                      .run_ids = names_in_header(view, run),
                      .run_name = run.name,
                      .storage_path = run.storage_path,
                      .user = is_admin(exchange.caller) ? "" : exchange.caller.user,
                      .access = storage_access(run, {})};
    removal->answer = {{"run_id", view.run_id(run.id)},
                       {"name", run.name},
                       {"attempts", attempts_of(view.cluster, run.id).size()},
                       {"checkpoints", checkpoints_of(view.cluster, run.id).size()},
                       {"files", directory ? json(directory->path) : json()},
                       {"files_kept", directory ? json() : json(removal->run_path)},
                       {"dry_run", exchange.asked("dry_run")}};
    return removal;
}

}  // namespace

void delete_run(Exchange& exchange, const HeadOptions& options, const Ownership& ownership, Sessions& sessions,
                StoredFiles& stored) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const Run& run = exchange.view.cluster.runs.at(*id);
    const bool files = exchange.asked("files");
    Held directory = files ? local_directory(options, run) : nullptr;
    const std::string user = is_admin(exchange.caller) ? "" : exchange.caller.user;
    if (directory && !is_of(exchange.view, run, *directory, user)) directory.reset();
    if (!terminal(run.state))
        return refuse(exchange, {ErrorCode::conflict, "run " + run.name + " is " + to_text(run.state),
                                 "rtrain stop " + run.name});
    if (files) {
        if (const Status may = ownership.may_use_directory(exchange.caller, run.name, run.storage_path); !may)
            return refuse(exchange, may.error());
        if (const auto other = of_another(exchange.view, run)) return refuse(exchange, *other);
    }
    const Shared removal = removal_of(exchange, options, sessions, stored, run, directory);
    const bool by_agents = files && !directory && !on_cluster(run) && !removal->held.empty();
    if (by_agents && !choose_nodes(*removal)) return;
    if (by_agents) removal->answer["files"] = std::exchange(removal->answer["files_kept"], json());
    if (exchange.asked("dry_run")) return reply_json(exchange, 200, removal->answer);
    if (by_agents) {  // the audit row must be durable before an agent removes the first file
        const Auditing scope(exchange.events, exchange.audit);
        return exchange.events.save({.tokens = {}, .settings = {}, .done = [removal] { remove_on_nodes(removal); }});
    }
    if (directory) return remove_here(removal, directory);
    remove_record(removal, {}, [removal] { reply_json(removal->exchange, 200, removal->answer); });
}

}  // namespace rtrain::head
