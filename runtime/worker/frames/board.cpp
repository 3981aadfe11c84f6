#include "runtime/worker/frames/board.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <utility>

namespace rtrain::worker {
namespace {

constexpr std::size_t line = 64;  // what one side writes often does not share a cache line with what others read
constexpr std::int64_t rung_every_us = 2'000;

std::int64_t monotonic_us() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

// True: it was lower.
bool raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
    std::uint64_t before = number.load(std::memory_order_acquire);
    while (before < to)
        if (number.compare_exchange_weak(before, to, std::memory_order_acq_rel)) return true;
    return false;
}

}  // namespace

struct alignas(line) Board::Head {
    std::atomic<std::uint32_t> bell;
    std::atomic<std::uint32_t> each_rings;  // by the agent
    std::atomic<std::uint64_t> heard;       // by the agent
    std::atomic<std::uint64_t> until;       // by the agent: rounds that the ranks may pass by themselves
    alignas(line) std::atomic<std::uint64_t> passed;
    std::atomic<std::int64_t> rung_us;  // when a rank rang the agent last
};

struct alignas(line) Board::Slot {
    std::atomic<std::uint64_t> index;
    std::atomic<std::uint32_t> bytes;  // of `frame`; 0: there is none, and the rank may write
    char reserved[4];
    std::atomic<std::int64_t> interval_ms;
    char padding[8];
    char frame[frame_max];
};

struct alignas(line) Board::Seat {
    std::atomic<std::uint64_t> come;                    // by the rank: its newest report
    std::atomic<std::uint64_t> sent;                    // by the rank: the newest that went over the socket
    alignas(line) std::atomic<std::uint64_t> answered;  // by the agent, to this rank
    std::atomic<std::uint32_t> letters;                 // by the agent: messages sent to the rank's socket
    Slot slot[slots];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

Board::Board(void* page, std::size_t bytes, std::uint32_t seats, std::uint32_t own, int descriptor)
    : page_(page), bytes_(bytes), seats_(seats), own_(own), descriptor_(descriptor) {
    static_assert(sizeof(Slot) == 1024);
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
    Board board(page, bytes, seats, 0, descriptor);
    board.each_rings();
    return board;
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
    for (Slot& slot : one.slot) slot.bytes.store(0, std::memory_order_relaxed);
    one.sent.store(0, std::memory_order_relaxed);
    one.letters.store(0, std::memory_order_relaxed);
    one.answered.store(0, std::memory_order_relaxed);
    one.come.store(0, std::memory_order_release);
}

void Board::letter(std::uint32_t number) { seat(number).letters.fetch_add(1, std::memory_order_release); }
void Board::answer(std::uint32_t number, std::uint64_t index) {
    raise(seat(number).answered, index);  // what is asked again, and answered again, takes nothing back
}

void Board::each_rings() {
    head().until.store(0, std::memory_order_release);
    head().each_rings.store(1, std::memory_order_seq_cst);
}

bool Board::pass(std::uint64_t index, bool grant) {
    Head& top = head();
    top.heard.store(index, std::memory_order_release);
    top.until.store(grant ? index + ahead_max : 0, std::memory_order_release);
    top.each_rings.store(0, std::memory_order_release);
    return raise(top.passed, index);
}

void Board::ring() {
    head().bell.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &head().bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// In the order of their indexes. A rank that comes too late for this look finds each_rings() set, or rings as the last.
// What went over the socket left its slot empty.
void Board::take(std::uint32_t number, std::uint64_t& taken, const std::function<void(Posted)>& on_frame) {
    Seat& one = seat(number);
    const std::uint64_t newest = one.come.load(std::memory_order_seq_cst);
    if (newest <= taken) return;
    const std::uint64_t before = std::max(taken, newest >= slots ? newest - slots : 0);
    taken = newest;
    // Counted: a worker may have written the largest number there is, and no index is beyond that.
    for (std::uint64_t count = newest - before, index = before + 1; count > 0; --count, ++index) {
        Slot& slot = one.slot[index % slots];
        const std::size_t bytes = slot.bytes.load(std::memory_order_acquire);
        if (bytes == 0 || slot.index.load(std::memory_order_relaxed) != index) continue;
        Posted posted{.index = index,
                      .frame = std::string(slot.frame, std::min(bytes, frame_max)),
                      .interval_ms = slot.interval_ms.load(std::memory_order_relaxed)};
        slot.bytes.store(0, std::memory_order_release);
        on_frame(std::move(posted));
    }
}

bool Board::post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms) {
    Slot& slot = seat(own_).slot[index % slots];
    if (frame.size() > frame_max || slot.bytes.load(std::memory_order_acquire) != 0) return false;
    std::memcpy(slot.frame, frame.data(), frame.size());
    slot.index.store(index, std::memory_order_relaxed);
    slot.interval_ms.store(interval_ms, std::memory_order_relaxed);
    slot.bytes.store(static_cast<std::uint32_t>(frame.size()), std::memory_order_release);
    return true;
}

bool Board::all_have_come(std::uint64_t index, bool& posted) const {
    posted = true;
    for (std::uint32_t number = 0; number < seats_; ++number) {
        const Seat& one = seat(number);
        if (one.come.load(std::memory_order_seq_cst) < index) return false;
        posted = posted && one.sent.load(std::memory_order_relaxed) < index;
    }
    return true;
}

// Not with every round where they are quick; in time where the grant comes to its end.
bool Board::agent_is_due(std::uint64_t index) {
    const std::uint64_t until = head().until.load(std::memory_order_relaxed);
    const std::int64_t now = monotonic_us(), rung = head().rung_us.load(std::memory_order_relaxed);
    if (index != until && index + ahead_max / 2 != until && rung <= now && now - rung < rung_every_us) return false;
    head().rung_us.store(now, std::memory_order_relaxed);
    return true;
}

// Two that come at once may both see that all have come; each of them sees it if the other does not (both write, then
// read, in one order for all). One of them passes the round.
Board::Come Board::come(std::uint64_t index, bool posted) {
    Seat& own_seat = seat(own_);
    if (!posted) own_seat.sent.store(index, std::memory_order_relaxed);
    own_seat.come.store(index, std::memory_order_seq_cst);
    if (head().each_rings.load(std::memory_order_seq_cst) != 0) return Come::rings;
    bool all_posted = false;
    if (!all_have_come(index, all_posted)) return Come::waits;
    if (!all_posted || index > head().until.load(std::memory_order_acquire)) return Come::rings;
    if (!raise(head().passed, index)) return Come::passed;
    ring();
    return agent_is_due(index) ? Come::rings : Come::passed;
}

bool Board::released(std::uint64_t index) const {
    return head().passed.load(std::memory_order_acquire) >= index ||
           seat(own_).answered.load(std::memory_order_acquire) >= index;
}
std::uint64_t Board::heard() const {
    return std::max(head().heard.load(std::memory_order_acquire), seat(own_).answered.load(std::memory_order_acquire));
}
std::uint32_t Board::letters() const { return seat(own_).letters.load(std::memory_order_acquire); }
std::uint32_t Board::bell() const { return head().bell.load(std::memory_order_acquire); }

bool Board::wait(std::uint32_t seen, std::chrono::milliseconds limit) const {
    const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
    ::syscall(SYS_futex, &head().bell, FUTEX_WAIT, seen, &time, nullptr, 0);
    return bell() != seen;
}

}  // namespace rtrain::worker
