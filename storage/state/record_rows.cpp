// Where each kind of record is stored, and how it is written, erased and read.
#include "storage/state/record_rows.hpp"

#include <optional>

#include "storage/state/journal.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

// Returns the number as a text of fixed length, so that texts sort like their numbers.
std::string number_key(std::uint64_t number) {
    std::string digits = std::to_string(number);
    return std::string(20 - digits.size(), '0') + digits;
}
std::string attempt_key(AttemptId id) { return number_key(id.run.value) + "/" + number_key(id.number); }
std::string checkpoint_key(const CheckpointKey& key) { return number_key(key.run.value) + "/" + key.directory; }

constexpr const char* part_kinds[] = {"attempt_node", "attempt_worker"};

struct Place {
    RowKey key;
    Value run = Null{};
    bool erased = false;
    // `whole`: set for an attempt's own row; `part_of`: set for a row on top of an attempt's own row
    std::optional<AttemptId> whole{}, part_of{};
};
Value run_value(RunId run) { return static_cast<std::int64_t>(run.value); }

struct PlaceOf {
    Place operator()(const Meta&) const { return {.key = {"meta", ""}}; }
    Place operator()(const Node& node) const { return {.key = {"node", node.id.value}}; }
    Place operator()(const Run& run) const {
        return {.key = {"run", number_key(run.id.value)}, .run = run_value(run.id)};
    }
    Place operator()(const Attempt& attempt) const {
        return {.key = {"attempt", attempt_key(attempt.id)}, .run = run_value(attempt.id.run), .whole = attempt.id};
    }
    Place operator()(const AttemptNode& part) const {
        return {.key = {part_kinds[0], attempt_key(part.attempt) + "/" + part.node.value},
                .run = run_value(part.attempt.run),
                .part_of = part.attempt};
    }
    Place operator()(const AttemptWorker& part) const {
        return {.key = {part_kinds[1], attempt_key(part.attempt) + "/" + number_key(part.rank.value)},
                .run = run_value(part.attempt.run),
                .part_of = part.attempt};
    }
    Place operator()(const Checkpoint& checkpoint) const {
        return {.key = {"checkpoint", checkpoint_key({checkpoint.run, checkpoint.directory})},
                .run = run_value(checkpoint.run)};
    }
    Place operator()(const PendingArray& array) const {  // the record has no run, because it outlives its first run
        return {.key = {"array", number_key(array.model.id.value)}};
    }
    Place operator()(const EraseArray& erase) const {
        return {.key = {"array", number_key(erase.first.value)}, .erased = true};
    }
    Place operator()(const Queues&) const { return {.key = {"queues", ""}}; }
    Place operator()(const QueueUse& use) const { return {.key = {"queue_use", use.queue}}; }
    Place operator()(const BudgetUse& use) const { return {.key = {"budget_use", use.queue + "/" + use.user}}; }
    Place operator()(const EraseBudgetUse& erase) const {
        return {.key = {"budget_use", erase.queue + "/" + erase.user}, .erased = true};
    }
    Place operator()(const EraseNode& erase) const { return {.key = {"node", erase.id.value}, .erased = true}; }
    // Erases the run's row, and every other row that belongs to the run.
    Place operator()(const EraseRun& erase) const { return {.key = {}, .run = run_value(erase.id), .erased = true}; }
    Place operator()(const EraseAttempt& erase) const {
        return {.key = {"attempt", attempt_key(erase.id)}, .erased = true, .whole = erase.id};
    }
    Place operator()(const EraseCheckpoint& erase) const {
        return {.key = {"checkpoint", checkpoint_key(erase.key)}, .erased = true};
    }
};

// Erases the rows on top of an attempt's own row when that row is written or erased.
Status erase_parts(Database& database, const Place& place, Kept& kept) {
    if (!place.whole || kept.in_parts.erase(*place.whole) == 0) return Done{};
    kept.joined.insert(*place.whole);
    for (const char* kind : part_kinds) {
        // '0' is the character after '/', so the range contains all keys that begin with this key and '/'
        const Values range = {std::string(kind), place.key.second + "/", place.key.second + "0"};
        if (Status gone = database.run("DELETE FROM records WHERE kind=? AND key>? AND key<?", range); !gone)
            return gone;
    }
    return Done{};
}

Status save_record(Database& database, const Written& written, Place place, Kept& kept) {
    if (const EraseRun* gone = std::get_if<EraseRun>(written.record)) {
        const auto first = kept.in_parts.lower_bound({.run = gone->id, .number = 0}),
                   end = kept.in_parts.lower_bound({.run = {gone->id.value + 1}, .number = 0});
        kept.joined.insert(first, end);
        kept.in_parts.erase(first, end);
        return database.run("DELETE FROM records WHERE run=?", {place.run});
    }
    if (Status gone = erase_parts(database, place, kept); !gone) return gone;
    if (place.part_of) kept.in_parts.insert(*place.part_of);
    if (place.erased)
        return database.run("DELETE FROM records WHERE kind=? AND key=?", {place.key.first, place.key.second});
    std::string json = written.json;
    if (auto more = kept.unknown.find(place.key); more != kept.unknown.end())
        json.insert(json.size() - 1, more->second);
    return insert_row(database, "records", {place.key.first, place.key.second, place.run, std::move(json)});
}

}  // namespace

// Saves the records of one transaction, in order. If several records have one row, it writes only the last, because a
// reader sees no other.
Status save_records(Database& database, const std::vector<Written>& records, Kept& kept) {
    std::vector<Place> places;
    std::map<RowKey, std::size_t> last;
    std::map<AttemptId, std::size_t> last_whole;
    for (const Written& written : records) {
        places.push_back(std::visit(PlaceOf{}, *written.record));
        if (!std::holds_alternative<EraseRun>(*written.record)) last[places.back().key] = places.size() - 1;
        if (places.back().whole) last_whole[*places.back().whole] = places.size() - 1;
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
        const auto newest = last.find(places[i].key);
        if (newest != last.end() && newest->second != i) continue;
        const auto whole = places[i].part_of ? last_whole.find(*places[i].part_of) : last_whole.end();
        // A later record in this transaction is the whole attempt, which includes this part.
        if (whole != last_whole.end() && whole->second > i) continue;
        Status saved = save_record(database, records[i], std::move(places[i]), kept);
        if (!saved) return saved;
    }
    return Done{};
}

Result<Loaded> load_records(Database& database, const std::string& table) {
    Loaded loaded;
    std::optional<Error> wrong;
    const std::string sql =
        // this order returns each attempt before its parts
        "SELECT kind, key, json FROM " + table + " ORDER BY kind, key";
    Status read = database.each(sql, {}, [&](const Row& row) {
        std::string json = row.text(2);
        Result<Record> record = decode_record(json);
        const std::optional<AttemptId> part_of = record ? std::visit(PlaceOf{}, *record).part_of : std::nullopt;
        if (part_of && !loaded.cluster.attempts.contains(*part_of))
            record =
                Error{ErrorCode::damaged, "the record " + row.text(0) + " " + row.text(1) + " has lost its attempt",
                      "rtrain head restore-backup FILE"};
        if (!record) {
            if (!wrong) wrong = record.error();
            return;
        }
        rtrain::apply(loaded.cluster, *record);
        if (part_of) loaded.kept.in_parts.insert(*part_of);
        std::string beyond = unknown_members(json, *record);
        if (!beyond.empty()) loaded.kept.unknown[{row.text(0), row.text(1)}] = beyond;
    });
    if (!read) return read.error();
    if (wrong) return *wrong;
    return loaded;
}

std::map<RowKey, std::string> as_rows(const Cluster& cluster) {
    std::map<RowKey, std::string> rows;
    auto put = [&](const Record& record) { rows[std::visit(PlaceOf{}, record).key] = encode(record); };
    put(cluster.meta);
    for (const auto& [id, node] : cluster.nodes) put(node);
    for (const auto& [id, run] : cluster.runs) put(run);
    for (const auto& [id, attempt] : cluster.attempts) put(attempt);
    for (const auto& [key, checkpoint] : cluster.checkpoints) put(checkpoint);
    for (const auto& [first, array] : cluster.arrays) put(array);
    if (cluster.queues != Queues{}) put(cluster.queues);
    for (const auto& [queue, use] : cluster.use) put(use);
    return rows;
}

std::int64_t checksum_of(const std::vector<Record>& records) {
    Values texts;
    for (const Record& record : records) texts.emplace_back(encode(record));
    return checksum(texts);
}

std::int64_t checksum_of(std::span<const Written> records) {
    Values texts;
    for (const Written& written : records) texts.emplace_back(written.json);
    return checksum(texts);
}

}  // namespace rtrain::state
