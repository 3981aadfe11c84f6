// An archive's name is durable before its sender gets the answer.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <thread>

#include "daemon/security/security.hpp"
#include "tests/unit/head_fixture.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

// Makes fsync of this thread, and of threads that it starts, wait for another thread, which runs it. While `fails`,
// fsync fails with EIO for one directory.
class WatchedSync {
  public:
    explicit WatchedSync(std::filesystem::path directory) : directory_(std::move(directory)) {
        sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog filter{.len = std::size(steps), .filter = steps};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
        listener_ = static_cast<int>(
            ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
        if (listener_ >= 0) watcher_ = std::thread([this] { watch(); });
    }
    ~WatchedSync() {
        over_ = true;
        if (watcher_.joinable()) watcher_.join();
        if (listener_ >= 0) ::close(listener_);
    }
    WatchedSync(const WatchedSync&) = delete;
    WatchedSync& operator=(const WatchedSync&) = delete;
    bool works() const { return listener_ >= 0; }
    std::atomic<bool> fails = false;

  private:
    void watch() const {
        while (!over_) {
            pollfd ready{.fd = listener_, .events = POLLIN, .revents = 0};
            seccomp_notif call{};
            if (::poll(&ready, 1, 20) < 1 || ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) continue;
            std::error_code unseen;
            const auto file =
                std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(call.data.args[0]), unseen);
            seccomp_notif_resp answer{.id = call.id, .val = 0, .error = 0, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
            if (fails && file == directory_) {
                answer.flags = 0;
                answer.error = -EIO;
            }
            ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
    }
    const std::filesystem::path directory_;
    int listener_ = -1;
    std::atomic<bool> over_ = false;
    std::thread watcher_;
};

}  // namespace

TEST_CASE("an archive is not answered with 201 where its directory cannot be brought to the disk") {
    const TemporaryFolder folder;
    const std::string bytes(1'000, 'x'), hash = security::sha256_hex(bytes);
    bool works = false;
    Answer refused{}, kept{};
    std::thread([&] {
        WatchedSync watched(std::filesystem::canonical(folder.path) / "blobs");
        works = watched.works();
        if (!works) return;
        HeadUnderTest head({.data_dir = folder.path});
        const auto put = [&] {
            return HeadUnderTest::send(head.endpoint(head.admin),
                                       {.method = "PUT", .target = "/v1/blobs/" + hash, .body = bytes});
        };
        watched.fails = true;
        refused = put();
        watched.fails = false;
        kept = put();
    }).join();
    if (!works) {
        WARN("skipped: this kernel gives no system calls to a watcher");
        return;
    }
    CHECK(refused.status == 500);
    CHECK(refused.text.find("bringing to the disk") != std::string::npos);
    CHECK(kept.status == 201);
}
