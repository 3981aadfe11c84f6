// Converts frames to bytes. Metrics and context are JSON text: they are parsed here once, so that no invalid text is
// sent. Invalid text becomes an empty object (the library checks the user's input before).
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson object_of(const std::string& text) {
    OrderedJson value = OrderedJson::parse(text, nullptr, false);
    return value.is_object() ? value : OrderedJson::object();
}

template <class T>
OrderedJson or_null(const std::optional<T>& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

const char* name_of(Upload upload) {
    switch (upload) {
        case Upload::run_default:
            return "default";
        case Upload::sync:
            return "sync";
        case Upload::async:
            return "async";
        case Upload::none:
            return "none";
    }
    return "default";
}

struct ToJson {
    OrderedJson operator()(const Hello& m) const {
        OrderedJson value = {{"type", "hello"},
                             {"protocol", m.protocol},
                             {"min_protocol", m.min_protocol},
                             {"attempt", m.attempt},
                             {"rank", m.rank},
                             {"pid", m.pid},
                             {"key", m.key},
                             {"next_index", m.next_index},
                             {"uncommitted", m.uncommitted}};
        if (m.report_memory) value["board_layout"] = report_memory_layout;
        if (m.place != Place::untold) value["place"] = static_cast<int>(m.place);
        return value;
    }
    OrderedJson operator()(const Stage& m) const {
        OrderedJson value = {{"type", "stage"}};
        if (m.spare) value["spare"] = true;
        return value;
    }
    OrderedJson operator()(const Report& m) const {  // all fields except the metrics: see `report_frame`
        OrderedJson files = nullptr;
        if (m.checkpoint) files = {{"path", m.checkpoint->path}, {"directory_name", m.checkpoint->directory_name}};
        return {{"type", "report"},
                {"index", m.index},
                {"checkpoint", files},
                {"checkpoint_error", m.checkpoint_error},
                {"error_reason", m.error_reason},
                {"upload", name_of(m.upload)}};
    }
    OrderedJson operator()(const Broadcast& m) const {
        OrderedJson data = nullptr;
        if (m.data) data = storage::base64_encode(*m.data);
        return {{"type", "broadcast"}, {"index", m.index}, {"data", data}};
    }
    OrderedJson operator()(const Heartbeat& m) const {
        OrderedJson value = {{"type", "pulse"}, {"silent_ms", m.silent_ms}, {"cpu_ms", m.cpu_ms}};
        if (m.data_wait_ms >= 0) value["data_wait_ms"] = m.data_wait_ms;
        if (m.barrier_wait_ms >= 0) value["barrier_wait_ms"] = m.barrier_wait_ms;
        if (m.barrier_waits > 0) value["barrier_waits"] = m.barrier_waits;
        if (m.checkpoint_wait_ms >= 0) value["checkpoint_wait_ms"] = m.checkpoint_wait_ms;
        return value;
    }
    OrderedJson operator()(const Fail& m) const { return {{"type", "fail"}, {"text", m.text}}; }
    // Workers and agents of earlier versions read `board`, `board_layout`, `seat` and `come`. On the wire the shared
    // report memory keeps these names.
    OrderedJson operator()(const ReportMemoryTaken&) const { return {{"type", "board"}}; }
    OrderedJson operator()(const Release&) const { return {{"type", "release"}}; }
    OrderedJson operator()(const ReportsPosted&) const { return {{"type", "come"}}; }
    OrderedJson operator()(const ReportMemoryOffer& m) const {
        OrderedJson value = {{"type", "board"}, {"seat", m.ring}};
        if (m.alone) value["alone"] = true;
        if (m.upload != Upload::async) value["upload"] = name_of(m.upload);
        if (!m.stop.empty()) value["stop"] = m.stop;
        return value;
    }
    OrderedJson operator()(const Welcome& m) const {
        OrderedJson from = nullptr;
        if (m.checkpoint) {
            from = {{"path", m.checkpoint->path},
                    {"directory", m.checkpoint->directory},
                    {"metrics", object_of(m.checkpoint->metrics_json)}};
        }
        return {{"type", "welcome"},
                {"protocol", m.protocol},
                {"context", object_of(m.context_json)},
                {"checkpoint", from},
                {"holder", m.holder},
                {"next_index", m.next_index},
                {"next_broadcast", m.next_broadcast}};
    }
    OrderedJson operator()(const Refuse& m) const { return {{"type", "refuse"}, {"message", m.message}}; }
    OrderedJson operator()(const Staged& m) const {
        OrderedJson value = {{"type", "staged"}, {"path", m.path}, {"error", m.error}, {"reason", m.reason}};
        if (m.spare) value["spare"] = true;
        return value;
    }
    OrderedJson operator()(const Reported& m) const {
        return {{"type", "reported"}, {"index", m.index}, {"directory", or_null(m.directory)}};
    }
    OrderedJson operator()(const Committed& m) const {
        return {{"type", "committed"},
                {"index", m.index},
                {"directory", m.directory},
                {"path", m.path},
                {"error", or_null(m.error)}};
    }
    OrderedJson operator()(const Wanted& m) const {
        OrderedJson out = {{"type", "wanted"}, {"what", static_cast<int>(m.what)}};
        if (!m.reason.empty()) out["reason"] = m.reason;
        if (m.deadline_wall_ms != 0) out["deadline_wall_ms"] = m.deadline_wall_ms;
        if (m.workers != 0) out["workers"] = m.workers;
        return out;
    }
};

std::string framed(std::string_view body) {
    const auto size = static_cast<std::uint32_t>(body.size());
    std::string frame;
    frame.reserve(body.size() + 4);
    for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<char>(size >> shift & 0xff));
    return frame += body;
}

std::string framed_json(const OrderedJson& value) {
    return framed(value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

// Reports are frequent, so their metrics are checked and passed on without rebuilding them.
std::string report_frame(const Report& report) {
    const auto first = report.metrics_json.find_first_not_of(" \t\r\n");
    const bool object = first != std::string::npos && report.metrics_json[first] == '{';
    const bool sound = object && is_json(report.metrics_json);
    std::string body;
    if (report.checkpoint || !report.checkpoint_error.empty()) {
        body = ToJson{}(report).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
        body.pop_back();
    } else {
        body = R"({"type":"report","index":)" + std::to_string(report.index) + R"(,"checkpoint":null,"upload":")" +
               name_of(report.upload) + '"';
    }
    body += R"(,"metrics":)";
    body += sound ? report.metrics_json : "{}";
    body += '}';
    return framed(body);
}

}  // namespace

std::string encode(const FromWorker& message) {
    if (const auto* report = std::get_if<Report>(&message)) return report_frame(*report);
    return framed_json(std::visit(ToJson{}, message));
}
std::string encode(const FromAgent& message) {
    if (const auto* answer = std::get_if<Reported>(&message); answer && !answer->directory)
        return framed(R"({"type":"reported","index":)" + std::to_string(answer->index) + R"(,"directory":null})");
    return framed_json(std::visit(ToJson{}, message));
}

}  // namespace rtrain::worker
