// rtrain head install, rtrain node install: write a systemd unit from the flags that `head start` and `node join`
// accept.
#include <arpa/inet.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cmd/daemons/head_entry.hpp"
#include "cmd/daemons/unit_checks.hpp"
#include "cmd/daemons/unit_file.hpp"
#include "cmd/daemons/unit_target.hpp"
#include "cmd/daemons/units.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/verbs/rows.hpp"
#include "cmd/verbs/start_flags.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

std::string directory_named(const Arguments& arguments, const char* flag) {
    std::string path = absolute(arguments.text(flag));
    while (path.size() > 1 && path.ends_with("/")) path.pop_back();
    return path;
}

// Warns about settings in the file of defaults that the package's unit reads. The unit that this command writes does
// not read that file.
void tell_of_defaults(Invocation& call, const UnitTarget& target, const std::string& service,
                      const std::vector<std::string>& names) {
    const std::string file = "/etc/default/" + service;
    if (target.of_user) return;
    for (const std::string& name : set_in(target.root, file, names))
        call.out.talk("warning: " + target.root.shown(file) + " sets " + name +
                      ", which the written unit does not read: give the flags here instead");
}

struct Wanted {
    std::string name, text;  // name and text of the unit
    std::string then;        // commands that the user may run next
};

Result<int> print(Invocation& call, const UnitTarget& target, const Wanted& unit) {
    const std::string path = target.root.shown(target.directory + "/" + unit.name);
    call.out.document({{"unit", path}, {"text", unit.text}, {"dry_run", true}}, "unit", unit.text);
    return 0;
}

Result<int> put(Invocation& call, const UnitTarget& target, const Wanted& unit, UnitFile& file) {
    Result<Change> change = file.put();
    if (!change) return change.error();
    const bool changed = *change != Change::none;
    const std::string control = target.of_user ? "systemctl --user " : "systemctl ";
    std::string lines = (changed ? "wrote " : "unchanged: ") + file.path() + "\n";
    if (!target.elsewhere) {
        lines += "next: " + control + "daemon-reload && " + control + "enable --now " + unit.name;
        if (*change == Change::replaced) lines += " && " + control + "restart " + unit.name;
        lines += "\n";
    }
    if (target.of_user) lines += "      loginctl enable-linger    (it then runs while you are not logged in)\n";
    call.out.document({{"unit", file.path()}, {"changed", changed}}, "unit", lines + unit.then);
    return 0;
}

std::vector<Flag> without(std::vector<Flag> flags, const std::vector<std::string_view>& names) {
    std::erase_if(flags, [&names](const Flag& flag) { return std::ranges::find(names, flag.name) != names.end(); });
    return flags;
}

// Fails if a unit for this machine, or for the image, cannot be written with the given flags.
Status check_head_flags(const Arguments& arguments, const UnitTarget& target) {
    const bool as = arguments.has("as");
    if (as && target.of_user)
        return Error{.code = ErrorCode::usage,
                     .message = "--as with --user: a service of your own account runs as you",
                     .next = "leave out one of them"};
    if (as)
        if (Status name = check_account_name(arguments.text("as")); !name) return name;
    if (arguments.has("data") && !as && !target.of_user)
        return Error{
            .code = ErrorCode::usage,
            .message = "--data needs --as: a user that exists only with the service owns no directory but its own",
            .next = "rtrain head install --data DIR --as ACCOUNT, or leave out --data for /var/lib/rtrain-head"};
    for (const char* flag : {"data", "storage-root"}) {
        const std::string path = arguments.text(flag);
        if (std::any_of(path.begin(), path.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
            return Error{.code = ErrorCode::usage,
                         .message = std::string("--") + flag + ": the path has a control character",
                         .next = "name another directory"};
    }
    return Done{};
}

Status check_address(const Arguments& arguments, const HeadOptions& options, const UnitTarget& target) {
    in6_addr parsed{};
    const std::string host = options.host.substr(0, options.host.find('%'));
    if (host != "localhost" && ::inet_pton(AF_INET, host.c_str(), &parsed) != 1 &&
        ::inet_pton(AF_INET6, host.c_str(), &parsed) != 1)
        return Error{.code = ErrorCode::usage,
                     .message = "--host: \"" + host + "\" is no IP address",
                     .next = "give 0.0.0.0, or an address of that machine"};
    int first_free = 1024;
    if (!target.elsewhere) std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first_free;
    if (options.port == 0 || options.port >= first_free) return Done{};
    return Error{.code = ErrorCode::usage,
                 .message = "--port: " + arguments.text("port") + " is below " + std::to_string(first_free) +
                            ", and the service has no rights to listen there",
                 .next = "choose another, or lower net.ipv4.ip_unprivileged_port_start by sysctl"};
}

// Fails if the service's account cannot read the unit's files or start its program.
Status check_heads_rights(const Arguments& arguments, const UnitTarget& target) {
    if (Status outside = check_outside_tmp(target.program); !outside) return outside;
    for (const char* flag : {"queues", "autoscale", "data", "storage-root"})
        if (arguments.has(flag))
            if (Status outside = check_outside_tmp(absolute(arguments.text(flag))); !outside) return outside;
    const bool queues = arguments.has("queues");
    const std::string file = queues ? absolute(arguments.text("queues")) : "";
    const std::string as = arguments.text("as");
    if (as == "root")
        if (Status own = check_program_of_root(target); !own) return own;
    if (as.empty()) {
        if (Status reachable = check_reachable(target.root, target.program, S_IXOTH); !reachable) return reachable;
        return queues ? check_reachable(target.root, file, S_IROTH) : Status(Done{});
    }
    // For an image nothing is checked, since the account exists only on the image's machine.
    if (target.elsewhere) return Done{};
    Result<Account> account = find_account(as);
    if (!account) return account.error();
    if (account->uid == 0)
        if (Status own = check_program_of_root(target); !own) return own;
    const char* open = "open it, and the directories above it, to that account";
    if (Status starts = check_access(*account, target.program, X_OK, open); !starts) return starts;
    return queues ? check_access(*account, file, R_OK, open) : Status(Done{});
}

// Creates the directories that the unit names. systemd does not start a service if one of them is missing.
Status provide_directories(const Arguments& arguments, const UnitTarget& target,
                           const std::vector<std::string>& paths) {
    if (target.of_user || target.elsewhere) return Done{};
    if (arguments.has("as")) {
        Result<Account> account = find_account(arguments.text("as"));
        if (!account) return account.error();
        for (const std::string& path : paths)
            if (Status status = provide_directory(target.root, path, *account); !status) return status;
        return Done{};
    }
    for (const std::string& path : paths)
        if (!target.root.look_at(path))
            return Error{.code = ErrorCode::not_found,
                         .message = "--storage-root: there is no directory " + path,
                         .next =
                             "give the service an account by --as, which it is then made for; or make it, writable "
                             "for the service"};
    return Done{};
}

std::string next_of_head(const UnitTarget& target, const std::string& data, const std::vector<std::string>& writable) {
    if (target.of_user) return "then: rtrain status\n";
    std::string lines;
    for (const std::string& path : writable)
        if (target.elsewhere) lines += "the image must have " + path + ", of the service's account\n";
    return lines + "then: sudo rtrain --config " + shell_word(data + "/config.yaml") +
           " token create --role admin --user NAME\n";
}

Result<int> head_install(Invocation& call) {
    const Arguments& arguments = call.arguments;
    Result<UnitTarget> target = unit_target(arguments);
    if (!target) return target.error();
    if (Status fit = check_head_flags(arguments, *target); !fit) return fit.error();
    Result<HeadOptions> options = head_options(call, target->root.shown(""));
    if (!options) return options.error();
    if (Status free = check_address(arguments, *options, *target); !free) return free.error();
    if (!target->of_user)
        if (Status may = check_heads_rights(arguments, *target); !may) return may.error();
    UnitWish wish{.of_user = target->of_user, .as = arguments.text("as")};
    if (arguments.has("data")) wish.data = directory_named(arguments, "data");
    const std::string data = arguments.has("data") ? wish.data
                             : wish.of_user        ? head_data(arguments)
                                                   : "/var/lib/rtrain-head";
    if (arguments.has("data")) wish.writable.push_back(data);
    if (arguments.has("storage-root")) wish.writable.push_back(directory_named(arguments, "storage-root"));
    wish.command = {target->program, "head", "start", "--data", data};
    for (std::string& word : given_flags(arguments, without(head_start_flags(), {"detach", "data", "new-ca"})))
        wish.command.push_back(std::move(word));
    const Wanted unit{.name = "rtrain-head.service",
                      .text = unit_text(head_unit, wish),
                      .then = next_of_head(*target, data, wish.writable)};
    tell_of_defaults(call, *target, "rtrain-head", {"RTRAIN_HEAD_FLAGS"});
    if (arguments.has("dry-run")) return print(call, *target, unit);
    if (Status there = provide_directories(arguments, *target, wish.writable); !there) return there.error();
    Result<UnitFile> file = UnitFile::prepare(target->root, target->directory, unit.name, unit.text);
    if (!file) return file.error();
    return put(call, *target, unit, *file);
}

// Joins the cluster now, since the unit contains no token. If an agent of this node runs, the node has joined already,
// and the agent locks its directory.
Status join_here(Invocation& call, const NodeOptions& options) {
    if (Status status = make_directory(options.data); !status) return status;
    if (Result<bool> serves = node_serves(options); !serves || *serves) {
        if (serves) call.out.talk("the agent of this node runs: it has joined, and goes on as it is");
        return serves ? Status(Done{}) : serves.error();
    }
    return join_node(options);
}

Result<int> node_install(Invocation& call) {
    const Arguments& arguments = call.arguments;
    Result<UnitTarget> target = unit_target(arguments);
    if (!target) return target.error();
    Result<NodeOptions> options = node_options(arguments);
    if (!options) return options.error();
    if (target->elsewhere && (arguments.has("token") || arguments.has("token-file")))
        return Error{.code = ErrorCode::usage,
                     .message = "--token with --root: each machine that the image runs on joins by itself",
                     .next = "there: rtrain node install " + options->head + " --token T"};
    if (!target->of_user)
        if (Status own = check_program_of_root(*target); !own) return own.error();
    UnitWish wish{.of_user = target->of_user, .path = python_path(target->root, target->program)};
    wish.command = {target->program, "node", "join", options->head};
    std::vector<std::string_view> left_out{"detach", "token", "token-file"};
    // Machines that are made from an image have names of their own, so the unit contains no name.
    if (!target->elsewhere) {
        wish.command.insert(wish.command.end(), {"--name", options->name, "--data", options->data});
        left_out.insert(left_out.end(), {"name", "data"});
    }
    for (std::string& word : given_flags(arguments, without(node_join_flags(), left_out)))
        wish.command.push_back(std::move(word));
    const Wanted unit{
        .name = "rtrain-node.service", .text = unit_text(node_unit, wish), .then = "then: rtrain nodes\n"};
    tell_of_defaults(call, *target, "rtrain-node", {"RTRAIN_HEAD", "RTRAIN_NODE_FLAGS"});
    if (arguments.has("dry-run")) return print(call, *target, unit);
    Result<UnitFile> file = UnitFile::prepare(target->root, target->directory, unit.name, unit.text);
    if (!file) return file.error();
    if (!target->elsewhere)  // Joining is the last step, after the file is written, because a token works once.
        if (Status joined = join_here(call, *options); !joined) return joined.error();
    return put(call, *target, unit, *file);
}

std::vector<Flag> with_places(std::vector<Flag> flags) {
    flags.push_back({.name = "user", .help = "a service of this account's own manager; no root is needed"});
    flags.push_back({.name = "root",
                     .takes = Value::file,
                     .shown = "DIR",
                     .help = "write below DIR, for an image that does not run now"});
    flags.push_back({.name = "dry-run", .help = "print the unit, and write nothing"});
    return flags;
}

}  // namespace

std::vector<Command> install_commands() {
    std::vector<Flag> head = without(head_start_flags(), {"detach", "new-ca"});
    head.push_back({.name = "as",
                    .takes = Value::text,
                    .shown = "ACCOUNT",
                    .help = "who runs it (default: a user that exists with the service alone)"});
    return {{.words = "head install",
             .group = "Cluster",
             .help = "write a systemd unit that starts the head with these flags",
             .flags = with_places(std::move(head)),
             .handler = head_install,
             .details = "Writing the same unit again changes nothing. docs/install.md tells what the unit does.",
             .reach = Reach::this_machine},
            {.words = "node install",
             .group = "Nodes",
             .help = "join the cluster, and write a systemd unit that starts the agent with these flags",
             .arguments = {{.name = "HOST:PORT"}},
             .flags = with_places(without(node_join_flags(), {"detach"})),
             .handler = node_install,
             .details = "A node that has joined before needs no --token. docs/install.md tells what the unit does.",
             .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
