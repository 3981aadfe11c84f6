// The verbs that need no head: version, schema, validate, help, completion.
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/code_folder.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/dispatch/completion.hpp"
#include "cmd/dispatch/dispatch.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Result<int> version(Invocation& call) {
    const json value = {{"version", RTRAIN_VERSION}, {"program", "rtrain"}, {"protocol", 1}};
    call.out.document(value, "version", "rtrain " RTRAIN_VERSION "\n");
    return 0;
}

Result<int> schema(Invocation& call) {
    const json value = parse_json(spec::json_schema());
    if (call.out.format() == Format::yaml)
        call.out.raw(yaml_text(value));
    else
        call.out.raw(terminal_json(value, call.out.format() == Format::jsonl ? -1 : 2) + "\n");
    return 0;
}

Result<int> validate(Invocation& call) {
    const std::string path = call.arguments.argument(0);
    Result<JobFile> file = read_job_file(call, path);
    if (!file) return file.error();
    if (Status starts = check_entrypoint(*file); !starts) return with_line(starts.error(), *file, path);
    const json job = parse_json(spec::to_json(file->job));
    call.out.document({{"valid", true}, {"file", path}, {"name", file->job.name}, {"job", job}}, "file",
                      path + " is valid\n");
    return 0;
}

Result<int> help(Invocation& call) {
    const std::string first = call.arguments.argument(0);
    const std::string second = call.arguments.argument(1);
    const Command* command = find_command(second.empty() ? first : first + " " + second);
    std::string text = first.empty()                                     ? help_all()
                       : command != nullptr && help_group(first).empty() ? help_command(*command)
                                                                         : help_group(first);
    if (!second.empty() && command != nullptr) text = help_command(*command);
    if (text.empty() || (!second.empty() && command == nullptr))
        return Error{.code = ErrorCode::usage,
                     .message = "there is no verb \"" + first + (second.empty() ? "" : " " + second) + "\"",
                     .next = "rtrain help"};
    json rows = json::array();
    for (const Command& row : commands())
        if (!row.hidden)
            rows.push_back({{"verb", row.words}, {"group", row.group}, {"help", row.help}, {"usage", usage_line(row)}});
    if (call.out.for_people())
        call.out.raw(text);
    else
        call.out.list({{"items", rows}}, {}, "verb", "");
    return 0;
}

Result<int> completion(Invocation& call) {
    const std::string script = completion_script(call.arguments.argument(0));
    if (script.empty())
        return Error{.code = ErrorCode::usage,
                     .message = "no completion for the shell \"" + call.arguments.argument(0) +
                                "\"; there are bash, zsh and fish",
                     .next = "rtrain completion bash"};
    const std::string shell = call.arguments.argument(0);
    if (call.arguments.has("output") && !call.out.for_people())
        call.out.document({{"shell", shell}, {"script", script}}, "shell", script);
    else  // This output is a script for a shell, so RTRAIN_OUTPUT and the configuration file do not change its format.
        call.out.raw(script);
    return 0;
}

Result<int> complete(Invocation& call) {
    std::string text;
    for (const std::string& word : completions(call, call.arguments.positional)) text += word + "\n";
    call.out.raw(text);
    return 0;
}

}  // namespace

std::vector<Command> offline_commands() {
    const Flag set{
        .name = "set", .takes = Value::text, .shown = "FIELD=VALUE", .help = "change the spec", .repeated = true};
    return {{.words = "validate",
             .group = "Runs",
             .help = "check a job spec: every problem at once, with its line",
             .arguments = {{.name = "job.yaml", .value = Value::file}},
             .flags = {set},
             .handler = validate,
             .reach = Reach::this_machine},
            {.words = "schema",
             .group = "Tools",
             .help = "print the JSON Schema of job.yaml, for editors",
             .handler = schema},
            {.words = "completion",
             .group = "Tools",
             .help = "print a completion script for bash, zsh or fish",
             .arguments = {{.name = "SHELL", .value = Value::text}},
             .handler = completion},
            {.words = "help",
             .group = "Tools",
             .help = "list the verbs, or explain one",
             .arguments = {{.name = "VERB", .value = Value::verb, .optional = true},
                           {.name = "VERB", .value = Value::verb, .optional = true}},
             .handler = help},
            {.words = "version", .group = "Tools", .help = "print the version", .handler = version},
            {.words = "__complete",
             .group = "",
             .help = "candidates for the last word",
             .handler = complete,
             .hidden = true,
             .raw = true}};
}

}  // namespace rtrain::cmd
