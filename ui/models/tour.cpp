// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/tour.h"

#include <algorithm>
#include <array>

namespace piper::ui {
namespace {

constexpr auto kSteps = std::to_array<TourStep>({
    {"plan", "A plan under sliders",
     "This is Mixtral-8x7B on 64 H100. Drag a slider: step time, memory and MFU follow under the "
     "finger, with their range and what they rest on. Pin keeps a plan beside those to come; "
     "Ctrl+Z "
     "takes every change back. A config.json dropped here becomes the model.",
     "Plan", "Pin this plan"},
    {"explore", "The best plans, and why not others",
     "Search ranks every plan that fits. Table, points and heat map show the same plans; a double "
     "click puts the sliders there. Ask why not another one: the rule, the memory or the term that "
     "costs the time is named.",
     "Explore", "Search for the best plans"},
    {"schedule", "The step as a picture",
     "Every forward and backward pass, exchange and wait of the modelled step, a rank a stage. W A "
     "S D zoom and move, a drag sums what is inside it, ? shows all keys, which can be changed.",
     "Timeline", "These keys"},
    {"runs", "Train it and watch",
     "A small plan trains on this machine: take it, press Run, and loss and progress are live. The "
     "runs listed were recorded before: a double click shows one beside its model. "
     "Sessions adds clusters behind SSH, where the same button submits the same plan.",
     "Runs", "Open the plan for this machine"},
    {"export", "Take it away",
     "The plan as the files of Megatron-LM, DeepSpeed, torchtitan or Slurm, and a report that a "
     "colleague can read alone. After a run, Compare shows it beside its model. Ctrl+K finds every "
     "command by its name.",
     "Window", "All commands…"},
});

const QString kSeen = QStringLiteral("tour.seen");

}  // namespace

std::span<const TourStep> tourSteps() {
    return kSteps;
}

Tour::Tour(Preferences& preferences, QObject* parent)
    : QObject(parent), m_preferences(preferences) {}

bool Tour::seen() const {
    return m_preferences.holds(kSeen);
}

const TourStep& Tour::step() const {
    return kSteps[static_cast<std::size_t>(std::max(0, m_at))];
}

void Tour::start() {
    go(0);
}

void Tour::next() {
    if (running()) go(m_at + 1 < static_cast<int>(kSteps.size()) ? m_at + 1 : -1);
}

void Tour::back() {
    if (m_at > 0) go(m_at - 1);
}

void Tour::end() {
    if (running()) go(-1);
}

void Tour::go(int to) {
    m_at = to;
    m_preferences.set(kSeen, QStringLiteral("yes"));
    Q_EMIT changed();
}

}  // namespace piper::ui
