// The agent's end of the sockets to its keepers. It never waits for one.
#include "daemon/agent/warm/keepers.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/warm/template_text.hpp"

namespace rtrain::agent {
namespace {

constexpr int socket_descriptor = 3, keeper_variables = 4;  // the keeper's numbers
constexpr std::size_t packet_max = 100'000, room_min = 64'000;

void close_all(std::initializer_list<int> descriptors) {
    for (const int descriptor : descriptors)
        if (descriptor >= 0) ::close(descriptor);
}

std::vector<std::string> arguments_of(const TemplateSpec& spec, const std::string& log) {
    std::vector<std::string> words{"rtrain",
                                   "__keeper",
                                   log,
                                   std::to_string(spec.user.uid),
                                   std::to_string(spec.user.gid),
                                   spec.user.name,
                                   spec.allow_setuid ? "allow-setuid" : "no-setuid",
                                   "--",
                                   spec.python,
                                   "-c",
                                   template_text};
    words.insert(words.end(), spec.modules.begin(), spec.modules.end());
    return words;
}

// Adds a variable that reserves room: a worker's environment must fit into the template's area of /proc/PID/environ.
std::map<std::string, std::string> with_room(Environment environment) {
    std::size_t bytes = room_min;
    for (const auto& [name, value] : environment) bytes += name.size() + value.size() + 2;
    environment["RTRAIN_TEMPLATE_ROOM"] = std::string(std::min<std::size_t>(bytes, 120'000), 'x');
    return environment;
}

// Returns the keeper's pid, or -errno. The keeper inherits the two descriptors and an empty environment.
pid_t spawn_keeper(const std::string& program, std::vector<std::string> words, int socket, int variables) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, socket, socket_descriptor);
    ::posix_spawn_file_actions_adddup2(&actions, variables, keeper_variables);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, keeper_variables + 1);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    char* nothing[] = {nullptr};
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers.data(), nothing);
    ::posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? pid : -error;
}

std::int64_t resident_bytes(std::int64_t pid) {
    const auto text = read_whole("/proc/" + std::to_string(pid) + "/statm");
    const auto space = text ? text->find(' ') : std::string::npos;
    return space == std::string::npos ? 0 : std::strtoll(text->c_str() + space, nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

std::string packet_of(std::uint64_t number, const WorkerStart& worker, const WarmStart& start, int variables) {
    struct stat facts{};
    ::fstat(variables, &facts);
    const auto entry = [&worker](const char* name) {
        const auto value = worker.environment.find(name);
        return std::string(name) + "=" + (value == worker.environment.end() ? "" : value->second);
    };
    std::vector<std::string> words{std::to_string(number),
                                   worker.directory,
                                   worker.out,
                                   worker.err,
                                   entry("RTRAIN_ATTEMPT"),
                                   entry("RTRAIN_NODE"),
                                   entry("RANK"),
                                   std::to_string(worker.wait_ms),
                                   std::to_string(start.threads),
                                   std::to_string(facts.st_size)};
    words.insert(words.end(), start.folders.begin(), start.folders.end());
    words.push_back("--");
    words.push_back(worker.cwd);
    words.insert(words.end(), start.program.begin(), start.program.end());
    std::string packet;
    for (const std::string& word : words) packet.append(word).push_back('\0');
    return packet;
}

// Returns the pid of the sentinel in the worker's `started`; 0 if the keeper has not written it.
pid_t sentinel_of(const std::string& directory) {
    const auto started = read_values(directory + "/started");
    const auto sentinel = started.find("shim");
    return sentinel == started.end() ? 0 : static_cast<pid_t>(std::strtol(sentinel->second.c_str(), nullptr, 10));
}

bool send_with(int socket, const std::string& packet, int descriptor) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{const_cast<char*>(packet.data()), packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

}  // namespace

struct Keepers::Keeper {
    struct Pending {
        ForkEvents events;
        std::string directory;
    };
    Number number = 0;
    std::string key;
    TemplateEnd end{};
    int socket = -1;
    bool let_go = false;                       // the agent sends no more orders
    bool has_started = false;                  // the keeper has started a worker, which may live
    std::map<std::uint64_t, Pending> pending;  // by the number of the order
    net::Loop::TimerId deadline = 0;           // for the next answer; 0: none is pending
};

Keepers::Keepers(net::Loop& loop, std::string program, KeeperEvents events, std::int64_t patience_ms)
    : loop_(loop), program_(std::move(program)), events_(std::move(events)), patience_ms_(patience_ms) {}

Keepers::~Keepers() {
    for (auto& [number, keeper] : keepers_) {
        loop_.cancel(keeper->deadline);
        loop_.unwatch(keeper->socket);
        ::close(keeper->socket);
    }
    for (const auto& [number, child] : children_) {
        loop_.unwatch(child.pidfd);
        ::close(child.pidfd);
    }
}

Status Keepers::begin(const TemplateSpec& spec, const std::string& log) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return Error{ErrorCode::internal, std::string("no socket for a keeper: ") + std::strerror(errno), ""};
    const int sealed = sealed_environment(with_room(spec.environment));
    const int theirs = ::fcntl(ends[1], F_DUPFD_CLOEXEC, keeper_variables + 1);
    const int variables = sealed < 0 ? -1 : ::fcntl(sealed, F_DUPFD_CLOEXEC, keeper_variables + 1);
    ::unlink(log.c_str());
    const bool whole = theirs >= 0 && variables >= 0;
    const pid_t pid = whole ? spawn_keeper(program_, arguments_of(spec, log), theirs, variables) : -EMFILE;
    const int pidfd = pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1;
    const int error = pid < 0 ? -pid : errno;
    close_all({ends[1], sealed, theirs, variables});
    if (pidfd < 0) {
        ::close(ends[0]);
        if (pid > 0 && ::kill(pid, SIGKILL) == 0) ::waitpid(pid, nullptr, 0);
        return Error{ErrorCode::internal, std::string("no keeper could be started: ") + std::strerror(error), ""};
    }
    const Number number = ++last_keeper_;
    children_[number] = {pid, pidfd};
    loop_.watch_readable(pidfd, [this, number] { reap(number); });
    auto keeper = std::make_unique<Keeper>();
    keeper->number = number;
    keeper->key = spec.key;
    keeper->socket = ends[0];
    keepers_[number] = std::move(keeper);
    current_[spec.key] = number;
    loop_.watch_readable(ends[0], [this, number] { on_packet(number); });
    return Done{};
}

void Keepers::reap(Number number) {
    const Child child = children_.at(number);
    loop_.unwatch(child.pidfd);
    ::close(child.pidfd);
    children_.erase(number);
    ::waitpid(child.pid, nullptr, WNOHANG);
}

void Keepers::end(const std::string& key) {
    const auto place = current_.find(key);
    if (place != current_.end()) let_go(*keepers_.at(place->second));
}

void Keepers::on_packet(Number number) {
    const auto place = keepers_.find(number);
    if (place == keepers_.end()) return;
    char text[1'024];
    const ssize_t got = ::recv(place->second->socket, text, sizeof text, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lost(number);
    take(*place->second, std::string(text, static_cast<std::size_t>(got)));
}

void Keepers::take(Keeper& keeper, const std::string& packet) {
    const auto first = packet.find(' ');
    const std::string word = packet.substr(0, first), rest = first == std::string::npos ? "" : packet.substr(first + 1);
    if (word == "ready" && !keeper.let_go) {
        const std::int64_t pid = std::strtoll(rest.c_str(), nullptr, 10);
        return events_.ready(std::string(keeper.key), pid, resident_bytes(pid));
    }
    if (word == "unfit") keeper.end.unfit = rest;
    if (word == "gone") {
        keeper.end.failed = rest;
        return let_go(keeper);
    }
    if (word != "started" && word != "refused") return;
    char* end = nullptr;
    const std::uint64_t order = std::strtoull(rest.c_str(), &end, 10);
    if (word == "started")
        take_answer(keeper, order, {.sentinel = static_cast<pid_t>(std::strtol(end, nullptr, 10))});
    else
        take_answer(keeper, order, {.why = *end == ' ' ? end + 1 : end});
}

// May remove `keeper`.
void Keepers::take_answer(Keeper& keeper, std::uint64_t order, const Answer& answer) {
    const auto place = keeper.pending.find(order);
    if (place == keeper.pending.end()) return;
    const auto answered = std::move(place->second.events.answered);
    keeper.pending.erase(place);
    if (answer.sentinel != 0) keeper.has_started = true;
    await_answer(keeper);
    if (keeper.let_go && keeper.pending.empty()) {
        close_socket(keeper);
        keepers_.erase(keeper.number);
    }
    answered(answer);
}

void Keepers::await_answer(Keeper& keeper) {
    if (keeper.deadline != 0) loop_.cancel(keeper.deadline);
    keeper.deadline = 0;
    if (!keeper.pending.empty())
        keeper.deadline = loop_.after(patience_ms_, [this, number = keeper.number] { on_silence(number); });
}

// Closes the socket after the present task. The task may be the socket's own, and a descriptor that it opens must not
// get the socket's number.
void Keepers::close_socket(Keeper& keeper) {
    if (keeper.deadline != 0) loop_.cancel(keeper.deadline);
    loop_.unwatch(keeper.socket);
    ::shutdown(keeper.socket, SHUT_WR);
    loop_.next([socket = keeper.socket] { ::close(socket); });
}

// Ends the orders to a keeper. The keeper answers the orders that lie in the socket, reads the end and ends its
// template. Shuts only the writing side: after a whole close the keeper would start no worker, as after the agent's
// death.
void Keepers::let_go(Keeper& keeper) {
    if (keeper.let_go) return;
    const std::string key = keeper.key;
    const TemplateEnd end = keeper.end;
    keeper.let_go = true;
    current_.erase(key);
    if (keeper.pending.empty()) {
        close_socket(keeper);
        keepers_.erase(keeper.number);
    } else {
        ::shutdown(keeper.socket, SHUT_WR);
    }
    events_.ended(key, end);
}

// Kills a silent keeper only if it has no workers, since its end would kill them. Otherwise its orders stay pending
// until the keeper answers or ends, because it may start their workers as long as it lives.
void Keepers::on_silence(Number number) {
    const auto place = keepers_.find(number);
    if (place == keepers_.end()) return;
    Keeper& keeper = *place->second;
    keeper.deadline = 0;
    bool has_started = keeper.has_started;
    for (const auto& [order, pending] : keeper.pending)
        has_started = has_started || sentinel_of(pending.directory) != 0;
    const auto child = children_.find(number);
    if (!has_started && child != children_.end())
        ::syscall(SYS_pidfd_send_signal, child->second.pidfd, SIGKILL, nullptr, 0);
    const std::string silent = "its keeper did not answer for " + std::to_string(patience_ms_ / 1'000) + " s";
    keeper.end.failed = silent + (has_started ? "" : ", and was ended");
    warn("a start of warm workers fails: " + keeper.end.failed +
         (has_started ? "; it has workers, and is left alone: " + std::to_string(keeper.pending.size()) +
                            " more start when it goes on, or are refused"
                      : ""));
    std::vector<std::function<void(const std::string&)>> waiting;
    for (const auto& [order, pending] : keeper.pending)
        if (has_started) waiting.push_back(pending.events.waits);
    for (const auto& waits : waiting) waits(silent + " and has other workers, so it is not ended");
    let_go(keeper);
}

// Decides the pending orders after the keeper has ended or has read all of them. A worker has started if its `started`
// is written, and cannot start later if not: the keeper writes first, and takes no order of an agent that has ended.
void Keepers::lost(Number number) {
    const auto place = keepers_.find(number);
    if (place == keepers_.end()) return;
    const std::unique_ptr<Keeper> keeper = std::move(place->second);
    keepers_.erase(place);
    close_socket(*keeper);
    if (!keeper->let_go) current_.erase(keeper->key);
    if (keeper->end.failed.empty()) keeper->end.failed = "its keeper has ended";
    for (auto& [order, pending] : keeper->pending) {
        const pid_t sentinel = sentinel_of(pending.directory);
        pending.events.answered({.sentinel = sentinel, .why = sentinel == 0 ? keeper->end.failed : ""});
    }
    if (!keeper->let_go) events_.ended(keeper->key, keeper->end);
}

void Keepers::fork_worker(const std::string& key, const WorkerStart& worker, const WarmStart& start,
                          ForkEvents events) {
    const auto refuse = [this, answered = events.answered](const std::string& why) {
        loop_.post([answered, why] { answered({.why = why}); });
    };
    const auto place = current_.find(key);
    if (place == current_.end()) return refuse("its template has ended");
    Keeper& keeper = *keepers_.at(place->second);
    const std::uint64_t number = ++last_order_;
    const int variables = sealed_environment(start.environment);
    if (variables < 0)
        return refuse(std::string("its environment cannot be handed over: ") + std::strerror(-variables));
    const std::string packet = packet_of(number, worker, start, variables);
    if (packet.size() > packet_max) {
        ::close(variables);
        return refuse("its arguments are too long");
    }
    write_place(worker);
    const bool sent = send_with(keeper.socket, packet, variables);
    ::close(variables);
    if (!sent) return refuse("its keeper takes no order");
    keeper.pending[number] = {.events = std::move(events), .directory = worker.directory};
    if (keeper.deadline == 0) await_answer(keeper);
}

}  // namespace rtrain::agent
