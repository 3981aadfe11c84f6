// `setup:` of a job on one node. It runs once and is kept. Its failure is reported with its last lines, and it is ended
// after its time limit.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/agent/preparation/setup.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

struct Place {
    Place() {
        char name[] = "/tmp/rtrain-setup-XXXXXX";
        path = mkdtemp(name);
    }
    ~Place() { std::filesystem::remove_all(path); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::string path;
};

constexpr std::int64_t patience_ms = 60'000;

SetupOrder order_of(const Place& place, const std::string& command) {
    return {.attempt = {1, 1},
            .command = command,
            .interpreter = "no-such-python",
            .code_archive = "",
            .code_sha256 = "",
            .inherited = {{"PATH", "/usr/bin:/bin"}, {"RTRAIN_TOKEN", "secret"}},
            .variables = {{"FLAVOUR", "plain"}},
            .log_file = place.path + "/log"};
}
SetupResult done(const Place& place, const SetupOrder& order, std::int64_t patience = patience_ms) {
    const std::atomic<bool> cancelled = false;
    return carry_out(place.path + "/setups", order, {.patience_ms = patience}, cancelled);
}
std::string text_of(const std::string& path) {
    const auto text = read_whole(path);
    return text ? *text : "";
}

// The user for whom a root agent runs the setup.
WorkerUser person() {
    const passwd* entry = ::getpwnam("nobody");
    REQUIRE(entry != nullptr);
    return {.uid = entry->pw_uid, .gid = entry->pw_gid, .name = entry->pw_name, .home = entry->pw_dir};
}
struct stat facts_of(const std::string& path) {
    struct stat facts{};
    REQUIRE(::lstat(path.c_str(), &facts) == 0);
    return facts;
}

}  // namespace

TEST_CASE("a setup runs once per command, code and variables, and what it made is kept") {
    const Place place;
    SetupOrder order =
        order_of(place, "echo made; echo \"$FLAVOUR$RTRAIN_TOKEN\" > flavour; echo x >> " + place.path + "/count");
    const SetupResult first = done(place, order);
    REQUIRE(first.why.empty());
    CHECK(first.virtual_env.empty());  // there is no such Python
    CHECK(text_of(first.working_dir + "/flavour") == "plain\n");
    CHECK(text_of(order.log_file).find("made\n") != std::string::npos);
    CHECK(done(place, order).working_dir == first.working_dir);
    CHECK(kept_setup(place.path + "/setups", order).has_value());
    CHECK(text_of(place.path + "/count") == "x\n");
    order.variables["FLAVOUR"] = "other";
    const SetupResult other = done(place, order);
    CHECK(other.working_dir != first.working_dir);
    CHECK(text_of(place.path + "/count") == "x\nx\n");
}

TEST_CASE("a setup that fails says how and with which last lines, leaves nothing, and may be tried again") {
    const Place place;
    const SetupOrder order = order_of(place, "echo no such package >&2; exit 3");
    const SetupResult failed = done(place, order);
    CHECK(failed.why.find("exit code 3") != std::string::npos);
    CHECK(failed.why.find("no such package") != std::string::npos);
    CHECK_FALSE(kept_setup(place.path + "/setups", order).has_value());
    CHECK_FALSE(std::filesystem::exists(place.path + "/setups/" + setup_key(order)));
}

TEST_CASE("a setup that takes too long is ended with all it has started") {
    const Place place;
    const SetupOrder order = order_of(place, "(while :; do :; done) & echo $! > " + place.path + "/child; wait");
    const SetupResult failed = done(place, order, 300);
    CHECK(failed.why.find("longer than it may") != std::string::npos);
    const std::string child = text_of(place.path + "/child");
    REQUIRE_FALSE(child.empty());
    const auto gone = [&] {
        const std::string stat = text_of("/proc/" + child.substr(0, child.size() - 1) + "/stat");
        return stat.empty() || stat.find(") Z ") != std::string::npos;
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!gone() && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
    CHECK(gone());
}

namespace {

// Makes pidfd_open fail in this thread, as without free descriptors.
bool no_more_pidfds() {
    sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{.len = std::size(steps), .filter = steps};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           ::syscall(SYS_pidfd_open, ::getpid(), 0) == -1 && errno == EMFILE;
}

}  // namespace

TEST_CASE("a setup is waited for also where the kernel gives no descriptor of its process") {
    const Place place;
    bool filtered = false;
    SetupResult ended, failed;
    std::thread([&] {
        filtered = no_more_pidfds();
        if (!filtered) return;
        ended = done(place, order_of(place, "echo made > it"), 20'000);
        failed = done(place, order_of(place, "exit 3"), 20'000);
    }).join();
    if (!filtered) {
        WARN("skipped: this kernel filters no system calls");
        return;
    }
    CHECK(ended.why.empty());
    CHECK(text_of(ended.working_dir + "/it") == "made\n");
    CHECK(failed.why.find("exit code 3") != std::string::npos);
}

TEST_CASE("the virtual environment of a setup sees what its interpreter sees, and comes first") {
    const Place place;
    SetupOrder order = order_of(place, "python -c 'import sys; print(sys.prefix)' > prefix");
    order.interpreter = "/usr/bin/python3";
    const SetupResult result = done(place, order);
    REQUIRE((result.why) == std::string());
    CHECK(result.virtual_env == place.path + "/setups/" + setup_key(order) + "/venv");
    CHECK(text_of(result.working_dir + "/prefix") == result.virtual_env + "\n");
}

TEST_CASE("the command of another user writes into its own directories alone, and nobody else looks into them") {
    if (::geteuid() != 0) return;  // needs another user
    const Place place;
    ::chmod(place.path.c_str(), 0755);
    const std::string precious = place.path + "/precious";
    std::ofstream(precious) << "the administrator's";
    SetupOrder order = order_of(place, "for name in done done.new; do ln -s " + precious +
                                           " ../$name; done; mv ../work ../mine; echo made > made; id -un");
    order.user = person();
    order.interpreter = "/usr/bin/python3";
    const SetupResult result = done(place, order);
    REQUIRE((result.why) == std::string());

    CHECK(text_of(precious) == "the administrator's");
    const std::string top = place.path + "/setups/" + setup_key(order);
    CHECK((facts_of(top).st_mode & 07777) == 0711);
    for (const std::string& owned : {top, top + "/done"}) CHECK(facts_of(owned).st_uid == 0);
    CHECK(S_ISREG(facts_of(top + "/done").st_mode));
    for (const std::string& owned : {top + "/work", top + "/venv"}) {
        CHECK(facts_of(owned).st_uid == order.user.uid);
        CHECK((facts_of(owned).st_mode & 07777) == 0700);
    }
    CHECK(facts_of(top + "/work/made").st_uid == order.user.uid);
    CHECK(result.virtual_env == top + "/venv");
    CHECK((facts_of(order.log_file).st_mode & 07777) == 0640);
}

TEST_CASE("a directory in which the user goes on writing is neither taken up nor given away again") {
    if (::geteuid() != 0) return;  // needs another user
    const Place place;
    ::chmod(place.path.c_str(), 0755);
    SetupOrder order = order_of(place, "ls > seen");
    order.user = person();
    for (const std::string& key : {setup_key(order), former_setup_key(order)}) {
        const std::string left = place.path + "/setups/" + key;
        std::filesystem::create_directories(left + "/work");
        std::ofstream(left + (key == setup_key(order) ? "/work/old" : "/done")) << "of the user";
        REQUIRE(::lchown(left.c_str(), static_cast<uid_t>(order.user.uid), 0) == 0);
    }
    const int left = ::open((place.path + "/setups/" + setup_key(order) + "/work").c_str(), O_RDONLY | O_DIRECTORY);
    std::atomic<bool> over = false;
    std::thread writes([&] {
        for (unsigned number = 0; !over; ++number)
            ::close(::openat(left, ("again" + std::to_string(number % 64)).c_str(), O_CREAT | O_WRONLY, 0666));
    });
    CHECK_FALSE(kept_setup(place.path + "/setups", order).has_value());
    const SetupResult result = done(place, order);
    over = true;
    writes.join();
    ::close(left);
    REQUIRE((result.why) == std::string());
    CHECK(text_of(result.working_dir + "/seen") == "seen\n");
}
