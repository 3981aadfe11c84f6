// See parts.hpp.
#include "daemon/head/parts.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "daemon/head/access/dropped_tokens.hpp"
#include "daemon/head/loop/auditing.hpp"
#include "daemon/head/sessions/counting.hpp"
#include "daemon/head/view/record_bytes.hpp"
#include "daemon/security/security.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t recalled_at_most = 100;  // the most runs whose newest report is loaded at a start
// key of the setting with the hash of the queues file that was read last
constexpr const char* queues_file_setting = "queues_file";

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

Head::Head(Opened opened)
    : options_(std::move(opened.options)),
      facts_{.started_wall_ms = wall_ms()},
      journal_(std::move(opened.journal)),
      identity_(std::move(opened.identity)),
      clock_(journal_->opened().meta.now),
      bytes_({}),
      reserve_(opened.reserve),
      events_(loop_, *journal_, clock_, metrics_),
      reports_(bytes_),
      view_{events_.cluster(), clock_, names_, reports_, waits_},
      feeds_(loop_),
      planner_(events_.cluster(), loop_),
      history_(loop_, options_.data_dir),
      logs_({loop_, events_, feeds_, options_, bytes_,
             [this](const std::string& node, const protocol::FromHead& message) { sessions_.send(node, message); }}),
      submissions_(options_, view_, events_, bytes_),
      blobs_({loop_, events_, [this](std::function<void()> work) { events_.behind_commits(std::move(work)); }, view_,
              options_, *journal_, submissions_, bytes_}),
      stored_(loop_, view_, options_, bytes_),
      credentials_(tokens_, browser_sessions_),
      revocations_(loop_, *journal_, tokens_,
                   [this](std::vector<std::string> serials) { sessions_.revoke(std::move(serials)); }),
      ownership_(view_, options_, *journal_),
      news_(events_, view_, reports_, metrics_),
      sessions_({loop_, events_, events_, view_, waits_, options_, metrics_, tokens_, revocations_, news_, logs_,
                 history_,
                 [this](const std::string& host, std::uint16_t port, std::int64_t patience_ms, auto done) {
                     net::dial_port(loop_, host, port, patience_ms, std::move(done));
                 }}),
      orders_(loop_, options_, view_, sessions_, submissions_, tokens_),
      metrics_page_({loop_, view_, sessions_, metrics_, bytes_, options_.data_dir}),
      autoscaler_({loop_, events_, events_.cluster(), clock_, metrics_, options_,
                   [this](const std::string& node) { release_node(node); }}),
      api_({loop_, events_, events_, view_, options_, metrics_, credentials_, first_admin_, ownership_, bytes_, stored_,
            Parts(options_, facts_, stop_, *journal_, identity_, tokens_, revocations_, ownership_, submissions_,
                  blobs_, part_uploads_, history_, logs_, log_answers_, feeds_, planner_, sessions_, autoscaler_,
                  metrics_page_, browser_sessions_, credentials_, bytes_, value_locks_, stored_)}) {
    connect();
    TraceSettings& traces = opened.traces;
    if (traces.url.empty()) return;
    spans_.emplace([this](Time time) { return clock_.to_wall(time); }, clock_.now());
    traces_.emplace(loop_, metrics_, std::move(traces));
    news_.on_first_report([this](const AttemptId& attempt) { spans_->first_report(attempt); });
}

void Head::connect() {
    events_.connect({.decided = [this](const Decisions& decisions) { follow(decisions); },
                     .orders = [this](const std::vector<Effect>& effects) { return orders_.orders(effects); },
                     .rows_elsewhere = [this] { return reports_.waiting(); },
                     .collect = [this](Pending& batch) { collect(batch); },
                     .saved = [this](const Pending& batch) { saved(batch); },
                     .performed = [this](const Decisions& decisions) { after(decisions); },
                     .acknowledge = [this] { sessions_.acknowledge(); }});
}

// Updates indexes and copies after events were decided.
void Head::follow(const Decisions& decisions) {
    for (const Decision& decision : decisions.by_event)
        for (const Record& record : decision.save) {
            head::follow(bytes_, record);
            if (const Run* run = std::get_if<Run>(&record)) names_.saw(*run);
            if (const Attempt* placed = std::get_if<Attempt>(&record); placed && placed->placed_at == decisions.now)
                count_placed(metrics_, events_.cluster(), *placed);
            if (const Attempt* ended = std::get_if<Attempt>(&record); ended && terminal(ended->state))
                waits_.end(ended->id);
            if (const EraseRun* gone = std::get_if<EraseRun>(&record)) names_.forget(gone->id);
        }
    end_at_limit(decisions);
    planner_.saw(decisions);
    if (traces_) traces_->add(spans_->decided(events_.cluster(), decisions));
}

// Ends runs whose users have reached their limit. Each failed attempt is kept, also in memory, so such a run makes no
// further one.
void Head::end_at_limit(const Decisions& decisions) {
    const Cluster& cluster = events_.cluster();
    for (const Decision& decision : decisions.by_event)
        for (const Record& record : decision.save) {
            const Attempt* attempt = std::get_if<Attempt>(&record);
            if (!attempt || !attempt->counted || !terminal(attempt->state)) continue;
            const auto run = cluster.runs.find(attempt->id.run);
            if (run == cluster.runs.end() || run->second.state != RunState::recovering) continue;
            const Status may = bytes_.within_limit(run->second.user, Kept::attempts, bytes_of(*attempt));
            if (may) continue;
            const UserLimitReached event{.run = run->first, .limit = may.error().message + "; " + may.error().next};
            // the event is sent after the present decisions are complete
            loop_.post([this, event] { events_.take(event); });
        }
}

void Head::collect(Pending& batch) {
    batch.batch.metrics = reports_.to_save();
    news_.add_numbers(batch);
    revocations_.add_changes(batch);
    browser_sessions_.add_changes(batch.batch.settings);
    waits_.add_changes(batch.batch.settings, monotonic_ms());
}

void Head::saved(const Pending& batch) {
    news_.numbers_saved(batch);
    revocations_.saved(batch);
    const state::Batch& rows = batch.batch;
    reports_.saved(rows.metrics, batch.grown.reports);
    for (const auto& [run, size] : batch.grown.events)
        if (const std::string user = bytes_.user_of(run); !user.empty())
            bytes_.add(user, Kept::events, {.database = size});
    for (const auto& [user, size] : batch.grown.audit) bytes_.add(user, Kept::audit, {.database = size});
    for (const state::MetricRow& row : rows.metrics) history_.reported(row.attempt.run);
    if (!rows.entries.empty() || !rows.notices.empty() || !rows.metrics.empty()) feeds_.poke();
}

// Runs when the decisions are durable and their orders are sent, for the ends of runs.
void Head::after(const Decisions& decisions) {
    if (traces_) traces_->add(spans_->durable(events_.cluster(), decisions, clock_.now()));
    for (const Decision& decision : decisions.by_event)
        for (const Record& record : decision.save) {
            if (const Run* run = std::get_if<Run>(&record); run && terminal(run->state)) {
                submissions_.forget_secrets(*run);
                tokens_.forget_run(run->id);
                reports_.end(run->id);
            }
            if (const EraseRun* gone = std::get_if<EraseRun>(&record)) {
                reports_.forget(gone->id);
                logs_.forget(gone->id);
                history_.forget(gone->id);
                forget_waits(gone->id);
            }
        }
}

void Head::forget_waits(RunId run) {
    events_.behind_commits([this, keys = waits_.forget(run)] {
        if (const Status erased = journal_->erase_settings(keys); !erased)
            std::fprintf(stderr, "rtrain head: %s\n", erased.error().message.c_str());
    });
}

Status Head::open() {
    try {
        return open_all();
    } catch (const state::ReadFailed& failed) { return failed.error; }
}

// Returns the key from which runs' tokens are derived. The first start makes that key, and the cluster's id.
Result<std::string> Head::name_cluster() {
    const Cluster& cluster = events_.cluster();
    std::string id = journal_->setting("cluster_id").value_or(""),
                key = journal_->setting("run_token_key").value_or("");
    if (id.empty()) {
        id = cluster.meta.cluster_id.empty() ? security::random_hex(8) : cluster.meta.cluster_id;
        if (auto saved = journal_->save_setting("cluster_id", id); !saved) return saved.error();
    }
    if (key.empty()) {
        key = security::random_hex(32);
        if (auto saved = journal_->save_setting("run_token_key", key); !saved) return saved.error();
    }
    if (options_.name.empty()) options_.name = journal_->setting("cluster_name").value_or("");
    if (options_.name.empty()) options_.name = "rtrain";
    if (auto saved = journal_->save_setting("cluster_name", options_.name); !saved) return saved.error();
    // A backup that runs without this process reads this setting. The default is stored as an empty text, so that a
    // restored directory uses its own default.
    const bool is_default = options_.storage_root == options_.data_dir + "/storage";
    const std::string root = is_default ? "" : options_.storage_root;
    if (journal_->setting(storage_root_setting).value_or("") != root)
        if (auto saved = journal_->save_setting(storage_root_setting, root); !saved) return saved.error();
    events_.name_cluster(id);
    return key;
}

// Loads the data that the parts need in memory. Messages of agents, orders and the server's threads use memory only, so
// none of them waits for a read.
Status Head::open_all() {
    const Cluster& cluster = events_.cluster();
    const auto key = name_cluster();
    if (!key) return key.error();
    tokens_.open(journal_->tokens(), *key);
    if (auto opened = open_browser_sessions(); !opened) return opened;
    submissions_.recall(*journal_);
    constexpr const char* left_prefix = "left/";
    for (const auto& [setting, value] : journal_->settings(left_prefix))
        tokens_.set_left(setting.substr(std::string(left_prefix).size()), value == "1");
    if (auto taken = take_dropped_tokens(options_.data_dir, *journal_, tokens_); !taken) return taken;
    if (auto status = first_admin_.open(*journal_, tokens_, options_.again); !status) return status;
    for (const auto& [run_id, run] : cluster.runs) {
        names_.saw(run);
        if (!terminal(run.state)) (void)tokens_.run_token(run_id, run.user);
    }
    if (auto known = blobs_.recall_users(); !known) return known;
    if (auto counted = count_kept(); !counted) return counted;
    // Loads the newest report of each of the newest runs, so that lists look the same after a restart.
    std::size_t left = recalled_at_most;
    for (auto at = cluster.runs.rbegin(); at != cluster.runs.rend() && left > 0; ++at, --left)
        if (const auto row = journal_->last_metrics(at->first)) reports_.remember(*row);
    news_.recall(*journal_);
    waits_.recall(journal_->settings(Waits::prefix));
    revocations_.open();
    const std::string type = storage::volatile_filesystem(options_.storage_root);
    if (!type.empty())
        facts_.storage_warning = "not durable: the storage root " + options_.storage_root + " is on " + type +
                                 ", which does not survive a reboot; start the head with --storage-root on a disk";
    return Done{};
}

Status Head::open_browser_sessions() {
    std::set<std::string> names(options_.page_names.begin(), options_.page_names.end());
    if (const std::string name = host_name(); !name.empty()) names.insert(name);
    credentials_.name(BrowserRequests(view_.cluster.meta.cluster_id, std::move(names)));
    const auto saved = journal_->settings(BrowserSessions::prefix);
    return journal_->erase_settings(browser_sessions_.open(saved, tokens_, wall_ms()));
}

Status Head::listen(std::size_t connections_max) {
    auto listening = net::Server::listen(
        loop_, api_.server_options(identity_, connections_max),
        [this](net::Request request, auto responder) { api_.dispatch(std::move(request), std::move(responder)); });
    if (!listening) return listening.error();
    server_ = std::move(*listening);
    facts_.port = server_->port();
    return Done{};
}

Result<HeadListening> Head::announce() {
    HeadListening out;
    out.port = facts_.port;
    out.cluster_id = view_.cluster.meta.cluster_id;
    out.name = options_.name;
    out.ca = identity_.authority.certificate;
    out.ca_fingerprint = identity_.ca_fingerprint;
    out.admin_token = first_admin_.hand_over();
    if (!facts_.storage_warning.empty()) out.warnings.push_back(facts_.storage_warning);
    // only a first start makes a join token, since an admin can make further ones
    if (out.admin_token.empty()) return out;
    const FreshToken join = make_token({.role = Role::node,
                                        .user = "",
                                        .now_wall_ms = wall_ms(),
                                        .expires_wall_ms = wall_ms() + options_.join_token_ms,
                                        .uses_left = 1,
                                        .ca_fingerprint = identity_.ca_fingerprint});
    if (auto saved = journal_->save_token(join.row); !saved) return saved.error();
    tokens_.set(join.row);
    out.join_token = join.text;
    out.join_token_expires_wall_ms = join.row.expires_wall_ms;
    return out;
}

void Head::begin(const std::optional<QuarantinePolicy>& quarantine, std::function<void()> ready) {
    if (traces_) traces_->open({.cluster_id = view_.cluster.meta.cluster_id, .cluster_name = options_.name});
    const HeadStarted here{.wall_ms = facts_.started_wall_ms, .quarantine = quarantine};
    // The file is applied only if it has changed since the last start, so that changes made through the API stay in
    // force.
    const std::string print = options_.queues ? security::sha256_hex(options_.queues_text) : "";
    const bool configures = options_.queues && journal_->setting(queues_file_setting) != print;
    const auto serves = [this, ready = std::move(ready)] {
        ready();
        facts_.ready = true;
    };
    // HeadStarted must be the first event: the core would wait for ever for a node that registered before it. The
    // charts' history is opened after the records are durable, since records come first on a nearly full disk.
    events_.take(here, [this, configures, serves](const Decision&) {
        history_.open(events_.cluster());
        measure_use();
        if (!configures) serves();
    });
    if (!configures) return;
    const auto row =
        std::make_shared<std::optional<state::AuditRow>>(state::AuditRow{.wall_ms = facts_.started_wall_ms,
                                                                         .from = "the head's machine",
                                                                         .action = "rtrain head start",
                                                                         .target = "queues=" + options_.queues_file});
    const Auditing scope(events_, row);
    events_.take(QueuesConfigured{.queues = *options_.queues, .by = options_.queues_file},
                 [this, print, serves](const Decision& decision) {
                     if (decision.refused) return events_.fail(*decision.refused);
                     events_.save({.tokens = {}, .settings = {{queues_file_setting, print}}, .done = {}});
                     serves();
                 });
}

Status Head::serve() {
    loop_.on_signal(SIGTERM, stop_.now);
    loop_.on_signal(SIGINT, stop_.now);
    sessions_.start();
    look_at_disk();
    look_for_tokens();
    tidy_up();
    log_audit_end();
    archive_audit();
    sweep_later();
    measure_storage();
    if (options_.alive) send_alive();
    autoscaler_.start(journal_->setting(Autoscaler::setting));
    loop_.run();
    autoscaler_.stop();
    const Status ended = events_.finish();
    feeds_.close_all();
    sessions_.close_all("the head stops");
    server_.reset();
    history_.finish();
    if (traces_) traces_->finish();
    return ended;
}

}  // namespace rtrain::head
