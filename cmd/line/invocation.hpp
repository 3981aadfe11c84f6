// The parameters that each verb's function gets: its arguments, its output, and problems to report. Also declares
// functions for questions to the user and for signals.
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
// at SIGINT, sets interrupted(), and then calls `also` with `argument` on a separate thread; `also` may be null
void watch_interrupts(void (*also)(void*), void* argument);
void unwatch_interrupts();
// Sets a function that is called at SIGINT, SIGTERM and SIGHUP, on a separate thread. If it returns true, it has
// handled the signal, and interrupted() does not change.
void handle_signals(std::function<bool(int signal)> handler);
bool wait_or_interrupt(std::int64_t ms);  // waits for `ms` milliseconds; returns true at once if SIGINT has arrived

}  // namespace rtrain::cmd
