// One table with the codes of the API, their names, their HTTP status and the exit codes of docs/cli.md.
#include <array>

#include "cmd/text/output.hpp"

namespace rtrain::cmd {
namespace {

struct Row {
    ErrorCode code;
    const char* text;
    int http;
    int exit;
};
constexpr std::array<Row, 12> rows{{{ErrorCode::usage, "usage", 400, 2},
                                    {ErrorCode::not_found, "not_found", 404, 3},
                                    {ErrorCode::invalid, "invalid", 422, 4},
                                    {ErrorCode::unreachable, "unreachable", 503, 5},
                                    {ErrorCode::unauthorised, "unauthorised", 401, 6},
                                    {ErrorCode::conflict, "conflict", 409, 7},
                                    {ErrorCode::timed_out, "timed_out", 504, 8},
                                    {ErrorCode::unplaceable, "unplaceable", 409, 9},
                                    {ErrorCode::io, "io", 500, 10},
                                    {ErrorCode::damaged, "damaged", 500, 11},
                                    {ErrorCode::full, "full", 507, 10},
                                    {ErrorCode::internal, "internal", 500, 10}}};

const Row& row(ErrorCode code) {
    for (const Row& r : rows)
        if (r.code == code) return r;
    return rows.back();
}

}  // namespace

std::string_view code_text(ErrorCode code) { return row(code).text; }
int exit_code(ErrorCode code) { return row(code).exit; }

ErrorCode code_from(std::string_view text, int http_status) {
    for (const Row& r : rows)
        if (text == r.text) return r.code;
    if (http_status == 403) return ErrorCode::unauthorised;
    if (http_status == 413) return ErrorCode::full;
    for (const Row& r : rows)
        if (http_status == r.http) return r.code;
    return http_status < 500 ? ErrorCode::usage : ErrorCode::internal;
}

}  // namespace rtrain::cmd
