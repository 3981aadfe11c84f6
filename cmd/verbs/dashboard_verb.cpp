// rtrain dashboard: opens the head's page in a browser, through a proxy on this machine.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cmd/client/api.hpp"
#include "cmd/dashboard/link_file.hpp"
#include "cmd/dashboard/local_proxy.hpp"
#include "cmd/line/settings.hpp"

extern char** environ;

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Returns the program that opens an address in a browser. Returns an empty text if this session has no screen.
std::string opener() {
    if (const std::string browser = environment("BROWSER"); !browser.empty()) return browser;
    const bool screen = !environment("DISPLAY").empty() || !environment("WAYLAND_DISPLAY").empty();
    return screen ? "xdg-open" : "";
}

// Starts `program` in the background, with its output discarded. Returns false if the program does not exist.
bool open_in_browser(const std::string& program, std::string address) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int descriptor : {0, 1, 2})
        posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
    std::string name = program;
    char* arguments[] = {name.data(), address.data(), nullptr};
    pid_t pid = 0;
    const int failed = ::posix_spawnp(&pid, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed == 0;
}

Result<int> dashboard(Invocation& call) {
    Result<net::Endpoint> head = Api::endpoint(call);
    if (!head) return head.error();
    watch_interrupts(nullptr, nullptr);  // called before the proxy's threads start, so that they do not receive SIGINT
    auto proxy = LocalProxy::start(std::move(*head));
    if (!proxy) {
        unwatch_interrupts();
        return proxy.error();
    }
    const std::string link = (*proxy)->link(), program = call.arguments.has("no-open") ? "" : opener();
    std::optional<LinkFile> page;
    if (!program.empty()) {
        Result<LinkFile> file = LinkFile::make(link);
        file ? (void)page.emplace(std::move(*file)) : call.out.talk(file.error().message);
    }
    const bool opened = page && open_in_browser(program, page->address());
    call.out.each({{"link", link}, {"opened", opened}}, "link", link + "\n");
    call.out.flush();
    call.out.talk(opened
                      ? "your browser opens the page, or else this link, once; Ctrl-C ends this proxy"
                      : "open the link: it works once, for one browser, within five minutes; Ctrl-C ends this proxy");
    constexpr std::int64_t look_ms = 500;
    while (!wait_or_interrupt(look_ms))
        if (page && !(*proxy)->link_opens()) page.reset();
    proxy->reset();
    unwatch_interrupts();
    return 0;
}

}  // namespace

std::vector<Command> dashboard_commands() {
    return {{.words = "dashboard",
             .group = "Cluster",
             .help = "open the head's page in a browser",
             .flags = {{.name = "no-open", .help = "print the one-time link, and open no browser"}},
             .handler = dashboard,
             .details =
                 "A proxy on 127.0.0.1 carries the page to the head, as the user of your context. It serves the\n"
                 "one browser that opens its link, and ends with Ctrl-C. Addresses to share are the head's own."}};
}

}  // namespace rtrain::cmd
