// SPDX-License-Identifier: Apache-2.0
#include "core/cost/published_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/csv.h"
#include "core/base/enum_text.h"
#include "core/base/sample.h"

namespace piper {

namespace {

using Fields = std::vector<std::string>;

std::optional<double> positiveIn(std::string_view text) {
    const std::optional<double> value = numberIn(text);
    return value && *value > 0.0 ? value : std::nullopt;
}

/// The number behind "name=" in the extra column.
std::optional<double> tagged(std::string_view extra, std::string_view name) {
    const std::string key = std::string(name) + "=";
    for (std::size_t at = extra.find(key); at != std::string_view::npos;
         at = extra.find(key, at + 1)) {
        if (at > 0 && extra[at - 1] != ';' && extra[at - 1] != ' ') continue;
        std::string_view rest = extra.substr(at + key.size());
        return positiveIn(rest.substr(0, rest.find_first_of("; ,")));
    }
    return {};
}

constexpr std::array<std::string_view, 12> kColumns = {
    "kind", "gpu",   "dtype",  "batch_or_groups", "m",       "n",
    "k",    "extra", "tflops", "peak_tflops",     "time_us", "source"};

/// One row by column name.
class CsvRow {
public:
    CsvRow(const std::map<std::string, std::size_t, std::less<>>& columns, const Fields& fields)
        : m_columns(columns), m_fields(fields) {}
    [[nodiscard]] std::string_view text(std::string_view column) const {
        return m_fields[m_columns.find(column)->second];
    }
    [[nodiscard]] std::optional<double> number(std::string_view column) const {
        return positiveIn(text(column));
    }

private:
    const std::map<std::string, std::size_t, std::less<>>& m_columns;
    const Fields& m_fields;
};

std::optional<KernelKind> kindOf(std::string_view text) {
    if (text == "matmul" || text == "gemm") return KernelKind::Gemm;
    if (text == "group_matmul" || text == "grouped") return KernelKind::GroupedGemm;
    if (text == "fused_moe_layer" || text == "moe") return KernelKind::FusedMoe;
    if (text == "sdp_fwd" || text == "sdp_bwd") return KernelKind::Attention;
    return {};
}

KernelLibrary libraryOf(std::string_view source, std::string_view extra) {
    if (contains(source, "SimuMax")) return KernelLibrary::TransformerEngine;
    if (contains(source, "DeepGEMM")) return KernelLibrary::DeepGemm;
    if (contains(source, "vllm") || contains(extra, "vllm")) return KernelLibrary::Vllm;
    if (contains(source, "trtllm") || contains(extra, "TRT-LLM")) return KernelLibrary::TrtLlm;
    return KernelLibrary::Other;
}

std::optional<Precision> precisionOf(std::string_view dtype) {
    if (dtype == "bfloat16") return Precision::Bf16;
    if (dtype == "float16") return Precision::Fp16;
    if (dtype.starts_with("fp8") && contains(dtype, "128")) return Precision::Fp8Block;
    for (const EnumName<Precision>& p : enumNames<Precision>())
        if (p.name == dtype) return p.value;
    return {};
}

/// Peak and bandwidth of the row's device: of a compiled-in table's device, else the catalogue's.
std::optional<std::string> fillDevice(KernelTableKey& key, const CsvRow& row) {
    const std::optional<double> stated = row.number("peak_tflops");
    for (const std::string_view name : kKernelTableNames) {
        const KernelTableKey& known = publishedKey(name);
        if (known.device != key.device) continue;
        key.bandwidth = known.bandwidth;
        if (known.precision == key.precision) key.peak = known.peak;
    }
    const Result<DeviceSpec> device = findDevice(key.device);
    if (device.ok()) {
        if (key.bandwidth <= 0.0) key.bandwidth = device->memory_bandwidth.value;
        const Result<FlopsPerSecond> peak =
            device->peakFor(key.precision == Precision::Fp8Block ? Precision::Fp8 : key.precision);
        if (key.peak <= 0.0 && peak.ok()) key.peak = peak->value;
    }
    if (stated) key.peak = *stated * 1e12;
    if (key.bandwidth <= 0.0) return "no memory bandwidth known of " + key.device;
    if (key.peak <= 0.0) return "no peak known of " + key.device + " at this precision";
    return {};
}

bool gemmShape(KernelShape& s, const CsvRow& row) {
    const auto m = row.number("m"), n = row.number("n"), k = row.number("k");
    if (!m || !n || !k) return false;
    const std::string_view extra = row.text("extra");
    s.groups = row.number("batch_or_groups").value_or(1.0);
    s.m = *m;
    s.n = *n;
    s.k = *k;
    s.backward = contains(extra, "accumulate=True") || contains(extra, "stage=bwd_grad_w");
    if (contains(extra, "stage=bwd_grad_act")) std::swap(s.n, s.k);
    if (!s.backward) return true;
    // Stages of a grouped layer name rows m, width n and input k of the forward pass.
    if (contains(extra, "stage=bwd_grad_w"))
        s = {s.kind, true, s.groups, *n, *k, *m, 6.0, 1.0, 0.0};
    if (contains(extra, "accumulate=True"))
        s.output_bytes = contains(extra, "out_dtype=fp32") ? 8.0 : 4.0;
    if (s.m > s.n) std::swap(s.m, s.n);
    return true;
}

bool fusedShape(KernelShape& s, const CsvRow& row) {
    const std::string_view extra = row.text("extra");
    const auto n = row.number("n"), k = row.number("k"), tokens = tagged(extra, "num_tokens"),
               topk = tagged(extra, "topk"), experts = tagged(extra, "experts"),
               ep = tagged(extra, "ep");
    if (!n || !k || !tokens || !topk || !experts || !ep) return false;
    s.groups = *experts / *ep;
    s.m = *tokens * *topk / *experts;
    s.n = *n;
    s.k = *k;
    s.ep = *ep;
    return true;
}

bool attentionShape(KernelShape& s, const CsvRow& row) {
    const std::string_view extra = row.text("extra");
    const auto batch = tagged(extra, "batch"), seq = tagged(extra, "seq_len"),
               heads = tagged(extra, "head_num"), qk = tagged(extra, "qk_head_dim"),
               v = tagged(extra, "v_head_dim");
    if (!batch || !seq || !heads || !qk || !v) return false;
    s.backward = row.text("kind") == "sdp_bwd";
    s.groups = *batch * *heads;
    s.m = *seq;
    s.n = *qk;
    s.k = *v;
    s.context = *seq / 2.0;
    return true;
}

/// The reason why a row cannot be used, or nothing.
std::optional<std::string> readRow(const CsvRow& row, KernelTableKey& key, KernelRow& out) {
    const std::optional<KernelKind> kind = kindOf(row.text("kind"));
    if (!kind) return fmt::format("kind '{}' has no shape", row.text("kind"));
    const std::optional<Precision> precision = precisionOf(row.text("dtype"));
    if (!precision) return fmt::format("unknown dtype '{}'", row.text("dtype"));
    key = {*kind,      libraryOf(row.text("source"), row.text("extra")),
           *precision, std::string(row.text("gpu")),
           0.0,        0.0};
    out.shape.kind = *kind;
    const bool shaped = *kind == KernelKind::FusedMoe    ? fusedShape(out.shape, row)
                        : *kind == KernelKind::Attention ? attentionShape(out.shape, row)
                                                         : gemmShape(out.shape, row);
    if (!shaped) return "a size of the shape is missing";
    if (std::optional<std::string> reason = fillDevice(key, row)) return reason;
    const auto micros = row.number("time_us"), rate = row.number("tflops");
    if (!micros && !rate) return "neither time_us nor tflops";
    // Attention is published in FLOPs of the full square, causal or not.
    const double square = *kind == KernelKind::Attention ? 2.0 : 1.0;
    out.seconds = micros ? *micros * 1e-6 : square * out.shape.flops() / (*rate * 1e12);
    return {};
}

KernelScore score(std::vector<double> errors, std::int64_t inside, std::int64_t extrapolated) {
    KernelScore out;
    out.rows = static_cast<std::int64_t>(errors.size());
    if (errors.empty()) return out;
    out.bias = quantile(errors, 0.5);
    for (double& e : errors) e = std::abs(e);
    out.median = quantile(errors, 0.5);
    out.p90 = quantile(errors, 0.9);
    out.worst = std::ranges::max(errors);
    out.inside = static_cast<double>(inside) / static_cast<double>(out.rows);
    out.extrapolated = extrapolated;
    return out;
}

/// Collects rows of one group.
class Scorer {
public:
    void add(double published, const KernelTime& predicted) {
        constexpr double kBand = 1.28;
        m_errors.push_back(predicted.seconds / published - 1.0);
        m_inside += std::abs(std::log2(predicted.seconds / published)) <=
                            kBand * std::max(0.03, predicted.spread)
                        ? 1
                        : 0;
        m_extrapolated += predicted.outside ? 1 : 0;
    }
    [[nodiscard]] KernelScore result() && {
        return score(std::move(m_errors), m_inside, m_extrapolated);
    }

private:
    std::vector<double> m_errors;
    std::int64_t m_inside = 0, m_extrapolated = 0;
};

}  // namespace

Result<PublishedRows> readPublishedRows(std::string_view csv, std::string_view where) {
    PublishedRows out;
    std::map<std::string, std::size_t, std::less<>> columns;
    std::map<std::string, std::size_t> groups;
    std::size_t width = 0;
    for (std::int64_t line = 1; !csv.empty(); ++line) {
        const std::size_t end = std::min(csv.find('\n'), csv.size());
        const std::string_view text = csv.substr(0, end);
        csv.remove_prefix(std::min(end + 1, csv.size()));
        if (text.empty()) continue;
        const Result<Fields> cells = csvCells(text, static_cast<std::size_t>(line), where);
        if (!cells.ok()) {
            if (columns.empty()) return cells.error();
            out.skipped.push_back({line, cells.error().message});
            continue;
        }
        const Fields& fields = *cells;
        if (columns.empty()) {
            for (std::size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
            width = fields.size();
            for (const std::string_view column : kColumns)
                if (!columns.contains(column))
                    return Error{ErrorCode::InvalidInput,
                                 fmt::format("column '{}' is missing", column), std::string(where),
                                 "", "columns: " + joinWords(kColumns)};
            continue;
        }
        KernelTableKey key;
        KernelRow row;
        std::optional<std::string> reason;
        if (fields.size() != width)
            reason = fmt::format("{} fields, the header has {}", fields.size(), width);
        else
            reason = readRow(CsvRow(columns, fields), key, row);
        if (reason) {
            out.skipped.push_back({line, *reason});
            continue;
        }
        const auto [at, added] = groups.try_emplace(describe(key), out.groups.size());
        if (added) out.groups.push_back({key, {}});
        out.groups[at->second].rows.push_back(row);
    }
    if (out.groups.empty())
        return Error{ErrorCode::InvalidInput, "no row with a shape and a time", std::string(where),
                     out.skipped.empty() ? "" : "first: " + out.skipped.front().reason, ""};
    return out;
}

std::vector<PublishedGroup> compiledRows() {
    std::vector<PublishedGroup> out;
    for (std::size_t i = 0; i < kKernelTableNames.size(); ++i)
        out.push_back({publishedTable(i).key(), publishedTable(i).rows()});
    return out;
}

std::size_t foldOf(const KernelShape& s, std::size_t folds) {
    // SplitMix64's finisher after each size: neighbouring sizes fall apart.
    std::uint64_t h = 0;
    for (const double size : {s.groups, s.m, s.n, s.k, s.ep}) {
        h += static_cast<std::uint64_t>(size * 1024.0) + 0x9E3779B97F4A7C15ULL;
        h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
        h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
        h ^= h >> 31;
    }
    return static_cast<std::size_t>(h % folds);
}

KernelScore leaveOut(const PublishedGroup& group, std::size_t folds) {
    Scorer scorer;
    for (std::size_t fold = 0; fold < folds; ++fold) {
        std::vector<KernelRow> kept;
        for (const KernelRow& row : group.rows)
            if (foldOf(row.shape, folds) != fold) kept.push_back(row);
        if (kept.size() == group.rows.size()) continue;
        const KernelTable table(group.key, std::move(kept), true);
        for (const KernelRow& row : group.rows)
            if (foldOf(row.shape, folds) == fold)
                scorer.add(row.seconds, table.time(row.shape, table.site()));
    }
    return std::move(scorer).result();
}

KernelScore scoreRows(const PublishedGroup& group) {
    Scorer scorer;
    const KernelTableKey& key = group.key;
    const KernelTable* table = findPublishedTable(key.kind, key.library, key.precision, key.device);
    KernelSite site = siteOf(key);
    if (table) site.gemm = table->site().gemm;
    for (const KernelRow& row : group.rows)
        scorer.add(row.seconds, table ? table->time(row.shape, site)
                                      : KernelTime{kernelSeconds(site, row.shape), 0.26, false});
    return std::move(scorer).result();
}

std::string describe(const KernelTableKey& key) {
    return fmt::format("{} {} {} {}", kKernelKinds[static_cast<std::size_t>(key.kind)], key.device,
                       kKernelLibraries[static_cast<std::size_t>(key.library)],
                       toText(key.precision));
}

}  // namespace piper
