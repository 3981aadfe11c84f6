// What a verb's function is given: its arguments, where to print, how to reach the cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cmd/line/command.hpp"
#include "cmd/text/output.hpp"

namespace rtrain::cmd {

struct Invocation {
    const Command& command;
    const Arguments& arguments;
    Output& out;
    Problems problems;  // shown with the error that the verb returns
};

// Names on standard error the directory that the verb is about to make, unless --data has named it.
void announce_directory(Invocation& call, const std::string& path);
// A destructive verb asks, where there is somebody to ask; without a terminal it wants --yes (usage).
Status confirm(Invocation& call, const std::string& question);
// SIGINT since the program's start? While following, the first one detaches.
bool interrupted();
void watch_interrupts(void (*also)(void*), void* argument);  // `also` is called on a thread of its own at SIGINT
void unwatch_interrupts();
// Sets a function that is called at SIGINT, SIGTERM and SIGHUP, on a thread of its own. Where it returns true, it has
// handled the signal, and interrupted() stays as it is.
void handle_signals(std::function<bool(int signal)> handler);
bool wait_or_interrupt(std::int64_t ms);  // true: interrupted

}  // namespace rtrain::cmd
