// Reads a job: the values that are accepted, those that are refused, and the messages.

#include <fstream>

#include "storage/job_spec/job.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::spec {
namespace {

Job job_of(const std::string& yaml, const ReadOptions& options = {}) {
    ReadAnswer answer = read_job(yaml, options);
    for (const Problem& problem : answer.problems) UNSCOPED_INFO(problem_text(problem, "job.yaml", yaml));
    REQUIRE(answer.problems.empty());
    REQUIRE(answer.job);
    return *answer.job;
}
Problems problems_of(const std::string& yaml, const ReadOptions& options = {}) {
    ReadAnswer answer = read_job(yaml, options);
    CHECK_FALSE(answer.job);
    REQUIRE_FALSE(answer.problems.empty());
    return answer.problems;
}
Problem problem_of(const std::string& yaml, const ReadOptions& options = {}) {
    const Problems problems = problems_of(yaml, options);
    for (const Problem& problem : problems) UNSCOPED_INFO(problem_text(problem, "job.yaml", yaml));
    CHECK(problems.size() == 1);
    return problems.front();
}
bool says(const Problem& problem, const std::string& text) {
    return (problem.message + "; " + problem.suggestion).find(text) != std::string::npos;
}
// Returns a valid job with the given lines added.
std::string job_with(const std::string& lines) { return "entrypoint: train\n" + lines; }
Amount ticks(std::int64_t count) { return {count}; }

const char* const every_field = R"(version: 1
name: gpt-1b
entrypoint: python train.py
working_dir: .
env: {NCCL_DEBUG: WARN, OMP_NUM_THREADS: 4, PY: 3.10}
secrets: [HF_TOKEN]
setup: pip install -r requirements.txt
python: {interpreter: python3, preload: [torch]}
scaling:
  workers: 2..8
  grow_after: 1m
  use_gpu: true
  resources_per_worker: {CPU: 0.5, memory: 4Gi, "accelerator_type:T4": 0.0003}
  placement: STRICT_SPREAD
  accelerator_type: A100
  label_selector: {zone: us, gpu: 'in(A100,H100)', rack: '!r1'}
  nodes: [n1]
  exclude_nodes: [n2]
  topology: rack
  cpu_affinity: even
  wait_for_nodes: false
  trainer_resources: {CPU: 0}
backend: {name: nccl, timeout_s: 60}
network: {interface: eth0}
queue: batch
priority: 70
failure: {max_failures: -1, fail_fast: false, backoff: 2s..1h30m, avoid_bad_nodes: false, hang_timeout: 10m, isolation_timeout: 5m}
storage_path: /mnt/shared/runs
checkpoint: {num_to_keep: 3, score_attribute: loss, score_order: min, keep_latest: until_success, upload: sync, on_drain: false}
limits: {wall_time: 2d, queue_time: 90s, stop_grace: 500ms}
stop: {epoch: 20, loss: 0.1}
logs: {show: "0,3-5", keep: 14d, max: 512MiB}
tracking: {tensorboard: true, wandb: false}
labels: {team: nlp}
)";

}  // namespace

TEST_CASE("a job of one line has the defaults of the page") {
    const Job job = job_of("entrypoint: python train.py\n");
    CHECK(job.entrypoint == std::vector<std::string>{"sh", "-c", "python train.py"});
    CHECK(job.workers == 1);
    CHECK(job.resources_per_worker == Resources{{"CPU", units(1)}});
    CHECK(job.backend_timeout_s == 1800);
    CHECK(job.failure == FailurePolicy{});
    CHECK(job.storage_path.empty());
    CHECK(job.upload == "async");
}

TEST_CASE("every field is read") {
    const Job job = job_of(every_field);
    CHECK(job.env ==
          std::map<std::string, std::string>{{"NCCL_DEBUG", "WARN"}, {"OMP_NUM_THREADS", "4"}, {"PY", "3.10"}});
    CHECK(job.workers == 2);
    CHECK(job.workers_max == 8);
    CHECK(job.resources_per_worker == Resources{{"CPU", ticks(5000)},
                                                {"GPU", units(1)},
                                                {"memory", units(4LL << 30)},
                                                {"accelerator_type:T4", ticks(3)},
                                                {"accelerator_type:A100", ticks(1)}});
    CHECK(job.placement == Strategy::strict_spread);
    CHECK(job.label_selector.size() == 3);
    CHECK(job.network_interface == "eth0");
    CHECK(job.failure == FailurePolicy{.max_failures = -1,
                                       .backoff_first = {2'000},
                                       .backoff_last = {5'400'000},
                                       .backoff_set = true,
                                       .avoid_bad_nodes = false});
    CHECK(job.hang_timeout_ms == 600'000);
    CHECK(job.isolation_timeout_ms == 300'000);
    CHECK(job.logs_max_bytes == 512LL << 20);
    CHECK(job.cpu_affinity == "even");
    CHECK(job.retention ==
          Retention{
              .num_to_keep = 3, .score_attribute = "loss", .higher_is_better = false, .latest_until_success = true});
    CHECK(job.wall_time_ms == 172'800'000);
    CHECK(job.stop_grace_ms == 500);
    CHECK(job.stop == std::map<std::string, double>{{"epoch", 20}, {"loss", 0.1}});
    CHECK(job.tracking == std::vector<std::string>{"tensorboard"});
}

TEST_CASE("canonical JSON is read back to the same job, and written the same again") {
    for (const std::string& yaml : {std::string(every_field), std::string("entrypoint: [python, train.py]\n"),
                                    job_with("scaling: {use_gpu: true, resources_per_worker: {GPU: 0.5}}\n"),
                                    job_with("scaling: {resources_per_worker: {CPU: 0, TPU: 2}}\n"),
                                    job_with("driver: true\nscaling: {resources_per_worker: {CPU: 0}}\n")}) {
        const Job job = job_of(yaml);
        const std::string json = to_json(job);
        const ReadAnswer back = job_from_json(json);
        CAPTURE(json);
        for (const Problem& problem : back.problems) UNSCOPED_INFO(problem.path + ": " + problem.message);
        REQUIRE(back.job);
        CHECK(*back.job == job);
        CHECK(to_json(*back.job) == json);
    }
}

TEST_CASE("all problems come at once, in the file's order, with their positions and suggestions") {
    const std::string yaml = R"(nam: x
entrypoint: python train.py
scaling:
  wokers: 4
  use_gpu: maybe
  placement: pack
max_failures: 3
env: {FLAG: NO, "1A": x}
checkpoint: {num_to_keep: 0}
)";
    const Problems problems = problems_of(yaml);
    std::string seen;
    for (const Problem& p : problems)
        seen += std::to_string(p.line) + ":" + std::to_string(p.column) + " " + p.path + ": " + p.message + "; " +
                p.suggestion + "\n";
    CHECK(seen == R"(1:1 nam: unknown field; did you mean "name"?
4:3 scaling.wokers: unknown field; did you mean "workers"?
5:12 scaling.use_gpu: wants true or false, found "maybe"; 
6:14 scaling.placement: wants PACK, SPREAD, STRICT_PACK or STRICT_SPREAD, found "pack"; did you mean "PACK"?
7:1 max_failures: unknown field; did you mean "failure.max_failures"?
8:13 env.FLAG: "NO" without quotes is a truth value in YAML 1.1 and text in YAML 1.2; quote it: "NO"
8:17 env.1A: "1A" is not a name that can stand here; 
9:27 checkpoint.num_to_keep: wants a whole number from 1, or null: all, found 0; 
)");
}

TEST_CASE("a number beyond what a double holds is told with its place, and one next to 0 is a number") {
    const Problem much = problem_of(job_with("stop: {loss: 1e999}\n"));
    CHECK(much.path == "stop.loss");
    CHECK(much.line == 2);
    CHECK(problem_of(job_with("failure: {max_failures: 1e999}\n")).line == 2);
    CHECK(problem_of(job_with("failure: {max_failures: 1e-320}\n")).path == "failure.max_failures");
    CHECK(problem_of(job_with("priority: -1e999\n")).path == "priority");
    const Job job = job_of(job_with("stop: {loss: 1e-320, norm: 1e-999}\n"));
    CHECK((job.stop.at("loss") > 0 && job.stop.at("loss") < 1e-300));
    CHECK(job.stop.at("norm") == 0);
    CHECK(run_spec(job_of(job_with("failure: {max_failures: 3.0}\n"))).failure.max_failures == 3);
}

TEST_CASE("a problem is printed with its line and a caret under the place") {
    const std::string yaml = "entrypoint: x\nscaling:\n  wokers: 4\n";
    CHECK(
        problem_text(problem_of(yaml), "job.yaml", yaml) ==
        "job.yaml:3:3: error: scaling.wokers: unknown field; did you mean \"workers\"?\n  3 |   wokers: 4\n    |   ^");
}

TEST_CASE("columns count characters, not bytes") {
    const Problem problem = problem_of("entrypoint: x\nlabels: {\"\xC3\xA4\xC3\xB6\": true}\n");
    CHECK(problem.line == 2);
    CHECK(problem.column == 16);
}

TEST_CASE("scalars that YAML 1.1 reads otherwise have to be quoted") {
    for (const std::string word : {"NO", "yes", "on", "Off", "y", "010", "0o17", "0b11", "1_000", "12:30:45",
                                   "2024-01-31", ".inf", ".NaN", "0x1_F"}) {
        const std::string yaml = job_with("labels: {x: " + word + "}\n");
        const Problem problem = problem_of(yaml);
        CAPTURE(word, problem.message);
        CHECK(says(problem, "quote it: \"" + word + "\""));
        CHECK(problem.line == 2);
        CHECK(job_of(job_with("labels: {x: \"" + word + "\"}\n")).labels.at("x") == word);
    }
    CHECK(says(problem_of("entrypoint: x\nstop: {on: 3}\n"), "quote it: \"on\""));
    CHECK(job_of(job_with("labels: {x: 10.0.0.1:80, z: nope, e: 1e3, h: 0x1F}\n")).labels.at("e") == "1e3");
    CHECK(job_of(job_with("stop: {a: +.5, b: 5., c: 0x1F}\n")).stop ==
          std::map<std::string, double>{{"a", 0.5}, {"b", 5}, {"c", 31}});
}

TEST_CASE("what YAML can do and a job has no need of is refused") {
    CHECK(says(problem_of("entrypoint: &a x\n"), "anchors"));
    CHECK(says(problems_of("entrypoint: &a x\nname: *a\n").back(), "aliases"));
    CHECK(says(problem_of("entrypoint: !!str x\n"), "tags"));
    CHECK(says(problem_of("entrypoint: x\nenv: {<<: {A: b}}\n"), "merge keys"));
    CHECK(says(problem_of("entrypoint: x\nentrypoint: z\n"), "given already in line 1"));
    CHECK(says(problem_of("entrypoint: x\n---\nentrypoint: z\n"), "second YAML document"));
    CHECK(says(problem_of("%YAML 1.1\n---\nentrypoint: x\n"), "directives"));
    CHECK(says(problem_of("entrypoint: x\n? [a]\n: b\n"), "a key must be text"));
    CHECK(says(problem_of("entrypoint: x\nenv:\n\tA: b\n"), "a tab indents"));
    CHECK(says(problem_of("entrypoint: x\xff\n"), "0xff is not UTF-8"));
    CHECK(says(problem_of("entrypoint: \x1b[31m\n"), "control character 0x1b"));
    CHECK(says(problem_of("entrypoint: [a, b\n"), "not YAML"));
    CHECK(says(problem_of("- a\n- b\n"), "a job is a map"));
    CHECK(says(problem_of(""), "is missing"));
    CHECK(says(problem_of("entrypoint:\n"), "wants a command"));
    CHECK(problem_of(std::string(100 << 20, 'x')).message ==
          "the file has 104857600 bytes; a spec has at most 1048576");
    CHECK(says(problem_of("entrypoint: x\nlabels: " + std::string(40, '[') + std::string(40, ']') + "\n"),
               "nested deeper than 32"));
    CHECK(says(problems_of(std::string(500'000, '[')).back(), "nested deeper than 32"));
    CHECK(job_of("entrypoint: x\nsetup: |\n  make \\\n  \tall\n").setup == "make \\\n\tall\n");
}

TEST_CASE("variables of the submitter: value, default, escape, and an unknown one with its line") {
    const ReadOptions options{.environment = {{"HOME", "/home/a"}, {"EMPTY", ""}}};
    const Job job = job_of(job_with("env: {A: '${HOME}/x', B: '${NONE:-d e}', C: '$$HOME', D: '${EMPTY:-z}', E: "
                                    "'$HOME'}\nstorage_path: ${HOME}/runs\n"),
                           options);
    CHECK(job.env == std::map<std::string, std::string>{
                         {"A", "/home/a/x"}, {"B", "d e"}, {"C", "$HOME"}, {"D", "z"}, {"E", "$HOME"}});
    CHECK(job.storage_path == "/home/a/runs");
    const Problem problem = problem_of(job_with("env:\n  A: ${HOM}\n"), options);
    CHECK(problem.line == 3);
    CHECK(says(problem, "the variable HOM is not set"));
    CHECK(says(problem, "did you mean \"HOME\"?"));
    CHECK(job_of("entrypoint: echo ${RANK} $$\n").entrypoint.back() == "echo ${RANK} $$");
    CHECK(says(problem_of(job_with("env: {A: '${HOME'}\n"), options), "without }"));
}

TEST_CASE("--set lays a value over the file, and its problems name it") {
    const Job job =
        job_of(job_with("scaling: {workers: 1}\n"),
               {.sets = {"scaling.workers=4", "labels.team=nlp", "env={A: b}", "name=", "failure.backoff=1s..2s"}});
    CHECK(job.workers == 4);
    CHECK(job.labels.at("team") == "nlp");
    CHECK(job.env.at("A") == "b");
    const Problem problem = problem_of(job_with(""), {.sets = {"scaling.wokers=4"}});
    CHECK(problem.line == 0);
    CHECK(says(problem, "--set \"scaling.wokers=4\": unknown field; did you mean \"workers\"?"));
    CHECK(says(problem_of(job_with(""), {.sets = {"labels.x=NO"}}), "quote it"));
    CHECK(says(problem_of(job_with(""), {.sets = {"scaling.workers=many"}}), "wants a whole number"));
    CHECK(says(problem_of(job_with(""), {.sets = {"nonsense"}}), "FIELD=VALUE"));
    CHECK(says(problem_of(job_with(""), {.sets = {"entrypoint.x=1"}}), "\"entrypoint\" is not a map"));
}

TEST_CASE("amounts are exact, and what cannot be is said with the reason") {
    const auto amounts = [](const std::string& map) {
        return job_of(job_with("scaling: {resources_per_worker: " + map + "}\n")).resources_per_worker;
    };
    const auto wrong = [](const std::string& map) {
        return problem_of(job_with("scaling: {resources_per_worker: " + map + "}\n"));
    };
    CHECK(amounts("{CPU: 0.0003}").at("CPU") == ticks(3));
    CHECK(amounts("{memory: 1025.5Ki}").at("memory") == units(1'050'112));
    CHECK(amounts("{GPU: 2}") == Resources{{"GPU", units(2)}});
    CHECK(says(wrong("{CPU: 0.00003}"), "finer than 0.0001"));
    CHECK(says(wrong("{CPU: -1}"), "wants an amount"));
    CHECK(says(wrong("{CPU: 4Gi}"), "for memory only"));
    CHECK(says(wrong("{memory: 9999999999Ti}"), "more than the largest amount, 363Ti"));
    CHECK(says(wrong("{memory: 32}"), "is 32 bytes, less than any worker needs; write the unit, for example 32Gi"));
    CHECK(says(wrong("{memory: 4GB}"), "wants an amount"));
    CHECK(says(wrong("{GPU: 1.5}"), "whole number"));
    CHECK(job_of(job_with("scaling: {workers: 2, resources_per_worker: {CPU: 0}}\n")).resources_per_worker.empty());
    CHECK(job_of(job_with("driver: true\nscaling: {resources_per_worker: {CPU: 0}}\n")).resources_per_worker.empty());
    CHECK(says(problem_of(job_with("driver: true\nscaling: {workers: 2}\n")), "a driver is one worker"));
}

TEST_CASE("all wrong entries of a map are told at once, whatever is wrong with each") {
    const Problems problems = problems_of(
        job_with("scaling:\n  resources_per_worker: {CPU: -1, GPU: 1.5, disk: abc, memory: 1.00001, tpu: 2}\n"));
    REQUIRE(problems.size() == 4);
    CHECK(says(problems[0], "wants an amount such as 1, 0.5 or (memory) 8Gi, found -1"));
    CHECK(says(problems[1], "must be a whole number of them"));
    CHECK(problems[2].path == "scaling.resources_per_worker.disk");
    CHECK(says(problems[3], "finer than 0.0001"));
}

TEST_CASE("a resource by another name than CPU, GPU or memory is refused, but not in a stored job") {
    const Problems problems =
        problems_of(job_with("scaling: {resources_per_worker: {gpus: 1, cpu: 2, Memory: 3, cpu_hours: 1}}"));
    REQUIRE(problems.size() == 3);
    CHECK(says(problems[0], "\"gpus\"; did you mean GPU?"));
    CHECK(says(problems[1], "\"cpu\"; did you mean CPU?"));
    CHECK(says(problems[2], "\"Memory\"; did you mean memory?"));
    const std::string stored = R"({"version":1,"entrypoint":["a"],"scaling":{"resources_per_worker":{"gpus":1}}})";
    CHECK(job_from_json(stored, JsonFrom::record).job);
    CHECK_FALSE(job_from_json(stored).job);
}

TEST_CASE("use_gpu gives one GPU, which other resources do not take away") {
    const auto resources = [](const std::string& scaling) {
        return job_of(job_with("scaling: " + scaling + "\n")).resources_per_worker;
    };
    CHECK(resources("{use_gpu: true}") == Resources{{"GPU", units(1)}});
    CHECK(resources("{use_gpu: true, resources_per_worker: {TPU: 1}}") ==
          Resources{{"GPU", units(1)}, {"TPU", units(1)}});
    CHECK(resources("{use_gpu: true, resources_per_worker: {GPU: 0.5}}") == Resources{{"GPU", ticks(5000)}});
    CHECK(resources("{resources_per_worker: {TPU: 1}}") == Resources{{"CPU", units(1)}, {"TPU", units(1)}});
    CHECK(resources("{use_gpu: true, accelerator_type: T4}") ==
          Resources{{"GPU", units(1)}, {"accelerator_type:T4", ticks(1)}});
    const Problem problem = problem_of(job_with("scaling:\n  use_gpu: true\n  resources_per_worker: {GPU: 0}\n"));
    CHECK(says(problem, "contradict use_gpu"));
    CHECK(problem.line == 4);
}

TEST_CASE("contradictions and impossible values") {
    CHECK(says(problem_of(job_with("scaling: {workers: 8..2}\n")), "begins above its end"));
    CHECK(says(problem_of(job_with("scaling: {workers: 0}\n")), "Python driver"));
    CHECK(says(problem_of(job_with("scaling: {workers: 99999999999999999999}\n")), "at most"));
    CHECK(says(problem_of(job_with("scaling: {nodes: [a], exclude_nodes: [a]}\n")), "in nodes as well"));
    CHECK(says(problem_of(job_with("secrets: [T]\nenv: {T: x}\n")), "everybody can read it"));
    CHECK(says(problem_of(job_with("backend: {name: nccl}\n")), "nccl needs a GPU"));
    CHECK(job_of(job_with("storage_path: gs://b/p/\n")).storage_path == "gs://b/p");
    CHECK(job_of(job_with("storage_path: s3://b/p/\n")).storage_path == "s3://b/p");
    CHECK(says(problem_of(job_with("storage_path: runs\n")), "absolute path"));
    CHECK(says(problem_of(job_with("limits: {wall_time: 60}\n")), "give a unit: 60s"));
    CHECK(says(problem_of(job_with("limits: {wall_time: 0s}\n")), "end the run at once"));
    CHECK(says(problem_of(job_with("failure: {backoff: 5m..1s}\n")), "begins above its end"));
    CHECK(says(problem_of(job_with("name: -x\n")), "wants letters, digits"));
    CHECK(says(problem_of(job_with("name: 3.10\n")), "quote it: \"3.10\""));
    CHECK(says(problem_of(job_with("priority: 101\n")), "from 0 to 100"));
    CHECK(says(problem_of(job_with("version: 2\n")), "wants 1"));
    CHECK(says(problem_of(job_with("tracking: {tensorbord: true}\n")), "did you mean \"tensorboard\"?"));
    CHECK(says(problem_of(job_with("scaling: 4\n")), "wants a map of workers"));
    CHECK(says(problem_of(job_with("scaling: {label_selector: {a: 'in(b'}}\n")), ")"));
    CHECK(says(problem_of("entrypoint: ['', x]\n"), "name is empty"));
}

TEST_CASE("the head reads the wire by the same rules") {
    CHECK(says(job_from_json(R"({"entrypoint":"x","nam":"y"})").problems.front(), "did you mean \"name\"?"));
    CHECK(says(job_from_json(R"({"entrypoint":"x","entrypoint":"y"})").problems.front(), "given twice"));
    CHECK(says(job_from_json("{").problems.front(), "not JSON"));
    CHECK(says(job_from_json(std::string(100'000, '[')).problems.front(), "nested deeper"));
    CHECK(job_from_json(R"({"entrypoint":"x","env":{"A":"${HOME} $$"}})").job->env.at("A") == "${HOME} $$");
    CHECK(job_from_json(R"({"entrypoint":"x","scaling":{"resources_per_worker":{"CPU":0.0003}}})")
              .job->resources_per_worker.at("CPU") == ticks(3));
}

TEST_CASE("other files are read as strictly: JSON with the digits kept, and positions") {
    const YamlAnswer answer = strict_yaml("nodes:\n  - {id: a, CPU: 0.0003}\n");
    CHECK(answer.json == R"({"nodes":[{"id":"a","CPU":0.0003}]})");
    CHECK(answer.positions.at("nodes[0].CPU") == std::pair(2, 18));
    CHECK(strict_yaml("a: NO\n").problems.size() == 1);
    CHECK(strict_yaml("").json == "null");
}

TEST_CASE("each worker may have a selector of its own, beside the one of all") {
    const Job job = job_of(job_with(
        "scaling: {workers: 2, label_selector: {zone: us}, worker_selectors: [{gpu: a}, {gpu: 'in(b,c)'}]}\n"));
    const auto& bundles = run_spec(job).gang.bundles;
    REQUIRE(bundles.size() == 2);
    CHECK(bundles[0].selector == LabelSelector{{"zone", {"us"}}, {"gpu", {"a"}}});
    CHECK(bundles[1].selector == LabelSelector{{"zone", {"us"}}, {"gpu", {"b", "c"}}});
    CHECK(job_from_json(to_json(job)).job == job);
    const Job elastic = job_of(job_with("scaling: {workers: 1..2, worker_selectors: [{gpu: a}, {gpu: b}]}\n"));
    CHECK(run_spec(elastic).gang.bundles[1].selector == LabelSelector{{"gpu", {"b"}}});
    CHECK(run_spec(elastic).elastic->workers_min == 1);
    for (const char* workers : {"3", "2..4"})
        CHECK(
            says(problem_of(job_with("scaling: {workers: " + std::string(workers) + ", worker_selectors: [{}, {}]}\n")),
                 "has 2 selectors for " + std::string(workers) + " workers"));
    CHECK(says(problem_of(job_with("scaling: {worker_selectors: [{a: 'in(b'}]}\n")), ")"));
    CHECK(says(problem_of(job_with("scaling: {worker_selectors: {a: b}}\n")), "wants a list of maps"));
}

TEST_CASE("the core gets one bundle for each worker that there may be") {
    const RunSpec spec = run_spec(job_of(every_field));
    CHECK(spec.gang.bundles.size() == 8);
    CHECK(spec.elastic == Elastic{.workers_min = 2, .grow_after = {60'000}});
    CHECK(spec.gang.bundles[0].demand.at("GPU") == units(1));
    CHECK(spec.gang.bundles[0].selector.size() == 3);
    CHECK(spec.gang.strategy == Strategy::strict_spread);
    CHECK(spec.gang.nodes_only == std::set<NodeId>{NodeId{"n1"}});
    CHECK(spec.wall_time_limit == Duration{172'800'000});
    CHECK(spec.stop_at.at("epoch") == 20);
    CHECK_FALSE(spec.wait_for_nodes);
    CHECK(spec.priority == 70);
}

}  // namespace rtrain::spec
