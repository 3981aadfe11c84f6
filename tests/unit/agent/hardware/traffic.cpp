// Bytes that nodes and workers have moved: from files as /proc has them, and from this process's own connections.
#include "daemon/agent/hardware/traffic.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/descriptor.hpp"
#include "daemon/agent/hardware/processes.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
}

struct ProcFolder {
    Folder folder;
    std::string proc = folder.path + "/proc", sys = folder.path + "/sys";

    ProcFolder() {
        write(proc + "/net/dev",
              "Inter-|   Receive                            |  Transmit\n"
              " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls c c\n"
              "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n"
              "  eth0: 100 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n"
              "  eth1:2000 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n"
              "docker0: 70 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n");
        write(proc + "/diskstats",
              "   7       0 loop0 5 0 999 1 4 1 999 6 0 5 1\n"
              " 259       0 nvme0n1 5 0 4 1 4 1 6 6 0 5 1 0 0 0 0 3 5\n"
              " 259       1 nvme0n1p1 5 0 4 1 4 1 6 6 0 5 1\n"
              " 104       0 cciss/c0d0 5 0 1 1 4 1 2 6 0 5 1\n"
              " 253       0 dm-0 5 0 4 1 4 1 6 6 0 5 1\n");
    }
    void device(const std::string& path) const { std::filesystem::create_directories(sys + path + "/device"); }
};

// Two connected sockets on the loopback interface.
struct Connection {
    storage::Descriptor one, other;

    Connection() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        const storage::Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        auto* where = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(listener.number(), where, size) == 0);
        REQUIRE(::listen(listener.number(), 1) == 0);
        REQUIRE(::getsockname(listener.number(), where, &size) == 0);
        one = storage::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(one.number(), where, size) == 0);
        other = storage::Descriptor(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    // Sends bytes. Returns when all have arrived and are acknowledged.
    void carry(std::size_t bytes) const {
        std::string text(bytes, 'x');
        REQUIRE(::send(one.number(), text.data(), bytes, 0) == static_cast<ssize_t>(bytes));
        REQUIRE(::recv(other.number(), text.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes));
    }
    std::uint64_t inode() const {
        struct stat facts{};
        REQUIRE(::fstat(one.number(), &facts) == 0);
        return facts.st_ino;
    }
};

const WorkerName rank_0{AttemptKey{.run = 1, .incarnation = 1}, 0};

}  // namespace

TEST_CASE("a node's bytes are those of network cards and whole disks") {
    const ProcFolder machine;
    machine.device("/class/net/eth0");
    machine.device("/class/net/eth1");
    machine.device("/block/nvme0n1");
    machine.device("/block/cciss!c0d0");
    CHECK(node_traffic(machine.proc, machine.sys) ==
          protocol::Traffic{
              .network_received = 2'100, .network_sent = 30, .disk_read = 5 * 512, .disk_written = 8 * 512});
}

TEST_CASE("in a container every interface but the loopback counts, and disks that are not to be seen are not told of") {
    const ProcFolder machine;
    CHECK(node_traffic(machine.proc, machine.sys) ==
          protocol::Traffic{.network_received = 2'170, .network_sent = 37, .disk_read = -1, .disk_written = -1});
    CHECK(node_traffic("/nonexistent", "/nonexistent") == protocol::Traffic{});
}

TEST_CASE("processors that wait or idle do not work; where the kernel does not tell, nothing is told") {
    const ProcFolder machine;
    const std::int64_t second = ::sysconf(_SC_CLK_TCK);
    const auto seconds = [&](std::int64_t count) { return std::to_string(count * second) + " "; };
    write(machine.proc + "/stat", "cpu  " + seconds(5) + seconds(1) + seconds(2) + seconds(1'000) + seconds(50) +
                                      seconds(1) + seconds(3) + seconds(4) + seconds(2) + "0\ncpu0 1 2 3\n");
    CHECK(processors_worked_ms(machine.proc) == 16'000);
    write(machine.proc + "/stat", "cpu 1 2 3\n");
    CHECK(processors_worked_ms(machine.proc) == -1);
    CHECK(processors_worked_ms("/nonexistent") == -1);
    CHECK(processors_worked_ms() > 0);
}

TEST_CASE("a worker's bytes are those of its connections, from one look to the next; they outlive the connection") {
    const auto before = tcp_sockets();
    if (!before) return;  // the kernel does not report traffic
    WorkerTraffic traffic;
    const Pids pids = {{rank_0, ::getpid()}};
    const std::int64_t already = traffic.look(pids, before).at(rank_0).network_sent;
    {
        const Connection connection;
        connection.carry(100'000);
        const auto sockets = tcp_sockets();
        REQUIRE(sockets);
        REQUIRE(sockets->contains(connection.inode()));
        const protocol::Traffic seen = traffic.look(pids, sockets).at(rank_0);
        CHECK(seen.network_sent - already >= 100'000);
        CHECK(seen.network_sent - already < 101'000);
        connection.carry(50'000);
        CHECK(traffic.look(pids, tcp_sockets()).at(rank_0).network_sent - already >= 150'000);
    }
    const std::int64_t after = traffic.look(pids, tcp_sockets()).at(rank_0).network_sent - already;
    CHECK(after >= 150'000);
    CHECK(after < 152'000);
    CHECK(traffic.look({}, tcp_sockets()).empty());
}

TEST_CASE("a connection that was opened anew under an old number counts whole") {
    WorkerTraffic traffic;
    const Connection connection;
    const Pids pids = {{rank_0, ::getpid()}};
    const auto seen = [&](std::int64_t received) {
        return traffic.look(pids, Sockets{{connection.inode(), {.received = received, .sent = 0}}})
            .at(rank_0)
            .network_received;
    };
    CHECK(seen(500) == 500);
    CHECK(seen(700) == 700);
    CHECK(seen(20) == 720);
    CHECK(traffic.look(pids, std::nullopt).at(rank_0).network_received == -1);
}

TEST_CASE("children count with their worker, and every process has a way up") {
    int parent_waits[2];
    REQUIRE(::pipe(parent_waits) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        char byte = 0;
        ::close(parent_waits[1]);
        ::_exit(::read(parent_waits[0], &byte, 1) == 0 ? 0 : 1);
    }
    const auto all = with_descendants(::getpid());
    CHECK(std::find(all.begin(), all.end(), child) != all.end());
    CHECK(parent_of(child) == ::getpid());
    CHECK(descends(child, {::getpid()}));
    CHECK_FALSE(descends(::getpid(), {child}));
    CHECK(shim_of(child) == child);
    ::close(parent_waits[1]);
    ::waitpid(child, nullptr, 0);
    ::close(parent_waits[0]);
    CHECK_FALSE(parent_of(child));
    CHECK_FALSE(descends(child, {::getpid()}));
}
