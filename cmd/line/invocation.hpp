// The parameters of a verb's function: its arguments, its output, and the access to the cluster.
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

// Prints on standard error which directory the verb will make. Prints nothing with --data.
void announce_directory(Invocation& call, const std::string& path);
// Asks the user before a destructive action. Without a terminal it fails unless --yes is given.
Status confirm(Invocation& call, const std::string& question);
// True if SIGINT has arrived since the program's start. While a run is followed, the first SIGINT detaches.
bool interrupted();
void watch_interrupts(void (*also)(void*), void* argument);  // calls `also` at SIGINT, on a separate thread
void unwatch_interrupts();
// Sets a function that is called at SIGINT, SIGTERM and SIGHUP, on a separate thread. If it returns true, it has
// handled the signal, and interrupted() does not change.
void handle_signals(std::function<bool(int signal)> handler);
bool wait_or_interrupt(std::int64_t ms);  // returns true if it was interrupted

}  // namespace rtrain::cmd
