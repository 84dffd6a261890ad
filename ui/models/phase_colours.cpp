// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/phase_colours.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace piper::ui {
namespace {

struct Look {
    const char* label;
    const char* light;
    const char* dark;
};

// In the order of Phase.
constexpr std::array<Look, kNumPhases> kPhases = {{{"Embedding", "#6c8ebf", "#7f9fd0"},
                                                   {"Attention", "#2f6fb0", "#3f86cc"},
                                                   {"Router", "#7fc4e8", "#8fd0f0"},
                                                   {"Dispatch", "#e69f00", "#e8a820"},
                                                   {"Expert", "#1b9e77", "#2bb38a"},
                                                   {"Combine", "#d55e00", "#e0701a"},
                                                   {"Head and loss", "#4b4b9e", "#7a7ad0"},
                                                   {"TP communication", "#cc79a7", "#d98fb8"},
                                                   {"CP communication", "#a8508f", "#bd66a5"},
                                                   {"PP communication", "#d8c34a", "#e0ce62"},
                                                   {"DP communication", "#8c2d4f", "#b5446b"},
                                                   {"Optimizer", "#8a8a3a", "#a3a34e"},
                                                   {"Idle", "#d9dde2", "#3a3f46"}}};

// In the order of MemoryTerm. State that stays is cool, activations are warm, the rest is grey.
constexpr std::array<Look, kNumMemoryTerms> kTerms = {
    {{"Weights", "#2f6fb0", "#3f86cc"},
     {"Gradients", "#56a0d3", "#6bb0e0"},
     {"Master weights", "#9cc9e8", "#a9d3f0"},
     {"Optimizer state", "#4b4b9e", "#7a7ad0"},
     {"Embedding activations", "#b9d7a8", "#9fbf8d"},
     {"Attention activations", "#1b9e77", "#2bb38a"},
     {"Router activations", "#7cc7a4", "#86cfae"},
     {"Dispatched rows", "#e69f00", "#e8a820"},
     {"Expert intermediates", "#d55e00", "#e0701a"},
     {"Combine activations", "#f0b27a", "#e8b184"},
     {"Head activations", "#cc79a7", "#d98fb8"},
     {"Stage boundary", "#d8c34a", "#e0ce62"},
     {"Activation gradients", "#8c2d4f", "#b5446b"},
     {"Communication buffers", "#8a8a3a", "#a3a34e"},
     {"Workspace", "#9aa1a9", "#7c848d"},
     {"Other", "#c4c9cf", "#565d66"}}};

double linear(double v) {
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& c) {
    return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
}

/// Contrast ratio of WCAG 2.1.
double contrast(const QColor& a, const QColor& b) {
    const double x = luminance(a), y = luminance(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

QColor pick(const Look& look, bool dark) {
    return QColor(QLatin1String(dark ? look.dark : look.light));
}

}  // namespace

QColor phaseColour(Phase phase, bool dark) {
    return pick(kPhases[static_cast<std::size_t>(phase)], dark);
}

QColor textOn(const QColor& fill) {
    static const QColor ink(0x10, 0x13, 0x17), paper(0xff, 0xff, 0xff);
    return contrast(fill, ink) >= contrast(fill, paper) ? ink : paper;
}

QColor memoryTermColour(MemoryTerm term, bool dark) {
    return pick(kTerms[static_cast<std::size_t>(term)], dark);
}

QColor runColour(int index, bool dark) {
    static constexpr Look runs[] = {{"", "#8fa8c4", "#6d8bb0"}, {"", "#d08a3c", "#d9994f"}};
    return pick(runs[index % 2], dark);
}

QColor heatColour(double share, bool dark) {
    static const std::array<QColor, 3> light = {QColor(0xe8, 0xf0, 0xf7), QColor(0x8f, 0xbc, 0xe0),
                                                QColor(0x1f, 0x57, 0x92)};
    static const std::array<QColor, 3> night = {QColor(0x21, 0x2d, 0x3a), QColor(0x2f, 0x6f, 0xb0),
                                                QColor(0xa9, 0xd3, 0xf0)};
    const auto& scale = dark ? night : light;
    const double at = 2.0 * std::clamp(share, 0.0, 1.0);
    const std::size_t below = at < 1.0 ? 0 : 1;
    const auto part = static_cast<float>(at - static_cast<double>(below));
    const QColor &from = scale[below], &to = scale[below + 1];
    const auto mix = [part](float a, float b) { return a + part * (b - a); };
    return QColor::fromRgbF(mix(from.redF(), to.redF()), mix(from.greenF(), to.greenF()),
                            mix(from.blueF(), to.blueF()));
}

QColor warningColour(bool dark) {
    return QColor(QLatin1String(dark ? "#e8875a" : "#b8431a"));
}

QColor goodColour(bool dark) {
    return QColor(QLatin1String(dark ? "#5cc2a0" : "#147a5b"));
}

QString phaseLabel(Phase phase) {
    return QString::fromLatin1(kPhases[static_cast<std::size_t>(phase)].label);
}

QString memoryTermLabel(MemoryTerm term) {
    return QString::fromLatin1(kTerms[static_cast<std::size_t>(term)].label);
}

}  // namespace piper::ui
