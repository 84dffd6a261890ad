// SPDX-License-Identifier: Apache-2.0
#include "core/run/timeline.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/base/enum_text.h"
#include "core/run/rank_clock.h"
#include "core/run/timeline_blocks.h"

namespace piper {
namespace {

std::string words(std::string_view name) {
    std::string out(name);
    std::replace(out.begin(), out.end(), '_', ' ');
    return out;
}

std::string lowerCase(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

std::string operationText(const EventLabel& e) {
    switch (e.kind) {
        case OperationKind::Optimizer:
            return "optimizer";
        case OperationKind::Dispatch:
        case OperationKind::Combine:
            return words(toText(e.kind)) +
                   (e.pass == Pass::Forward ? "" : " " + words(toText(e.pass)));
        default:
            return words(toText(e.phase)) + " " + words(toText(e.kind));
    }
}

}  // namespace

std::string labelText(const EventLabel& label, const RankTimeline& rank) {
    const auto i = static_cast<std::size_t>(label.name);
    if (label.name >= 0 && i < rank.names.size()) return rank.names[i];
    if (label.category == EventCategory::Operation) return operationText(label);
    return words(toText(label.category));
}

std::string rowText(const TimelineRow& row, const RankTimeline& rank) {
    const auto track = static_cast<std::size_t>(row.track);
    std::string text = row.track >= 0 && track < rank.tracks.size() ? rank.tracks[track].name
                                                                    : std::string(toText(row.lane));
    if (row.sub_lane == kMarkRow) return text + " marks";
    if (row.sub_lane > 0) text += fmt::format(" {}", row.sub_lane + 1);
    return text;
}

void SelectionSums::add(std::size_t rank, const EventLabel& label, const Sum& sum) {
    const std::size_t hash = static_cast<std::uint32_t>(label.name) * 31U +
                             static_cast<std::size_t>(label.phase) * 7U +
                             static_cast<std::size_t>(label.kind) + rank * 131U;
    Slot& slot = m_recent[hash % kSlots];
    if (slot.rank != rank || slot.label != label) slot = {rank, label, &m_sums[{rank, label}]};
    slot.sum->add(sum);
}

std::vector<SelectionTotal> SelectionSums::take(const Run& header) const {
    std::map<std::string, std::size_t> places;
    std::vector<SelectionTotal> out;
    for (const auto& [key, sum] : m_sums) {
        std::string name = labelText(key.second, header.ranks[key.first]);
        const auto [place, fresh] = places.try_emplace(name, out.size());
        if (fresh) out.push_back({std::move(name), key.second, 0, 0, 0});
        SelectionTotal& total = out[place->second];
        total.count += sum.count;
        total.sum_ns += sum.sum_ns;
        total.longest_ns = std::max(total.longest_ns, sum.longest_ns);
    }
    std::stable_sort(out.begin(), out.end(), [](const SelectionTotal& a, const SelectionTotal& b) {
        return a.sum_ns > b.sum_ns;
    });
    return out;
}

LabelMatcher::LabelMatcher(const Run& header, std::string wanted)
    : m_header(header), m_wanted(lowerCase(wanted)) {}

bool LabelMatcher::matches(std::size_t rank, const EventLabel& label) {
    if (m_wanted.empty()) return true;
    const auto [known, fresh] = m_known.try_emplace({rank, label}, false);
    if (fresh)
        known->second =
            lowerCase(labelText(label, m_header.ranks[rank])).find(m_wanted) != std::string::npos;
    return known->second;
}

void TimelineSource::setSteps(const std::vector<StepWindows>& ranks) {
    if (m_extent.end_ns <= m_extent.begin_ns) m_extent = {0, 1'000'000};
    std::map<std::int32_t, TimeWindow> steps;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        const RankClock clock(m_header.ranks[r]);
        for (const auto& [step, window] : ranks[r]) {
            const TimeWindow common{clock.toCommon(window.begin), clock.toCommon(window.end)};
            const auto [it, fresh] = steps.try_emplace(step, common);
            it->second.begin_ns = std::min(it->second.begin_ns, common.begin_ns);
            it->second.end_ns = std::max(it->second.end_ns, common.end_ns);
        }
    }
    m_steps.clear();
    for (const auto& [step, window] : steps) m_steps.push_back(window);
    if (m_steps.empty()) m_steps.push_back(m_extent);
}

Result<std::string> dumpTimeline(TimelineSource& source) {
    PIPER_ASSIGN(const TimelineView view, source.view(source.extent(), 1));
    std::string out;
    for (std::size_t row = 0; row < source.rows().size(); ++row) {
        std::int64_t count = 0, busy = 0;
        for (const TimelineBlock& block : view.row(row)) {
            count += block.count;
            busy += block.busy_ns;
        }
        const TimelineRow& info = source.rows()[row];
        const RankTimeline& rank = source.header().ranks[info.rank];
        out += fmt::format("rank {} | {} | {} events | {} ns busy\n", rank.rank.value,
                           rowText(info, rank), count, busy);
    }
    return out;
}

}  // namespace piper
