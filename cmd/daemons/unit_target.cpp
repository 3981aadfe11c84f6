// See unit_target.hpp.
#include "cmd/daemons/unit_target.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cmd/daemons/unit_checks.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"

namespace rtrain::cmd {
namespace {

Result<std::string> own_program() {
    std::error_code failed;
    const std::string program = std::filesystem::canonical("/proc/self/exe", failed).string();
    if (!failed) return program;
    return Error{.code = ErrorCode::io,
                 .message = "this program's own file cannot be found: " + failed.message(),
                 .next = "if it was replaced while it runs, run the new one; and /proc must be mounted"};
}

// Returns the path of the program within an image. It is the path of this program, if the image contains it or has a
// file at that path. Otherwise it is the package's path.
Result<std::string> program_in(const MachineRoot& root, std::string own) {
    const std::string outside = root.shown("/");
    if (own.starts_with(outside)) own.erase(0, outside.size() - 1);
    for (const std::string& program : {own, std::string("/usr/bin/rtrain")}) {
        const auto facts = root.look_at(program);
        if (facts && S_ISREG(facts->st_mode) && (facts->st_mode & S_IXUSR) != 0) return program;
    }
    return Error{.code = ErrorCode::not_found,
                 .message = "there is no rtrain below " + root.shown("") + ": neither " + own + " nor /usr/bin/rtrain",
                 .next = "install rtrain into the image first"};
}

// Returns the directory for a user's own units. Fails if root would write into another account's directory, because
// that account could change the unit.
Result<std::string> directory_of_user() {
    const std::string home = environment("HOME"), config = environment("XDG_CONFIG_HOME");
    const std::string folder = absolute(config.empty() ? home + "/.config" : config);
    if (config.empty() && home.empty())
        return Error{.code = ErrorCode::usage, .message = "HOME is not set", .next = "set it, or leave out --user"};
    struct stat facts{};
    const std::string& owned = config.empty() ? home : config;
    if (::geteuid() == 0 && ::stat(owned.c_str(), &facts) == 0 && facts.st_uid != 0)
        return Error{.code = ErrorCode::unauthorised,
                     .message = owned + " belongs to another account than root, and this runs as root",
                     .next = "run it as that account, without sudo; or leave out --user"};
    return folder + "/systemd/user";
}

}  // namespace

Result<UnitTarget> unit_target(const Arguments& arguments) {
    if (arguments.has("user") && arguments.has("root"))
        return Error{.code = ErrorCode::usage,
                     .message = "--user and --root are two different places",
                     .next = "give one of them"};
    Result<std::string> program = own_program();
    if (!program) return program.error();
    const bool elsewhere = arguments.has("root");
    auto root = MachineRoot::open(elsewhere ? absolute(arguments.text("root")) : "/");
    if (!root) return root.error();
    UnitTarget target{.root = std::move(*root), .directory = "/etc/systemd/system", .program = std::move(*program)};
    target.elsewhere = elsewhere;
    if (arguments.has("user")) {
        Result<std::string> directory = directory_of_user();
        if (!directory) return directory.error();
        target.directory = std::move(*directory);
        target.of_user = true;
        return target;
    }
    if (elsewhere) {
        program = program_in(target.root, target.program);
        if (!program) return program.error();
        target.program = std::move(*program);
    } else if (::geteuid() != 0) {
        return Error{
            .code = ErrorCode::unauthorised,
            .message = "writing " + target.directory + " needs root",
            .next = "run it with sudo; or --user, for a service of your own account; or --root DIR, for an image"};
    }
    return target;
}

Status check_program_of_root(const UnitTarget& target) {
    const uid_t also = target.elsewhere ? ::geteuid() : 0;  // an image may be made by a user who is not root
    Result<std::string> behind = target.root.resolved(target.program);
    if (!behind) return behind.error();
    for (const std::string& program : {target.program, *behind})
        if (Status own = check_roots_own(target.root, program, also); !own) return own;
    return Done{};
}

}  // namespace rtrain::cmd
