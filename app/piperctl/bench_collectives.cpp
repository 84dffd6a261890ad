// SPDX-License-Identifier: Apache-2.0
#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "core/cost/call_table.h"
#include "core/cost/roof.h"

namespace piper::app {
namespace {

Json errorsJson(const CallErrors& e) {
    return {{"group", e.group},
            {"n", e.n},
            {"median_abs_rel_err", e.median},
            {"p90_abs_rel_err", e.p90},
            {"bias", e.bias},
            {"published_over_predicted_p10", e.low},
            {"published_over_predicted_p90", e.high}};
}

void printErrors(const CallErrors& e) {
    fmt::print("{:<56} {:>5} {:>8.1f} % {:>8.1f} % {:>+8.1f} %\n", e.group, e.n, 100 * e.median,
               100 * e.p90, 100 * e.bias);
}

/// Published rows against the model: each part from the other parts, or all of them from the
/// curves compiled in.
Result<Json> publishedJson(const BenchOptions& options) {
    if (options.leave_out < 0 || options.leave_out == 1 || options.leave_out > 1000)
        return fail(ErrorCode::InvalidInput,
                    "--leave-out {}: 0 (nothing, from the curves compiled in) or 2 to 1000 parts",
                    options.leave_out);
    PIPER_ASSIGN(const LeaveOutBy by, parseEnum<LeaveOutBy>(options.by, "--by"));
    PIPER_ASSIGN(const std::string text, readTextFile(options.published));
    PIPER_ASSIGN(const CallTable table, readCallTable(text, options.published));
    if (table.calls.empty())
        return fail(ErrorCode::InvalidInput, "none of the rows can be used; the first: {}",
                    table.skipped.empty() ? "no rows" : table.skipped.front().reason)
            .at(options.published);
    const CallReport report = leaveOut(table.calls, options.leave_out, by);
    Json out = {{"format_version", 1},
                {"bench", "alltoall"},
                {"published", options.published},
                {"leave_out", options.leave_out},
                {"by", options.by},
                {"rows", table.calls.size()},
                {"summary", errorsJson(report.all)}};
    out["groups"] = Json::array();
    for (const CallErrors& group : report.groups) out["groups"].push_back(errorsJson(group));
    out["skipped"] = Json::array();
    for (const SkippedCall& s : table.skipped)
        out["skipped"].push_back({{"line", s.line}, {"reason", s.reason}});
    out["predictions"] = Json::array();
    for (std::size_t i = 0; i < table.calls.size(); ++i)
        out["predictions"].push_back({{"line", table.lines[i]},
                                      {"published_seconds", table.calls[i].time.value},
                                      {"predicted_seconds", report.predicted[i]}});
    return out;
}

void printPublished(const Json& document) {
    fmt::print("{:<56} {:>5} {:>10} {:>10} {:>10}\n", "calls", "n", "median", "p90", "bias");
    const auto row = [](const Json& e) {
        printErrors({e.at("group").get<std::string>(), e.at("n").get<std::int64_t>(),
                     e.at("median_abs_rel_err").get<double>(),
                     e.at("p90_abs_rel_err").get<double>(), e.at("bias").get<double>(), 0, 0});
    };
    for (const Json& group : document.at("groups")) row(group);
    row(document.at("summary"));
    for (const Json& s : document.at("skipped"))
        fmt::print("skipped line {}: {}\n", s.at("line").get<std::int64_t>(),
                   s.at("reason").get<std::string>());
}

/// What the cluster's links allow, as nccl-tests counts it.
Result<Json> roofsJson(const std::string& name) {
    PIPER_ASSIGN(const ClusterSpec cluster, loadCluster(name));
    Json out = {{"format_version", 1}, {"bench", "alltoall"}, {"cluster", cluster.name}};
    out["roofs"] = Json::array();
    for (const std::int64_t ranks : {cluster.devices_per_node, cluster.numDevices()}) {
        if (ranks < 2) continue;
        for (const EnumName<CollectiveKind>& kind : enumNames<CollectiveKind>()) {
            PIPER_ASSIGN(const CollectiveRoof roof, collectiveRoof(cluster, kind.value, ranks));
            out["roofs"].push_back({{"operation", kind.name},
                                    {"ranks", ranks},
                                    {"algbw_bytes_per_second", roof.algbw.value},
                                    {"busbw_bytes_per_second", roof.busbw.value},
                                    {"level", roof.level},
                                    {"wire_share", roof.wire_share}});
        }
        if (cluster.nodes == 1) break;
    }
    return out;
}

void printRoofs(const Json& document) {
    fmt::print("{:<16} {:>6} {:>14} {:>14}  {}\n", "operation", "ranks", "algbw GB/s", "busbw GB/s",
               "set by");
    for (const Json& r : document.at("roofs"))
        fmt::print(
            "{:<16} {:>6} {:>14.1f} {:>14.1f}  {}\n", r.at("operation").get<std::string>(),
            r.at("ranks").get<std::int64_t>(), r.at("algbw_bytes_per_second").get<double>() / 1e9,
            r.at("busbw_bytes_per_second").get<double>() / 1e9, r.at("level").get<std::string>());
}

}  // namespace

Outcome benchCollectives(const BenchOptions& options, bool json) {
    if (options.published.empty() == options.cluster.empty())
        return fail(
            ErrorCode::InvalidInput,
            "give either --published CSV (published times against the model) or --cluster C "
            "(the roofs of its links)");
    const bool published = !options.published.empty();
    PIPER_ASSIGN(const Json document,
                 published ? publishedJson(options) : roofsJson(options.cluster));
    if (json)
        printJson(document);
    else if (published)
        printPublished(document);
    else
        printRoofs(document);
    return 0;
}

}  // namespace piper::app
