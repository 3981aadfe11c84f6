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

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/warm/template_text.hpp"

namespace rtrain::agent {
namespace {

constexpr int socket_descriptor = 3, variables_descriptor = 4;  // of the keeper
constexpr std::size_t packet_max = 100'000, room_min = 64'000;
constexpr std::int64_t order_ms = 60'000;  // the keeper's own waits are 10 s, and its template's end

void close_all(std::initializer_list<int> descriptors) {
    for (const int one : descriptors)
        if (one >= 0) ::close(one);
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

// A child's environment must fit in what the template shows as its own.
std::map<std::string, std::string> with_room(Environment environment) {
    std::size_t bytes = room_min;
    for (const auto& [name, value] : environment) bytes += name.size() + value.size() + 2;
    environment["RTRAIN_TEMPLATE_ROOM"] = std::string(std::min<std::size_t>(bytes, 120'000), 'x');
    return environment;
}

// The keeper's pid, or -errno. It gets nothing of ours but the two descriptors, and no environment.
pid_t spawn_keeper(const std::string& program, std::vector<std::string> words, int socket, int variables) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, socket, socket_descriptor);
    ::posix_spawn_file_actions_adddup2(&actions, variables, variables_descriptor);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, variables_descriptor + 1);
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
        std::function<void(const Answer&)> answer;
        std::string directory;
        net::Loop::TimerId deadline = 0;
    };
    std::string key, unfit;
    pid_t pid = -1;
    int socket = -1;
    std::map<std::uint64_t, Pending> pending;  // by the number of the order
};

Keepers::Keepers(net::Loop& loop, std::string program, KeeperEvents events)
    : loop_(loop), program_(std::move(program)), events_(std::move(events)) {}

Keepers::~Keepers() {
    for (auto& [key, keeper] : keepers_) {
        loop_.unwatch(keeper->socket);
        ::close(keeper->socket);
        for (auto& [number, order] : keeper->pending) loop_.cancel(order.deadline);
    }
    for (const auto& [pid, pidfd] : children_) {
        loop_.unwatch(pidfd);
        ::close(pidfd);
    }
}

Status Keepers::begin(const TemplateSpec& spec, const std::string& log) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return Error{ErrorCode::internal, std::string("no socket for a keeper: ") + std::strerror(errno), ""};
    const int sealed = sealed_environment(with_room(spec.environment));
    const int theirs = ::fcntl(ends[1], F_DUPFD_CLOEXEC, variables_descriptor + 1);
    const int variables = sealed < 0 ? -1 : ::fcntl(sealed, F_DUPFD_CLOEXEC, variables_descriptor + 1);
    ::unlink(log.c_str());
    const bool whole = theirs >= 0 && variables >= 0;
    const pid_t pid = whole ? spawn_keeper(program_, arguments_of(spec, log), theirs, variables) : -EMFILE;
    close_all({ends[1], sealed, theirs, variables});
    const int pidfd = pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1;
    if (pidfd < 0) {
        ::close(ends[0]);
        return Error{ErrorCode::internal,
                     std::string("no keeper could be started: ") + std::strerror(pid < 0 ? -pid : errno), ""};
    }
    children_[pid] = pidfd;
    loop_.watch_readable(pidfd, [this, pid, pidfd] { reap(pid, pidfd); });
    auto keeper = std::make_unique<Keeper>();
    keeper->key = spec.key;
    keeper->pid = pid;
    keeper->socket = ends[0];
    keepers_[spec.key] = std::move(keeper);
    loop_.watch_readable(ends[0], [this, key = spec.key] { on_packet(key); });
    return Done{};
}

void Keepers::reap(pid_t pid, int pidfd) {
    loop_.unwatch(pidfd);
    ::close(pidfd);
    children_.erase(pid);
    ::waitpid(pid, nullptr, WNOHANG);
}

void Keepers::end(const std::string& key) { lost(key); }

void Keepers::on_packet(const std::string& key) {
    const auto place = keepers_.find(key);
    if (place == keepers_.end()) return;
    char text[1'024];
    const ssize_t got = ::recv(place->second->socket, text, sizeof text, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lost(key);
    take(*place->second, std::string(text, static_cast<std::size_t>(got)));
}

void Keepers::take(Keeper& keeper, const std::string& packet) {
    const auto first = packet.find(' ');
    const std::string word = packet.substr(0, first), rest = first == std::string::npos ? "" : packet.substr(first + 1);
    if (word == "ready") {
        const std::int64_t pid = std::strtoll(rest.c_str(), nullptr, 10);
        return events_.ready(keeper.key, pid, resident_bytes(pid));
    }
    if (word == "unfit") keeper.unfit = rest;
    if (word == "gone") return lost(std::string(keeper.key));
    if (word != "started" && word != "refused") return;
    char* end = nullptr;
    const auto order = keeper.pending.find(std::strtoull(rest.c_str(), &end, 10));
    if (order == keeper.pending.end()) return;
    const Keeper::Pending pending = std::move(order->second);
    keeper.pending.erase(order);
    loop_.cancel(pending.deadline);
    if (word == "started")
        pending.answer({.sentinel = static_cast<pid_t>(std::strtol(end, nullptr, 10))});
    else
        pending.answer({.why = *end == ' ' ? end + 1 : end});
}

// Its socket closes, so that its template ends. What was asked of it has started if it is written down, and cannot
// start any more if it is not: the keeper writes first, and takes no order of an agent that is gone.
void Keepers::lost(const std::string& key) {
    const auto place = keepers_.find(key);
    if (place == keepers_.end()) return;
    const std::unique_ptr<Keeper> keeper = std::move(place->second);
    keepers_.erase(place);
    loop_.unwatch(keeper->socket);
    ::close(keeper->socket);
    if (!keeper->pending.empty()) ::kill(keeper->pid, SIGKILL);  // with all that it has started
    for (auto& [number, order] : keeper->pending) {
        loop_.cancel(order.deadline);
        const auto started = read_values(order.directory + "/started");
        const auto sentinel = started.find("shim");
        if (sentinel == started.end())
            order.answer({.why = "its keeper has ended"});
        else
            order.answer({.sentinel = static_cast<pid_t>(std::strtol(sentinel->second.c_str(), nullptr, 10))});
    }
    events_.ended(key, keeper->unfit);
}

void Keepers::fork_worker(const std::string& key, const WorkerStart& worker, const WarmStart& start,
                          std::function<void(const Answer&)> answer) {
    const auto refuse = [this, answer](const std::string& why) { loop_.post([answer, why] { answer({.why = why}); }); };
    const auto place = keepers_.find(key);
    if (place == keepers_.end()) return refuse("its template has ended");
    const std::uint64_t number = ++orders_;
    const int variables = sealed_environment(start.environment);
    if (variables < 0)
        return refuse(std::string("its environment cannot be handed over: ") + std::strerror(-variables));
    const std::string packet = packet_of(number, worker, start, variables);
    if (packet.size() > packet_max) {
        ::close(variables);
        return refuse("its arguments are too long");
    }
    write_place(worker);
    const bool sent = send_with(place->second->socket, packet, variables);
    ::close(variables);
    if (!sent) return refuse("its keeper takes no order");
    place->second->pending[number] = {.answer = std::move(answer),
                                      .directory = worker.directory,
                                      .deadline = loop_.after(order_ms, [this, key] { lost(key); })};
}

}  // namespace rtrain::agent
