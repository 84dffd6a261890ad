// SPDX-License-Identifier: Apache-2.0
#include "core/cost/call_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "core/base/csv.h"
#include "core/base/enum_text.h"
#include "core/base/sample.h"

namespace piper {

template <>
std::span<const EnumName<LeaveOutBy>> enumNames<LeaveOutBy>() {
    static constexpr EnumName<LeaveOutBy> rows[] = {
        {LeaveOutBy::Row, "row"}, {LeaveOutBy::Size, "size"}, {LeaveOutBy::Curve, "curve"}};
    return rows;
}

namespace {

constexpr std::int64_t kMostRanks = 1 << 24;

/// The number right after `before`, or right before `after`: "hidden=7168", "16 SMs".
std::optional<double> numberNear(std::string_view text, std::string_view before,
                                 std::string_view after) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!digit(text[i]) || (i > 0 && digit(text[i - 1]))) continue;
        std::size_t end = i;
        while (end < text.size() && digit(text[end])) ++end;
        const bool left = before.empty() || text.substr(0, i).ends_with(before);
        const bool right = after.empty() || text.substr(end).starts_with(after);
        if (left && right) return numberIn(text.substr(i, end - i));
    }
    return {};
}

struct Columns {
    std::map<std::string, std::size_t, std::less<>> at;
    [[nodiscard]] std::string_view of(const std::vector<std::string>& fields,
                                      std::string_view name) const {
        const auto found = at.find(name);
        return found == at.end() || found->second >= fields.size()
                   ? std::string_view()
                   : std::string_view(fields[found->second]);
    }
};

std::optional<CallKind> kindOf(std::string_view op, std::string_view library) {
    if (contains(library, "cross-rail")) return CallKind::CrossRailAllToAll;
    if (contains(library, "rail")) return CallKind::RailAllToAll;
    const bool combine = contains(library, "combine");
    if (combine || contains(library, "dispatch")) {
        if (contains(library, " ll ") || contains(library, "low-latency"))
            return combine ? CallKind::LowLatencyCombine : CallKind::LowLatencyDispatch;
        return combine ? CallKind::Combine : CallKind::Dispatch;
    }
    if (op.empty() || op == "alltoall" || op == "all_to_all") return CallKind::AllToAll;
    if (op == "all_reduce") return CallKind::AllReduce;
    if (op == "all_gather") return CallKind::AllGather;
    if (op == "reduce_scatter") return CallKind::ReduceScatter;
    return {};
}

/// Copies of a token that an expert-parallel library counts in its own bandwidth.
double countedCopies(const PublishedCall& call, const CallPlace& place) {
    if (call.kind == CallKind::LowLatencyDispatch || call.kind == CallKind::LowLatencyCombine)
        return call.size.topk;
    return place.crossesNetwork()
               ? distinctDomains(static_cast<double>(call.nodes), call.size.topk)
               : distinctDomains(static_cast<double>(call.ranks), call.size.topk);
}

/// Tokens, row and node limit of an expert-parallel row, from its notes. A reason when one lacks.
std::string readTokens(std::string_view notes, std::string_view library, PublishedCall& call) {
    auto tokens = numberNear(notes, "tokens=", "");
    if (!tokens) tokens = numberNear(notes, "", " tokens");
    if (!tokens || *tokens <= 0) return "no tokens in notes";
    auto hidden = numberNear(notes, "hidden=", "");
    if (!hidden) hidden = numberNear(notes, "hidden ", "");
    // What these libraries' own benchmarks send when a table does not repeat it.
    constexpr double kUsualHidden = 7168.0, kUsualTopk = 8.0;
    const bool combine = call.kind == CallKind::Combine || call.kind == CallKind::LowLatencyCombine;
    const double element = combine || contains(library, "BF16") ? 2.0 : 1.0;
    call.size.topk = numberNear(notes, "top-", "").value_or(kUsualTopk);
    call.size.row_bytes = hidden.value_or(kUsualHidden) * element;
    call.size.bytes = *tokens * call.size.topk * call.size.row_bytes;
    call.size.node_limit = 4;  // DeepEP's benchmarks route to 4 groups of experts
    // The collectors state the best multiprocessor count they found: not an input there.
    if (!contains(library, "collector")) call.sms = numberNear(notes, "", " SMs").value_or(0.0);
    call.kernel_only = contains(notes, "kernel only");
    return {};
}

/// The row as a call, or why not.
std::string readRow(const Columns& columns, const std::vector<std::string>& fields,
                    PublishedCall& call) {
    const std::string_view library = columns.of(fields, "library");
    const std::string_view notes = columns.of(fields, "notes");
    const auto kind = kindOf(columns.of(fields, "op"), library);
    if (!kind) return fmt::format("unknown op '{}'", columns.of(fields, "op"));
    call.kind = *kind;
    call.library = std::string(library);
    call.device = std::string(columns.of(fields, "gpu"));
    if (linkFamily(call.device) == LinkFamily::Unknown)
        return fmt::format("no link constants for device '{}'", call.device);
    const auto ranks = numberIn(columns.of(fields, "ranks")),
               nodes = numberIn(columns.of(fields, "nodes"));
    if (!ranks || *ranks < 2 || *ranks > kMostRanks)
        return fmt::format("ranks '{}' is not 2 or more", columns.of(fields, "ranks"));
    if (!nodes || *nodes < 1 || *nodes > *ranks)
        return fmt::format("nodes '{}' is not between 1 and the ranks",
                           columns.of(fields, "nodes"));
    call.ranks = static_cast<std::int64_t>(*ranks);
    call.nodes = static_cast<std::int64_t>(*nodes);
    if (isExpertParallel(call.kind) && columns.of(fields, "message_bytes").empty()) {
        if (std::string reason = readTokens(notes, library, call); !reason.empty()) return reason;
    } else {
        const auto message = numberIn(columns.of(fields, "message_bytes"));
        if (!message || *message <= 0) return "no message size";
        const bool per_peer =
            call.kind == CallKind::CrossRailAllToAll || call.kind == CallKind::RailAllToAll;
        call.size.bytes = per_peer ? *message * (*ranks - 1.0) : *message;
    }
    if (const auto time = numberIn(columns.of(fields, "time_us")); time && *time > 0) {
        call.time = microseconds(*time);
        return {};
    }
    const auto algbw = numberIn(columns.of(fields, "algbw"));
    if (!algbw || *algbw <= 0) return "neither a time nor algbw";
    const CallPlace place = usualPlace(call.device, call.ranks, call.nodes);
    const double counted = isExpertParallel(call.kind) && call.size.row_bytes > 0.0
                               ? call.size.bytes / call.size.topk * countedCopies(call, place)
                               : call.size.bytes;
    call.time = Bytes(counted) / gbps(*algbw);
    return {};
}

std::int64_t partOf(const PublishedCall& c, std::int64_t parts, LeaveOutBy by) {
    const std::string size = fmt::format("{:.0f}|{:.0f}", c.size.bytes, c.size.row_bytes);
    const std::string curve = fmt::format("{}|{}|{}|{}|{}|{:.0f}|{}", toText(c.kind), c.library,
                                          c.device, c.nodes, c.ranks, c.sms, c.kernel_only);
    const std::string key = by == LeaveOutBy::Size    ? size
                            : by == LeaveOutBy::Curve ? curve
                                                      : curve + "|" + size;
    const std::uint64_t hash = textHash(key);
    return static_cast<std::int64_t>((hash ^ (hash >> 32)) % static_cast<std::uint64_t>(parts));
}

CallErrors errorsOf(std::string group, const std::vector<double>& ratios) {
    std::vector<double> absolute, signed_error, inverse;
    for (const double r : ratios) {
        absolute.push_back(std::abs(r - 1.0));
        signed_error.push_back(r - 1.0);
        inverse.push_back(1.0 / r);
    }
    return {std::move(group),
            static_cast<std::int64_t>(ratios.size()),
            quantile(absolute, 0.5),
            quantile(absolute, 0.9),
            quantile(signed_error, 0.5),
            quantile(inverse, 0.1),
            quantile(inverse, 0.9)};
}

}  // namespace

Result<CallTable> readCallTable(std::string_view csv, std::string_view where) {
    CallTable out;
    Columns columns;
    std::int64_t line_number = 0;
    while (!csv.empty()) {
        const std::size_t end = csv.find('\n');
        ++line_number;
        Result<std::vector<std::string>> cells =
            csvCells(csv.substr(0, end), static_cast<std::size_t>(line_number), where);
        csv = end == std::string_view::npos ? std::string_view() : csv.substr(end + 1);
        if (!cells.ok()) {
            if (columns.at.empty()) return cells.error();
            out.skipped.push_back({line_number, cells.error().message});
            continue;
        }
        const std::vector<std::string>& fields = *cells;
        if (fields.size() == 1 && fields[0].empty()) continue;
        if (columns.at.empty()) {
            for (std::size_t i = 0; i < fields.size(); ++i) columns.at.emplace(fields[i], i);
            for (const char* needed : {"library", "gpu", "nodes", "ranks"})
                if (!columns.at.contains(needed))
                    return fail(ErrorCode::InvalidInput, "no column '{}'", needed)
                        .at(std::string(where));
            continue;
        }
        PublishedCall call;
        if (std::string reason = readRow(columns, fields, call); !reason.empty()) {
            out.skipped.push_back({line_number, std::move(reason)});
            continue;
        }
        out.calls.push_back(std::move(call));
        out.lines.push_back(line_number);
    }
    if (columns.at.empty())
        return fail(ErrorCode::InvalidInput, "an empty table").at(std::string(where));
    return out;
}

CallReport leaveOut(const std::vector<PublishedCall>& calls, std::int64_t parts, LeaveOutBy by) {
    CallReport report;
    std::vector<std::int64_t> part_of(calls.size(), 0);
    if (parts > 0)
        for (std::size_t i = 0; i < calls.size(); ++i) part_of[i] = partOf(calls[i], parts, by);
    report.predicted.resize(calls.size());
    std::vector<double> ratios(calls.size());
    for (std::int64_t part = 0; part < std::max<std::int64_t>(1, parts); ++part) {
        std::vector<PublishedCall> rest;
        if (parts > 0)
            for (std::size_t i = 0; i < calls.size(); ++i)
                if (part_of[i] != part) rest.push_back(calls[i]);
        const PublishedCurves fitted(rest);
        const PublishedCurves& curves = parts > 0 ? fitted : PublishedCurves::bundled();
        for (std::size_t i = 0; i < calls.size(); ++i) {
            if (part_of[i] != part) continue;
            report.predicted[i] = curves.predict(calls[i]).time.value;
            ratios[i] = report.predicted[i] / calls[i].time.value;
        }
    }
    std::vector<std::string> order;
    std::map<std::string, std::vector<double>> groups;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const PublishedCall& c = calls[i];
        std::string name =
            fmt::format("{} {} {} nodes {} ranks", toText(c.kind), c.device, c.nodes, c.ranks);
        if (!groups.contains(name)) order.push_back(name);
        groups[std::move(name)].push_back(ratios[i]);
    }
    for (const std::string& name : order) report.groups.push_back(errorsOf(name, groups[name]));
    report.all = errorsOf("all", ratios);
    return report;
}

}  // namespace piper
