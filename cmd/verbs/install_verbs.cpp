// rtrain head install, rtrain node install: a unit for systemd, from the flags that `head start` and `node join` take.
#include "cmd/verbs/install_verbs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cmd/daemons/head_entry.hpp"
#include "cmd/daemons/units.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/verbs/start_flags.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

struct Target {
    std::string directory;  // of units
    bool of_user = false;
    bool elsewhere = false;  // below --root: of a machine that does not run now
    std::string program;     // as it is called there
};

Result<Target> target_of(const Arguments& arguments) {
    std::error_code failed;
    Target target{.program = std::filesystem::canonical("/proc/self/exe", failed).string()};
    if (arguments.has("user") && arguments.has("root"))
        return Error{.code = ErrorCode::usage,
                     .message = "--user and --root are two different places",
                     .next = "give one of them"};
    if (arguments.has("user")) {
        const std::string home = environment("HOME"), config = environment("XDG_CONFIG_HOME");
        target.directory = (config.empty() ? home + "/.config" : config) + "/systemd/user";
        target.of_user = true;
        return target;
    }
    std::string root = arguments.has("root") ? absolute(arguments.text("root")) : "";
    while (root.ends_with("/")) root.pop_back();
    target.elsewhere = arguments.has("root");
    target.directory = root + "/etc/systemd/system";
    if (target.program.starts_with(root + "/")) target.program.erase(0, root.size());
    if (!target.elsewhere && ::geteuid() != 0)
        return Error{
            .code = ErrorCode::unauthorised,
            .message = "writing " + target.directory + " needs root",
            .next = "run it with sudo; or --user, for a service of your own account; or --root DIR, for an image"};
    return target;
}

// The service's own user must come to the program: through directories that are open to all, and not below /tmp, of
// which the service has one of its own.
Status check_reachable(const std::string& program) {
    std::string closed = program.starts_with("/tmp/") || program.starts_with("/var/tmp/") ? "/tmp" : "";
    for (std::filesystem::path at = program; closed.empty() && at.has_relative_path(); at = at.parent_path()) {
        struct stat found{};
        if (::stat(at.c_str(), &found) != 0 || (found.st_mode & S_IXOTH) == 0) closed = at.string();
    }
    if (closed.empty()) return Done{};
    return Error{
        .code = ErrorCode::conflict,
        .message = "the service's own user cannot start " + program + ": " + closed + " is closed to it",
        .next = "install rtrain where all can read it, such as /opt or /usr, or give the service an account by --as"};
}

// A service that runs as root starts what root alone can change: else whoever may write the program has root.
Status check_roots_own(const std::string& program) {
    for (std::filesystem::path at = program; at.has_relative_path(); at = at.parent_path()) {
        struct stat found{};
        if (::stat(at.c_str(), &found) != 0)
            return Error{.code = ErrorCode::io, .message = "looking at " + at.string() + " failed", .next = ""};
        if (found.st_uid == 0 && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0) continue;
        return Error{.code = ErrorCode::conflict,
                     .message = "the node's service would run " + program +
                                " as root, and others than root may change " + at.string(),
                     .next =
                         "install rtrain where root alone writes, such as /opt or /usr; or --user, for a service "
                         "of your own account"};
    }
    return Done{};
}

Result<int> install(Invocation& call, const Target& target, const std::string& name, const std::string& text,
                    const std::string& then) {
    const std::string control = target.of_user ? "systemctl --user" : "systemctl";
    if (call.arguments.has("dry-run")) {
        call.out.one({{"unit", target.directory + "/" + name}, {"text", text}, {"dry_run", true}}, "unit", text);
        return 0;
    }
    Result<Written> written = write_unit(target.directory, name, text);
    if (!written) return written.error();
    std::string lines = (written->changed ? "wrote " : "unchanged: ") + written->path + "\n";
    if (!target.elsewhere)
        lines += "next: " + control + " daemon-reload && " + control + " enable --now " + name + "\n";
    if (target.of_user) lines += "      loginctl enable-linger    (it then runs while you are not logged in)\n";
    call.out.one({{"unit", written->path}, {"changed", written->changed}}, "unit", lines + then);
    return 0;
}

std::vector<Flag> without(std::vector<Flag> flags, const std::vector<std::string_view>& names) {
    std::erase_if(flags, [&names](const Flag& flag) { return std::ranges::find(names, flag.name) != names.end(); });
    return flags;
}

Result<int> head_install(Invocation& call) {
    const Arguments& arguments = call.arguments;
    Result<Target> target = target_of(arguments);
    if (!target) return target.error();
    UnitWish wish{.of_user = target->of_user, .as = arguments.text("as")};
    const bool has_data = arguments.has("data");
    if (has_data && wish.as.empty() && !wish.of_user)
        return Error{
            .code = ErrorCode::usage,
            .message = "--data needs --as: a user that exists only with the service owns no directory but its own",
            .next = "rtrain head install --data DIR --as ACCOUNT, or leave out --data for /var/lib/rtrain-head"};
    if (has_data) wish.data = absolute(arguments.text("data"));
    const std::string data = has_data ? wish.data : wish.of_user ? head_data(arguments) : "/var/lib/rtrain-head";
    if (has_data) wish.writable.push_back(data);
    if (arguments.has("storage-root")) wish.writable.push_back(absolute(arguments.text("storage-root")));
    if (!wish.of_user && wish.as.empty() && !target->elsewhere)
        if (Status reachable = check_reachable(target->program); !reachable) return reachable.error();
    wish.command = {target->program, "head", "start", "--data", data};
    for (std::string& word : given_flags(arguments, without(head_start_flags(), {"detach", "data"})))
        wish.command.push_back(std::move(word));
    return install(call, *target, "rtrain-head.service", unit_text(head_unit, wish),
                   wish.of_user
                       ? "then: rtrain status\n"
                       : "then: sudo rtrain --config " + data + "/config.yaml token create --role admin --user NAME\n");
}

Result<int> node_install(Invocation& call) {
    const Arguments& arguments = call.arguments;
    Result<Target> target = target_of(arguments);
    if (!target) return target.error();
    Result<NodeOptions> options = node_options(arguments);
    if (!options) return options.error();
    if (target->elsewhere && arguments.has("token"))
        return Error{.code = ErrorCode::usage,
                     .message = "--token with --root: each machine that the image runs on joins by itself",
                     .next = "there: rtrain node install " + options->head + " --token T"};
    if (!target->of_user && !target->elsewhere)
        if (Status own = check_roots_own(target->program); !own) return own.error();
    UnitWish wish{.of_user = target->of_user};
    wish.command = {target->program, "node", "join", options->head, "--name", options->name, "--data", options->data};
    for (std::string& word : given_flags(arguments, without(node_join_flags(), {"detach", "token", "name", "data"})))
        wish.command.push_back(std::move(word));
    if (!target->elsewhere && !arguments.has("dry-run")) {  // once, here: the unit has no token in it
        if (Status made = make_directory(options->data); !made) return made.error();
        if (Status joined = join_node(*options); !joined) return joined.error();
    }
    return install(call, *target, "rtrain-node.service", unit_text(node_unit, wish), "then: rtrain nodes\n");
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
    std::vector<Flag> head = without(head_start_flags(), {"detach"});
    head.push_back({.name = "as",
                    .takes = Value::text,
                    .shown = "ACCOUNT",
                    .help = "who runs it (default: a user that exists with the service alone)"});
    return {{.words = "head install",
             .group = "Cluster",
             .help = "write a systemd unit that starts the head with these flags",
             .flags = with_places(std::move(head)),
             .handler = head_install,
             .details = "Writing the same unit again changes nothing. docs/install.md tells what the unit does."},
            {.words = "node install",
             .group = "Nodes",
             .help = "join the cluster, and write a systemd unit that starts the agent with these flags",
             .arguments = {{.name = "HOST:PORT"}},
             .flags = with_places(without(node_join_flags(), {"detach"})),
             .handler = node_install,
             .details = "A node that has joined before needs no --token. docs/install.md tells what the unit does."}};
}

}  // namespace rtrain::cmd
