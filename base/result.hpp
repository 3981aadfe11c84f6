// The three kinds of failure, as values.
//   Problem: user input is wrong. A list holds all problems of one input.
//   Error, Result<T>: the environment failed (disk, network, a peer). It has a code, a message, and what to do next.
//   RTRAIN_CHECK: rtrain has a bug. The process prints the broken condition and stops, in release builds too.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rtrain {

// The order equals that of the exit codes in docs/cli.md; `exit_code` (cmd/) maps them.
enum class ErrorCode {
    usage,
    not_found,
    invalid,       // a spec, a request, a file's content
    unreachable,   // no answer arrived
    unauthorised,  // no token, a wrong token, or a role without the right
    conflict,      // the name, port or directory is taken
    timed_out,
    unplaceable,  // no present node could ever hold the gang
    io,           // disk, socket, operating system
    damaged,      // bytes differ from those that were written
    full,         // no room: disk or a limit of ours
    internal,
};

struct Error {
    ErrorCode code = ErrorCode::internal;
    std::string message;  // names the failed operation, the object, and the evidence
    std::string next;     // the next step for the user; may be empty
    bool operator==(const Error&) const = default;
};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : either_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : either_(std::in_place_index<1>, std::move(error)) {}
    bool ok() const { return either_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& value() & { return std::get<0>(either_); }
    const T& value() const& { return std::get<0>(either_); }
    T&& value() && { return std::get<0>(std::move(either_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const Error& error() const { return std::get<1>(either_); }

  private:
    std::variant<T, Error> either_;
};

struct Done {
    bool operator==(const Done&) const = default;
};
using Status = Result<Done>;  // success without a value: `return Done{};`

// One fault in user input. `path` is the field ("scaling.workers"). Line and column count from 1; 0: unknown.
struct Problem {
    std::string path;
    int line = 0;
    int column = 0;
    std::string message;
    std::string suggestion;  // "did you mean ..."; may be empty
    bool operator==(const Problem&) const = default;
};
using Problems = std::vector<Problem>;

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line, const std::string& state) {
    std::fprintf(stderr, "rtrain: internal error: %s does not hold (%s:%d) %s\n", condition, file, line, state.c_str());
    std::fflush(stderr);
    std::abort();
}

}  // namespace rtrain

// RTRAIN_CHECK(condition, state...): `state` is a text with the observed values.
#define RTRAIN_CHECK(condition, ...) \
    ((condition) ? void() : ::rtrain::check_failed(#condition, __FILE__, __LINE__, std::string{__VA_ARGS__}))
