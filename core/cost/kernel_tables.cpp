// SPDX-License-Identifier: Apache-2.0
#include "core/cost/kernel_tables.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/enum_text.h"

namespace piper {

namespace {

/// Axes of the ratio: an octave of a size is 1; groups, heads and lengths matter less; forward and
/// backward are far apart where they are other kernels (attention), an octave where only the output
/// differs (GEMM).
RatioField::Place placeOf(const KernelShape& s) {
    const auto log = [](double x) { return static_cast<float>(std::log2(x)); };
    switch (s.kind) {
        case KernelKind::Gemm:
            return {log(s.m), log(s.n), log(s.k), 0.0F, s.backward ? 1.0F : 0.0F};
        case KernelKind::GroupedGemm:
            return {log(s.m), log(s.n), log(s.k), 0.5F * log(s.groups), s.backward ? 1.0F : 0.0F};
        case KernelKind::FusedMoe:
            return {log(s.m), log(s.n), log(s.k), 0.5F * log(s.groups), 0.5F * log(s.ep)};
        case KernelKind::Attention:
            return {0.5F * log(s.groups), 0.5F * log(s.m), log(std::max(s.n, s.k)), 0.0F,
                    s.backward ? 8.0F : 0.0F};
    }
    return {};
}

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> out;
    while (!line.empty()) {
        const std::size_t start = line.find_first_not_of(' ');
        if (start == std::string_view::npos) break;
        line.remove_prefix(start);
        const std::size_t end = std::min(line.find(' '), line.size());
        out.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
    return out;
}

std::optional<double> number(std::string_view text) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value > 0.0)) return {};
    return value;
}

template <std::size_t N>
std::optional<std::size_t> indexOf(const std::array<std::string_view, N>& names,
                                   std::string_view name) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) return {};
    return static_cast<std::size_t>(at - names.begin());
}

/// "table KIND LIBRARY PRECISION TFLOPS GB_S DEVICE..."
std::optional<KernelTableKey> readKey(const std::vector<std::string_view>& line) {
    if (line.size() < 7 || line[0] != "table") return {};
    const auto kind = indexOf(kKernelKinds, line[1]);
    const auto library = indexOf(kKernelLibraries, line[2]);
    const auto peak = number(line[4]), bandwidth = number(line[5]);
    KernelTableKey key;
    bool known = false;
    for (const EnumName<Precision>& p : enumNames<Precision>())
        if (p.name == line[3]) {
            key.precision = p.value;
            known = true;
        }
    if (!kind || !library || !peak || !bandwidth || !known) return {};
    key.kind = static_cast<KernelKind>(*kind);
    key.library = static_cast<KernelLibrary>(*library);
    key.peak = *peak * 1e12;
    key.bandwidth = *bandwidth * 1e9;
    for (std::size_t i = 6; i < line.size(); ++i) {
        if (i > 6) key.device += ' ';
        key.device += line[i];
    }
    return key;
}

/// What the columns of one row say.
class RowReader {
public:
    RowReader(KernelKind kind, std::vector<std::string_view> columns)
        : m_kind(kind), m_columns(std::move(columns)) {}

    bool set(std::string_view column, std::string_view text) {
        if (column == "pass") {
            m_pass = text.size() == 1 ? text[0] : '?';
            return std::string_view("fbwhu").find(m_pass) != std::string_view::npos;
        }
        const std::optional<double> value = number(text);
        if (!value) return false;
        for (std::size_t i = 0; i < kNames.size(); ++i)
            if (kNames[i] == column) {
                m_values[i] = *value;
                return true;
            }
        return false;
    }
    bool read(const std::vector<std::string_view>& line) {
        if (line.size() < m_columns.size()) return false;
        for (std::size_t i = 0; i < m_columns.size(); ++i)
            if (!set(m_columns[i], line[i])) return false;
        return true;
    }
    [[nodiscard]] double time() const { return m_values[11] * 1e-6; }
    [[nodiscard]] std::size_t columns() const { return m_columns.size(); }

    [[nodiscard]] KernelShape shape() const {
        const auto [m, n, k, groups, tokens, topk, experts, ep, batch, heads, seq, time, qk, v,
                    kv] = m_values;
        KernelShape s{m_kind, m_pass == 'b', groups, m, n, k, 2.0, 1.0, 0.0};
        if (m_kind == KernelKind::FusedMoe) {
            s.groups = experts / ep;
            s.m = tokens * topk / experts;
            s.ep = ep;
        } else if (m_kind == KernelKind::Attention) {
            s = {m_kind, m_pass == 'b', batch * heads, seq, qk, v, 2.0, 1.0, seq / 2.0};
        } else if (m_pass != 'f') {
            // Both matrices of a weight gradient are alike: the smaller first.
            s = {m_kind, true, groups, std::min(m, n), std::max(m, n), k, 8.0, 1.0, 0.0};
            s.output_bytes = m_pass == 'w' ? 8.0 : m_pass == 'h' ? 4.0 : 6.0;
        }
        return s;
    }

private:
    static constexpr std::array<std::string_view, 15> kNames = {
        "m",     "n",     "k",   "groups", "tokens", "topk", "experts", "ep",
        "batch", "heads", "seq", "time",   "qk",     "v",    "kv"};
    KernelKind m_kind;
    std::vector<std::string_view> m_columns;
    char m_pass = 'f';
    std::array<double, 15> m_values = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
};

template <std::size_t I>
const KernelTable& builtTable() {
    static const KernelTable table = [] {
        Result<KernelTable> read =
            readKernelTable(embeddedKernelTable(kKernelTableNames[I]), kKernelTableNames[I]);
        PIPER_CHECK(read.ok());
        return std::move(*read);
    }();
    return table;
}

using TableGetter = const KernelTable& (*)();
template <std::size_t... I>
constexpr std::array<TableGetter, sizeof...(I)> getters(std::index_sequence<I...>) {
    return {&builtTable<I>...};
}
constexpr auto kGetters = getters(std::make_index_sequence<kKernelTableNames.size()>());

struct ListedTable {
    KernelTableKey key;
    Die die;
};

/// Key lines of all tables, so that a search need not read the tables.
const std::vector<ListedTable>& publishedKeys() {
    static const std::vector<ListedTable> keys = [] {
        std::vector<ListedTable> out;
        for (const std::string_view name : kKernelTableNames) {
            const std::string_view text = embeddedKernelTable(name);
            const std::size_t at = text.find("\ntable ");
            PIPER_CHECK(at != std::string_view::npos);
            const std::string_view line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
            std::optional<KernelTableKey> key = readKey(words(line));
            PIPER_CHECK(key.has_value());
            const Die die = chipOf(key->device).die;
            out.push_back({std::move(*key), die});
        }
        return out;
    }();
    return keys;
}

}  // namespace

KernelSite siteOf(const KernelTableKey& key) {
    const Chip chip = chipOf(key.device);
    KernelSite site{key.peak, key.bandwidth, chip.units, elementBytes(key.precision).value, {}, {}};
    const std::optional<GemmConstants> known =
        gemmConstants(chip.die, key.library, key.kind, key.precision, contains(key.device, "PCIe"));
    site.gemm = known ? *known : familyConstants(chip, key.precision);
    site.attention = attentionConstants(chip.die).value_or(assumedAttention());
    return site;
}

KernelTable::KernelTable(KernelTableKey key, std::vector<KernelRow> rows, bool measure_spread)
    : m_key(std::move(key)),
      m_die(chipOf(m_key.device).die),
      m_rows(std::move(rows)),
      m_site(siteOf(m_key)) {
    std::vector<RatioField::Point> points;
    points.reserve(m_rows.size());
    for (const KernelRow& row : m_rows)
        points.push_back(
            {placeOf(row.shape), std::log2(row.seconds / kernelSeconds(m_site, row.shape)), 0.0F});
    m_field = RatioField(std::move(points));
    if (measure_spread) m_field.measureSpread();
}

KernelTime KernelTable::time(const KernelShape& shape, const KernelSite& site) const {
    const RatioField::Value at = m_field.at(placeOf(shape));
    // Far from every point the ratio says little: it fades over the octaves.
    const double fade = 1.0 / (1.0 + std::pow(at.distance / 3.0, 4.0));
    const double spread = at.spread + (1.0 - fade) * std::abs(at.log_ratio);
    return {kernelSeconds(site, shape) * std::exp2(at.log_ratio * fade), spread, at.outside};
}

Result<KernelTable> readKernelTable(std::string_view text, std::string_view where) {
    std::optional<KernelTableKey> key;
    std::optional<RowReader> reader;
    std::string_view axis_name;
    std::vector<std::string_view> axis;
    std::vector<KernelRow> rows;
    int number_of_line = 0;
    const auto bad = [&](std::string_view what) {
        return Error{ErrorCode::InvalidInput, fmt::format("line {}: {}", number_of_line, what),
                     std::string(where), "", ""};
    };
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::vector<std::string_view> line = words(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        ++number_of_line;
        if (line.empty() || line[0] == "#") continue;
        if (!key) {
            key = readKey(line);
            if (!key) return bad("expected 'table KIND LIBRARY PRECISION TFLOPS GB_S DEVICE'");
        } else if (line[0] == "columns") {
            reader.emplace(key->kind, std::vector(line.begin() + 1, line.end()));
        } else if (line[0] == "axis" && line.size() > 2) {
            axis_name = line[1];
            axis.assign(line.begin() + 2, line.end());
        } else if (!reader || !reader->read(line)) {
            return bad("a row that its columns do not describe");
        } else if (axis.empty()) {
            rows.push_back({reader->shape(), reader->time()});
        } else {
            const std::size_t first = reader->columns() + 1;  // after '|'
            if (line.size() != first + axis.size()) return bad("a row of another length");
            for (std::size_t i = 0; i < axis.size(); ++i) {
                if (line[first + i] == "-") continue;
                if (!reader->set(axis_name, axis[i]) || !reader->set("time", line[first + i]))
                    return bad("a time that is no number above 0");
                rows.push_back({reader->shape(), reader->time()});
            }
        }
    }
    if (!key || rows.empty()) return bad("no row");
    return KernelTable(std::move(*key), std::move(rows), true);
}

const KernelTableKey& publishedKey(std::string_view name) {
    const auto index = indexOf(kKernelTableNames, name);
    PIPER_CHECK(index.has_value());
    return publishedKeys()[*index].key;
}

const KernelTable& publishedTable(std::size_t index) {
    PIPER_CHECK(index < kGetters.size());
    return kGetters[index]();
}

bool sameDevice(std::string_view table_device, std::string_view name) {
    // "H100 SXM" in "H100 SXM" but not in "H100 SXM 96GB HBM2e (500W)"; "B200" is not "GB200".
    if (!name.starts_with(table_device)) return false;
    const std::string_view rest = name.substr(table_device.size());
    return rest.empty() || rest == " SXM" || rest == " 80GB";
}

const KernelTable* findPublishedTable(KernelKind kind, KernelLibrary library, Precision precision,
                                      std::string_view device_name) {
    const Die die = chipOf(device_name).die;
    const std::vector<ListedTable>& listed = publishedKeys();
    std::size_t found = listed.size();
    for (std::size_t i = 0; i < listed.size(); ++i) {
        const KernelTableKey& key = listed[i].key;
        if (key.kind != kind || key.library != library || key.precision != precision) continue;
        if (sameDevice(key.device, device_name)) return &publishedTable(i);
        if (found == listed.size() && die != Die::Unknown && listed[i].die == die) found = i;
    }
    return found < listed.size() ? &publishedTable(found) : nullptr;
}

}  // namespace piper
