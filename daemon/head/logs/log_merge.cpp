// See log_merge.hpp.
#include "daemon/head/logs/log_merge.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/descriptor.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t line_most = 64u << 10;  // a longer one is cut into lines of this size
constexpr std::size_t piece_most = 128u << 10;
constexpr std::size_t read_at_once = 4u << 20;  // for one piece: a thread for files is nobody's for long
constexpr std::size_t buffers_together = 2u << 20, buffer_least = 4u << 10, buffer_most = 256u << 10;

std::string bytes_of(const std::string& path, std::uint64_t begin, std::uint64_t end) {
    const storage::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string out(end - begin, '\0');
    const ssize_t got =
        file.open() ? ::pread(file.number(), out.data(), out.size(), static_cast<off_t>(begin)) : ssize_t{-1};
    out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return out;
}

// Behind the last whole line; of a last line that is too long to be one, the end of what is there.
std::uint64_t end_of_lines(const LogFile& file) {
    const std::uint64_t begin = file.bytes - std::min<std::uint64_t>(file.bytes, line_most);
    const std::size_t line_end = bytes_of(file.path, begin, file.bytes).rfind('\n');
    if (line_end != std::string::npos) return begin + line_end + 1;
    return begin == 0 ? 0 : file.bytes;
}

}  // namespace

// One file, from its beginning or its last lines up to an end that stays.
class LogMerge::Source {
  public:
    Source(LogFile file, Unfinished last, std::size_t buffer)
        : file_(std::move(file)),
          times_(file_.path),
          buffer_size_(buffer),
          end_(last == Unfinished::take || file_.complete ? file_.bytes : end_of_lines(file_)),
          scanned_(end_),
          line_end_(end_) {}

    const LogName& name() const { return file_.name; }
    std::uint64_t end() const { return end_; }
    std::int64_t time() { return times_.at(offset_); }
    std::uint64_t lines() const { return lines_; }  // that `seek_back` has passed

    // Goes to the beginning of the last `lines` lines. False: the reading allowed was too little, call it again.
    bool seek_back(std::uint64_t lines, std::size_t& may_read) {
        if (lines == 0) offset_ = end_;
        while (scanned_ > 0 && lines > 0) {
            if (may_read == 0) return false;
            const std::uint64_t begin = scanned_ - std::min<std::uint64_t>(scanned_, buffer_size_);
            const std::string bytes = bytes_of(file_.path, begin, scanned_);
            may_read -= std::min(may_read, bytes.size());
            if (bytes.size() != scanned_ - begin) return end_ = 0, true;  // it was removed
            if (count_back(bytes, begin, lines)) return true;
            scanned_ = begin;
        }
        if (lines > 0 && end_ > 0) lines_ += lines_in(line_end_);
        return true;
    }

    // The line that is next, without its end; none: there is no more.
    std::optional<std::string_view> line(std::size_t& may_read) {
        std::size_t size = std::string::npos;
        while ((size = line_size()) == std::string::npos) {
            buffer_.erase(0, std::exchange(at_, 0));
            const std::uint64_t begin = offset_ + buffer_.size();
            if (begin >= end_) break;
            const std::string more = bytes_of(file_.path, begin, std::min<std::uint64_t>(end_, begin + buffer_size_));
            may_read -= std::min(may_read, more.size());
            if (more.empty()) end_ = begin;  // it was removed
            buffer_ += more;
        }
        if (size == std::string::npos) size = buffer_.size() - at_;
        if (size == 0 && at_ == buffer_.size()) return std::nullopt;
        return std::string_view(buffer_).substr(at_, size);
    }

    void pass(std::size_t size) {
        if (at_ + size < buffer_.size() && buffer_[at_ + size] == '\n') ++size;
        at_ += size;
        offset_ += size;
    }

  private:
    // Counts the lines that begin within `bytes`, the last first. True: these are all, and the first of them is next.
    bool count_back(const std::string& bytes, std::uint64_t begin, std::uint64_t lines) {
        for (std::size_t at = bytes.size(); at > 0 && (at = bytes.rfind('\n', at - 1)) != std::string::npos;) {
            const std::uint64_t line_begin = begin + at + 1;
            if (line_begin < end_) lines_ += lines_in(line_end_ - line_begin);
            line_end_ = line_begin - 1;
            if (line_begin < end_ && lines_ >= lines) return offset_ = line_begin, true;
        }
        return false;
    }
    static std::uint64_t lines_in(std::uint64_t bytes) {
        return std::max<std::uint64_t>(1, (bytes + line_most - 1) / line_most);
    }
    // Of the line at `at_`, where the buffer has its end.
    std::size_t line_size() const {
        const std::size_t line_end = std::string_view(buffer_).substr(at_, line_most + 1).find('\n');
        if (line_end != std::string::npos) return line_end;
        return buffer_.size() - at_ > line_most ? line_most : std::string::npos;
    }

    const LogFile file_;
    LogTimes times_;
    const std::size_t buffer_size_;
    std::uint64_t end_;
    std::uint64_t scanned_, line_end_, lines_ = 0;  // of `seek_back`: looked at from here on; the line before it
    std::uint64_t offset_ = 0;                      // of the next line, which is at `at_` of the buffer
    std::string buffer_;
    std::size_t at_ = 0;
};

LogMerge::LogMerge(std::vector<LogFile> files, LogQuestion question, Unfinished last) : question_(std::move(question)) {
    std::erase_if(files, [this](const LogFile& file) { return !means(question_, file.name); });
    const std::size_t share = files.empty() ? buffer_most : buffers_together / files.size();
    for (LogFile& file : files)
        sources_.push_back(
            std::make_unique<Source>(std::move(file), last, std::clamp(share, buffer_least, buffer_most)));
}

LogMerge::LogMerge(LogMerge&&) noexcept = default;
LogMerge::~LogMerge() = default;

LogPosition LogMerge::end() const {
    LogPosition out;
    for (const auto& source : sources_) out[source->name()] = source->end();
    return out;
}

// Every file goes to the last lines of its own; of those together, the first ones are passed over.
bool LogMerge::seek_tail(std::size_t& may_read) {
    for (; question_.tail && sought_ < sources_.size(); ++sought_) {
        if (!sources_[sought_]->seek_back(*question_.tail, may_read)) return false;
        lines_ += sources_[sought_]->lines();
    }
    return true;
}

bool LogMerge::begin(std::size_t& may_read) {
    for (; begun_ < sources_.size(); ++begun_) {
        if (may_read == 0) return false;
        wait_for(begun_, may_read);
    }
    return true;
}

void LogMerge::wait_for(std::size_t source, std::size_t& may_read) {
    if (sources_[source]->line(may_read)) first_.emplace(sources_[source]->time(), source);
}

net::MadePiece LogMerge::next() {
    net::MadePiece piece;
    std::size_t may_read = read_at_once;
    if (!seek_tail(may_read) || !begin(may_read)) return piece;
    while (!first_.empty() && may_read > 0 && piece.bytes.size() < piece_most) {
        const auto [time, number] = *first_.begin();
        first_.erase(first_.begin());
        Source& source = *sources_[number];
        const auto line = source.line(may_read);
        const bool passed = question_.tail && lines_ - skipped_ > *question_.tail;
        if (passed) ++skipped_;
        if (!passed && time >= question_.since_wall_ms)
            piece.bytes += line_json(source.name(), time, std::string(*line)) + "\n";
        source.pass(line->size());
        wait_for(number, may_read);
    }
    piece.last = first_.empty();
    return piece;
}

}  // namespace rtrain::head
