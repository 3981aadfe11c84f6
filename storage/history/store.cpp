// See store.hpp.
#include "storage/history/store.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "storage/history/columns.hpp"
#include "storage/history/limits.hpp"

namespace rtrain::history {
namespace {

using state::Database;
using state::Row;
using state::Transaction;

constexpr std::int64_t application_id = 0x72747268;  // the letters "rtrh"
constexpr std::int64_t file_version = 1;
constexpr std::array tables = {
    // `keys`: the names in the order of their numbers, each followed by a line break.
    "CREATE TABLE subjects(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL, last INTEGER NOT "
    "NULL, keys TEXT NOT NULL)",
    "CREATE TABLE chunks(subject INTEGER NOT NULL, level INTEGER NOT NULL, number INTEGER NOT NULL, bytes BLOB NOT "
    "NULL, "
    "PRIMARY KEY(subject, level, number))",
};
Shape shape_of(Kind kind) {
    switch (kind) {
        case Kind::run:
            return run_shape;
        case Kind::usage:
            return usage_shape;
        case Kind::cluster:
            return cluster_shape;
    }
    return usage_shape;
}
// A later version may have written a kind that this version lacks. This version shows no chart of such a subject.
Kind kind_of(std::int64_t number) {
    return number == 0 ? Kind::run : number == static_cast<std::int64_t>(Kind::cluster) ? Kind::cluster : Kind::usage;
}

Status make_tables(Database& database) {
    auto transaction = Transaction::begin(database, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    for (const char* statement : tables)
        if (Status status = database.run(statement); !status) return status;
    for (const auto& [pragma, value] : {std::pair{"application_id", application_id}, {"user_version", file_version}})
        if (Status set = database.run("PRAGMA " + std::string(pragma) + "=" + std::to_string(value)); !set) return set;
    return transaction->commit();
}

Result<Database> opened(const std::string& path) {
    auto database = Database::open(path, Database::Mode::create);
    if (!database) return database.error();
    ::chmod(path.c_str(), 0600);  // The mode is set before SQLite creates the WAL, which gets the same permissions.
    // With these settings a power failure may lose the newest chunks, but never leaves half a chunk.
    for (const char* pragma : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"})
        if (Status set = database->run(pragma); !set) return set.error();
    const auto objects = database->integer("SELECT count(*) FROM sqlite_schema");
    if (!objects) return objects.error();
    if (*objects == 0)
        if (Status status = make_tables(*database); !status) return status.error();
    const auto id = database->integer("PRAGMA application_id"), version = database->integer("PRAGMA user_version");
    if (!id || !version) return id ? version.error() : id.error();
    if (*id != application_id || *version != file_version)
        return Error{ErrorCode::damaged, path + " is not a history of this version", ""};
    std::string whole;
    Status checked = database->each("PRAGMA quick_check(1)", {}, [&](const Row& row) { whole = row.text(0); });
    if (!checked) return checked.error();
    if (whole != "ok") return Error{ErrorCode::damaged, path + ": " + whole, ""};
    return database;
}

}  // namespace

Store::Subject::Subject(Kind of) : kind(of), levels(shape_of(of)) {}

Result<Store> Store::open(const std::string& path) {
    auto database = opened(path);
    if (!database && (database.error().code == ErrorCode::damaged || database.error().code == ErrorCode::internal)) {
        std::error_code ignored;
        for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix, ignored);
        database = opened(path);
    }
    if (!database) return database.error();
    Store store(std::move(*database));
    const auto highest = store.database_->integer("SELECT coalesce(max(id), 0) FROM subjects");
    if (!highest) return highest.error();
    store.next_id_ = *highest + 1;
    return store;
}

Result<Store::Subject*> Store::find(const std::string& name) {
    const auto known = subjects_.find(name);
    if (known != subjects_.end()) {
        known->second.used_ms = clock_ms_;
        return &known->second;
    }
    std::optional<Subject> subject;
    Status read =
        database_->each("SELECT id, kind, last, keys FROM subjects WHERE name=?", {name}, [&](const Row& row) {
            subject.emplace(kind_of(row.integer(1)));
            subject->id = row.integer(0);
            subject->last = static_cast<std::uint64_t>(row.integer(2));
            std::istringstream lines(row.text(3));
            for (std::string key; std::getline(lines, key);) {
                subject->numbers[key] = subject->names.size();
                subject->names.push_back(key);
            }
        });
    if (!read) return read.error();
    if (!subject) return nullptr;
    if (Status resumed = resume(*subject); !resumed) return resumed.error();
    subject->used_ms = subject->flushed_ms = clock_ms_;
    return &subjects_.emplace(name, std::move(*subject)).first->second;
}

Status Store::resume(Subject& subject) {
    for (std::size_t level = 0; level < subject.levels.shape().levels().size(); ++level) {
        std::optional<std::uint64_t> number;
        std::string bytes;
        Status read =
            database_->each("SELECT number, bytes FROM chunks WHERE subject=? AND level=? ORDER BY number DESC LIMIT 1",
                            {subject.id, as_sql(level)}, [&](const Row& row) {
                                number = static_cast<std::uint64_t>(row.integer(0));
                                bytes = row.blob(1);
                            });
        if (!read) return read;
        if (!number) continue;
        auto chunk = unpack(bytes);
        if (!chunk) return chunk.error();
        chunk->number = *number;
        subject.levels.resume(level, std::move(*chunk));
    }
    return Done{};
}

std::optional<std::size_t> Store::number_of(Subject& subject, const std::string& key) const {
    const auto known = subject.numbers.find(key);
    if (known != subject.numbers.end()) return known->second;
    if (subject.names.size() >= keys_most || key.size() > key_bytes_most || key.find('\n') != key.npos)
        return std::nullopt;
    subject.names.push_back(key);
    return subject.numbers[key] = subject.names.size() - 1;
}

Status Store::add(const std::string& name, Kind kind, const NamedSample& sample) {
    auto known = find(name);
    if (!known) return known.error();
    if (*known == nullptr) {
        Subject fresh(kind);
        fresh.id = next_id_++;
        fresh.used_ms = fresh.flushed_ms = clock_ms_;
        *known = &subjects_.emplace(name, std::move(fresh)).first->second;
    }
    Subject& subject = **known;
    Sample added{.at = std::max(sample.at, subject.last),
                 .wall_ms = sample.wall_ms,
                 .attempt = sample.attempt,
                 .step = sample.step,
                 .values = {}};
    for (const auto& [key, value] : sample.values)
        if (const auto number = std::isfinite(value) ? number_of(subject, key) : std::nullopt)
            added.values.emplace_back(*number, value);
    subject.levels.add(added, subject.full);
    subject.last = added.at;
    subject.changed = true;
    return Done{};
}

Result<std::uint64_t> Store::last(const std::string& name) {
    if (const auto known = subjects_.find(name); known != subjects_.end()) return known->second.last;
    const auto last = database_->integer("SELECT last FROM subjects WHERE name=?", {name});
    if (!last) return last.error();
    return static_cast<std::uint64_t>(*last);
}

Result<std::vector<std::string>> Store::keys(const std::string& name) {
    const auto subject = find(name);
    if (!subject) return subject.error();
    std::vector<std::string> names;
    if (*subject != nullptr) names = (*subject)->names;
    std::ranges::sort(names);
    return names;
}

Result<std::vector<std::uint64_t>> Store::begins(const Subject& subject) {
    const auto widths = subject.levels.shape().levels();
    std::vector<std::uint64_t> out;
    for (std::size_t level = 0; level < widths.size(); ++level) {
        std::uint64_t number = subject.levels.open(level).number;
        for (const FullChunk& full : subject.full)
            if (full.level == level) number = std::min(number, full.chunk.number);
        const auto oldest =
            database_->integer("SELECT coalesce(min(number), ?3) FROM chunks WHERE subject=?1 AND level=?2",
                               {subject.id, as_sql(level), as_sql(number)});
        if (!oldest) return oldest.error();
        number = std::min(number, static_cast<std::uint64_t>(*oldest));
        out.push_back(number * subject.levels.shape().chunk_buckets * widths[level]);
    }
    return out;
}

Status Store::read_level(const Subject& subject, std::size_t level, std::size_t key, const Window& window,
                         Joiner& into) {
    const Shape& shape = subject.levels.shape();
    const std::uint64_t samples = shape.widths[level] * shape.chunk_buckets;
    const std::uint64_t first = window.first / samples, last = window.last / samples;
    // chunks that are newer than those on disk; key: the chunk's number
    std::map<std::uint64_t, const Chunk*> in_memory;
    for (const FullChunk& full : subject.full)
        if (full.level == level) in_memory[full.chunk.number] = &full.chunk;
    if (const Chunk& open = subject.levels.open(level); !open.marks.empty()) in_memory[open.number] = &open;
    const auto join = [&](const Chunk& chunk) {
        for (std::size_t i = 0; i < chunk.marks.size(); ++i) into.add(chunk.marks[i], chunk.range(key, i));
    };
    Status whole = Done{};
    auto next = in_memory.lower_bound(first);
    Status read = database_->each(
        "SELECT number, bytes FROM chunks WHERE subject=? AND level=? AND number BETWEEN ? AND ? ORDER BY number",
        {subject.id, as_sql(level), as_sql(first), as_sql(last)}, [&](const Row& row) {
            const auto number = static_cast<std::uint64_t>(row.integer(0));
            for (; next != in_memory.end() && next->first < number; ++next) join(*next->second);
            if (in_memory.contains(number) || !whole) return;
            const auto chunk = unpack(row.blob(1), key);
            if (chunk)
                join(*chunk);
            else
                whole = chunk.error();
        });
    if (!read) return read;
    for (; next != in_memory.end() && next->first <= last; ++next) join(*next->second);
    return whole;
}

Result<Series> Store::read(const std::string& name, const std::string& key, const Window& window) {
    const auto known = find(name);
    if (!known) return known.error();
    if (*known == nullptr || window.count() == 0) return Series{};
    const Subject& subject = **known;
    const auto number = subject.numbers.find(key);
    if (number == subject.numbers.end()) return Series{};
    const auto oldest = begins(subject);
    if (!oldest) return oldest.error();
    const std::size_t level = level_for(subject.levels.shape(), window, *oldest);
    Joiner joiner(window, subject.levels.shape().widths[level]);
    if (Status read = read_level(subject, level, number->second, window, joiner); !read) return read.error();
    return Series{.samples_per_point = joiner.samples_per_point(), .points = std::move(joiner.points)};
}

}  // namespace rtrain::history
