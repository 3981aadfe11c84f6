// A cluster for one command: see own_cluster.hpp. Its daemons are started and ended by `rtrain up` and `rtrain down`.
#include "cmd/local/own_cluster.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/text/process.hpp"
#include "daemon/agent/workers/environment.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace rtrain::cmd {
namespace {

namespace fs = std::filesystem;

// rtrain.init() uses the same prefix, and removes such directories by the same rule
constexpr std::string_view prefix = "rtrain-local-";

std::string owner_text(int pid) { return std::to_string(pid) + " " + start_time(pid); }

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Removes the directories of this user's own clusters that remained because their process was killed.
void remove_left_behind(const fs::path& temporary) {
    std::error_code failed;
    for (fs::directory_iterator at(temporary, failed), end; !failed && at != end; at.increment(failed)) {
        struct stat facts{};
        if (!at->path().filename().string().starts_with(prefix)) continue;
        if (::lstat(at->path().c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != ::getuid()) continue;
        const std::string owner = text_of(at->path().string() + "/owner");
        const int pid = std::atoi(owner.c_str());
        std::error_code ignored;
        if (pid > 0 && owner != owner_text(pid)) fs::remove_all(at->path(), ignored);
    }
}

// Runs this program with the arguments `words`, and appends its output to `log`. Returns its exit code.
Result<int> run_self(const std::vector<std::string>& words, const std::string& log) {
    std::vector<char*> arguments{const_cast<char*>("rtrain")};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::vector<char*> variables;  // variables such as RTRAIN_ADDRESS are left out, because they select another cluster
    for (char** entry = environ; *entry != nullptr; ++entry)
        if (!std::string_view(*entry).starts_with("RTRAIN_")) variables.push_back(*entry);
    variables.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_t attributes;  // the child process blocks no signals, even if this process does
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = 0;
    const int failed = ::posix_spawn(&pid, "/proc/self/exe", &files, &attributes, arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0)
        return Error{.code = ErrorCode::io,
                     .message = std::string("rtrain cannot start itself: ") + std::strerror(failed),
                     .next = "rtrain up"};
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<OwnCluster> OwnCluster::start(const OwnClusterWish& wish) {
    std::error_code failed;
    const fs::path temporary = fs::temp_directory_path(failed);
    remove_left_behind(temporary);
    std::string folder = (temporary / (std::string(prefix) + "XXXXXX")).string();
    if (::mkdtemp(folder.data()) == nullptr)
        return Error{.code = ErrorCode::io,
                     .message = "no directory can be made in " + temporary.string() + ": " + std::strerror(errno),
                     .next = "set TMPDIR to a directory that you may write"};
    OwnCluster cluster(folder);
    std::ofstream(folder + "/owner") << owner_text(::getpid());
    const std::string log = folder + "/up.log", config = folder + "/config.yaml";
    std::vector<std::string> words{"up",
                                   "--data",
                                   folder,
                                   "--config",
                                   config,
                                   "--port",
                                   "0",
                                   "--nodes",
                                   std::to_string(wish.nodes),
                                   "--pass-env",
                                   "*",
                                   "--until-pid",
                                   std::to_string(::getpid())};
    if (!wish.storage_root.empty()) words.insert(words.end(), {"--storage-root", wish.storage_root});
    if (!wish.resources.empty()) words.insert(words.end(), {"--resources", wish.resources});
    const Result<int> ended = run_self(words, log);
    if (!ended) return ended.error();
    if (*ended != 0)
        return Error{.code = ErrorCode::io,
                     .message = "the cluster for this command did not start:\n" + text_of(log),
                     .next = "rtrain doctor"};
    Result<ConfigFile> written = read_config(config);
    if (!written) return written.error();
    cluster.place_ = written->contexts[written->current];
    return cluster;
}

OwnCluster::OwnCluster(OwnCluster&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), place_(std::move(other.place_)) {}

OwnCluster::~OwnCluster() {
    if (folder_.empty()) return;
    (void)run_self({"down", "--data", folder_, "--config", folder_ + "/config.yaml", "--yes"}, folder_ + "/down.log");
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

}  // namespace rtrain::cmd
