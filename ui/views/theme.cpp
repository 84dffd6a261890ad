// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/theme.h"

#include <QApplication>
#include <QFont>
#include <QStyleFactory>

namespace piper::ui {
namespace {

// In the order of Theme.
constexpr const char* kThemeNames[] = {"system", "light", "dark"};

struct Shades {
    const char *window, *base, *alternate, *text, *faint, *button, *line, *accent, *accent_text;
};

constexpr Shades kLight{"#f3f5f7", "#ffffff", "#f7f8fa", "#1f2429", "#66707b",
                        "#fafbfc", "#d3d9df", "#2f6fb0", "#ffffff"};
constexpr Shades kDark{"#1d2126", "#16191d", "#1a1e23", "#d8dde3", "#8f99a4",
                       "#2a3037", "#363d45", "#3f86cc", "#ffffff"};

QPalette makePalette(const Shades& s) {
    const auto c = [](const char* name) { return QColor(QLatin1String(name)); };
    QPalette p;
    p.setColor(QPalette::Window, c(s.window));
    p.setColor(QPalette::Base, c(s.base));
    p.setColor(QPalette::AlternateBase, c(s.alternate));
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText,
                            QPalette::ToolTipText, QPalette::BrightText})
        p.setColor(role, c(s.text));
    p.setColor(QPalette::PlaceholderText, c(s.faint));
    p.setColor(QPalette::Button, c(s.button));
    p.setColor(QPalette::ToolTipBase, c(s.button));
    p.setColor(QPalette::Light, c(s.button).lighter(110));
    p.setColor(QPalette::Midlight, c(s.line));
    p.setColor(QPalette::Mid, c(s.line));
    p.setColor(QPalette::Dark, c(s.line).darker(120));
    p.setColor(QPalette::Shadow, c(s.line).darker(150));
    p.setColor(QPalette::Highlight, c(s.accent));
    p.setColor(QPalette::HighlightedText, c(s.accent_text));
    p.setColor(QPalette::Link, c(s.accent));
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, c(s.faint));
    p.setColor(QPalette::Disabled, QPalette::Highlight, c(s.line));
    return p;
}

Theme& applied() {
    static Theme theme = Theme::System;
    return theme;
}

QString styleSheet(const Shades& s) {
    return QStringLiteral(R"(
        QLabel[role="title"] { font-size: 16px; font-weight: 600; }
        QLabel[role="section"] { font-weight: 600; }
        QLabel[role="faint"] { color: %1; }
        QLabel[role="value"] { font-size: 19px; font-weight: 600; }
        QFrame[role="card"] { background: %2; border: 1px solid %3; border-radius: 4px; }
        QFrame[role="card"] QLabel { background: transparent; border: none; }
        QListWidget#navigation { background: %4; border: none; padding-top: 8px; outline: none; }
        QListWidget#navigation::item { padding-left: 10px; border-left: 3px solid transparent; }
        QListWidget#navigation::item:selected { background: %2; color: %5;
                                                border-left: 3px solid %6; }
        QTableView, QPlainTextEdit { border: 1px solid %3; gridline-color: transparent; }
        QHeaderView::section { background: %4; border: none; border-bottom: 1px solid %3;
                               padding: 4px 8px; }
        QTableView::item { padding: 0 8px; border: none; }
        QSplitter::handle { background: transparent; }
        QToolTip { color: %5; background: %7; border: 1px solid %3; padding: 4px; }
        QDialog#palette { border: 1px solid %3; }
        QStatusBar { border-top: 1px solid %3; }
        QStatusBar::item { border: none; }
    )")
        .arg(QLatin1String(s.faint), QLatin1String(s.base), QLatin1String(s.line),
             QLatin1String(s.window), QLatin1String(s.text), QLatin1String(s.accent),
             QLatin1String(s.button));
}

}  // namespace

QPalette lightPalette() {
    return makePalette(kLight);
}

Theme currentTheme() {
    return applied();
}

QString themeName(Theme theme) {
    return QString::fromLatin1(kThemeNames[static_cast<std::size_t>(theme)]);
}

std::optional<Theme> themeOf(const QString& name) {
    for (std::size_t i = 0; i < std::size(kThemeNames); ++i)
        if (name == QLatin1String(kThemeNames[i])) return static_cast<Theme>(i);
    return std::nullopt;
}

bool isDark(const QPalette& palette) {
    return palette.color(QPalette::Window).lightnessF() < 0.5F;
}

void applyTheme(QApplication& application, Theme theme) {
    static const bool system_dark = isDark(QApplication::palette());
    const bool dark = theme == Theme::Dark || (theme == Theme::System && system_dark);
    applied() = theme;
    const Shades& shades = dark ? kDark : kLight;
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QFont font = QApplication::font();
    font.setPixelSize(13);
    QApplication::setFont(font);
    QApplication::setPalette(makePalette(shades));
    application.setStyleSheet(styleSheet(shades));
}

}  // namespace piper::ui
