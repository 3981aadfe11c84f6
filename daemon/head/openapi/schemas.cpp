// A field is "name:type". Types are text int number bool time map, words a|b, a schema's name, a list [type], and a map
// of values {type}. A '?' behind the type: may be null. A '?' behind the name: may be missing.
#include "daemon/head/openapi/schemas.hpp"

#include <nlohmann/json.hpp>

namespace rtrain::head {
namespace {

using nlohmann::ordered_json;

struct Kind {
    const char *name, *fields;
};
constexpr Kind kinds[] = {
    {"Health", "status:text version:text"},
    {"Session", "user:text role:viewer|user|admin csrf:text? idle_most_ms:int"},
    {"SessionEnded", "status:text"},
    {"GpuShare", "total:int allocated:int"},
    {"CpuShare", "total:text allocated:text"},
    {"OwnToken", "id:text? role:text user:text expires:time?"},
    {"Status",
     "cluster_id:text name:text version:text started:time now:time address:text nodes:{int} runs:{int} gpus:GpuShare "
     "cpus:CpuShare token:OwnToken health:HeadHealth storage_root:text storage_warning:text?"},
    {"Disk", "size:int free:int"},
    {"HeadHealth", "memory_bytes:int? longest_task_seconds:number? data_disk:Disk? storage_disk:Disk?"},
    {"ClusterHistory", "key?:text keys?:[text] last:int seconds_per_point?:int points?:UsagePoints"},
    {"TimelineNode", "node:text gpus:[int]"},
    {"TimelineAttempt",
     "run_id:text name:text user:text state:text attempt:int attempt_state:text placed:time ended:time? "
     "nodes:[TimelineNode]"},
    {"Timeline", "items:[TimelineAttempt] whole:bool"},
    {"Report", "attempt:int index:int time:time? position:int? checkpoint?:text metrics?:map metrics_by_rank?:{map}"},
    {"RunPoints", "position:[int] attempt:[int] step:[int] time_ms:[int] min:[number] max:[number]"},
    {"RunHistory", "run_id:text key?:text keys?:[text] last:int reports_per_point?:int points?:RunPoints"},
    {"UsagePoints", "time_ms:[int] min:[number] max:[number]"},
    {"NodeHistory", "node:text key?:text keys?:[text] last:int seconds_per_point?:int points?:UsagePoints"},
    {"RankHistory", "run_id:text rank:int key?:text keys?:[text] last:int seconds_per_point?:int points?:UsagePoints"},
    {"RankPoints", "rank:int seconds_per_point:int points:UsagePoints"},
    {"RanksHistory", "run_id:text key:text last:int ranks:[RankPoints]"},
    {"Run",
     "run_id:text name:text user:text state:text reason:text reason_brief:text reason_kind:text? submitted:time? "
     "started:time? ended:time? attempt:int "
     "attempts:int failures:int max_failures:int workers:int workers_min:int workers_max:int needs:text queue:text "
     "priority:int yields:bool? storage_path:text "
     "run_path:text nodes:[text] last_report:Report? checkpoints:int checkpoints_lost:int latest_checkpoint:text? "
     "restored_from:text? "
     "warnings:[text] checkpoint_asked:CheckpointAsked? after:[After] array:text? array_index:int? "
     "array_runs?:[ArrayRun] stop:map labels:{text} job?:map? goodput?:Goodput advice?:[Advice] "
     "report_wait?:ReportWait? memory_limit?:MemoryLimit? channel?:text"},
    {"CheckpointAsked", "reason:text why:text asked:time deadline:time? workers:int?"},
    {"After", "run_id:text until:text"},
    {"ArrayRun", "run_id:text name:text state:text"},
    {"MemoryLimit", "bytes_per_worker:int enforced_by:[text]"},
    {"Goodput", "wall_ms:int ratio:number causes_ms:{int}"},
    {"Advice", "kind:text text:text"},
    {"ReportWait", "missing_ranks:[int] waiting_ranks:[int] since:time"},
    {"RemovedRun",
     "run_id:text name:text attempts:int checkpoints:int files:text? files_kept:text? dry_run:bool files_error?:text"},
    {"Stacks", "run_id:text attempt:int ranks:[int] ended:[int] away:[text] marker:text"},
    {"Worker",
     "rank:int node:text local_rank:int node_rank:int state:text pid:int gpus:[int] exit_code:int? signal:int? "
     "out_of_memory:bool cause:text stopped_with_attempt:bool"},
    {"FirstFailure", "rank:int node:text lead_us:int cause:text"},
    {"Attempt",
     "number:int state:text placed:time? started:time? ended:time? lasted_ms:int from:text? cause:text "
     "cause_brief:text cause_kind:text? world_size:int "
     "nodes:[text] first_failure:FirstFailure? workers:[Worker]"},
    {"Checkpoint",
     "directory:text attempt:int sequence:int world_size:int bytes:int metrics:{number?} committed:time? path:text "
     "deleting:bool verified:time? faults:int? latest:bool"},
    {"VerifiedCheckpoints", "recorded:int"},
    {"VerifiedFiles", "directory:text faults:int damaged:[text]"},
    {"NodeReason", "node:text text:text"},
    {"QueuePlace", "name:text position:int length:int"},
    {"ReasonGroup", "nodes:int kind:text text:text field:text? line:text?"},
    {"Plan",
     "verdict:text placement:{map} reasons:[NodeReason] nearest_change:text proved:bool headline:text rules:[text] "
     "nodes:int fitting:int groups:[ReasonGroup] holders:[text] queue:QueuePlace? warnings:[text]"},
    {"Explanation",
     "verdict:text? placement:{map} reasons:[NodeReason] nearest_change:text proved:bool headline:text state:text "
     "run_id:text name:text rules:[text] nodes:int fitting:int groups:[ReasonGroup] holders:[text] queue:QueuePlace?"},
    {"Node",
     "node:text state:text connected:bool address:text port:int resources:{text} free:{text} gpus:int gpus_free:text "
     "gpu_model:text gpu_devices:[GpuDevice] labels:{text} registered:time? last_heartbeat_ms:int? reason:text "
     "reason_kind:text? "
     "warnings:[text] drain_deadline:time? failures:int memory_used:int "
     "memory_total:int version:text runs:[text] facts:{text}"},
    {"GpuHolder", "run:text run_id:text amount:text"},
    {"GpuDevice",
     "index:int free:text held_by:[GpuHolder] uuid?:text utilization_ratio?:number? memory_used?:int? "
     "memory_total?:int? power_watts?:number? temperature_celsius?:number? ecc_errors?:number? "
     "foreign_processes?:number? xids?:{int}"},
    {"Budget", "user:text? gpu_hours:number used:number used_up:bool frees_in_ms:int?"},
    {"Queue",
     "name:text parent:text? share:int borrow:bool preempt:bool waiting:int running:int in_use:{text} quota:{text} "
     "user_runs:int? user_gpus:text? gpu_hours:text? user_gpu_hours:text? user_gpu_hours_of:{text} budget_window:text "
     "budget_preempts:bool budgets:[Budget] recent_use:{text}"},
    {"Use", "user:text queue:text run_id:text name:text runs:int gpu_hours:number cpu_hours:number efficiency:number?"},
    {"RankUse",
     "rank:int node:text attempt:int memory_bytes:int? cpu_seconds:number? data_wait_seconds:number? "
     "interval_ms:int? heartbeat_age_ms:int? silent_ms:int? gpu_utilization_ratio?:number gpu_memory_bytes?:int"},
    {"NodeLeft", "node:text state:text"},
    {"Waiting",
     "position:int? run_id:text name:text state:text queue:text priority:int starts_in_ms:int? waiting_ms:int "
     "needs:text "
     "why:text"},
    {"Demand", "resources:{text} label_selector:[text] placement:text workers:int runs:int largest_run:int"},
    {"Event", "id:int time:time? kind:text run_id:text? run_name:text? node:text? text:text"},
    {"Token",
     "id:text role:text user:text created:time? expires:time? uses_left:int? last_used:time? revoked:bool token?:text"},
    {"AuditRow",
     "sequence:int time:time? wall_ms:int user:text role:text credential:text from:text action:text target:text "
     "run:text hash:text"},
    {"Certificate", "certificate:text ca:text node:text cluster_id:text"},
    {"Backup", "file:text bytes:int"},
    {"Stopping", "status:text"},
    {"Blob", "sha256:text"},
    {"LogLine", "attempt:int rank:int stream:text time:time? line:text state?:text goes_on?:bool"},
    {"KeptBytes", "memory:int database:int files:int storage:int"},
    {"Quota",
     "user:text used:KeptBytes limit:KeptBytes own_limit:bool streams:int streams_limit:int kinds:{KeptBytes}"},
    {"Value", "key:text bytes:int"},
    {"Values", "items:[Value]"},
    {"FileList", "items:[StorageEntry]"},
    {"StorageEntry", "path:text bytes:int"},
    {"StorageDone", "bytes?:int done?:bool items?:[StorageEntry]"},
};

ordered_json reference(const std::string& kind) { return {{"$ref", "#/components/schemas/" + kind}}; }

ordered_json words_of(const std::string& type) {
    ordered_json words = ordered_json::array();
    for (std::size_t begin = 0; begin <= type.size();) {
        const std::size_t end = std::min(type.find('|', begin), type.size());
        words.push_back(type.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

ordered_json type_of(std::string type) {
    const bool nullable = type.ends_with('?');
    if (nullable) type.pop_back();
    ordered_json out;
    if (type == "text")
        out = {{"type", "string"}};
    else if (type == "time")
        out = {{"type", "string"}, {"format", "date-time"}};
    else if (type == "int")
        out = {{"type", "integer"}};
    else if (type == "number" || type == "bool")
        out = {{"type", type == "bool" ? "boolean" : "number"}};
    else if (type == "map")
        out = {{"type", "object"}};
    else if (type.starts_with('['))
        out = {{"type", "array"}, {"items", type_of(type.substr(1, type.size() - 2))}};
    else if (type.starts_with('{'))
        out = {{"type", "object"}, {"additionalProperties", type_of(type.substr(1, type.size() - 2))}};
    else if (type.find('|') != std::string::npos)
        out = {{"type", "string"}, {"enum", words_of(type)}};
    else
        out = reference(type);
    return nullable ? ordered_json{{"anyOf", {out, {{"type", "null"}}}}} : out;
}

ordered_json object_of(const std::string& fields) {
    ordered_json properties = ordered_json::object(), required = ordered_json::array();
    for (std::size_t begin = 0; begin < fields.size();) {
        const std::size_t end = std::min(fields.find(' ', begin), fields.size());
        const std::string field = fields.substr(begin, end - begin);
        const std::size_t colon = field.find(':');
        std::string name = field.substr(0, colon);
        if (name.ends_with('?'))
            name.pop_back();
        else
            required.push_back(name);
        properties[name] = type_of(field.substr(colon + 1));
        begin = end + 1;
    }
    ordered_json out = {{"type", "object"}};
    if (!required.empty()) out["required"] = required;
    out["properties"] = properties;
    return out;
}

ordered_json page_of(const std::string& kind) {
    return {{"type", "object"},
            {"required", {"items", "next_cursor"}},
            {"properties",
             {{"items", {{"type", "array"}, {"items", reference(kind)}}}, {"next_cursor", type_of("text?")}}}};
}

ordered_json content_of(const DescribedRoute& row) {
    const std::string answer = row.answer, stream = row.stream;
    ordered_json content = ordered_json::object();
    if (answer.find('/') != std::string::npos)
        content[answer] = ordered_json::object();
    else if (answer.starts_with("page "))
        content["application/json"] = {{"schema", page_of(answer.substr(5))}};
    else
        content["application/json"] = {{"schema", reference(answer)}};
    if (stream.empty()) return content;
    const char* type = answer == "application/octet-stream" ? "application/json"
                       : answer == "application/jsonl"      ? "application/jsonl"
                                                            : "text/event-stream";
    content[type] = {{"schema", reference(stream)}};
    if (answer == "application/jsonl") content["text/event-stream"] = {{"schema", reference(stream)}};
    return content;
}

}  // namespace

ordered_json answer_schemas() {
    ordered_json out = ordered_json::object();
    for (const Kind& kind : kinds) out[kind.name] = object_of(kind.fields);
    return out;
}

ordered_json answers_of(const DescribedRoute& route) {
    ordered_json out = ordered_json::object();
    const std::string codes = route.status;
    for (std::size_t at = 0; at < codes.size(); at += 4) {
        ordered_json& response = out[codes.substr(at, 3)];
        response["description"] =
            std::string(route.stream).empty() ? "done" : "done; a schema beside a stream is each event's";
        if (*route.answer != '\0') response["content"] = content_of(route);
    }
    return out;
}

}  // namespace rtrain::head
