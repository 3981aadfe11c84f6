// Converts bytes to frames. The type of each field is checked: bytes of a stranger or a broken worker become an Error
// that names the field, never an exception or a wrong value.
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/json_depth.hpp"
#include "base/json_text.hpp"
#include "runtime/worker/frames/bounds.hpp"
#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {
namespace {

using Json = nlohmann::json;

// Reads the fields of one object, and stores the first fault.
class Fields {
  public:
    explicit Fields(const Json& object) : object_(object) {}

    std::string text(const char* name) {
        const Json* value = find(name);
        if (value && value->is_string()) return value->get<std::string>();
        return wrong(name, "a string"), std::string{};
    }
    std::string text_of_at_most(std::size_t bytes, const char* name) {
        std::string value = text(name);
        if (value.size() > bytes) wrong(name, "short enough");
        return value;
    }
    std::optional<std::string> text_or_null(const char* name) {
        const Json* value = find(name);
        if (!value || value->is_null()) return std::nullopt;
        return text(name);
    }
    template <class Int>
    Int number(const char* name, Int smallest, Int largest) {
        const Json* value = find(name);
        if (value && value->is_number_integer() && fits(*value, smallest, largest)) return value->get<Int>();
        return wrong(name, "an integer in its range"), Int{};
    }
    template <class Int>
    Int number_or(const char* name, Int otherwise, Int largest) {  // an optional field
        return find(name) ? number<Int>(name, 0, largest) : otherwise;
    }
    std::string object(const char* name) {
        const Json* value = find(name);
        if (value && value->is_object()) return json_text(*value);
        return wrong(name, "an object"), std::string{"{}"};
    }
    bool truth(const char* name) {  // an optional field
        const Json* value = find(name);
        if (value && !value->is_boolean()) wrong(name, "true or false");
        return value && value->is_boolean() && value->get<bool>();
    }
    bool has(const char* name) const { return object_.contains(name); }
    const Json* object_or_null(const char* name) {
        const Json* value = find(name);
        if (!value || value->is_null()) return nullptr;
        if (!value->is_object()) return wrong(name, "an object or null"), nullptr;
        return value;
    }
    std::vector<std::uint64_t> numbers(const char* name) {  // an optional field
        std::vector<std::uint64_t> out;
        const Json* value = find(name);
        if (!value) return out;
        if (!value->is_array()) return wrong(name, "a list of integers"), out;
        for (const Json& integer : *value) {
            if (!integer.is_number_unsigned()) return wrong(name, "a list of integers"), out;
            out.push_back(integer.get<std::uint64_t>());
        }
        return out;
    }
    void wrong(const char* name, const char* expected) {
        if (fault_.empty()) fault_ = "field '" + std::string(name) + "' is missing or not " + expected;
    }
    const std::string& fault() const { return fault_; }
    void take_fault(const Fields& inner) {
        if (fault_.empty()) fault_ = inner.fault_;
    }

  private:
    const Json* find(const char* name) const {
        const auto at = object_.find(name);
        return at == object_.end() ? nullptr : &*at;
    }
    template <class Int>
    static bool fits(const Json& value, Int smallest, Int largest) {
        if (value.is_number_unsigned()) {
            return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(largest) &&
                   (smallest <= 0 || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(smallest));
        }
        return smallest < 0 && value.get<std::int64_t>() >= static_cast<std::int64_t>(smallest);
    }
    const Json& object_;
    std::string fault_;
};

constexpr std::int64_t time_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t version_max = std::numeric_limits<std::int32_t>::max();

Hello hello(Fields& f) {
    Hello m;
    m.protocol = f.number<std::int32_t>("protocol", 1, version_max);
    m.min_protocol = f.number<std::int32_t>("min_protocol", 1, version_max);
    m.attempt = f.text("attempt");
    m.rank = f.number<std::uint32_t>("rank", 0, std::numeric_limits<std::uint32_t>::max());
    m.pid = f.number<std::int64_t>("pid", 0, time_max);
    m.key = f.text("key");
    m.next_index = f.number<std::uint64_t>("next_index", 1, index_max);
    m.uncommitted = f.numbers("uncommitted");
    m.place = static_cast<Place>(f.number_or<int>("place", 0, 2));
    m.report_memory = f.number_or<std::uint32_t>("board_layout", 0, std::numeric_limits<std::uint32_t>::max()) ==
                      report_memory_layout;
    return m;
}

Upload upload_named(Fields& f) {
    const std::string name = f.text("upload");
    if (name == "default") return Upload::run_default;
    if (name == "sync") return Upload::sync;
    if (name == "async") return Upload::async;
    if (name != "none") f.wrong("upload", "one of default, sync, async, none");
    return Upload::none;
}

// Returns text for people. Its begin is the most useful part, and a cut character at the end is harmless.
std::string cut(std::string text, std::size_t bytes) {
    if (text.size() > bytes) text.resize(bytes);
    return text;
}

Report report(Fields& f) {
    Report m;
    m.index = f.number<std::uint64_t>("index", 1, index_max);
    m.metrics_json = f.object("metrics");
    if (const Json* files = f.object_or_null("checkpoint")) {
        Fields inner(*files);
        m.checkpoint = StagedFiles{.path = inner.text_of_at_most(path_bytes_max, "path"),
                                   .directory_name = inner.text_of_at_most(name_bytes_max, "directory_name")};
        f.take_fault(inner);
    }
    if (m.metrics_json.size() > metrics_bytes_max) f.wrong("metrics", "short enough");
    m.checkpoint_error = cut(f.text_or_null("checkpoint_error").value_or(""), staging_error_bytes_max);
    m.error_reason = cut(f.text_or_null("error_reason").value_or(""), name_bytes_max);
    m.upload = upload_named(f);
    return m;
}

Broadcast broadcast(Fields& f) {
    Broadcast m;
    m.index = f.number<std::uint64_t>("index", 1, index_max);
    if (const auto text = f.text_or_null("data")) {
        m.data = storage::base64_decode(*text);
        if (!m.data) f.wrong("data", "base64");
    }
    return m;
}

Heartbeat heartbeat(Fields& f) {
    return {.silent_ms = f.number<std::int64_t>("silent_ms", 0, time_max),
            .cpu_ms = f.number<std::int64_t>("cpu_ms", 0, time_max),
            .data_wait_ms = f.has("data_wait_ms") ? f.number<std::int64_t>("data_wait_ms", 0, time_max) : -1,
            .barrier_wait_ms = f.has("barrier_wait_ms") ? f.number<std::int64_t>("barrier_wait_ms", 0, time_max) : -1,
            .barrier_waits = f.number_or<std::uint64_t>("barrier_waits", 0, index_max),
            .checkpoint_wait_ms =
                f.has("checkpoint_wait_ms") ? f.number<std::int64_t>("checkpoint_wait_ms", 0, time_max) : -1};
}

Welcome welcome(Fields& f) {
    Welcome m;
    m.protocol = f.number<std::int32_t>("protocol", 1, version_max);
    m.context_json = f.object("context");
    if (const Json* from = f.object_or_null("checkpoint")) {
        Fields inner(*from);
        m.checkpoint = ResumeFrom{
            .path = inner.text("path"), .directory = inner.text("directory"), .metrics_json = inner.object("metrics")};
        f.take_fault(inner);
    }
    if (f.has("holder")) m.holder = f.number<std::int64_t>("holder", -1, time_max);
    m.next_index = f.number_or<std::uint64_t>("next_index", 1, index_max);
    m.next_broadcast = f.number_or<std::uint64_t>("next_broadcast", 1, index_max);
    return m;
}

Reported reported(Fields& f) {
    return {.index = f.number<std::uint64_t>("index", 1, index_max), .directory = f.text_or_null("directory")};
}

ReportMemoryOffer report_memory_offer(Fields& f) {
    ReportMemoryOffer m{.ring = f.number<std::uint32_t>("seat", 0, std::numeric_limits<std::uint32_t>::max())};
    m.alone = f.truth("alone");
    if (f.has("upload")) m.upload = upload_named(f);
    if (const Json* stop = f.object_or_null("stop"))
        for (const auto& [metric, value] : stop->items())
            value.is_number() ? void(m.stop[metric] = value.get<double>()) : f.wrong("stop", "an object of numbers");
    return m;
}

Wanted wanted(Fields& f) {
    Wanted m{.what = static_cast<Wish>(f.number<int>("what", 0, 2))};
    m.reason = f.text_or_null("reason").value_or("");
    m.deadline_wall_ms = f.number_or<std::int64_t>("deadline_wall_ms", 0, time_max);
    m.workers = f.number_or<std::uint32_t>("workers", 0, std::numeric_limits<std::uint32_t>::max());
    return m;
}

Committed committed(Fields& f) {
    Committed m;
    m.index = f.number<std::uint64_t>("index", 1, index_max);
    m.directory = f.text("directory");
    m.path = f.text("path");
    m.error = f.text_or_null("error");
    return m;
}

// Parses the body, calls the reader of its type in `read`, and returns the first faulty field as an Error.
template <class Message, class Read>
Result<Message> decoded(std::string_view body, const char* speaker, storage::JsonBounds most, Read read) {
    const auto fault = [&](const std::string& why) {
        return Error{ErrorCode::invalid, "the " + std::string(speaker) + " sent a frame that is not understood: " + why,
                     "check that agent and worker library are of one release (RTRAIN_WORKER_LIB)"};
    };
    if (storage::exceeds(body, most))
        return fault("it has more than " + std::to_string(most.levels) + " levels or " + std::to_string(most.values) +
                     " values");
    const Json object = parse_json(body, most.levels);
    if (!object.is_object()) return fault("it is not a JSON object");
    Fields fields(object);
    const std::string type = fields.text("type");
    if (!fields.fault().empty()) return fault(fields.fault());
    std::optional<Message> message = read(type, fields);
    if (!message) return fault("unknown type '" + type.substr(0, 64) + "'");
    if (!fields.fault().empty()) return fault(type + ": " + fields.fault());
    return std::move(*message);
}

constexpr storage::JsonBounds from_worker_most{.levels = frame_levels_max, .values = frame_values_max};
// An agent passes on what storage contains, which has its own bounds.
constexpr storage::JsonBounds from_agent_most{.levels = 2 * storage::json_levels_most};

// Removes `text` from the front. Returns false if it is absent.
bool taken(std::string_view& rest, std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
}

// Accepts digits without a sign or a leading zero, as encode() writes an index; otherwise nullopt.
std::optional<std::uint64_t> index_taken(std::string_view& rest) {
    std::uint64_t index = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    if (error != std::errc{} || rest.front() == '0' || index > index_max) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return index;
}

// The two frames of each report are read without building a tree if they have exactly the form of encode(). Other forms
// are left to the readers above.
std::optional<Report> usual_report(std::string_view rest) {
    if (!taken(rest, R"({"type":"report","index":)")) return std::nullopt;
    const auto index = index_taken(rest);
    if (!index || !taken(rest, R"(,"checkpoint":null,"upload":"default","metrics":{)")) return std::nullopt;
    if (rest.size() > metrics_bytes_max || !rest.ends_with("}}") || storage::exceeds(rest, from_worker_most))
        return std::nullopt;
    const std::string_view metrics(rest.data() - 1, rest.size());  // with its '{', without the frame's '}'
    if (!is_json(metrics)) return std::nullopt;
    return Report{.index = *index, .metrics_json = std::string(metrics)};
}

std::optional<Reported> usual_answer(std::string_view rest) {
    if (!taken(rest, R"({"type":"reported","index":)")) return std::nullopt;
    const auto index = index_taken(rest);
    if (!index || rest != R"(,"directory":null})") return std::nullopt;
    return Reported{.index = *index};
}

}  // namespace

Result<FromWorker> decode_from_worker(std::string_view body) {
    if (body == R"({"type":"come"})") return FromWorker(ReportsPosted{});
    if (auto usual = usual_report(body)) return FromWorker(std::move(*usual));
    return decoded<FromWorker>(body, "worker", from_worker_most,
                               [](const std::string& type, Fields& f) -> std::optional<FromWorker> {
                                   if (type == "report") return report(f);
                                   if (type == "pulse") return heartbeat(f);
                                   if (type == "stage") return Stage{.spare = f.truth("spare")};
                                   if (type == "broadcast") return broadcast(f);
                                   if (type == "hello") return hello(f);
                                   if (type == "fail") return Fail{cut(f.text("text"), cause_bytes_max)};
                                   if (type == "come") return ReportsPosted{};
                                   if (type == "release") return Release{};
                                   if (type == "board") return ReportMemoryTaken{};
                                   return std::nullopt;
                               });
}

Result<FromAgent> decode_from_agent(std::string_view body) {
    if (const auto usual = usual_answer(body)) return FromAgent(*usual);
    return decoded<FromAgent>(body, "agent", from_agent_most,
                              [](const std::string& type, Fields& f) -> std::optional<FromAgent> {
                                  if (type == "reported") return reported(f);
                                  if (type == "committed") return committed(f);
                                  if (type == "staged")
                                      return Staged{f.text("path"), f.text_or_null("error").value_or(""),
                                                    f.text_or_null("reason").value_or(""), f.truth("spare")};
                                  if (type == "broadcast") return broadcast(f);
                                  if (type == "wanted") return wanted(f);
                                  if (type == "board") return report_memory_offer(f);
                                  if (type == "welcome") return welcome(f);
                                  if (type == "refuse") return Refuse{f.text("message")};
                                  return std::nullopt;
                              });
}

}  // namespace rtrain::worker
