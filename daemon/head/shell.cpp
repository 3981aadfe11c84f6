// The loop: see shell.hpp for its picture.
#include "daemon/head/shell.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "daemon/head/dropped_tokens.hpp"
#include "daemon/head/routes.hpp"
#include "storage/uri/files/removal.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t acknowledge_pause_ms = 50;  // news that come within this share one write
constexpr std::int64_t log_sync_pause_ms = 200;
constexpr std::int64_t sweep_pause_ms = 24LL * 3'600'000;
constexpr std::int64_t token_look_ms = 1'000;
constexpr std::int64_t uploads_kept_ms = 3'600'000;
constexpr std::int64_t events_kept_ms = 30LL * 24 * 3'600'000;
constexpr std::size_t recalled_at_most = 100;                   // runs
constexpr const char* unused_admin_key = "unused_admin_token";  // its id
constexpr std::int64_t wake_pause_ms = 5;  // a wake that did not move its own time comes no oftener

std::string setting_or(const state::SqliteJournal& journal, const std::string& key) {
    return journal.setting(key).value_or("");
}

}  // namespace

Head::Head(HeadOptions options_in, std::unique_ptr<state::SqliteJournal> journal_in, Identity identity_in)
    : options(std::move(options_in)),
      journal(std::move(journal_in)),
      identity(std::move(identity_in)),
      clock(journal->opened().meta.now),
      cluster(journal->opened()),
      logs(options.data_dir + "/logs", static_cast<std::uint64_t>(options.logs_reserve),
           options.free_bytes ? options.free_bytes : free_bytes),
      feeds(loop),
      agents(*this),
      started_wall_ms(wall_ms()) {}

Status Head::open() {
    try {
        return open_all();
    } catch (const state::ReadFailed& failed) { return failed.error; }
}

// What agents' messages, orders and the server's threads ask for is in memory: none of them waits for a read.
void Head::remember(const std::string& setting, const std::string& value) {
    constexpr std::string_view left_prefix = "left/";
    if (setting.starts_with("code/") || setting.starts_with("any_user/")) of_submissions[setting] = value;
    if (setting.starts_with(left_prefix)) tokens.set_left(setting.substr(left_prefix.size()), value == "1");
}

Status Head::open_all() {
    std::string id = setting_or(*journal, "cluster_id"), key = setting_or(*journal, "run_token_key");
    if (id.empty()) {
        id = cluster.meta.cluster_id.empty() ? security::random_hex(8) : cluster.meta.cluster_id;
        if (auto saved = journal->save_setting("cluster_id", id); !saved) return saved;
    }
    if (key.empty()) {
        key = security::random_hex(32);
        if (auto saved = journal->save_setting("run_token_key", key); !saved) return saved;
    }
    if (options.name.empty()) options.name = setting_or(*journal, "cluster_name");
    if (options.name.empty()) options.name = "rtrain";
    if (auto saved = journal->save_setting("cluster_name", options.name); !saved) return saved;
    cluster.meta.cluster_id = id;

    tokens.open(journal->tokens(), key);
    for (const char* prefix : {"code/", "any_user/", "left/"})
        for (const auto& [setting, value] : journal->settings(prefix)) remember(setting, value);
    if (auto taken = take_dropped_tokens(*this); !taken) return taken;
    if (auto made = make_admin_token(); !made) return made;
    for (const auto& [run_id, run] : cluster.runs) {
        names.saw(run);
        if (!terminal(run.state)) (void)tokens.run_token(run_id, run.user);
    }
    if (auto known = know_blob_users(*this); !known) return known;
    recall_reports();
    agents.recall_news();
    revocations.open();
    const std::string type = storage::volatile_filesystem(options.storage_root);
    if (!type.empty())
        storage_warning = "not durable: the storage root " + options.storage_root + " is on " + type +
                          ", which does not survive a reboot; start the head with --storage-root on a disk";
    return Done{};
}

// The first way in, also when those there were have all expired or were revoked. Its text is known to nobody but whom
// this start tells: as long as nobody has come in with it, each start makes it anew, so that a first start that failed
// half-way, or could keep no context, locks nobody out.
Status Head::make_admin_token() {
    const auto rows = tokens.rows();
    const bool none = std::none_of(rows.begin(), rows.end(), [now = wall_ms()](const state::TokenRow& row) {
        return row.role == to_text(Role::admin) && opens(row, now);
    });
    unused_admin_ = setting_or(*journal, unused_admin_key);
    const auto unused = tokens.row(unused_admin_);
    if (unused && unused->revoked) unused_admin_.clear();
    if (!none && (!unused || unused->revoked)) return Done{};
    const FreshToken fresh =
        make_token({.role = Role::admin, .user = "admin", .now_wall_ms = wall_ms(), .id = unused_admin_});
    unused_admin_ = fresh.row.id;
    state::Batch batch;
    batch.settings[unused_admin_key] = unused_admin_;
    batch.tokens.push_back(fresh.row);
    batch.audit.push_back({.wall_ms = wall_ms(),
                           .from = "the head's machine",
                           .action = "rtrain head start",
                           .target = "id=" + fresh.row.id + " role=admin user=admin"});
    if (auto saved = journal->commit(batch); !saved) return saved;
    tokens.set(fresh.row);
    admin_token = fresh.text;
    return Done{};
}

void Head::saw(const Caller& caller) {
    if (unused_admin_.empty() || caller.token_id != unused_admin_) return;
    unused_admin_.clear();
    save({.tokens = {}, .settings = {{unused_admin_key, ""}}, .done = {}});
}

// The newest report of each run, as far as the table has it, so that a restart does not make people's lists poorer.
void Head::recall_reports() {
    std::size_t left = recalled_at_most;
    for (auto at = cluster.runs.rbegin(); at != cluster.runs.rend() && left > 0; ++at, --left)
        if (const auto row = journal->last_metrics(at->first)) reports.remember(*row);
}

Status Head::listen() {
    auto listening = net::Server::listen(loop, server_options(*this), [this](net::Request request, auto responder) {
        dispatch(*this, std::move(request), std::move(responder));
    });
    if (!listening) return listening.error();
    server = std::move(*listening);
    return Done{};
}

Status Head::serve() {
    const auto stop = [this] { loop.stop(); };
    loop.on_signal(SIGTERM, stop);
    loop.on_signal(SIGINT, stop);
    agents.start();
    look_for_tokens();
    tidy_up();
    tell_audit_end(*this);
    loop.after(sweep_pause_ms, [this] { sweep(); });
    loop.run();
    if (!*failure) acknowledge();
    settle();
    if (!*failure && queue_.under_way()) *failure = *no_room;
    if (*failure) give_up_waiting();
    feeds.close_all();
    agents.close_all("the head stops");
    server.reset();
    if (*failure) return **failure;
    return Done{};
}

void Head::wake() {
    if (wake_timer_) loop.cancel(*wake_timer_);
    wake_timer_.reset();
    const auto due = next_wake(cluster);
    if (!due) return;
    const std::int64_t delay = std::max((*due - clock.now()).ms, wake_pause_ms);
    wake_timer_ = loop.after(delay, [this] {
        wake_timer_.reset();
        take(TimePassed{});
    });
}

void Head::fail(Error error) {
    if (!*failure) *failure = std::move(error);
    loop.stop();
}

void Head::later_acknowledge() {
    if (std::exchange(acknowledging_, true)) return;
    loop.after(acknowledge_pause_ms, [this] { acknowledge(); });
}

void Head::on_log_thread(std::function<void()> work, net::Loop::Task then) {
    log_writer_.add([this, work = std::move(work), then = std::move(then)]() mutable {
        try {
            work();
        } catch (const std::exception& wrong) {
            std::fprintf(stderr, "rtrain head: %s\n", net::thrown(wrong, "a log file").message.c_str());
        }
        work = nullptr;
        loop.post(std::move(then));
    });
}

void Head::later_sync_logs(const LogName& name, const ToAcknowledge& to) {
    unsynced_[name] = to;
    if (std::exchange(syncing_, true)) return;
    loop.after(log_sync_pause_ms, [this] { sync_logs(); });
}

void Head::sync_logs() {
    auto batch = std::make_shared<Unsynced>(std::exchange(unsynced_, {}));
    loop.offload([directory = logs.directory()] { return rtrain::head::sync_logs(directory); },
                 [](const Error& error) { return error; },
                 [this, batch](const Status& synced) { logs_synced(*batch, synced); });
}

void Head::logs_synced(const Unsynced& batch, const Status& synced) {
    syncing_ = false;
    if (!synced) {
        std::fprintf(stderr, "rtrain head: logs: %s\n", synced.error().message.c_str());
        unsynced_.insert(batch.begin(), batch.end());
    } else {
        for (const auto& [name, to] : batch)
            agents.send(
                to.node,
                protocol::LogAck{.attempt = to.attempt, .rank = name.rank, .stream = name.stream, .offset = to.offset});
    }
    if (unsynced_.empty() || std::exchange(syncing_, true)) return;
    loop.after(log_sync_pause_ms, [this] { sync_logs(); });
}

void Head::look_for_tokens() {
    if (const Status taken = take_dropped_tokens(*this); !taken)
        std::fprintf(stderr, "rtrain head: %s\n", taken.error().message.c_str());
    loop.after(token_look_ms, [this] { look_for_tokens(); });
}

void Head::tidy_up() {
    behind_commits([this, before = wall_ms() - events_kept_ms] { journal->prune_events(before); });
    prune_logs(*this);
    collect_blobs(*this);
    const auto swept = [root = options.storage_root] {  // removals that a head before this one did not finish
        if (const auto done = storage::sweep_aside(root); !done)
            std::fprintf(stderr, "rtrain head: %s\n", done.error().message.c_str());
        sweep_uploads(root, uploads_kept_ms);
    };
    loop.offload_at(options.storage_root, swept, [] {});
}

void Head::sweep() {
    settle();  // what is tidied up is judged by what is on disk
    if (*failure) return;
    tidy_up();
    if (auto leaf = security::make_leaf(identity.authority, "rtrain-head")) {
        identity.leaf = std::move(*leaf);
        server->replace_identity(identity.tls());
    }
    loop.after(sweep_pause_ms, [this] { sweep(); });
}

std::string Head::scratch_path() const {
    static std::atomic<std::uint64_t> counter{0};
    return options.data_dir + "/tmp/" + std::to_string(++counter) + "-" + security::random_hex(4);
}

}  // namespace rtrain::head
