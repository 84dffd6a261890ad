// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/import_report.h"

#include <algorithm>

namespace piper {

template <>
std::span<const EnumName<ImportSeverity>> enumNames<ImportSeverity>() {
    static constexpr EnumName<ImportSeverity> rows[] = {{ImportSeverity::Info, "info"},
                                                        {ImportSeverity::DataLoss, "data_loss"},
                                                        {ImportSeverity::Error, "error"}};
    return rows;
}

void ImportCounters::add(std::string_view name, ImportSeverity severity, std::int64_t count,
                         std::string_view first) {
    if (count == 0) return;
    auto found = m_entries.find(name);
    if (found == m_entries.end()) found = m_entries.try_emplace(std::string(name)).first;
    Entry& entry = found->second;
    if (entry.count == 0) entry.first = std::string(first);
    entry.severity = std::max(entry.severity, severity);
    entry.count += count;
}

std::int64_t ImportCounters::count(std::string_view name) const {
    const auto found = m_entries.find(name);
    return found == m_entries.end() ? 0 : found->second.count;
}

bool ImportCounters::lostData() const {
    return std::any_of(m_entries.begin(), m_entries.end(), [](const auto& entry) {
        return entry.second.severity != ImportSeverity::Info;
    });
}

void ImportCounters::merge(const ImportCounters& other) {
    for (const auto& [name, entry] : other.m_entries)
        add(name, entry.severity, entry.count, entry.first);
}

std::string ImportCounters::text() const {
    std::string out;
    for (const auto& [name, entry] : m_entries) {
        out += fmt::format("{} {}: {}", toText(entry.severity), name, entry.count);
        if (!entry.first.empty()) out += fmt::format(" (first: {})", entry.first);
        out += "\n";
    }
    return out;
}

}  // namespace piper
