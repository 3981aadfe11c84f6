// The words between worker and agent (runtime/worker/protocol.md) as values, and their bytes on the socket.
// Both sides read this: librtrain_worker and the agent. A frame is 4 bytes of big-endian length, then one JSON object
// with "type". Unknown fields are ignored, so that the next version may add some; an unknown type is an error.
// JSON objects that only pass through (metrics, context) stay text here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain::worker {

inline constexpr std::int32_t protocol_version = 1;
inline constexpr std::int32_t oldest_protocol = 1;
inline constexpr std::uint32_t report_memory_layout = 3;
inline constexpr std::size_t frame_bytes_max = std::size_t{64}
                                               << 20;  // of a body; also bounds what `broadcast` may carry
inline constexpr std::size_t hello_bytes_max = std::size_t{64} << 10;  // of a body, while its sender is a stranger
// Levels of a worker's frame, and fewer of the metrics in it, so that what stores them may put a few levels around
// them.
inline constexpr std::size_t frame_levels_max = 128, metrics_levels_max = 100;
inline constexpr std::size_t frame_values_max = std::size_t{256} << 10, metrics_values_max = frame_values_max - 16;

enum class Upload { run_default, sync, async, none };

// The kind of `checkpoint_error` of a report whose files made way for a newer checkpoint while no agent was there.
inline constexpr const char* replaced_reason = "replaced";

// A rank has one place, which belongs to one process. `untold`: a library that knows of no other process.
enum class Place { untold, wanted, not_wanted };

// ---- worker to agent ------------------------------------------------------------------------------------------------
struct Hello {
    std::int32_t protocol = protocol_version, min_protocol = oldest_protocol;
    std::string attempt{};
    std::uint32_t rank = 0;
    std::int64_t pid = 0;
    std::string key{};
    std::uint64_t next_index = 1;              // the report that is sent next, or sent again
    std::vector<std::uint64_t> uncommitted{};  // reports whose `committed` this worker still waits for
    bool report_memory = false;                // it can use shared report memory of this layout (report_memory.hpp)
    Place place = Place::untold;
    bool operator==(const Hello&) const = default;
};
struct Stage {
    bool spare = false;  // for a checkpoint that is reported while no agent is there
    bool operator==(const Stage&) const = default;
};
struct StagedFiles {
    std::string path{};            // a staged directory: the agent takes it over
    std::string directory_name{};  // rank 0's wish; may be empty
    bool operator==(const StagedFiles&) const = default;
};
struct Report {
    std::uint64_t index = 0;
    std::string metrics_json = "{}";
    std::optional<StagedFiles> checkpoint{};
    std::string checkpoint_error{};  // why this rank's files are not staged: nobody's of this report may be committed
    std::string error_reason{};      // its kind: storage_full, ...; empty: not told; see also replaced_reason
    Upload upload = Upload::run_default;
    bool operator==(const Report&) const = default;
};
struct Heartbeat {
    std::int64_t silent_ms = 0, cpu_ms = 0;
    std::int64_t data_wait_ms = -1;        // it waited for input, since its start; -1: it does not tell
    std::int64_t barrier_wait_ms = -1;     // for other ranks, in reports and collectives; -1: its library does not tell
    std::uint64_t barrier_waits = 0;       // how often
    std::int64_t checkpoint_wait_ms = -1;  // in reports with a checkpoint; -1: its library does not tell
    bool operator==(const Heartbeat&) const = default;
};
struct Fail {
    std::string text;
    bool operator==(const Fail&) const = default;
};
struct ReportMemoryTaken {  // from now on it looks at its ring
    bool operator==(const ReportMemoryTaken&) const = default;
};
struct Release {  // it gives its rank's place up, and says nothing more
    bool operator==(const Release&) const = default;
};
struct ReportsPosted {  // from the last rank: there are frames in the shared report memory
    bool operator==(const ReportsPosted&) const = default;
};

// ---- both ways: rank 0 sends bytes, the others nullopt; the answer carries rank 0's
// ----------------------------------
struct Broadcast {
    std::uint64_t index = 0;
    std::optional<std::string> data{};  // bytes; on the wire: base64
    bool operator==(const Broadcast&) const = default;
};

// ---- agent to worker ------------------------------------------------------------------------------------------------
struct ResumeFrom {
    std::string path{}, directory{}, metrics_json = "{}";
    bool operator==(const ResumeFrom&) const = default;
};
struct Welcome {
    std::int32_t protocol = protocol_version;
    std::string context_json = "{}";
    std::optional<ResumeFrom> checkpoint{};
    std::int64_t holder = 0;  // the process that has the rank's place; 0: the one that is welcome, -1: nobody
    std::uint64_t next_index = 1, next_broadcast = 1;  // where a process that has the place from now on counts on
    bool operator==(const Welcome&) const = default;
};
struct Refuse {
    std::string message;
    bool operator==(const Refuse&) const = default;
};
struct Staged {
    std::string path;               // empty: there is none, and `error` says why
    std::string error{}, reason{};  // reason: as of Report
    bool spare = false;             // as in the Stage that it answers
    bool operator==(const Staged&) const = default;
};
struct Reported {
    std::uint64_t index = 0;
    std::optional<std::string> directory{};
    bool operator==(const Reported&) const = default;
};
struct Committed {  // directory and error empty: dropped without a fault (replaced by a newer one, or not whole)
    std::uint64_t index = 0;
    std::string directory{}, path{};
    std::optional<std::string> error{};
    bool operator==(const Committed&) const = default;
};
enum class Wish { nothing, checkpoint, stop };
struct Wanted {
    Wish what = Wish::nothing;
    std::string reason{};               // of a checkpoint: operator, resize, drain, preemption, stop
    std::int64_t deadline_wall_ms = 0;  // it counts when it is committed until then; 0: no deadline
    std::uint32_t workers = 0;          // resize: how many workers there will be
    bool operator==(const Wanted&) const = default;
};

struct ReportMemoryOffer {  // comes with the memory's descriptor
    std::uint32_t ring = 0;
    bool alone = false;                    // all ranks of the attempt are of this node: they go on without the agent
    Upload upload = Upload::async;         // what a report without a choice of its own does
    std::map<std::string, double> stop{};  // the job's `stop`: no report passes behind one that has reached it
    bool operator==(const ReportMemoryOffer&) const = default;
};

using FromWorker =
    std::variant<Hello, Stage, Report, Broadcast, Heartbeat, Fail, ReportMemoryTaken, ReportsPosted, Release>;
using FromAgent = std::variant<Welcome, Refuse, Staged, Reported, Committed, Broadcast, Wanted, ReportMemoryOffer>;

// A whole frame, its length in front. Text that is not UTF-8 is sent with replacement characters.
std::string encode(const FromWorker&);
std::string encode(const FromAgent&);

// A frame's body (what FrameReader gives).
Result<FromWorker> decode_from_worker(std::string_view body);
Result<FromAgent> decode_from_agent(std::string_view body);

// Cuts the bytes of a stream into bodies. After an error the stream is beyond repair: close it.
class FrameReader {
  public:
    void add(std::string_view bytes) { buffer_.append(bytes); }
    Result<std::optional<std::string>> next();  // nullopt: more bytes are needed

  private:
    std::string buffer_;
    std::size_t start_ = 0;
};

}  // namespace rtrain::worker
