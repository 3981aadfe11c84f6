// The levels of all runs, nodes and ranks, in an SQLite file of their own. It holds nothing that must survive: of a run
// it is made anew from the reports in state.db, and of a node it is a day of usage. So a commit here waits for no disk,
// and a damaged file is begun anew.
//
// A subject is what charts are drawn of: "run/7", "node/n1", "rank/7/0". Those that are added to are in memory, with
// the newest chunk of each level. `flush` writes what has changed. Not thread-safe.
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

enum class Kind : std::int64_t { run = 0, usage = 1 };

struct NamedSample {
    std::uint64_t at = 0;  // one before the subject's last counts as that one
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
    // Opens the file, or makes it. One that cannot be read as ours is removed and begun anew.
    static Result<Store> open(const std::string& path);

    Status add(const std::string& subject, Kind kind, const NamedSample& sample);
    Result<std::uint64_t> last(const std::string& subject);             // of its last sample; 0: there is none
    Result<std::vector<std::string>> keys(const std::string& subject);  // sorted
    Result<Series> read(const std::string& subject, const std::string& key, const Window& window);
    Status forget(const std::string& subject);
    Status forget_all(const std::string& prefix);  // subjects whose name begins so
    std::vector<std::string> subjects(Kind kind);  // that are on disk, sorted
    std::size_t loaded(Kind kind) const;           // in memory
    bool loaded(const std::string& subject) const { return subjects_.contains(subject); }

    enum class Which { due, all };                   // due: for one transaction at most, the rest with the next call
    Status flush(Which which, std::int64_t now_ms);  // monotonic
    // Writes the subject where a chunk of it has become full, so that they do not come together to a long transaction.
    Status flush_full(const std::string& subject, std::int64_t now_ms);
    // Removes what is older than it is kept, or more than may be kept, of nodes and ranks.
    Status prune(std::int64_t wall_s, std::int64_t bytes_most);
    void unload(std::int64_t now_ms, std::size_t bytes_most);  // what is written and was not used for long

  private:
    struct Subject {
        explicit Subject(Kind of);
        std::int64_t id = 0;
        Kind kind;
        std::vector<std::string> names;  // of keys, by number
        std::map<std::string, std::size_t, std::less<>> numbers;
        Levels levels;
        std::vector<FullChunk> full;  // not yet written
        std::uint64_t last = 0;
        bool changed = false;
        std::int64_t flushed_ms = 0, used_ms = 0;
    };
    explicit Store(state::Database database) : database_(std::make_unique<state::Database>(std::move(database))) {}
    Result<Subject*> find(const std::string& name);  // null: there is none
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
