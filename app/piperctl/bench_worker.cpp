// SPDX-License-Identifier: Apache-2.0
// The worker on one thread of a session's machine beside its limits.
#include "app/common/sessions.h"
#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "sessions/job_directory.h"

namespace piper::app {
namespace {

std::string ratioText(const Json& ratio) {
    return fmt::format("{:.2f} ({:.2f}-{:.2f})", ratio.at("median").get<double>(),
                       ratio.at("low").get<double>(), ratio.at("high").get<double>());
}

std::string rateText(const Json& of, const char* key) {
    return humanFlopsPerSecond(FlopsPerSecond(of.at(key).get<double>()));
}

void printExperts(const Json& experts) {
    fmt::print(
        "experts: {} of hidden {}, SwiGLU of {}, activation included, beside oneDNN's products\n",
        experts.at("num_experts").get<int>(), experts.at("hidden_size").get<int>(),
        experts.at("moe_ffn_hidden_size").get<int>());
    TextTable table(
        {"tokens each", "pass", "rate", "peer", "its rate", "ratio (quartiles)", "against itself"});
    for (const Json& row : experts.at("rows"))
        table.add({std::to_string(row.at("tokens").get<int>()), row.at("pass").get<std::string>(),
                   rateText(row, "flops_per_second"), row.at("peer").get<std::string>(),
                   rateText(row, "peer_flops_per_second"), ratioText(row.at("ratio")),
                   ratioText(row.at("against_itself"))});
    for (const Json& row : experts.at("phases"))
        table.add({std::to_string(row.at("tokens").get<int>()), "all three",
                   rateText(row, "flops_per_second"), "packed",
                   rateText(row, "peer_flops_per_second"), ratioText(row.at("ratio")),
                   ratioText(row.at("against_itself"))});
    fmt::print("{}n {} pairs each\n", table.text(),
               experts.at("rows").front().at("ratio").at("n").get<int>());
}

void printStep(const Json& step) {
    fmt::print(
        "step: hidden {}, {} layers, {} experts top-{} of {}, seq_len {}, micro-batch {}: {} "
        "of model FLOPs, {:.2f} of the best {} cubed product ({}), n {}, by pairs {}\n",
        step.at("hidden_size").get<int>(), step.at("num_layers").get<int>(),
        step.at("num_experts").get<int>(), step.at("router_topk").get<int>(),
        step.at("moe_ffn_hidden_size").get<int>(), step.at("seq_len").get<int>(),
        step.at("micro_batch_size").get<int>(), rateText(step, "flops_per_second"),
        step.at("of_best_gemm").get<double>(), step.at("gemm_size").get<int>(),
        rateText(step, "gemm_flops_per_second"), step.at("ratio").at("n").get<int>(),
        ratioText(step.at("ratio")));
}

void printCollecting(const Json& collecting) {
    const auto percent = [](const Json& ratio, const char* key) {
        return 100.0 * (ratio.at(key).get<double>() - 1.0);
    };
    const Json &ratio = collecting.at("ratio"), &itself = collecting.at("against_itself");
    fmt::print(
        "collecting {:.0f} events a step of {}: {:+.2f} % (quartiles {:+.2f} to {:+.2f}), a step "
        "against the next one without {:+.2f} % ({:+.2f} to {:+.2f}), n {}; reading clocks {:.2f} "
        "% in both\n",
        collecting.at("events_per_step").get<double>(),
        humanSeconds(Seconds(collecting.at("step_cpu_seconds").get<double>())),
        percent(ratio, "median"), percent(ratio, "low"), percent(ratio, "high"),
        percent(itself, "median"), percent(itself, "low"), percent(itself, "high"),
        ratio.at("n").get<int>(), 100.0 * collecting.at("clock_readings").get<double>());
}

}  // namespace

Outcome benchWorker(const BenchOptions& options, bool json) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(options.session));
    Connection& connection = session->connection();
    PIPER_ASSIGN(const std::string root, session->jobsRoot());
    PIPER_ASSIGN(const std::string worker, session->worker(siblingProgram("piper-worker")));
    const std::string directory = root + "/" + newJobName("bench"),
                      file = directory + "/bench.json";
    PIPER_TRY(connection.makeDirectory(directory));
    std::vector<std::string> program = {worker, "--bench", file};
    if (options.quick) program.emplace_back("--quick");
    PIPER_ASSIGN(const CommandResult done, connection.run(program));
    if (done.exit_status != 0)
        return fail(ErrorCode::External, "the worker's benchmark on {} ended with status {}: {}",
                    connection.label(), done.exit_status, done.error_output + done.output);
    PIPER_ASSIGN(const std::string text, connection.readFile(file, 1 << 20));
    PIPER_ASSIGN(const Json measured, parseJson(text, file));
    if (json) {
        printJson(measured);
        return 0;
    }
    printExperts(measured.at("experts"));
    printStep(measured.at("step"));
    printCollecting(measured.at("collecting"));
    return 0;
}

}  // namespace piper::app
