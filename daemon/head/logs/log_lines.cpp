// See log_lines.hpp.
#include "daemon/head/logs/log_lines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/json_text.hpp"
#include "daemon/head/view/records_json.hpp"
#include "storage/job_spec/limits.hpp"

namespace rtrain::head {
namespace {

Error unreadable(const std::string& name, const std::string& text, const std::string& form) {
    const std::string shown = text.size() > 100 ? text.substr(0, 100) + "..." : text;
    return {ErrorCode::usage, name + "=" + shown + " is not understood: " + form, "rtrain logs --help"};
}

std::string ranges_text() { return "; at most " + std::to_string(spec::ranges_most) + " parts"; }

// Returns the ranks that failed in the selected attempts. These are the first failure of each attempt, and all ranks
// with an unsuccessful exit that was not requested.
NumberRanges failed_ranks(const Cluster& cluster, RunId run, const LogQuestion& question) {
    NumberRanges out;
    for (const Attempt* attempt : attempts_of(cluster, run)) {
        if (question.attempts && !question.attempts->contains(attempt->id.number)) continue;
        if (attempt->first_failure) out.add(attempt->first_failure->value, attempt->first_failure->value);
        for (std::uint32_t rank = 0; rank < attempt->workers.size(); ++rank) {
            const auto& exit = attempt->workers[rank].exit;
            if (exit && !exit->success() && !exit->stopped_by_us) out.add(rank, rank);
        }
    }
    return out;
}

}  // namespace

Result<LogQuestion> log_question(const Cluster& cluster, RunId run, const LogWords& words, std::int64_t now_wall_ms) {
    LogQuestion out;
    const auto attempts = attempts_of(cluster, run);
    if (words.attempt.empty()) {  // without a given attempt, the newest one is selected
        out.attempts.emplace();
        if (!attempts.empty()) out.attempts->add(attempts.back()->id.number, attempts.back()->id.number);
    } else if (words.attempt != "all") {
        out.attempts = number_list(words.attempt);
        if (!out.attempts)
            return unreadable("attempt", words.attempt, "a number, a list such as 1,3-5, or all" + ranges_text());
    }
    if (words.rank == "failed") {
        out.ranks = failed_ranks(cluster, run, out);
    } else if (!words.rank.empty() && words.rank != "all") {
        out.ranks = number_list(words.rank);
        if (!out.ranks) return unreadable("rank", words.rank, "a list such as 0,3-5, failed, or all" + ranges_text());
    }
    if (!words.stream.empty())
        for (const std::string& stream : split(words.stream)) {
            if (stream != "out" && stream != "err" && stream != "setup")
                return unreadable("stream", words.stream, "out, err, setup");
            out.streams.insert(stream);
        }
    std::uint64_t value = 0;
    if (!words.since_ms.empty()) {
        if (!to_number(words.since_ms, value)) return unreadable("since_ms", words.since_ms, "milliseconds before now");
        out.since_wall_ms =
            now_wall_ms - static_cast<std::int64_t>(std::min(value, static_cast<std::uint64_t>(now_wall_ms)));
    }
    if (!words.tail.empty()) {
        if (!to_number(words.tail, value)) return unreadable("tail", words.tail, "a number of lines");
        out.tail = value;
    }
    return out;
}

bool means(const LogQuestion& question, const LogName& name) {
    return (!question.ranks || question.ranks->contains(name.rank)) &&
           (!question.attempts || question.attempts->contains(name.attempt)) &&
           (question.streams.empty() || question.streams.contains(name.stream));
}

namespace {

nlohmann::ordered_json place_json(const LogName& name, std::int64_t wall_ms) {
    return {{"attempt", name.attempt}, {"rank", name.rank}, {"stream", name.stream}, {"time", wall_json(wall_ms)}};
}

}  // namespace

std::string line_json(const LogName& name, std::int64_t wall_ms, const std::string& line) {
    return line_with_state_json(name, wall_ms, line, "", LineEnd::written);
}

std::string line_with_state_json(const LogName& name, std::int64_t wall_ms, const std::string& line,
                                 const std::string& state, LineEnd end) {
    nlohmann::ordered_json object = place_json(name, wall_ms);
    object["line"] = line;
    if (!state.empty()) object["state"] = state;
    if (end == LineEnd::not_yet) object["goes_on"] = true;
    return json_text(object);
}

std::string state_json(const LogName& name, std::int64_t wall_ms, const std::string& state) {
    nlohmann::ordered_json object = place_json(name, wall_ms);
    object["state"] = state;
    return json_text(object);
}

std::string read_bytes(const std::string& path, std::uint64_t offset, std::size_t bytes_at_most) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return {};
    std::string bytes(bytes_at_most, '\0');
    const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    ::close(descriptor);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

namespace {

constexpr std::uint64_t no_cut = std::numeric_limits<std::uint64_t>::max();

struct Part {
    std::string bytes{};
    std::uint64_t end = no_cut;             // offset at which the next removed part begins
    std::optional<storage::LogCut> gone{};  // the removed part that contains the offset; nullopt: none
};

// Reads up to the next removed part of the log. If a part is removed during the read, its bytes are zeros, so the text
// is read again.
Part part_at(const std::string& path, std::uint64_t offset, std::size_t bytes_at_most) {
    for (storage::LogCuts cuts = storage::log_cuts(path);;) {
        const storage::LogCut* cut = storage::cut_from(cuts, offset);
        if (cut && cut->begin <= offset) return {.gone = storage::LogCut{offset, cut->end}};
        Part part{.end = cut ? cut->begin : no_cut};
        part.bytes = read_bytes(path, offset, std::min<std::uint64_t>(bytes_at_most, part.end - offset));
        storage::LogCuts now = storage::log_cuts(path);
        if (now == cuts) return part;
        cuts = std::move(now);
    }
}

}  // namespace

std::vector<ReadLine> read_lines(const std::string& path, std::uint64_t& offset, std::size_t bytes_at_most,
                                 Unfinished last) {
    std::vector<ReadLine> out;
    const Part part = part_at(path, offset, bytes_at_most);
    if (part.gone) {
        out.push_back({.offset = offset, .text = storage::cut_note(*part.gone)});
        offset = part.gone->end;
        return out;
    }
    const std::string& bytes = part.bytes;
    if (bytes.empty()) return out;
    std::size_t begin = 0;
    for (std::size_t end; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1)
        out.push_back({.offset = offset + begin, .text = bytes.substr(begin, end - begin)});
    const bool full = bytes.size() == bytes_at_most;
    const bool at_end = offset + bytes.size() == part.end || (!full && last == Unfinished::take);
    if (begin < bytes.size() && (at_end || (full && begin == 0))) {
        out.push_back({.offset = offset + begin, .text = bytes.substr(begin), .has_end = false});
        begin = bytes.size();
    }
    offset += begin;
    return out;
}

}  // namespace rtrain::head
