// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/text_format.h"

#include <QLocale>
#include <cmath>

namespace piper::ui {
namespace {

int decimalsOf(double value) {
    const double size = std::abs(value);
    return size < 10 ? 2 : size < 100 ? 1 : 0;
}

QString scaled(double value, double step, std::initializer_list<const char*> units,
               bool whole_first) {
    const auto* unit = units.begin();
    while (unit + 1 != units.end() && std::abs(value) >= step) {
        value /= step;
        ++unit;
    }
    const int decimals = whole_first && unit == units.begin() ? 0 : decimalsOf(value);
    return QLocale().toString(value, 'f', decimals) + u' ' + QString::fromUtf8(*unit);
}

}  // namespace

QString percentText(double ratio, int decimals) {
    return QLocale().toString(ratio * 100.0, 'f', decimals) + QStringLiteral(" %");
}

QString differenceText(double base, double other) {
    if (base == 0.0) return other == 0.0 ? QStringLiteral("0.0 %") : QStringLiteral("–");
    const double ratio = (other - base) / base;
    return (ratio >= 0 ? QStringLiteral("+") : QString()) + percentText(ratio);
}

QString secondsText(Seconds s) {
    return scaled(s.value * 1e9, 1000.0, {"ns", "µs", "ms", "s"}, true);
}

QString nanosecondsText(std::int64_t ns) {
    return secondsText(nanoseconds(static_cast<double>(ns)));
}

QString bytesText(Bytes b) {
    return scaled(b.value, 1024.0, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}, true);
}

QString flopsText(Flops f) {
    return scaled(f.value, 1000.0,
                  {"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"}, true);
}

QString countText(double count) {
    return QLocale().toString(count, 'f', 0);
}

QString countText(std::int64_t count) {
    return countText(static_cast<double>(count));
}

QString parametersText(double count) {
    return scaled(count, 1000.0, {"", "K", "M", "B", "T"}, true);
}

QString evidenceText(EvidenceKind kind) {
    switch (kind) {
        case EvidenceKind::Measured:
            return QStringLiteral("measured");
        case EvidenceKind::Published:
            return QStringLiteral("published");
        case EvidenceKind::VendorPeak:
            return QStringLiteral("vendor peak");
        case EvidenceKind::Assumed:
            return QStringLiteral("assumed");
    }
    return {};
}

QString text(std::string_view s) {
    return QString::fromUtf8(s.data(), static_cast<qsizetype>(s.size()));
}

QString errorText(const Error& error) {
    return text(error.text());
}

}  // namespace piper::ui
