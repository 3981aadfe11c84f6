#include "runtime/worker/frames/board.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

namespace rtrain::worker {
namespace {

constexpr std::size_t line = 64;  // what one side writes often does not share a cache line with what others read

std::int64_t boot_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

struct alignas(line) Board::Head {
    std::atomic<std::uint32_t> bell;
    alignas(line) std::atomic<std::int32_t> missing;
};

struct alignas(line) Board::Seat {
    std::atomic<std::uint64_t> answered;  // by the agent: reports up to here have passed
    std::atomic<std::uint32_t> letters;   // by the agent: messages sent to the rank's socket
    std::atomic<std::uint32_t> bytes;     // of `frame`; 0: there is none, and the rank may write
    std::atomic<std::int64_t> posted_ms;
    char reserved[8];
    char frame[frame_max];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

Board::Board(void* page, std::size_t bytes, std::uint32_t seats, std::uint32_t own, int descriptor)
    : page_(page), bytes_(bytes), seats_(seats), own_(own), descriptor_(descriptor) {
    static_assert(sizeof(Seat) == 1024);
}

Board::Board(Board&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)),
      bytes_(other.bytes_),
      seats_(other.seats_),
      own_(other.own_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

Board& Board::operator=(Board&& other) noexcept {
    std::swap(page_, other.page_);
    std::swap(bytes_, other.bytes_);
    std::swap(seats_, other.seats_);
    std::swap(own_, other.own_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

Board::~Board() {
    if (page_) ::munmap(page_, bytes_);
    if (descriptor_ >= 0) ::close(descriptor_);
}

// Sealed: a worker that cut the memory short would kill the agent (SIGBUS).
std::optional<Board> Board::create(std::uint32_t seats) {
    const std::size_t bytes = sizeof(Head) + seats * sizeof(Seat);
    const int descriptor = ::memfd_create("rtrain-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return std::nullopt;
    void* page = MAP_FAILED;
    if (::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 &&
        ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) {
        ::close(descriptor);
        return std::nullopt;
    }
    return Board(page, bytes, seats, 0, descriptor);
}

std::optional<Board> Board::open(int descriptor, std::uint32_t seat) {
    struct stat facts{};
    if (::fstat(descriptor, &facts) != 0) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(facts.st_size);
    if (bytes < sizeof(Head) || seat >= (bytes - sizeof(Head)) / sizeof(Seat)) return std::nullopt;
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) return std::nullopt;
    return Board(page, bytes, static_cast<std::uint32_t>((bytes - sizeof(Head)) / sizeof(Seat)), seat, -1);
}

Board::Head& Board::head() const { return *static_cast<Head*>(page_); }
Board::Seat& Board::seat(std::uint32_t number) const {
    return *(reinterpret_cast<Seat*>(static_cast<char*>(page_) + sizeof(Head)) + number);
}

void Board::clear(std::uint32_t number) {
    Seat& one = seat(number);
    one.bytes.store(0, std::memory_order_relaxed);
    one.letters.store(0, std::memory_order_relaxed);
    one.answered.store(0, std::memory_order_release);
}

void Board::letter(std::uint32_t number) { seat(number).letters.fetch_add(1, std::memory_order_release); }
void Board::answer(std::uint32_t number, std::uint64_t index) {
    seat(number).answered.store(index, std::memory_order_release);
}
void Board::await(std::uint32_t ranks) {
    head().missing.store(static_cast<std::int32_t>(ranks), std::memory_order_relaxed);
}

void Board::ring() {
    head().bell.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &head().bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::optional<Board::Posted> Board::take(std::uint32_t number) {
    Seat& one = seat(number);
    const std::size_t bytes = one.bytes.load(std::memory_order_acquire);
    if (bytes == 0) return std::nullopt;
    const std::int64_t now = boot_ms(), then = one.posted_ms.load(std::memory_order_relaxed);
    Posted posted{.frame = std::string(one.frame, std::min(bytes, frame_max)),
                  .waited_ms = then > 0 && then <= now ? now - then : 0};
    one.bytes.store(0, std::memory_order_release);
    return posted;
}

bool Board::post(std::string_view frame) {
    Seat& mine = seat(own_);
    if (frame.size() > frame_max || mine.bytes.load(std::memory_order_acquire) != 0) return false;
    std::memcpy(mine.frame, frame.data(), frame.size());
    mine.posted_ms.store(boot_ms(), std::memory_order_relaxed);
    mine.bytes.store(static_cast<std::uint32_t>(frame.size()), std::memory_order_release);
    return true;
}

bool Board::last_to_come() { return head().missing.fetch_sub(1, std::memory_order_acq_rel) <= 1; }

std::uint64_t Board::answered() const { return seat(own_).answered.load(std::memory_order_acquire); }
std::uint32_t Board::letters() const { return seat(own_).letters.load(std::memory_order_acquire); }
std::uint32_t Board::bell() const { return head().bell.load(std::memory_order_acquire); }

bool Board::wait(std::uint32_t seen, std::chrono::milliseconds limit) const {
    const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
    ::syscall(SYS_futex, &head().bell, FUTEX_WAIT, seen, &time, nullptr, 0);
    return bell() != seen;
}

}  // namespace rtrain::worker
