#include "runtime/worker/frames/report_memory.hpp"

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

constexpr std::size_t line = 64;  // Fields that one side writes often share no cache line with fields that others read.
constexpr std::int64_t notify_every_us = 2'000;

std::int64_t monotonic_us() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

// Raises the number. Returns true if it was lower.
bool raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
    std::uint64_t before = number.load(std::memory_order_acquire);
    while (before < to)
        if (number.compare_exchange_weak(before, to, std::memory_order_acq_rel)) return true;
    return false;
}

}  // namespace

struct alignas(line) ReportMemory::Head {
    std::atomic<std::uint32_t> wakeups;
    std::atomic<std::uint32_t> each_notifies;  // written by the agent
    std::atomic<std::uint64_t> heard;          // written by the agent
    std::atomic<std::uint64_t> until;  // written by the agent: the last round that the ranks may pass without it
    alignas(line) std::atomic<std::uint64_t> passed;
    std::atomic<std::int64_t> notified_us;  // time of the last notification by a rank
    std::atomic<std::uint64_t> stop_after;  // written by rank 0; 0: no such report yet
    std::atomic<std::uint32_t> detachments;
    alignas(line) std::atomic<std::uint32_t> beats;  // written by the agent
};

struct alignas(line) ReportMemory::Slot {
    std::atomic<std::uint64_t> index;
    std::atomic<std::uint32_t> bytes;  // bytes in `frame`; 0: empty, so the rank may write
    char reserved[4];
    std::atomic<std::int64_t> interval_ms;
    char padding[8];
    char frame[frame_max];
};

struct alignas(line) ReportMemory::Ring {
    std::atomic<std::uint64_t> arrived;        // written by the rank: its newest report
    std::atomic<std::uint64_t> sent;           // written by the rank: the newest report that was sent over the socket
    std::atomic<std::uint64_t> only_by_agent;  // written by the rank: the newest report that only the agent may pass
    // written by the rank: its reports without files; ranks differ by at most one report
    std::atomic<std::uint64_t> without_files[2];
    std::atomic<std::uint32_t> detached;                // written by the rank: its connection has ended
    alignas(line) std::atomic<std::uint64_t> answered;  // written by the agent for this rank
    std::atomic<std::uint32_t> messages;  // written by the agent: number of messages sent to the rank's socket
    Slot slot[slots];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

ReportMemory::ReportMemory(void* page, std::size_t bytes, std::uint32_t ranks, std::uint32_t own, int descriptor)
    : page_(page), bytes_(bytes), ranks_(ranks), own_(own), descriptor_(descriptor) {
    static_assert(sizeof(Slot) == 1024);
}

ReportMemory::ReportMemory(ReportMemory&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)),
      bytes_(other.bytes_),
      ranks_(other.ranks_),
      own_(other.own_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

ReportMemory& ReportMemory::operator=(ReportMemory&& other) noexcept {
    std::swap(page_, other.page_);
    std::swap(bytes_, other.bytes_);
    std::swap(ranks_, other.ranks_);
    std::swap(own_, other.own_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

ReportMemory::~ReportMemory() {
    if (page_) ::munmap(page_, bytes_);
    if (descriptor_ >= 0) ::close(descriptor_);
}

// Sealed: a worker that shortened the memory would kill the agent (SIGBUS).
std::optional<ReportMemory> ReportMemory::create(std::uint32_t ranks) {
    const std::size_t bytes = sizeof(Head) + ranks * sizeof(Ring);
    const int descriptor = ::memfd_create("rtrain-reports", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return std::nullopt;
    void* page = MAP_FAILED;
    if (::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 &&
        ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) {
        ::close(descriptor);
        return std::nullopt;
    }
    ReportMemory memory(page, bytes, ranks, 0, descriptor);
    memory.each_notifies();
    return memory;
}

std::optional<ReportMemory> ReportMemory::open(int descriptor, std::uint32_t ring) {
    struct stat facts{};
    if (::fstat(descriptor, &facts) != 0) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(facts.st_size);
    if (bytes < sizeof(Head) || ring >= (bytes - sizeof(Head)) / sizeof(Ring)) return std::nullopt;
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) return std::nullopt;
    return ReportMemory(page, bytes, static_cast<std::uint32_t>((bytes - sizeof(Head)) / sizeof(Ring)), ring, -1);
}

ReportMemory::Head& ReportMemory::head() const { return *static_cast<Head*>(page_); }
ReportMemory::Ring& ReportMemory::ring(std::uint32_t number) const {
    return *(reinterpret_cast<Ring*>(static_cast<char*>(page_) + sizeof(Head)) + number);
}

void ReportMemory::clear(std::uint32_t number) {
    Ring& rank_ring = ring(number);
    rank_ring.detached.store(0, std::memory_order_seq_cst);  // Written before what it guards: see pass_detached().
    for (Slot& slot : rank_ring.slot) slot.bytes.store(0, std::memory_order_relaxed);
    rank_ring.sent.store(0, std::memory_order_relaxed);
    rank_ring.only_by_agent.store(0, std::memory_order_seq_cst);
    rank_ring.messages.store(0, std::memory_order_relaxed);
    rank_ring.answered.store(0, std::memory_order_relaxed);
    rank_ring.arrived.store(0, std::memory_order_release);
}

void ReportMemory::count_message(std::uint32_t number) {
    ring(number).messages.fetch_add(1, std::memory_order_release);
}
void ReportMemory::answer(std::uint32_t number, std::uint64_t index) {
    raise(ring(number).answered, index);  // A repeated answer takes nothing back.
}

void ReportMemory::each_notifies() {
    head().until.store(0, std::memory_order_release);
    head().each_notifies.store(1, std::memory_order_seq_cst);
}

bool ReportMemory::pass(std::uint64_t index, bool grant) {
    Head& top = head();
    top.heard.store(index, std::memory_order_release);
    top.until.store(grant ? index + ahead_max : 0, std::memory_order_release);
    top.each_notifies.store(0, std::memory_order_release);
    return raise(top.passed, index);
}

void ReportMemory::wake_all() {
    head().wakeups.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &head().wakeups, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ReportMemory::beat() { head().beats.fetch_add(1, std::memory_order_release); }
std::uint32_t ReportMemory::beats() const { return head().beats.load(std::memory_order_acquire); }

// Takes frames in the order of their indexes. A rank that arrives too late for this pass finds each_notifies() set, or
// notifies as the last rank. A report that was sent over the socket has left its slot empty.
void ReportMemory::take(std::uint32_t number, std::uint64_t& taken, const std::function<void(Posted)>& on_frame) {
    Ring& rank_ring = ring(number);
    const std::uint64_t newest = rank_ring.arrived.load(std::memory_order_seq_cst);
    if (newest <= taken) return;
    const std::uint64_t before = std::max(taken, newest >= slots ? newest - slots : 0);
    taken = newest;
    // The loop counts slots: a worker may have written the largest number, and no index is greater.
    for (std::uint64_t count = newest - before, index = before + 1; count > 0; --count, ++index) {
        Slot& slot = rank_ring.slot[index % slots];
        const std::size_t bytes = slot.bytes.load(std::memory_order_acquire);
        if (bytes == 0 || slot.index.load(std::memory_order_relaxed) != index) continue;
        Posted posted{.index = index,
                      .frame = std::string(slot.frame, std::min(bytes, frame_max)),
                      .interval_ms = slot.interval_ms.load(std::memory_order_relaxed)};
        slot.bytes.store(0, std::memory_order_release);
        on_frame(std::move(posted));
    }
}

bool ReportMemory::post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms) {
    Slot& slot = ring(own_).slot[index % slots];
    if (frame.size() > frame_max || slot.bytes.load(std::memory_order_acquire) != 0) return false;
    std::memcpy(slot.frame, frame.data(), frame.size());
    slot.index.store(index, std::memory_order_relaxed);
    slot.interval_ms.store(interval_ms, std::memory_order_relaxed);
    slot.bytes.store(static_cast<std::uint32_t>(frame.size()), std::memory_order_release);
    return true;
}

bool ReportMemory::all_arrived(std::uint64_t index, bool& posted) const {
    posted = true;
    for (std::uint32_t number = 0; number < ranks_; ++number) {
        const Ring& rank_ring = ring(number);
        if (rank_ring.arrived.load(std::memory_order_seq_cst) < index) return false;
        posted = posted && rank_ring.sent.load(std::memory_order_relaxed) < index;
    }
    return true;
}

// Returns true if the agent is to be notified: not in each round if rounds are quick, and early enough before the grant
// ends.
bool ReportMemory::agent_is_due(std::uint64_t index) {
    const std::uint64_t until = head().until.load(std::memory_order_relaxed);
    const std::int64_t now = monotonic_us(), notified = head().notified_us.load(std::memory_order_relaxed);
    if (index != until && index + ahead_max / 2 != until && notified <= now && now - notified < notify_every_us)
        return false;
    head().notified_us.store(now, std::memory_order_relaxed);
    return true;
}

// Two ranks that arrive at once may both see that all have arrived. At least one of them sees it, because both write
// before they read, in one order for all. One of them passes the round.
ReportMemory::Arrival ReportMemory::arrive(std::uint64_t index, bool posted) {
    Ring& own_ring = ring(own_);
    if (!posted) own_ring.sent.store(index, std::memory_order_relaxed);
    own_ring.arrived.store(index, std::memory_order_seq_cst);
    if (head().each_notifies.load(std::memory_order_seq_cst) != 0) return Arrival::notifies;
    bool all_posted = false;
    if (!all_arrived(index, all_posted)) return Arrival::waits;
    if (!all_posted || index > head().until.load(std::memory_order_acquire)) return Arrival::notifies;
    if (!raise(head().passed, index)) return Arrival::passed;
    wake_all();
    return agent_is_due(index) ? Arrival::notifies : Arrival::passed;
}

bool ReportMemory::released(std::uint64_t index) const {
    return head().passed.load(std::memory_order_acquire) >= index ||
           ring(own_).answered.load(std::memory_order_acquire) >= index;
}
std::uint64_t ReportMemory::heard() const {
    return std::max(head().heard.load(std::memory_order_acquire), ring(own_).answered.load(std::memory_order_acquire));
}
std::uint32_t ReportMemory::messages() const { return ring(own_).messages.load(std::memory_order_acquire); }
std::uint32_t ReportMemory::wakeups() const { return head().wakeups.load(std::memory_order_acquire); }

// As in arrive(): the last rank that writes that it is detached, or has arrived, sees what the others have written.
void ReportMemory::detach() {
    ring(own_).detached.store(1, std::memory_order_seq_cst);
    head().detachments.fetch_add(1, std::memory_order_release);
    wake_all();
}
void ReportMemory::attach() { ring(own_).detached.store(0, std::memory_order_seq_cst); }

std::uint32_t ReportMemory::detachments() const { return head().detachments.load(std::memory_order_acquire); }

void ReportMemory::only_by_agent(std::uint64_t index) {
    ring(own_).only_by_agent.store(index, std::memory_order_relaxed);
}
void ReportMemory::without_files(std::uint64_t index) {
    ring(own_).without_files[index % 2].store(index, std::memory_order_relaxed);
}
void ReportMemory::stop_after(std::uint64_t index) {
    std::uint64_t none = 0;
    head().stop_after.compare_exchange_strong(none, index, std::memory_order_acq_rel);
}

bool ReportMemory::all_detached_at(std::uint64_t index) const {
    for (std::uint32_t number = 0; number < ranks_; ++number) {
        const Ring& rank_ring = ring(number);
        if (rank_ring.detached.load(std::memory_order_seq_cst) == 0) return false;
        if (rank_ring.arrived.load(std::memory_order_seq_cst) < index) return false;
    }
    return true;
}

// A resumed agent clears the ring of a rank that has connected again, with `detached` first. So `detached` is read once
// more after the fields that the agent clears then.
bool ReportMemory::pass_detached(std::uint64_t index) {
    if (head().passed.load(std::memory_order_acquire) >= index) return true;
    if (!all_detached_at(index)) return false;
    for (std::uint32_t number = 0; number < ranks_; ++number)
        if (ring(number).only_by_agent.load(std::memory_order_seq_cst) >= index) return false;
    const std::uint64_t last = head().stop_after.load(std::memory_order_acquire);
    if ((last != 0 && index > last) || !all_detached_at(index)) return false;
    if (raise(head().passed, index)) wake_all();
    return true;
}

bool ReportMemory::files_whole(std::uint64_t index) const {
    for (std::uint32_t number = 0; number < ranks_; ++number)
        if (ring(number).without_files[index % 2].load(std::memory_order_relaxed) == index) return false;
    return true;
}

bool ReportMemory::wait(std::uint32_t seen, std::chrono::milliseconds limit) const {
    const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
    ::syscall(SYS_futex, &head().wakeups, FUTEX_WAIT, seen, &time, nullptr, 0);
    return wakeups() != seen;
}

}  // namespace rtrain::worker
