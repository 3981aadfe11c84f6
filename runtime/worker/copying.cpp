#include "runtime/worker/copying.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/descriptor.hpp"
#include "runtime/worker/last_error.hpp"

namespace rtrain::worker {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;  // bytes that a thread takes at a time
// The size of a write decides how large the pages are that the kernel allocates. Large pages may come from memory that
// a virtual machine has given back to its host: 14 ms for 4 MiB instead of 1 ms, measured with 128 KiB and more.
constexpr std::size_t buffer_bytes = std::size_t{64} << 10;
// The caller copies fewer bytes itself before a thread has started.
constexpr std::int64_t alone_bytes = std::int64_t{4} << 20;
constexpr std::size_t threads_max = 4;           // More threads are not faster for one process.
constexpr std::uint32_t xfs_magic = 0x58465342;  // missing in some versions of linux/magic.h

struct Piece {
    std::size_t file = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool creates = false;  // true: the file's only piece
};

StagingFault fault(int error, const std::string& doing) { return {error, doing + ": " + errno_text(error)}; }

StagingFault copy_fault(int error, const FileToCopy& file) {
    return fault(error, "cannot copy " + file.from + " to " + file.to);
}

// Local file systems, whose own copy uses one core. Others may copy where their data lies.
bool copied_by_threads(int target) {
    struct statfs facts{};
    if (::fstatfs(target, &facts) != 0) return false;
    const auto type = static_cast<std::uint32_t>(facts.f_type);
    return type == EXT4_SUPER_MAGIC || type == xfs_magic || type == TMPFS_MAGIC || type == OVERLAYFS_SUPER_MAGIC;
}

int write_all(int to, const char* data, std::size_t size, std::int64_t at) {
    while (size > 0) {
        const ssize_t put = ::pwrite(to, data, size, at);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        data += put;
        size -= static_cast<std::size_t>(put);
        at += put;
    }
    return 0;
}

// Returns errno; 0: done. ESTALE: the file ended before `end`.
int pump(int from, int to, std::int64_t begin, std::int64_t end, char* buffer) {
    while (begin < end) {
        const auto size = std::min<std::size_t>(buffer_bytes, static_cast<std::size_t>(end - begin));
        const ssize_t got = ::pread(from, buffer, size, begin);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) return ESTALE;
        if (const int error = write_all(to, buffer, static_cast<std::size_t>(got), begin)) return error;
        begin += got;
    }
    return 0;
}

// Copies a file of unknown size (/proc reports 0) to its end.
int pump_to_end(int from, int to, char* buffer) {
    for (std::int64_t at = 0;;) {
        const ssize_t got = ::read(from, buffer, buffer_bytes);
        if (got == 0) return 0;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (const int error = write_all(to, buffer, static_cast<std::size_t>(got), at)) return error;
        at += got;
    }
}

// Lets the file system copy. Returns false if it cannot, or not faster than threads.
bool copied_in_kernel(int from, int to, std::int64_t bytes) {
    if (::ioctl(to, FICLONE, from) == 0) return true;
    if (copied_by_threads(to)) return false;
    for (std::int64_t done = 0; done < bytes;) {
        const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, static_cast<std::size_t>(bytes - done), 0);
        if (copied < 0 && errno == EINTR) continue;
        if (copied <= 0) return false;  // `pump` copies again, and reports a fault if there is one.
        done += copied;
    }
    return true;
}

class Copying {
  public:
    explicit Copying(const std::vector<FileToCopy>& files) : files_(files) {}

    StagingFault run() {
        for (std::size_t number = 0; number < files_.size() && fault_.error == 0; ++number) add(number);
        // Two writers of one file wait for each other, because the file system admits one at a time. So the first
        // pieces of all files come first, and so on.
        std::ranges::stable_sort(pieces_, {}, &Piece::begin);
        if (fault_.error == 0) work_in_threads();
        return fault_;
    }

  private:
    // The thread that copies a small file opens it. A large file is created here and copied in pieces.
    void add(std::size_t number) {
        const FileToCopy& file = files_[number];
        total_ += file.bytes;
        if (file.bytes <= piece_bytes) {
            pieces_.push_back({.file = number, .begin = 0, .end = file.bytes, .creates = true});
            return;
        }
        const storage::Descriptor from(::open(file.from.c_str(), O_RDONLY | O_CLOEXEC));
        storage::Descriptor to(created(file, from.number()));
        if (to.number() < 0) return;
        if (copied_in_kernel(from.number(), to.number(), file.bytes)) {
            close(to, file);
        } else if (const int error = make_room(to.number(), file.bytes)) {
            note(copy_fault(error, file));
        } else {
            for (std::int64_t at = 0; at < file.bytes; at += piece_bytes)
                pieces_.push_back(
                    {.file = number, .begin = at, .end = std::min(at + piece_bytes, file.bytes), .creates = false});
        }
    }

    // Allocating blocks first makes the writes cheaper, and shows a full disk before anything is written.
    static int make_room(int to, std::int64_t bytes) {
        if (bytes == 0 || ::fallocate(to, 0, 0, bytes) == 0) return 0;
        return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errno : 0;
    }

    int created(const FileToCopy& file, int from) {
        if (from < 0) {
            note(fault(errno, "cannot read " + file.from));
            return -1;
        }
        const int to =
            ::open(file.to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (file.mode & 0777) | S_IRUSR | S_IWUSR);
        if (to < 0) note(fault(errno, "cannot create " + file.to));
        return to;
    }

    void copy(const Piece& piece, char* buffer) {
        const FileToCopy& file = files_[piece.file];
        const storage::Descriptor from(::open(file.from.c_str(), O_RDONLY | O_CLOEXEC));
        storage::Descriptor to(piece.creates ? created(file, from.number())
                                             : ::open(file.to.c_str(), O_WRONLY | O_CLOEXEC));
        if (to.number() < 0 || from.number() < 0) return note(copy_fault(errno, file));
        if (!piece.creates || !copied_in_kernel(from.number(), to.number(), file.bytes)) {
            const int error = piece.end == 0 ? pump_to_end(from.number(), to.number(), buffer)
                                             : pump(from.number(), to.number(), piece.begin, piece.end, buffer);
            if (error == ESTALE)
                return note({error, file.from + " became shorter while it was copied; write it before it is reported"});
            if (error != 0) return note(copy_fault(error, file));
        }
        close(to, file);
    }

    void close(storage::Descriptor& to, const FileToCopy& file) {
        if (to.close() != 0) note(fault(errno, "cannot write " + file.to));
    }

    void work() {
        const std::unique_ptr<char[]> buffer(new char[buffer_bytes]);
        for (std::size_t index = next_++; index < pieces_.size() && !faulty_; index = next_++)
            copy(pieces_[index], buffer.get());
    }

    void work_in_threads() {
        std::vector<std::thread> helpers;
        sigset_t all, before;  // Signals belong to the program: its own threads must get them.
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before);
        const std::size_t count = threads();
        try {
            while (helpers.size() + 1 < count) helpers.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
            // No further thread can start: the present ones do the work.
        }
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        work();
        for (std::thread& helper : helpers) helper.join();
    }

    std::size_t threads() const {
        cpu_set_t usable;
        if (total_ <= alone_bytes || ::sched_getaffinity(0, sizeof usable, &usable) != 0) return 1;
        return std::min({threads_max, static_cast<std::size_t>(CPU_COUNT(&usable)), pieces_.size()});
    }

    void note(StagingFault fault) {
        const std::lock_guard lock(fault_lock_);
        if (!faulty_.exchange(true)) fault_ = std::move(fault);  // The first fault is the most useful one.
    }

    const std::vector<FileToCopy>& files_;
    std::vector<Piece> pieces_;
    std::int64_t total_ = 0;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<bool> faulty_ = false;
    std::mutex fault_lock_;
    StagingFault fault_;
};

}  // namespace

StagingFault copy_files(const std::vector<FileToCopy>& files) { return Copying(files).run(); }

}  // namespace rtrain::worker
