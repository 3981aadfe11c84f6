// The levels of all runs, nodes and ranks, in an SQLite file of their own. The file holds nothing that must survive:
// levels of runs are rebuilt from the reports in state.db, and nodes have one day of usage. So a commit does not wait
// for the disk, and a damaged file is replaced by a new one.
//
// A subject is the owner of charts: "run/7", "node/n1", "rank/7/0", "cluster". Subjects that get samples are in memory
// with the newest chunk of each level. `flush` writes what has changed. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/history/levels.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::history {

inline constexpr const char* database_name = "history.db";

enum class Kind : std::int64_t { run = 0, usage = 1, cluster = 2 };

struct NamedSample {
    std::uint64_t at = 0;  // position; a value before the subject's last position counts as the last position
    std::int64_t wall_ms = 0;
    std::uint32_t attempt = 0;
    std::uint64_t step = 0;
    std::vector<std::pair<std::string, double>> values;
};

struct Series {
    std::uint64_t samples_per_point = 1;
    std::vector<Point> points;
};

class Store {
  public:
    // Opens the file or creates it. Replaces a file that this version cannot read by an empty one.
    static Result<Store> open(const std::string& path);

    Status add(const std::string& subject, Kind kind, const NamedSample& sample);
    Result<std::uint64_t> last(const std::string& subject);             // position of its last sample; 0: no sample
    Result<std::vector<std::string>> keys(const std::string& subject);  // names of the subject's keys, sorted
    Result<Series> read(const std::string& subject, const std::string& key, const Window& window);
    Status forget(const std::string& subject);
    Status forget_all(const std::string& prefix);  // forgets all subjects whose name has this prefix
    std::vector<std::string> subjects(Kind kind);  // names of the subjects on disk, sorted
    std::size_t loaded(Kind kind) const;           // number of subjects in memory
    bool loaded(const std::string& subject) const { return subjects_.contains(subject); }

    // `due`: one transaction at most, and the rest with the next call; `all`: everything now
    enum class Which { due, all };
    Status flush(Which which, std::int64_t now_ms);  // `now_ms`: monotonic clock
    // Writes the subject if one of its chunks has become full, so that full chunks of many subjects do not add up to
    // one long transaction.
    Status flush_full(const std::string& subject, std::int64_t now_ms);
    // Removes data of nodes and ranks that is older than its limit, or beyond the limit in bytes.
    Status prune(std::int64_t wall_s, std::int64_t bytes_most);
    // removes subjects from memory that are written and were not used for long
    void unload(std::int64_t now_ms, std::size_t bytes_most);

  private:
    struct Subject {
        explicit Subject(Kind of);
        std::int64_t id = 0;
        Kind kind;
        std::vector<std::string> names;  // names of the keys; index: the key's number
        std::map<std::string, std::size_t, std::less<>> numbers;
        Levels levels;
        std::vector<FullChunk> full;  // full chunks that are not written yet
        std::uint64_t last = 0;
        bool changed = false;
        std::int64_t flushed_ms = 0, used_ms = 0;
    };
    explicit Store(state::Database database) : database_(std::make_unique<state::Database>(std::move(database))) {}
    Result<Subject*> find(const std::string& name);  // null: there is no such subject
    Status resume(Subject& subject);
    std::optional<std::size_t> number_of(Subject& subject, const std::string& key) const;
    Status write(const std::string& name, Subject& subject);
    Status write_chunk(const Subject& subject, std::size_t level, const Chunk& chunk);
    Status write_some(std::vector<std::pair<const std::string, Subject>*>& due, std::int64_t now_ms);
    Result<std::vector<std::uint64_t>> begins(const Subject& subject);
    Status read_level(const Subject& subject, std::size_t level, std::size_t key, const Window& window, Joiner& into);

    std::unique_ptr<state::Database> database_;
    std::map<std::string, Subject> subjects_;
    std::int64_t next_id_ = 1, clock_ms_ = 0;
};

}  // namespace rtrain::history
