// SPDX-License-Identifier: Apache-2.0
#include "core/run/name_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace piper {
namespace {

/// Eight bytes a step; only the spread matters, nothing is stored by it.
std::uint32_t hashOf(std::string_view text) {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ text.size();
    const auto mix = [&](std::uint64_t word) {
        hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
        hash ^= hash >> 32;
    };
    std::size_t at = 0;
    std::uint64_t word = 0;
    for (; at + sizeof word <= text.size(); at += sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);
        mix(word);
    }
    word = 0;
    if (at < text.size()) std::memcpy(&word, text.data() + at, text.size() - at);
    mix(word);
    return static_cast<std::uint32_t>(hash);
}

}  // namespace

std::int32_t NameTable::intern(std::string_view text) {
    if (m_slots.size() < 2 * (m_names.size() + 1)) grow();
    const std::uint32_t hash = hashOf(text);
    const std::size_t mask = m_slots.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
        Slot& slot = m_slots[at];
        if (slot.name < 0) {
            slot = {hash, static_cast<std::int32_t>(m_names.size())};
            m_names.emplace_back(text);
            return slot.name;
        }
        if (slot.hash == hash && m_names[static_cast<std::size_t>(slot.name)] == text)
            return slot.name;
    }
}

std::vector<std::string> NameTable::take() {
    m_slots.clear();
    return std::exchange(m_names, {});
}

void NameTable::grow() {
    std::vector<Slot> old(std::max<std::size_t>(64, 2 * m_slots.size()));
    old.swap(m_slots);
    const std::size_t mask = m_slots.size() - 1;
    for (const Slot& slot : old) {
        if (slot.name < 0) continue;
        std::size_t at = slot.hash & mask;
        while (m_slots[at].name >= 0) at = (at + 1) & mask;
        m_slots[at] = slot;
    }
}

}  // namespace piper
