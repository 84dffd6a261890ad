// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"
#include "core/run/report.h"

namespace piper {
namespace {

constexpr std::size_t kShownKernels = 20;
constexpr std::size_t kShownName = 60;

Json rowsOf(const char* key, const std::vector<DeviceRow>& rows) {
    Json out = Json::array();
    for (const DeviceRow& row : rows) {
        const double difference = static_cast<double>(row.b_sum_ns - row.a_sum_ns);
        out.push_back(
            {{key, row.key},
             {"a_count", row.a_count},
             {"b_count", row.b_count},
             {"difference_count", row.b_count - row.a_count},
             {"a_sum_ns", row.a_sum_ns},
             {"b_sum_ns", row.b_sum_ns},
             {"difference_ns", row.b_sum_ns - row.a_sum_ns},
             {"a_mean_ns", row.aMean()},
             {"b_mean_ns", row.bMean()},
             {"difference_mean_ns", row.bMean() - row.aMean()},
             {"relative",
              row.a_sum_ns == 0 ? Json() : Json(difference / static_cast<double>(row.a_sum_ns))}});
    }
    return out;
}

}  // namespace

Json deviceComparisonJson(const Run& a, const Run& b, const DeviceComparison& c) {
    Json ranks = rowsOf("rank", c.ranks);
    for (Json& row : ranks) row["rank"] = std::stoi(row["rank"].get<std::string>().substr(5));
    return {{"format_version", 1},
            {"a", {{"name", a.name}, {"kind", toText(a.kind)}, {"ranks", a.ranks.size()}}},
            {"b", {{"name", b.name}, {"kind", toText(b.kind)}, {"ranks", b.ranks.size()}}},
            {"phases", rowsOf("phase", c.classes)},
            {"kernels", rowsOf("name", c.kernels)},
            {"stages", Json::array()},
            {"ranks", std::move(ranks)},
            {"only_in_a", c.only_in_a},
            {"only_in_b", c.only_in_b},
            {"warnings", c.warnings},
            {"attribution", attributionJson(c.attribution)}};
}

std::string deviceComparisonTable(const Run& a, const Run& b, const DeviceComparison& c) {
    std::string out =
        fmt::format("A = {}\nB = {}\n{:>10} {:>10} {:>12} {:>12} {:>12} {:>12}  name\n", a.name,
                    b.name, "A count", "B count", "A sum ms", "B sum ms", "A mean us", "B mean us");
    const auto line = [&](const DeviceRow& row) {
        out += fmt::format("{:>10} {:>10} {:>12.3f} {:>12.3f} {:>12.3f} {:>12.3f}  {}\n",
                           row.a_count, row.b_count, static_cast<double>(row.a_sum_ns) / 1e6,
                           static_cast<double>(row.b_sum_ns) / 1e6, row.aMean() / 1e3,
                           row.bMean() / 1e3, row.key.substr(0, kShownName));
    };
    for (const DeviceRow& row : c.classes) line(row);
    for (std::size_t i = 0; i < c.kernels.size() && i < kShownKernels; ++i) line(c.kernels[i]);
    const Attribution& why = c.attribution;
    out += fmt::format(
        "first to last device work: {:.3f} ms against {:.3f} ms; of the difference {:.3f} ms: "
        "compute "
        "{:.3f}, exposed communication {:.3f}, idle {:.3f}, rest {:.3f}\n",
        why.step_a_seconds * 1e3, why.step_b_seconds * 1e3, why.difference() * 1e3,
        why.compute_seconds * 1e3, why.exposed_communication_seconds * 1e3,
        why.bubble_seconds * 1e3, why.rest_seconds * 1e3);
    for (const auto& [side, list] : {std::pair{"A", &c.only_in_a}, std::pair{"B", &c.only_in_b}})
        for (const std::string& what : *list)
            out += fmt::format("only in {}: {}\n", side, what.substr(0, kShownName + 10));
    for (const std::string& warning : c.warnings) out += fmt::format("warning: {}\n", warning);
    return out;
}

}  // namespace piper
