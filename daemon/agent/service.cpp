// The loop: feed, step, perform; the connection to the head; start and adoption.
#include "daemon/agent/service.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/hardware/nvidia_nodes.hpp"
#include "daemon/agent/peers/cluster_store.hpp"
#include "daemon/agent/preparation/places.hpp"
#include "daemon/agent/preparation/storage_access.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "daemon/security/security.hpp"
#include "storage/uri/files/removal.hpp"
#include "storage/uri/s3/s3.hpp"

extern char** environ;

namespace rtrain::agent {
namespace {

constexpr std::chrono::seconds last_requests(5);  // to object stores, of an agent that stops
constexpr std::int64_t reconnect_first_ms = 100, reconnect_last_ms = 2'000, refused_wait_ms = 30'000;
constexpr std::int64_t clear_patience_ms = 10'000, clear_again_ms = 50;
constexpr std::int64_t renew_margin_ms = 30LL * 24 * 3600 * 1000, renew_every_ms = 12LL * 3600 * 1000;

std::map<std::string, std::string> own_environment() {
    std::map<std::string, std::string> out;
    for (char** one = environ; *one; ++one) {
        const std::string text = *one;
        if (const auto equals = text.find('='); equals != std::string::npos)
            out[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return out;
}

// Beside the program, as built; where a package of the system puts it; where pip does, the newest Python first.
std::string find_worker_library(const std::string& program) {
    namespace fs = std::filesystem;
    std::error_code failed;
    const fs::path at = fs::canonical(program, failed).parent_path();
    std::vector<fs::path> places{at, at / "../lib", at / ".."}, packages;
    for (fs::directory_iterator entry(at / "../lib", failed), end; !failed && entry != end; entry.increment(failed))
        for (const char* kind : {"site-packages", "dist-packages"})
            if (entry->path().filename().string().starts_with("python3"))
                packages.push_back(entry->path() / kind / "rtrain/_lib");
    std::sort(packages.rbegin(), packages.rend());
    places.insert(places.end(), packages.begin(), packages.end());
    for (const fs::path& place : places)
        if (const fs::path file = place / "librtrain_worker.so"; fs::exists(file, failed))
            return fs::canonical(file, failed).string();
    return {};
}

std::string boot_id() {
    const auto text = read_whole("/proc/sys/kernel/random/boot_id");
    return text ? text->substr(0, text->find('\n')) : "";
}

Listening listening(const AgentOptions& options, const Identity& identity) {
    return {.host = listening_host(options.address, head_endpoint(identity)), .port = options.peer_port};
}

// A worker cannot have device files made any more: see nvidia_nodes.hpp. NVML needs them too.
Result<Inventory> own_inventory(const AgentOptions& options) {
    const bool root = ::geteuid() == 0;
    if (Status made = root ? make_nvidia_nodes("/proc", "/dev") : Status(Done{}); !made)
        warn(made.error().message + "; " + made.error().next);
    auto found = discover(wishes(options));
    if (found) found->facts["jobs_run_as"] = root ? "their users" : "one user";  // doctor reads it
    return found;
}

}  // namespace

Service::Service(AgentOptions options, Identity identity, DirectoryLock lock, Outbox outbox)
    : options_(std::move(options)),
      identity_(std::move(identity)),
      lock_(std::move(lock)),
      files_{options_.data_dir, options_.scratch.empty()
                                    ? options_.data_dir + "/scratch"
                                    : options_.scratch + "/rtrain-" + identity_.cluster_id + "-" + identity_.node},
      inherited_(passed_on(own_environment(), options_.pass_env)),
      outbox_(std::move(outbox)),
      ports_(static_cast<std::uint16_t>(::getpid() * 101), can_bind) {}

Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::open(const AgentOptions& options, DirectoryLock lock) {
    if (!options.allow_root_workers)
        if (Status safe = check_data_directory(options.data_dir); !safe) return safe.error();
    auto identity = load_identity(options.data_dir);
    if (!identity) return identity.error();
    if (!options.head_host.empty()) {
        identity->head_host = options.head_host;
        identity->head_port = options.head_port;
    }
    auto outbox = Outbox::open(options.data_dir + "/outbox.jsonl");
    if (!outbox) return outbox.error();
    std::unique_ptr<Service> service(new Service(options, std::move(*identity), std::move(lock), std::move(*outbox)));
    if (Status started = service->start(); !started) return started.error();
    return service;
}

Status Service::start() {
    const std::string program = options_.program.empty() ? "/proc/self/exe" : options_.program;
    worker_library_ = find_worker_library(program);
    if (!options_.storage_rules.empty())
        if (auto rules = load_storage_rules(options_.storage_rules); !rules) return rules.error();
    on_head_ = open_cluster_store(head_endpoint(identity_));
    auto inventory = own_inventory(options_);
    if (!inventory) return inventory.error();
    inventory_ = std::move(*inventory);
    if (Status made = make_directory(files_.attempts(), 0711); !made) return made;
    if (Status made = make_scratch_directory(files_.scratch_dir); !made) return made;
    auto path = socket_path(options_.data_dir);
    if (!path) return path.error();
    socket_path_ = *path;
    const auto feed_it = [this](Input input) { feed(std::move(input)); };
    if (Status listening = listen_to_workers(); !listening) return listening.error();
    auto links = GroupLinks::listen_again(loop_, head_endpoint(identity_), listening(options_, identity_),
                                          options_.data_dir + "/peer-port", feed_it);
    if (!links) return links.error();
    links_ = std::move(*links);
    links_->tell_probed([this](AttemptKey key) { return held(key) && held(key)->gear; });
    cgroups_ = Cgroups::open(Cgroups::own_group(), identity_.node + "-" + identity_.cluster_id);
    std::set<std::string> revoked;
    for (const auto& [serial, word] : read_words(files_.revoked())) revoked.insert(serial);
    links_->refuse(std::move(revoked));
    start_parts(program);
    fill_state();
    resume();
    say("node " + identity_.node + " serves cluster " + identity_.cluster_id + ", agents' port " +
        std::to_string(links_->port()));
    return Done{};
}

// Makes the launcher, the runner of setups and the log shipper.
void Service::start_parts(const std::string& program) {
    launcher_ = std::make_unique<Launcher>(
        loop_, program,
        WorkerEvents{.started = [this](AttemptKey key, std::uint32_t rank,
                                       std::int64_t pid) { feed(WorkerStarted_{key, rank, pid}); },
                     .ended =
                         [this](AttemptKey key, std::uint32_t rank, const ExitCause& cause, std::int64_t wall_us) {
                             if (Held* one = held(key)) one->killed = one->killed || cause.signal.has_value();
                             feed(WorkerEnded{key, rank, cause, wall_us});
                         },
                     .oom_kills = [this](AttemptKey key) -> std::optional<std::uint64_t> {
                         return cgroups_ ? cgroups_->oom_kills(key) : std::nullopt;
                     }});
    setups_ = std::make_unique<SetupRunner>(loop_, setups_below(files_.data_dir));
    logs_ = std::make_unique<LogShipper>(loop_, files_, [this](const protocol::LogChunk& chunk) {
        constexpr std::size_t waiting_most = std::size_t{16} << 20;  // what decides never waits behind more logs
        return head_ && state_.registered && head_->waiting() < waiting_most &&
               head_->send(protocol::encode(protocol::FromAgent{chunk}));
    });
    logs_->on_complete = [this](AttemptKey key) { let_go(key); };
}

// Fills the machine's state: the node's inventory, and the news that the head has not acknowledged.
void Service::fill_state() {
    state_.node = identity_.node;
    state_.boot_id = boot_id();
    Labels labels = inventory_.labels;
    for (const auto& [name, value] : options_.labels) labels[name] = value;
    state_.inventory = {.address = options_.address,
                        .port = links_->port(),
                        .labels = labels,
                        .total = inventory_.total,
                        .gpus = inventory_.gpus,
                        .gpu_model = inventory_.gpu_model,
                        .held = {},
                        .next_news = 1,
                        .facts = inventory_.facts};
    state_.scratch_quota = options_.scratch_quota;
    state_.next_news = outbox_.next();
    for (auto& [seq, news] : outbox_.kept()) keep_unacknowledged(state_, std::move(news));
}

// The attempts that an agent before this one has left.
void Service::resume() {
    std::vector<std::string> damaged;
    for (const AttemptImage& image : kept_attempts(files_, live_image, damaged)) adopt(image);
    for (const AttemptImage& image : kept_attempts(files_, ended_image, damaged)) {
        find_rest(image);
        ship_rest(image);
    }
    for (const std::string& text : damaged) warn("left alone: " + text);
}

// An attempt of before a restart: its workers may be running, or have ended meanwhile.
void Service::adopt(const AttemptImage& image) {
    const AttemptKey key = key_of(image.prepare.attempt);
    auto geared = gear_up(facts(), image.prepare, Probing::no);
    if (const auto* why = std::get_if<Trouble>(&geared)) {
        warn("attempt " + attempt_text(image.prepare, image.number) +
             " cannot be adopted, its workers are ended: " + why->why);
        kill_strays(attempt_text(image.prepare, image.number), identity_.node);
        ::unlink((files_.attempt(key) + "/" + live_image).c_str());
        return;
    }
    const Gear gear = std::get<Gear>(geared);
    Held& one = held_[key];
    one.gear = gear;
    one.number = image.number;
    AttemptFound found{.image = image};
    std::vector<std::uint32_t> ranks;
    if (image.launch) {
        one.launch = *image.launch;
        if (auto begin = read_beginning(files_.attempt(key)))
            one.begin = std::move(*begin);
        else if (!image.launch->from.empty())
            warn("a worker of attempt " + attempt_text(image.prepare, image.number) +
                 " that has not begun yet would begin from nothing: " + begin.error().message);
        admit(key, one);
        for (const protocol::LaunchWorker& worker : image.launch->workers) {
            ranks.push_back(worker.rank);
            const auto pid = launcher_->adopt(key, worker.rank, files_.worker(key, worker.rank),
                                              files_.log(key, worker.rank, "err"));
            if (pid) found.workers[worker.rank] = *pid;
        }
        logs_->follow(image.launch->attempt, ranks, static_cast<std::uint64_t>(gear->job.logs_max_bytes));
    }
    say("adopted attempt " + attempt_text(image.prepare, image.number) + " with " +
        std::to_string(found.workers.size()) + " workers");
    one.journal = std::make_shared<Journal>(files_.journal(key));
    feed(std::move(found));
    flush_journal_in(key, 0);
    if (image.uploading && image.prepare.claim) look_for_commit(key, image);
}

// The logs of an attempt that ended before the restart.
void Service::ship_rest(const AttemptImage& image) {
    std::vector<std::uint32_t> ranks;
    if (image.launch)
        for (const protocol::LaunchWorker& worker : image.launch->workers) ranks.push_back(worker.rank);
    protocol::AttemptRef attempt = image.prepare.attempt;
    attempt.number = image.number;
    logs_->follow(attempt, ranks);
    logs_->finish(key_of(attempt), [] {});
}

Status Service::run(const std::function<Status()>& ready) {
    for (const int signal_number : {SIGTERM, SIGINT}) loop_.on_signal(signal_number, [this] { loop_.stop(); });
    loop_.on_signal(SIGHUP, [] {});
    if (Status told = ready(); !told) return told;
    loop_.post([this] { connect(); });
    loop_.post([this] { renew_certificate(); });
    loop_.post([this] { remove_what_is_unused(); });
    loop_.run();
    storage::end_s3_requests_at(std::chrono::steady_clock::now() + last_requests);  // whatever their server does
    if (options_.end_workers)
        end_workers();
    else
        say("node " + identity_.node + " stops; its workers go on and are adopted by the next agent");
    return Done{};
}

void Service::end_workers() {
    for (const auto& [key, one] : held_)
        if (one.gear) kill_strays(attempt_text(one.gear->prepare, one.number), identity_.node);
    std::error_code gone;
    std::filesystem::remove(socket_path_, gone);
    std::filesystem::remove(std::filesystem::path(socket_path_).parent_path(), gone);  // when it is empty
    say("node " + identity_.node + " stops, and its workers with it");
}

NodeFacts Service::facts() const {
    return {.files = files_,
            .node = identity_.node,
            .may_run_as_root = options_.allow_root_workers,
            .allow_setuid = options_.allow_setuid,
            .inherited = inherited_,
            .head = head_endpoint(identity_),
            .on_head = on_head_,
            .storage_rules = options_.storage_rules};
}

Service::Held* Service::held(AttemptKey key) {
    const auto found = held_.find(key);
    return found == held_.end() ? nullptr : &found->second;
}

void Service::feed(Input input) {
    inputs_.push_back(std::move(input));
    if (stepping_) return;
    stepping_ = true;
    while (!inputs_.empty()) {
        Input next = std::move(inputs_.front());
        inputs_.pop_front();
        for (WorkerSaid& said : workers_->posted()) hear(std::move(said));
        hear(std::move(next));
    }
    stepping_ = false;
    set_timer();
}

void Service::hear(Input input) {
    if (auto* said = std::get_if<WorkerSaid>(&input)) refuse_foreign_stage(*said);
    const std::int64_t now = boot_ms();
    state_.wall_minus_now_ms = wall_ms() - now;
    for (Output& output : step(state_, Time{now}, input)) perform(std::move(output));
    workers_->ring();
}

// A timer that fires too early finds nothing to do and sets the next one: cheaper than a new one with every report.
void Service::set_timer() {
    const auto at = next_wake(state_);
    if (!at || (timer_ != 0 && timer_at_ <= *at)) return;
    if (timer_ != 0) loop_.cancel(timer_);
    timer_at_ = *at;
    timer_ = loop_.after(std::max<std::int64_t>(at->ms - boot_ms(), 1), [this] {
        timer_ = 0;
        feed(TimerFired{});
    });
}

// A setup that nobody waits for any more is given up; the machine then hears of it as a preparation that failed.
void Service::obey(protocol::FromHead message) {
    if (const auto* stop = std::get_if<protocol::Stop>(&message)) setups_->cancel(key_of(stop->attempt));
    if (const auto* revoked = std::get_if<protocol::Revoked>(&message)) refuse_revoked(revoked->serials);
    if (const auto* order = std::get_if<protocol::Clear>(&message)) clear(*order, boot_ms() + clear_patience_ms);
    feed(HeadSaid{std::move(message)});
}

// An attempt that still ends here would write into what is removed: the run's own, or one that goes on from its files.
// An end that is on its way there is waited for.
void Service::clear(const protocol::Clear& order, std::int64_t until_ms) {
    for (const auto& [key, attempt] : state_.attempts)
        if (attempt.image.prepare.run_name == order.run_name &&
            storage::same_place(attempt.image.prepare.storage_path, order.storage_path))
            return send(protocol::Cleared{.id = order.id,
                                          .error = "attempt " + std::to_string(attempt.image.number) + " of run " +
                                                   attempt.image.prepare.run_id + " is still there"});
    if (const std::string why = hold_rests(order); !why.empty()) {
        if (boot_ms() >= until_ms) return send(protocol::Cleared{.id = order.id, .error = why});
        loop_.after(clear_again_ms, [this, order, until_ms] { clear(order, until_ms); });
        return;
    }
    offload_at(
        order.storage_path, [facts = facts(), order] { return clear_run(facts, order); },
        [id = order.id](const Error& error) { return protocol::Cleared{.id = id, .error = error.message}; },
        [this, order](const protocol::Cleared& cleared) {
            release_rests(order, cleared.removed);
            send(cleared);
        });
}

// Kept on disk: this agent may start while the head is away.
void Service::refuse_revoked(const std::vector<std::string>& serials) {
    links_->refuse({serials.begin(), serials.end()});
    std::string text;
    for (const std::string& serial : serials) text += serial + " revoked\n";
    if (Status kept = write_whole(files_.revoked(), text, 0600, Durable::no); !kept) warn(kept.error().message);
}

void Service::connect() {
    const std::uint64_t connection = ++connection_;
    const auto is_current = [this, connection] { return connection == connection_; };
    net::SocketEvents events{.on_text =
                                 [this, is_current](const std::string& text) {
                                     if (!is_current()) return;
                                     auto message = protocol::decode_from_head(text);
                                     if (message) return obey(std::move(*message));
                                     warn("the head said what this agent cannot read: " + message.error().message);
                                 },
                             .on_closed =
                                 [this, is_current](const std::string& why) {
                                     if (is_current()) lost_head(why);
                                 }};
    net::dial_socket(
        loop_, head_endpoint(identity_), "/v1/agents", std::move(events),
        [this, is_current](Result<std::shared_ptr<net::Socket>> socket) {
            if (!is_current()) return;
            if (!socket) {
                if (reconnect_ms_ == reconnect_first_ms) warn("the head cannot be reached: " + socket.error().message);
                if (socket.error().code == ErrorCode::unauthorised) ask_whether_turned_away();
                return connect_later();
            }
            head_ = *socket;
            reconnect_ms_ = reconnect_first_ms;
            say("connected to the head at " + identity_.head_host + ":" + std::to_string(identity_.head_port));
            feed(HeadConnected{});
        });
}

// A refusal may come from a stranger in the head's place; what the head itself says ends the workers here.
void Service::ask_whether_turned_away() {
    if (state_.attempts.empty()) return;
    offload([identity = identity_] { return turned_away(identity); }, [](const Error&) { return false; },
            [this](bool away) {
                if (away) feed(HeadSaid{protocol::Refuse{.message = "this node has left the cluster", .left = true}});
            });
}

void Service::connect_later() {
    ++connection_;
    loop_.after(reconnect_ms_, [this] { connect(); });
    reconnect_ms_ =
        std::min(std::max(reconnect_ms_ * 2, reconnect_first_ms), std::max(reconnect_last_ms, reconnect_ms_));
}

void Service::lost_head(const std::string& why) {
    warn("the connection to the head is gone: " + why + "; workers go on");
    head_.reset();
    feed(HeadDisconnected{});
    logs_->disconnected();
    connect_later();
}

void Service::send(const protocol::FromAgent& message) {
    if (head_ && !head_->send(protocol::encode(message)))  // what did not go out is sent again on the next connection
        head_->close("more waits to be sent than the connection holds");
}

void Service::renew_certificate() {
    offload(
        [identity = identity_, data = options_.data_dir]() mutable -> Result<Identity> {
            auto renewed = renew(identity, data, wall_ms(), renew_margin_ms);
            if (!renewed) return renewed.error();
            return identity;
        },
        [this](Result<Identity> identity) {
            if (!identity) warn("the certificate could not be renewed: " + identity.error().message);
            if (identity && identity->certificate != identity_.certificate) {
                identity_.certificate = identity->certificate;
                identity_.private_key = identity->private_key;
                on_head_ = open_cluster_store(head_endpoint(identity_));
                links_->replace_identity(head_endpoint(identity_));
                say("the node's certificate was renewed");
            }
            loop_.after(renew_every_ms, [this] { renew_certificate(); });
        });
}

}  // namespace rtrain::agent

namespace rtrain {

Status run_agent(const AgentOptions& options, const std::function<Status()>& ready) {
    auto lock = agent::DirectoryLock::take(options.data_dir);
    if (!lock) return lock.error();
    auto service = agent::Service::open(options, std::move(*lock));
    if (!service) return service.error();
    return (*service)->run(ready);
}

}  // namespace rtrain
