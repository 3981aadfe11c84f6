// rtrain head backup|restore: writes an encrypted file with everything that is needed to bring a cluster back, and
// reads it.
#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/descriptor.hpp"
#include "cmd/client/api.hpp"
#include "cmd/daemons/head_entry.hpp"
#include "cmd/daemons/supervisor.hpp"
#include "cmd/daemons/unit_file.hpp"
#include "cmd/daemons/unit_target.hpp"
#include "cmd/daemons/units.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/terminal.hpp"
#include "cmd/text/units.hpp"
#include "cmd/verbs/rows.hpp"
#include "daemon/head/backup/restore.hpp"
#include "daemon/head/backup/take.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::size_t key_file_most = 64 << 10;
constexpr const char* passphrase_variable = "RTRAIN_BACKUP_PASSPHRASE";

void trim_end(std::string& text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
}

// Returns the file's content. A file that other accounts may read is refused.
Result<std::string> read_key_file(const std::string& path) {
    const storage::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    struct stat facts{};
    if (!file.open() || ::fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode))
        return Error{.code = ErrorCode::not_found,
                     .message = "--key-file: " + path +
                                " cannot be read: " + (file.open() ? "it is no plain file" : std::strerror(errno)),
                     .next = "(umask 077; head -c 32 /dev/urandom | base64 > " + shell_word(path) + ") makes one"};
    if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return Error{.code = ErrorCode::usage,
                     .message = "--key-file: other accounts of this machine may use " + path,
                     .next = "chmod 600 " + shell_word(path)};
    std::string text(key_file_most, '\0');
    const ssize_t bytes = ::read(file.number(), text.data(), text.size());
    text.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    if (text.size() == key_file_most)
        return Error{.code = ErrorCode::usage,
                     .message = "--key-file: " + path + " has 64 KiB or more",
                     .next = "32 random bytes are enough"};
    trim_end(text);
    return text;
}

// Reads a line from the terminal without showing what the user types.
std::string hidden_line(Invocation& call, const char* question) {
    call.out.talk(question);
    termios before{};
    const bool changed = ::tcgetattr(STDIN_FILENO, &before) == 0;
    termios hidden = before;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (changed) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    std::string line;
    std::getline(std::cin, line);
    if (changed) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    return line;
}

enum class Asked { once, twice };

Result<std::string> secret_of(Invocation& call, Asked asked) {
    if (call.arguments.has("key-file")) return read_key_file(absolute(call.arguments.text("key-file")));
    if (const std::string given = environment(passphrase_variable); !given.empty()) return given;
    if (!interactive())
        return Error{.code = ErrorCode::usage,
                     .message =
                         "a backup holds the cluster's keys and secrets, so it is sealed; there is no key and "
                         "no terminal to ask for a passphrase",
                     .next = std::string("--key-file FILE, or set ") + passphrase_variable +
                             "; --state-only copies the database alone"};
    std::string line = hidden_line(call, "passphrase of the backup:");
    if (asked == Asked::once || line == hidden_line(call, "once more:")) return line;
    return Error{.code = ErrorCode::usage, .message = "the two passphrases differ", .next = "try again"};
}

struct BackupCall {
    head::BackupWish wish;
    // true: the head runs on this machine, and is selected by its directory; false: it is reached by its address
    bool here = false;
};

Status check_backup_flags(const Arguments& arguments) {
    const bool incremental = arguments.has("incremental"), state_only = arguments.has("state-only");
    for (const char* flag : {"keep", "schedule"})
        if (arguments.has(flag) && !incremental)
            return Error{.code = ErrorCode::usage,
                         .message = std::string("--") + flag + " needs --incremental, with a directory",
                         .next = std::string("rtrain head backup DIR --incremental --") + flag + " ..."};
    for (const char* flag : {"key-file", "with-files", "without-logs", "incremental"})
        if (arguments.has(flag) && state_only)
            return Error{.code = ErrorCode::usage,
                         .message = std::string("--state-only copies the database alone, and --") + flag +
                                    " is about a whole backup",
                         .next = "leave out one of them"};
    if (arguments.has("keep") && arguments.number("keep", 0) < 1)
        return Error{.code = ErrorCode::usage, .message = "--keep: at least 1", .next = "rtrain head backup --help"};
    return Done{};
}

BackupCall backup_call(const Arguments& arguments) {
    const std::string data = head_data(arguments);
    const auto running = read_pid_file(data + head_pid_file);
    BackupCall call{.wish = {.data_dir = data, .to = absolute(arguments.argument(0)), .secret = ""}};
    call.here = arguments.has("data") || (!names_a_cluster(arguments) && running);
    head::BackupWish& wish = call.wish;
    if (arguments.has("storage-root")) wish.storage_root = absolute(arguments.text("storage-root"));
    if (running) wish.address = running->facts;
    if (arguments.has("without-logs")) wish.logs = head::RunLogs::without;
    if (arguments.has("with-files")) wish.files = head::ClusterFiles::with;
    wish.incremental = arguments.has("incremental");
    wish.keep = static_cast<std::size_t>(arguments.number("keep", 0));
    wish.replace = arguments.has("yes");
    while (wish.to.size() > 1 && wish.to.ends_with("/")) wish.to.pop_back();
    return call;
}

// ---- the timer

constexpr const char* backup_service =
    R"(# rtrain's backup of the head. `rtrain head backup --schedule` writes this file.
[Unit]
Description=rtrain: backup of the head

[Service]
Type=oneshot
ExecStart={command}
UMask=0077
LimitCORE=0
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_CHOWN
PrivateNetwork=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectSystem=strict
ReadWritePaths={writable}
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
LockPersonality=yes
SystemCallArchitectures=native
)";
constexpr const char* backup_timer =
    R"(# rtrain's timer of the head's backup. `rtrain head backup --schedule` writes this file.
[Unit]
Description=rtrain: when the head is backed up

[Timer]
OnCalendar={when}
RandomizedDelaySec=60
Persistent=yes

[Install]
WantedBy=timers.target
)";

std::string filled(std::string form, const std::vector<std::pair<std::string, std::string>>& values) {
    for (const auto& [name, value] : values) form.replace(form.find(name), name.size(), value);
    return form;
}

Status check_schedule(const Arguments& arguments) {
    const std::string when = arguments.text("schedule");
    const bool plain = std::all_of(when.begin(), when.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || std::strchr(" *-:,./~", c) != nullptr;
    });
    if (when.empty() || !plain)
        return Error{.code = ErrorCode::usage,
                     .message = "--schedule: \"" + shown_line(when) + "\" is no calendar event of systemd",
                     .next = "for example hourly, daily, or \"*-*-* 03:15\" (systemd-analyze calendar ...)"};
    if (!arguments.has("key-file"))
        return Error{.code = ErrorCode::usage,
                     .message = "--schedule needs --key-file: nobody is there to type a passphrase",
                     .next = "keep a copy of the key file on another machine; without it no backup can be read"};
    return Done{};
}

// Writes a systemd service and its timer for regular backups, or prints them.
Result<int> schedule(Invocation& call, const head::BackupWish& wish) {
    const Arguments& arguments = call.arguments;
    if (Status fine = check_schedule(arguments); !fine) return fine.error();
    Result<UnitTarget> target = unit_target(arguments);
    if (!target) return target.error();
    std::string command = command_word(target->program) + " head backup " + command_word(wish.to) +
                          " --incremental --data " + command_word(wish.data_dir) + " --key-file " +
                          command_word(absolute(arguments.text("key-file")));
    if (wish.keep > 0) command += " --keep " + std::to_string(wish.keep);
    if (wish.logs == head::RunLogs::without) command += " --without-logs";
    if (wish.files == head::ClusterFiles::with) command += " --with-files";
    if (!wish.storage_root.empty()) command += " --storage-root " + command_word(wish.storage_root);
    const std::string service =
        filled(backup_service,
               {{"{command}", command}, {"{writable}", command_word(wish.to) + " " + command_word(wish.data_dir)}});
    const std::string timer = filled(backup_timer, {{"{when}", arguments.text("schedule")}});
    const std::string directory = target->root.shown(target->directory);
    const json units = {{"service", directory + "/rtrain-backup.service"},
                        {"timer", directory + "/rtrain-backup.timer"}};
    if (arguments.has("dry-run")) {
        call.out.document(units, "timer", service + "\n" + timer);
        return 0;
    }
    if (!target->elsewhere)
        if (Status created = make_directory(wish.to); !created) return created.error();
    for (const auto& [name, text] : {std::pair{"rtrain-backup.service", service}, {"rtrain-backup.timer", timer}}) {
        Result<UnitFile> file = UnitFile::prepare(target->root, target->directory, name, text);
        if (!file) return file.error();
        if (Result<Change> put = file->put(); !put) return put.error();
    }
    call.out.document(units, "timer",
                      "wrote " + directory +
                          "/rtrain-backup.service and .timer\nnext: systemctl daemon-reload && "
                          "systemctl enable --now rtrain-backup.timer && systemctl start rtrain-backup.service\n");
    return 0;
}

// ---- backup

Result<std::string> back_up_elsewhere(Invocation& call, const head::BackupWish& wish) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    json body = {{"file", wish.to}};
    if (!wish.secret.empty())
        body.update({{"passphrase", wish.secret},
                     {"logs", wish.logs == head::RunLogs::with},
                     {"files", wish.files == head::ClusterFiles::with},
                     {"incremental", wish.incremental},
                     {"keep", wish.keep},
                     {"replace", wish.replace}});
    Result<json> done = api->post("/v1/head/backup", body);
    if (!done) return done.error();
    return string_of(*done, "file");
}

Result<int> state_backup(Invocation& call, const BackupCall& backup) {
    const std::string& file = backup.wish.to;
    if (backup.here) {
        if (Status done = state::SqliteJournal::backup(backup.wish.data_dir, file); !done) return done.error();
    } else if (auto done = back_up_elsewhere(call, backup.wish); !done)
        return done.error();
    call.out.document({{"file", file}}, "file",
                      "the head's database is in " + file + (backup.here ? "" : " on the head's machine") +
                          ", and nothing else: `rtrain head restore-backup` puts it back beside the same ca.key\n");
    return 0;
}

std::string size_text(const head::BackupTotals& totals) {
    return std::to_string(totals.files) + (totals.files == 1 ? " file, " : " files, ") +
           bytes_text(static_cast<std::int64_t>(totals.bytes));
}

Result<int> head_backup(Invocation& call) {
    const Arguments& arguments = call.arguments;
    if (Status fine = check_one_head(arguments); !fine) return fine.error();
    if (Status fine = check_backup_flags(arguments); !fine) return fine.error();
    BackupCall backup = backup_call(arguments);
    std::error_code failed;
    if (!backup.wish.incremental && std::filesystem::exists(backup.wish.to, failed) && !arguments.has("yes"))
        return Error{.code = ErrorCode::conflict,
                     .message = backup.wish.to + " exists",
                     .next = "name another file, or say --yes to replace it"};
    if (arguments.has("state-only")) return state_backup(call, backup);
    if (arguments.has("schedule")) return schedule(call, backup.wish);
    Result<std::string> secret = secret_of(call, Asked::twice);
    if (!secret) return secret.error();
    if (Status fine = head::check_secret(*secret); !fine) return fine.error();
    backup.wish.secret = std::move(*secret);
    if (!backup.here) {
        const Result<std::string> file = back_up_elsewhere(call, backup.wish);
        if (!file) return file.error();
        call.out.document({{"file", *file}}, "file", "the head is in " + *file + " on the head's machine, sealed\n");
        return 0;
    }
    const Result<head::BackupDone> done = head::take_backup(backup.wish);
    if (!done) return done.error();
    std::string text = "the head is in " + done->file + ", sealed: " + size_text(done->totals) + "\n";
    for (const std::string& left : done->left_out) text += "not in it: " + shown_line(left) + "\n";
    call.out.document({{"file", done->file},
                       {"files", done->totals.files},
                       {"bytes", done->totals.bytes},
                       {"left_out", done->left_out}},
                      "file", text + "restore it with `rtrain head restore`; without its key nobody can read it\n");
    return 0;
}

// ---- restore

std::string next_steps(const head::RestoreDone& done, const std::string& data) {
    const std::string address = done.facts.address;
    const auto colon = address.rfind(':');
    std::string text = "next:\n  rtrain head start --data " + shell_word(data);
    if (colon != address.npos)
        text += " --host " + shell_word(address.substr(0, colon)) + " --port " + shell_word(address.substr(colon + 1)) +
                "    (it served there, with these or more flags)";
    text +=
        "\n  at the same address, or the same DNS name and port, nodes and users go on by themselves. At another one:\n"
        "  nodes    those that joined with --or-head ADDRESS find it; else on each node `rtrain node join HOST:PORT`,\n"
        "           with no token and its --name or --data; its workers go on meanwhile\n"
        "  users    rtrain context move NAME HOST:PORT, or RTRAIN_ADDRESS\n"
        "  never let the old head run again beside this one\n"
        "  what was revoked after the backup was made works again: revoke those tokens and nodes once more\n";
    return text;
}

json restored_json(const head::RestoreDone& done, const std::string& data) {
    return {{"file", done.file},
            {"data", data},
            {"cluster_id", done.facts.cluster_id},
            {"name", done.facts.cluster_name},
            {"made", time_text(done.facts.made_wall_ms)},
            {"address", done.facts.address},
            {"files", done.totals.files},
            {"bytes", done.totals.bytes},
            {"left_out", done.facts.left_out}};
}

Result<int> head_restore(Invocation& call) {
    const std::string data = head_data(call.arguments);
    Result<std::string> secret = secret_of(call, Asked::once);
    if (!secret) return secret.error();
    const head::RestoreWish wish{
        .from = absolute(call.arguments.argument(0)), .data_dir = data, .secret = std::move(*secret)};
    const bool dry = call.arguments.has("dry-run");
    const Result<head::RestoreDone> done = dry ? head::check_backup(wish) : head::restore_head(wish);
    if (!done) return done.error();
    json value = restored_json(*done, data);
    value["dry_run"] = dry;
    std::string text = "cluster \"" + shown_line(done->facts.cluster_name) + "\" (" +
                       shown_line(done->facts.cluster_id.substr(0, 6)) + ") of " + time_text(done->facts.made_wall_ms) +
                       ": " + size_text(done->totals) + (dry ? ", sound\n" : ", restored into " + data + "\n");
    for (const std::string& left : done->facts.left_out) text += "not in it: " + shown_line(left) + "\n";
    call.out.document(value, "data", dry ? text : text + next_steps(*done, data));
    return 0;
}

Flag key_file_flag() {
    return {.name = "key-file",
            .takes = Value::file,
            .shown = "FILE",
            .help = "whose content seals and opens backups (else RTRAIN_BACKUP_PASSPHRASE, else a question)"};
}

}  // namespace

std::vector<Command> backup_commands() {
    const char* group = "Cluster";
    const Flag data{
        .name = "data", .takes = Value::file, .shown = "DIR", .help = "the head's data (default: <data home>/head)"};
    return {
        {.words = "head backup",
         .group = group,
         .help = "write all that brings the cluster back into a sealed file, while the head serves",
         .arguments = {{.name = "FILE", .value = Value::file}},
         .flags = {data,
                   key_file_flag(),
                   {.name = "without-logs", .help = "leave out the logs of runs"},
                   {.name = "with-files", .help = "add the files of cluster://"},
                   {.name = "storage-root",
                    .takes = Value::file,
                    .shown = "DIR",
                    .help = "the directory of cluster:// (default: that of the last `head start`)"},
                   {.name = "incremental", .help = "FILE is a directory: what is there already is not written again"},
                   {.name = "keep",
                    .takes = Value::number,
                    .shown = "N",
                    .help = "incremental: remove all backups but the newest N"},
                   {.name = "schedule",
                    .takes = Value::text,
                    .shown = "WHEN",
                    .help = "write a systemd timer that does this hourly, daily, ...; back up nothing now"},
                   {.name = "root",
                    .takes = Value::file,
                    .shown = "DIR",
                    .help = "with --schedule: write below DIR, for an image that does not run now"},
                   {.name = "dry-run", .help = "with --schedule: print the units"},
                   {.name = "state-only", .help = "copy the database alone, unsealed: no keys, secrets or files"}},
         .handler = head_backup},
        {.words = "head restore",
         .group = group,
         .help = "bring a head back from a backup, into a new directory",
         .arguments = {{.name = "FILE", .value = Value::file}},
         .flags = {data, key_file_flag(), {.name = "dry-run", .help = "read the whole backup, and write nothing"}},
         .handler = head_restore,
         .reach = Reach::this_machine}};
}

}  // namespace rtrain::cmd
