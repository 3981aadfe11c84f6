// Fuzzes job specs as the head receives them: JSON that may not follow the schema.
#include "storage/job_spec/job.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(fuzz::text_of(data, size));
    const spec::ReadAnswer read = spec::job_from_json(text);
    fuzz::promise(read.job.has_value() == read.problems.empty(), "a job, or its problems");
    for (const Problem& problem : read.problems) (void)spec::problem_text(problem, "job.json", text);
    if (!read.job) return 0;
    const std::string canonical = spec::to_json(*read.job);
    const spec::ReadAnswer again = spec::job_from_json(canonical);
    fuzz::promise(again.job && spec::to_json(*again.job) == canonical, "canonical JSON is read as it was written");
    (void)spec::run_spec(*read.job);
    return 0;
}
