// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/report_tables.h"

#include <algorithm>

#include "core/base/json.h"
#include "ui/models/comparison_model.h"
#include "ui/models/plan_summary.h"

namespace piper::ui {
namespace {

/// Lines of cells; text is quoted where RFC 4180 asks for it.
class CsvText {
public:
    explicit CsvText(const std::vector<std::string>& head) { add(head); }

    void add(const std::vector<std::string>& cells) {
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (i > 0) m_text += ',';
            const bool quoted = cells[i].find_first_of(",\"\n") != std::string::npos;
            if (!quoted) {
                m_text += cells[i];
                continue;
            }
            m_text += '"';
            for (const char c : cells[i]) m_text += c == '"' ? std::string("\"\"") : std::string{c};
            m_text += '"';
        }
        m_text += '\n';
    }
    [[nodiscard]] ExportedFile file(const char* name) const { return {name, m_text, false}; }

private:
    std::string m_text;
};

std::string plain(double number) {
    return fmt::format("{:.9g}", number);
}

ExportedFile metricsFile(const Prediction& p) {
    CsvText csv({"key", "value", "low", "high", "evidence", "extrapolated"});
    const auto add = [&](const char* key, double value) {
        const auto found = p.evidence.find(key);
        if (found == p.evidence.end()) return csv.add({key, plain(value), "", "", "", ""});
        const Evidence& e = found->second;
        csv.add({key, plain(value), plain(e.low), plain(e.high), std::string(toText(e.kind)),
                 e.extrapolated ? "true" : "false"});
    };
    add("mfu", p.mfu);
    add("hfu", p.hfu);
    add("step_seconds", p.step.value);
    add("tokens_per_second_per_device", p.tokens_per_second_per_device);
    add("model_flops_per_token", p.model_flops_per_token.value);
    add("bubble_fraction", p.bubble_fraction);
    add("peak_bytes", p.memory.peak.value);
    add("device_total_bytes", p.memory.device_total.value);
    add("capacity_bytes", p.memory.capacity.value);
    return csv.file("metrics.csv");
}

ExportedFile memoryFile(const MemoryPrediction& memory) {
    std::vector<std::string> head = {"stage", "peak_bytes"};
    for (std::size_t i = 0; i < kNumMemoryTerms; ++i)
        head.push_back(std::string(toText(static_cast<MemoryTerm>(i))) + "_bytes");
    CsvText csv(head);
    for (std::size_t s = 0; s < memory.stages.size(); ++s) {
        std::vector<std::string> row = {std::to_string(s), plain(memory.stages[s].peak.value)};
        for (const Bytes b : memory.stages[s].at_peak) row.push_back(plain(b.value));
        csv.add(row);
    }
    return csv.file("memory.csv");
}

ExportedFile phasesFile(const Prediction& p) {
    CsvText csv({"phase", "seconds", "exposed_seconds", "share_of_step"});
    for (const PhaseShare& s : phaseShares(p))
        csv.add({std::string(toText(s.phase)), plain(s.time.value), plain(s.exposed.value),
                 plain(s.share_of_step)});
    return csv.file("phases.csv");
}

ExportedFile rooflineFile(const Roofline& roofline) {
    CsvText csv({"kind", "phase", "operation", "groups", "m", "n", "k", "bytes", "seconds",
                 "rate_per_second", "roof_per_second", "limit", "evidence", "extrapolated"});
    for (const GemmRoof& g : roofline.gemms)
        csv.add({"gemm", std::string(toText(g.key.phase)), std::string(toText(g.key.kind)),
                 std::to_string(g.work.groups), std::to_string(g.work.m), std::to_string(g.work.n),
                 std::to_string(g.work.k), plain(g.bytes.value), plain(g.time.value),
                 plain(g.rate.value), plain(g.roof.value), g.memoryBound() ? "memory" : "peak",
                 std::string(toText(g.evidence.kind)), g.evidence.extrapolated ? "true" : "false"});
    for (const LinkRoof& l : roofline.links)
        csv.add({"link", std::string(toText(l.key.phase)), std::string(toText(l.key.kind)),
                 std::to_string(l.ranks), "", "", "", plain(l.bytes.value), plain(l.time.value),
                 plain(l.rate.value), plain(l.roof.value), l.level,
                 std::string(toText(l.evidence.kind)), l.evidence.extrapolated ? "true" : "false"});
    return csv.file("roofline.csv");
}

ExportedFile ranksFile(const Plan& plan) {
    CsvText csv({"rank", "node", "device", "tp", "cp", "dp", "pp", "etp", "ep", "edp"});
    const ProcessGrid grid(plan.layout, plan.rank_order);
    const std::int64_t node = std::max<std::int64_t>(1, plan.cluster.devices_per_node);
    for (std::int64_t rank = 0; rank < grid.world(); ++rank) {
        const RankCoordinates c = grid.coordinates(RankId(static_cast<std::int32_t>(rank)));
        std::vector<std::string> row;
        for (const std::int64_t v :
             {rank, rank / node, rank % node, c.tp, c.cp, c.dp, c.pp, c.etp, c.ep, c.edp})
            row.push_back(std::to_string(v));
        csv.add(row);
    }
    return csv.file("ranks.csv");
}

ExportedFile plansFile(const RankedPlans& plans) {
    std::vector<std::string> head;
    for (int column = 0; column < RankedPlans::Limit; ++column)
        head.emplace_back(columnKey(static_cast<RankedPlans::Column>(column)));
    CsvText csv(head);
    for (std::size_t row = 0; row < plans.size(); ++row) {
        std::vector<std::string> cells;
        for (int column = 0; column < RankedPlans::Limit; ++column)
            cells.push_back(isText(static_cast<RankedPlans::Column>(column))
                                ? plans.cellText(row, column).toStdString()
                                : plain(plans.number(row, column)));
        csv.add(cells);
    }
    return csv.file("plans.csv");
}

ExportedFile comparisonFile(const ComparedRuns& runs) {
    CsvText csv({"quantity", "key", "a", "b"});
    for (const CompareTopic topic : kCompareTopics)
        for (const ComparisonRow& row : topicRows(*runs.comparison, topic, runs.num_ranks))
            csv.add({topicTitle(topic).toStdString(), row.key, plain(row.a), plain(row.b)});
    return csv.file("comparison.csv");
}

}  // namespace

std::vector<ExportedFile> reportFiles(const ReportSource& source, const Roofline& roofline) {
    const Plan& plan = *source.plan;
    std::vector<ExportedFile> out = {metricsFile(source.prediction),
                                     memoryFile(source.prediction.memory),
                                     phasesFile(source.prediction),
                                     rooflineFile(roofline),
                                     ranksFile(plan),
                                     {"plan.json", {}, false}};
    out.back().content = writePlan(plan).dump(2) + "\n";
    if (source.plans->size() > 0) out.push_back(plansFile(*source.plans));
    if (source.compared.comparison != nullptr) out.push_back(comparisonFile(source.compared));
    return out;
}

}  // namespace piper::ui
