// Runs a verb from argv and returns its exit code. Also implements --watch.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string_view>

#include "cmd/dispatch/dispatch.hpp"
#include "cmd/line/invocation.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/terminal.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

// Reads the output format without the parser, so that an error of the parser is printed in that format too.
std::string output_choice(const std::vector<std::string>& words) {
    std::string choice = environment("RTRAIN_OUTPUT");
    for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
        const std::string& word = words[i];
        const bool apart = word == "-o" || word == "--output";
        if (apart && i + 1 < words.size())
            choice = words[i + 1];
        else if (word.starts_with("--output="))
            choice = word.substr(9);
        else if (word.starts_with("-o") && !apart)
            choice = word.substr(word[2] == '=' ? 3 : 2);
    }
    return choice;
}

int help(Output& out, const Parsed& parsed, const std::vector<std::string>& words) {
    std::string text = help_all();
    if (parsed.command != nullptr) {
        text = help_command(*parsed.command);
    } else {
        for (const std::string& word : words)
            if (!word.starts_with("-") && !help_group(word).empty()) text = help_group(word);
    }
    out.raw(text);
    return out.flush() ? 0 : exit_code(ErrorCode::io);
}

int finish(Invocation& call, const Result<int>& result) {
    if (!result) {
        call.out.error(result.error(), call.problems);
        return exit_code(result.error().code);
    }
    if (call.out.flush()) return *result;
    call.out.error(
        {.code = ErrorCode::io, .message = "standard output does not take what was to be written", .next = ""}, {});
    return exit_code(ErrorCode::io);
}

// Runs the verb again and again for --watch, each second or at the given interval. Without a terminal it prints only a
// changed output.
int watch(Invocation& call, std::int64_t every_ms) {
    watch_interrupts(nullptr, nullptr);
    const bool terminal = isatty(STDOUT_FILENO) != 0 && call.out.for_people();
    std::string before;
    for (;;) {
        call.problems.clear();
        const Result<int> result = call.command.handler(call);
        if (!result) return finish(call, result);
        const std::string now = call.out.take();
        if (terminal)
            call.out.raw("\x1b[H\x1b[2J" + now);
        else if (now != before)
            call.out.raw(now);
        if (!call.out.flush()) return exit_code(ErrorCode::io);
        before = now;
        if (wait_or_interrupt(every_ms)) return 130;
    }
}

// Overwrites the values of --token in the process's arguments. Every user of the machine can read the arguments in
// /proc while the process lives.
void hide_tokens(int argc, char** argv) {
    constexpr std::string_view flag = "--token";
    const auto overwrite = [](char* text) { std::memset(text, '*', std::strlen(text)); };
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == flag && i + 1 < argc) overwrite(argv[++i]);
        if (word.starts_with(flag) && word.substr(flag.size()).starts_with('=')) overwrite(argv[i] + flag.size() + 1);
    }
}

int perform(const Parsed& parsed, Output& out) {
    Invocation call{.command = *parsed.command, .arguments = parsed.arguments, .out = out, .problems = {}};
    if (parsed.arguments.has("watch")) return watch(call, parsed.arguments.duration_ms("interval", 1'000));
    return finish(call, parsed.command->handler(call));
}

}  // namespace

int run(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    hide_tokens(argc, argv);
    const bool raw = !words.empty() && words[0].starts_with("__");
    Output early(format_from(raw ? "" : output_choice(words)), environment("RTRAIN_COLOR"));
    const Result<Parsed> parsed = parse(words);
    if (!parsed) {
        early.error(parsed.error(), {});
        return exit_code(parsed.error().code);
    }
    const Arguments& arguments = parsed->arguments;
    const Format format = raw ? early.format() : format_from(arguments.text("output", environment("RTRAIN_OUTPUT")));
    Output out(format, arguments.text("color", environment("RTRAIN_COLOR")));
    if (parsed->command == nullptr || (arguments.has("help") && !parsed->command->raw))
        return help(out, *parsed, words);
    try {
        return perform(*parsed, out);
    } catch (const std::exception& error) {
        out.error({.code = ErrorCode::internal,
                   .message = std::string("rtrain ") + parsed->command->words + ": " + error.what(),
                   .next = "rtrain doctor"},
                  {});
        return exit_code(ErrorCode::internal);
    }
}

}  // namespace rtrain::cmd
