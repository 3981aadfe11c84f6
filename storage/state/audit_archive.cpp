// Segments of the audit: see audit_table.hpp. A segment is durable before its rows leave the table. So each row is in
// the table or in a segment.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/json_text.hpp"
#include "base/write_all.hpp"
#include "storage/state/audit_table.hpp"
#include "storage/state/body.hpp"
#include "storage/state/codec/compression.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* archived_key = "audit_archived";  // value: "SEQUENCE:HASH" of the last archived row
constexpr const char* put_back_hint = "put the folder audit/ of the head's data directory back from a copy";
constexpr std::string_view ending = ".zst";
constexpr int segment_level = 6;
constexpr std::uint64_t rows_of_one_step = 2'000;  // rows that one transaction removes from the table

std::string name_of_segment(std::uint64_t first) {
    char name[32];
    std::snprintf(name, sizeof(name), "%012llu", static_cast<unsigned long long>(first));
    return name + std::string(ending);
}

Error failed(const std::string& what, const std::string& path, int fault) {
    return {fault == ENOSPC ? ErrorCode::full : ErrorCode::io, what + " " + path + ": " + std::strerror(fault),
            "check the disk of the head's data directory"};
}

std::string line_of(const AuditRow& row) {
    return json_text(json::array({row.sequence, row.wall_ms, row.user, row.role, row.credential, row.from, row.action,
                                  row.target, row.run, row.hash})) +
           '\n';
}

bool read_row(std::string_view line, AuditRow& row) {
    const json values = parse_json(line);
    if (!values.is_array() || values.size() != 10) return false;
    if (!values[0].is_number_unsigned() || !values[1].is_number_integer()) return false;
    for (std::size_t i = 2; i < values.size(); ++i)
        if (!values[i].is_string()) return false;
    row = {.sequence = values[0],
           .wall_ms = values[1],
           .user = values[2],
           .role = values[3],
           .credential = values[4],
           .from = values[5],
           .action = values[6],
           .target = values[7],
           .run = values[8],
           .hash = values[9]};
    return true;
}

// Returns the numbers of the first rows of all segments, sorted.
std::vector<std::uint64_t> segments_in(const std::string& folder) {
    std::vector<std::uint64_t> firsts;
    std::error_code none;
    for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
        const std::string name = at->path().filename();
        const std::uint64_t first = std::strtoull(name.c_str(), nullptr, 10);
        if (first > 0 && name == name_of_segment(first)) firsts.push_back(first);
    }
    std::sort(firsts.begin(), firsts.end());
    return firsts;
}

Result<std::string> bytes_of_segment(const std::string& path) {
    const storage::Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.open()) return failed("opening", path, errno);
    std::string bytes, piece(1 << 20, '\0');
    while (true) {
        const ssize_t got = ::read(file.number(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("reading", path, errno);
        if (got == 0) return bytes;
        bytes.append(piece, 0, static_cast<std::size_t>(got));
    }
}

// Passes each row of one segment to `take`, until `take` returns false.
Status read_segment(const std::string& path, const std::function<bool(AuditRow&&)>& take) {
    const Result<std::string> bytes = bytes_of_segment(path);
    if (!bytes) return bytes.error();
    const Error damaged{ErrorCode::damaged, "a segment of the audit is damaged: " + path, put_back_hint};
    std::string text;  // unpacked bytes that do not form a whole line yet
    bool sound = true, wanted = true;
    const bool whole = expand(*bytes, [&](std::string_view piece) {
        if (!sound || !wanted) return;
        text += piece;
        std::size_t at = 0;
        for (std::size_t end = text.find('\n'); sound && wanted && end != text.npos; end = text.find('\n', at)) {
            AuditRow row;
            sound = read_row(std::string_view(text).substr(at, end - at), row);
            wanted = sound && take(std::move(row));
            at = end + 1;
        }
        text.erase(0, at);
    });
    if (!whole || !sound || (wanted && !text.empty())) return damaged;
    return Done{};
}

Status sync_folder(const std::string& folder) {
    const storage::Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.open() || ::fsync(opened.number()) != 0) return failed("syncing", folder, errno);
    return Done{};
}

}  // namespace

std::string audit_folder(const std::string& data_directory) { return data_directory + "/audit"; }

Result<AuditEnd> archived_audit(Database& database) {
    const Result<std::string> text = read_setting(database, archived_key);
    if (!text) return text.error();
    const std::size_t colon = text->find(':');
    if (text->empty()) return AuditEnd{};
    if (colon == std::string::npos) return Error{ErrorCode::damaged, "the end of the archived audit is unreadable", ""};
    return AuditEnd{.sequence = std::strtoull(text->c_str(), nullptr, 10), .hash = text->substr(colon + 1)};
}

Status write_archived_audit(Database& database, const AuditEnd& end) {
    Status removed = database.run("DELETE FROM audit WHERE seq <= ?", {static_cast<std::int64_t>(end.sequence)});
    if (!removed) return removed;
    return write_setting(database, archived_key, std::to_string(end.sequence) + ":" + end.hash);
}

Status write_segment(const std::string& folder, const std::vector<AuditRow>& rows) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed("creating", folder, errno);
    std::string text;
    for (const AuditRow& row : rows) text += line_of(row);
    const std::string path = folder + "/" + name_of_segment(rows.front().sequence), fresh = path + ".new";
    ::unlink(fresh.c_str());
    storage::Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.open()) return failed("creating", fresh, errno);
    if (const int fault = storage::write_all(file.number(), compressed(text, segment_level)); fault != 0)
        return failed("writing", fresh, fault);
    if (::fsync(file.number()) != 0 || file.close() != 0) return failed("writing", fresh, errno);
    if (::rename(fresh.c_str(), path.c_str()) != 0) return failed("naming", path, errno);
    return sync_folder(folder);
}

Status read_segments(const std::string& folder, std::uint64_t after, std::uint64_t end,
                     const std::function<bool(AuditRow&&)>& take) {
    const std::vector<std::uint64_t> firsts = segments_in(folder);
    auto at = std::upper_bound(firsts.begin(), firsts.end(), after + 1);
    if (at != firsts.begin()) --at;
    std::uint64_t next = after + 1;
    bool wanted = true;
    for (; wanted && next <= end && at != firsts.end(); ++at) {
        Status read = read_segment(folder + "/" + name_of_segment(*at), [&](AuditRow&& row) {
            if (row.sequence < next || row.sequence > end) return row.sequence < next;
            if (row.sequence != next) return false;  // Rows are missing here. The code after the loop reports it.
            ++next;
            wanted = take(std::move(row));
            return wanted;
        });
        if (!read) return read;
    }
    if (!wanted || next > end) return Done{};
    return Error{
        ErrorCode::damaged,
        "rows " + std::to_string(next) + " to " + std::to_string(end) + " of the audit are missing in " + folder,
        put_back_hint};
}

Status check_segments(const std::string& folder, const AuditEnd& end) {
    AuditEnd seen;
    Status whole = Done{};
    Status read = read_segments(folder, 0, end.sequence, [&](AuditRow&& row) {
        whole = follow(seen, row);
        return whole.ok();
    });
    if (!whole) return whole;
    if (!read) return read;
    if (seen == end) return Done{};
    return Error{ErrorCode::damaged, "the segments of the audit in " + folder + " do not end where the table begins",
                 put_back_hint};
}

Result<PageOf<AuditRow>> read_whole_audit(Database& database, const std::string& folder, std::uint64_t after,
                                          PageBounds most) {
    const Result<AuditEnd> archived = archived_audit(database);
    if (!archived) return archived.error();
    if (after >= archived->sequence) return read_audit(database, after, most);
    Filling<AuditRow> to(most);
    Status read = read_segments(folder, after, archived->sequence, [&](AuditRow&& row) {
        const std::size_t bytes = text_bytes(row);
        return to.add(std::move(row), bytes);
    });
    if (!read) return read.error();
    if (to.page.more) return std::move(to.page);
    return read_audit(database, archived->sequence, std::move(to));
}

Result<bool> SqliteJournal::archive_audit(AuditBounds most) {
    std::vector<AuditRow> rows;
    AuditEnd end;
    {
        std::lock_guard held(body_->paging);
        Result<AuditEnd> archived = archived_audit(body_->pages);
        if (!archived) return archived.error();
        if (audit_end().sequence < archived->sequence + most.kept + most.segment) return false;
        auto page = read_audit(body_->pages, archived->sequence, {.rows = most.segment, .bytes = ~std::size_t{0}});
        if (!page) return page.error();
        rows = std::move(page->rows);
        end = std::move(*archived);
    }
    // Rows of a broken chain stay in the table.
    AuditEnd checked = end;
    for (const AuditRow& row : rows)
        if (Status follows = follow(checked, row); !follows) return follows.error();
    if (Status written = write_segment(audit_folder(body_->directory), rows); !written) return written.error();
    for (std::size_t at = 0; at < rows.size(); at += rows_of_one_step) {  // Commits can run between the steps.
        const AuditRow& last = rows[std::min<std::size_t>(at + rows_of_one_step, rows.size()) - 1];
        std::lock_guard held(body_->mutex);
        Result<Transaction> transaction = Transaction::begin(body_->database, Transaction::Kind::write);
        if (!transaction) return transaction.error();
        if (Status moved = write_archived_audit(body_->database, {.sequence = last.sequence, .hash = last.hash});
            !moved)
            return moved.error();
        if (Status done = transaction->commit(); !done) return done.error();
    }
    return true;
}

}  // namespace rtrain::state
