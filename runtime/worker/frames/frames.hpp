// The messages between worker and agent (runtime/worker/protocol.md) as values, and their bytes on the socket. Used by
// both sides: librtrain_worker and the agent. A frame is 4 bytes of big-endian length, then one JSON object with
// "type". Unknown fields are ignored, so that later versions may add some. An unknown type is an error. JSON objects
// that only pass through (metrics, context) stay text here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace rtrain::worker {

inline constexpr std::int32_t protocol_version = 1;
inline constexpr std::int32_t oldest_protocol = 1;
inline constexpr std::uint32_t report_memory_layout = 3;
inline constexpr std::size_t frame_bytes_max = std::size_t{64}
                                               << 20;  // the most bytes of a body; also bounds `broadcast`
inline constexpr std::size_t hello_bytes_max = std::size_t{64} << 10;  // the same until the sender is authenticated
// Levels of a worker's frame. Its metrics may have fewer, so that what stores them can add some levels.
inline constexpr std::size_t frame_levels_max = 128, metrics_levels_max = 100;
inline constexpr std::size_t frame_values_max = std::size_t{256} << 10, metrics_values_max = frame_values_max - 16;

enum class Upload { run_default, sync, async, none };

// The kind of `checkpoint_error` for files that a newer checkpoint replaced while no agent was connected.
inline constexpr const char* replaced_reason = "replaced";

// A rank has one place, which belongs to one process. `untold`: an older library, which has no notion of places.
enum class Place { untold, wanted, not_wanted };

// ---- worker to agent ------------------------------------------------------------------------------------------------
struct Hello {
    std::int32_t protocol = protocol_version, min_protocol = oldest_protocol;
    std::string attempt{};
    std::uint32_t rank = 0;
    std::int64_t pid = 0;
    std::string key{};
    std::uint64_t next_index = 1;              // the report that is sent next or again
    std::vector<std::uint64_t> uncommitted{};  // reports for which this worker still waits for `committed`
    bool report_memory = false;  // true: the worker can use shared report memory of this layout (report_memory.hpp)
    Place place = Place::untold;
    bool operator==(const Hello&) const = default;
};
struct Stage {
    bool spare = false;  // true: for a checkpoint that is reported while no agent is connected
    bool operator==(const Stage&) const = default;
};
struct StagedFiles {
    std::string path{};            // a staged directory, which the agent takes over
    std::string directory_name{};  // the name that rank 0 requests; may be empty
    bool operator==(const StagedFiles&) const = default;
};
struct Report {
    std::uint64_t index = 0;
    std::string metrics_json = "{}";
    std::optional<StagedFiles> checkpoint{};
    // why this rank's files are not staged; then no files of this report may be committed
    std::string checkpoint_error{};
    std::string error_reason{};  // kind of the error: storage_full, ...; empty: unknown; see also replaced_reason
    Upload upload = Upload::run_default;
    bool operator==(const Report&) const = default;
};
struct Heartbeat {
    std::int64_t silent_ms = 0, cpu_ms = 0;
    std::int64_t data_wait_ms = -1;  // time that the worker has waited for input since its start; -1: not measured
    // time that it has waited for other ranks in reports and collectives; -1: not measured
    std::int64_t barrier_wait_ms = -1;
    std::uint64_t barrier_waits = 0;       // number of these waits
    std::int64_t checkpoint_wait_ms = -1;  // time in reports with a checkpoint; -1: not measured
    bool operator==(const Heartbeat&) const = default;
};
struct Fail {
    std::string text;
    bool operator==(const Fail&) const = default;
};
struct ReportMemoryTaken {  // From now on the worker reads its ring.
    bool operator==(const ReportMemoryTaken&) const = default;
};
struct Release {  // The worker gives up its rank's place and sends nothing further.
    bool operator==(const Release&) const = default;
};
struct ReportsPosted {  // The last rank sends it: the shared report memory contains frames.
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
    std::int64_t holder = 0;  // the process that has the rank's place; 0: the welcomed one, -1: none
    std::uint64_t next_index = 1, next_broadcast = 1;  // the next indexes of the process that has the place from now on
    bool operator==(const Welcome&) const = default;
};
struct Refuse {
    std::string message;
    bool operator==(const Refuse&) const = default;
};
struct Staged {
    std::string path;               // empty: `error` contains why there is none
    std::string error{}, reason{};  // `reason`: as in Report
    bool spare = false;             // as in the Stage that is answered
    bool operator==(const Staged&) const = default;
};
struct Reported {
    std::uint64_t index = 0;
    std::optional<std::string> directory{};
    bool operator==(const Reported&) const = default;
};
struct Committed {  // directory and error empty: dropped without a fault (replaced by a newer one, or incomplete)
    std::uint64_t index = 0;
    std::string directory{}, path{};
    std::optional<std::string> error{};
    bool operator==(const Committed&) const = default;
};
enum class Wish { nothing, checkpoint, stop };
struct Wanted {
    Wish what = Wish::nothing;
    std::string reason{};               // reason of the request: operator, resize, drain, preemption, stop
    std::int64_t deadline_wall_ms = 0;  // a commit until this time counts; 0: no deadline
    std::uint32_t workers = 0;          // resize: the new number of workers
    bool operator==(const Wanted&) const = default;
};

struct ReportMemoryOffer {  // sent with the memory's descriptor
    std::uint32_t ring = 0;
    bool alone = false;  // true: all ranks of the attempt are on this node, so they can continue without the agent
    Upload upload = Upload::async;         // upload mode of reports that do not choose one
    std::map<std::string, double> stop{};  // The job's `stop`: no report passes after one that has reached it.
    bool operator==(const ReportMemoryOffer&) const = default;
};

using FromWorker =
    std::variant<Hello, Stage, Report, Broadcast, Heartbeat, Fail, ReportMemoryTaken, ReportsPosted, Release>;
using FromAgent = std::variant<Welcome, Refuse, Staged, Reported, Committed, Broadcast, Wanted, ReportMemoryOffer>;

// Returns a whole frame with its length. Text that is not UTF-8 gets replacement characters.
std::string encode(const FromWorker&);
std::string encode(const FromAgent&);

// Reads a frame's body, as FrameReader returns it.
Result<FromWorker> decode_from_worker(std::string_view body);
Result<FromAgent> decode_from_agent(std::string_view body);

// Cuts a stream of bytes into bodies. After an error the stream cannot be read further and must be closed.
class FrameReader {
  public:
    void add(std::string_view bytes) { buffer_.append(bytes); }
    Result<std::optional<std::string>> next();  // nullopt: more bytes are needed

  private:
    std::string buffer_;
    std::size_t start_ = 0;
};

}  // namespace rtrain::worker
