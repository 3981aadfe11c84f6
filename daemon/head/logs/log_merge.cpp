// See log_merge.hpp.
#include "daemon/head/logs/log_merge.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t line_most = 64u << 10;  // bytes; a longer line is cut into lines of this size
constexpr std::size_t piece_most = 128u << 10;
// the most bytes that are read for one piece, so that a thread for files is not occupied for long
constexpr std::size_t read_at_once = 4u << 20;
constexpr std::size_t buffers_together = 1u << 20, buffer_least = 4u << 10, buffer_most = 256u << 10;
constexpr std::size_t held_most = 4u << 20;      // the most bytes that the waiting sources hold together
constexpr std::size_t index_part = 4u << 10;     // bytes of one window of LogTimes
constexpr std::size_t while_reading = 1u << 20;  // bytes for a piece, a longest line and its JSON
constexpr std::size_t waiting_bytes = 64;        // bytes of an entry in the order of sources

// Returns the file's bytes from `begin` to `end`. They are fewer if the file is shorter, and none if it was removed.
// Returns nullopt if the file cannot be read.
std::optional<std::string> bytes_of(const std::string& path, std::uint64_t begin, std::uint64_t end) {
    int descriptor = -1;
    do { descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC); } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) return errno == ENOENT ? std::optional(std::string()) : std::nullopt;
    const storage::Descriptor file(descriptor);
    std::string out(end - begin, '\0');
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got =
            ::pread(file.number(), out.data() + done, out.size() - done, static_cast<off_t>(begin + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    out.resize(done);
    return out;
}

// Returns the offset at which the last whole line ends. If the last line is too long to be whole, returns the file's
// end. The note of a removed part counts as a line. Returns nullopt if the file cannot be read.
std::optional<std::uint64_t> end_of_lines(const LogFile& file) {
    const std::uint64_t note_end = file.cuts.empty() ? 0 : std::min(file.cuts.back().end, file.bytes);
    const std::uint64_t begin = std::max(note_end, file.bytes - std::min<std::uint64_t>(file.bytes, line_most));
    const auto bytes = bytes_of(file.path, begin, file.bytes);
    if (!bytes) return std::nullopt;
    const std::size_t line_end = bytes->rfind('\n');
    if (line_end != std::string::npos) return begin + line_end + 1;
    return begin == note_end ? note_end : file.bytes;
}

}  // namespace

struct LogMerge::Allowed {
    std::size_t bytes = read_at_once;
    bool failed = false;  // true: a file could not be read

    void take(std::size_t read) { bytes -= std::min(bytes, read); }
    bool none() const { return bytes == 0 || failed; }
};

// One log file as a source of lines, from its beginning or its last lines up to a fixed end. While other files are
// read, it holds only its name and some numbers, since there may be tens of thousands of sources.
class LogMerge::Source {
  public:
    Source(LogFile file, Unfinished last, std::size_t buffer) : file_(std::move(file)), buffer_size_(buffer) {
        const auto end = last == Unfinished::take || file_.complete ? file_.bytes : end_of_lines(file_);
        unreadable_ = !end;
        end_ = scanned_ = line_end_ = part_end_ = end.value_or(0);
    }

    const LogName& name() const { return file_.name; }
    std::uint64_t end() const { return end_; }
    std::uint64_t lines() const { return lines_; }  // number of lines that `seek_back` has passed
    bool has_line() const { return offset_ < end_; }
    bool unreadable() const { return unreadable_; }
    std::size_t memory() const { return sizeof *this + file_.path.capacity() + file_.name.stream.capacity(); }

    std::size_t held() const { return held_ ? sizeof *held_ + index_part + held_->buffer.capacity() : 0; }
    void let_go() { held_.reset(); }
    // After a long line, shrinks the buffer to twice the usual size.
    void trim() {
        if (!held_ || held_->buffer.capacity() <= 2 * buffer_size_) return;
        held_->buffer = held_->buffer.substr(std::exchange(held_->at, 0)).substr(0, 2 * buffer_size_ - 1);
        held_->buffer.shrink_to_fit();
    }

    std::int64_t time(Allowed& allowed) {
        LogTimes& times = part(allowed).times;
        const std::int64_t out = times.at(offset_);
        if (times.failed()) allowed.failed = true;
        return out;
    }

    // Moves to the beginning of the last `lines` lines. Returns false if the bytes that may be read are used up: then
    // it must be called again.
    bool seek_back(std::uint64_t lines, Allowed& allowed) {
        if (lines == 0) offset_ = end_;
        while (scanned_ > 0 && lines > 0) {
            if (allowed.none()) return false;
            const std::uint64_t part_begin = begin_of_part(scanned_);
            if (part_begin == scanned_) {  // the note of a removed part is a line, so it ends the lines before it
                if (pass_note_back(lines)) return true;
                continue;
            }
            const std::uint64_t begin = scanned_ - std::min<std::uint64_t>(scanned_ - part_begin, buffer_size_);
            const auto bytes = bytes_of(file_.path, begin, scanned_);
            if (!bytes) return allowed.failed = true, false;
            allowed.take(bytes->size());
            // the file was removed, so it has no lines
            if (bytes->size() != scanned_ - begin) return lines_ = end_ = 0, true;
            if (count_back(*bytes, begin, lines)) return true;
            scanned_ = begin;
        }
        if (lines > 0 && part_end_ > 0) lines_ += lines_in(line_end_);
        return true;
    }

    // Returns the next line without its newline; nullopt if there is none, or if it cannot be read.
    std::optional<std::string_view> line(Allowed& allowed) {
        Part& part = this->part(allowed);
        std::size_t size = std::string::npos;
        while ((size = line_size(part)) == std::string::npos) {
            if (note_at_offset(part)) return part.note;
            part.buffer.erase(0, std::exchange(part.at, 0));
            const std::uint64_t begin = offset_ + part.buffer.size(), end = end_of_part(offset_);
            if (begin >= end) break;
            const std::size_t more = std::max(buffer_size_, std::min(part.buffer.size(), line_most));
            const auto bytes = bytes_of(file_.path, begin, std::min<std::uint64_t>(end, begin + more));
            if (!bytes) return allowed.failed = true, std::nullopt;
            allowed.take(bytes->size());
            if (cut_meanwhile(*bytes)) {
                part.buffer.clear();
                continue;
            }
            if (bytes->empty()) end_ = begin;  // the file was removed, so it ends here
            part.buffer += *bytes;
        }
        if (size == std::string::npos) size = part.buffer.size() - part.at;
        if (size == 0 && part.at == part.buffer.size()) return std::nullopt;
        return std::string_view(part.buffer).substr(part.at, size);
    }

    // Moves the position behind `size` bytes of `line`, and behind the line's end.
    void pass(std::size_t size) {
        if (!held_->note.empty()) {
            held_->note.clear();
            offset_ = std::min(storage::cut_from(file_.cuts, offset_)->end, end_);
            return;
        }
        if (held_->at + size < held_->buffer.size() && held_->buffer[held_->at + size] == '\n') ++size;
        held_->at += size;
        offset_ += size;
    }

  private:
    struct Part {
        explicit Part(const std::string& path) : times(path) {}
        LogTimes times;
        std::string buffer;  // bytes of the file; `offset_` corresponds to index `at`
        std::size_t at = 0;
        // note in place of a removed part, which is the next line; empty: the next line is the file's own
        std::string note;
    };
    bool note_at_offset(Part& part) const {
        const storage::LogCut* cut = storage::cut_from(file_.cuts, offset_);
        if (!cut || cut->begin > offset_) return false;
        part.buffer.clear();
        part.at = 0;
        part.note = storage::cut_note({offset_, cut->end});
        return true;
    }
    std::uint64_t end_of_part(std::uint64_t offset) const {
        const storage::LogCut* cut = storage::cut_from(file_.cuts, offset);
        return cut ? std::min(cut->begin, end_) : end_;
    }
    std::uint64_t begin_of_part(std::uint64_t end) const {
        std::uint64_t begin = 0;
        for (const storage::LogCut& cut : file_.cuts)
            if (cut.begin < end) begin = std::min(cut.end, end);
        return begin;
    }
    // Returns true if parts of the file have been removed since the files were listed: they read as zeros. Then lists
    // them again.
    bool cut_meanwhile(const std::string& bytes) {
        if (bytes.find('\0') == std::string::npos) return false;
        storage::LogCuts now = storage::log_cuts(file_.path);
        if (now == file_.cuts) return false;
        file_.cuts = std::move(now);
        return true;
    }
    // For seek_back: counts the note that ends at `scanned_`, and the rest of a line behind it. Returns true if `lines`
    // lines are reached.
    bool pass_note_back(std::uint64_t lines) {
        if (part_end_ > scanned_) {
            lines_ += lines_in(line_end_ - scanned_);
            if (lines_ >= lines) return offset_ = scanned_, true;
        }
        const auto cut = std::find_if(file_.cuts.rbegin(), file_.cuts.rend(),
                                      [this](const storage::LogCut& listed) { return listed.begin < scanned_; });
        scanned_ = line_end_ = part_end_ = cut->begin;
        return ++lines_ >= lines && (offset_ = cut->begin, true);
    }
    Part& part(Allowed& allowed) {
        if (held_) return *held_;
        allowed.take(index_part);
        held_ = std::make_unique<Part>(file_.path);
        return *held_;
    }
    // For seek_back: counts the lines that begin within `bytes`, from the last one on. Returns true if `lines` lines
    // are reached; then the first of them is the next line.
    bool count_back(const std::string& bytes, std::uint64_t begin, std::uint64_t lines) {
        for (std::size_t at = bytes.size(); at > 0 && (at = bytes.rfind('\n', at - 1)) != std::string::npos;) {
            const std::uint64_t line_begin = begin + at + 1;
            if (line_begin < part_end_) lines_ += lines_in(line_end_ - line_begin);
            line_end_ = line_begin - 1;
            if (line_begin < part_end_ && lines_ >= lines) return offset_ = line_begin, true;
        }
        return false;
    }
    static std::uint64_t lines_in(std::uint64_t bytes) {
        return std::max<std::uint64_t>(1, (bytes + line_most - 1) / line_most);
    }
    // Returns the size of the next line; npos if its end is not in the buffer.
    static std::size_t line_size(const Part& part) {
        const std::size_t line_end = std::string_view(part.buffer).substr(part.at, line_most + 1).find('\n');
        if (line_end != std::string::npos) return line_end;
        return part.buffer.size() - part.at > line_most ? line_most : std::string::npos;
    }

    LogFile file_;
    std::size_t buffer_size_;
    bool unreadable_ = false;
    std::uint64_t end_ = 0;
    // For seek_back: offset at which the text between two removed parts ends.
    std::uint64_t part_end_ = 0;
    // For seek_back: offset at which the searched text begins; where the line before it ends; number of lines so far.
    std::uint64_t scanned_ = 0, line_end_ = 0, lines_ = 0;
    std::uint64_t offset_ = 0;  // the offset of the next line
    std::unique_ptr<Part> held_;
};

LogMerge::LogMerge(std::vector<LogFile> files, LogQuestion question, Unfinished last) : question_(std::move(question)) {
    std::erase_if(files, [this](const LogFile& file) { return !means(question_, file.name); });
    const std::size_t share = files.empty() ? buffer_most : buffers_together / files.size();
    sources_.reserve(files.size());
    for (LogFile& file : files)
        sources_.emplace_back(std::move(file), last, std::clamp(share, buffer_least, buffer_most));
}

LogMerge::LogMerge(LogMerge&&) noexcept = default;
LogMerge::~LogMerge() = default;

LogPosition LogMerge::end() const {
    LogPosition out;
    for (const Source& source : sources_) out[source.name()] = source.end();
    return out;
}

std::size_t LogMerge::memory() const {
    std::size_t out = held_most + while_reading;
    for (const Source& source : sources_) out += source.memory() + waiting_bytes;
    return out;
}

// For a query for the last lines: moves every file to its own last lines. Later, the first ones of all these lines
// together are skipped.
bool LogMerge::seek_tail(Allowed& allowed) {
    for (; question_.tail && sought_ < sources_.size(); ++sought_) {
        if (!sources_[sought_].seek_back(*question_.tail, allowed)) return false;
        lines_ += sources_[sought_].lines();
    }
    return true;
}

bool LogMerge::begin(Allowed& allowed) {
    for (; begun_ < sources_.size(); ++begun_) {
        if (sources_[begun_].unreadable()) allowed.failed = true;
        if (allowed.none()) return false;
        wait_for(begun_, allowed);
    }
    return true;
}

// Makes `source` the one that is read now. The source that was read before keeps its buffer while there is room for it.
// Other sources need only the time and offset of their next line.
void LogMerge::touch(std::size_t source) {
    if (source == touched_) return;
    Source& before = sources_[std::exchange(touched_, source)];
    before.trim();
    held_ += before.held();
    if (held_ > held_most || !before.has_line()) {
        held_ -= before.held();
        before.let_go();
    }
    held_ -= sources_[source].held();
}

void LogMerge::wait_for(std::size_t source, Allowed& allowed) {
    touch(source);
    if (sources_[source].has_line()) first_.emplace(sources_[source].time(allowed), source);
}

void LogMerge::give_first(std::string& out, Allowed& allowed) {
    const auto [time, number] = *first_.begin();
    first_.erase(first_.begin());
    touch(number);
    Source& source = sources_[number];
    if (const auto line = source.line(allowed)) {
        const bool passed = question_.tail && lines_ - skipped_ > *question_.tail;
        if (passed) ++skipped_;
        if (!passed && time >= question_.since_wall_ms)
            out += line_json(source.name(), time, std::string(*line)) + "\n";
        source.pass(line->size());
    }
    wait_for(number, allowed);
}

std::optional<net::MadePiece> LogMerge::next() {
    net::MadePiece piece;
    Allowed allowed;
    const bool begun = seek_tail(allowed) && begin(allowed);
    while (begun && !first_.empty() && !allowed.none() && piece.bytes.size() < piece_most)
        give_first(piece.bytes, allowed);
    if (allowed.failed) return std::nullopt;
    piece.last = begun && first_.empty();
    return piece;
}

}  // namespace rtrain::head
