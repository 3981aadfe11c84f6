// The table of all verbs: the rows of each file of verbs, in the order of `rtrain help`.
#include <iterator>

#include "cmd/dispatch/dispatch.hpp"
#include "cmd/engines/engine_verbs.hpp"
#include "cmd/line/command.hpp"
#include "cmd/verbs/audit_verbs.hpp"
#include "cmd/verbs/rows.hpp"

namespace rtrain::cmd {

const std::vector<Command>& commands() {
    static const std::vector<Command> all = [] {
        std::vector<Command> rows;
        for (auto part :
             {local_cluster_commands, head_commands,       backup_commands,    node_commands,    node_use_commands,
              install_commands,       simulate_commands,   queue_commands,     report_commands,  token_commands,
              quota_commands,         audit_commands,      context_commands,   program_commands, submit_commands,
              plan_commands,          run_commands,        request_commands,   stack_commands,   describe_commands,
              follow_commands,        checkpoint_commands, restore_commands,   storage_commands, doctor_commands,
              kubernetes_commands,    slurm_commands,      dashboard_commands, offline_commands}) {
            std::vector<Command> some = part();
            rows.insert(rows.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
        }
        return rows;
    }();
    return all;
}

const std::vector<Flag>& global_flags() {
    static const std::vector<Flag> flags{
        {.name = "output",
         .takes = Value::choice,
         .shown = "FORMAT",
         .help = "table, wide, json, jsonl, yaml or name",
         .letter = 'o',
         .choices = "table|wide|json|jsonl|yaml|name"},
        {.name = "color",
         .takes = Value::choice,
         .shown = "WHEN",
         .help = "auto, always or never",
         .choices = "auto|always|never"},
        {.name = "yes", .help = "answer yes to questions", .letter = 'y'},
        {.name = "context",
         .takes = Value::context,
         .shown = "NAME",
         .help = "which cluster of the configuration (RTRAIN_CONTEXT)"},
        {.name = "address", .takes = Value::text, .shown = "HOST:PORT", .help = "the head (RTRAIN_ADDRESS)"},
        {.name = "token",
         .takes = Value::text,
         .shown = "TOKEN",
         .help = "who you are (RTRAIN_TOKEN; better than on the command line)"},
        {.name = "ca", .takes = Value::file, .shown = "FILE", .help = "the cluster's CA certificate (RTRAIN_CA)"},
        {.name = "config", .takes = Value::file, .shown = "FILE", .help = "configuration file (RTRAIN_CONFIG)"},
        {.name = "help", .help = "what the verb does", .letter = 'h'}};
    return flags;
}

const Command* find_command(std::string_view words) {
    for (const Command& command : commands())
        if (words == command.words) return &command;
    return nullptr;
}

const Flag* find_flag(const Command* command, std::string_view name) {
    if (command != nullptr)
        for (const Flag& flag : command->flags)
            if (name == flag.name) return &flag;
    for (const Flag& flag : global_flags())
        if (name == flag.name) return &flag;
    return nullptr;
}

const Flag* find_letter(const Command* command, char letter) {
    if (command != nullptr)
        for (const Flag& flag : command->flags)
            if (letter == flag.letter) return &flag;
    for (const Flag& flag : global_flags())
        if (letter == flag.letter) return &flag;
    return nullptr;
}

}  // namespace rtrain::cmd
