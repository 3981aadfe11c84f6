// Writes, removes and unloads levels: see store.hpp.
#include <algorithm>
#include <tuple>

#include "storage/history/columns.hpp"
#include "storage/history/limits.hpp"
#include "storage/history/store.hpp"

namespace rtrain::history {
namespace {

using state::Blob;
using state::Row;
using state::Transaction;

// subjects that one transaction writes; the number is small, because readers wait for it
constexpr std::size_t subjects_at_once = 200;
constexpr std::int64_t unused_ms = 600'000;

std::int64_t flush_every_ms(Kind kind) { return kind == Kind::run ? 60'000 : 300'000; }

// Returns how many chunks of a level are kept. Chunks of nodes and ranks are removed by their age instead.
std::uint64_t chunks_most(Kind kind) { return kind == Kind::run ? run_chunks_most : cluster_chunks_most; }

std::string keys_text(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += name + '\n';
    return text;
}

std::size_t bytes_of(const Levels& levels, const std::vector<FullChunk>& full) {
    std::size_t sum = levels.bytes();
    for (const FullChunk& full_chunk : full) sum += bytes_of(full_chunk.chunk);
    return sum;
}

constexpr const char* of_usage = " WHERE subject IN (SELECT id FROM subjects WHERE kind=1) AND level=?";

}  // namespace

Status Store::write_chunk(const Subject& subject, std::size_t level, const Chunk& chunk) {
    return database_->run("INSERT OR REPLACE INTO chunks VALUES(?,?,?,?)",
                          {subject.id, as_sql(level), as_sql(chunk.number), Blob{pack(chunk)}});
}

Status Store::write(const std::string& name, Subject& subject) {
    Status written = database_->run(
        "INSERT OR REPLACE INTO subjects VALUES(?,?,?,?,?)",
        {subject.id, name, static_cast<std::int64_t>(subject.kind), as_sql(subject.last), keys_text(subject.names)});
    for (const FullChunk& full : subject.full) {
        if (written) written = write_chunk(subject, full.level, full.chunk);
        if (written && subject.kind != Kind::usage && full.chunk.number > chunks_most(subject.kind))
            written =
                database_->run("DELETE FROM chunks WHERE subject=? AND level=? AND number < ?",
                               {subject.id, as_sql(full.level), as_sql(full.chunk.number - chunks_most(subject.kind))});
    }
    for (std::size_t level = 0; level < subject.levels.shape().levels().size(); ++level)
        if (const Chunk& open = subject.levels.open(level); written && !open.marks.empty())
            written = write_chunk(subject, level, open);
    return written;
}

// Writes the changed chunks of these subjects in one transaction. The subjects are marked as written only after the
// commit.
Status Store::write_some(std::vector<std::pair<const std::string, Subject>*>& due, std::int64_t now_ms) {
    auto transaction = Transaction::begin(*database_, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    const std::size_t count = std::min(due.size(), subjects_at_once);
    const auto begin = due.end() - static_cast<std::ptrdiff_t>(count);
    for (auto at = begin; at != due.end(); ++at)
        if (Status written = write((*at)->first, (*at)->second); !written) return written;
    if (Status done = transaction->commit(); !done) return done;
    for (auto at = begin; at != due.end(); ++at) {
        (*at)->second.full.clear();
        (*at)->second.changed = false;
        (*at)->second.flushed_ms = now_ms;
    }
    due.erase(begin, due.end());
    return Done{};
}

Status Store::flush(Which which, std::int64_t now_ms) {
    clock_ms_ = now_ms;
    std::vector<std::pair<const std::string, Subject>*> due;
    for (auto& entry : subjects_) {
        const Subject& subject = entry.second;
        const bool late = now_ms - subject.flushed_ms >= flush_every_ms(subject.kind);
        if (subject.changed && (which == Which::all || late || !subject.full.empty())) due.push_back(&entry);
    }
    while (!due.empty()) {
        if (Status written = write_some(due, now_ms); !written) return written;
        if (which == Which::due) break;
    }
    return Done{};
}

Status Store::flush_full(const std::string& name, std::int64_t now_ms) {
    const auto known = subjects_.find(name);
    if (known == subjects_.end() || known->second.full.empty()) return Done{};
    std::vector<std::pair<const std::string, Subject>*> due = {&*known};
    return write_some(due, now_ms);
}

Status Store::forget(const std::string& name) {
    subjects_.erase(name);
    if (Status gone = database_->run("DELETE FROM chunks WHERE subject=(SELECT id FROM subjects WHERE name=?)", {name});
        !gone)
        return gone;
    return database_->run("DELETE FROM subjects WHERE name=?", {name});
}

Status Store::forget_all(const std::string& prefix) {
    std::erase_if(subjects_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
    const state::Values values = {prefix, as_sql(prefix.size())};
    auto transaction = Transaction::begin(*database_, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    for (const char* statement :
         {"DELETE FROM chunks WHERE subject IN (SELECT id FROM subjects WHERE substr(name, 1, ?2) = ?1)",
          "DELETE FROM subjects WHERE substr(name, 1, ?2) = ?1"})
        if (Status gone = database_->run(statement, values); !gone) return gone;
    return transaction->commit();
}

std::vector<std::string> Store::subjects(Kind kind) {
    std::vector<std::string> names;
    const Status read =
        database_->each("SELECT name FROM subjects WHERE kind=? ORDER BY name", {static_cast<std::int64_t>(kind)},
                        [&](const Row& row) { names.push_back(row.text(0)); });
    return read ? names : std::vector<std::string>();
}

std::size_t Store::loaded(Kind kind) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(subjects_, [&](const auto& entry) { return entry.second.kind == kind; }));
}

Status Store::prune(std::int64_t wall_s, std::int64_t bytes_most) {
    const auto widths = usage_shape.levels();
    for (std::size_t level = 0; level < widths.size(); ++level) {
        const std::int64_t samples = as_sql(widths[level] * usage_shape.chunk_buckets);
        Status gone = database_->run(std::string("DELETE FROM chunks") + of_usage + " AND number < ?",
                                     {as_sql(level), (wall_s - usage_kept_s) / samples});
        if (!gone) return gone;
        std::int64_t bytes = 0, oldest_kept = 0;  // `bytes`: bytes of the newest chunks, which fit into the limit
        Status read = database_->each(std::string("SELECT number, sum(length(bytes)) FROM chunks") + of_usage +
                                          " GROUP BY number ORDER BY number DESC",
                                      {as_sql(level)}, [&](const Row& row) {
                                          bytes += row.integer(1);
                                          if (bytes > bytes_most && oldest_kept == 0) oldest_kept = row.integer(0) + 1;
                                      });
        if (!read) return read;
        gone = database_->run(std::string("DELETE FROM chunks") + of_usage + " AND number < ?",
                              {as_sql(level), oldest_kept});
        if (!gone) return gone;
    }
    for (const std::string& name : subjects(Kind::usage))
        if (!subjects_.contains(name)) {
            Status gone = database_->run(
                "DELETE FROM subjects WHERE name=? AND NOT EXISTS(SELECT 1 FROM chunks WHERE subject=subjects.id)",
                {name});
            if (!gone) return gone;
        }
    return Done{};
}

void Store::unload(std::int64_t now_ms, std::size_t bytes_most) {
    std::erase_if(subjects_, [&](const auto& entry) {
        return !entry.second.changed && now_ms - entry.second.used_ms > unused_ms;
    });
    std::size_t bytes = 0;
    // sorted: subjects that are written come first, as they can be unloaded at once
    std::vector<std::tuple<bool, std::int64_t, std::string>> runs;
    for (const auto& [name, subject] : subjects_) {
        bytes += bytes_of(subject.levels, subject.full);
        if (subject.kind == Kind::run) runs.emplace_back(subject.changed, subject.used_ms, name);
    }
    std::ranges::sort(runs);
    for (const auto& [changed, used, name] : runs) {
        // If a disk refuses writes, the memory must still not fill: even levels that are not written are dropped, since
        // they can be rebuilt from the reports.
        if (bytes <= (changed ? 2 * bytes_most : bytes_most)) return;
        const Subject& subject = subjects_.at(name);
        bytes -= bytes_of(subject.levels, subject.full);
        subjects_.erase(name);
    }
}

}  // namespace rtrain::history
